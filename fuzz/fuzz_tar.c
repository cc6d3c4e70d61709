/*
 * Archives: the reader over pieces of any size, whatever they hold; the same events whatever the
 * pieces; and what the reader understood is written and read back the same.
 *
 * The first byte chooses the size of the pieces. No fuzzer guesses checksums: with its highest bit
 * set the headers' checksums are made right first.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tar/tar_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fix_checksums(char *data, size_t size)
{
	for (; size >= TAR_BLOCK; data += TAR_BLOCK, size -= TAR_BLOCK) {
		unsigned int sum = 0;
		char text[8];

		memset(data + 148, ' ', 8);
		for (size_t i = 0; i < TAR_BLOCK; i++)
			sum += (unsigned char)data[i];
		snprintf(text, sizeof(text), "%06o", sum);
		memcpy(data + 148, text, 7);
	}
}

/* A sum over everything that was said; false when it ended with an error. */
static bool digest(const char *data, size_t size, size_t piece, uint64_t *ret)
{
	struct tar_reader r;
	uint64_t h = 1469598103934665603u;
	bool good = true;

	tar_reader_init(&r);
	while (size > 0 && good) {
		size_t len = size < piece ? size : piece;
		enum tar_event event = TAR_ENTRY;

		data += len;
		size -= len;
		for (const char *at = data - len; event != TAR_NEED_MORE && good;) {
			const char *bytes;
			size_t n_bytes;
			ssize_t n = tar_read(&r, at, (size_t)(data - at), &event, &bytes, &n_bytes);

			if (n < 0) {
				good = false;
				break;
			}
			at += n;
			assert(at <= data && r.held.len <= TAR_META_MAX);
			if (event == TAR_ENTRY)
				h = (h ^ r.entry.size ^ r.entry.path.len ^ r.entry.link.len) *
				    1099511628211u;
			for (size_t i = 0; event == TAR_DATA && i < n_bytes; i++)
				h = (h ^ (unsigned char)bytes[i]) * 1099511628211u;
		}
		assert(!good || event == TAR_NEED_MORE);
	}
	tar_reader_clear(&r);
	*ret = h;
	return good;
}

static bool has_nul(const struct buf *b)
{
	return memchr(buf_str(b), '\0', b->len) != NULL;
}

/* What one header says is what it says again after it was written. */
static void write_again(const struct tar_entry *e)
{
	struct buf out = BUF_INIT;
	struct tar_reader r;
	enum tar_event event = TAR_NEED_MORE;
	const char *bytes;
	size_t n_bytes, used = 0;

	if (e->type == TAR_OTHER || has_nul(&e->path) || has_nul(&e->link) || e->path.len == 0 ||
	    e->path.len + e->link.len > TAR_META_MAX / 2)
		return;
	tar_put_header(&out, e);
	tar_reader_init(&r);
	while (event != TAR_ENTRY) {
		ssize_t n = tar_read(&r, out.data + used, out.len - used, &event, &bytes, &n_bytes);

		assert(n >= 0 && event != TAR_NEED_MORE);
		used += (size_t)n;
	}
	assert(used == out.len && r.entry.type == e->type && r.entry.mode == e->mode);
	assert(r.entry.uid == e->uid && r.entry.gid == e->gid && r.entry.size == e->size);
	assert(r.entry.mtime_s == e->mtime_s && r.entry.mtime_ns == e->mtime_ns);
	assert(r.entry.path.len == e->path.len &&
	       memcmp(r.entry.path.data, e->path.data, e->path.len) == 0);
	tar_reader_clear(&r);
	buf_clear(&out);
}

static void rewrite(const char *data, size_t size)
{
	struct tar_reader r;
	enum tar_event event = TAR_ENTRY;

	tar_reader_init(&r);
	while (event != TAR_NEED_MORE) {
		const char *bytes;
		size_t n_bytes;
		ssize_t n = tar_read(&r, data, size, &event, &bytes, &n_bytes);

		if (n < 0)
			break;
		data += n;
		size -= (size_t)n;
		if (event == TAR_ENTRY)
			write_again(&r.entry);
	}
	tar_reader_clear(&r);
}

static void clean(const char *data, size_t size)
{
	struct buf out = BUF_INIT;

	if (tar_path_clean(data, size, &out) == 0) {
		assert(out.len <= TAR_PATH_MAX && (out.len == 0 || out.data[0] != '/'));
		assert(!strstr(buf_str(&out), "//") && strncmp(buf_str(&out), "../", 3) != 0);
		assert(!strstr(buf_str(&out), "/../"));
	}
	buf_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint64_t whole, pieces;
	char *copy;
	bool good, again;

	if (size < 2)
		return 0;
	copy = malloc(size - 1);
	memcpy(copy, data + 1, size - 1);
	if (data[0] & 0x80)
		fix_checksums(copy, size - 1);
	good = digest(copy, size - 1, size, &whole);
	again = digest(copy, size - 1, (size_t)(data[0] & 0x7f) * 9 + 1, &pieces);
	assert(again == good && (!good || whole == pieces));
	rewrite(copy, size - 1);
	clean(copy, size - 1);
	free(copy);
	return 0;
}
