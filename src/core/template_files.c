/*
 * A template's manifest: what it was made from, and size and hash of each of its files.
 *
 * The hash of a file covers the blocks of 64 KiB that hold anything but zeros, with their offsets,
 * so that it does not depend on where a file system keeps holes and reads only what is allocated.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "core/internal.h"
#include "snapshot/manifest.h"

#define BLOCK		 65536
#define MANIFEST_MAX	 65536
#define SHA256_TEXT_SIZE 65

static const char *const file_names[] = { "memory", "state", "disk" };

/* ---- hashing ---- */

DEFINE_CLEANUP(EVP_MD_CTX *, md_freep, EVP_MD_CTX_free);

static bool all_zero(const unsigned char *data, size_t len)
{
	return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

static int hash_block(EVP_MD_CTX *md, int fd, off_t offset, unsigned char *block)
{
	uint64_t at = (uint64_t)offset;
	ssize_t n = pread(fd, block, BLOCK, offset);

	if (n < 0)
		return -errno;
	if (all_zero(block, (size_t)n))
		return 0;
	if (!EVP_DigestUpdate(md, &at, sizeof(at)) || !EVP_DigestUpdate(md, block, (size_t)n))
		return -EIO;
	return 0;
}

static int hash_extents(EVP_MD_CTX *md, int fd, off_t size)
{
	_cleanup_free_ unsigned char *block = xmalloc(BLOCK);
	off_t at = 0;

	while (at < size) {
		off_t data = lseek(fd, at, SEEK_DATA);
		int r;

		if (data < 0)
			return errno == ENXIO ? 0 : -errno;
		data -= data % BLOCK;
		at = data > at ? data : at;
		r = hash_block(md, fd, at, block);
		if (r < 0)
			return r;
		at += BLOCK;
	}
	return 0;
}

static int file_hash(const char *path, char out[SHA256_TEXT_SIZE], int64_t *ret_size)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(md_freep) EVP_MD_CTX *md = EVP_MD_CTX_new();
	unsigned char digest[EVP_MAX_MD_SIZE];
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!md || !EVP_DigestInit_ex(md, EVP_sha256(), NULL))
		return -ENOMEM;
	r = hash_extents(md, fd, st.st_size);
	if (r < 0)
		return r;
	if (!EVP_DigestFinal_ex(md, digest, NULL))
		return -EIO;
	hex_encode(digest, 32, out);
	*ret_size = st.st_size;
	return 0;
}

/* ---- writing ---- */

static int describe_file(const char *dir, const char *name, json_t *files, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
	json_t *file;
	char hash[SHA256_TEXT_SIZE] = "";
	int64_t size = 0;
	int r = file_hash(path, hash, &size);

	if (r < 0)
		return err_set(err, r, "read '%s': %s", path, strerror(-r));
	file = json_object();
	json_put_int(file, "size_bytes", size);
	json_put_str(file, "sha256", hash);
	json_put(files, name, file);
	return 0;
}

int template_write_manifest(const char *dir, const struct template *template,
			    const char *fingerprint, struct err *err)
{
	_cleanup_json_ json_t *manifest = json_object();
	_cleanup_free_ char *path = xasprintf("%s/manifest.json", dir);
	_cleanup_buf_ struct buf text = BUF_INIT;
	json_t *files = json_object();
	int r;

	json_put_str(manifest, "key", template->key);
	json_put_str(manifest, "image_digest", template->image_digest);
	json_put_str(manifest, "fingerprint", fingerprint);
	json_put_int(manifest, "created_unix_ms", clock_unix_ms());
	json_put(manifest, "files", files);
	for (size_t i = 0; i < ARRAY_SIZE(file_names); i++) {
		r = describe_file(dir, file_names[i], files, err);
		if (r < 0)
			return r;
	}
	json_write(manifest, &text);
	r = file_write_durable(path, text.data, text.len, 0600);
	return r < 0 ? err_set(err, r, "write '%s': %s", path, strerror(-r)) : 0;
}

int template_keep_root(const char *root_path, const struct image_info *image, struct err *err)
{
	int r = link(image->path, root_path) < 0 ? -errno : 0;

	if (r == -EXDEV || r == -EPERM || r == -EMLINK)
		r = file_copy_sparse(image->path, root_path, 0444);
	if (r < 0 && r != -EEXIST)
		return err_set(err, r, "keep the image '%s' as '%s': %s", image->path, root_path,
			       strerror(-r));
	return 0;
}

/* ---- checking ---- */

static int damaged(struct err *err, const char *what, const char *name)
{
	return err_code(err, -EBADMSG, "template_damaged", "its file '%s' %s", name, what);
}

static int check_file(const char *dir, const char *name, const json_t *file, bool with_hash,
		      struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
	char hash[SHA256_TEXT_SIZE];
	struct stat st;
	int64_t size;

	if (stat(path, &st) < 0)
		return damaged(err, "is missing", name);
	if (st.st_size != json_get_int(file, "size_bytes", -1))
		return damaged(err, "has the wrong size", name);
	if (!with_hash)
		return 0;
	if (file_hash(path, hash, &size) < 0)
		return damaged(err, "cannot be read", name);
	return str_eq(hash, json_get_str(file, "sha256", "")) ? 0
							      : damaged(err, "was changed", name);
}

int template_check(const char *dir, const char *fingerprint, bool with_hashes, char ret_digest[72],
		   struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/manifest.json", dir);
	_cleanup_buf_ struct buf text = BUF_INIT;
	_cleanup_json_ json_t *manifest = NULL;
	int r = file_read(path, MANIFEST_MAX, &text);

	if (r < 0)
		return err_set(err, r == -ENOENT ? r : -EBADMSG, "read '%s': %s", path,
			       strerror(-r));
	if (json_parse(text.data, text.len, &manifest, err) < 0)
		return err_wrap(err, -EBADMSG, "its manifest");
	if (fingerprint && !str_eq(json_get_str(manifest, "fingerprint", ""), fingerprint))
		return err_code(err, -EBADMSG, "template_stale",
				"it was made with another VMM or kernel");
	for (size_t i = 0; i < ARRAY_SIZE(file_names); i++) {
		const json_t *file =
			json_object_get(json_object_get(manifest, "files"), file_names[i]);

		r = check_file(dir, file_names[i], file, with_hashes, err);
		if (r < 0)
			return r;
	}
	if (ret_digest)
		str_copy(ret_digest, 72, json_get_str(manifest, "image_digest", ""));
	return 0;
}

/* The first half of the file's SHA-256, as its manifest has it: nothing is read again. A memory
 * that was made anew has another, also under the same key. */
int template_memory_identity(const char *dir, const char *key, struct manifest_base *ret,
			     struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/manifest.json", dir);
	_cleanup_buf_ struct buf text = BUF_INIT;
	_cleanup_json_ json_t *manifest = NULL;
	const json_t *memory;
	int r = file_read(path, MANIFEST_MAX, &text);

	if (r < 0)
		return err_code(err, r, "snapshot_incomplete",
				"the template that the memory is a difference to is gone: %s: %s",
				path, strerror(-r));
	if (json_parse(text.data, text.len, &manifest, err) < 0)
		return err_wrap(err, -EBADMSG, "the manifest of template '%s'", key);
	memory = json_object_get(json_object_get(manifest, "files"), "memory");
	*ret = (struct manifest_base){
		.bytes = (uint64_t)json_get_int(memory, "size_bytes", 0),
	};
	str_copy(ret->key, sizeof(ret->key), key);
	snprintf(ret->hash, sizeof(ret->hash), "sha256-128:%.32s",
		 json_get_str(memory, "sha256", ""));
	return 0;
}
