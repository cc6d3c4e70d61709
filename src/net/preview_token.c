/*
 * Preview tokens. Checking makes the token anew from what it claims and compares whole texts: there
 * is one spelling of a token, and nothing to decode.
 */
#include "net/preview_token.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/str.h"

#define SIGNED_SIZE 160
#define MAC_SIZE    32

/* The fields cannot run into each other: none but the last has a line feed, and numbers are
 * decimal. */
static void sign(const uint8_t key[PREVIEW_KEY_SIZE], const char *sandbox, uint16_t port,
		 int64_t expires_unix_s, uint8_t mac[MAC_SIZE])
{
	char text[SIGNED_SIZE];
	unsigned mac_len = MAC_SIZE;
	int len = snprintf(text, sizeof(text), "skerry preview 1\n%u\n%" PRId64 "\n%s",
			   (unsigned)port, expires_unix_s, sandbox);

	assert(len > 0 && (size_t)len < sizeof(text));
	if (!HMAC(EVP_sha256(), key, PREVIEW_KEY_SIZE, (const unsigned char *)text, (size_t)len,
		  mac, &mac_len)) {
		log_error("libcrypto cannot compute an HMAC", "%s", "");
		abort();
	}
}

void preview_token_make(const uint8_t key[PREVIEW_KEY_SIZE], const char *sandbox, uint16_t port,
			int64_t expires_unix_s, char out[PREVIEW_TOKEN_SIZE])
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	uint8_t mac[MAC_SIZE];

	assert(expires_unix_s >= 0 && strlen(sandbox) <= PREVIEW_SANDBOX_MAX);
	sign(key, sandbox, port, expires_unix_s, mac);
	base64_encode(mac, sizeof(mac), &text);
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] == '+')
			text.data[i] = '-';
		else if (text.data[i] == '/')
			text.data[i] = '_';
		else if (text.data[i] == '=')
			text.data[i] = '\0';
	}
	snprintf(out, PREVIEW_TOKEN_SIZE, "1.%" PRId64 ".%s", expires_unix_s, text.data);
}

/* The claimed expiry, or -1. */
static int64_t claimed_expiry(const char *token, size_t len)
{
	const char *end;
	char digits[20];
	int64_t value;
	size_t n;

	if (len < 3 || token[0] != '1' || token[1] != '.')
		return -1;
	end = memchr(token + 2, '.', len - 2);
	n = end ? (size_t)(end - token) - 2 : 0;
	if (n == 0 || n >= sizeof(digits))
		return -1;
	memcpy(digits, token + 2, n);
	digits[n] = '\0';
	return str_to_i64(digits, &value) == 0 ? value : -1;
}

int preview_token_check(const uint8_t key[PREVIEW_KEY_SIZE], const char *sandbox, uint16_t port,
			int64_t now_unix_s, const char *token, size_t len,
			int64_t *ret_expires_unix_s)
{
	char expected[PREVIEW_TOKEN_SIZE];
	int64_t expires_unix_s = claimed_expiry(token, len);

	if (expires_unix_s < 0 || sandbox[0] == '\0' || strlen(sandbox) > PREVIEW_SANDBOX_MAX)
		return -EBADMSG;
	preview_token_make(key, sandbox, port, expires_unix_s, expected);
	if (strlen(expected) != len || CRYPTO_memcmp(expected, token, len) != 0)
		return -EBADMSG;
	if (now_unix_s >= expires_unix_s)
		return -ETIME;
	if (ret_expires_unix_s)
		*ret_expires_unix_s = expires_unix_s;
	return 0;
}
