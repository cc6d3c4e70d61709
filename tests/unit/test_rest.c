/*
 * The HTTP server and the REST surface over raw sockets, on a core without machines: what is
 * refused and with what words, and that nothing was done by what was refused. Commands and streams
 * are in test_rest_streams.c.
 */
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "rest_rig.h"

/* ---- refusals before a handler ---- */

static void test_framing(void **state)
{
	static const struct {
		const char *request;
		int status;
	} rows[] = {
		{ "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY
		  "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
		  400 },
		{ "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY
		  "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
		  400 },
		{ "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY
		  "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY
		  "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY
		  "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY
		  "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		  400 },
		{ "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY "Content-Length : 2\r\n\r\n{}", 400 },
		{ "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY "Content-Length: +2\r\n\r\n{}", 400 },
		{ "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY "Content-Length: 0x2\r\n\r\n{}", 400 },
		{ "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY "Content-Length: -1\r\n\r\n{}", 400 },
		{ "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY "Content-Length: 2,2\r\n\r\n{}", 400 },
		{ "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY
		  "Content-Length: 99999999999999999999\r\n\r\n{}",
		  413 },
		{ "GET /v1/sandboxes HTTP/1.1\r\n" HOST HOST KEY "\r\n", 400 },
		{ "GET /v1/sandboxes HTTP/1.1\r\n" HOST KEY KEY "\r\n", 400 },
		{ "GET /v1/sandboxes HTTP/1.1\r\n" KEY "\r\n", 400 },
		{ "GET /v1/sandboxes HTTP/1.1\r\n" HOST "Bad Name: x\r\n" KEY "\r\n", 400 },
		{ "GET /healthz HTTP/1.0\r\n\r\n", 400 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf answer = BUF_INIT;

		rest_exchange(rows[i].request, &answer);
		rest_assert_answer(&answer, rows[i].status, NULL);
		/* What follows a refused request is not another request. (libmicrohttpd 0.9.75
		 * sends the head of its own refusals twice.) */
		assert_null(strstr(buf_str(&answer), "HTTP/1.1 2"));
	}
	assert_int_equal(fake_core_created(rest_rig.core), 0);
}

static void test_large_bodies(void **state)
{
	_cleanup_buf_ struct buf request = BUF_INIT, answer = BUF_INIT, chunked = BUF_INIT;
	_cleanup_buf_ struct buf huge = BUF_INIT, expect = BUF_INIT;

	buf_printf(&request,
		   "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY JSON "Content-Length: %d\r\n\r\n",
		   BODY_MAX + 1);
	for (int i = 0; i <= BODY_MAX; i++)
		buf_append_char(&request, ' ');
	rest_exchange(buf_str(&request), &answer);
	rest_assert_answer(&answer, 413, "request_too_large");

	buf_append_str(&chunked, "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY JSON
				 "Transfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 100; i++)
		buf_append_str(&chunked, "64\r\n"
					 "                                                         "
					 "                       "
					 "                    \r\n");
	buf_append_str(&chunked, "0\r\n\r\n");
	buf_reset(&answer);
	rest_exchange(buf_str(&chunked), &answer);
	rest_assert_answer(&answer, 413, "request_too_large");

	buf_append_str(&huge, "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY JSON
			      "Content-Length: 99999999999\r\n\r\n{");
	buf_reset(&answer);
	rest_exchange(buf_str(&huge), &answer);
	rest_assert_answer(&answer, 413, "request_too_large");

	buf_append_str(&expect, "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY JSON
				"Expect: 100-continue\r\nContent-Length: 999999\r\n\r\n");
	buf_reset(&answer);
	rest_exchange(buf_str(&expect), &answer);
	rest_assert_answer(&answer, 413, "request_too_large");
	assert_int_equal(fake_core_created(rest_rig.core), 0);
}

static void test_slow_clients(void **state)
{
	_cleanup_buf_ struct buf dripped = BUF_INIT, halfway = BUF_INIT;
	int header = rest_dial(), body = rest_dial();
	int64_t began = clock_boottime_ms();

	rest_send(body,
		  "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY JSON "Content-Length: 10\r\n\r\n{");
	rest_send(header, "GET /healthz HTTP/1.1\r\nHost: 127.");
	/* A byte now and then does not help: the block as a whole has a deadline. */
	for (int i = 0; i < 40; i++) {
		struct pollfd ended = { .fd = header, .events = POLLIN };

		if (poll(&ended, 1, 100) > 0)
			break;
		if (send(header, "0", 1, MSG_NOSIGNAL) < 0)
			break;
	}
	assert_true(rest_read_until(header, &dripped, NULL, PATIENCE_MS));
	rest_assert_answer(&dripped, 408, NULL);
	assert_true(rest_read_until(body, &halfway, NULL, PATIENCE_MS));
	rest_assert_answer(&halfway, 408, NULL);
	assert_true(clock_boottime_ms() - began >= HEADER_TIMEOUT_MS / 2);
	close(header);
	close(body);
}

/* ---- who may ask ---- */

static void test_host_origin_key(void **state)
{
	static const struct {
		const char *host, *origin;
		int status;
	} rows[] = {
		{ "127.0.0.1", NULL, 200 },
		{ "127.0.0.1:1", NULL, 200 },
		{ "localhost", NULL, 200 },
		{ "LOCALHOST:80", NULL, 200 },
		{ "[::1]:99", NULL, 200 },
		{ "localhost.", NULL, 403 },
		{ "127.0.0.2", NULL, 403 },
		{ "evil.example", NULL, 403 },
		{ "127.0.0.1.evil.example", NULL, 403 },
		{ "localhost:80@evil.example", NULL, 400 },
		{ "localhost:", NULL, 400 },
		{ "localhost:123456", NULL, 400 },
		{ "", NULL, 400 },
		{ "localhost", "http://localhost", 200 },
		{ "localhost:81", "http://localhost:81", 200 },
		{ "localhost", "https://localhost", 403 },
		{ "localhost:81", "http://localhost", 403 },
		{ "localhost", "http://evil.example", 403 },
		{ "localhost", "null", 403 },
		{ "evil.example", "http://evil.example", 403 },
	};
	static const char *const routes[] = { "GET /healthz", "GET /openapi.json",
					      "GET /v1/sandboxes", "OPTIONS /v1/sandboxes",
					      "GET /nothing" };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		for (size_t r = 0; r < ARRAY_SIZE(routes); r++) {
			_cleanup_buf_ struct buf request = BUF_INIT, answer = BUF_INIT;
			int want = rows[i].status;

			if (want == 200)
				want = r == 3 ? 204 : r == 4 ? 404 : 200;
			buf_printf(&request, "%s HTTP/1.1\r\nHost: %s\r\n" KEY CLOSE, routes[r],
				   rows[i].host);
			if (rows[i].origin)
				buf_printf(&request, "Origin: %s\r\n", rows[i].origin);
			buf_append_str(&request, "\r\n");
			rest_exchange(buf_str(&request), &answer);
			rest_assert_answer(&answer, want, NULL);
			assert_null(strstr(buf_str(&answer), "Access-Control"));
		}
	}
}

static void test_keys(void **state)
{
	static const char *const bad[] = { "",
					   "Authorization: Bearer\r\n",
					   "Authorization: Bearer sk_tes\r\n",
					   "Authorization: Bearer sk_test2\r\n",
					   "Authorization: Basic sk_test\r\n",
					   "Authorization: sk_test\r\n" };

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_buf_ struct buf request = BUF_INIT, answer = BUF_INIT;

		buf_printf(&request, "GET /v1/sandboxes HTTP/1.1\r\n" HOST CLOSE "%s\r\n", bad[i]);
		rest_exchange(buf_str(&request), &answer);
		rest_assert_answer(
			&answer, 401,
			"WWW-Authenticate: Bearer realm=\"skerry\", error=\"invalid_token\"");
		rest_assert_answer(&answer, 401, "application/problem+json");
	}
}

/* ---- routes ---- */

static void test_routes(void **state)
{
	static const struct {
		const char *method, *path;
		int status;
		const char *part;
	} rows[] = {
		{ "GET", "/healthz", 200, "{\"status\":\"ok\"}" },
		{ "HEAD", "/healthz", 200, "Content-Length: 15" },
		{ "POST", "/healthz", 405, "Allow: GET, HEAD, OPTIONS" },
		{ "GET", "/readyz", 200, NULL },
		{ "GET", "/openapi.json", 200, "\"openapi\":\"3.1.0\"" },
		{ "GET", "/v1/sandboxes", 200, "\"next_cursor\":null" },
		{ "HEAD", "/v1/sandboxes", 200, NULL },
		{ "GET", "/v1/sandboxes?limit=201", 400,
		  "argument \\\"limit\\\" must be a whole number from 1 to 200" },
		{ "GET", "/v1/sandboxes?limit=2&limit=3", 400, "given twice" },
		{ "GET", "/v1/sandboxes?limit=two", 400, "got \\\"two\\\"" },
		{ "GET", "/v1/sandboxes?limits=2", 400, "did you mean" },
		{ "GET", "/v1/sandboxes?status=gone", 400, "must be one of creating, running" },
		{ "GET", "/v1/sandboxes?label=a%00b", 400, "NUL" },
		{ "GET", "/v1/sandboxes?cursor=x", 400, "invalid_cursor" },
		{ "PUT", "/v1/sandboxes", 405, "Allow: GET, HEAD, POST, OPTIONS" },
		{ "OPTIONS", "/v1/sandboxes/sbx_aa", 204, "DELETE" },
		{ "GET", "/v1/sandboxes/sbx_aa", 200, "\"vcpus\":1," },
		{ "GET", "/v1/sandboxes/sbx%5faa", 200, "sbx_aa" },
		{ "GET", "/v1/sandboxes/sbx_bb", 404, "not_found" },
		{ "GET", "/v1/sandboxes/sbx_aa%00", 400, "NUL" },
		{ "GET", "/v1/sandboxes/%zz", 404, NULL },
		{ "GET", "/v1/sandboxes/", 404, NULL },
		{ "GET", "/v1/sandboxes//exec", 404, NULL },
		{ "GET", "/v1/../v1/sandboxes", 404, NULL },
		{ "GET", "//v1/sandboxes", 404, NULL },
		{ "DELETE", "/v1/sandboxes/sbx_aa", 200, "\"id\":\"sbx_aa\"" },
		{ "GET", "/v1/images", 200, "\"name\":\"base\"" },
		{ "GET", "/v1/limits", 200, "timeout_minutes_max" },
		{ "GET", "/v1/doctor", 200, "checks" },
		{ "GET", "/.well-known/oauth-protected-resource/mcp", 404,
		  "application/problem+json" },
		{ "GET", "/.well-known/openid-configuration", 404, "application/problem+json" },
		{ "POST", "/register", 404, "application/problem+json" },
		{ "BREW", "/v1/sandboxes", 405, NULL },
		{ "GET", "/index.html", 404, "application/problem+json" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf answer = BUF_INIT;

		rest_get(rows[i].method, rows[i].path, &answer);
		if (rest_status_of(&answer) != rows[i].status)
			print_message("%s %s\n", rows[i].method, rows[i].path);
		rest_assert_answer(&answer, rows[i].status, rows[i].part);
		assert_non_null(strstr(buf_str(&answer), "X-Request-Id: "));
		assert_non_null(strstr(buf_str(&answer), "Cache-Control: no-store"));
	}
}

static void test_request_ids(void **state)
{
	_cleanup_buf_ struct buf kept = BUF_INIT, replaced = BUF_INIT;

	rest_exchange("GET /healthz HTTP/1.1\r\n" HOST CLOSE "X-Request-Id: my-id_1.2\r\n\r\n",
		      &kept);
	rest_assert_answer(&kept, 200, "X-Request-Id: my-id_1.2\r\n");
	rest_exchange("GET /healthz HTTP/1.1\r\n" HOST CLOSE "X-Request-Id: a b\r\n\r\n",
		      &replaced);
	rest_assert_answer(&replaced, 200, "X-Request-Id: req_");
}

static void test_bodies(void **state)
{
	static const struct {
		const char *body;
		int status;
		const char *part;
	} rows[] = {
		{ "{}", 201, "\"status\":\"running\"" },
		{ "", 201, NULL },
		{ "{\"timeout_minutes\":15.0}", 201, NULL },
		{ "{\"timeout_minutes\":1.5e1}", 201, NULL },
		{ "{\"timeout_minutes\":1.5}", 400,
		  "must be a whole number from 1 to 1440, got 1.5" },
		{ "{\"timeout_minutes\":0}", 400, "got 0" },
		{ "{\"timeout_minutes\":1441}", 400, "got 1441" },
		{ "{\"timeout_minutes\":99999999999999999999}", 400, "timeout_minutes" },
		{ "{\"timeout_minutes\":1e999}", 400, "malformed_json" },
		{ "{\"timeout_minutes\":\"15\"}", 400, "got \\\"15\\\"" },
		{ "{\"timeout_minuts\":15}", 400, "did you mean \\\"timeout_minutes\\\"" },
		{ "{\"size\":\"huge\"}", 400,
		  "must be one of tiny, small, medium, large, xlarge, got \\\"huge\\\"" },
		{ "{\"size\":\"small\",\"vcpus\":1,\"memory_mb\":512,\"disk_gb\":10}", 400,
		  "exclude" },
		{ "{\"vcpus\":1}", 400, "belong together" },
		{ "{\"vcpus\":0.25,\"memory_mb\":512,\"disk_gb\":10}", 201, NULL },
		{ "{\"name\":\"a\\u0000b\"}", 400, "NUL" },
		{ "{\"name\":\"-x\"}", 400, "matches" },
		{ "{\"labels\":{\"a\":1}}", 400, "labels" },
		{ "{\"size\":\"small\",\"size\":\"tiny\"}", 400, "malformed_json" },
		{ "[]", 400, "must be a JSON object" },
		{ "null", 400, "must be a JSON object" },
		{ "{", 400, "line 1, column" },
		{ "{} x", 400, "malformed_json" },
		{ "\xff", 400, "malformed_json" },
	};
	int created = fake_core_created(rest_rig.core);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf answer = BUF_INIT;

		rest_post("/v1/sandboxes", "", rows[i].body, &answer);
		rest_assert_answer(&answer, rows[i].status, rows[i].part);
		created += rows[i].status == 201;
		assert_int_equal(fake_core_created(rest_rig.core), created);
	}
}

static void test_content_types(void **state)
{
	static const struct {
		const char *type;
		int status;
	} rows[] = {
		{ "Content-Type: application/json\r\n", 201 },
		{ "Content-Type: APPLICATION/JSON; charset=utf-8\r\n", 201 },
		{ "Content-Type: text/plain\r\n", 415 },
		{ "Content-Type: application/jsonp\r\n", 415 },
		{ "Content-Type: application/x-www-form-urlencoded\r\n", 415 },
		{ "", 415 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf request = BUF_INIT, answer = BUF_INIT;

		buf_printf(&request,
			   "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY CLOSE "%s"
			   "Content-Length: 2\r\n\r\n{}",
			   rows[i].type);
		rest_exchange(buf_str(&request), &answer);
		rest_assert_answer(&answer, rows[i].status, NULL);
	}
}

static void test_idempotency_key(void **state)
{
	_cleanup_buf_ struct buf first = BUF_INIT, second = BUF_INIT, bad = BUF_INIT;
	char hash[80];

	rest_post("/v1/sandboxes", "Idempotency-Key: k-1\r\n",
		  "{\"size\":\"small\",\"timeout_minutes\":5}", &first);
	rest_assert_answer(&first, 201, NULL);
	assert_string_equal(fake_core_idempotency_key(rest_rig.core), "k-1");
	assert_int_equal(strlen(fake_core_request_hash(rest_rig.core)), 64);
	str_copy(hash, sizeof(hash), fake_core_request_hash(rest_rig.core));
	rest_post("/v1/sandboxes", "Idempotency-Key: k-1\r\n",
		  " {\"timeout_minutes\":5.0, \"size\":\"small\"}", &second);
	rest_assert_answer(&second, 201, NULL);
	assert_string_equal(fake_core_request_hash(rest_rig.core), hash);
	rest_post("/v1/sandboxes", "Idempotency-Key: a b\r\n", "{}", &bad);
	rest_assert_answer(&bad, 400, "Idempotency-Key");
}

int main(void)
{
	const struct rlimit descriptors = { 4096, 4096 };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_framing),	      cmocka_unit_test(test_large_bodies),
		cmocka_unit_test(test_slow_clients),  cmocka_unit_test(test_host_origin_key),
		cmocka_unit_test(test_keys),	      cmocka_unit_test(test_routes),
		cmocka_unit_test(test_request_ids),   cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_content_types), cmocka_unit_test(test_idempotency_key),
	};

	setrlimit(RLIMIT_NOFILE, &descriptors);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, rest_rig_start, rest_rig_stop);
}
