/*
 * Commands and events over REST, on a core without machines: answers that are waited for, streams
 * and their pace, clients that leave, and an end in the middle of it.
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
#include "fake_events.h"
#include "rest_rig.h"

/* ---- commands ---- */

static void test_exec(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT, bytes = BUF_INIT, base64 = BUF_INIT,
				 none = BUF_INIT;
	_cleanup_buf_ struct buf secret = BUF_INIT;

	rest_post("/v1/sandboxes/sbx_aa/exec", "", "{\"command\":\"echo hi\"}", &text);
	rest_assert_answer(&text, 200, "\"stdout\":\"hi\"");
	rest_assert_answer(&text, 200, "\"exit_code\":0");
	rest_post("/v1/sandboxes/sbx_aa/exec", "", "{\"command\":\"bytes\"}", &bytes);
	rest_assert_answer(&bytes, 200, "\"stdout\":\"\xef\xbf\xbd\xef\xbf\xbd\"");
	rest_post("/v1/sandboxes/sbx_aa/exec", "",
		  "{\"command\":\"bytes\",\"encoding\":\"base64\"}", &base64);
	rest_assert_answer(&base64, 200, "\"stdout_base64\":\"//4=\"");
	rest_post("/v1/sandboxes/sbx_bb/exec", "", "{\"command\":\"echo hi\"}", &none);
	rest_assert_answer(&none, 404, "not_found");
	rest_post("/v1/sandboxes/sbx_aa/exec", "",
		  "{\"command\":\"echo hi\",\"env\":{\"TOKEN\":\"hunter\\u0000two\"}}", &secret);
	rest_assert_answer(&secret, 400, "TOKEN");
	assert_null(strstr(buf_str(&secret), "hunter"));
}

/* Made by a worker, as it would hold up the loop's thread. */
static void test_large_result(void **state)
{
	_cleanup_buf_ struct buf answer = BUF_INIT;

	rest_post("/v1/sandboxes/sbx_aa/exec", "", "{\"command\":\"large\"}", &answer);
	rest_assert_answer(&answer, 200, "\"exit_code\":0");
	assert_true(answer.len > FAKE_LARGE_BYTES);
}

/* Waits until the core has seen it; a client that leaves is noticed while its request is suspended.
 */
static void wait_for(int (*count)(struct core *core), int wanted)
{
	for (int i = 0; i < PATIENCE_MS / 10 && count(rest_rig.core) < wanted; i++)
		usleep(10000);
	assert_int_equal(count(rest_rig.core), wanted);
}

static void send_exec(int fd, const char *accept, const char *command)
{
	_cleanup_buf_ struct buf request = BUF_INIT, body = BUF_INIT;

	buf_printf(&body, "{\"command\":\"%s\"}", command);
	buf_printf(&request,
		   "POST /v1/sandboxes/sbx_aa/exec HTTP/1.1\r\n" HOST KEY JSON
		   "%sContent-Length: %zu\r\n\r\n%s",
		   accept, body.len, buf_str(&body));
	rest_send(fd, buf_str(&request));
}

#define EVENTS "Accept: text/event-stream\r\n"

static void test_client_leaves(void **state)
{
	int cancelled = fake_core_cancelled(rest_rig.core),
	    closed = fake_core_closed(rest_rig.core);
	_cleanup_buf_ struct buf answer = BUF_INIT;
	int fd = rest_dial();

	send_exec(fd, "", "hang");
	usleep(100000);
	assert_int_equal(fake_core_cancelled(rest_rig.core), cancelled);
	close(fd);
	wait_for(fake_core_cancelled, cancelled + 1);

	fd = rest_dial();
	send_exec(fd, EVENTS, "hang");
	assert_true(rest_read_until(
		fd, &answer, "event: started\ndata: {\"exec_id\":\"exe_1\"}\n\n", PATIENCE_MS));
	assert_int_equal(fake_core_closed(rest_rig.core), closed);
	close(fd);
	wait_for(fake_core_closed, closed + 1);
}

static void test_many_waiting(void **state)
{
	enum { WAITING = 200 };
	int fds[WAITING], cancelled = fake_core_cancelled(rest_rig.core);
	_cleanup_buf_ struct buf answer = BUF_INIT;

	/* Far more than there are workers: waiting costs none. */
	for (int i = 0; i < WAITING; i++) {
		fds[i] = rest_dial();
		send_exec(fds[i], i % 2 ? EVENTS : "", "hang");
	}
	rest_get("GET", "/healthz", &answer);
	rest_assert_answer(&answer, 200, NULL);
	for (int i = 0; i < WAITING; i++)
		close(fds[i]);
	wait_for(fake_core_cancelled, cancelled + WAITING / 2);
}

static void test_events(void **state)
{
	_cleanup_buf_ struct buf answer = BUF_INIT, missing = BUF_INIT, unknown = BUF_INIT;
	_cleanup_buf_ struct buf follow = BUF_INIT;

	rest_post("/v1/sandboxes/sbx_aa/exec", EVENTS, "{\"command\":\"echo hi\"}", &answer);
	rest_assert_answer(&answer, 200, "Content-Type: text/event-stream");
	rest_assert_answer(&answer, 200, "X-Accel-Buffering: no");
	rest_assert_answer(&answer, 200, "event: stdout\ndata: {\"offset\":0,\"data\":\"hi\"}\n\n");
	rest_assert_answer(&answer, 200, "event: exit\ndata: {\"exec_id\":\"exe_1\"");
	/* What never began is an answer like any other. */
	rest_post("/v1/sandboxes/sbx_aa/exec", EVENTS, "{\"command\":\"missing\"}", &missing);
	rest_assert_answer(&missing, 422, "cwd_not_found");
	rest_post("/v1/sandboxes/sbx_bb/exec", EVENTS, "{\"command\":\"echo hi\"}", &unknown);
	rest_assert_answer(&unknown, 404, "not_found");
	rest_exchange("GET /v1/sandboxes/sbx_aa/exec/exe_1 HTTP/1.1\r\n" HOST KEY CLOSE EVENTS
		      "\r\n",
		      &follow);
	rest_assert_answer(&follow, 200, "followed");
}

/* A client that does not read stops the source; one that goes on gets every byte, one "é" after the
 * other, whatever way they were cut. */
static void test_paced_stream(void **state)
{
	_cleanup_buf_ struct buf answer = BUF_INIT;
	int fd = rest_dial(), received = 65536;
	uint64_t stopped_at;
	size_t bytes = 0;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &received, sizeof(received));
	send_exec(fd, EVENTS, "spew");
	do { /* until it stands still */
		stopped_at = fake_core_spewed(rest_rig.core);
		usleep(500000);
	} while (stopped_at == 0 || fake_core_spewed(rest_rig.core) != stopped_at);
	assert_in_range(stopped_at, 1, FAKE_SPEW_BYTES / 2);

	assert_true(rest_read_until(fd, &answer, "event: exit", PATIENCE_MS));
	assert_null(strstr(buf_str(&answer), "data_base64"));
	for (size_t i = 1; i < answer.len; i++)
		bytes += answer.data[i - 1] == '\xc3' && answer.data[i] == '\xa9' ? 2 : 0;
	/* The heads of HTTP's chunks may fall between two bytes of a character. */
	assert_in_range(bytes, FAKE_SPEW_BYTES - 65536, FAKE_SPEW_BYTES);
	assert_true(rest_read_until(fd, &answer, "\"stdout_bytes\":16777216", PATIENCE_MS));
	close(fd);
}

#define GET_EVENTS(query, headers) "GET /v1/events" query " HTTP/1.1\r\n" HOST KEY headers "\r\n"

/* What happened: as pages, and as a stream that goes on where its reader was. */
static void test_event_pages(void **state)
{
	_cleanup_buf_ struct buf page = BUF_INIT, newest = BUF_INIT, gap = BUF_INIT;
	_cleanup_buf_ struct buf early = BUF_INIT;

	rest_exchange(GET_EVENTS("?cursor=100&limit=2", CLOSE), &page);
	rest_assert_answer(&page, 200,
			   "{\"items\":[{\"id\":101,\"at\":\"1970-01-01T00:00:01.101Z\","
			   "\"type\":\"exec_started\",\"sandbox_id\":\"sbx_aa\","
			   "\"data\":{\"exec_id\":\"exe_1\"}},");
	rest_assert_answer(&page, 200, "],\"next_cursor\":\"102\",\"cursor\":102,\"gap\":null}");
	rest_exchange(GET_EVENTS("?newest=true&limit=1", CLOSE), &newest);
	rest_assert_answer(&newest, 200, "\"next_cursor\":null,\"cursor\":200000,");
	rest_exchange(GET_EVENTS("?cursor=3", CLOSE), &gap);
	rest_assert_answer(&gap, 200, "\"gap\":{\"from\":4,\"to\":10}}");
	rest_exchange(GET_EVENTS("?cursor=200001", CLOSE), &early);
	rest_assert_answer(&early, 400, "invalid_cursor");
}

static void test_event_stream(void **state)
{
	_cleanup_buf_ struct buf now = BUF_INIT, gap = BUF_INIT, again = BUF_INIT, bad = BUF_INIT;
	int fd = rest_dial(), closed = fake_events_closed(rest_rig.core);

	rest_send(fd, GET_EVENTS("", EVENTS));
	assert_true(rest_read_until(
		fd, &now, "id: 200000\nevent: ready\ndata: {\"cursor\":200000}\n\n", PATIENCE_MS));
	rest_assert_answer(&now, 200, "Content-Type: text/event-stream");
	close(fd);
	wait_for(fake_events_closed, closed + 1);

	fd = rest_dial();
	rest_send(fd, GET_EVENTS("?cursor=3", EVENTS));
	assert_true(rest_read_until(fd, &gap,
				    "id: 10\nevent: gap\ndata: {\"from\":4,\"to\":10}\n\n"
				    "id: 11\nevent: exec_started\ndata: {\"id\":11,",
				    PATIENCE_MS));
	close(fd);

	fd = rest_dial(); /* the newer of the two */
	rest_send(fd, GET_EVENTS("?cursor=3", EVENTS "Last-Event-ID: 199998\r\n"));
	assert_true(rest_read_until(fd, &again, "id: 200000\nevent: exec_ended", PATIENCE_MS));
	assert_null(strstr(buf_str(&again), "gap"));
	assert_null(strstr(buf_str(&again), "id: 199997\n"));
	close(fd);

	rest_exchange(GET_EVENTS("", EVENTS CLOSE "Last-Event-ID: 7x\r\n"), &bad);
	rest_assert_answer(&bad, 400, "invalid_cursor");
	wait_for(fake_events_closed, closed + 3); /* the next test counts */
}

/* A client that does not read stops its follower; it is not kept in memory what it will read. */
static void test_slow_event_reader(void **state)
{
	int before = fake_events_sent(rest_rig.core), fd = rest_dial(), received = 65536,
	    stopped_at;
	_cleanup_buf_ struct buf answer = BUF_INIT;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &received, sizeof(received));
	rest_send(fd, GET_EVENTS("?cursor=0", EVENTS));
	do { /* until it stands still */
		stopped_at = fake_events_sent(rest_rig.core);
		usleep(300000);
	} while (stopped_at == before || fake_events_sent(rest_rig.core) != stopped_at);
	assert_in_range(stopped_at - before, 1, FAKE_EVENTS * 3 / 4);
	assert_true(rest_read_until(fd, &answer, "id: 200000\nevent: exec_ended", PATIENCE_MS));
	assert_int_equal(fake_events_sent(rest_rig.core) - before, FAKE_EVENTS);
	close(fd);
}

static void test_progress_events(void **state)
{
	_cleanup_buf_ struct buf plain = BUF_INIT, events = BUF_INIT, broken = BUF_INIT;

	rest_post("/v1/images", "", "{\"name\":\"base\"}", &plain);
	rest_assert_answer(&plain, 201, "\"name\":\"base\"");
	rest_post("/v1/images", EVENTS, "{\"name\":\"base\"}", &events);
	rest_assert_answer(&events, 200,
			   "event: progress\ndata: {\"percent\":10,\"message\":\"unpacking\"}\n\n");
	rest_assert_answer(&events, 200, "event: result\ndata: {\"name\":\"base\"");
	rest_post("/v1/images", EVENTS, "{\"name\":\"broken\"}", &broken);
	rest_assert_answer(&broken, 200, "event: error\ndata: {\"type\":\"about:blank\"");
}

static void test_import_of_an_image(void **state)
{
	_cleanup_buf_ struct buf made = BUF_INIT, refused = BUF_INIT, bad = BUF_INIT;

	rest_post("/v1/images/import", EVENTS,
		  "{\"source\":\"docker://x\",\"name\":\"web\",\"tls_verify\":false}", &made);
	rest_assert_answer(&made, 200, "\"message\":\"copying\"");
	rest_assert_answer(&made, 200, "\"name\":\"web\"");
	rest_assert_answer(&made, 200, "\"source\":\"docker://x\",\"source_digest\":\"any\"");
	rest_assert_answer(&made, 200, "\"warnings\":[\"a warning\"]");
	rest_post("/v1/images/import", "", "{\"source\":\"oci:/hostile\"}", &refused);
	rest_assert_answer(&refused, 422, "\"code\":\"image_refused\"");
	rest_post("/v1/images/import", "", "{\"source\":\"oci:/x\",\"name\":\"Bad Name\"}", &bad);
	rest_assert_answer(&bad, 400, "name");
}

static void test_pipelined(void **state)
{
	_cleanup_buf_ struct buf answer = BUF_INIT;

	rest_exchange("GET /v1/sandboxes/sbx_aa HTTP/1.1\r\n" HOST KEY "\r\n"
		      "GET /healthz HTTP/1.1\r\n" HOST "\r\n"
		      "GET /v1/limits HTTP/1.1\r\n" HOST KEY CLOSE "\r\n",
		      &answer);
	rest_assert_answer(&answer, 200, "sbx_aa");
	rest_assert_answer(&answer, 200, "{\"status\":\"ok\"}");
	rest_assert_answer(&answer, 200, "timeout_minutes_max");
}

/* An end in the middle of everything: no answer is waited for longer than the grace. */
static void test_end_with_waiters(void **state)
{
	_cleanup_buf_ struct buf hang = BUF_INIT, stream = BUF_INIT;
	int waiting = rest_dial(), streaming = rest_dial(), idle = rest_dial();
	int64_t began = clock_boottime_ms();

	send_exec(waiting, "", "hang");
	send_exec(streaming, EVENTS, "hang");
	assert_true(rest_read_until(streaming, &stream, "started", PATIENCE_MS));
	usleep(100000);
	http_server_free(rest_rig.http, 300);
	rest_rig.http = NULL;
	assert_true(clock_boottime_ms() - began < PATIENCE_MS);
	assert_true(rest_read_until(waiting, &hang, NULL, PATIENCE_MS));
	rest_assert_answer(&hang, 499, "pick it up with exec_wait");
	assert_true(rest_read_until(streaming, &stream, NULL, PATIENCE_MS));
	close(waiting);
	close(streaming);
	close(idle);
}

int main(void)
{
	const struct rlimit descriptors = { 4096, 4096 };
	const struct CMUnitTest tests[] = {
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
		cmocka_unit_test(test_import_of_an_image),
		cmocka_unit_test(test_pipelined),
		cmocka_unit_test(test_end_with_waiters),
	};

	setrlimit(RLIMIT_NOFILE, &descriptors);
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, rest_rig_start, rest_rig_stop);
}
