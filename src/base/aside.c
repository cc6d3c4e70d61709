/* New content of files. See aside.h. */
#include "base/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/rand.h"

#define NAME_TRIES 8

void aside_name(char out[ASIDE_NAME_SIZE])
{
	char random[17];

	rand_hex(random, sizeof(random) - 1);
	snprintf(out, ASIDE_NAME_SIZE, ".skerry-%s", random);
}

static int open_named(struct aside *a)
{
	for (int i = 0; i < NAME_TRIES; i++) {
		aside_name(a->name);
		a->fd = openat(a->dir_fd, a->name,
			       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (a->fd >= 0) {
			a->named = true;
			return 0;
		}
		if (errno != EEXIST)
			break;
	}
	return -errno;
}

int aside_open(struct aside *a, int dir_fd)
{
	*a = (struct aside){ .dir_fd = dir_fd, .fd = -1 };
	a->fd = openat(dir_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	if (a->fd >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
		return -errno;
	return open_named(a); /* a file system without nameless files */
}

/* Of a nameless one. */
static int link_as(const struct aside *a, const char *name)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
	if (linkat(AT_FDCWD, path, a->dir_fd, name, AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	return 0;
}

static int take_name(struct aside *a, const char *name, bool replace)
{
	if (!a->named && !replace)
		return link_as(a, name);
	if (!a->named) {
		int r;

		aside_name(a->name);
		r = link_as(a, a->name);
		if (r < 0)
			return r;
		a->named = true;
	}
	if (renameat2(a->dir_fd, a->name, a->dir_fd, name, replace ? 0 : RENAME_NOREPLACE) < 0)
		return -errno;
	a->named = false;
	return 0;
}

int aside_commit(struct aside *a, const char *name, bool replace, bool durable)
{
	int r;

	if (durable && fsync(a->fd) < 0)
		return -errno;
	r = take_name(a, name, replace);
	if (r == 0 && durable && fsync(a->dir_fd) < 0)
		r = -errno;
	return r;
}

void aside_discard(struct aside *a)
{
	if (a->fd >= 0)
		close(STEAL_FD(a->fd));
	if (a->named)
		unlinkat(a->dir_fd, a->name, 0);
	a->named = false;
}
