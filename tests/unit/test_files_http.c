/*
 * Files over HTTP, on raw sockets and a core without machines: ranges and validators, bodies in
 * both framings, what is refused and that its words arrive, clients that leave or do not read.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include "api/files_range.h"
#include "api/http.h"
#include "api/rest.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "fake_core.h"
#include "fake_files.h"

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
		.body_max_bytes = 4096,
		.connections_max = 64,
		.header_timeout_ms = 5000,
		.idle_timeout_ms = 60000,
		.event_threads = 2,
		.handler = rest_handle,
		.passes = rest_passes,
	};

	log_init(LOG_LVL_ERROR);
	assert_int_equal(loop_new(&service.loop, &err), 0);
	assert_int_equal(loop_start(service.loop, "loop", &err), 0);
	assert_int_equal(pool_new(4, 64, &service.pool, &err), 0);
	service.core = fake_core_new(service.loop);
	rest.core = service.core;
	rest.loop = service.loop;
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
	assert_int_equal(fake_files_open(), 0);
	return 0;
}

/* ---- a client ---- */

#define ROUTE "/v1/sandboxes/sbx_aa/files"
#define HOST  "Host: 127.0.0.1\r\n"
#define KEY   "Authorization: Bearer " FAKE_KEY "\r\n"
#define CLOSE "Connection: close\r\n"

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

static void send_bytes(int fd, const void *data, size_t len)
{
	assert_int_equal(fd_write_all(fd, data, len), 0);
}

static void send_text(int fd, const char *text)
{
	send_bytes(fd, text, strlen(text));
}

/* To the end of the connection. */
static void read_answer(int fd, struct buf *out)
{
	char block[65536];
	ssize_t n;

	while ((n = recv(fd, block, sizeof(block), 0)) > 0)
		buf_append(out, block, (size_t)n);
	close(fd);
}

static void ask(const char *method, const char *target, const char *headers, const char *body,
		struct buf *out)
{
	_cleanup_buf_ struct buf request = BUF_INIT;
	int fd = dial();

	buf_printf(&request, "%s %s HTTP/1.1\r\n" HOST KEY CLOSE "%s", method, target, headers);
	if (body)
		buf_printf(&request, "Content-Length: %zu\r\n", strlen(body));
	buf_printf(&request, "\r\n%s", body ? body : "");
	send_bytes(fd, request.data, request.len);
	read_answer(fd, out);
}

static int status_of(const struct buf *answer)
{
	return answer->len > 9 ? (int)strtol(answer->data + 9, NULL, 10) : -1;
}

static const char *body_of(const struct buf *answer)
{
	const char *end = strstr(buf_str(answer), "\r\n\r\n");

	return end ? end + 4 : "";
}

/* The status, and every part (up to NULL) in it. */
static void assert_answer(const struct buf *answer, int status, const char *const *parts)
{
	if (status_of(answer) != status)
		fail_msg("wanted %d, got: %.600s", status, buf_str(answer));
	for (; *parts; parts++) {
		if (!strstr(buf_str(answer), *parts))
			fail_msg("wanted %s, got: %.900s", *parts, buf_str(answer));
	}
}

#define PARTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void wait_for_none_open(void)
{
	int64_t until = clock_boottime_ms() + 10000;

	while (fake_files_open() > 0) {
		assert_true(clock_boottime_ms() < until);
		usleep(5000);
	}
}

/* ---- the pure part ---- */

static void ranges_of_headers(void **state)
{
	static const struct {
		const char *value;
		struct file_range range;
	} rows[] = {
		{ NULL, { FILE_RANGE_NONE, 0, 0 } },
		{ "bytes=0-0", { FILE_RANGE_SPAN, 0, 0 } },
		{ "BYTES=5-9", { FILE_RANGE_SPAN, 5, 9 } },
		{ "bytes=7-", { FILE_RANGE_FROM, 7, 0 } },
		{ "bytes=-3", { FILE_RANGE_SUFFIX, 3, 0 } },
		{ "bytes=9-5", { FILE_RANGE_NONE, 0, 0 } },
		{ "bytes=-", { FILE_RANGE_NONE, 0, 0 } },
		{ "bytes=", { FILE_RANGE_NONE, 0, 0 } },
		{ "bytes=1-2,4-5", { FILE_RANGE_NONE, 0, 0 } },
		{ "bytes=1-2x", { FILE_RANGE_NONE, 0, 0 } },
		{ "items=1-2", { FILE_RANGE_NONE, 0, 0 } },
		{ "bytes=99999999999999999999-", { FILE_RANGE_NONE, 0, 0 } },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct file_range range = range_parse(rows[i].value);

		if (range.kind != rows[i].range.kind ||
		    (range.kind != FILE_RANGE_NONE && range.first != rows[i].range.first) ||
		    (range.kind == FILE_RANGE_SPAN && range.last != rows[i].range.last))
			fail_msg("row %zu", i);
	}
}

static void etags_of_headers(void **state)
{
	assert_true(etag_matches("\"a\"", "\"a\""));
	assert_true(etag_matches("\"x\", W/\"a\"", "\"a\""));
	assert_true(etag_matches("*", "\"a\""));
	assert_false(etag_matches("\"ab\"", "\"a\""));
	assert_false(etag_matches("a", "\"a\""));
	assert_false(etag_matches("", "\"a\""));
	assert_false(etag_matches(NULL, "\"a\""));
	assert_false(etag_matches("\"\"\",,\"", "\"a\""));
}

/* ---- downloads ---- */

static void a_file(void **state)
{
	_cleanup_buf_ struct buf answer = BUF_INIT, head = BUF_INIT;

	ask("GET", ROUTE "?path=hello", "", NULL, &answer);
	assert_answer(&answer, 200,
		      PARTS("Content-Length: 13\r\n", "Accept-Ranges: bytes\r\n", "ETag: \"7-d-",
			    "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n",
			    "X-File-Mode: 0640\r\n", "X-File-User: sandbox\r\n",
			    "X-File-Group: 0\r\n", /* its name is not fit for a header */
			    "Content-Type: application/octet-stream\r\n",
			    "X-Content-Type-Options: nosniff\r\n"));
	assert_string_equal(body_of(&answer), "hello, files\n");
	ask("HEAD", ROUTE "?path=hello", "Range: bytes=0-1\r\n", NULL, &head);
	assert_answer(&head, 200, PARTS("Content-Length: 13\r\n", "ETag: "));
	assert_string_equal(body_of(&head), "");
}

static void parts_of_a_file(void **state)
{
	static const struct {
		const char *range, *content_range, *body;
		int status;
	} rows[] = {
		{ "bytes=0-4", "Content-Range: bytes 0-4/13", "hello", 206 },
		{ "bytes=7-", "Content-Range: bytes 7-12/13", "files\n", 206 },
		{ "bytes=-6", "Content-Range: bytes 7-12/13", "files\n", 206 },
		{ "bytes=12-99", "Content-Range: bytes 12-12/13", "\n", 206 },
		{ "bytes=13-", "Content-Range: bytes */13", NULL, 416 },
		{ "bytes=0-1,3-4", "Content-Length: 13", "hello, files\n", 200 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf answer = BUF_INIT;
		char header[64];

		snprintf(header, sizeof(header), "Range: %s\r\n", rows[i].range);
		ask("GET", ROUTE "?path=hello", header, NULL, &answer);
		assert_answer(&answer, rows[i].status, PARTS(rows[i].content_range));
		if (rows[i].body)
			assert_string_equal(body_of(&answer), rows[i].body);
		else
			assert_non_null(strstr(body_of(&answer), "\"code\":\"invalid_range\""));
	}
}

static void validators(void **state)
{
	_cleanup_buf_ struct buf answer = BUF_INIT, same = BUF_INIT, other = BUF_INIT,
				 fresh = BUF_INIT;
	char etag[FILE_ETAG_SIZE], header[160];

	file_etag(7, 13, 784111777000000000, etag);
	snprintf(header, sizeof(header), "If-None-Match: \"x\", %s\r\n", etag);
	ask("GET", ROUTE "?path=hello", header, NULL, &answer);
	assert_answer(&answer, 304, PARTS("ETag: "));
	assert_string_equal(body_of(&answer), "");
	snprintf(header, sizeof(header), "Range: bytes=0-4\r\nIf-Range: %s\r\n", etag);
	ask("GET", ROUTE "?path=hello", header, NULL, &same);
	assert_answer(&same, 206, PARTS("bytes 0-4/13"));
	ask("GET", ROUTE "?path=hello", "Range: bytes=0-4\r\nIf-Range: \"old\"\r\n", NULL, &other);
	assert_answer(&other, 200, PARTS("Content-Length: 13"));
	ask("GET", ROUTE "?path=hello", "If-None-Match: \"old\"\r\n", NULL, &fresh);
	assert_answer(&fresh, 200, PARTS("Content-Length: 13"));
}

static void a_file_that_does_not_know_its_size(void **state)
{
	_cleanup_buf_ struct buf answer = BUF_INIT;

	ask("GET", ROUTE "?path=proc", "Range: bytes=0-1\r\n", NULL, &answer);
	assert_answer(&answer, 200,
		      PARTS("Transfer-Encoding: chunked\r\n", "10\r\nfrom the kernel\n"));
	assert_null(strstr(buf_str(&answer), "ETag"));
}

/* What is announced and does not come is not taken for whole. */
static void a_download_that_breaks_off(void **state)
{
	_cleanup_buf_ struct buf answer = BUF_INIT;

	ask("GET", ROUTE "?path=broken", "", NULL, &answer);
	assert_answer(&answer, 200, PARTS("Content-Length: 13\r\n"));
	assert_string_equal(body_of(&answer), "hell");
}

static void a_large_file_is_paced(void **state)
{
	_cleanup_buf_ struct buf answer = BUF_INIT;
	uint64_t before = fake_files_sent(), sent = 0;
	int fd = dial(), small = 16384;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	send_text(fd, "GET " ROUTE "?path=big HTTP/1.1\r\n" HOST KEY CLOSE "\r\n");
	/* Nobody reads: what is sent comes to an end. */
	for (uint64_t last = UINT64_MAX; sent != last || sent == 0; usleep(200000)) {
		last = sent;
		sent = fake_files_sent() - before;
	}
	assert_true(sent < FAKE_BIG_BYTES);
	read_answer(fd, &answer);
	assert_answer(&answer, 200, PARTS("Content-Length: 8388608\r\n"));
	assert_int_equal(strlen(body_of(&answer)), FAKE_BIG_BYTES);
	fd = dial();
	send_text(fd, "GET " ROUTE "?path=big HTTP/1.1\r\n" HOST KEY "\r\n");
	usleep(50000);
	close(fd); /* and nothing is left of it */
	wait_for_none_open();
}

static void what_cannot_be_read(void **state)
{
	static const struct {
		const char *target;
		int status;
		const char *part;
	} rows[] = {
		{ ROUTE "?path=absent", 404, "\"code\":\"file_not_found\"" },
		{ ROUTE "?path=denied", 403, "\"code\":\"permission_denied\"" },
		{ "/v1/sandboxes/sbx_bb/files?path=hello", 404, "\"code\":\"not_found\"" },
		{ ROUTE, 400, "path" },
		{ ROUTE "?path=", 400, "path" },
		{ ROUTE "?path=a%00b", 400, "path" },
		{ ROUTE "?path=%ff", 400, "UTF-8" },
		{ ROUTE "?path=a&path=b", 400, "twice" },
		{ ROUTE "?path=a&mode=0644", 400, "mode" },
		{ ROUTE "/list?path=dir&limit=1001", 400, "limit" },
		{ ROUTE "/list?path=dir&cursor=%21", 400, "invalid_cursor" },
		{ ROUTE "/list?path=dir&cursor=Li4vYQ==", 400, "invalid_cursor" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf answer = BUF_INIT;

		ask("GET", rows[i].target, "", NULL, &answer);
		assert_answer(&answer, rows[i].status, PARTS(rows[i].part));
	}
}

/* ---- uploads ---- */

static void uploads(void **state)
{
	_cleanup_buf_ struct buf made = BUF_INIT, replaced = BUF_INIT, empty = BUF_INIT,
				 chunked = BUF_INIT;
	uint64_t before = fake_files_received();
	int fd = dial();

	ask("PUT", ROUTE "?path=new&mode=0640&parents=true", "", "four", &made);
	assert_answer(&made, 201, PARTS("\"size\":4", "\"mode\":\"0640\"", "\"path\":\"new\""));
	ask("PUT", ROUTE "?path=hello", "Content-Type: text/plain\r\n", "x", &replaced);
	assert_answer(&replaced, 200, PARTS("\"size\":1"));
	ask("PUT", ROUTE "?path=new", "", "", &empty);
	assert_answer(&empty, 201, PARTS("\"size\":0"));
	send_text(fd, "PUT " ROUTE "?path=new HTTP/1.1\r\n" HOST KEY CLOSE
		      "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
	read_answer(fd, &chunked);
	assert_answer(&chunked, 201, PARTS("\"size\":5"));
	assert_int_equal(fake_files_received() - before, 10);
}

static void a_large_upload(void **state)
{
	_cleanup_buf_ struct buf answer = BUF_INIT, body = BUF_INIT;
	int fd = dial();

	buf_reserve(&body, 4u << 20);
	memset(body.data, 'u', body.len = 4u << 20);
	send_text(fd, "PUT " ROUTE "?path=new HTTP/1.1\r\n" HOST KEY CLOSE
		      "Content-Length: 4194304\r\n\r\n");
	send_bytes(fd, body.data, body.len);
	read_answer(fd, &answer);
	assert_answer(&answer, 201, PARTS("\"size\":4194304"));
}

/* The words of a refusal arrive although the client goes on sending. */
static void uploads_that_are_refused(void **state)
{
	static const struct {
		const char *target, *key;
		int status;
		const char *code;
	} rows[] = {
		{ ROUTE "?path=denied", KEY, 403, "\"code\":\"permission_denied\"" },
		{ ROUTE "?path=full", KEY, 507, "\"code\":\"disk_full\"" },
		{ ROUTE "?path=new", "", 401, "\"code\":\"invalid_key\"" },
		{ ROUTE "?path=new&mode=0999", KEY, 400, "mode" },
		{ ROUTE, KEY, 400, "path" },
		{ "/v1/sandboxes/sbx_bb/files?path=new", KEY, 404, "\"code\":\"not_found\"" },
	};
	_cleanup_buf_ struct buf body = BUF_INIT;

	buf_reserve(&body, 3u << 20);
	memset(body.data, 'u', body.len = 3u << 20);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		_cleanup_buf_ struct buf answer = BUF_INIT, head = BUF_INIT;
		int fd = dial();

		buf_printf(&head,
			   "PUT %s HTTP/1.1\r\n" HOST "%s" CLOSE "Content-Length: %zu\r\n\r\n",
			   rows[i].target, rows[i].key, body.len);
		send_bytes(fd, head.data, head.len);
		send_bytes(fd, body.data, body.len);
		read_answer(fd, &answer);
		assert_answer(&answer, rows[i].status, PARTS(rows[i].code));
	}
}

/* Who asks first is told before it has sent anything. */
static void an_upload_that_waits_for_word(void **state)
{
	_cleanup_buf_ struct buf refused = BUF_INIT, too_large = BUF_INIT, good = BUF_INIT;
	char go_on[64] = "";
	int fd = dial();

	send_text(fd, "PUT " ROUTE "?path=denied HTTP/1.1\r\n" HOST KEY CLOSE
		      "Expect: 100-continue\r\nContent-Length: 3000000\r\n\r\n");
	read_answer(fd, &refused);
	assert_answer(&refused, 403, PARTS("permission_denied"));
	fd = dial();
	send_text(fd, "PUT " ROUTE "?path=new HTTP/1.1\r\n" HOST KEY CLOSE
		      "Expect: 100-continue\r\nContent-Length: 1073741825\r\n\r\n");
	read_answer(fd, &too_large);
	assert_answer(&too_large, 413, PARTS("\"code\":\"file_too_large\"", "1073741824"));
	fd = dial();
	send_text(fd, "PUT " ROUTE "?path=new HTTP/1.1\r\n" HOST KEY CLOSE
		      "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
	assert_true(recv(fd, go_on, sizeof(go_on) - 1, 0) > 0);
	assert_true(str_starts(go_on, "HTTP/1.1 100"));
	send_text(fd, "ok");
	read_answer(fd, &good);
	assert_answer(&good, 201, PARTS("\"size\":2"));
}

/* Nothing is finished that did not come whole. */
static void a_client_that_vanishes(void **state)
{
	uint64_t before = fake_files_received();
	int fd = dial();

	send_text(fd, "PUT " ROUTE "?path=new HTTP/1.1\r\n" HOST KEY
		      "Content-Length: 100\r\n\r\nonly this");
	while (fake_files_open() == 0)
		usleep(1000);
	close(fd);
	wait_for_none_open();
	fd = dial();
	send_text(fd, "PUT " ROUTE "?path=new HTTP/1.1\r\n" HOST KEY
		      "Transfer-Encoding: chunked\r\n\r\n4\r\nonly\r\n");
	while (fake_files_open() == 0)
		usleep(1000);
	close(fd);
	wait_for_none_open();
	assert_int_equal(fake_files_received(), before);
}

/* ---- the others ---- */

static void json_operations(void **state)
{
	_cleanup_buf_ struct buf list = BUF_INIT, entry = BUF_INIT, gone = BUF_INIT, put = BUF_INIT;

	ask("GET", ROUTE "/list?path=dir", "", NULL, &list);
	assert_answer(
		&list, 200,
		PARTS("\"name\":\"a\"", "\"name_base64\":\"/w==\"", "\"next_cursor\":\"/w==\""));
	ask("GET", ROUTE "/stat?path=hello", "", NULL, &entry);
	assert_answer(&entry, 200,
		      PARTS("\"path\":\"hello\"", "\"type\":\"file\"", "\"user\":\"sandbox\""));
	ask("DELETE", ROUTE "?path=hello&recursive=true", "", NULL, &gone);
	assert_answer(&gone, 200, PARTS("{\"path\":\"hello\"}"));
	ask("POST", ROUTE, "", "x", &put);
	assert_answer(&put, 405, PARTS("Allow: GET, HEAD, PUT, DELETE, OPTIONS"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_of_headers),
		cmocka_unit_test(etags_of_headers),
		cmocka_unit_test(a_file),
		cmocka_unit_test(parts_of_a_file),
		cmocka_unit_test(validators),
		cmocka_unit_test(a_file_that_does_not_know_its_size),
		cmocka_unit_test(a_download_that_breaks_off),
		cmocka_unit_test(a_large_file_is_paced),
		cmocka_unit_test(what_cannot_be_read),
		cmocka_unit_test(uploads),
		cmocka_unit_test(a_large_upload),
		cmocka_unit_test(uploads_that_are_refused),
		cmocka_unit_test(an_upload_that_waits_for_word),
		cmocka_unit_test(a_client_that_vanishes),
		cmocka_unit_test(json_operations),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, start, stop);
}
