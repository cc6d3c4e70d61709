/*
 * Signed, expiring tokens for previews: whoever holds one may reach one port of one sandbox until a
 * time. Pure but for libcrypto's HMAC-SHA256. Not here: keys (the caller has them, of
 * PREVIEW_KEY_SIZE random bytes) and URLs.
 *
 *   token = "1." expires-in-seconds-since-1970 "." base64url(HMAC-SHA256)
 *
 * Sandbox and port are in the URL already, so that the token does not repeat them; the signature is
 * over both, the time and the version.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PREVIEW_KEY_SIZE    32
#define PREVIEW_SANDBOX_MAX 64 /* bytes of a sandbox id */
#define PREVIEW_TOKEN_SIZE  72 /* of the longest token, with its NUL */

/* expires_unix_s is not negative; sandbox is not empty and at most PREVIEW_SANDBOX_MAX bytes. */
void preview_token_make(const uint8_t key[PREVIEW_KEY_SIZE], const char *sandbox, uint16_t port,
			int64_t expires_unix_s, char out[PREVIEW_TOKEN_SIZE]);

/* 0 and the expiry (ret may be NULL); -EBADMSG: no token of this key, sandbox and port; -ETIME: one
 * that has expired. The signature is compared in constant time and before the expiry. */
int preview_token_check(const uint8_t key[PREVIEW_KEY_SIZE], const char *sandbox, uint16_t port,
			int64_t now_unix_s, const char *token, size_t len,
			int64_t *ret_expires_unix_s);
