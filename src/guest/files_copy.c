/*
 * One file's content, out and in. See files.h.
 *
 * Out: pages go from the file to the pipe by splice(2), without a copy where the kernel can. The
 * size that was announced is kept to: a file that grows meanwhile is sent as it was, one that
 * shrinks is an error, which the host makes a broken answer of.
 *
 * In: written aside, flushed, then put in place of the old file by a rename (base/aside.h). So who
 * reads the path sees the old file or the new one, whole, also after a crash. Room for what is
 * announced is taken beforehand: a full disk is said before a byte has come.
 */
#include "guest/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/aside.h"
#include "base/fd.h"
#include "base/str.h"

#define COPY_BYTES (128u * 1024)

/* ---- out ---- */

static int open_regular(const char *path, int *ret_fd, struct stat *st, struct err *err)
{
	_cleanup_close_ int fd = -1;

	if (stat(path, st) < 0)
		return files_fail(err, -errno, "read", path);
	if (S_ISREG(st->st_mode)) {
		fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
		if (fd < 0 || fstat(fd, st) < 0)
			return files_fail(err, -errno, "read", path);
	}
	if (S_ISDIR(st->st_mode))
		return err_set(err, -EISDIR, "'%.200s' is a directory", path);
	if (!S_ISREG(st->st_mode))
		return err_set(err, FILES_NOT_REGULAR, "'%.200s' is not a regular file", path);
	*ret_fd = STEAL_FD(fd);
	return 0;
}

/* Bytes moved, 0 at the file's end. */
static ssize_t move_some(const struct files_io *io, int fd, size_t len, char *chunk, bool *splices)
{
	ssize_t n = *splices ? splice(fd, NULL, io->out, NULL, len, 0) : -1;
	int r;

	if (*splices && n < 0 && errno == EINVAL)
		*splices = false; /* a file, or an output, that cannot */
	if (*splices)
		return n < 0 ? -errno : n;
	n = read(fd, chunk, len);
	if (n <= 0)
		return n < 0 ? -errno : 0;
	r = fd_write_all(io->out, chunk, (size_t)n);
	return r < 0 ? r : n;
}

/* len FILE_LENGTH_UNKNOWN: to its end. */
static int send_content(const struct files_io *io, int fd, const char *path, uint64_t len,
			struct err *err)
{
	_cleanup_free_ char *chunk = xmalloc(COPY_BYTES);
	bool splices = true;

	while (len > 0) {
		ssize_t n = move_some(io, fd, len < COPY_BYTES ? (size_t)len : COPY_BYTES, chunk,
				      &splices);

		if (n == -EINTR)
			continue;
		if (n < 0)
			return files_fail(err, (int)n, "read", path);
		if (n == 0 && len != FILE_LENGTH_UNKNOWN)
			return err_set(err, FILES_CHANGED,
				       "'%.200s' became shorter while it was "
				       "read",
				       path);
		if (n == 0)
			return 0;
		if (len != FILE_LENGTH_UNKNOWN)
			len -= (uint64_t)n;
	}
	return 0;
}

/* Files of /proc and their like say that they are empty. */
static bool has_more_than_it_says(int fd, const struct stat *st)
{
	char byte;

	return st->st_size == 0 && pread(fd, &byte, 1, 0) == 1;
}

static struct file_range effective_range(const struct file_request *r, const struct file_entry *e)
{
	static const struct file_range all = { .kind = FILE_RANGE_NONE };
	char etag[FILE_ETAG_SIZE];

	file_etag(e->inode, e->size, e->mtime_ns, etag);
	return *r->if_range && !str_eq(r->if_range, etag) ? all : r->range;
}

int files_read(const struct file_request *r, const struct files_io *io, struct err *err)
{
	struct file_record record = { .kind = FILE_RECORD_ENTRY };
	_cleanup_buf_ struct buf storage = BUF_INIT;
	_cleanup_close_ int fd = -1;
	struct file_range range;
	uint64_t first = 0, len = 0;
	struct stat st;
	int result = open_regular(r->path, &fd, &st, err);

	if (result == 0)
		result =
			files_entry(io, &st, AT_FDCWD, r->path, NULL, &storage, &record.entry, err);
	if (result < 0)
		return result;
	if (has_more_than_it_says(fd, &st))
		record.entry.size = FILE_LENGTH_UNKNOWN;
	result = files_put_record(io, &record, err);
	if (result < 0 || (r->flags & FILE_HEAD_ONLY))
		return result;
	if (record.entry.size == FILE_LENGTH_UNKNOWN)
		return send_content(io, fd, r->path, FILE_LENGTH_UNKNOWN, err);
	range = effective_range(r, &record.entry);
	if (!file_range_resolve(&range, record.entry.size, &first, &len))
		return 0; /* the host finds the same, and says so */
	if (lseek(fd, (off_t)first, SEEK_SET) < 0)
		return files_fail(err, -errno, "read", r->path);
	return send_content(io, fd, r->path, len, err);
}

/* ---- in ---- */

/* What is there already, and what of it the new file keeps. */
struct replaced {
	bool exists;
	struct stat st;
};

static int look_at_old(const struct file_request *r, const struct files_place *place,
		       struct replaced *ret, struct err *err)
{
	if (fstatat(place->dir_fd, place->name, &ret->st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : files_fail(err, -errno, "write", r->path);
	ret->exists = true;
	if (S_ISDIR(ret->st.st_mode))
		return err_set(err, -EISDIR, "'%.200s' is a directory", r->path);
	if (!S_ISREG(ret->st.st_mode))
		return err_set(err, FILES_NOT_REGULAR, "'%.200s' is not a regular file", r->path);
	if (!(r->flags & FILE_OVERWRITE))
		return err_set(err, -EEXIST, "'%.200s' exists", r->path);
	/* Who could not write to it may not replace it either, though the directory would let him.
	 */
	if (faccessat(place->dir_fd, place->name, W_OK, AT_EACCESS) < 0)
		return files_fail(err, -errno, "write", r->path);
	return 0;
}

static int take_room(const struct file_request *r, int fd, struct err *err)
{
	if (r->length == FILE_LENGTH_UNKNOWN || r->length == 0)
		return 0;
	if (r->length > r->max)
		return err_set(err, -EFBIG, "%llu bytes are more than a file may have (%llu)",
			       (unsigned long long)r->length, (unsigned long long)r->max);
	if (fallocate(fd, 0, 0, (off_t)r->length) < 0 && errno != EOPNOTSUPP && errno != ENOSYS)
		return files_fail(err, -errno, "make room for", r->path);
	return 0;
}

static int receive_content(const struct file_request *r, const struct files_io *io, int fd,
			   struct err *err)
{
	_cleanup_free_ char *chunk = xmalloc(COPY_BYTES);
	uint64_t total = 0;

	for (;;) {
		ssize_t n = files_receive(io, chunk, COPY_BYTES);
		int result;

		if (n < 0)
			return files_fail(err, (int)n, "receive", r->path);
		if (n == 0)
			break;
		total += (uint64_t)n;
		if (total > r->max)
			return err_set(err, -EFBIG, "more than %llu bytes came for '%.200s'",
				       (unsigned long long)r->max, r->path);
		if (r->length != FILE_LENGTH_UNKNOWN && total > r->length)
			break;
		result = fd_write_all(fd, chunk, (size_t)n);
		if (result < 0)
			return files_fail(err, result, "write", r->path);
	}
	if (r->length != FILE_LENGTH_UNKNOWN && total != r->length)
		return err_set(err, FILES_SHORT,
			       "%llu bytes were announced for '%.200s', %llu came",
			       (unsigned long long)r->length, r->path, (unsigned long long)total);
	return 0;
}

/* Owner before mode: a change of owner takes mode bits away. */
static int dress(const struct file_request *r, int fd, const struct replaced *old, struct err *err)
{
	mode_t mode = r->mode != FILE_MODE_KEEP ? (mode_t)r->mode
		      : old->exists		? old->st.st_mode & 07777
						: 0644;

	if (old->exists && geteuid() == 0 && fchown(fd, old->st.st_uid, old->st.st_gid) < 0)
		return files_fail(err, -errno, "keep the owner of", r->path);
	if (fchmod(fd, mode) < 0)
		return files_fail(err, -errno, "set the mode of", r->path);
	return 0;
}

static int put_written(const struct files_io *io, const struct files_place *place, struct err *err)
{
	struct file_record record = { .kind = FILE_RECORD_ENTRY };
	_cleanup_buf_ struct buf storage = BUF_INIT;
	struct stat st;
	int r;

	if (fstatat(place->dir_fd, place->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return files_fail(err, -errno, "look at", place->name);
	r = files_entry(io, &st, place->dir_fd, place->name, NULL, &storage, &record.entry, err);
	return r < 0 ? r : files_put_record(io, &record, err);
}

int files_write(const struct file_request *r, const struct files_io *io, struct err *err)
{
	struct file_record ready = { .kind = FILE_RECORD_READY };
	_cleanup_place_ struct files_place place = FILES_PLACE_INIT;
	_cleanup_(aside_discard) struct aside aside = ASIDE_INIT;
	struct replaced old = { 0 };
	int result = files_place_find(r->path, true, r->flags & FILE_PARENTS, &place, err);

	if (result == 0)
		result = look_at_old(r, &place, &old, err);
	if (result < 0)
		return result;
	result = aside_open(&aside, place.dir_fd);
	if (result < 0)
		return files_fail(err, result, "write in the directory of", r->path);
	ready.replaces = old.exists;
	result = take_room(r, aside.fd, err);
	if (result == 0)
		result = files_put_record(io, &ready, err);
	if (result == 0)
		result = receive_content(r, io, aside.fd, err);
	if (result == 0)
		result = dress(r, aside.fd, &old, err);
	if (result < 0)
		return result;
	result = aside_commit(&aside, place.name, r->flags & FILE_OVERWRITE, true);
	if (result < 0)
		return files_fail(err, result, "write", r->path);
	return put_written(io, &place, err);
}
