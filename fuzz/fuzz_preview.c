/*
 * What a guest's server answers, and what a client's request says: heads, bodies, cookies,
 * redirections, addresses. A body decodes the same in one piece and byte by byte.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/preview_body.h"
#include "api/preview_cookie.h"
#include "api/preview_head.h"
#include "api/preview_target.h"
#include "base/alloc.h"
#include "base/str.h"

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ssize_t decode(const struct preview_head *head, const char *data, size_t len, size_t step,
		      struct buf *out)
{
	struct preview_body body;
	size_t at = 0;

	preview_body_init(&body, head);
	while (at < len && !preview_body_ended(&body)) {
		size_t piece = len - at < step ? len - at : step, n_data;
		const char *payload;
		ssize_t n = preview_body_next(&body, data + at, piece, &payload, &n_data);

		if (n < 0)
			return n;
		REQUIRE(n > 0 && (size_t)n <= piece && payload >= data &&
			payload + n_data <= data + len);
		buf_append(out, payload, n_data);
		at += (size_t)n;
	}
	return (ssize_t)at;
}

static void check_answer(const char *data, size_t len, bool head_request)
{
	_cleanup_buf_ struct buf whole = BUF_INIT, bytes = BUF_INIT;
	struct preview_head head, again;
	const char *reason = NULL;
	ssize_t n = preview_head_parse(data, len, head_request, &head, &reason);
	ssize_t used, used_bytes;

	REQUIRE((n < 0) == (reason != NULL));
	if (n <= 0)
		return;
	REQUIRE((size_t)n <= len && head.status >= 100 && head.status <= 599);
	REQUIRE(preview_head_parse(data, (size_t)n, head_request, &again, &reason) == n);
	REQUIRE(preview_head_parse(data, (size_t)n - 1, head_request, &again, &reason) == 0);
	for (size_t i = 0; i < head.n_headers; i++)
		REQUIRE(preview_is_token(head.headers[i].name, head.headers[i].name_len) &&
			preview_is_value(head.headers[i].value, head.headers[i].value_len));
	used = decode(&head, data + n, len - (size_t)n, SIZE_MAX, &whole);
	used_bytes = decode(&head, data + n, len - (size_t)n, 1, &bytes);
	REQUIRE(used == used_bytes);
	if (used >= 0)
		REQUIRE(whole.len == bytes.len &&
			memcmp(buf_str(&whole), buf_str(&bytes), whole.len) == 0);
}

/* Whatever is set must not be ours, nor reach beyond the prefix. */
static void check_cookies(const char *data, size_t len)
{
	static const char prefix[] = "/preview/sbx_1/80";
	_cleanup_buf_ struct buf set = BUF_INIT, stripped = BUF_INIT, location = BUF_INIT;
	const char *value;
	size_t at = 0, n;

	if (preview_set_cookie_confine(data, len, prefix, &set))
		REQUIRE(strncasecmp(set.data, "skerry_", 7) != 0);
	else
		REQUIRE(set.len == 0);
	preview_cookie_strip(data, len, &stripped);
	REQUIRE(!preview_cookie_next(buf_str(&stripped), stripped.len, &at, &value, &n));
	preview_location_confine(data, len, prefix, "h:1", &location);
	if (len > 0 && data[0] == '/' && (len == 1 || data[1] != '/'))
		REQUIRE(str_starts(buf_str(&location), prefix));
}

static void check_addresses(const char *text)
{
	_cleanup_buf_ struct buf rest = BUF_INIT, token = BUF_INIT;
	const struct preview_domain domain = { .name = "p.example" };
	struct preview_domain parsed;
	struct preview_target target;
	const char *newline = strchr(text, '\n');
	_cleanup_free_ char *host = newline ? xstrndup(text, (size_t)(newline - text)) : NULL;

	if (preview_target_find(host, newline ? newline + 1 : text, &domain, true, &target) == 0)
		REQUIRE(target.port > 0 && (!target.by_host || target.rest[0] == '/') &&
			(target.rest[0] == '/' || target.rest[0] == '\0'));
	preview_domain_parse(text, &parsed, NULL);
	preview_query_split(text, &rest, &token);
	REQUIRE(!strstr(buf_str(&rest), "&" PREVIEW_QUERY "="));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_free_ char *text = xstrndup((const char *)data, size);

	check_answer((const char *)data, size, false);
	check_answer((const char *)data, size, true);
	check_cookies((const char *)data, size);
	check_addresses(text);
	return 0;
}
