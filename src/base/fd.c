/* Complete reads and writes, whole files, durable replacement. */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/rand.h"

int fd_write_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len > 0) {
		ssize_t n = write(fd, p, len);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

ssize_t fd_read_full(int fd, void *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = read(fd, (char *)data + done, len - done);

		if (n == 0)
			break;
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int fd_set_nonblock(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	flags = on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK;
	return fcntl(fd, F_SETFL, flags) < 0 ? -errno : 0;
}

int fd_set_cloexec(int fd, bool on)
{
	int flags = fcntl(fd, F_GETFD);

	if (flags < 0)
		return -errno;
	flags = on ? flags | FD_CLOEXEC : flags & ~FD_CLOEXEC;
	return fcntl(fd, F_SETFD, flags) < 0 ? -errno : 0;
}

int file_read(const char *path, size_t max_bytes, struct buf *out)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t start = out->len;
	int r = 0;

	if (fd < 0)
		return -errno;
	/* st_size is not asked: files of /proc and /sys say 0. */
	for (;;) {
		size_t left = max_bytes - (out->len - start);
		size_t chunk = left < 65536 ? left + 1 : 65536; /* one more tells "too large" */
		ssize_t n;

		buf_reserve(out, chunk);
		n = fd_read_full(fd, out->data + out->len, chunk);
		if (n < 0)
			r = (int)n;
		else if ((size_t)n > left)
			r = -EFBIG;
		if (r < 0)
			break;
		out->len += (size_t)n;
		out->data[out->len] = '\0';
		if ((size_t)n < chunk)
			return 0;
	}
	out->len = start;
	out->data[start] = '\0';
	return r;
}

/* The directory part of path, for openat(2): "a/b" gives "a", "b" gives ".", "/b" gives "/". */
static char *parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return xstrdup(".");
	return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

static int write_and_sync(int dir_fd, const char *name, const void *data, size_t len, mode_t mode)
{
	_cleanup_close_ int fd =
		openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = fd_write_all(fd, data, len);
	if (r < 0)
		return r;
	if (fchmod(fd, mode) < 0 || fsync(fd) < 0)
		return -errno;
	return 0;
}

int file_write_durable(const char *path, const void *data, size_t len, mode_t mode)
{
	_cleanup_free_ char *parent = parent_of(path);
	_cleanup_close_ int dir_fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	char suffix[17], temporary[32];
	int r;

	if (dir_fd < 0)
		return -errno;
	rand_hex(suffix, sizeof(suffix) - 1);
	snprintf(temporary, sizeof(temporary), ".tmp-%s", suffix);
	r = write_and_sync(dir_fd, temporary, data, len, mode);
	if (r == 0 && renameat(dir_fd, temporary, dir_fd, name) < 0)
		r = -errno;
	if (r < 0) {
		unlinkat(dir_fd, temporary, 0);
		return r;
	}
	return fsync(dir_fd) < 0 ? -errno : 0;
}

int dir_fsync(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return fsync(fd) < 0 ? -errno : 0;
}

static int make_one(const char *path, mode_t mode)
{
	struct stat st;

	if (mkdir(path, mode) == 0)
		return 0;
	if (errno != EEXIST)
		return -errno;
	if (stat(path, &st) < 0)
		return -errno;
	return S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

int dir_make(const char *path, mode_t mode)
{
	_cleanup_free_ char *copy = xstrdup(path);

	for (char *slash = copy + strspn(copy, "/"); (slash = strchr(slash, '/')); slash++) {
		int r;

		*slash = '\0';
		r = make_one(copy, mode);
		*slash = '/';
		if (r < 0)
			return r;
	}
	return make_one(copy, mode);
}

int64_t file_allocated_bytes(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	return (int64_t)st.st_blocks * 512;
}
