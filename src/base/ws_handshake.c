/* What the two sides of a WebSocket say to each other before the first frame. See ws.h. */
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

#include "base/rand.h"
#include "base/str.h"
#include "base/ws.h"

#define KEY_BYTES    16
#define ACCEPT_BYTES 20 /* of SHA-1, which proves that the server speaks the protocol, no more */
#define GUID	     "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

void ws_key_make(char ret_key[WS_KEY_SIZE])
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	uint8_t bytes[KEY_BYTES];

	rand_bytes(bytes, sizeof(bytes));
	base64_encode(bytes, sizeof(bytes), &text);
	str_copy(ret_key, WS_KEY_SIZE, buf_str(&text));
}

bool ws_key_valid(const char *key)
{
	_cleanup_buf_ struct buf bytes = BUF_INIT;

	return strlen(key) == WS_KEY_SIZE - 1 && base64_decode(key, strlen(key), &bytes) == 0 &&
	       bytes.len == KEY_BYTES;
}

void ws_accept_make(const char *key, char ret_accept[WS_ACCEPT_SIZE])
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	_cleanup_buf_ struct buf encoded = BUF_INIT;
	uint8_t digest[EVP_MAX_MD_SIZE] = { 0 };

	buf_printf(&text, "%s" GUID, key);
	/* Without SHA-1 (a policy can forbid it) the answer is wrong and the client refuses it. */
	(void)EVP_Digest(text.data, text.len, digest, NULL, EVP_sha1(), NULL);
	base64_encode(digest, ACCEPT_BYTES, &encoded);
	str_copy(ret_accept, WS_ACCEPT_SIZE, buf_str(&encoded));
}

bool ws_list_has(const char *list, const char *token)
{
	size_t want = strlen(token);

	while (list && *list) {
		size_t len;

		list += strspn(list, " \t,");
		len = strcspn(list, " \t,");
		if (len == want && strncasecmp(list, token, len) == 0)
			return true;
		list += len;
	}
	return false;
}
