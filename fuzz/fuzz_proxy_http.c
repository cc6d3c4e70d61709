/*
 * A connection's requests. The first byte says how it is cut. However it is cut, the same comes
 * out; and what comes out passes a second time unchanged, with the same host: there is nothing left
 * in it that could be read in another way.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "net/proxy_http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition))                                                                  \
			abort();                                                                   \
	} while (0)

static void run(struct http_filter *filter, const char *data, size_t len, size_t piece,
		struct buf *out)
{
	size_t at = 0;

	http_filter_init(filter);
	while (at < len) {
		size_t n = len - at < piece ? len - at : piece, used = 0;

		if (http_filter_feed(filter, data + at, n, &used, out) < 0)
			break;
		if (filter->state == HTTP_WAITS_FOR_UPGRADE)
			http_filter_upgraded(filter, false);
		REQUIRE(used > 0 && used <= n);
		at += used;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf whole = BUF_INIT;
	_cleanup_buf_ struct buf cut = BUF_INIT;
	_cleanup_buf_ struct buf again = BUF_INIT;
	struct http_filter first, second, third;

	if (size == 0)
		return 0;
	run(&first, (const char *)data + 1, size - 1, size, &whole);
	run(&second, (const char *)data + 1, size - 1, (size_t)data[0] % 32 + 1, &cut);
	REQUIRE(first.fault == second.fault && first.requests == second.requests);
	REQUIRE(whole.len == cut.len && str_eq(first.host, second.host));
	REQUIRE(whole.len == 0 || memcmp(whole.data, cut.data, whole.len) == 0);
	run(&third, buf_str(&whole), whole.len, whole.len + 1, &again);
	REQUIRE(third.fault == HTTP_OK && third.requests == first.requests);
	REQUIRE(again.len == whole.len && str_eq(first.host, third.host));
	REQUIRE(whole.len == 0 || memcmp(whole.data, again.data, whole.len) == 0);
	http_filter_clear(&first);
	http_filter_clear(&second);
	http_filter_clear(&third);
	return 0;
}
