/*
 * The benchmarks' HTTP client: a request and its answer over one kept connection, timed from the
 * first byte sent to the last one read, with as little of a client in the time as there can be.
 *
 *   http_rtt PORT
 *
 * Connects to 127.0.0.1:PORT. Reads requests from stdin, each a line with its length in bytes and
 * then the request as it goes over the wire; writes a line of JSON for each, {"us", "status",
 * "body_bytes"}, and then the answer's body. Anything that goes wrong ends the program, which says
 * what on stderr.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "dial.h"

#define REQUEST_MAX (64 << 20)
#define READ_BYTES  65536

struct answer {
	struct buf bytes; /* as it came */
	size_t body;	  /* where that begins; 0: the head is not complete */
	size_t length;
	bool chunked;
	int status;
};

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "http_rtt: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int dial_named(const char *port)
{
	int64_t number;
	int fd;

	if (str_to_i64(port, &number) < 0 || number < 1 || number > 65535) {
		errno = EINVAL;
		die(port);
	}
	fd = dial((uint16_t)number);
	if (fd < 0)
		die("connect");
	return fd;
}

static void send_all(int fd, const struct buf *request)
{
	for (size_t at = 0; at < request->len;) {
		ssize_t n = send(fd, request->data + at, request->len - at, MSG_NOSIGNAL);

		if (n < 0)
			die("send");
		at += (size_t)n;
	}
}

static void read_head(struct answer *a)
{
	const char *text = buf_str(&a->bytes), *end = strstr(text, "\r\n\r\n"), *length;

	if (!end)
		return;
	a->body = (size_t)(end - text) + 4;
	if (!str_starts(text, "HTTP/1.1 ")) {
		errno = EPROTO;
		die("the answer's first line");
	}
	a->status = (int)strtol(text + strlen("HTTP/1.1 "), NULL, 10);
	length = strcasestr(text, "\r\nContent-Length:");
	a->chunked = !length || length > end;
	if (!a->chunked)
		a->length = strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
}

/* A chunked body ends with an empty chunk, which is the last thing on the connection then. */
static bool is_complete(struct answer *a)
{
	static const char last[] = "0\r\n\r\n";
	size_t n = sizeof(last) - 1;

	if (a->body == 0)
		read_head(a);
	if (a->body == 0)
		return false;
	if (!a->chunked)
		return a->bytes.len >= a->body + a->length;
	return a->bytes.len >= a->body + n &&
	       memcmp(a->bytes.data + a->bytes.len - n, last, n) == 0;
}

static void exchange(int fd, const struct buf *request, struct answer *a)
{
	char bytes[READ_BYTES];

	send_all(fd, request);
	do {
		ssize_t n = recv(fd, bytes, sizeof(bytes), 0);

		if (n == 0)
			errno = ECONNRESET;
		if (n <= 0)
			die("receive");
		buf_append(&a->bytes, bytes, (size_t)n);
	} while (!is_complete(a));
}

static void answer_one(int fd, size_t len)
{
	_cleanup_buf_ struct buf request = BUF_INIT;
	struct answer a = { .bytes = BUF_INIT };
	int64_t begun_us;

	buf_reserve(&request, len);
	if (fread(request.data, 1, len, stdin) != len)
		die("read the request");
	request.len = len;
	begun_us = clock_boottime_us();
	exchange(fd, &request, &a);
	printf("{\"us\":%" PRId64 ",\"status\":%d,\"body_bytes\":%zu}\n",
	       clock_boottime_us() - begun_us, a.status, a.bytes.len - a.body);
	fwrite(a.bytes.data + a.body, 1, a.bytes.len - a.body, stdout);
	fflush(stdout);
	buf_clear(&a.bytes);
}

int main(int argc, char **argv)
{
	char line[32];
	int fd;

	if (argc != 2) {
		fprintf(stderr, "usage: http_rtt PORT\n");
		return 2;
	}
	fd = dial_named(argv[1]);
	while (fgets(line, sizeof(line), stdin)) {
		int64_t len;

		line[strcspn(line, "\n")] = '\0';
		if (str_to_i64(line, &len) < 0 || len < 1 || len > REQUEST_MAX) {
			errno = EINVAL;
			die("a request's length");
		}
		answer_one(fd, (size_t)len);
	}
	close(fd);
	return 0;
}
