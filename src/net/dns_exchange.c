/* One question to one server. The socket is UDP's first, and replaced by a TCP one on truncation;
 * `tcp` says which, and by TCP the buffer collects length and message. */
#include "net/dns_exchange.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/rand.h"

#define UDP_RECEIVE_MAX 4096

struct dns_exchange {
	struct loop *loop;
	union dns_server_address server;
	struct dns_name name;
	uint16_t type, id;
	bool tcp;
	int fd, strays;
	struct loop_io *io;
	struct loop_timer *timer;
	struct buf out, in; /* TCP: what is still to be sent, what has come */
	dns_exchange_fn fn;
	void *arg;
};

void dns_exchange_cancel(struct dns_exchange *exchange)
{
	if (!exchange)
		return;
	loop_io_remove(exchange->io);
	loop_timer_remove(exchange->timer);
	cleanup_closep(&exchange->fd);
	buf_clear(&exchange->out);
	buf_clear(&exchange->in);
	free(exchange);
}

static void finish(struct dns_exchange *exchange, struct dns_answer *answer)
{
	dns_exchange_fn fn = exchange->fn;
	void *arg = exchange->arg;

	dns_exchange_cancel(exchange);
	fn(arg, answer);
	dns_answer_unref(answer);
}

static void on_deadline(void *arg)
{
	finish(arg, NULL);
}

static int open_socket(struct dns_exchange *exchange, int type, uint32_t events, loop_io_fn fn)
{
	int r;

	exchange->fd =
		socket(exchange->server.any.sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (exchange->fd < 0)
		return -errno;
	r = connect(exchange->fd, &exchange->server.any, dns_server_address_len(&exchange->server));
	if (r < 0 && errno != EINPROGRESS)
		return -errno;
	exchange->io = loop_io_add(exchange->loop, exchange->fd, events, fn, exchange);
	return exchange->io ? 0 : -errno;
}

static int parse(const struct dns_exchange *exchange, const void *data, size_t len,
		 struct dns_answer **ret)
{
	return dns_answer_parse(data, len, exchange->id, &exchange->name, exchange->type, ret);
}

static bool would_block(int error)
{
	return error == EAGAIN || error == EINTR || error == EINPROGRESS;
}

/* Sends what is left of the question, then reads; the server may end before we do. */
static void on_tcp(void *arg, uint32_t events)
{
	struct dns_exchange *exchange = arg;
	struct dns_answer *answer = NULL;
	const uint8_t *in;
	size_t want = 2;
	ssize_t n;

	if (exchange->out.len > 0) {
		n = send(exchange->fd, exchange->out.data, exchange->out.len, MSG_NOSIGNAL);
		if (n < 0 && !would_block(errno)) {
			finish(exchange, NULL);
			return;
		}
		buf_drop_front(&exchange->out, n > 0 ? (size_t)n : 0);
		loop_io_set(exchange->io, exchange->out.len > 0 ? EPOLLOUT : EPOLLIN);
		return;
	}
	if (exchange->in.len >= 2)
		want += (size_t)(uint8_t)exchange->in.data[0] << 8 | (uint8_t)exchange->in.data[1];
	buf_reserve(&exchange->in, want);
	n = recv(exchange->fd, exchange->in.data + exchange->in.len, want - exchange->in.len, 0);
	if (n < 0 && would_block(errno))
		return;
	if (n <= 0) {
		finish(exchange, NULL);
		return;
	}
	exchange->in.len += (size_t)n;
	in = (const uint8_t *)exchange->in.data;
	if (exchange->in.len < 2 || exchange->in.len < 2 + ((size_t)in[0] << 8 | in[1]))
		return;
	parse(exchange, in + 2, exchange->in.len - 2, &answer);
	finish(exchange, answer);
}

static void go_on_by_tcp(struct dns_exchange *exchange)
{
	struct buf message = BUF_INIT;

	loop_io_remove(STEAL(exchange->io));
	close(STEAL_FD(exchange->fd));
	exchange->tcp = true;
	rand_bytes(&exchange->id, sizeof(exchange->id));
	dns_query_write(exchange->id, &exchange->name, exchange->type, &message);
	buf_append_char(&exchange->out, (char)(message.len >> 8));
	buf_append_char(&exchange->out, (char)message.len);
	buf_append(&exchange->out, message.data, message.len);
	buf_clear(&message);
	if (open_socket(exchange, SOCK_STREAM, EPOLLOUT, on_tcp) < 0)
		finish(exchange, NULL);
}

static void on_udp(void *arg, uint32_t events)
{
	struct dns_exchange *exchange = arg;
	uint8_t data[UDP_RECEIVE_MAX];
	struct dns_answer *answer = NULL;
	ssize_t n = recv(exchange->fd, data, sizeof(data), 0);
	int r;

	if (n < 0 && would_block(errno))
		return;
	if (n < 0) { /* "port unreachable", say */
		finish(exchange, NULL);
		return;
	}
	r = parse(exchange, data, (size_t)n, &answer);
	if (r == -EMSGSIZE)
		go_on_by_tcp(exchange);
	else if (r == -EBADMSG && exchange->strays++ < DNS_STRAYS_MAX)
		return;
	else
		finish(exchange, answer);
}

static int ask(struct dns_exchange *exchange)
{
	struct buf message = BUF_INIT;
	int r = open_socket(exchange, SOCK_DGRAM, EPOLLIN, on_udp);

	if (r < 0)
		return r;
	dns_query_write(exchange->id, &exchange->name, exchange->type, &message);
	if (send(exchange->fd, message.data, message.len, MSG_NOSIGNAL) < 0)
		r = -errno;
	buf_clear(&message);
	return r;
}

struct dns_exchange *dns_exchange_start(struct loop *loop, const union dns_server_address *server,
					const struct dns_name *name, uint16_t type,
					int64_t deadline_boottime_ms, dns_exchange_fn fn, void *arg)
{
	struct dns_exchange *exchange = xcalloc(1, sizeof(*exchange));
	int r;

	*exchange = (struct dns_exchange){
		.loop = loop,
		.server = *server,
		.name = *name,
		.type = type,
		.fd = -1,
		.fn = fn,
		.arg = arg,
	};
	rand_bytes(&exchange->id, sizeof(exchange->id));
	r = ask(exchange);
	if (r < 0) {
		dns_exchange_cancel(exchange);
		errno = -r;
		return NULL;
	}
	exchange->timer = loop_timer_add(loop, deadline_boottime_ms, on_deadline, exchange);
	return exchange;
}
