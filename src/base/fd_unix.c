/*
 * Unix sockets. sun_path holds 107 bytes; a longer path is reached through a descriptor of its
 * directory: /proc/self/fd/N/name.
 */
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"

struct unix_address {
	struct sockaddr_un sa;
	int dir_fd; /* -1 where the path fits; must live as long as sa is used */
};

static void address_clear(struct unix_address *address)
{
	cleanup_closep(&address->dir_fd);
}

#define _cleanup_address_ _cleanup_(address_clear)

static int address_make(const char *path, struct unix_address *ret)
{
	_cleanup_free_ char *parent = NULL;
	const char *slash = strrchr(path, '/');
	int len;

	*ret = (struct unix_address){ .sa.sun_family = AF_UNIX, .dir_fd = -1 };
	if (path[0] == '\0')
		return -EINVAL;
	if (str_copy(ret->sa.sun_path, sizeof(ret->sa.sun_path), path))
		return 0;
	if (!slash)
		return -ENAMETOOLONG;
	parent = xstrndup(path, (size_t)(slash - path));
	ret->dir_fd = open(*parent ? parent : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (ret->dir_fd < 0)
		return -errno;
	len = snprintf(ret->sa.sun_path, sizeof(ret->sa.sun_path), "/proc/self/fd/%d/%s",
		       ret->dir_fd, slash + 1);
	return (size_t)len < sizeof(ret->sa.sun_path) ? 0 : -ENAMETOOLONG;
}

static int connect_address(const struct unix_address *address, bool nonblock)
{
	_cleanup_close_ int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | (nonblock ? SOCK_NONBLOCK : 0), 0);
	int r;

	if (fd < 0)
		return -errno;
	do {
		r = connect(fd, (const struct sockaddr *)&address->sa, sizeof(address->sa));
	} while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : STEAL_FD(fd);
}

/* Unlinks the socket file when nobody listens on it any more; else -EADDRINUSE. */
static int remove_stale(const struct unix_address *address)
{
	_cleanup_close_ int probe = -1;
	struct stat st;

	if (lstat(address->sa.sun_path, &st) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EADDRINUSE;
	probe = connect_address(address, true);
	if (probe != -ECONNREFUSED)
		return -EADDRINUSE;
	return unlink(address->sa.sun_path) < 0 && errno != ENOENT ? -errno : 0;
}

int unix_listen(const char *path, mode_t mode)
{
	_cleanup_address_ struct unix_address address = { .dir_fd = -1 };
	_cleanup_close_ int fd = -1;
	const struct sockaddr *sa = (const struct sockaddr *)&address.sa;
	int r = address_make(path, &address);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, sa, sizeof(address.sa)) < 0) {
		if (errno != EADDRINUSE)
			return -errno;
		r = remove_stale(&address);
		if (r < 0)
			return r;
		if (bind(fd, sa, sizeof(address.sa)) < 0)
			return -errno;
	}
	/* Nobody can connect before listen(), so the mode is in force from the first moment. */
	if (chmod(address.sa.sun_path, mode) < 0 || listen(fd, SOMAXCONN) < 0) {
		r = -errno;
		unlink(address.sa.sun_path);
		return r;
	}
	return STEAL_FD(fd);
}

int unix_connect(const char *path, bool nonblock)
{
	_cleanup_address_ struct unix_address address = { .dir_fd = -1 };
	int r = address_make(path, &address);

	return r < 0 ? r : connect_address(&address, nonblock);
}
