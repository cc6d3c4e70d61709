/* The HTTP server on a core without machines, and a client of raw sockets. See rest_rig.h. */
#include "unit.h"

#include <arpa/inet.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "rest_rig.h"

#define CHUNK_HEAD_MAX 20 /* CR LF, a number of 64 bits in hex, CR LF */

struct rest_rig rest_rig;

int rest_rig_start(void **state)
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
	assert_int_equal(loop_new(&rest_rig.loop, &err), 0);
	assert_int_equal(loop_start(rest_rig.loop, "loop", &err), 0);
	assert_int_equal(pool_new(4, 512, &rest_rig.pool, &err), 0);
	rest_rig.core = fake_core_new(rest_rig.loop);
	rest.core = rest_rig.core;
	rest.pool = rest_rig.pool;
	rest_rig.rest = rest_new(&rest);
	http.loop = rest_rig.loop;
	http.pool = rest_rig.pool;
	http.arg = rest_rig.rest;
	assert_int_equal(http_server_new(&http, &rest_rig.http, &err), 0);
	return 0;
}

int rest_rig_stop(void **state)
{
	http_server_free(rest_rig.http, 2000);
	pool_free(rest_rig.pool);
	rest_free(rest_rig.rest);
	loop_free(rest_rig.loop);
	fake_core_free(rest_rig.core);
	return 0;
}

/* ---- a client ---- */

int rest_dial(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(http_server_port(rest_rig.http)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

void rest_send(int fd, const char *text)
{
	size_t len = strlen(text);

	assert_int_equal(send(fd, text, len, MSG_NOSIGNAL), len);
}

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

bool rest_read_until(int fd, struct buf *out, const char *until, int timeout_ms)
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

void rest_exchange(const char *request, struct buf *out)
{
	int fd = rest_dial();

	rest_send(fd, request);
	if (!rest_read_until(fd, out, NULL, PATIENCE_MS))
		fail_msg("no end of the answer to: %s", request);
	close(fd);
}

int rest_status_of(const struct buf *answer)
{
	static const char version[] = "HTTP/1.1 ";
	const char *text = buf_str(answer);

	return str_starts(text, version) ? (int)strtol(text + strlen(version), NULL, 10) : -1;
}

void rest_post(const char *path, const char *headers, const char *body, struct buf *out)
{
	_cleanup_buf_ struct buf request = BUF_INIT;

	buf_printf(&request,
		   "POST %s HTTP/1.1\r\n" HOST KEY CLOSE JSON "%sContent-Length: %zu\r\n\r\n%s",
		   path, headers, strlen(body), body);
	rest_exchange(buf_str(&request), out);
}

void rest_get(const char *method, const char *path, struct buf *answer)
{
	_cleanup_buf_ struct buf request = BUF_INIT;

	buf_printf(&request, "%s %s HTTP/1.1\r\n" HOST KEY CLOSE "\r\n", method, path);
	rest_exchange(buf_str(&request), answer);
}

void rest_assert_answer(const struct buf *answer, int status, const char *part)
{
	if (rest_status_of(answer) != status || (part && !strstr(buf_str(answer), part)))
		fail_msg("wanted %d and %s, got: %s", status, part ? part : "anything",
			 buf_str(answer));
}
