/* HTTP requests on their way through: each one is for the host that was checked. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "net/proxy_http.h"

/* Feeds text in pieces of so many bytes. */
static int feed(struct http_filter *filter, const char *text, size_t len, size_t piece,
		struct buf *out)
{
	for (size_t at = 0; at < len;) {
		size_t n = len - at < piece ? len - at : piece, used = 0;

		if (http_filter_feed(filter, text + at, n, &used, out) < 0)
			return -EACCES;
		if (used == 0)
			break;
		at += used;
	}
	return 0;
}

static void assert_passes(const char *text, const char *wanted)
{
	static const size_t pieces[] = { 1, 2, 7, 100000 };

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		_cleanup_buf_ struct buf out = BUF_INIT;
		struct http_filter filter;

		http_filter_init(&filter);
		if (feed(&filter, text, strlen(text), pieces[i], &out) < 0)
			fail_msg("refused: %s", http_fault_text(filter.fault));
		assert_string_equal(buf_str(&out), wanted);
		http_filter_clear(&filter);
	}
}

static void assert_refused_bytes(const char *text, size_t len, enum http_fault wanted)
{
	static const size_t pieces[] = { 1, 100000 };

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		_cleanup_buf_ struct buf out = BUF_INIT;
		struct http_filter filter;
		size_t used;

		http_filter_init(&filter);
		if (feed(&filter, text, len, pieces[i], &out) == 0)
			fail_msg("passed: %s", text);
		if (filter.fault != wanted)
			fail_msg("%s: '%s' instead of '%s'", text, http_fault_text(filter.fault),
				 http_fault_text(wanted));
		assert_int_equal(http_filter_feed(&filter, "G", 1, &used, &out), -EACCES);
		http_filter_clear(&filter);
	}
}

static void assert_refused(const char *text, enum http_fault wanted)
{
	assert_refused_bytes(text, strlen(text), wanted);
}

static void test_requests_are_written_anew(void **state)
{
	assert_passes("GET / HTTP/1.1\r\nHOST:\t WWW.Example.com. \r\nA:b \r\n\r\n",
		      "GET / HTTP/1.1\r\nHost: www.example.com\r\nA: b\r\n\r\n");
	assert_passes("GET http://Example.com:80/a?b HTTP/1.1\r\nHost: example.com:80\r\n\r\n",
		      "GET http://Example.com:80/a?b HTTP/1.1\r\nHost: example.com:80\r\n\r\n");
	assert_passes("OPTIONS * HTTP/1.0\r\nHost: example.com\r\nEmpty:\r\n\r\n",
		      "OPTIONS * HTTP/1.0\r\nHost: example.com\r\nEmpty: \r\n\r\n");
}

static void test_bodies(void **state)
{
	assert_passes("POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nGET /"
		      "GET /b HTTP/1.1\r\nHost: a.test\r\n\r\n",
		      "POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nGET /"
		      "GET /b HTTP/1.1\r\nHost: a.test\r\n\r\n");
	assert_passes("POST /a HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: Chunked\r\n\r\n"
		      "3;x=\"y\"\r\nabc\r\n00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
		      "GET /b HTTP/1.1\r\nHost: a.test\r\n\r\n",
		      "POST /a HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: Chunked\r\n\r\n"
		      "3\r\nabc\r\na\r\n0123456789\r\n0\r\n\r\n"
		      "GET /b HTTP/1.1\r\nHost: a.test\r\n\r\n");
	assert_passes("POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n",
		      "POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n\r\n");
}

/* The second request of a connection is as dangerous as the first. */
static void test_every_request_is_checked(void **state)
{
	assert_refused(
		"GET / HTTP/1.1\r\nHost: a.test\r\n\r\nGET / HTTP/1.1\r\nHost: b.test\r\n\r\n",
		HTTP_HOST_CHANGED);
	assert_refused("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\n\r\nx"
		       "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n",
		       HTTP_HOST_CHANGED);
	assert_refused(
		"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
		"GET / HTTP/1.1\r\nHost: b.test\r\n\r\n",
		HTTP_HOST_CHANGED);
	assert_refused("GET / HTTP/1.1\r\nHost: a.test\r\n\r\nGET / HTTP/1.1\r\n\r\n",
		       HTTP_NO_HOST);
	assert_refused("GET / HTTP/1.1\r\nHost: a.test\r\n\r\nCONNECT b.test:443 HTTP/1.1\r\n"
		       "Host: a.test\r\n\r\n",
		       HTTP_CONNECT);
}

static void test_hosts(void **state)
{
	static const struct {
		const char *head;
		enum http_fault fault;
	} cases[] = {
		{ "GET / HTTP/1.1\r\n\r\n", HTTP_NO_HOST },
		{ "GET / HTTP/1.0\r\n\r\n", HTTP_NO_HOST },
		{ "GET / HTTP/1.1\r\nHost:\r\n\r\n", HTTP_NO_HOST },
		{ "GET / HTTP/1.1\r\nHost: a.test\r\nHost: a.test\r\n\r\n", HTTP_TWO_HOSTS },
		{ "GET / HTTP/1.1\r\nHost: a.test\r\nhOST: b.test\r\n\r\n", HTTP_TWO_HOSTS },
		{ "GET / HTTP/1.1\r\nHost: a.test, b.test\r\n\r\n", HTTP_BAD_HOST },
		{ "GET / HTTP/1.1\r\nHost: a.test b.test\r\n\r\n", HTTP_BAD_HOST },
		{ "GET / HTTP/1.1\r\nHost: a.test:\r\n\r\n", HTTP_BAD_HOST },
		{ "GET / HTTP/1.1\r\nHost: a.test:0\r\n\r\n", HTTP_BAD_HOST },
		{ "GET / HTTP/1.1\r\nHost: a.test:65536\r\n\r\n", HTTP_BAD_HOST },
		{ "GET / HTTP/1.1\r\nHost: a.test:80:80\r\n\r\n", HTTP_BAD_HOST },
		{ "GET / HTTP/1.1\r\nHost: x@a.test\r\n\r\n", HTTP_BAD_HOST },
		{ "GET / HTTP/1.1\r\nHost: a.test/\r\n\r\n", HTTP_BAD_HOST },
		{ "GET / HTTP/1.1\r\nHost: 192.0.2.1\r\n\r\n", HTTP_BAD_HOST },
		{ "GET / HTTP/1.1\r\nHost: [2001:db8::1]\r\n\r\n", HTTP_BAD_HOST },
		{ "GET / HTTP/1.1\r\nHost: a..test\r\n\r\n", HTTP_BAD_HOST },
		{ "GET / HTTP/1.1\r\nHost: b\xc3\xbc"
		  "cher.test\r\n\r\n",
		  HTTP_BAD_HOST },
		{ "GET http://b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", HTTP_BAD_HOST },
		{ "GET http://a.test@b.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", HTTP_BAD_HOST },
		{ "GET http://b.test?.a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", HTTP_BAD_HOST },
		{ "GET http:///x HTTP/1.1\r\nHost: a.test\r\n\r\n", HTTP_BAD_HOST },
		{ "GET http://a.test/ HTTP/1.1\r\n\r\n", HTTP_NO_HOST },
		{ "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test\r\n\r\n", HTTP_CONNECT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_refused(cases[i].head, cases[i].fault);
}

#define POST	"POST / HTTP/1.1\r\nHost: a.test\r\n"
#define CHUNKED "Transfer-Encoding: chunked\r\n"

static void test_malformed(void **state)
{
	static const char *const cases[] = {
		"\r\nGET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01",
		" GET / HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET  / HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/1.1 \r\nHost: a.test\r\n\r\n",
		"GET /a b HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /\tHTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET /\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/2.0\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/1.2\r\nHost: a.test\r\n\r\n",
		"GET / http/1.1\r\nHost: a.test\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET * HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET a.test HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET https://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/1.1\nHost: b.test\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/1.1\r\nA: b\nHost: b.test\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/1.1\r\nA: b\rHost: b.test\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost : a.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test\r\n folded\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test\r\n: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test\r\nnothing\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test\r\nA: \x01\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 1, 1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: +1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0x1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: -1\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length:\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 9223372036854775808\r\n\r\n",
		(POST "Content-Length: 4\r\n" CHUNKED "\r\n0\r\n\r\n"),
		"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: xchunked\r\n\r\n",
		(POST CHUNKED CHUNKED "\r\n"),
		"POST / HTTP/1.0\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n",
	};
	static const char *const chunks[] = {
		"\r\n",
		"x\r\n",
		"-1\r\n",
		"0x1\r\n",
		"1\n",
		"1 \r\n",
		"1234567812345678\r\n",
		"1;\x01\r\n",
		"1\r\nab\r\n",
		"1\r\na\n",
		"0\r\nA: b\n\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_refused(cases[i], HTTP_MALFORMED);
	for (size_t i = 0; i < ARRAY_SIZE(chunks); i++) {
		char text[256];

		snprintf(text, sizeof(text),
			 "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n%s",
			 chunks[i]);
		assert_refused(text, HTTP_MALFORMED);
	}
}

static void test_nul(void **state)
{
	static const char value[] = "GET / HTTP/1.1\r\nHost: evil.test\0.a.test\r\n\r\n";
	static const char name[] = "GET / HTTP/1.1\r\nHo\0st: a.test\r\n\r\n";

	assert_refused_bytes(value, sizeof(value) - 1, HTTP_MALFORMED);
	assert_refused_bytes(name, sizeof(name) - 1, HTTP_MALFORMED);
}

static void test_caps(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	buf_append_str(&text, "GET / HTTP/1.1\r\nHost: a.test\r\n");
	for (int i = 0; i < HTTP_HEADERS_MAX; i++)
		buf_append_str(&text, "A: b\r\n");
	buf_append_str(&text, "\r\n");
	assert_refused(text.data, HTTP_TOO_LONG);
	buf_reset(&text);
	buf_append_str(&text, "GET /");
	while (text.len <= HTTP_HEAD_MAX)
		buf_append_char(&text, 'a');
	assert_refused(text.data, HTTP_TOO_LONG);
	buf_reset(&text);
	buf_append_str(&text,
		       "POST / HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"
		       "0\r\n");
	for (int i = 0; i <= HTTP_TRAILER_MAX / 6; i++)
		buf_append_str(&text, "A: b\r\n");
	assert_refused(text.data, HTTP_TOO_LONG);
}

#define WEBSOCKET                                                                                  \
	"GET /s HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"

static void test_websocket(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct http_filter filter;
	size_t used = 0;

	http_filter_init(&filter);
	assert_int_equal(
		http_filter_feed(&filter, WEBSOCKET "\x81", sizeof(WEBSOCKET), &used, &out), 0);
	assert_int_equal(used, sizeof(WEBSOCKET) - 1); /* the rest waits for the answer */
	assert_string_equal(out.data, WEBSOCKET);
	assert_int_equal(filter.state, HTTP_WAITS_FOR_UPGRADE);
	assert_false(http_filter_may_end(&filter));
	http_filter_upgraded(&filter, true);
	buf_reset(&out);
	assert_int_equal(http_filter_feed(&filter, "\x81\0x", 3, &used, &out), 0);
	assert_int_equal(out.len, 3);
	assert_true(http_filter_may_end(&filter));
	http_filter_clear(&filter);
}

/* A server that stays with HTTP keeps the connection under the filter. */
static void test_refused_websocket(void **state)
{
	static const char second[] = "GET / HTTP/1.1\r\nHost: b.test\r\n\r\n";
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct http_filter filter;
	size_t used = 0;

	http_filter_init(&filter);
	assert_int_equal(http_filter_feed(&filter, WEBSOCKET, sizeof(WEBSOCKET) - 1, &used, &out),
			 0);
	http_filter_upgraded(&filter, false);
	assert_int_equal(http_filter_feed(&filter, second, sizeof(second) - 1, &used, &out),
			 -EACCES);
	assert_int_equal(filter.fault, HTTP_HOST_CHANGED);
	http_filter_clear(&filter);
}

/* HTTP/2 in clear text would carry requests past the filter. */
static void test_other_upgrades_are_not_offered(void **state)
{
	assert_passes(
		"GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
		"Connection: Upgrade, HTTP2-Settings\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test\r\n"
		"Connection: Upgrade, HTTP2-Settings\r\n\r\n");
	assert_passes("GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket, h2c\r\n\r\n",
		      "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
	assert_passes(
		"GET / HTTP/1.1\r\nHost: a.test\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
	assert_passes("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n" WEBSOCKET,
		      "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n"
		      "GET /s HTTP/1.1\r\nHost: a.test\r\nConnection: Upgrade\r\n\r\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests_are_written_anew),
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_every_request_is_checked),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_nul),
		cmocka_unit_test(test_caps),
		cmocka_unit_test(test_websocket),
		cmocka_unit_test(test_refused_websocket),
		cmocka_unit_test(test_other_upgrades_are_not_offered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
