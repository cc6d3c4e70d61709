/*
 * The HTTP server and the REST surface over raw sockets, on a core without machines: what is
 * refused and with what words, streams, clients that leave, and that nothing was done by what was
 * refused.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "api/http.h"
#include "api/rest.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "fake_core.h"
#include "fake_events.h"

#define BODY_MAX	  4096
#define HEADER_TIMEOUT_MS 1500
#define CHUNK_HEAD_MAX	  20	/* CR LF, a number of 64 bits in hex, CR LF */
#define PATIENCE_MS	  30000 /* for what comes at once, on a busy machine */

struct service {
	struct loop *loop;
	struct pool *pool;
	struct core *core;
	struct rest *rest;
	struct http_server *http;
};
static struct service service;

static int start(void **state)
{
	struct err err = ERR_INIT;
	struct rest_config rest = { 0 };
	struct http_config http = {
		.address = "127.0.0.1",
		.listen_fd = -1,
		.body_max_bytes = BODY_MAX,
		.connections_max = 4096,
		.header_timeout_ms = HEADER_TIMEOUT_MS,
		.idle_timeout_ms = 60000,
		.event_threads = 2,
		.handler = rest_handle,
		.is_quick = rest_is_quick,
	};

	log_init(LOG_LVL_ERROR);
	assert_int_equal(loop_new(&service.loop, &err), 0);
	assert_int_equal(loop_start(service.loop, "loop", &err), 0);
	assert_int_equal(pool_new(4, 512, &service.pool, &err), 0);
	service.core = fake_core_new(service.loop);
	rest.core = service.core;
	rest.pool = service.pool;
	service.rest = rest_new(&rest);
	http.loop = service.loop;
	http.pool = service.pool;
	http.arg = service.rest;
	assert_int_equal(http_server_new(&http, &service.http, &err), 0);
	return 0;
}

static int stop(void **state)
{
	http_server_free(service.http, 2000);
	pool_free(service.pool);
	rest_free(service.rest);
	loop_free(service.loop);
	fake_core_free(service.core);
	return 0;
}

/* ---- a client ---- */

static int dial(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(http_server_port(service.http)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void send_text(int fd, const char *text)
{
	size_t len = strlen(text);

	assert_int_equal(send(fd, text, len, MSG_NOSIGNAL), len);
}

/* Reads until `until` was seen (NULL: until the end of the connection). false: time was up. */
/* The heads of HTTP's chunks fall anywhere in a stream of events. Takes those out that are complete
 * (no line of a header or of an event is a number in hex alone). */
static void drop_chunk_heads(struct buf *out, size_t from)
{
	size_t at = from;
	const char *end;

	while ((end = at < out->len ? strstr(out->data + at, "\r\n") : NULL)) {
		size_t begin = (size_t)(end - out->data), digits;

		digits = strspn(end + 2, "0123456789abcdefABCDEF");
		if (digits == 0 || strncmp(end + 2 + digits, "\r\n", 2) != 0) {
			at = begin + 2;
			continue;
		}
		memmove(out->data + begin, end + digits + 4, out->len - begin - digits - 4 + 1);
		out->len -= digits + 4;
		at = begin;
	}
}

static bool read_until(int fd, struct buf *out, const char *until, int timeout_ms)
{
	int64_t deadline = clock_boottime_ms() + timeout_ms;
	size_t searched = 0, overlap = until ? strlen(until) + CHUNK_HEAD_MAX : 0;
	char block[65536];

	while (!until || !strstr(buf_str(out) + searched, until)) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		ssize_t n;

		searched = out->len > overlap ? out->len - overlap : 0;
		if (poll(&ready, 1, clock_remaining_ms(deadline)) <= 0)
			return false;
		n = recv(fd, block, sizeof(block), 0);
		if (n <= 0)
			return !until;
		buf_append(out, block, (size_t)n);
		if (until)
			drop_chunk_heads(out, searched);
	}
	return true;
}

/* One request on a connection of its own; the whole answer. */
static void exchange(const char *request, struct buf *out)
{
	int fd = dial();

	send_text(fd, request);
	if (!read_until(fd, out, NULL, PATIENCE_MS))
		fail_msg("no end of the answer to: %s", request);
	close(fd);
}

static int status_of(const struct buf *answer)
{
	static const char version[] = "HTTP/1.1 ";
	const char *text = buf_str(answer);

	return str_starts(text, version) ? (int)strtol(text + strlen(version), NULL, 10) : -1;
}

#define HOST  "Host: 127.0.0.1\r\n"
#define KEY   "Authorization: Bearer " FAKE_KEY "\r\n"
#define CLOSE "Connection: close\r\n"
#define JSON  "Content-Type: application/json\r\n"

static void post(const char *path, const char *headers, const char *body, struct buf *out)
{
	_cleanup_buf_ struct buf request = BUF_INIT;

	buf_printf(&request,
		   "POST %s HTTP/1.1\r\n" HOST KEY CLOSE JSON "%sContent-Length: %zu\r\n\r\n%s",
		   path, headers, strlen(body), body);
	exchange(buf_str(&request), out);
}

static void assert_answer(const struct buf *answer, int status, const char *part)
{
	if (status_of(answer) != status || (part && !strstr(buf_str(answer), part)))
		fail_msg("wanted %d and %s, got: %s", status, part ? part : "anything",
			 buf_str(answer));
}

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

		exchange(rows[i].request, &answer);
		assert_answer(&answer, rows[i].status, NULL);
		/* What follows a refused request is not another request. (libmicrohttpd 0.9.75
		 * sends the head of its own refusals twice.) */
		assert_null(strstr(buf_str(&answer), "HTTP/1.1 2"));
	}
	assert_int_equal(fake_core_created(service.core), 0);
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
	exchange(buf_str(&request), &answer);
	assert_answer(&answer, 413, "request_too_large");

	buf_append_str(&chunked, "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY JSON
				 "Transfer-Encoding: chunked\r\n\r\n");
	for (int i = 0; i < 100; i++)
		buf_append_str(&chunked, "64\r\n"
					 "                                                         "
					 "                       "
					 "                    \r\n");
	buf_append_str(&chunked, "0\r\n\r\n");
	buf_reset(&answer);
	exchange(buf_str(&chunked), &answer);
	assert_answer(&answer, 413, "request_too_large");

	buf_append_str(&huge, "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY JSON
			      "Content-Length: 99999999999\r\n\r\n{");
	buf_reset(&answer);
	exchange(buf_str(&huge), &answer);
	assert_answer(&answer, 413, "request_too_large");

	buf_append_str(&expect, "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY JSON
				"Expect: 100-continue\r\nContent-Length: 999999\r\n\r\n");
	buf_reset(&answer);
	exchange(buf_str(&expect), &answer);
	assert_answer(&answer, 413, "request_too_large");
	assert_int_equal(fake_core_created(service.core), 0);
}

static void test_slow_clients(void **state)
{
	_cleanup_buf_ struct buf dripped = BUF_INIT, halfway = BUF_INIT;
	int header = dial(), body = dial();
	int64_t began = clock_boottime_ms();

	send_text(body,
		  "POST /v1/sandboxes HTTP/1.1\r\n" HOST KEY JSON "Content-Length: 10\r\n\r\n{");
	send_text(header, "GET /healthz HTTP/1.1\r\nHost: 127.");
	/* A byte now and then does not help: the block as a whole has a deadline. */
	for (int i = 0; i < 40; i++) {
		struct pollfd ended = { .fd = header, .events = POLLIN };

		if (poll(&ended, 1, 100) > 0)
			break;
		if (send(header, "0", 1, MSG_NOSIGNAL) < 0)
			break;
	}
	assert_true(read_until(header, &dripped, NULL, PATIENCE_MS));
	assert_answer(&dripped, 408, NULL);
	assert_true(read_until(body, &halfway, NULL, PATIENCE_MS));
	assert_answer(&halfway, 408, NULL);
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
			exchange(buf_str(&request), &answer);
			assert_answer(&answer, want, NULL);
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
		exchange(buf_str(&request), &answer);
		assert_answer(&answer, 401,
			      "WWW-Authenticate: Bearer realm=\"skerry\", error=\"invalid_token\"");
		assert_answer(&answer, 401, "application/problem+json");
	}
}

/* ---- routes ---- */

static void get(const char *method, const char *path, struct buf *answer)
{
	_cleanup_buf_ struct buf request = BUF_INIT;

	buf_printf(&request, "%s %s HTTP/1.1\r\n" HOST KEY CLOSE "\r\n", method, path);
	exchange(buf_str(&request), answer);
}

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

		get(rows[i].method, rows[i].path, &answer);
		if (status_of(&answer) != rows[i].status)
			print_message("%s %s\n", rows[i].method, rows[i].path);
		assert_answer(&answer, rows[i].status, rows[i].part);
		assert_non_null(strstr(buf_str(&answer), "X-Request-Id: "));
		assert_non_null(strstr(buf_str(&answer), "Cache-Control: no-store"));
	}
}

static void test_request_ids(void **state)
{
	_cleanup_buf_ struct buf kept = BUF_INIT, replaced = BUF_INIT;

	exchange("GET /healthz HTTP/1.1\r\n" HOST CLOSE "X-Request-Id: my-id_1.2\r\n\r\n", &kept);
	assert_answer(&kept, 200, "X-Request-Id: my-id_1.2\r\n");
	exchange("GET /healthz HTTP/1.1\r\n" HOST CLOSE "X-Request-Id: a b\r\n\r\n", &replaced);
	assert_answer(&replaced, 200, "X-Request-Id: req_");
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
	int created = fake_core_created(service.core);

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf answer = BUF_INIT;

		post("/v1/sandboxes", "", rows[i].body, &answer);
		assert_answer(&answer, rows[i].status, rows[i].part);
		created += rows[i].status == 201;
		assert_int_equal(fake_core_created(service.core), created);
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
		exchange(buf_str(&request), &answer);
		assert_answer(&answer, rows[i].status, NULL);
	}
}

static void test_idempotency_key(void **state)
{
	_cleanup_buf_ struct buf first = BUF_INIT, second = BUF_INIT, bad = BUF_INIT;
	char hash[80];

	post("/v1/sandboxes", "Idempotency-Key: k-1\r\n",
	     "{\"size\":\"small\",\"timeout_minutes\":5}", &first);
	assert_answer(&first, 201, NULL);
	assert_string_equal(fake_core_idempotency_key(service.core), "k-1");
	assert_int_equal(strlen(fake_core_request_hash(service.core)), 64);
	str_copy(hash, sizeof(hash), fake_core_request_hash(service.core));
	post("/v1/sandboxes", "Idempotency-Key: k-1\r\n",
	     " {\"timeout_minutes\":5.0, \"size\":\"small\"}", &second);
	assert_answer(&second, 201, NULL);
	assert_string_equal(fake_core_request_hash(service.core), hash);
	post("/v1/sandboxes", "Idempotency-Key: a b\r\n", "{}", &bad);
	assert_answer(&bad, 400, "Idempotency-Key");
}

/* ---- commands ---- */

static void test_exec(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT, bytes = BUF_INIT, base64 = BUF_INIT,
				 none = BUF_INIT;
	_cleanup_buf_ struct buf secret = BUF_INIT;

	post("/v1/sandboxes/sbx_aa/exec", "", "{\"command\":\"echo hi\"}", &text);
	assert_answer(&text, 200, "\"stdout\":\"hi\"");
	assert_answer(&text, 200, "\"exit_code\":0");
	post("/v1/sandboxes/sbx_aa/exec", "", "{\"command\":\"bytes\"}", &bytes);
	assert_answer(&bytes, 200, "\"stdout\":\"\xef\xbf\xbd\xef\xbf\xbd\"");
	post("/v1/sandboxes/sbx_aa/exec", "", "{\"command\":\"bytes\",\"encoding\":\"base64\"}",
	     &base64);
	assert_answer(&base64, 200, "\"stdout_base64\":\"//4=\"");
	post("/v1/sandboxes/sbx_bb/exec", "", "{\"command\":\"echo hi\"}", &none);
	assert_answer(&none, 404, "not_found");
	post("/v1/sandboxes/sbx_aa/exec", "",
	     "{\"command\":\"echo hi\",\"env\":{\"TOKEN\":\"hunter\\u0000two\"}}", &secret);
	assert_answer(&secret, 400, "TOKEN");
	assert_null(strstr(buf_str(&secret), "hunter"));
}

/* Made by a worker, as it would hold up the loop's thread. */
static void test_large_result(void **state)
{
	_cleanup_buf_ struct buf answer = BUF_INIT;

	post("/v1/sandboxes/sbx_aa/exec", "", "{\"command\":\"large\"}", &answer);
	assert_answer(&answer, 200, "\"exit_code\":0");
	assert_true(answer.len > FAKE_LARGE_BYTES);
}

/* Waits until the core has seen it; a client that leaves is noticed while its request is suspended.
 */
static void wait_for(int (*count)(struct core *core), int wanted)
{
	for (int i = 0; i < PATIENCE_MS / 10 && count(service.core) < wanted; i++)
		usleep(10000);
	assert_int_equal(count(service.core), wanted);
}

static void send_exec(int fd, const char *accept, const char *command)
{
	_cleanup_buf_ struct buf request = BUF_INIT, body = BUF_INIT;

	buf_printf(&body, "{\"command\":\"%s\"}", command);
	buf_printf(&request,
		   "POST /v1/sandboxes/sbx_aa/exec HTTP/1.1\r\n" HOST KEY JSON
		   "%sContent-Length: %zu\r\n\r\n%s",
		   accept, body.len, buf_str(&body));
	send_text(fd, buf_str(&request));
}

#define EVENTS "Accept: text/event-stream\r\n"

static void test_client_leaves(void **state)
{
	int cancelled = fake_core_cancelled(service.core), closed = fake_core_closed(service.core);
	_cleanup_buf_ struct buf answer = BUF_INIT;
	int fd = dial();

	send_exec(fd, "", "hang");
	usleep(100000);
	assert_int_equal(fake_core_cancelled(service.core), cancelled);
	close(fd);
	wait_for(fake_core_cancelled, cancelled + 1);

	fd = dial();
	send_exec(fd, EVENTS, "hang");
	assert_true(read_until(fd, &answer, "event: started\ndata: {\"exec_id\":\"exe_1\"}\n\n",
			       PATIENCE_MS));
	assert_int_equal(fake_core_closed(service.core), closed);
	close(fd);
	wait_for(fake_core_closed, closed + 1);
}

static void test_many_waiting(void **state)
{
	enum { WAITING = 200 };
	int fds[WAITING], cancelled = fake_core_cancelled(service.core);
	_cleanup_buf_ struct buf answer = BUF_INIT;

	/* Far more than there are workers: waiting costs none. */
	for (int i = 0; i < WAITING; i++) {
		fds[i] = dial();
		send_exec(fds[i], i % 2 ? EVENTS : "", "hang");
	}
	get("GET", "/healthz", &answer);
	assert_answer(&answer, 200, NULL);
	for (int i = 0; i < WAITING; i++)
		close(fds[i]);
	wait_for(fake_core_cancelled, cancelled + WAITING / 2);
}

static void test_events(void **state)
{
	_cleanup_buf_ struct buf answer = BUF_INIT, missing = BUF_INIT, unknown = BUF_INIT;
	_cleanup_buf_ struct buf follow = BUF_INIT;

	post("/v1/sandboxes/sbx_aa/exec", EVENTS, "{\"command\":\"echo hi\"}", &answer);
	assert_answer(&answer, 200, "Content-Type: text/event-stream");
	assert_answer(&answer, 200, "X-Accel-Buffering: no");
	assert_answer(&answer, 200, "event: stdout\ndata: {\"offset\":0,\"data\":\"hi\"}\n\n");
	assert_answer(&answer, 200, "event: exit\ndata: {\"exec_id\":\"exe_1\"");
	/* What never began is an answer like any other. */
	post("/v1/sandboxes/sbx_aa/exec", EVENTS, "{\"command\":\"missing\"}", &missing);
	assert_answer(&missing, 422, "cwd_not_found");
	post("/v1/sandboxes/sbx_bb/exec", EVENTS, "{\"command\":\"echo hi\"}", &unknown);
	assert_answer(&unknown, 404, "not_found");
	exchange("GET /v1/sandboxes/sbx_aa/exec/exe_1 HTTP/1.1\r\n" HOST KEY CLOSE EVENTS "\r\n",
		 &follow);
	assert_answer(&follow, 200, "followed");
}

/* A client that does not read stops the source; one that goes on gets every byte, one "é" after the
 * other, whatever way they were cut. */
static void test_paced_stream(void **state)
{
	_cleanup_buf_ struct buf answer = BUF_INIT;
	int fd = dial(), received = 65536;
	uint64_t stopped_at;
	size_t bytes = 0;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &received, sizeof(received));
	send_exec(fd, EVENTS, "spew");
	do { /* until it stands still */
		stopped_at = fake_core_spewed(service.core);
		usleep(500000);
	} while (stopped_at == 0 || fake_core_spewed(service.core) != stopped_at);
	assert_in_range(stopped_at, 1, FAKE_SPEW_BYTES / 2);

	assert_true(read_until(fd, &answer, "event: exit", PATIENCE_MS));
	assert_null(strstr(buf_str(&answer), "data_base64"));
	for (size_t i = 1; i < answer.len; i++)
		bytes += answer.data[i - 1] == '\xc3' && answer.data[i] == '\xa9' ? 2 : 0;
	/* The heads of HTTP's chunks may fall between two bytes of a character. */
	assert_in_range(bytes, FAKE_SPEW_BYTES - 65536, FAKE_SPEW_BYTES);
	assert_true(read_until(fd, &answer, "\"stdout_bytes\":16777216", PATIENCE_MS));
	close(fd);
}

#define GET_EVENTS(query, headers) "GET /v1/events" query " HTTP/1.1\r\n" HOST KEY headers "\r\n"

/* What happened: as pages, and as a stream that goes on where its reader was. */
static void test_event_pages(void **state)
{
	_cleanup_buf_ struct buf page = BUF_INIT, newest = BUF_INIT, gap = BUF_INIT;
	_cleanup_buf_ struct buf early = BUF_INIT;

	exchange(GET_EVENTS("?cursor=100&limit=2", CLOSE), &page);
	assert_answer(&page, 200,
		      "{\"items\":[{\"id\":101,\"at\":\"1970-01-01T00:00:01.101Z\","
		      "\"type\":\"exec_started\",\"sandbox_id\":\"sbx_aa\","
		      "\"data\":{\"exec_id\":\"exe_1\"}},");
	assert_answer(&page, 200, "],\"next_cursor\":\"102\",\"cursor\":102,\"gap\":null}");
	exchange(GET_EVENTS("?newest=true&limit=1", CLOSE), &newest);
	assert_answer(&newest, 200, "\"next_cursor\":null,\"cursor\":200000,");
	exchange(GET_EVENTS("?cursor=3", CLOSE), &gap);
	assert_answer(&gap, 200, "\"gap\":{\"from\":4,\"to\":10}}");
	exchange(GET_EVENTS("?cursor=200001", CLOSE), &early);
	assert_answer(&early, 400, "invalid_cursor");
}

static void test_event_stream(void **state)
{
	_cleanup_buf_ struct buf now = BUF_INIT, gap = BUF_INIT, again = BUF_INIT, bad = BUF_INIT;
	int fd = dial(), closed = fake_events_closed(service.core);

	send_text(fd, GET_EVENTS("", EVENTS));
	assert_true(read_until(fd, &now, "id: 200000\nevent: ready\ndata: {\"cursor\":200000}\n\n",
			       PATIENCE_MS));
	assert_answer(&now, 200, "Content-Type: text/event-stream");
	close(fd);
	wait_for(fake_events_closed, closed + 1);

	fd = dial();
	send_text(fd, GET_EVENTS("?cursor=3", EVENTS));
	assert_true(read_until(fd, &gap,
			       "id: 10\nevent: gap\ndata: {\"from\":4,\"to\":10}\n\n"
			       "id: 11\nevent: exec_started\ndata: {\"id\":11,",
			       PATIENCE_MS));
	close(fd);

	fd = dial(); /* the newer of the two */
	send_text(fd, GET_EVENTS("?cursor=3", EVENTS "Last-Event-ID: 199998\r\n"));
	assert_true(read_until(fd, &again, "id: 200000\nevent: exec_ended", PATIENCE_MS));
	assert_null(strstr(buf_str(&again), "gap"));
	assert_null(strstr(buf_str(&again), "id: 199997\n"));
	close(fd);

	exchange(GET_EVENTS("", EVENTS CLOSE "Last-Event-ID: 7x\r\n"), &bad);
	assert_answer(&bad, 400, "invalid_cursor");
	wait_for(fake_events_closed, closed + 3); /* the next test counts */
}

/* A client that does not read stops its follower; it is not kept in memory what it will read. */
static void test_slow_event_reader(void **state)
{
	int before = fake_events_sent(service.core), fd = dial(), received = 65536, stopped_at;
	_cleanup_buf_ struct buf answer = BUF_INIT;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &received, sizeof(received));
	send_text(fd, GET_EVENTS("?cursor=0", EVENTS));
	do { /* until it stands still */
		stopped_at = fake_events_sent(service.core);
		usleep(300000);
	} while (stopped_at == before || fake_events_sent(service.core) != stopped_at);
	assert_in_range(stopped_at - before, 1, FAKE_EVENTS * 3 / 4);
	assert_true(read_until(fd, &answer, "id: 200000\nevent: exec_ended", PATIENCE_MS));
	assert_int_equal(fake_events_sent(service.core) - before, FAKE_EVENTS);
	close(fd);
}

static void test_progress_events(void **state)
{
	_cleanup_buf_ struct buf plain = BUF_INIT, events = BUF_INIT, broken = BUF_INIT;

	post("/v1/images", "", "{\"name\":\"base\"}", &plain);
	assert_answer(&plain, 201, "\"name\":\"base\"");
	post("/v1/images", EVENTS, "{\"name\":\"base\"}", &events);
	assert_answer(&events, 200,
		      "event: progress\ndata: {\"percent\":10,\"message\":\"unpacking\"}\n\n");
	assert_answer(&events, 200, "event: result\ndata: {\"name\":\"base\"");
	post("/v1/images", EVENTS, "{\"name\":\"broken\"}", &broken);
	assert_answer(&broken, 200, "event: error\ndata: {\"type\":\"about:blank\"");
}

static void test_pipelined(void **state)
{
	_cleanup_buf_ struct buf answer = BUF_INIT;

	exchange("GET /v1/sandboxes/sbx_aa HTTP/1.1\r\n" HOST KEY "\r\n"
		 "GET /healthz HTTP/1.1\r\n" HOST "\r\n"
		 "GET /v1/limits HTTP/1.1\r\n" HOST KEY CLOSE "\r\n",
		 &answer);
	assert_answer(&answer, 200, "sbx_aa");
	assert_answer(&answer, 200, "{\"status\":\"ok\"}");
	assert_answer(&answer, 200, "timeout_minutes_max");
}

/* An end in the middle of everything: no answer is waited for longer than the grace. */
static void test_end_with_waiters(void **state)
{
	_cleanup_buf_ struct buf hang = BUF_INIT, stream = BUF_INIT;
	int waiting = dial(), streaming = dial(), idle = dial();
	int64_t began = clock_boottime_ms();

	send_exec(waiting, "", "hang");
	send_exec(streaming, EVENTS, "hang");
	assert_true(read_until(streaming, &stream, "started", PATIENCE_MS));
	usleep(100000);
	http_server_free(service.http, 300);
	service.http = NULL;
	assert_true(clock_boottime_ms() - began < PATIENCE_MS);
	assert_true(read_until(waiting, &hang, NULL, PATIENCE_MS));
	assert_answer(&hang, 499, "pick it up with exec_wait");
	assert_true(read_until(streaming, &stream, NULL, PATIENCE_MS));
	close(waiting);
	close(streaming);
	close(idle);
}

int main(void)
{
	const struct rlimit descriptors = { 4096, 4096 };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_framing),
		cmocka_unit_test(test_large_bodies),
		cmocka_unit_test(test_slow_clients),
		cmocka_unit_test(test_host_origin_key),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_routes),
		cmocka_unit_test(test_request_ids),
		cmocka_unit_test(test_bodies),
		cmocka_unit_test(test_content_types),
		cmocka_unit_test(test_idempotency_key),
		cmocka_unit_test(test_exec),
		cmocka_unit_test(test_large_result),
		cmocka_unit_test(test_client_leaves),
		cmocka_unit_test(test_many_waiting),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_paced_stream),
		cmocka_unit_test(test_event_pages),
		cmocka_unit_test(test_event_stream),
		cmocka_unit_test(test_slow_event_reader),
		cmocka_unit_test(test_progress_events),
		cmocka_unit_test(test_pipelined),
		cmocka_unit_test(test_end_with_waiters),
	};

	setrlimit(RLIMIT_NOFILE, &descriptors);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, start, stop);
}
