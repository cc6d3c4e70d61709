/*
 * The HTTP server by itself, with handlers of the test's own: too much work, heartbeats of streams,
 * answers that come when nobody waits any more.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "api/http.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

struct service {
	struct loop *loop;
	struct pool *pool;
	struct http_server *http;
	atomic_int handled, drained_bytes, left, released;
	atomic_bool good; /* who holds requests */
	sem_t *release;	  /* what "block" waits for */
	sem_t release_storage;
	struct http_request *kept;
	struct http_stream *stream;
};

static void on_drained(void *arg, size_t bytes)
{
	((struct service *)arg)->drained_bytes += (int)bytes;
}

static void on_left(void *arg)
{
	((struct service *)arg)->left++;
}

static bool is_good(const void *arg)
{
	return ((const struct service *)arg)->good;
}

static void on_released(void *arg)
{
	((struct service *)arg)->released++;
}

static void handle(void *arg, struct http_request *req)
{
	struct service *s = arg;
	const char *path = http_path(req);
	struct buf body = BUF_INIT;

	if (str_starts(path, "/held"))
		http_hold(req, &(struct http_holder){ is_good, on_released, s });
	if (str_eq(path, "/stream") || str_eq(path, "/held/stream")) {
		s->stream = http_stream_begin(req, 1000, on_drained, s);
		s->handled++;
		return;
	}
	if (str_eq(path, "/keep") || str_eq(path, "/quick/keep") || str_eq(path, "/held/keep")) {
		http_on_disconnect(req, on_left, s);
		s->kept = req;
		s->handled++;
		return;
	}
	s->handled++;
	if (str_eq(path, "/block"))
		sem_wait(s->release);
	buf_append_str(&body, "done");
	http_respond(req, 200, "text/plain", &body, NULL, 0);
}

static bool is_quick(void *arg, struct http_request *req)
{
	return str_starts(http_path(req), "/quick");
}

static void start(struct service *s, size_t workers, size_t queue)
{
	struct err err = ERR_INIT;
	struct http_config config = {
		.address = "127.0.0.1",
		.listen_fd = -1,
		.body_max_bytes = 1024,
		.connections_max = 64,
		.header_timeout_ms = 5000,
		.idle_timeout_ms = 60000,
		.event_threads = 1,
		.handler = handle,
		.is_quick = is_quick,
		.arg = s,
	};

	*s = (struct service){ 0 };
	s->release = &s->release_storage;
	s->good = true;
	assert_int_equal(sem_init(s->release, 0, 0), 0);
	assert_int_equal(loop_new(&s->loop, &err), 0);
	assert_int_equal(loop_start(s->loop, "loop", &err), 0);
	assert_int_equal(pool_new(workers, queue, &s->pool, &err), 0);
	config.loop = s->loop;
	config.pool = s->pool;
	assert_int_equal(http_server_new(&config, &s->http, &err), 0);
}

static void stop(struct service *s)
{
	http_server_free(s->http, 1000);
	pool_free(s->pool);
	loop_free(s->loop);
	sem_destroy(s->release);
}

static int ask(struct service *s, const char *path)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(http_server_port(s->http)) };
	_cleanup_buf_ struct buf text = BUF_INIT;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	buf_printf(&text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
	assert_int_equal(send(fd, text.data, text.len, MSG_NOSIGNAL), text.len);
	return fd;
}

/* Reads until part was seen; fails after 5 s. */
static void expect(int fd, const char *part, struct buf *seen)
{
	int64_t deadline = clock_boottime_ms() + 5000;
	char block[4096];

	while (!strstr(buf_str(seen), part)) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };
		ssize_t n = poll(&ready, 1, clock_remaining_ms(deadline)) > 0
				    ? recv(fd, block, sizeof(block), 0)
				    : 0;

		if (n <= 0)
			fail_msg("wanted %s, got %s", part, buf_str(seen));
		buf_append(seen, block, (size_t)n);
	}
}

static void wait_for(const atomic_int *value, int wanted)
{
	for (int i = 0; i < 500 && *value < wanted; i++)
		usleep(10000);
	assert_int_equal(*value, wanted);
}

static void test_too_much_work(void **state)
{
	_cleanup_buf_ struct buf first = BUF_INIT, queued = BUF_INIT, shed = BUF_INIT,
				 later = BUF_INIT;
	struct service s;
	int fds[3], fd;

	start(&s, 1, 1);
	fds[0] = ask(&s, "/block");
	wait_for(&s.handled, 1);
	fds[1] = ask(&s, "/queued");
	usleep(100000);
	fds[2] = ask(&s, "/shed");
	expect(fds[2], "\"code\":\"overloaded\"", &shed);
	expect(fds[2], "HTTP/1.1 503", &shed);
	expect(fds[2], "Retry-After: 1", &shed);
	expect(fds[2], "application/problem+json", &shed);
	assert_int_equal(s.handled, 1);

	sem_post(s.release);
	expect(fds[0], "done", &first);
	expect(fds[1], "done", &queued);
	fd = ask(&s, "/again");
	expect(fd, "done", &later);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	close(fd);
	stop(&s);
}

/* Answered while no worker is free; one after the other on a connection; and also one whose answer
 * comes later after all. */
static void test_quick_ones_need_no_worker(void **state)
{
	static const char twice[] = "GET /quick HTTP/1.1\r\nHost: localhost\r\n\r\n"
				    "GET /quick/keep HTTP/1.1\r\nHost: localhost\r\n\r\n";
	_cleanup_buf_ struct buf blocked = BUF_INIT, quick = BUF_INIT;
	struct buf late = BUF_INIT;
	struct service s;
	int blocking, fd;

	start(&s, 1, 1);
	blocking = ask(&s, "/block");
	wait_for(&s.handled, 1);
	fd = ask(&s, "/quick");
	assert_int_equal(send(fd, twice, sizeof(twice) - 1, MSG_NOSIGNAL), sizeof(twice) - 1);
	wait_for(&s.handled, 4);
	buf_append_str(&late, "late");
	http_respond(s.kept, 200, "text/plain", &late, NULL, 0);
	expect(fd, "late", &quick);
	assert_non_null(strstr(strstr(buf_str(&quick), "done") + 1, "done"));
	sem_post(s.release);
	expect(blocking, "done", &blocked);
	close(fd);
	close(blocking);
	stop(&s);
}

static void test_heartbeats(void **state)
{
	_cleanup_buf_ struct buf seen = BUF_INIT;
	struct service s;
	int fd;

	start(&s, 1, 4);
	fd = ask(&s, "/stream");
	wait_for(&s.handled, 1);
	expect(fd, ":\n\n", &seen);
	assert_int_equal(s.drained_bytes, 0); /* the source's bytes only */
	assert_true(http_stream_write(s.stream, "data: 12345\n\n", 13));
	expect(fd, "data: 12345\n\n", &seen);
	wait_for(&s.drained_bytes, 13);
	http_stream_end(s.stream);
	expect(fd, "\r\n0\r\n\r\n", &seen); /* the end, and the connection goes on */
	close(fd);
	stop(&s);
}

static void test_writing_to_nobody(void **state)
{
	_cleanup_buf_ struct buf seen = BUF_INIT;
	struct service s;
	int fd;

	start(&s, 1, 4);
	fd = ask(&s, "/stream");
	wait_for(&s.handled, 1);
	expect(fd, "text/event-stream", &seen);
	close(fd);
	for (int i = 0; i < 500 && http_stream_write(s.stream, "data: x\n\n", 9); i++)
		usleep(10000);
	assert_false(http_stream_write(s.stream, "data: x\n\n", 9));
	http_stream_end(s.stream);
	stop(&s);
}

static void test_client_leaves_once(void **state)
{
	struct buf body = BUF_INIT;
	struct service s;
	int fd;

	start(&s, 1, 4);
	fd = ask(&s, "/keep");
	wait_for(&s.handled, 1);
	usleep(100000);
	assert_int_equal(s.left, 0);
	close(fd);
	wait_for(&s.left, 1);
	usleep(100000);
	assert_int_equal(s.left, 1);
	buf_append_str(&body, "late");
	http_respond(s.kept, 200, "text/plain", &body, NULL, 0);
	stop(&s);
}

static void expect_end(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	char block[4096];
	ssize_t n;

	do {
		assert_int_equal(poll(&ready, 1, 5000), 1);
		n = recv(fd, block, sizeof(block), 0);
	} while (n > 0);
}

/* Who holds a request is good no more: the handler is told once, and may still answer. */
static void test_a_holder_that_is_good_no_more(void **state)
{
	_cleanup_buf_ struct buf seen = BUF_INIT, other = BUF_INIT;
	struct buf body = BUF_INIT, free_body = BUF_INIT;
	struct service s;
	int fd, free_fd;
	struct http_request *held;

	start(&s, 1, 4);
	fd = ask(&s, "/held/keep");
	wait_for(&s.handled, 1);
	held = s.kept;
	assert_true(http_held_by_good(held));
	free_fd = ask(&s, "/keep");
	wait_for(&s.handled, 2);
	usleep(500000);
	assert_int_equal(s.left, 0);
	s.good = false;
	wait_for(&s.left, 1);
	assert_false(http_held_by_good(held));
	buf_append_str(&body, "your key was revoked");
	http_respond(held, 401, "text/plain", &body, NULL, 0);
	expect(fd, "your key was revoked", &seen);
	wait_for(&s.released, 1);
	/* Those whom nobody holds are not touched. */
	assert_int_equal(s.left, 1);
	buf_append_str(&free_body, "done");
	http_respond(s.kept, 200, "text/plain", &free_body, NULL, 0);
	expect(free_fd, "done", &other);
	close(fd);
	close(free_fd);
	stop(&s);
	assert_int_equal(s.released, 1);
}

/* A handler that does not answer does not keep the connection. */
static void test_a_holder_is_cut(void **state)
{
	_cleanup_buf_ struct buf seen = BUF_INIT;
	struct buf body = BUF_INIT;
	struct service s;
	int fd, stream_fd;

	start(&s, 1, 4);
	fd = ask(&s, "/held/keep");
	wait_for(&s.handled, 1);
	stream_fd = ask(&s, "/held/stream");
	expect(stream_fd, "text/event-stream", &seen);
	s.good = false;
	expect_end(fd);
	expect_end(stream_fd);
	assert_false(http_stream_write(s.stream, "data: x\n\n", 9));
	http_stream_end(s.stream);
	buf_append_str(&body, "late");
	http_respond(s.kept, 200, "text/plain", &body, NULL, 0);
	wait_for(&s.released, 2);
	close(fd);
	close(stream_fd);
	stop(&s);
}

/* The handler answers after the server has gone. */
static void test_answer_after_the_end(void **state)
{
	struct buf body = BUF_INIT;
	struct service s;
	int fd;

	start(&s, 1, 4);
	fd = ask(&s, "/keep");
	wait_for(&s.handled, 1);
	usleep(100000);
	http_server_free(s.http, 100);
	buf_append_str(&body, "late");
	http_respond(s.kept, 200, "text/plain", &body, NULL, 0);
	pool_free(s.pool);
	loop_free(s.loop);
	sem_destroy(s.release);
	close(fd);
}

/* One end in some hundred aborted, when the library was asked to stop listening first. */
static void test_ends_many_times(void **state)
{
	for (int i = 0; i < 200; i++) {
		struct service s;
		int fd;

		start(&s, 1, 4);
		fd = ask(&s, "/hello");
		stop(&s);
		close(fd);
	}
}

static void test_taken_port(void **state)
{
	struct err err = ERR_INIT;
	struct service s;
	int fd = -1;

	start(&s, 1, 4);
	assert_true(http_listen("127.0.0.1", http_server_port(s.http), &fd, &err) < 0);
	assert_string_equal(err_code_of(&err), "address_in_use");
	assert_true(http_listen("not an address", 0, &fd, &err) < 0);
	assert_int_equal(fd, -1);
	stop(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_too_much_work),
		cmocka_unit_test(test_quick_ones_need_no_worker),
		cmocka_unit_test(test_heartbeats),
		cmocka_unit_test(test_writing_to_nobody),
		cmocka_unit_test(test_client_leaves_once),
		cmocka_unit_test(test_a_holder_that_is_good_no_more),
		cmocka_unit_test(test_a_holder_is_cut),
		cmocka_unit_test(test_answer_after_the_end),
		cmocka_unit_test(test_taken_port),
		cmocka_unit_test(test_ends_many_times),
	};

	signal(SIGPIPE, SIG_IGN);
	log_init(LOG_LVL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
