#include "base/chain.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>

#include "base/log.h"
#include "base/str.h"

#define HASH_LEN   (CHAIN_HASH_SIZE - 1)
#define SEQ_DIGITS 18 /* fits into 64 bits */

static const char seq_key[] = "{\"seq\":";
static const char prev_key[] = ",\"prev\":\"";
static const char hash_key[] = ",\"hash\":\"";

const char chain_no_hash[CHAIN_HASH_SIZE] =
	"0000000000000000000000000000000000000000000000000000000000000000";

void chain_hash(const char *body, size_t len, char out[CHAIN_HASH_SIZE])
{
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int n = 0;

	if (EVP_Digest(body, len, digest, &n, EVP_sha256(), NULL) != 1 || n * 2 != HASH_LEN) {
		log_error("a record cannot be hashed", "bytes=%zu", len);
		abort();
	}
	hex_encode(digest, n, out);
}

void chain_line(struct buf *out, const char *body, size_t len, const char *hash)
{
	buf_append(out, body, len - 1);
	buf_printf(out, "%s%s\"}", hash_key, hash);
}

/* ---- reading ---- */

struct line {
	int64_t seq;
	char prev[CHAIN_HASH_SIZE];
	char hash[CHAIN_HASH_SIZE];
	size_t body_len; /* without the closing brace */
};

/* 64 lower-case hex digits and a quote. */
static bool take_hash(const char *text, size_t len, char out[CHAIN_HASH_SIZE])
{
	if (len <= HASH_LEN || text[HASH_LEN] != '"')
		return false;
	for (size_t i = 0; i < HASH_LEN; i++) {
		if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
			return false;
	}
	memcpy(out, text, HASH_LEN);
	out[HASH_LEN] = '\0';
	return true;
}

static bool starts(const char *text, size_t len, const char *with)
{
	return len >= strlen(with) && memcmp(text, with, strlen(with)) == 0;
}

static bool take_seq(const char **text, size_t *len, int64_t *ret)
{
	size_t digits = 0;
	int64_t n = 0;

	while (digits < *len && digits <= SEQ_DIGITS && (*text)[digits] >= '0' &&
	       (*text)[digits] <= '9')
		n = n * 10 + ((*text)[digits++] - '0');
	if (digits == 0 || digits > SEQ_DIGITS || (*text)[0] == '0')
		return false;
	*text += digits;
	*len -= digits;
	*ret = n;
	return true;
}

static bool take_line(const char *text, size_t len, struct line *ret)
{
	const size_t tail = strlen(hash_key) + HASH_LEN + 2; /* a quote and a brace */
	const char *at = text + strlen(seq_key);
	size_t left;

	if (!starts(text, len, seq_key) || len < strlen(seq_key) + tail || text[len - 1] != '}')
		return false;
	ret->body_len = len - tail;
	if (!starts(text + ret->body_len, tail, hash_key) ||
	    !take_hash(text + len - HASH_LEN - 2, HASH_LEN + 1, ret->hash))
		return false;
	left = ret->body_len - strlen(seq_key);
	return take_seq(&at, &left, &ret->seq) && starts(at, left, prev_key) &&
	       take_hash(at + strlen(prev_key), left - strlen(prev_key), ret->prev);
}

static void hash_of(const char *text, const struct line *line, char out[CHAIN_HASH_SIZE])
{
	_cleanup_buf_ struct buf body = BUF_INIT;

	buf_append(&body, text, line->body_len);
	buf_append_char(&body, '}');
	chain_hash(body.data, body.len, out);
}

static int broken(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int broken(struct err *err, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return err_code(err, -EBADMSG, "audit_broken", "%s", text);
}

int chain_take(struct chain *chain, const char *text, size_t len, struct err *err)
{
	struct line line = { 0 };
	char hash[CHAIN_HASH_SIZE];

	if (!take_line(text, len, &line))
		return broken(err,
			      chain->n ? "what follows record %" PRId64 " is no record"
				       : "this is no record (%" PRId64 " were before it)",
			      chain->last);
	if (chain->n && line.seq != chain->last + 1)
		return broken(err,
			      "record %" PRId64 " is missing: record %" PRId64
			      " is followed by %" PRId64,
			      chain->last + 1, chain->last, line.seq);
	hash_of(text, &line, hash);
	if (!str_eq(hash, line.hash))
		return broken(err, "record %" PRId64 " was changed: it does not have its hash",
			      line.seq);
	if (chain->n && !str_eq(line.prev, chain->head))
		return broken(err,
			      "record %" PRId64
			      " names another predecessor than the record before it",
			      line.seq);
	if (chain->n++ == 0) {
		chain->first = line.seq;
		memcpy(chain->before, line.prev, sizeof(chain->before));
	}
	chain->last = line.seq;
	memcpy(chain->head, line.hash, sizeof(chain->head));
	return 0;
}
