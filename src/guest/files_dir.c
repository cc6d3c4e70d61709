/* Directories: listing, making, moving, removing. See files.h. */
#include "guest/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/str.h"

DEFINE_CLEANUP(DIR *, closedirp, closedir);

/* ---- listing ---- */

/* The first names, in order, of those that come after one: bounded however many there are. */
struct names {
	char **list;
	size_t n, max;
};

static void names_clear(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i]);
	free(names->list);
}

static void names_add(struct names *names, const char *name)
{
	size_t low = 0, high = names->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(names->list[middle], name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == names->max)
		return;
	if (names->n == names->max)
		free(names->list[--names->n]);
	memmove(&names->list[low + 1], &names->list[low], (names->n - low) * sizeof(*names->list));
	names->list[low] = xstrdup(name);
	names->n++;
}

static int read_names(DIR *dir, const char *path, const char *after, struct names *names,
		      struct err *err)
{
	const struct dirent *entry;

	errno = 0;
	while ((entry = readdir(dir))) {
		if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, "..") &&
		    (!*after || strcmp(entry->d_name, after) > 0))
			names_add(names, entry->d_name);
		errno = 0;
	}
	return errno ? files_fail(err, -errno, "read the directory", path) : 0;
}

/* One that is gone since is passed over. */
static int put_named(const struct files_io *io, int dir_fd, const char *name, struct err *err)
{
	struct file_record record = { .kind = FILE_RECORD_ENTRY };
	_cleanup_buf_ struct buf storage = BUF_INIT;
	struct err why = ERR_INIT;
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : files_fail(err, -errno, "look at", name);
	if (files_entry(io, &st, dir_fd, name, name, &storage, &record.entry, &why) < 0) {
		if (why.num == -ENOENT)
			return 0;
		*err = why;
		return why.num;
	}
	return files_put_record(io, &record, err);
}

int files_list(const struct file_request *r, const struct files_io *io, struct err *err)
{
	static const struct file_record more = { .kind = FILE_RECORD_MORE };
	_cleanup_(closedirp) DIR *dir = opendir(r->path);
	_cleanup_(names_clear) struct names names = { .max = r->limit + 1 };
	int result;

	if (!dir)
		return files_fail(err, -errno, "list", r->path);
	names.list = xcalloc(names.max + 1, sizeof(*names.list));
	result = read_names(dir, r->path, r->after, &names, err);
	for (size_t i = 0; i < names.n && i < r->limit && result == 0; i++)
		result = put_named(io, dirfd(dir), names.list[i], err);
	if (result == 0 && names.n > r->limit)
		result = files_put_record(io, &more, err);
	return result;
}

/* ---- making ---- */

int files_mkdir(const struct file_request *r, const struct files_io *io, struct err *err)
{
	_cleanup_buf_ struct buf path = BUF_INIT;
	struct stat st;

	buf_append_str(&path, r->path);
	while (path.len > 1 && path.data[path.len - 1] == '/')
		path.data[--path.len] = '\0';
	if (!(r->flags & FILE_PARENTS) && lstat(buf_str(&path), &st) == 0)
		return files_fail(err, -EEXIST, "make the directory", r->path);
	if (!(r->flags & FILE_PARENTS)) {
		_cleanup_place_ struct files_place place = FILES_PLACE_INIT;
		int found = files_place_find(buf_str(&path), false, false, &place, err);

		if (found < 0)
			return found;
		if (mkdirat(place.dir_fd, place.name, 0777) < 0 || fsync(place.dir_fd) < 0)
			return files_fail(err, -errno, "make the directory", r->path);
	} else {
		int made = files_make_parents(buf_str(&path), err);

		if (made < 0)
			return made;
	}
	if (r->mode != FILE_MODE_KEEP && chmod(buf_str(&path), r->mode) < 0)
		return files_fail(err, -errno, "set the mode of", r->path);
	return files_put_stat(io, buf_str(&path), err);
}

/* ---- moving ---- */

int files_move(const struct file_request *r, const struct files_io *io, struct err *err)
{
	_cleanup_place_ struct files_place from = FILES_PLACE_INIT, to = FILES_PLACE_INIT;
	bool replace = r->flags & FILE_OVERWRITE;
	struct stat st;
	int result = files_place_find(r->path, false, false, &from, err);

	if (result < 0)
		return result;
	if (fstatat(from.dir_fd, from.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return files_fail(err, -errno, "move", r->path);
	result = files_place_find(r->to, false, r->flags & FILE_PARENTS, &to, err);
	if (result < 0)
		return result;
	if (renameat2(from.dir_fd, from.name, to.dir_fd, to.name, replace ? 0 : RENAME_NOREPLACE) <
	    0)
		return err_set(err, -errno, "cannot move '%.120s' to '%.120s': %s", r->path, r->to,
			       strerrordesc_np(errno));
	if (fsync(to.dir_fd) < 0 || fsync(from.dir_fd) < 0)
		return files_fail(err, -errno, "make durable", r->to);
	return files_put_stat(io, r->to, err);
}

/* ---- removing ---- */

int files_remove(const struct file_request *r, const struct files_io *io, struct err *err)
{
	_cleanup_place_ struct files_place place = FILES_PLACE_INIT;
	_cleanup_buf_ struct buf path = BUF_INIT;
	struct stat st;
	int result;

	(void)io;
	buf_append_str(&path, r->path);
	while (path.len > 1 && path.data[path.len - 1] == '/')
		path.data[--path.len] = '\0';
	result = files_place_find(buf_str(&path), false, false, &place, err);
	if (result < 0)
		return result == -EISDIR ? files_fail(err, -EINVAL, "remove", r->path) : result;
	if (fstatat(place.dir_fd, place.name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return files_fail(err, -errno, "remove", r->path);
	if (S_ISDIR(st.st_mode) && (r->flags & FILE_RECURSIVE))
		result = tree_remove(buf_str(&path));
	else if (unlinkat(place.dir_fd, place.name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) < 0)
		result = -errno;
	if (result == 0 && fsync(place.dir_fd) < 0)
		result = -errno;
	return result < 0 ? files_fail(err, result, "remove", r->path) : 0;
}
