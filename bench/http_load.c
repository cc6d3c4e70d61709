/*
 * A load on an HTTP server: one request again and again over some kept connections, the next one as
 * soon as an answer has come.
 *
 *   http_load PORT CONNECTIONS REQUESTS < REQUEST
 *
 * The request is read from stdin as it goes over the wire. Prints one line of JSON: {"us",
 * "requests", "status"}. Answers must have a Content-Length. One thread: what it takes of a machine
 * it takes of every server alike.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "dial.h"

#define CONNECTIONS_MAX 1024
#define REQUEST_MAX	65536
#define ANSWER_MAX	(1 << 20)

struct connection {
	int fd;
	struct buf in;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "http_load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t number(const char *text, int64_t max)
{
	int64_t n;

	if (str_to_i64(text, &n) < 0 || n < 1 || n > max) {
		errno = EINVAL;
		die(text);
	}
	return n;
}

static void send_all(int fd, const struct buf *request)
{
	if (send(fd, request->data, request->len, MSG_NOSIGNAL) != (ssize_t)request->len)
		die("send");
}

/* The status of a whole answer, which is taken; 0: not yet. */
static int take_answer(struct connection *c)
{
	const char *text = buf_str(&c->in), *end = strstr(text, "\r\n\r\n"), *length;
	size_t whole;
	int status;

	if (!end)
		return 0;
	length = strcasestr(text, "\r\nContent-Length:");
	errno = EPROTO;
	if (!str_starts(text, "HTTP/1.1 ") || !length || length > end)
		die("an answer's head");
	status = (int)strtol(text + strlen("HTTP/1.1 "), NULL, 10);
	whole = (size_t)(end - text) + 4 +
		strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
	if (c->in.len < whole)
		return 0;
	buf_drop_front(&c->in, whole);
	return status;
}

/* Reads what there is; the status of an answer that is whole by then, or 0. */
static int read_some(struct connection *c)
{
	char bytes[65536];
	ssize_t n = recv(c->fd, bytes, sizeof(bytes), 0);

	if (n <= 0 || c->in.len > ANSWER_MAX)
		die("receive");
	buf_append(&c->in, bytes, (size_t)n);
	return take_answer(c);
}

static int run(struct connection *all, size_t n, int64_t requests, const struct buf *request)
{
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC), status = 0;
	int64_t sent = 0, done = 0;

	for (size_t i = 0; i < n; i++) {
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = &all[i] };

		epoll_ctl(epoll_fd, EPOLL_CTL_ADD, all[i].fd, &event);
		if (sent++ < requests)
			send_all(all[i].fd, request);
	}
	while (done < requests) {
		struct epoll_event events[64];
		int ready = epoll_wait(epoll_fd, events, 64, -1);

		for (int i = 0; i < ready; i++) {
			struct connection *c = events[i].data.ptr;
			int got = read_some(c);

			if (!got)
				continue;
			status = got;
			done++;
			if (sent++ < requests)
				send_all(c->fd, request);
		}
	}
	close(epoll_fd);
	return status;
}

int main(int argc, char **argv)
{
	struct connection all[CONNECTIONS_MAX] = { 0 };
	_cleanup_buf_ struct buf request = BUF_INIT;
	int64_t n, requests, begun_us;
	int status;

	if (argc != 4) {
		fprintf(stderr, "usage: http_load PORT CONNECTIONS REQUESTS < REQUEST\n");
		return 2;
	}
	n = number(argv[2], CONNECTIONS_MAX);
	requests = number(argv[3], 100000000);
	buf_reserve(&request, REQUEST_MAX);
	request.len = fread(request.data, 1, REQUEST_MAX, stdin);
	for (int64_t i = 0; i < n; i++) {
		all[i].fd = dial((uint16_t)number(argv[1], 65535));
		if (all[i].fd < 0)
			die("connect");
	}
	begun_us = clock_boottime_us();
	status = run(all, (size_t)n, requests, &request);
	printf("{\"us\":%" PRId64 ",\"requests\":%" PRId64 ",\"status\":%d}\n",
	       clock_boottime_us() - begun_us, requests, status);
	for (int64_t i = 0; i < n; i++) {
		close(all[i].fd);
		buf_clear(&all[i].in);
	}
	return 0;
}
