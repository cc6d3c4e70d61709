/*
 * One connection of a guest.
 *
 *   reads name -> resolves -> connects -> passes -> (ended)
 *        \____________\___________\__________\-> refuses -> (ended)
 *
 * Nothing of the client is passed on before its name was allowed, and nothing that an HTTP filter
 * has not understood. Back-pressure: an end is only read while less than PROXY_BUFFER waits to be
 * sent on the other. An end that has ended is told to the other when all before it has left
 * (half-close), so that either side may go on.
 *
 * proxy_step() is called whenever anything has happened and does all that can be done; a connection
 * that is over is freed by its return.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"
#include "net/proxy_internal.h"

#define RECEIVE_MAX	 65536
#define RECEIVES_A_ROUND 4 /* then other connections have their turn */
#define FIRST_MAX	 (TLS_HELLO_MAX + 5 * TLS_HELLO_RECORDS_MAX + 1)
#define HTTP_PORT	 80

static void proxy_step(struct proxy_conn *conn);

static bool is_http(const struct proxy_conn *conn)
{
	return conn->port == HTTP_PORT;
}

void proxy_conn_free(struct proxy_conn *conn)
{
	struct proxy_client *client = conn->client;

	dns_lookup_cancel(conn->lookup);
	loop_timer_remove(conn->timer);
	pipe_end_close(&conn->guest);
	pipe_end_close(&conn->site);
	http_filter_clear(&conn->filter);
	tls_watch_clear(&conn->watch);
	buf_clear(&conn->first);
	buf_clear(&conn->held);
	buf_clear(&conn->last_words);
	if (conn->prev)
		conn->prev->next = conn->next;
	else
		client->conns = conn->next;
	if (conn->next)
		conn->next->prev = conn->prev;
	client->n_conns--;
	conn->proxy->n_conns--;
	free(conn);
}

bool proxy_conn_allowed(const struct proxy_conn *conn, const char *name)
{
	const struct net_clients *clients = conn->proxy->clients;
	_cleanup_ruleset_ struct ruleset *rules =
		clients->rules(clients->arg, conn->client->entry.address);

	return rules && ruleset_allows_name(rules, name, POLICY_TCP, conn->port);
}

/* How long the connection may stay as it is without a byte. */
static int64_t patience_ms(const struct proxy_conn *conn)
{
	static const int64_t waits_ms[] = {
		[PROXY_READS_NAME] = PROXY_HELLO_MS,
		[PROXY_RESOLVES] = PROXY_IDLE_MS, /* the resolver has its own */
		[PROXY_CONNECTS] = PROXY_CONNECT_MS,
		[PROXY_PASSES] = PROXY_IDLE_MS,
		[PROXY_REFUSES] = PROXY_LINGER_MS,
	};

	if (conn->state == PROXY_PASSES && (conn->guest.ended || conn->site.ended))
		return PROXY_HALF_CLOSED_IDLE_MS;
	return waits_ms[conn->state];
}

static void enter(struct proxy_conn *conn, enum proxy_state state)
{
	conn->state = state;
	conn->active_ms = clock_boottime_ms();
	if (conn->timer)
		loop_timer_set(conn->timer, conn->active_ms + patience_ms(conn));
}

/* Tells the client, and the log of denials where there is a reason that is one. In the midst of
 * HTTP the words have to wait for the answers that are still to come from the site. */
static void refuse(struct proxy_conn *conn, const char *name, const char *reason,
		   enum tls_alert alert, int status)
{
	struct buf *out = conn->state == PROXY_PASSES ? &conn->last_words : &conn->guest.out;

	proxy_refusal_write(conn, name, reason, alert, status, out);
	if (conn->state == PROXY_PASSES) {
		conn->guest.ended = true;
		conn->site.no_more = true;
		buf_reset(&conn->held);
		return;
	}
	pipe_end_close(&conn->site);
	enter(conn, PROXY_REFUSES);
	conn->guest.no_more = true;
}

static void deny(struct proxy_conn *conn, const char *name, const char *reason,
		 enum tls_alert alert, int status)
{
	proxy_report(conn, name, reason, name == NULL);
	refuse(conn, name, reason, alert, status);
}

static void deny_http(struct proxy_conn *conn)
{
	enum http_fault fault = conn->filter.fault;

	deny(conn, NULL, http_fault_text(fault), TLS_ALERT_ACCESS_DENIED,
	     fault == HTTP_MALFORMED || fault == HTTP_TOO_LONG ? 400 : 403);
}

static void deny_tls(struct proxy_conn *conn, enum tls_fault fault)
{
	deny(conn, NULL, tls_fault_text(fault), tls_fault_alert(fault), 403);
}

/* An address of the host itself is none of the internet's: the kernel would answer from the same
 * one. (Ranges are checked before; this finds the host's public addresses.) */
static bool is_own_address(uint32_t address)
{
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_port = htons(9),
					.sin_addr.s_addr = htonl(address) };
	_cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in from = { 0 };
	socklen_t from_len = sizeof(from);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return false; /* unreachable; connecting will say so */
	return getsockname(fd, (struct sockaddr *)&from, &from_len) < 0 ||
	       from.sin_addr.s_addr == to.sin_addr.s_addr;
}

static void on_site(void *arg, uint32_t events)
{
	proxy_step(arg);
}

static int dial(struct proxy_conn *conn, uint32_t address)
{
	const struct sockaddr_in to = { .sin_family = AF_INET,
					.sin_port = htons(conn->port),
					.sin_addr.s_addr = htonl(address) };
	const int one = 1;

	conn->site.fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (conn->site.fd < 0)
		return -errno;
	setsockopt(conn->site.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(conn->site.fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	if (connect(conn->site.fd, (const struct sockaddr *)&to, sizeof(to)) < 0 &&
	    errno != EINPROGRESS)
		return -errno;
	conn->site.io = loop_io_add(conn->proxy->loop, conn->site.fd, EPOLLOUT, on_site, conn);
	return conn->site.io ? 0 : -errno;
}

/* Only the socket is closed: what waits for the site is kept for the next address. */
static void hang_up(struct proxy_conn *conn)
{
	loop_io_remove(STEAL(conn->site.io));
	cleanup_closep(&conn->site.fd);
	conn->site.fd = -1;
}

static void dial_next(struct proxy_conn *conn)
{
	while (conn->next_address < conn->n_addresses) {
		enter(conn, PROXY_CONNECTS);
		if (dial(conn, conn->addresses[conn->next_address++]) == 0)
			return;
		hang_up(conn);
	}
	refuse(conn, NULL, "the site does not answer", TLS_ALERT_INTERNAL_ERROR, 502);
}

/* Keeps of a name's addresses those that may be dialled. Returns whether one may not. */
static bool take_addresses(struct proxy_conn *conn, const struct dns_answer *answer)
{
	const struct net_clients *clients = conn->proxy->clients;
	uint32_t all[DNS_ADDRESSES_MAX];
	size_t n = dns_answer_addresses(answer, all, DNS_ADDRESSES_MAX);
	bool denied = false;

	for (size_t i = 0; i < n && conn->n_addresses < PROXY_ADDRESSES_MAX; i++) {
		if (clients->denied_range(clients->arg, all[i]) || is_own_address(all[i]))
			denied = true;
		else
			conn->addresses[conn->n_addresses++] = all[i];
	}
	return denied;
}

static void on_lookup(void *arg, struct dns_answer *answer, uint32_t left_s)
{
	struct proxy_conn *conn = arg;
	bool denied = answer && take_addresses(conn, answer);

	conn->lookup = NULL;
	if (!proxy_conn_allowed(conn, conn->name)) {
		deny(conn, conn->name, "the rules do not allow this name any more",
		     TLS_ALERT_ACCESS_DENIED, 403);
	} else if (conn->n_addresses > 0) {
		dial_next(conn);
	} else if (denied) {
		proxy_report(conn, conn->name,
			     "the name's address is in a range that is always denied", true);
		refuse(conn, NULL, "the name's address is in a range that is always denied",
		       TLS_ALERT_ACCESS_DENIED, 403);
	} else {
		refuse(conn, NULL, "the name of the site has no address", TLS_ALERT_INTERNAL_ERROR,
		       502);
	}
	proxy_step(conn);
}

static void resolve(struct proxy_conn *conn, const char *name)
{
	struct dns_name wire;

	if (!proxy_conn_allowed(conn, name)) {
		deny(conn, name, "the rules do not allow this name", TLS_ALERT_ACCESS_DENIED, 403);
		return;
	}
	str_copy(conn->name, sizeof(conn->name), name);
	enter(conn, PROXY_RESOLVES);
	dns_name_of_host(name, &wire);
	conn->lookup = dns_resolver_ask(conn->proxy->resolver, conn->client->entry.address, &wire,
					DNS_A, on_lookup, conn);
	if (!conn->lookup)
		refuse(conn, NULL, "too many names are being looked up for this sandbox",
		       TLS_ALERT_INTERNAL_ERROR, 503);
}

/* Gives filter or watch what is held. False: it has refused. */
static bool filter_held(struct proxy_conn *conn)
{
	struct buf *held = &conn->held, *out = &conn->site.out;
	size_t used = 0;

	if (held->len == 0)
		return true;
	if (is_http(conn)) {
		if (http_filter_feed(&conn->filter, held->data, held->len, &used, out) < 0) {
			deny_http(conn);
			return false;
		}
	} else if (tls_watch_client(&conn->watch, (const uint8_t *)held->data, held->len, &used,
				    out) < 0) {
		deny_tls(conn, conn->watch.fault);
		return false;
	}
	buf_drop_front(&conn->held, used);
	if (conn->held.len == 0)
		buf_clear(&conn->held);
	return true;
}

static int read_tls_name(struct proxy_conn *conn)
{
	char name[HOSTNAME_MAX + 1];
	enum tls_fault fault;
	size_t len;
	int r = pipe_end_receive(&conn->guest, FIRST_MAX - conn->first.len, &conn->first);

	if (r <= 0)
		return r;
	r = tls_hello_name((const uint8_t *)conn->first.data, conn->first.len, name, &len, &fault);
	if (r == -EAGAIN)
		return 0;
	if (r < 0) {
		deny_tls(conn, fault);
		return 0;
	}
	buf_append(&conn->site.out, conn->first.data, len);
	buf_append(&conn->held, conn->first.data + len, conn->first.len - len);
	buf_clear(&conn->first);
	tls_watch_init(&conn->watch, name);
	resolve(conn, name);
	return 0;
}

static int read_http_name(struct proxy_conn *conn)
{
	int r = pipe_end_receive(&conn->guest, RECEIVE_MAX - conn->held.len, &conn->held);

	if (r <= 0)
		return r;
	if (filter_held(conn) && conn->filter.requests > 0)
		resolve(conn, conn->filter.host);
	return 0;
}

static int read_name(struct proxy_conn *conn)
{
	int r = is_http(conn) ? read_http_name(conn) : read_tls_name(conn);

	if (r < 0)
		return r;
	return conn->state == PROXY_READS_NAME && conn->guest.ended ? -ECONNRESET : 0;
}

static int finish_connecting(struct proxy_conn *conn)
{
	int error = 0;
	socklen_t len = sizeof(error);
	struct sockaddr_in peer;
	socklen_t peer_len = sizeof(peer);

	if (getsockopt(conn->site.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0 || error != 0) {
		hang_up(conn);
		dial_next(conn);
	} else if (getpeername(conn->site.fd, (struct sockaddr *)&peer, &peer_len) == 0) {
		enter(conn, PROXY_PASSES);
	}
	return 0;
}

/* The answer to the first request decides whether a WebSocket takes over. */
static void look_at_status(struct proxy_conn *conn, const char *data, size_t len)
{
	size_t n = sizeof(conn->status) - conn->status_len;

	if (n > len)
		n = len;
	memcpy(conn->status + conn->status_len, data, n);
	conn->status_len += n;
	if (conn->filter.state == HTTP_WAITS_FOR_UPGRADE &&
	    conn->status_len == sizeof(conn->status))
		http_filter_upgraded(&conn->filter, memcmp(conn->status, "HTTP/1.1 101",
							   sizeof(conn->status)) == 0);
}

/* Nothing is looked at any more. */
static bool passes_freely(const struct proxy_conn *conn)
{
	return is_http(conn) ? conn->filter.state == HTTP_RAW : conn->watch.state == TLS_PASSES;
}

static bool site_has_the_word(const struct proxy_conn *conn)
{
	return is_http(conn) ? conn->filter.state == HTTP_WAITS_FOR_UPGRADE
			     : conn->watch.state == TLS_WAITS_FOR_SERVER;
}

/* From guest to site. 1: more may follow at once. */
static int pass_out(struct proxy_conn *conn)
{
	size_t waiting = pipe_end_waiting(&conn->site);
	size_t room = waiting < PROXY_BUFFER ? PROXY_BUFFER - waiting : 0;

	if (conn->held.len == 0 && passes_freely(conn))
		return pipe_end_receive(&conn->guest, room, &conn->site.out);
	if (conn->held.len == 0 && pipe_end_receive(&conn->guest, room, &conn->held) < 0)
		return -ECONNRESET;
	return conn->held.len > 0 && !site_has_the_word(conn) && filter_held(conn);
}

/* From site to guest. */
static int pass_in(struct proxy_conn *conn)
{
	size_t waiting = pipe_end_waiting(&conn->guest), before = conn->guest.out.len;
	const char *data;
	size_t len;
	int r;

	if (waiting >= PROXY_BUFFER)
		return 0;
	r = pipe_end_receive(&conn->site, PROXY_BUFFER - waiting, &conn->guest.out);
	data = conn->guest.out.data + before;
	len = conn->guest.out.len - before;
	if (r > 0 && !is_http(conn))
		tls_watch_server(&conn->watch, (const uint8_t *)data, len);
	else if (r > 0 && conn->status_len < sizeof(conn->status))
		look_at_status(conn, data, len);
	return r;
}

/* What one side's end means to the other. */
static void pass_ends(struct proxy_conn *conn)
{
	if (conn->guest.ended && conn->held.len == 0)
		conn->site.no_more = true;
	if (!conn->site.ended)
		return;
	if (conn->last_words.len > 0 && !conn->guest.no_more) {
		buf_append(&conn->guest.out, conn->last_words.data, conn->last_words.len);
		conn->guest.ended = false; /* read on, to nowhere, until it has understood */
		conn->guest.no_more = true;
		pipe_end_close(&conn->site);
		enter(conn, PROXY_REFUSES);
		return;
	}
	conn->guest.no_more = true;
}

static int pass(struct proxy_conn *conn)
{
	int out = 1, in = 1;

	/* In before out: an answer may be what held the client's bytes back. */
	for (int i = 0; i < RECEIVES_A_ROUND && (out > 0 || in > 0); i++) {
		in = pass_in(conn);
		out = in < 0 ? 0 : pass_out(conn);
		if (out < 0 || in < 0)
			return -ECONNRESET;
		if (out > 0 || in > 0)
			conn->active_ms = clock_boottime_ms();
		pass_ends(conn);
		if (conn->state != PROXY_PASSES)
			return 0;
		if (pipe_end_flush(&conn->site) < 0 || pipe_end_flush(&conn->guest) < 0)
			return -ECONNRESET;
	}
	return conn->guest.told && conn->site.told ? -ECONNRESET : 0;
}

/* Sends the refusal and reads what still comes, as closing with unread bytes would reset the
 * connection under the client's eyes. */
static int refuse_politely(struct proxy_conn *conn)
{
	_cleanup_buf_ struct buf unread = BUF_INIT;

	if (pipe_end_flush(&conn->guest) < 0)
		return -ECONNRESET;
	if (pipe_end_receive(&conn->guest, RECEIVE_MAX, &unread) < 0)
		return -ECONNRESET;
	return conn->guest.ended && conn->guest.told ? -ECONNRESET : 0;
}

static bool wants_guest(const struct proxy_conn *conn)
{
	switch (conn->state) {
	case PROXY_READS_NAME:
	case PROXY_REFUSES:
		return true;
	case PROXY_PASSES:
		return conn->held.len == 0 && pipe_end_waiting(&conn->site) < PROXY_BUFFER;
	default:
		return false;
	}
}

static void watch(struct proxy_conn *conn)
{
	pipe_end_watch(&conn->guest, wants_guest(conn));
	if (conn->state == PROXY_CONNECTS)
		loop_io_set(conn->site.io, EPOLLOUT);
	else if (conn->state == PROXY_PASSES)
		pipe_end_watch(&conn->site, pipe_end_waiting(&conn->guest) < PROXY_BUFFER);
}

static void proxy_step(struct proxy_conn *conn)
{
	enum proxy_state before;
	int r = 0;

	do {
		before = conn->state;
		switch (conn->state) {
		case PROXY_READS_NAME:
			r = read_name(conn);
			break;
		case PROXY_RESOLVES:
			break;
		case PROXY_CONNECTS:
			r = finish_connecting(conn);
			break;
		case PROXY_PASSES:
			r = pass(conn);
			break;
		case PROXY_REFUSES:
			r = refuse_politely(conn);
			break;
		}
	} while (r == 0 && conn->state != before);
	if (r < 0)
		proxy_conn_free(conn);
	else
		watch(conn);
}

/* Bytes alone buy no time before the name is read: only pass() counts them. */
static void on_guest(void *arg, uint32_t events)
{
	proxy_step(arg);
}

static void on_timer(void *arg)
{
	struct proxy_conn *conn = arg;
	int64_t due_ms = conn->active_ms + patience_ms(conn);

	if (clock_boottime_ms() < due_ms) {
		loop_timer_set(conn->timer, due_ms);
	} else if (conn->state == PROXY_CONNECTS) {
		hang_up(conn);
		dial_next(conn);
		proxy_step(conn);
	} else {
		proxy_conn_free(conn);
	}
}

void proxy_conn_new(struct proxy *proxy, struct proxy_client *client, int fd, uint32_t dialled,
		    uint16_t port)
{
	struct proxy_conn *conn = xcalloc(1, sizeof(*conn));
	const int one = 1;

	*conn = (struct proxy_conn){
		.proxy = proxy,
		.client = client,
		.dialled = dialled,
		.port = port,
		.guest = PIPE_END_INIT,
		.site = PIPE_END_INIT,
		.next = client->conns,
	};
	if (conn->next)
		conn->next->prev = conn;
	client->conns = conn;
	client->n_conns++;
	proxy->n_conns++;
	http_filter_init(&conn->filter);
	conn->guest.fd = fd;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	enter(conn, PROXY_READS_NAME);
	conn->timer = loop_timer_add(proxy->loop, conn->active_ms + PROXY_HELLO_MS, on_timer, conn);
	conn->guest.io = loop_io_add(proxy->loop, fd, EPOLLIN, on_guest, conn);
	if (!conn->guest.io)
		proxy_conn_free(conn);
}
