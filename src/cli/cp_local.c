/* This machine's end of a copy. See cp_local.h. */
#include "cli/cp_local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/cp_names.h"

static int fail(int num, const char *what, const char *path, struct err *err)
{
	return err_set(err, num, "cannot %s '%s': %s", what, path, strerrordesc_np(-num));
}

/* ---- to be sent ---- */

static int write_to_pipe(void *arg, const void *data, size_t len)
{
	const struct cp_source *source = arg;

	return fd_write_all(source->pack_fd, data, len);
}

static void *pack(void *arg)
{
	struct cp_source *source = arg;

	tar_pack(source->dir_fd, write_to_pipe, source, &source->pack_err);
	close(STEAL_FD(source->pack_fd));
	return NULL;
}

static int begin_packing(struct cp_source *source, struct err *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, "cannot make a pipe: %s", strerrordesc_np(errno));
	source->fd = ends[0];
	source->pack_fd = ends[1];
	source->packing = pthread_create(&source->packer, NULL, pack, source) == 0;
	return source->packing ? 0 : err_set(err, -EAGAIN, "cannot start a thread");
}

static int open_named(const char *path, bool recursive, struct cp_source *source, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return fail(-errno, "read", path, err);
	if (fstat(fd, &st) < 0) {
		close(fd);
		return fail(-errno, "read", path, err);
	}
	if (!S_ISDIR(st.st_mode)) {
		source->fd = fd;
		source->length = S_ISREG(st.st_mode) ? st.st_size : -1;
		source->mode = S_ISREG(st.st_mode) ? (int)(st.st_mode & 0777) : -1;
		return 0;
	}
	source->dir_fd = fd;
	if (recursive)
		return begin_packing(source, err);
	err_code(err, -EISDIR, "usage", "'%s' is a directory", path);
	err_hint(err, "copy it with all that is in it: -r");
	return -EISDIR;
}

int cp_source_open(const char *path, bool recursive, struct cp_source *ret, struct err *err)
{
	int r = 0;

	*ret = (struct cp_source){
		.fd = -1, .dir_fd = -1, .pack_fd = -1, .length = -1, .mode = -1
	};
	if (str_eq(path, "-"))
		ret->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	else
		r = open_named(path, recursive, ret, err);
	if (r == 0 && ret->fd < 0)
		r = err_set(err, -EBADF, "there is no standard input");
	if (r < 0)
		cp_source_close(ret);
	return r;
}

static void end_packing(struct cp_source *source)
{
	if (source->packing)
		pthread_join(source->packer, NULL);
	source->packing = false;
}

ssize_t cp_source_read(struct cp_source *source, void *out, size_t max, struct err *err)
{
	ssize_t n;

	do {
		n = read(source->fd, out, max);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(err, -errno, "cannot read what is to be sent: %s",
			       strerrordesc_np(errno));
	if (n > 0 || !source->packing)
		return n;
	end_packing(source);
	if (source->pack_err.num < 0)
		*err = source->pack_err;
	return source->pack_err.num;
}

void cp_source_close(struct cp_source *source)
{
	cleanup_closep(&source->fd); /* first: the packer's writes then fail */
	source->fd = -1;
	end_packing(source);
	cleanup_closep(&source->dir_fd);
	cleanup_closep(&source->pack_fd);
	source->dir_fd = source->pack_fd = -1;
}

/* ---- received ---- */

static int split(const char *path, struct cp_sink *sink, struct err *err)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir =
		slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");

	sink->name = xstrdup(slash ? slash + 1 : path);
	sink->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return sink->dir_fd < 0 ? fail(-errno, "open the directory", dir, err) : 0;
}

/* Written aside in the place of what a link leads to, as if it were written through. */
static int open_target(const char *path, struct cp_sink *sink, struct err *err)
{
	_cleanup_free_ char *real = realpath(path, NULL);
	struct stat st;
	int r;

	if (real && stat(real, &st) == 0 && !S_ISREG(st.st_mode)) {
		sink->fd = open(real, O_WRONLY | O_CLOEXEC);
		return sink->fd < 0 ? fail(-errno, "write to", path, err) : 0;
	}
	if (real && access(real, W_OK) < 0)
		return fail(-errno, "write to", path, err);
	r = split(real ? real : path, sink, err);
	if (r == 0 && !*sink->name)
		return fail(-ENOENT, "write to", path, err);
	if (r == 0)
		r = aside_open(&sink->aside, sink->dir_fd);
	return r < 0 && err->num == 0 ? fail(r, "write beside", path, err) : r;
}

int cp_sink_file(const char *path, const char *name, struct cp_sink *ret, struct err *err)
{
	struct cp_sink sink = CP_SINK_INIT;
	_cleanup_buf_ struct buf target = BUF_INIT;
	struct stat st;
	int r;

	if (str_eq(path, "-")) {
		sink.fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
		*ret = sink;
		return sink.fd < 0 ? err_set(err, -EBADF, "there is no standard output") : 0;
	}
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		cp_join(path, name, &target);
	else
		buf_append_str(&target, path);
	r = open_target(buf_str(&target), &sink, err);
	*ret = sink;
	return r;
}

int cp_sink_tree(const char *path, const char *name, struct cp_sink *ret, struct err *err)
{
	static const struct tar_unpack_options options = { .durable = false };
	struct cp_sink sink = CP_SINK_INIT;
	_cleanup_buf_ struct buf target = BUF_INIT;
	struct stat st;

	if (stat(path, &st) == 0 && *name)
		cp_join(path, name, &target);
	else
		buf_append_str(&target, path);
	if (mkdir(buf_str(&target), 0777) < 0 && errno != EEXIST)
		return fail(-errno, "make the directory", buf_str(&target), err);
	sink.dir_fd = open(buf_str(&target), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (sink.dir_fd < 0)
		return fail(-errno, "open the directory", buf_str(&target), err);
	sink.unpack = tar_unpack_new(sink.dir_fd, &options);
	*ret = sink;
	return 0;
}

int cp_sink_write(struct cp_sink *sink, const void *data, size_t len, struct err *err)
{
	int r;

	if (sink->unpack)
		return tar_unpack_feed(sink->unpack, data, len, err);
	r = fd_write_all(sink->fd >= 0 ? sink->fd : sink->aside.fd, data, len);
	return r < 0 ? err_set(err, r, "cannot write what came: %s", strerrordesc_np(-r)) : 0;
}

int cp_sink_finish(struct cp_sink *sink, int mode, struct err *err)
{
	struct tar_unpacked unpacked;
	mode_t mask;
	int r;

	if (sink->unpack)
		return tar_unpack_finish(sink->unpack, &unpacked, err);
	if (sink->fd >= 0)
		return 0;
	mask = umask(0);
	umask(mask);
	if (fchmod(sink->aside.fd, (mode_t)(mode < 0 ? 0666 : mode & 0777) & ~mask) < 0)
		return fail(-errno, "set the mode of", sink->name, err);
	r = aside_commit(&sink->aside, sink->name, true, false);
	return r < 0 ? fail(r, "write", sink->name, err) : 0;
}

void cp_sink_close(struct cp_sink *sink)
{
	tar_unpack_free(STEAL(sink->unpack));
	aside_discard(&sink->aside);
	cleanup_closep(&sink->fd);
	cleanup_closep(&sink->dir_fd);
	free(sink->name);
	*sink = CP_SINK_INIT;
}
