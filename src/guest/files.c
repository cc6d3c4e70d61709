/* File operations: which one, what it answers with, and how it fails. See files.h. */
#include "guest/files.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/str.h"
#include "guest/users.h"

static const struct {
	int num;
	enum file_error code;
} codes[] = {
	{ -ENOENT, FILE_E_NOT_FOUND },
	{ -EISDIR, FILE_E_IS_DIRECTORY },
	{ -ENOTDIR, FILE_E_NOT_DIRECTORY },
	{ FILES_NOT_REGULAR, FILE_E_NOT_REGULAR },
	{ -EACCES, FILE_E_DENIED },
	{ -EPERM, FILE_E_DENIED },
	{ -EROFS, FILE_E_DENIED },
	{ -ETXTBSY, FILE_E_DENIED },
	{ -ENOSPC, FILE_E_DISK_FULL },
	{ -EDQUOT, FILE_E_DISK_FULL },
	{ -EFBIG, FILE_E_TOO_LARGE },
	{ -EINVAL, FILE_E_INVALID_PATH },
	{ -ENAMETOOLONG, FILE_E_INVALID_PATH },
	{ -ELOOP, FILE_E_INVALID_PATH },
	{ -EEXIST, FILE_E_EXISTS },
	{ -ENOTEMPTY, FILE_E_NOT_EMPTY },
	{ -EXDEV, FILE_E_CROSS_DEVICE },
	{ FILES_BAD_ARCHIVE, FILE_E_INVALID_ARCHIVE },
	{ FILES_CHANGED, FILE_E_CHANGED },
	{ FILES_SHORT, FILE_E_SHORT },
};

int files_fail(struct err *err, int num, const char *what, const char *path)
{
	return err_set(err, num, "cannot %s '%.200s': %s", what, path, strerrordesc_np(-num));
}

static enum file_error code_of(const struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (codes[i].num == err->num)
			return codes[i].code;
	return FILE_E_IO;
}

/* ---- input, and the end of it ---- */

static volatile sig_atomic_t abandoned;

static void on_term(int signal)
{
	abandoned = 1;
}

void files_prepare(void)
{
	const struct sigaction term = { .sa_handler = on_term };
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigprocmask(SIG_BLOCK, &mask, NULL); /* delivered in ppoll() alone */
	sigaction(SIGTERM, &term, NULL);
	signal(SIGPIPE, SIG_IGN);
}

ssize_t files_receive(const struct files_io *io, char *out, size_t max)
{
	struct pollfd input = { .fd = io->in, .events = POLLIN };
	sigset_t none;

	sigemptyset(&none);
	while (!abandoned) {
		ssize_t n;

		if (ppoll(&input, 1, NULL, &none) < 0) {
			if (errno == EINTR)
				continue;
			return -errno;
		}
		if (abandoned)
			break;
		n = read(io->in, out, max);
		if (n >= 0 || errno != EINTR)
			return n < 0 ? -errno : n;
	}
	return -ECANCELED;
}

/* ---- answers ---- */

int files_put_record(const struct files_io *io, const struct file_record *record, struct err *err)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	int r;

	file_record_put(&out, record);
	r = fd_write_all(io->out, out.data, out.len);
	return r < 0 ? err_set(err, r, "cannot answer: %s", strerrordesc_np(-r)) : 0;
}

static struct frame_slice slice_of(const char *text, size_t max)
{
	return (struct frame_slice){ .data = text, .len = strnlen(text, max) };
}

static enum file_type type_of(mode_t mode)
{
	return (enum file_type)((mode & S_IFMT) >> 12); /* as IFTODT() */
}

/* Where a link points to, kept in storage. */
static int read_target(int dir_fd, const char *path, struct buf *storage, struct frame_slice *ret,
		       struct err *err)
{
	ssize_t n;

	buf_reset(storage);
	buf_reserve(storage, FILE_PATH_MAX + 1);
	n = readlinkat(dir_fd, path, storage->data, FILE_PATH_MAX);
	if (n < 0)
		return files_fail(err, -errno, "read link", path);
	*ret = (struct frame_slice){ .data = storage->data, .len = (size_t)n };
	return 0;
}

int files_entry(const struct files_io *io, const struct stat *st, int dir_fd, const char *path,
		const char *name, struct buf *storage, struct file_entry *ret, struct err *err)
{
	/* The last ones of this process: a directory's entries mostly belong to one. */
	static char user[FILE_OWNER_MAX + 1], group[FILE_OWNER_MAX + 1];
	static uid_t user_id = (uid_t)-1;
	static gid_t group_id = (gid_t)-1;
	struct file_entry e = {
		.type = type_of(st->st_mode),
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.size = (uint64_t)st->st_size,
		.inode = st->st_ino,
		.mtime_ns = st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec,
	};

	if (st->st_uid != user_id)
		owner_name(io->passwd, io->passwd_len, user_id = st->st_uid, user, sizeof(user));
	if (st->st_gid != group_id)
		owner_name(io->group, io->group_len, group_id = st->st_gid, group, sizeof(group));
	e.user = slice_of(user, FILE_OWNER_MAX);
	e.group = slice_of(group, FILE_OWNER_MAX);
	if (name)
		e.name = slice_of(name, FILE_NAME_MAX);
	if (e.type == FILE_SYMLINK) {
		int r = read_target(dir_fd, path, storage, &e.target, err);

		if (r < 0)
			return r;
	}
	*ret = e;
	return 0;
}

int files_put_stat(const struct files_io *io, const char *path, struct err *err)
{
	struct file_record record = { .kind = FILE_RECORD_ENTRY };
	_cleanup_buf_ struct buf storage = BUF_INIT;
	struct stat st;
	int r;

	if (lstat(path, &st) < 0)
		return files_fail(err, -errno, "look at", path);
	r = files_entry(io, &st, AT_FDCWD, path, NULL, &storage, &record.entry, err);
	return r < 0 ? r : files_put_record(io, &record, err);
}

/* ---- which one ---- */

static int run(const struct file_request *r, const struct files_io *io, struct err *err)
{
	switch (r->op) {
	case FILE_READ:
		return files_read(r, io, err);
	case FILE_WRITE:
		return files_write(r, io, err);
	case FILE_STAT:
		return files_put_stat(io, r->path, err);
	case FILE_LIST:
		return files_list(r, io, err);
	case FILE_MKDIR:
		return files_mkdir(r, io, err);
	case FILE_MOVE:
		return files_move(r, io, err);
	case FILE_REMOVE:
		return files_remove(r, io, err);
	case FILE_PACK:
		return files_pack(r, io, err);
	case FILE_UNPACK:
		return files_unpack(r, io, err);
	}
	return err_set(err, -EOPNOTSUPP, "operation %d is not known in this sandbox", r->op);
}

int files_run(const struct file_request *request, const struct files_io *io)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct err err = ERR_INIT;

	if (run(request, io, &err) == 0)
		return 0;
	file_error_put(&out, code_of(&err), err.message);
	fd_write_all(io->err, out.data, out.len);
	return 1;
}
