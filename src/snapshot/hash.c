/* Checksums over libxxhash. */
#include "snapshot/hash.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"

#define READ_CHUNK ((size_t)256 << 10)
#define SCHEME_MAX (HASH_TEXT_SIZE - 1 - 1 - 2 * HASH_SIZE)

static void store(XXH128_hash_t hash, uint8_t out[HASH_SIZE])
{
	XXH128_canonical_t canonical;

	static_assert(sizeof(canonical) == HASH_SIZE, "a hash has 16 bytes");
	XXH128_canonicalFromHash(&canonical, hash);
	memcpy(out, canonical.digest, HASH_SIZE);
}

void hash_bytes(const void *data, size_t len, uint8_t out[HASH_SIZE])
{
	store(XXH3_128bits(data, len), out);
}

void hash_text(const char *scheme, const uint8_t hash[HASH_SIZE], char out[HASH_TEXT_SIZE])
{
	char hex[2 * HASH_SIZE + 1];

	assert(strlen(scheme) <= SCHEME_MAX);
	hex_encode(hash, HASH_SIZE, hex);
	snprintf(out, HASH_TEXT_SIZE, "%s:%s", scheme, hex);
}

bool hash_text_valid(const char *text)
{
	const char *colon = strchr(text, ':');

	return colon && colon > text && (size_t)(colon - text) <= SCHEME_MAX &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == (size_t)(colon - text) &&
	       strlen(colon + 1) == 2 * HASH_SIZE &&
	       strspn(colon + 1, "0123456789abcdef") == 2 * HASH_SIZE;
}

struct hash_stream {
	XXH3_state_t *state;
};

struct hash_stream *hash_stream_new(void)
{
	struct hash_stream *stream = xmalloc(sizeof(*stream));

	stream->state = XXH3_createState();
	if (!stream->state || XXH3_128bits_reset(stream->state) != XXH_OK) {
		log_error("no memory for a checksum", "%s", "");
		abort();
	}
	return stream;
}

void hash_stream_add(struct hash_stream *stream, const void *data, size_t len)
{
	XXH3_128bits_update(stream->state, data, len);
}

void hash_stream_end(const struct hash_stream *stream, uint8_t out[HASH_SIZE])
{
	store(XXH3_128bits_digest(stream->state), out);
}

void hash_stream_free(struct hash_stream *stream)
{
	if (!stream)
		return;
	XXH3_freeState(stream->state);
	free(stream);
}

DEFINE_CLEANUP(struct hash_stream *, hash_stream_freep, hash_stream_free);

int hash_file(int fd, uint8_t out[HASH_SIZE])
{
	_cleanup_(hash_stream_freep) struct hash_stream *stream = hash_stream_new();
	_cleanup_free_ char *chunk = xmalloc(READ_CHUNK);
	off_t offset = 0;

	for (;;) {
		ssize_t n = pread(fd, chunk, READ_CHUNK, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		hash_stream_add(stream, chunk, (size_t)n);
		offset += n;
	}
	hash_stream_end(stream, out);
	return 0;
}
