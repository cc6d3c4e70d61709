/* Percent-encoding and query strings: pure functions over hostile text. */
#include "api/http_internal.h"

#include <errno.h>
#include <string.h>

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int http_unescape(const char *text, size_t len, bool plus, struct buf *out)
{
	size_t before = out->len;

	for (size_t i = 0; i < len; i++) {
		int high, low;

		if (text[i] != '%') {
			buf_append_char(out, plus && text[i] == '+' ? ' ' : text[i]);
			continue;
		}
		high = len - i > 2 ? hex_value(text[i + 1]) : -1;
		low = len - i > 2 ? hex_value(text[i + 2]) : -1;
		if (high < 0 || low < 0) {
			out->len = before;
			if (out->data)
				out->data[before] = '\0';
			return -EINVAL;
		}
		buf_append_char(out, (char)(high * 16 + low));
		i += 2;
	}
	return 0;
}

const char *http_query(const struct http_request *req)
{
	return req->query;
}

void http_query_each(const struct http_request *req,
		     void (*fn)(void *arg, const char *key, const char *value, size_t len),
		     void *arg)
{
	const char *at = req->query;

	while (at && *at) {
		_cleanup_buf_ struct buf key = BUF_INIT, value = BUF_INIT;
		size_t len = strcspn(at, "&");
		const char *equals = memchr(at, '=', len);
		size_t key_len = equals ? (size_t)(equals - at) : len;

		/* A broken escape stays as it is: the value then fails its check, by its name. */
		if (http_unescape(at, key_len, true, &key) < 0 ||
		    strlen(buf_str(&key)) != key.len) {
			buf_reset(&key);
			buf_append(&key, at, key_len);
		}
		if (equals && http_unescape(equals + 1, len - key_len - 1, true, &value) < 0)
			buf_append(&value, equals + 1, len - key_len - 1);
		if (len > 0)
			fn(arg, buf_str(&key), buf_str(&value), value.len);
		at += len + (at[len] == '&');
	}
}
