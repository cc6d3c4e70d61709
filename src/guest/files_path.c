/* Where paths lead to. See files.h. */
#include "guest/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/str.h"

#define LINKS_MAX 40 /* as the kernel's */

void files_place_clear(struct files_place *place)
{
	if (place->dir_fd >= 0)
		close(STEAL_FD(place->dir_fd));
}

/* Cuts a path into its directory ("." where it names none) and its last part. */
static int split(const char *path, struct buf *dir, struct files_place *place, struct err *err)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (!*name || str_eq(name, ".") || str_eq(name, ".."))
		return err_set(err, -EISDIR, "'%.200s' names a directory, not what is in one",
			       path);
	if (!str_copy(place->name, sizeof(place->name), name))
		return files_fail(err, -ENAMETOOLONG, "use", path);
	buf_reset(dir);
	if (!slash)
		buf_append_char(dir, '.');
	else
		buf_append(dir, path, (size_t)(slash - path) + 1); /* "/" stays "/" */
	return 0;
}

/* Puts where a link points to in its place; false when the path is none, or is not there. */
static int follow_link(struct buf *path, bool *ret_was_link, struct err *err)
{
	char target[FILE_PATH_MAX + 1];
	ssize_t n = readlink(buf_str(path), target, sizeof(target));
	const char *slash;

	*ret_was_link = n >= 0;
	if (n < 0)
		return 0;
	slash = strrchr(buf_str(path), '/');
	path->len = n > 0 && target[0] == '/' ? 0 : slash ? (size_t)(slash - path->data) + 1 : 0;
	buf_append(path, target, (size_t)n);
	if (path->len > FILE_PATH_MAX)
		return files_fail(err, -ENAMETOOLONG, "follow", buf_str(path));
	return 0;
}

/* Makes one directory, and its name durable. One that is there is fine. */
static int make_one(const char *path, struct err *err)
{
	_cleanup_place_ struct files_place place = FILES_PLACE_INIT;
	_cleanup_buf_ struct buf dir = BUF_INIT;
	struct stat st;
	int r;

	if (mkdir(path, 0777) < 0) {
		r = -errno;
		if (r != -EEXIST)
			return stat(path, &st) == 0 && S_ISDIR(st.st_mode)
				       ? 0 /* of a file system that may not be written to */
				       : files_fail(err, r, "make the directory", path);
		if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
			return files_fail(err, -ENOTDIR, "make the directory", path);
		return 0;
	}
	r = split(path, &dir, &place, err);
	if (r < 0)
		return 0; /* "a/." was made as "a" */
	place.dir_fd = open(buf_str(&dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (place.dir_fd < 0 || fsync(place.dir_fd) < 0)
		return files_fail(err, -errno, "make durable the directory", path);
	return 0;
}

int files_make_parents(const char *path, struct err *err)
{
	_cleanup_buf_ struct buf so_far = BUF_INIT;

	while (*path) {
		size_t part = strspn(path, "/"), len = part + strcspn(path + part, "/");

		buf_append(&so_far, path, len);
		path += len;
		if (len > part) {
			int r = make_one(buf_str(&so_far), err);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

int files_place_find(const char *path, bool follow, bool parents, struct files_place *ret,
		     struct err *err)
{
	_cleanup_place_ struct files_place place = FILES_PLACE_INIT;
	_cleanup_buf_ struct buf at = BUF_INIT, dir = BUF_INIT;
	bool again = follow;
	int r = 0;

	buf_append_str(&at, path);
	for (int i = 0; again && r == 0; i++) {
		if (i == LINKS_MAX)
			return files_fail(err, -ELOOP, "follow", path);
		r = follow_link(&at, &again, err);
	}
	if (r == 0)
		r = split(buf_str(&at), &dir, &place, err);
	if (r == 0 && parents)
		r = files_make_parents(buf_str(&dir), err);
	if (r < 0)
		return r;
	place.dir_fd = open(buf_str(&dir), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (place.dir_fd < 0)
		return files_fail(err, -errno, "open the directory", buf_str(&dir));
	ret->dir_fd = STEAL_FD(place.dir_fd);
	memcpy(ret->name, place.name, sizeof(ret->name));
	return 0;
}
