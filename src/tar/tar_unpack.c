/*
 * Archives into trees. See tar_tree.h.
 *
 * Names are cleaned first (tar_path_clean), then every directory is opened from the top with
 * openat2(RESOLVE_BENEATH), so that no link, be it from the archive or put there meanwhile, leads
 * out. What is made is made beside, under a name of its own, and renamed: an existing link is
 * replaced, not written through.
 *
 * Modes and times of directories are set at the end, because what is put into them would change
 * them or not be allowed. Their list is bounded.
 */
#include "tar/tar_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/aside.h"
#include "base/fd.h"
#include "base/str.h"
#include "tar/tar_format.h"

#define DIRS_BYTES_MAX (32u << 20) /* of what is remembered of directories */

/* Names of layers: .wh.NAME takes NAME away, .wh..wh..opq all that its directory held. Others that
 * begin with .wh..wh. are notes of a driver that nobody has to understand. */
#define WHITEOUT      ".wh."
#define WHITEOUT_NOTE ".wh..wh."
#define OPAQUE	      ".wh..wh..opq"

struct unpack_dir {
	struct unpack_dir *next; /* made later, set earlier */
	uint32_t mode, uid, gid;
	struct timespec mtime;
	char path[];
};

struct tar_unpack {
	int top_fd; /* borrowed */
	struct tar_unpack_options options;
	struct tar_reader reader;
	struct tar_unpacked done;
	struct buf path;	/* of the entry, cleaned */
	const char *name;	/* its last part */
	struct buf parent_path; /* of parent_fd */
	int parent_fd;
	struct aside aside;
	struct unpack_dir *dirs;
	size_t dirs_bytes;
};

struct tar_unpack *tar_unpack_new(int dir_fd, const struct tar_unpack_options *options)
{
	struct tar_unpack *u = xcalloc(1, sizeof(*u));

	u->top_fd = dir_fd;
	u->options = *options;
	u->parent_fd = -1;
	u->aside = ASIDE_INIT;
	tar_reader_init(&u->reader);
	return u;
}

void tar_unpack_free(struct tar_unpack *u)
{
	if (!u)
		return;
	while (u->dirs) {
		struct unpack_dir *dir = u->dirs;

		u->dirs = dir->next;
		free(dir);
	}
	aside_discard(&u->aside);
	cleanup_closep(&u->parent_fd);
	tar_reader_clear(&u->reader);
	buf_clear(&u->path);
	buf_clear(&u->parent_path);
	free(u);
}

/* ---- errors ---- */

static int fail(const struct tar_unpack *u, int num, struct err *err)
{
	const char *name = u->path.len ? buf_str(&u->path) : ".";

	/* Both are what the kernel says of a path that would leave the top. */
	if (num == -EXDEV || num == -ELOOP)
		return err_set(err, -EBADMSG, "'%.200s' in the archive leads out of the directory",
			       name);
	return err_set(err, num, "cannot unpack '%.200s': %s", name, strerrordesc_np(-num));
}

static int unacceptable(const struct tar_entry *e, const char *what, struct err *err)
{
	return err_set(err, -EBADMSG, "the archive has %s: '%.200s'", what, buf_str(&e->path));
}

/* ---- directories ---- */

/* A link that leads up or to "/" leads out, but in a layer: there it leads to the image's root. */
static int open_beneath(const struct tar_unpack *u, const char *path, uint64_t resolve)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
		.resolve = (u->options.layer ? RESOLVE_IN_ROOT : RESOLVE_BENEATH) |
			   RESOLVE_NO_MAGICLINKS | resolve,
	};
	long fd;

	do {
		fd = syscall(SYS_openat2, u->top_fd, *path ? path : ".", &how, sizeof(how));
	} while (fd < 0 && (errno == EINTR || errno == EAGAIN));
	return fd < 0 ? -errno : (int)fd;
}

/* Opens a directory below the top, and makes what is missing of it. */
static int open_making(const struct tar_unpack *u, const char *path)
{
	_cleanup_buf_ struct buf so_far = BUF_INIT;
	int fd = open_beneath(u, path, 0);

	while (fd == -ENOENT && *path) {
		size_t part = strcspn(path, "/");
		_cleanup_close_ int parent = open_beneath(u, buf_str(&so_far), 0);
		char name[256];

		if (parent < 0)
			return parent;
		if (part >= sizeof(name))
			return -ENAMETOOLONG;
		memcpy(name, path, part);
		name[part] = '\0';
		if (mkdirat(parent, name, 0777) < 0 && errno != EEXIST)
			return -errno;
		buf_append(&so_far, path, part);
		buf_append_char(&so_far, '/');
		path += part + (path[part] == '/' ? 1 : 0);
		if (!*path)
			fd = open_beneath(u, buf_str(&so_far), 0);
	}
	return fd;
}

static void forget_parent(struct tar_unpack *u)
{
	cleanup_closep(&u->parent_fd);
	u->parent_fd = -1;
	buf_reset(&u->parent_path);
}

/* Makes parent_fd and name those of path, which is not the top. */
static int enter_parent(struct tar_unpack *u, struct err *err)
{
	const char *slash = strrchr(u->path.data, '/');
	size_t len = slash ? (size_t)(slash - u->path.data) : 0;
	int fd;

	u->name = u->path.data + (slash ? len + 1 : 0);
	if (u->parent_fd >= 0 && u->parent_path.len == len &&
	    memcmp(buf_str(&u->parent_path), u->path.data, len) == 0)
		return 0;
	forget_parent(u);
	buf_append(&u->parent_path, u->path.data, len);
	fd = u->options.layer == TAR_LAYER_REMOVALS ? open_beneath(u, buf_str(&u->parent_path), 0)
						    : open_making(u, buf_str(&u->parent_path));
	if (fd < 0)
		return fail(u, fd, err);
	u->parent_fd = fd;
	return 0;
}

static void remember_dir(struct tar_unpack *u, const struct tar_entry *e)
{
	struct unpack_dir *dir = xmalloc(sizeof(*dir) + u->path.len + 1);

	*dir = (struct unpack_dir){
		.next = u->dirs,
		.mode = e->mode,
		.uid = e->uid,
		.gid = e->gid,
		.mtime = { .tv_sec = e->mtime_s, .tv_nsec = e->mtime_ns },
	};
	memcpy(dir->path, u->path.data, u->path.len + 1);
	u->dirs = dir;
	u->dirs_bytes += sizeof(*dir) + u->path.len + 1;
}

/* In a layer, what comes may be of another kind than what is there: a directory in place of
 * anything else, and anything else in place of a directory with all that is in it. */
static int clear_place(struct tar_unpack *u, bool for_dir, struct err *err)
{
	struct stat st;
	int r;

	if (!u->options.layer || fstatat(u->parent_fd, u->name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISDIR(st.st_mode) == !for_dir)
		return 0;
	if (for_dir)
		r = unlinkat(u->parent_fd, u->name, 0) < 0 ? -errno : 0;
	else
		r = tree_remove_at(u->parent_fd, u->name);
	return r < 0 ? fail(u, r, err) : 0;
}

static int make_dir(struct tar_unpack *u, const struct tar_entry *e, struct err *err)
{
	struct stat st;
	int r;

	if (u->dirs_bytes > DIRS_BYTES_MAX)
		return unacceptable(e, "too many directories", err);
	r = clear_place(u, true, err);
	if (r < 0)
		return r;
	if (mkdirat(u->parent_fd, u->name, 0700) < 0) {
		if (errno != EEXIST)
			return fail(u, -errno, err);
		/* A link to a directory stays one; where it leads is looked at when it is used. */
		if (fstatat(u->parent_fd, u->name, &st, 0) < 0 || !S_ISDIR(st.st_mode))
			return fail(u, -ENOTDIR, err);
	}
	remember_dir(u, e);
	return 0;
}

static mode_t mode_for(const struct tar_unpack *u, uint32_t mode)
{
	return (mode_t)(mode & (u->options.owners ? 07777u : 01777u));
}

/* Of directories that are another's, or that a link leads to, nothing is changed. */
static int dress_dirs(struct tar_unpack *u, struct err *err)
{
	for (const struct unpack_dir *dir = u->dirs; dir; dir = dir->next) {
		const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, dir->mtime };
		_cleanup_close_ int fd = open_beneath(u, dir->path, RESOLVE_NO_SYMLINKS);

		if (fd < 0)
			continue;
		if ((u->options.owners && fchown(fd, dir->uid, dir->gid) < 0) ||
		    fchmod(fd, mode_for(u, dir->mode)) < 0 || futimens(fd, times) < 0) {
			if (errno != EPERM)
				return err_set(err, -errno, "cannot set the mode of '%.200s': %s",
					       dir->path, strerrordesc_np(errno));
		}
	}
	return 0;
}

/* ---- files and links ---- */

static int begin_file(struct tar_unpack *u, struct err *err)
{
	int r = aside_open(&u->aside, u->parent_fd);

	return r < 0 ? fail(u, r, err) : 0;
}

static int end_file(struct tar_unpack *u, const struct tar_entry *e, struct err *err)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
					   { .tv_sec = e->mtime_s, .tv_nsec = e->mtime_ns } };
	int r;

	if (u->aside.fd < 0)
		return 0;
	if ((u->options.owners && fchown(u->aside.fd, e->uid, e->gid) < 0) ||
	    fchmod(u->aside.fd, mode_for(u, e->mode)) < 0 || futimens(u->aside.fd, times) < 0)
		return fail(u, -errno, err);
	r = aside_commit(&u->aside, u->name, true, false);
	aside_discard(&u->aside);
	return r < 0 ? fail(u, r, err) : 0;
}

/* What was made under a name of its own takes its place. */
static int take_place(struct tar_unpack *u, const char *made, struct err *err)
{
	int r = renameat(u->parent_fd, made, u->parent_fd, u->name) < 0 ? -errno : 0;

	unlinkat(u->parent_fd, made, 0); /* a second name of the same file is still there */
	return r < 0 ? fail(u, r, err) : 0;
}

static int make_symlink(struct tar_unpack *u, const struct tar_entry *e, struct err *err)
{
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
					   { .tv_sec = e->mtime_s, .tv_nsec = e->mtime_ns } };
	char made[ASIDE_NAME_SIZE];

	if (e->link.len == 0 || e->link.len > TAR_PATH_MAX || strlen(e->link.data) != e->link.len)
		return unacceptable(e, "a link to nowhere", err);
	aside_name(made);
	if (symlinkat(e->link.data, u->parent_fd, made) < 0)
		return fail(u, -errno, err);
	if (u->options.owners)
		(void)fchownat(u->parent_fd, made, e->uid, e->gid, AT_SYMLINK_NOFOLLOW);
	(void)utimensat(u->parent_fd, made, times, AT_SYMLINK_NOFOLLOW);
	return take_place(u, made, err);
}

static int make_hard_link(struct tar_unpack *u, const struct tar_entry *e, struct err *err)
{
	_cleanup_buf_ struct buf target = BUF_INIT, dir = BUF_INIT;
	_cleanup_close_ int fd = -1;
	size_t slashes = u->options.layer ? strspn(buf_str(&e->link), "/") : 0;
	char made[ASIDE_NAME_SIZE];
	const char *slash;
	size_t len;

	if (tar_path_clean(buf_str(&e->link) + slashes, e->link.len - slashes, &target) < 0 ||
	    target.len == 0)
		return unacceptable(e, "a hard link that leads out of it", err);
	slash = strrchr(target.data, '/');
	len = slash ? (size_t)(slash - target.data) : 0;
	buf_append(&dir, target.data, len);
	fd = open_beneath(u, buf_str(&dir), 0);
	if (fd < 0)
		return fail(u, fd, err);
	aside_name(made);
	if (linkat(fd, target.data + (slash ? len + 1 : 0), u->parent_fd, made, 0) < 0)
		return fail(u, -errno, err);
	return take_place(u, made, err);
}

/* ---- layers ---- */

/* A sandbox mounts its own over these: what a layer has there is never seen. */
static bool is_mounted_over(const char *path)
{
	static const char *const tops[] = { "dev/", "proc/", "run/", "sys/" };

	for (size_t i = 0; i < ARRAY_SIZE(tops); i++)
		if (str_starts(path, tops[i]))
			return true;
	return false;
}

/* What a name that begins with .wh. takes away; "" is all of its directory, NULL nothing. */
static int read_removal(const char *name, const struct tar_entry *e, const char **ret_victim,
			struct err *err)
{
	const char *victim = name + strlen(WHITEOUT);

	if (str_eq(name, OPAQUE))
		victim = "";
	else if (str_starts(name, WHITEOUT_NOTE))
		victim = NULL;
	else if (*victim == '\0' || str_eq(victim, ".") || str_eq(victim, ".."))
		return unacceptable(e, "a removal of what is no name", err);
	*ret_victim = victim;
	return 0;
}

/* What is not there need not go. */
static int remove_lower(struct tar_unpack *u, const char *victim, struct err *err)
{
	struct err why = ERR_INIT;
	int r = enter_parent(u, &why);

	if (r == 0)
		r = *victim ? tree_remove_at(u->parent_fd, victim) : tree_empty(u->parent_fd);
	/* What was taken away may be a directory that later names lead through. */
	forget_parent(u);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (why.num < 0 && err)
		*err = why;
	return why.num < 0 || r == 0 ? r : fail(u, r, err);
}

/* 1: the entry has been dealt with; 0: it is to be made as any other. */
static int take_layer_entry(struct tar_unpack *u, const struct tar_entry *e, struct err *err)
{
	const char *path = buf_str(&u->path), *slash = strrchr(path, '/'), *victim;
	const char *name = slash ? slash + 1 : path;
	int r;

	if (!str_starts(name, WHITEOUT))
		return u->options.layer == TAR_LAYER_REMOVALS ||
		       (e->type == TAR_OTHER && is_mounted_over(path));
	r = read_removal(name, e, &victim, err);
	if (r == 0 && victim && u->options.layer == TAR_LAYER_REMOVALS)
		r = remove_lower(u, victim, err);
	return r < 0 ? r : 1;
}

static int count(struct tar_unpack *u, const struct tar_entry *e, struct err *err)
{
	const struct tar_unpack_options *o = &u->options;

	if (o->entries_max && u->done.entries >= o->entries_max)
		return err_set(err, -EFBIG, "the archive has more than %llu entries",
			       (unsigned long long)o->entries_max);
	if (o->bytes_max && e->size > o->bytes_max - u->done.bytes)
		return err_set(err, -EFBIG,
			       "the archive holds more than %llu bytes: '%.200s' has %llu",
			       (unsigned long long)o->bytes_max, buf_str(&e->path),
			       (unsigned long long)e->size);
	u->done.entries += u->path.len > 0;
	u->done.bytes += e->size;
	return 0;
}

static int begin_entry(struct tar_unpack *u, struct err *err)
{
	const struct tar_entry *e = &u->reader.entry;
	size_t slashes = u->options.layer ? strspn(buf_str(&e->path), "/") : 0;
	int r;

	buf_reset(&u->path);
	if (tar_path_clean(buf_str(&e->path) + slashes, e->path.len - slashes, &u->path) < 0)
		return unacceptable(e, "a name that leads out of it", err);
	r = count(u, e, err);
	if (r == 0 && u->options.layer)
		r = take_layer_entry(u, e, err);
	if (r != 0)
		return r < 0 ? r : 0;
	if (e->type == TAR_OTHER)
		return unacceptable(e, "what is no file, directory or link", err);
	if (u->path.len == 0)
		return e->type == TAR_DIRECTORY ? 0 : unacceptable(e, "a file without a name", err);
	r = enter_parent(u, err);
	if (r == 0 && e->type != TAR_DIRECTORY)
		r = clear_place(u, false, err);
	if (r < 0)
		return r;
	switch (e->type) {
	case TAR_FILE:
		return begin_file(u, err);
	case TAR_DIRECTORY:
		return make_dir(u, e, err);
	case TAR_SYMLINK:
		return make_symlink(u, e, err);
	case TAR_HARD_LINK:
		return make_hard_link(u, e, err);
	case TAR_OTHER:
		break;
	}
	return 0;
}

/* ---- the stream ---- */

static int take_data(struct tar_unpack *u, const char *data, size_t len, struct err *err)
{
	int r = u->aside.fd < 0 ? 0 : fd_write_all(u->aside.fd, data, len);

	return r < 0 ? fail(u, r, err) : 0;
}

int tar_unpack_feed(struct tar_unpack *u, const void *data, size_t len, struct err *err)
{
	const char *at = data;

	for (;;) {
		enum tar_event event;
		const char *bytes;
		size_t n_bytes;
		ssize_t n = tar_read(&u->reader, at, len, &event, &bytes, &n_bytes);
		int r = 0;

		if (n < 0)
			return err_set(err, -EBADMSG, "%s", u->reader.reason);
		if (u->reader.error.len > 0)
			return err_set(err, -EBADMSG, "whoever made the archive says: %.300s",
				       buf_str(&u->reader.error));
		at += n;
		len -= (size_t)n;
		if (event == TAR_NEED_MORE)
			return 0;
		if (event == TAR_ENTRY)
			r = begin_entry(u, err);
		else if (event == TAR_DATA)
			r = take_data(u, bytes, n_bytes, err);
		else if (event == TAR_ENTRY_END)
			r = end_file(u, &u->reader.entry, err);
		if (r < 0)
			return r;
	}
}

int tar_unpack_finish(struct tar_unpack *u, struct tar_unpacked *ret, struct err *err)
{
	int r;

	if (!tar_may_end(&u->reader))
		return err_set(err, -EBADMSG, "the archive ends before its end");
	r = dress_dirs(u, err);
	if (r == 0 && u->options.durable && syncfs(u->top_fd) < 0)
		r = err_set(err, -errno, "cannot write out what was unpacked: %s",
			    strerrordesc_np(errno));
	if (r == 0)
		*ret = u->done;
	return r;
}
