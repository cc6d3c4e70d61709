/* Trees into archives. See tar_tree.h. */
#include "tar/tar_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "tar/tar_format.h"

#define FLUSH_BYTES (64u * 1024)
#define COPY_BYTES  (128u * 1024)
#define DEPTH_MAX   512 /* each level holds a descriptor */

struct pack {
	tar_write_fn write;
	void *arg;
	struct buf out, path;
	char *chunk;
	bool written;
	bool within; /* the data of a file */
	unsigned int depth;
};

static int fail(const struct pack *p, int num, const char *what, struct err *err)
{
	return err_set(err, num, "cannot %s '%.200s': %s", what,
		       p->path.len ? buf_str(&p->path) : ".", strerrordesc_np(-num));
}

static int flush(struct pack *p, size_t at_least, struct err *err)
{
	int r;

	if (p->out.len == 0 || p->out.len < at_least)
		return 0;
	p->written = true;
	r = p->write(p->arg, p->out.data, p->out.len);
	buf_reset(&p->out);
	return r < 0 ? err_set(err, r, "cannot write the archive: %s", strerrordesc_np(-r)) : 0;
}

static void put_header(struct pack *p, const struct stat *st, enum tar_type type,
		       const struct buf *link)
{
	struct tar_entry e = {
		.type = type,
		.mode = st->st_mode & 07777,
		.uid = st->st_uid,
		.gid = st->st_gid,
		.size = type == TAR_FILE ? (uint64_t)st->st_size : 0,
		.mtime_s = st->st_mtim.tv_sec,
		.mtime_ns = (uint32_t)st->st_mtim.tv_nsec,
		.path = p->path, /* borrowed, as link is */
	};

	if (link)
		e.link = *link;
	tar_put_header(&p->out, &e);
}

static int copy_content(struct pack *p, int fd, uint64_t size, struct err *err)
{
	uint64_t left = size;

	while (left > 0) {
		ssize_t n = read(fd, p->chunk, left < COPY_BYTES ? (size_t)left : COPY_BYTES);
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(p, -errno, "read", err);
		if (n == 0)
			return err_set(err, -ESTALE, "'%.200s' became shorter while it was read",
				       buf_str(&p->path));
		buf_append(&p->out, p->chunk, (size_t)n);
		left -= (uint64_t)n;
		r = flush(p, FLUSH_BYTES, err);
		if (r < 0)
			return r;
	}
	tar_put_padding(&p->out, size);
	return 0;
}

/* What is gone, or has become something else since it was listed, is left out. */
static int pack_file(struct pack *p, int dir_fd, const char *name, struct err *err)
{
	_cleanup_close_ int fd =
		openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;
	int r;

	if (fd < 0)
		return errno == ENOENT || errno == ELOOP ? 0 : fail(p, -errno, "read", err);
	if (fstat(fd, &st) < 0)
		return fail(p, -errno, "read", err);
	if (!S_ISREG(st.st_mode))
		return 0;
	put_header(p, &st, TAR_FILE, NULL);
	p->within = true;
	r = copy_content(p, fd, (uint64_t)st.st_size, err);
	p->within = r < 0;
	return r;
}

static int pack_link(struct pack *p, int dir_fd, const char *name, const struct stat *st,
		     struct err *err)
{
	char target[TAR_PATH_MAX + 1];
	struct buf link = { .data = target };
	ssize_t n = readlinkat(dir_fd, name, target, sizeof(target));

	if (n < 0)
		return errno == ENOENT || errno == EINVAL ? 0 : fail(p, -errno, "read", err);
	link.len = (size_t)n;
	put_header(p, st, TAR_SYMLINK, &link);
	return 0;
}

static int pack_dir(struct pack *p, int dir_fd, struct err *err);

static int pack_below(struct pack *p, int dir_fd, const char *name, const struct stat *st,
		      struct err *err)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r;

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR ? 0
							   : fail(p, -errno, "open directory", err);
	buf_append_char(&p->path, '/');
	put_header(p, st, TAR_DIRECTORY, NULL);
	p->depth++;
	r = p->depth > DEPTH_MAX ? fail(p, -ELOOP, "pack", err) : 0;
	if (r < 0)
		close(fd);
	else
		r = pack_dir(p, fd, err);
	p->depth--;
	return r;
}

static int pack_entry(struct pack *p, int dir_fd, const char *name, struct err *err)
{
	struct stat st;

	if (p->path.len > TAR_PATH_MAX)
		return fail(p, -ENAMETOOLONG, "pack", err);
	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : fail(p, -errno, "look at", err);
	if (S_ISREG(st.st_mode))
		return pack_file(p, dir_fd, name, err);
	if (S_ISLNK(st.st_mode))
		return pack_link(p, dir_fd, name, &st, err);
	return S_ISDIR(st.st_mode) ? pack_below(p, dir_fd, name, &st, err) : 0;
}

/* Takes fd over. The path so far is empty or ends with a slash. */
static int pack_dir(struct pack *p, int fd, struct err *err)
{
	DIR *dir = fdopendir(fd);
	size_t before = p->path.len;
	const struct dirent *entry;
	int r = 0;

	if (!dir) {
		close(fd);
		return fail(p, -errno, "open directory", err);
	}
	while (r == 0 && (errno = 0, entry = readdir(dir))) {
		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		buf_append_str(&p->path, entry->d_name);
		r = pack_entry(p, dirfd(dir), entry->d_name, err);
		p->path.len = before;
		p->path.data[before] = '\0';
		if (r == 0)
			r = flush(p, FLUSH_BYTES, err);
	}
	if (r == 0 && errno)
		r = fail(p, -errno, "read directory", err);
	closedir(dir);
	return r;
}

static int pack_all(struct pack *p, int dir_fd, struct err *err)
{
	struct stat st;
	int fd;

	if (fstat(dir_fd, &st) < 0)
		return fail(p, -errno, "look at", err);
	fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return fail(p, -errno, "open directory", err);
	buf_append_str(&p->path, "./");
	put_header(p, &st, TAR_DIRECTORY, NULL);
	p->path.len = 0;
	return pack_dir(p, fd, err);
}

int tar_pack(int dir_fd, tar_write_fn write, void *arg, struct err *err)
{
	struct pack p = { .write = write, .arg = arg, .chunk = xmalloc(COPY_BYTES) };
	struct err why = ERR_INIT;
	int r = pack_all(&p, dir_fd, &why);

	if (r == 0) {
		tar_put_end(&p.out);
		r = flush(&p, 0, &why);
	} else if (p.written && !p.within) {
		struct err ignored = ERR_INIT;

		tar_put_error(&p.out, why.message);
		flush(&p, 0, &ignored);
	}
	if (r < 0 && err)
		*err = why;
	buf_clear(&p.out);
	buf_clear(&p.path);
	free(p.chunk);
	return r;
}
