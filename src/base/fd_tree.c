/*
 * Removing a tree that hostile programs may have written: no link is followed, no mount point is
 * entered (openat2 with RESOLVE_NO_XDEV, which also sees bind mounts of the same file system), and
 * neither stack nor descriptors grow with the depth: a directory deeper than MAX_DEPTH is moved up
 * to the top of the tree, where a later round meets it again.
 */
#include "base/fd.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/rand.h"
#include "base/str.h"

#define MAX_DEPTH 64

struct removal {
	int top_fd; /* where deep directories are moved to */
	bool again; /* something was moved: the top needs another round */
};

DEFINE_CLEANUP(DIR *, closedirp, closedir);

static int open_dir_beneath(int dir_fd, const char *name)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH,
	};
	long fd;

	do {
		fd = syscall(SYS_openat2, dir_fd, name, &how, sizeof(how));
	} while (fd < 0 && (errno == EINTR || errno == EAGAIN));
	return fd < 0 ? -errno : (int)fd;
}

static int move_to_top(struct removal *removal, int dir_fd, const char *name)
{
	char suffix[17], moved[32];

	rand_hex(suffix, sizeof(suffix) - 1);
	snprintf(moved, sizeof(moved), ".remove-%s", suffix);
	if (renameat(dir_fd, name, removal->top_fd, moved) < 0)
		return errno == ENOENT ? 0 : -errno;
	removal->again = true;
	return 0;
}

static int remove_entry(struct removal *removal, int dir_fd, const char *name, unsigned depth);

/* Removes what is in the directory; goes on past failures and returns the first. */
static int remove_entries(struct removal *removal, int dir_fd, unsigned depth)
{
	_cleanup_(closedirp) DIR *dir = NULL;
	int fd = fcntl(dir_fd, F_DUPFD_CLOEXEC, 3);
	struct dirent *entry;
	int first = 0;

	if (fd < 0)
		return -errno;
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	rewinddir(dir); /* the duplicate shares its offset with the round before */
	while (errno = 0, (entry = readdir(dir))) {
		int r;

		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		r = remove_entry(removal, dir_fd, entry->d_name, depth);
		if (r < 0 && first == 0)
			first = r;
	}
	if (errno != 0 && first == 0)
		first = -errno;
	return first;
}

static int remove_entry(struct removal *removal, int dir_fd, const char *name, unsigned depth)
{
	_cleanup_close_ int fd = -1;
	int r;

	if (unlinkat(dir_fd, name, 0) == 0 || errno == ENOENT)
		return 0;
	/* Linux says EISDIR for a directory; POSIX and some file systems say EPERM. */
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(dir_fd, name, AT_REMOVEDIR) == 0)
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return errno == ENOENT ? 0 : -errno;
	if (depth >= MAX_DEPTH)
		return move_to_top(removal, dir_fd, name);

	fd = open_dir_beneath(dir_fd, name);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	r = remove_entries(removal, fd, depth + 1);
	if (r < 0)
		return r;
	return unlinkat(dir_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

int tree_empty(int dir_fd)
{
	struct removal removal = { .top_fd = dir_fd };
	int r;

	do {
		removal.again = false;
		r = remove_entries(&removal, dir_fd, 0);
	} while (r == 0 && removal.again);
	return r;
}

int tree_remove_at(int parent_fd, const char *name)
{
	_cleanup_close_ int top_fd = open_dir_beneath(parent_fd, name);
	int r;

	if (top_fd == -ENOENT)
		return 0;
	if (top_fd == -ENOTDIR || top_fd == -ELOOP)
		return unlinkat(parent_fd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
	if (top_fd < 0)
		return top_fd;
	r = tree_empty(top_fd);
	if (r < 0)
		return r;
	return unlinkat(parent_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

int tree_remove(const char *path)
{
	_cleanup_free_ char *copy = xstrdup(path);
	_cleanup_close_ int parent_fd = -1;
	size_t len = strlen(copy);
	const char *name = copy;
	char *slash;

	while (len > 1 && copy[len - 1] == '/')
		copy[--len] = '\0';
	slash = strrchr(copy, '/');
	if (slash) {
		name = slash + 1;
		*slash = '\0';
	}
	/* "/", "." and ".." are never what somebody meant. */
	if (*name == '\0' || str_eq(name, ".") || str_eq(name, ".."))
		return -EINVAL;
	parent_fd = open(slash ? (*copy ? copy : "/") : ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (parent_fd < 0)
		return errno == ENOENT ? 0 : -errno;
	return tree_remove_at(parent_fd, name);
}
