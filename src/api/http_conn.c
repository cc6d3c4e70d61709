/*
 * Connections: who is connected, how long a client may take, and whether it is still there.
 *
 * libmicrohttpd's own time-out is about silence, so a client that sends a byte now and then would
 * hold its connection for ever. The sweep bounds the whole instead: a header block must be complete
 * header_timeout_ms after its first byte was seen, a body may pause no longer than that and take no
 * longer than BODY_TIMEOUT_FACTOR times that (one that is passed on may take as long as it pleases,
 * but not pause while somebody waits for it), and a connection without a request ends after
 * idle_timeout_ms. Whether a first byte came is asked of the kernel (TCP_INFO), as libmicrohttpd
 * reports complete header blocks only.
 *
 * libmicrohttpd takes suspended connections out of its epoll set, so it does not notice a client
 * that leaves while its request waits. We watch these sockets in an epoll set of our own, which the
 * loop's thread watches in turn. A watch is made and removed under watch_lock, and removed before
 * the connection is resumed, so that no event is ever for a request that has gone on.
 */
#include "api/http_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <linux/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#define BODY_TIMEOUT_FACTOR  8
#define WATCH_EVENTS_AT_ONCE 64

/* ---- what is known of a connection ---- */

static void describe_peer(const struct sockaddr *address, char out[HTTP_PEER_SIZE])
{
	char text[INET6_ADDRSTRLEN] = "?";

	if (address && address->sa_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr,
			  text, sizeof(text));
	else if (address && address->sa_family == AF_INET6)
		inet_ntop(AF_INET6,
			  &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, text,
			  sizeof(text));
	str_copy(out, HTTP_PEER_SIZE, text);
}

static bool served_on_loopback(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
	} local = { 0 };
	socklen_t len = sizeof(local);

	if (getsockname(fd, &local.any, &len) < 0)
		return true; /* the stricter of the two */
	if (local.any.sa_family == AF_INET)
		return ntohl(local.v4.sin_addr.s_addr) >> 24 == 127;
	if (IN6_IS_ADDR_V4MAPPED(&local.v6.sin6_addr))
		return local.v6.sin6_addr.s6_addr[12] == 127;
	return IN6_IS_ADDR_LOOPBACK(&local.v6.sin6_addr);
}

static uint64_t bytes_received(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t len = sizeof(info);

	return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 ? info.tcpi_bytes_received
								       : 0;
}

static struct http_conn *conn_new(struct MHD_Connection *mhd)
{
	struct http_conn *conn = xcalloc(1, sizeof(*conn));
	const union MHD_ConnectionInfo *info;
	const int on = 1, idle_s = 60, interval_s = 15, probes = 4;

	info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
	conn->fd = info ? info->connect_fd : -1;
	info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	describe_peer(info ? info->client_addr : NULL, conn->peer);
	conn->loopback = served_on_loopback(conn->fd);
	conn->phase_since_ms = clock_boottime_ms();
	setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	/* Clients that vanished without a word: streams and upgraded connections may be silent for
	 * as long as they please. */
	setsockopt(conn->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(conn->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(conn->fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
	setsockopt(conn->fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
	return conn;
}

void http_conn_notify(void *arg, struct MHD_Connection *mhd, void **socket_context,
		      enum MHD_ConnectionNotificationCode code)
{
	struct http_server *server = arg;
	struct http_conn *conn;

	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		conn = conn_new(mhd);
		pthread_mutex_lock(&server->lock);
		LIST_INSERT_HEAD(&server->conns, conn, link);
		pthread_mutex_unlock(&server->lock);
		*socket_context = conn;
		return;
	}
	/* Called before the descriptor is closed (libmicrohttpd 0.9.75), so that the sweep, under
	 * the lock, never meets a number that was given to another file. */
	conn = *socket_context;
	*socket_context = NULL;
	if (!conn)
		return;
	pthread_mutex_lock(&server->lock);
	LIST_REMOVE(conn, link);
	pthread_mutex_unlock(&server->lock);
	free(conn);
}

void http_conn_set_phase(struct http_server *server, struct http_conn *conn,
			 enum http_conn_phase phase)
{
	uint64_t received = phase == CONN_IDLE ? bytes_received(conn->fd) : 0;

	pthread_mutex_lock(&server->lock);
	conn->phase = phase;
	conn->phase_since_ms = clock_boottime_ms();
	conn->body_since_ms = conn->phase_since_ms;
	conn->header_since_ms = 0;
	conn->bytes_received = received;
	pthread_mutex_unlock(&server->lock);
}

void http_conn_body_progress(struct http_server *server, struct http_conn *conn)
{
	pthread_mutex_lock(&server->lock);
	conn->phase_since_ms = clock_boottime_ms();
	pthread_mutex_unlock(&server->lock);
}

/* ---- deadlines ---- */

/* libmicrohttpd sees the end of the connection and closes it. The answer is a courtesy: nothing of
 * this request was answered yet, so it cannot land within another answer. */
static void conn_cut(const struct http_server *server, struct http_conn *conn, bool answer)
{
	static const char text[] = "HTTP/1.1 408 Request Timeout\r\n"
				   "Connection: close\r\nContent-Length: 0\r\n\r\n";

	if (answer && !server->config.tls_cert_pem &&
	    send(conn->fd, text, sizeof(text) - 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		log_debug("http time-out could not be answered", "peer=%s", conn->peer);
	shutdown(conn->fd, SHUT_RDWR);
}

static void check_idle(const struct http_server *server, struct http_conn *conn, int64_t now_ms)
{
	const struct http_config *config = &server->config;

	if (!conn->header_since_ms && bytes_received(conn->fd) > conn->bytes_received)
		conn->header_since_ms = now_ms;
	if (conn->header_since_ms && now_ms - conn->header_since_ms > config->header_timeout_ms)
		conn_cut(server, conn, true);
	else if (now_ms - conn->phase_since_ms > config->idle_timeout_ms)
		conn_cut(server, conn, false);
}

/* Has the client let us wait for more of its body for too long, or for all of it? */
static bool body_is_late(const struct http_conn *conn, int64_t gap_ms, int64_t now_ms)
{
	if (conn->phase != CONN_BODY && conn->phase != CONN_PASS)
		return false;
	if (now_ms - conn->phase_since_ms > gap_ms)
		return true;
	return conn->phase == CONN_BODY &&
	       now_ms - conn->body_since_ms > BODY_TIMEOUT_FACTOR * gap_ms;
}

void http_conn_sweep(struct http_server *server, int64_t now_ms)
{
	const int64_t gap_ms = server->config.header_timeout_ms;
	struct http_conn *conn;

	LIST_FOREACH(conn, &server->conns, link) {
		if (conn->phase == CONN_IDLE)
			check_idle(server, conn, now_ms);
		else if (body_is_late(conn, gap_ms, now_ms))
			conn_cut(server, conn, true);
	}
}

/* ---- clients of suspended requests ---- */

static size_t collect_gone(struct http_server *server,
			   struct http_request *out[WATCH_EVENTS_AT_ONCE])
{
	struct epoll_event events[WATCH_EVENTS_AT_ONCE];
	int n;

	pthread_mutex_lock(&server->watch_lock);
	n = epoll_wait(server->watch_fd, events, WATCH_EVENTS_AT_ONCE, 0);
	for (int i = 0; i < n; i++)
		out[i] = http_request_ref(events[i].data.ptr);
	pthread_mutex_unlock(&server->watch_lock);
	return n > 0 ? (size_t)n : 0;
}

static void watch_ready(void *arg, uint32_t events)
{
	struct http_request *gone[WATCH_EVENTS_AT_ONCE];
	size_t n = collect_gone(arg, gone);

	for (size_t i = 0; i < n; i++) {
		http_request_gone(gone[i]);
		http_request_unref(gone[i]);
	}
}

int http_watch_open(struct http_server *server, struct err *err)
{
	server->watch_fd = epoll_create1(EPOLL_CLOEXEC);
	if (server->watch_fd < 0)
		return err_set(err, -errno, "watch http clients: epoll: %s", strerror(errno));
	server->watch_io =
		loop_io_add(server->config.loop, server->watch_fd, EPOLLIN, watch_ready, server);
	return 0;
}

void http_watch_close(struct http_server *server)
{
	loop_io_remove(STEAL(server->watch_io));
	cleanup_closep(&server->watch_fd);
	server->watch_fd = -1;
}

void http_watch_add(struct http_request *req)
{
	struct http_server *server = req->server;
	struct epoll_event event = { .events = EPOLLRDHUP | EPOLLONESHOT, .data.ptr = req };

	pthread_mutex_lock(&server->watch_lock);
	if (epoll_ctl(server->watch_fd, EPOLL_CTL_ADD, req->conn->fd, &event) < 0)
		log_warn("http client cannot be watched", "request=%s error=\"%s\"",
			 req->request_id, strerror(errno));
	pthread_mutex_unlock(&server->watch_lock);
}

void http_watch_remove(struct http_request *req)
{
	struct http_server *server = req->server;

	pthread_mutex_lock(&server->watch_lock);
	epoll_ctl(server->watch_fd, EPOLL_CTL_DEL, req->conn->fd, NULL);
	pthread_mutex_unlock(&server->watch_lock);
}
