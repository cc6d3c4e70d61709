/* The manifest's text. Unknown fields are refused by the checksum's owner, the format number: a new
 * field that matters raises it, one that does not is ignored by older readers. */
#include "snapshot/manifest.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "snapshot/delta_format.h"

#define BYTES_MAX ((int64_t)1 << 50)
#define CHECKSUM  "checksum"

bool manifest_word_valid(const char *word)
{
	size_t len = strlen(word);

	return len > 0 && len <= MANIFEST_WORD_MAX && word[0] != '.' &&
	       strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") ==
		       len;
}

const struct manifest_file *manifest_file(const struct manifest *manifest, const char *name)
{
	for (size_t i = 0; i < manifest->n_files; i++)
		if (str_eq(manifest->files[i].name, name))
			return &manifest->files[i];
	return NULL;
}

/* ---- encoding ---- */

static json_t *file_json(const struct manifest_file *file)
{
	json_t *obj = json_object();

	json_put_str(obj, "name", file->name);
	json_put_int(obj, "bytes", (json_int_t)file->bytes);
	json_put_str(obj, "hash", file->hash);
	if (file->plain_hash[0]) {
		json_put_int(obj, "plain_bytes", (json_int_t)file->plain_bytes);
		json_put_str(obj, "plain_hash", file->plain_hash);
	}
	return obj;
}

static json_t *manifest_json(const struct manifest *m)
{
	json_t *obj = json_object(), *base = json_object(), *files = json_array();

	json_put_int(obj, "format", MANIFEST_FORMAT);
	json_put_str(obj, "id", m->id);
	json_put_str(obj, "kind", m->kind);
	json_put_int(obj, "created_unix_ms", m->created_unix_ms);
	json_put_str(obj, "vmm_fingerprint", m->vmm_fingerprint);
	json_put_str(obj, "image_digest", m->image_digest);
	json_put_int(obj, "vcpus", m->vcpus);
	json_put_int(obj, "memory_mb", m->memory_mb);
	json_put_int(obj, "disk_gb", m->disk_gb);
	json_put_str(base, "key", m->base.key);
	json_put_int(base, "bytes", (json_int_t)m->base.bytes);
	json_put_str(base, "hash", m->base.hash);
	json_put(obj, "base", base);
	json_put_str(obj, "parent", m->parent);
	json_put(obj, "needs_parent", json_boolean(m->needs_parent));
	for (size_t i = 0; i < m->n_files; i++)
		json_array_append_new(files, file_json(&m->files[i]));
	json_put(obj, "files", files);
	return obj;
}

/* Over the compact text of everything but the checksum itself. */
static void checksum_of(const json_t *obj, char out[HASH_TEXT_SIZE])
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	uint8_t hash[HASH_SIZE];

	json_write(obj, &text);
	hash_bytes(text.data, text.len, hash);
	hash_text("xxh3-128", hash, out);
}

void manifest_encode(const struct manifest *manifest, struct buf *out)
{
	_cleanup_json_ json_t *obj = manifest_json(manifest);
	char checksum[HASH_TEXT_SIZE];

	checksum_of(obj, checksum);
	json_put_str(obj, CHECKSUM, checksum);
	json_write(obj, out);
	buf_append_char(out, '\n');
}

/* ---- decoding ---- */

static int damaged(struct err *err, const char *field)
{
	return err_code(err, -EBADMSG, CODE_SNAPSHOT_DAMAGED,
			"the snapshot's manifest is damaged: '%s' is missing or impossible", field);
}

/* A string of at most size - 1 bytes without NUL. */
static int take_text(const json_t *obj, const char *key, char *out, size_t size, struct err *err)
{
	const json_t *value = json_object_get(obj, key);
	const char *text = json_string_value(value);

	if (!text || json_string_length(value) >= size || strlen(text) != json_string_length(value))
		return damaged(err, key);
	str_copy(out, size, text);
	return 0;
}

static int take_word(const json_t *obj, const char *key, bool may_be_empty,
		     char out[MANIFEST_WORD_MAX + 1], struct err *err)
{
	int r = take_text(obj, key, out, MANIFEST_WORD_MAX + 1, err);

	if (r == 0 && !(may_be_empty && !out[0]) && !manifest_word_valid(out))
		return damaged(err, key);
	return r;
}

static int take_hash(const json_t *obj, const char *key, char out[HASH_TEXT_SIZE], struct err *err)
{
	int r = take_text(obj, key, out, HASH_TEXT_SIZE, err);

	return r == 0 && out[0] && !hash_text_valid(out) ? damaged(err, key) : r;
}

static int take_int(const json_t *obj, const char *key, int64_t most, int64_t *ret, struct err *err)
{
	const json_t *value = json_object_get(obj, key);

	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    json_integer_value(value) > most)
		return damaged(err, key);
	*ret = json_integer_value(value);
	return 0;
}

static int take_u32(const json_t *obj, const char *key, uint32_t *ret, struct err *err)
{
	int64_t value;
	int r = take_int(obj, key, 1 << 24, &value, err);

	if (r == 0)
		*ret = (uint32_t)value;
	return r;
}

static int take_bytes(const json_t *obj, const char *key, uint64_t *ret, struct err *err)
{
	int64_t value;
	int r = take_int(obj, key, BYTES_MAX, &value, err);

	if (r == 0)
		*ret = (uint64_t)value;
	return r;
}

static int take_file(const json_t *obj, struct manifest *manifest, struct err *err)
{
	struct manifest_file file = { 0 };
	int r;

	if ((r = take_word(obj, "name", false, file.name, err)) < 0 ||
	    (r = take_bytes(obj, "bytes", &file.bytes, err)) < 0 ||
	    (r = take_hash(obj, "hash", file.hash, err)) < 0)
		return r;
	if (json_object_get(obj, "plain_hash") &&
	    ((r = take_hash(obj, "plain_hash", file.plain_hash, err)) < 0 ||
	     (r = take_bytes(obj, "plain_bytes", &file.plain_bytes, err)) < 0))
		return r;
	if (str_eq(file.name, MANIFEST_NAME) || manifest_file(manifest, file.name))
		return damaged(err, "name");
	manifest->files[manifest->n_files++] = file;
	return 0;
}

static int take_files(const json_t *obj, struct manifest *manifest, struct err *err)
{
	const json_t *files = json_object_get(obj, "files");
	int r = 0;

	if (!json_is_array(files) || json_array_size(files) > MANIFEST_FILES_MAX)
		return damaged(err, "files");
	for (size_t i = 0; i < json_array_size(files) && r == 0; i++)
		r = take_file(json_array_get(files, i), manifest, err);
	return r;
}

static int take_all(const json_t *obj, struct manifest *m, struct err *err)
{
	const json_t *base = json_object_get(obj, "base");
	const json_t *needs_parent = json_object_get(obj, "needs_parent");
	int r;

	if (!json_is_boolean(needs_parent))
		return damaged(err, "needs_parent");
	m->needs_parent = json_is_true(needs_parent);
	if ((r = take_word(obj, "id", false, m->id, err)) < 0 ||
	    (r = take_word(obj, "kind", false, m->kind, err)) < 0 ||
	    (r = take_word(obj, "parent", !m->needs_parent, m->parent, err)) < 0 ||
	    (r = take_int(obj, "created_unix_ms", BYTES_MAX, &m->created_unix_ms, err)) < 0 ||
	    (r = take_text(obj, "vmm_fingerprint", m->vmm_fingerprint, sizeof(m->vmm_fingerprint),
			   err)) < 0 ||
	    (r = take_text(obj, "image_digest", m->image_digest, sizeof(m->image_digest), err)) <
		    0 ||
	    (r = take_u32(obj, "vcpus", &m->vcpus, err)) < 0 ||
	    (r = take_u32(obj, "memory_mb", &m->memory_mb, err)) < 0 ||
	    (r = take_u32(obj, "disk_gb", &m->disk_gb, err)) < 0 ||
	    (r = take_text(base, "key", m->base.key, sizeof(m->base.key), err)) < 0 ||
	    (r = take_bytes(base, "bytes", &m->base.bytes, err)) < 0 ||
	    (r = take_hash(base, "hash", m->base.hash, err)) < 0)
		return r;
	return take_files(obj, m, err);
}

int manifest_decode(const char *text, size_t len, struct manifest *ret, struct err *err)
{
	_cleanup_json_ json_t *obj = NULL;
	char said[HASH_TEXT_SIZE], is[HASH_TEXT_SIZE];
	struct manifest manifest = { 0 };
	int64_t format;
	int r;

	if (len > MANIFEST_BYTES_MAX || json_parse(text, len, &obj, NULL) < 0 ||
	    !json_is_object(obj))
		return err_code(err, -EBADMSG, CODE_SNAPSHOT_DAMAGED,
				"the snapshot's manifest is damaged: it is no JSON object");
	/* the format comes before everything: what follows may differ in another */
	r = take_int(obj, "format", INT32_MAX, &format, err);
	if (r < 0)
		return r;
	if (format != MANIFEST_FORMAT)
		return err_code(err, -EPROTONOSUPPORT, CODE_SNAPSHOT_VERSION,
				"the snapshot has format %" PRId64 ", this version reads %d",
				format, MANIFEST_FORMAT);
	r = take_hash(obj, CHECKSUM, said, err);
	if (r < 0)
		return r;
	json_object_del(obj, CHECKSUM);
	checksum_of(obj, is);
	if (!str_eq(said, is))
		return err_code(err, -EBADMSG, CODE_SNAPSHOT_DAMAGED,
				"the snapshot's manifest is damaged: its checksum is wrong");
	r = take_all(obj, &manifest, err);
	if (r < 0)
		return r;
	*ret = manifest;
	return 0;
}
