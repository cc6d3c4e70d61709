/*
 * See tree.h. The tree is hostile: every name in it is opened with its own root as "/", so that a
 * link leads nowhere else, and what is read must be a regular file.
 */
#include "import/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "guest/users.h"

static const struct {
	const char *name;
	mode_t mode;
} needed[] = {
	{ "proc", 0555 }, { "sys", 0555 }, { "dev", 0755 },
	{ "run", 0755 },  { "etc", 0755 }, { "tmp", 01777 },
};

static int open_in(int tree_fd, const char *path, int flags)
{
	struct open_how how = {
		.flags = (unsigned int)(flags | O_CLOEXEC),
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, tree_fd, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/* A directory and no link: a sandbox mounts on it, or makes files in it, before it runs. */
static int make_needed(int tree_fd, const char *name, mode_t mode, struct err *err)
{
	struct stat st;
	int r = 0;

	if (fstatat(tree_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		if (S_ISDIR(st.st_mode))
			return 0;
		r = tree_remove_at(tree_fd, name);
	}
	if (r == 0 && (mkdirat(tree_fd, name, mode) < 0 || fchmodat(tree_fd, name, mode, 0) < 0))
		r = -errno;
	return r < 0 ? err_set(err, r, "make '/%s' in the image: %s", name, strerrordesc_np(-r))
		     : 0;
}

/* mkdir -p in the tree. */
static int make_workdir(int tree_fd, const char *workdir)
{
	_cleanup_free_ char *path = xstrdup(workdir);
	_cleanup_close_ int fd = -1;

	for (char *slash = path; slash;) {
		_cleanup_close_ int parent = -1;
		char *name = slash + 1;

		slash = strchr(name, '/');
		if (slash)
			*slash = '\0';
		name[-1] = '\0';
		parent = open_in(tree_fd, *path ? path : "/", O_RDONLY | O_DIRECTORY);
		if (parent < 0)
			return parent;
		if (*name && mkdirat(parent, name, 0755) < 0 && errno != EEXIST)
			return -errno;
		name[-1] = '/';
		if (slash)
			*slash = '/';
	}
	fd = open_in(tree_fd, workdir, O_RDONLY | O_DIRECTORY);
	return fd < 0 ? fd : 0;
}

/* A missing file is an empty one. */
static void read_text(int tree_fd, const char *path, struct buf *out)
{
	_cleanup_close_ int fd = open_in(tree_fd, path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > USERS_FILE_MAX)
		return;
	buf_reserve(out, (size_t)st.st_size);
	n = fd_read_full(fd, out->data + out->len, (size_t)st.st_size);
	out->len += n > 0 ? (size_t)n : 0;
	out->data[out->len] = '\0';
}

static void check_user(int tree_fd, struct oci_image *image)
{
	_cleanup_buf_ struct buf passwd = BUF_INIT, group = BUF_INIT;
	struct user user;
	char *colon;
	int r;

	read_text(tree_fd, "etc/passwd", &passwd);
	read_text(tree_fd, "etc/group", &group);
	r = user_resolve(buf_str(&passwd), passwd.len, buf_str(&group), group.len, image->user,
			 &user);
	colon = strchr(image->user, ':');
	if (r == -ESRCH && colon) {
		oci_warn(image, "the image has no group '%s', which its USER names: it is left out",
			 colon + 1);
		*colon = '\0';
	} else if (r < 0) {
		oci_warn(image,
			 "the image has no user '%s', which it names as USER: commands run "
			 "as root",
			 image->user);
		str_copy(image->user, sizeof(image->user), "root");
	}
}

int tree_finish(int tree_fd, struct oci_image *image, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(needed) && r == 0; i++)
		r = make_needed(tree_fd, needed[i].name, needed[i].mode, err);
	if (r < 0)
		return r;
	r = make_workdir(tree_fd, image->workdir);
	if (r < 0) {
		oci_warn(image, "the image's WORKDIR '%s' cannot be made (%s): '/' is taken",
			 image->workdir, strerrordesc_np(-r));
		str_copy(image->workdir, sizeof(image->workdir), "/");
	}
	check_user(tree_fd, image);
	return 0;
}
