/*
 * Making snapshot directories: the order of writes.
 *
 *   each file is fsynced; the manifest is written and fsynced; the draft's directory is fsynced; it
 * is renamed; the parent is fsynced
 *
 * A crash before the rename leaves a draft, which nobody takes for a snapshot. A draft's maker
 * holds a flock on its directory: the kernel drops it with the maker, so that a sweep knows the
 * dead ones from the living without guessing by age. Renaming keeps the lock, which is then
 * dropped.
 */
#include "snapshot/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "snapshot/delta.h"

#define PARTIAL	      ".partial-"
#define SUFFIX_DIGITS 16

static char *parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return xstrdup(".");
	return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

/* ---- making ---- */

int snapshot_draft(const char *dir, struct snapshot_draft *ret, struct err *err)
{
	_cleanup_(snapshot_draft_clear) struct snapshot_draft draft = SNAPSHOT_DRAFT_INIT;
	char suffix[SUFFIX_DIGITS + 1];
	struct stat st;

	if (access(dir, F_OK) == 0)
		return err_code(err, -EEXIST, "conflict", "there is a snapshot '%s' already", dir);
	rand_hex(suffix, SUFFIX_DIGITS);
	draft.dir = xstrdup(dir);
	draft.path = xasprintf("%s" PARTIAL "%s", dir, suffix);
	if (mkdir(draft.path, 0700) < 0) {
		int r = err_set(err, -errno, "cannot make '%s': %s", draft.path,
				strerrordesc_np(errno));

		free(STEAL(draft.path)); /* not ours to remove */
		return r;
	}
	draft.fd = open(draft.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* A sweep that comes between mkdir and flock takes it for a dead one: then it has no link.
	 */
	if (draft.fd < 0 || flock(draft.fd, LOCK_EX | LOCK_NB) < 0 || fstat(draft.fd, &st) < 0)
		return err_set(err, -errno, "cannot lock '%s': %s", draft.path,
			       strerrordesc_np(errno));
	if (st.st_nlink == 0)
		return err_set(err, -EAGAIN, "'%s' was swept away", draft.path);
	ret->dir = STEAL(draft.dir);
	ret->path = STEAL(draft.path);
	ret->fd = STEAL_FD(draft.fd);
	return 0;
}

void snapshot_draft_clear(struct snapshot_draft *draft)
{
	if (draft->path)
		tree_remove(draft->path); /* what it cannot remove, a sweep finds */
	if (draft->fd >= 0)
		close(draft->fd);
	free(draft->path);
	free(draft->dir);
	*draft = SNAPSHOT_DRAFT_INIT;
}

static int hash_of(const char *path, int fd, enum snapshot_hash how, char out[HASH_TEXT_SIZE],
		   struct err *err)
{
	struct delta_stats stats;
	uint8_t hash[HASH_SIZE];
	int r;

	switch (how) {
	case SNAPSHOT_HASH_NONE:
		out[0] = '\0';
		return 0;
	case SNAPSHOT_HASH_DELTA:
		r = delta_inspect(path, &stats, err);
		if (r == 0)
			str_copy(out, HASH_TEXT_SIZE, stats.root);
		return r;
	case SNAPSHOT_HASH_CONTENT:
		break;
	}
	r = hash_file(fd, hash);
	if (r < 0)
		return err_set(err, r, "cannot read '%s': %s", path, strerrordesc_np(-r));
	hash_text("xxh3-128", hash, out);
	return 0;
}

int snapshot_draft_add(const struct snapshot_draft *draft, const char *name, enum snapshot_hash how,
		       struct manifest *manifest, struct err *err)
{
	struct manifest_file file = { 0 };
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int fd = -1;
	struct stat st;
	int r;

	if (!manifest_word_valid(name) || str_eq(name, MANIFEST_NAME) ||
	    manifest_file(manifest, name) || manifest->n_files == MANIFEST_FILES_MAX)
		return err_set(err, -EINVAL, "'%s' cannot be a file of a snapshot", name);
	path = xasprintf("%s/%s", draft->path, name);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0 || fsync(fd) < 0)
		return err_set(err, -errno, "cannot make '%s' durable: %s", path,
			       strerrordesc_np(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "'%s' is no regular file", path);
	r = hash_of(path, fd, how, file.hash, err);
	if (r < 0)
		return r;
	str_copy(file.name, sizeof(file.name), name);
	file.bytes = (uint64_t)st.st_size;
	manifest->files[manifest->n_files++] = file;
	return 0;
}

int snapshot_rewrite_manifest(const char *dir, const struct manifest *manifest, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/" MANIFEST_NAME, dir);
	_cleanup_buf_ struct buf text = BUF_INIT;
	int r;

	manifest_encode(manifest, &text);
	r = file_write_durable(path, text.data, text.len, 0600);
	if (r < 0)
		return err_set(err, r, "cannot write '%s': %s", path, strerrordesc_np(-r));
	return 0;
}

int snapshot_seal(struct snapshot_draft *draft, const struct manifest *manifest, struct err *err)
{
	_cleanup_free_ char *parent = parent_of(draft->dir);
	struct manifest checked;
	int r;

	r = snapshot_rewrite_manifest(draft->path, manifest, err);
	if (r < 0)
		return r;
	/* what will be refused when it is needed is better refused now */
	r = snapshot_open(draft->path, NULL, &checked, err);
	if (r < 0)
		return err_wrap(err, r, "seal '%s'", draft->dir);
	if (fsync(draft->fd) < 0)
		return err_set(err, -errno, "cannot fsync '%s': %s", draft->path,
			       strerrordesc_np(errno));
	if (renameat2(AT_FDCWD, draft->path, AT_FDCWD, draft->dir, RENAME_NOREPLACE) < 0)
		return err_set(err, -errno, "cannot rename '%s' to '%s': %s", draft->path,
			       draft->dir, strerrordesc_np(errno));
	free(STEAL(draft->path));
	/* From here it is there. If its name cannot be made durable, a crash may still lose it
	 * whole. */
	r = dir_fsync(parent);
	if (r < 0)
		return err_set(err, r, "cannot fsync '%s': %s", parent, strerrordesc_np(-r));
	return 0;
}

/* ---- using ---- */

static int check_sizes(const char *dir, const struct manifest *manifest, struct err *err)
{
	for (size_t i = 0; i < manifest->n_files; i++) {
		const struct manifest_file *file = &manifest->files[i];
		_cleanup_free_ char *path = xasprintf("%s/%s", dir, file->name);
		struct stat st;

		if (lstat(path, &st) < 0)
			return errno == ENOENT
				       ? err_code(err, -ENOENT, CODE_SNAPSHOT_INCOMPLETE,
						  "the snapshot's file '%s' is missing", path)
				       : err_set(err, -errno, "cannot look at '%s': %s", path,
						 strerrordesc_np(errno));
		if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != file->bytes)
			return err_code(err, -EBADMSG, CODE_SNAPSHOT_DAMAGED,
					"the snapshot's file '%s' has %jd bytes instead of %ju",
					path, (intmax_t)st.st_size, (uintmax_t)file->bytes);
	}
	return 0;
}

int snapshot_open(const char *dir, const char *vmm_fingerprint, struct manifest *ret,
		  struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/" MANIFEST_NAME, dir);
	_cleanup_buf_ struct buf text = BUF_INIT;
	struct manifest manifest;
	struct stat st;
	int r;

	if (stat(dir, &st) < 0)
		return errno == ENOENT
			       ? err_code(err, -ENOENT, CODE_SNAPSHOT_NOT_FOUND,
					  "there is no snapshot '%s'", dir)
			       : err_set(err, -errno, "cannot look at the snapshot '%s': %s", dir,
					 strerrordesc_np(errno));
	r = file_read(path, MANIFEST_BYTES_MAX, &text);
	if (r == -ENOENT || r == -ENOTDIR)
		return err_code(err, -ENOENT, CODE_SNAPSHOT_INCOMPLETE, "'%s' has no manifest",
				dir);
	if (r == -EFBIG || r == -EIO)
		return err_code(err, r, CODE_SNAPSHOT_DAMAGED,
				"the manifest of '%s' is damaged: %s", dir, strerrordesc_np(-r));
	if (r < 0)
		return err_set(err, r, "cannot read '%s': %s", path, strerrordesc_np(-r));
	r = manifest_decode(buf_str(&text), text.len, &manifest, err);
	if (r < 0)
		return err_wrap(err, r, "'%s'", dir);
	if (vmm_fingerprint && !str_eq(vmm_fingerprint, manifest.vmm_fingerprint)) {
		err_code(err, -EPROTONOSUPPORT, CODE_SNAPSHOT_VERSION,
			 "the snapshot '%s' was saved under '%s', this host runs '%s'", dir,
			 manifest.vmm_fingerprint, vmm_fingerprint);
		err_hint(err, "restore it on a host with the VMM and CPU model it was saved "
			      "under");
		return -EPROTONOSUPPORT;
	}
	r = check_sizes(dir, &manifest, err);
	if (r < 0)
		return r;
	*ret = manifest;
	return 0;
}

int snapshot_verify_file(const char *dir, const struct manifest *manifest, const char *name,
			 struct err *err)
{
	const struct manifest_file *file = manifest_file(manifest, name);
	_cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
	_cleanup_close_ int fd = -1;
	struct delta_stats stats;
	char hash[HASH_TEXT_SIZE];
	enum snapshot_hash how;
	int r = 0;

	if (!file)
		return err_code(err, -ENOENT, CODE_SNAPSHOT_INCOMPLETE,
				"the snapshot has no file '%s'", name);
	how = !file->hash[0]			      ? SNAPSHOT_HASH_NONE
	      : str_starts(file->hash, "delta-xxh3:") ? SNAPSHOT_HASH_DELTA
						      : SNAPSHOT_HASH_CONTENT;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_code(err, -errno, CODE_SNAPSHOT_INCOMPLETE, "cannot open '%s': %s", path,
				strerrordesc_np(errno));
	if (how == SNAPSHOT_HASH_DELTA)
		r = delta_verify(path, &stats, err);
	if (r == 0)
		r = hash_of(path, fd, how, hash, err);
	if (r == -EIO)
		return err_code(err, r, CODE_SNAPSHOT_DAMAGED, "'%s' cannot be read", path);
	if (r < 0)
		return r;
	if (!str_eq(hash, file->hash))
		return err_code(
			err, -EBADMSG, CODE_SNAPSHOT_DAMAGED,
			"the snapshot's file '%s' is not what was saved: its checksum is wrong",
			path);
	return 0;
}

int snapshot_verify(const char *dir, const struct manifest *manifest, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < manifest->n_files && r == 0; i++)
		r = snapshot_verify_file(dir, manifest, manifest->files[i].name, err);
	return r;
}

int snapshot_check_base(const struct manifest *manifest, const char *base_path, struct err *err)
{
	struct stat st;

	if (stat(base_path, &st) < 0) {
		err_code(err, -ENOENT, CODE_SNAPSHOT_INCOMPLETE,
			 "the memory file '%s' that the snapshot builds on cannot be used: %s",
			 base_path, strerrordesc_np(errno));
		err_hint(err, "it belongs to template '%s'", manifest->base.key);
		return -ENOENT;
	}
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size != manifest->base.bytes)
		return err_code(err, -EBADMSG, CODE_SNAPSHOT_DAMAGED,
				"the memory file '%s' is not the one that the snapshot builds on",
				base_path);
	return 0;
}
