/* Compression of a sealed snapshot's files, by libzstd's streaming interface. */
#include "snapshot/compress.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <zstd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "snapshot/delta_format.h"
#include "snapshot/seal.h"

#define IN_CHUNK ((size_t)1 << 20)

/* A stream from one file to another through libzstd, in either direction. */
struct stream {
	int in_fd, out_fd;
	ZSTD_CCtx *compress; /* one of the two */
	ZSTD_DCtx *expand;
	struct hash_stream *hash;	    /* of the compressed side */
	const struct compress_hooks *hooks; /* NULL, or those of a compression in the background */
	uint64_t in_bytes;
	uint64_t out_bytes;
	uint64_t out_bytes_max;
	char *in, *out;
	size_t out_size;
};

static void stream_clear(struct stream *s)
{
	if (s->in_fd >= 0)
		close(s->in_fd);
	if (s->out_fd >= 0)
		close(s->out_fd);
	ZSTD_freeCCtx(s->compress);
	ZSTD_freeDCtx(s->expand);
	hash_stream_free(s->hash);
	free(s->in);
	free(s->out);
}

static int stream_open(struct stream *s, const char *in, const char *out, struct err *err)
{
	s->in_fd = open(in, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (s->in_fd < 0)
		return err_code(err, -errno, errno == ENOENT ? CODE_SNAPSHOT_INCOMPLETE : NULL,
				"cannot open '%s': %s", in, strerrordesc_np(errno));
	s->out_fd = open(out, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (s->out_fd < 0)
		return err_set(err, -errno, "cannot create '%s': %s", out, strerrordesc_np(errno));
	s->hash = hash_stream_new();
	s->in = xmalloc(IN_CHUNK);
	s->out_size = ZSTD_CStreamOutSize();
	s->out = xmalloc(s->out_size);
	return 0;
}

static int stream_write(struct stream *s, size_t len, struct err *err)
{
	int r;

	if (len > s->out_bytes_max - s->out_bytes)
		return err_code(err, -EBADMSG, CODE_SNAPSHOT_DAMAGED,
				"the compressed file holds more than it should");
	s->out_bytes += len;
	r = fd_write_all(s->out_fd, s->out, len);
	if (r < 0)
		return err_set(err, r, "cannot write: %s", strerrordesc_np(-r));
	return 0;
}

/* Pushes one piece of input through. *ret_open: the frame is not at its end. */
static int stream_push(struct stream *s, ZSTD_inBuffer *in, bool last, bool *ret_open,
		       struct err *err)
{
	bool more;

	do {
		ZSTD_outBuffer out = { s->out, s->out_size, 0 };
		size_t left = s->compress
				      ? ZSTD_compressStream2(s->compress, &out, in,
							     last ? ZSTD_e_end : ZSTD_e_continue)
				      : ZSTD_decompressStream(s->expand, &out, in);
		int r;

		if (ZSTD_isError(left))
			return err_code(err, -EBADMSG, s->expand ? CODE_SNAPSHOT_DAMAGED : NULL,
					"zstd: %s", ZSTD_getErrorName(left));
		if (s->compress)
			hash_stream_add(s->hash, s->out, out.pos);
		r = stream_write(s, out.pos, err);
		if (r < 0)
			return r;
		*ret_open = left != 0;
		/* what is held back comes while there is input, a full buffer, or an end to write
		 */
		more = in->pos < in->size || out.pos == out.size ||
		       (s->compress && last && left != 0);
	} while (more);
	return 0;
}

/* What lies idle need not stand in the page cache, and what is written should reach the disk as it
 * comes, not all of it at the fsync. Hints: their results do not matter. */
static void stream_pass(struct stream *s, size_t in_bytes)
{
	if (!s->hooks)
		return;
	posix_fadvise(s->in_fd, (off_t)s->in_bytes, (off_t)in_bytes, POSIX_FADV_DONTNEED);
	sync_file_range(s->out_fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	s->in_bytes += in_bytes;
}

static int stream_run(struct stream *s, struct err *err)
{
	bool open = true, last;

	do {
		ssize_t n = fd_read_full(s->in_fd, s->in, IN_CHUNK);
		ZSTD_inBuffer in = { s->in, n < 0 ? 0 : (size_t)n, 0 };
		int r;

		if (s->hooks && s->hooks->cancelled && s->hooks->cancelled(s->hooks->arg))
			return err_set(err, -ECANCELED, "it is not wanted any more");
		if (n < 0)
			return err_code(err, (int)n, CODE_SNAPSHOT_DAMAGED, "cannot read: %s",
					strerrordesc_np((int)-n));
		if (s->expand)
			hash_stream_add(s->hash, s->in, in.size);
		last = in.size < IN_CHUNK;
		if (s->expand && in.size == 0)
			break;
		r = stream_push(s, &in, last, &open, err);
		if (r < 0)
			return r;
		stream_pass(s, in.size);
	} while (!last);
	if (s->expand && open)
		return err_code(err, -EBADMSG, CODE_SNAPSHOT_DAMAGED,
				"the compressed file is cut short");
	return 0;
}

static int compress_file(const char *in, const char *out, int level,
			 const struct compress_hooks *hooks, struct manifest_file *file,
			 struct err *err)
{
	_cleanup_(stream_clear) struct stream s = {
		.in_fd = -1, .out_fd = -1, .hooks = hooks, .out_bytes_max = UINT64_MAX
	};
	uint8_t hash[HASH_SIZE];
	int r;

	s.compress = ZSTD_createCCtx();
	if (!s.compress ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(s.compress, ZSTD_c_compressionLevel, level)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(s.compress, ZSTD_c_checksumFlag, 1)))
		return err_set(err, -ENOMEM, "cannot set up zstd");
	r = stream_open(&s, in, out, err);
	if (r == 0)
		r = stream_run(&s, err);
	if (r < 0)
		return r;
	if (fsync(s.out_fd) < 0)
		return err_set(err, -errno, "cannot fsync '%s': %s", out, strerrordesc_np(errno));
	file->bytes = s.out_bytes;
	hash_stream_end(s.hash, hash);
	hash_text("xxh3-128", hash, file->hash);
	return 0;
}

static int expand_file(const char *in, const char *out, const struct manifest_file *file,
		       bool durable, struct err *err)
{
	_cleanup_(stream_clear) struct stream s = { .in_fd = -1,
						    .out_fd = -1,
						    .out_bytes_max = file->plain_bytes };
	char text[HASH_TEXT_SIZE];
	uint8_t hash[HASH_SIZE];
	int r;

	s.expand = ZSTD_createDCtx();
	if (!s.expand)
		return err_set(err, -ENOMEM, "cannot set up zstd");
	r = stream_open(&s, in, out, err);
	if (r == 0)
		r = stream_run(&s, err);
	if (r < 0)
		return r;
	hash_stream_end(s.hash, hash);
	hash_text("xxh3-128", hash, text);
	if (s.out_bytes != file->plain_bytes || !str_eq(text, file->hash))
		return err_code(err, -EBADMSG, CODE_SNAPSHOT_DAMAGED,
				"its checksum or length is wrong");
	if (durable && fsync(s.out_fd) < 0)
		return err_set(err, -errno, "cannot fsync '%s': %s", out, strerrordesc_np(errno));
	return 0;
}

/* ---- a sealed snapshot ---- */

/* One of the two forms in which a file can lie there. */
struct form {
	char name[MANIFEST_WORD_MAX + 1];
	char *path;
};

struct change {
	const char *dir;
	int level;			    /* of a compression */
	const struct compress_hooks *hooks; /* may be NULL */
	int lock_fd;
	struct manifest manifest;
	struct form plain, small;
	char *new_path;
};

static void change_clear(struct change *change)
{
	if (change->lock_fd >= 0)
		close(change->lock_fd);
	free(change->plain.path);
	free(change->small.path);
	free(change->new_path);
}

static int change_begin(struct change *change, const char *dir, const char *name, struct err *err)
{
	int r;

	if (!manifest_word_valid(name) ||
	    strlen(name) + strlen(COMPRESS_SUFFIX) > MANIFEST_WORD_MAX)
		return err_set(err, -EINVAL, "'%s' cannot be a file of a snapshot", name);
	change->dir = dir;
	snprintf(change->plain.name, sizeof(change->plain.name), "%s", name);
	snprintf(change->small.name, sizeof(change->small.name), "%s" COMPRESS_SUFFIX, name);
	change->plain.path = xasprintf("%s/%s", dir, change->plain.name);
	change->small.path = xasprintf("%s/%s", dir, change->small.name);
	change->new_path = xasprintf("%s.new", change->plain.path);
	change->lock_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (change->lock_fd >= 0 && flock(change->lock_fd, LOCK_EX) < 0)
		return err_set(err, -errno, "cannot lock '%s': %s", dir, strerrordesc_np(errno));
	r = snapshot_open(dir, NULL, &change->manifest, err);
	if (r < 0)
		return r;
	/* left by one that was cut short */
	if (unlink(change->new_path) < 0 && errno != ENOENT)
		return err_set(err, -errno, "cannot remove '%s': %s", change->new_path,
			       strerrordesc_np(errno));
	return 0;
}

static struct manifest_file *entry_of(struct change *change, const char *name)
{
	for (size_t i = 0; i < change->manifest.n_files; i++)
		if (str_eq(change->manifest.files[i].name, name))
			return &change->manifest.files[i];
	return NULL;
}

/* From here on the manifest may speak of the new file. Rewriting it fsyncs the directory too. If
 * that fails, either manifest may be the one on disk: both files stay, and a sweep drops the one
 * that is not listed. */
static int change_list(struct change *change, const struct form *old, struct err *err)
{
	int r = snapshot_rewrite_manifest(change->dir, &change->manifest, err);

	if (r == 0)
		unlink(old->path); /* if not now, then by a sweep */
	return r;
}

/* The new file is whole: gives it its name, makes the manifest speak of it, drops the old one. */
static int change_finish(struct change *change, struct manifest_file *entry,
			 const struct manifest_file *now, const struct form *old,
			 const struct form *new, struct err *err)
{
	const struct compress_hooks *hooks = change->hooks;
	int r;

	if (rename(change->new_path, new->path) < 0)
		return err_set(err, -errno, "cannot rename '%s': %s", change->new_path,
			       strerrordesc_np(errno));
	*entry = *now;
	r = snapshot_verify_file(change->dir, &change->manifest, now->name, err);
	if (r == 0 && hooks && hooks->lock)
		r = hooks->lock(hooks->arg, err);
	if (r < 0) {
		unlink(new->path);
		return r;
	}
	r = change_list(change, old, err);
	if (hooks && hooks->unlock)
		hooks->unlock(hooks->arg);
	return r;
}

/* Makes change->new_path of an entry and fills in how it will be listed, but for the name. */
typedef int (*convert_fn)(const struct change *change, const struct manifest_file *entry,
			  struct manifest_file *now, struct err *err);

static int convert_to_small(const struct change *change, const struct manifest_file *entry,
			    struct manifest_file *now, struct err *err)
{
	int r = snapshot_verify_file(change->dir, &change->manifest, entry->name, err);

	if (r == 0)
		r = compress_file(change->plain.path, change->new_path, change->level,
				  change->hooks, now, err);
	now->plain_bytes = entry->bytes;
	str_copy(now->plain_hash, sizeof(now->plain_hash), entry->hash);
	return r;
}

static int convert_to_plain(const struct change *change, const struct manifest_file *entry,
			    struct manifest_file *now, struct err *err)
{
	now->bytes = entry->plain_bytes;
	str_copy(now->hash, sizeof(now->hash), entry->plain_hash);
	return expand_file(change->small.path, change->new_path, entry, true, err);
}

/* Nothing is done where the file has the new form already. */
static int change_run(struct change *change, const struct form *old, const struct form *new,
		      convert_fn convert, struct err *err)
{
	struct manifest_file *entry = entry_of(change, old->name), now = { 0 };
	int r;

	if (!entry && entry_of(change, new->name))
		return 0;
	if (!entry)
		return err_code(err, -ENOENT, CODE_SNAPSHOT_INCOMPLETE,
				"the snapshot has no file '%s'", change->plain.name);
	r = convert(change, entry, &now, err);
	if (r == 0) {
		str_copy(now.name, sizeof(now.name), new->name);
		r = change_finish(change, entry, &now, old, new, err);
	}
	if (r < 0)
		unlink(change->new_path);
	return r;
}

int snapshot_compress(const char *dir, const char *name, int level,
		      const struct compress_hooks *hooks, struct manifest *ret, struct err *err)
{
	_cleanup_(change_clear) struct change change = {
		.lock_fd = -1,
		.level = level,
		.hooks = hooks,
	};
	int r = change_begin(&change, dir, name, err);

	if (r < 0)
		return r;
	r = change_run(&change, &change.plain, &change.small, convert_to_small, err);
	if (r < 0)
		return err_wrap(err, r, "compress '%s'", change.plain.path);
	if (ret)
		*ret = change.manifest;
	return 0;
}

int snapshot_expand(const char *dir, const char *name, struct manifest *ret, struct err *err)
{
	_cleanup_(change_clear) struct change change = { .lock_fd = -1 };
	int r = change_begin(&change, dir, name, err);

	if (r < 0)
		return r;
	r = change_run(&change, &change.small, &change.plain, convert_to_plain, err);
	if (r < 0)
		return err_wrap(err, r, "expand '%s'", change.small.path);
	if (ret)
		*ret = change.manifest;
	return 0;
}

int snapshot_expand_to(const char *dir, const struct manifest *manifest, const char *name,
		       const char *out_path, struct err *err)
{
	_cleanup_free_ char *small_name = xasprintf("%s" COMPRESS_SUFFIX, name);
	_cleanup_free_ char *path = xasprintf("%s/%s", dir, small_name);
	const struct manifest_file *entry = manifest_file(manifest, small_name);
	int r;

	if (!entry)
		return err_code(err, -ENOENT, CODE_SNAPSHOT_INCOMPLETE,
				"the snapshot has no file '%s'", small_name);
	if (access(out_path, F_OK) == 0)
		return err_set(err, -EEXIST, "'%s' is there already", out_path);
	r = expand_file(path, out_path, entry, false, err);
	if (r < 0) {
		unlink(out_path);
		return err_wrap(err, r, "expand '%s'", path);
	}
	return 0;
}
