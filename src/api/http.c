/*
 * The HTTP server's life: listening socket, libmicrohttpd's event threads, the once-a-second sweep
 * on the loop's thread (deadlines, heartbeats), and an end that leaves no suspended connection
 * behind.
 *
 * Threads. libmicrohttpd's event threads read and write sockets and run http_request_access and the
 * stream's reader. Workers of the pool run the handler. The loop's thread runs the sweep, watches
 * the clients of suspended requests and runs the callbacks of handlers (disconnect, drained). A
 * request that waits is suspended in libmicrohttpd and costs its memory alone.
 */
#include "api/http_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

#define LISTEN_BACKLOG 1024
#define SWEEP_EVERY_MS 1000
/* Twice that, and the time it takes, from a key's revocation to the cut: within a second. */
#define HOLDERS_EVERY_MS 200
/* URI and headers of a request, and the send buffer of its answer. Above 32 KiB libmicrohttpd
 * 0.9.75 maps it, so that it is untouched until needed and goes back to the system with the
 * connection. */
#define CONNECTION_MEMORY_BYTES (64u * 1024)

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static int parse_address(const char *text, uint16_t port, union address *ret, socklen_t *ret_len)
{
	union address address = { 0 };

	if (str_eq(text, "localhost"))
		text = "127.0.0.1";
	if (inet_pton(AF_INET, text, &address.v4.sin_addr) == 1) {
		address.v4.sin_family = AF_INET;
		address.v4.sin_port = htons(port);
		*ret_len = sizeof(address.v4);
	} else if (inet_pton(AF_INET6, text, &address.v6.sin6_addr) == 1) {
		address.v6.sin6_family = AF_INET6;
		address.v6.sin6_port = htons(port);
		*ret_len = sizeof(address.v6);
	} else {
		return -EINVAL;
	}
	*ret = address;
	return 0;
}

static int listen_error(struct err *err, const char *address, uint16_t port, const char *step)
{
	int num = -errno;

	if (num == -EADDRINUSE) {
		err_code(err, num, "address_in_use", "listen on %s port %u: the port is taken",
			 address, port);
		err_hint(err, "stop the other server, or choose another port with --listen");
		return num;
	}
	return err_set(err, num, "listen on %s port %u: %s: %s", address, port, step,
		       strerror(-num));
}

int http_listen(const char *address_text, uint16_t port, int *ret_fd, struct err *err)
{
	union address address;
	socklen_t len = 0;
	_cleanup_close_ int fd = -1;
	const int on = 1;

	if (parse_address(address_text, port, &address, &len) < 0)
		return err_code(err, -EINVAL, "invalid_argument",
				"listen on \"%s\": not an IPv4 or IPv6 address", address_text);
	fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return listen_error(err, address_text, port, "socket");
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
		return listen_error(err, address_text, port, "SO_REUSEADDR");
	if (bind(fd, &address.any, len) < 0)
		return listen_error(err, address_text, port, "bind");
	if (listen(fd, LISTEN_BACKLOG) < 0)
		return listen_error(err, address_text, port, "listen");
	*ret_fd = STEAL_FD(fd);
	return 0;
}

static int port_of(int fd, uint16_t *ret_port, struct err *err)
{
	union address address = { 0 };
	socklen_t len = sizeof(address);

	if (getsockname(fd, &address.any, &len) < 0)
		return err_set(err, -errno, "ask for the port: %s", strerror(errno));
	*ret_port = ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port
							   : address.v6.sin6_port);
	return 0;
}

static void log_from_mhd(void *arg, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

static void log_from_mhd(void *arg, const char *fmt, va_list ap)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	buf_vprintf(&text, fmt, ap);
	while (text.len > 0 && text.data[text.len - 1] == '\n')
		text.data[--text.len] = '\0';
	log_debug("http library", "text=\"%s\"", buf_str(&text));
}

static int start_daemon(struct http_server *server, struct err *err)
{
	const struct http_config *config = &server->config;
	unsigned int flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
			     MHD_ALLOW_UPGRADE | MHD_USE_ERROR_LOG;
	struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)(uintptr_t)config->tls_cert_pem },
		{ MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)config->tls_key_pem },
		{ MHD_OPTION_HTTPS_PRIORITIES, 0,
		  (void *)(uintptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" },
		{ MHD_OPTION_END, 0, NULL },
	};
	struct MHD_OptionItem threads[] = {
		{ MHD_OPTION_THREAD_POOL_SIZE, config->event_threads, NULL },
		{ MHD_OPTION_END, 0, NULL },
	};
	struct MHD_OptionItem none[] = { { MHD_OPTION_END, 0, NULL } };

	if (config->tls_cert_pem)
		flags |= MHD_USE_TLS;
	server->daemon = MHD_start_daemon(
		flags, 0, NULL, NULL, http_request_access, server, MHD_OPTION_EXTERNAL_LOGGER,
		log_from_mhd, NULL, MHD_OPTION_ARRAY, config->tls_cert_pem ? tls : none,
		MHD_OPTION_ARRAY, config->event_threads > 1 ? threads : none,
		MHD_OPTION_LISTEN_SOCKET, server->listen_fd, MHD_OPTION_CONNECTION_LIMIT,
		config->connections_max, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned int)((config->idle_timeout_ms + 999) / 1000),
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY_BYTES,
		MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_SIGPIPE_HANDLED_BY_APP, 1,
		MHD_OPTION_URI_LOG_CALLBACK, http_request_uri, server, MHD_OPTION_NOTIFY_COMPLETED,
		http_request_completed, server, MHD_OPTION_NOTIFY_CONNECTION, http_conn_notify,
		server, MHD_OPTION_END);
	if (!server->daemon) {
		err_set(err, -EIO, "start the http server on %s port %u: libmicrohttpd refused%s",
			config->address, server->port,
			config->tls_cert_pem ? " (are certificate and key a valid PEM pair?)" : "");
		err_hint(err, "run with --log-level debug to see its reason");
		return -EIO;
	}
	server->listen_fd = -1; /* libmicrohttpd's now */
	return 0;
}

/* ---- the sweep ---- */

static void sweep(void *arg)
{
	struct http_server *server = arg;
	int64_t now_ms = clock_boottime_ms();
	struct http_stream *stream;

	pthread_mutex_lock(&server->lock);
	http_conn_sweep(server, now_ms);
	TAILQ_FOREACH(stream, &server->streams, link)
		http_stream_heartbeat(stream, now_ms);
	pthread_mutex_unlock(&server->lock);
	loop_timer_set(server->sweep_timer, now_ms + SWEEP_EVERY_MS);
}

static void check_holders(void *arg)
{
	struct http_server *server = arg;
	struct http_request *req;

	pthread_mutex_lock(&server->lock);
	LIST_FOREACH(req, &server->active, active_link)
		http_request_check_holder(req);
	pthread_mutex_unlock(&server->lock);
	loop_timer_set(server->holders_timer, clock_boottime_ms() + HOLDERS_EVERY_MS);
}

struct attach_job {
	struct http_server *server;
	struct err *err;
	int result;
};

static void attach_to_loop(void *arg)
{
	struct attach_job *job = arg;
	struct http_server *server = job->server;

	job->result = http_watch_open(server, job->err);
	if (job->result < 0)
		return;
	server->sweep_timer = loop_timer_add(server->config.loop,
					     clock_boottime_ms() + SWEEP_EVERY_MS, sweep, server);
	server->holders_timer = loop_timer_add(
		server->config.loop, clock_boottime_ms() + HOLDERS_EVERY_MS, check_holders, server);
}

static void detach_from_loop(void *arg)
{
	struct http_server *server = arg;

	loop_timer_remove(STEAL(server->sweep_timer));
	loop_timer_remove(STEAL(server->holders_timer));
	http_watch_close(server);
}

/* ---- life ---- */

void http_server_unref(struct http_server *server)
{
	if (atomic_fetch_sub(&server->refs, 1) != 1)
		return;
	cleanup_closep(&server->listen_fd);
	pthread_cond_destroy(&server->all_answered);
	pthread_mutex_destroy(&server->lock);
	pthread_mutex_destroy(&server->watch_lock);
	free(server);
}

int http_server_new(const struct http_config *config, struct http_server **ret, struct err *err)
{
	struct http_server *server = xcalloc(1, sizeof(*server));
	struct attach_job job = { .server = server, .err = err };
	int rc = 0;

	server->refs = 1;
	server->config = *config;
	server->listen_fd = config->listen_fd;
	server->watch_fd = -1;
	pthread_mutex_init(&server->lock, NULL);
	pthread_mutex_init(&server->watch_lock, NULL);
	pthread_cond_init(&server->all_answered, NULL);
	LIST_INIT(&server->conns);
	LIST_INIT(&server->active);
	TAILQ_INIT(&server->streams);

	if (server->listen_fd < 0)
		rc = http_listen(config->address, config->port, &server->listen_fd, err);
	if (rc == 0)
		rc = port_of(server->listen_fd, &server->port, err);
	if (rc == 0) {
		loop_call(config->loop, attach_to_loop, &job);
		rc = job.result;
	}
	if (rc == 0)
		rc = start_daemon(server, err);
	if (rc < 0) {
		loop_call(config->loop, detach_from_loop, server);
		http_server_unref(server);
		return rc;
	}
	server->config.tls_key_pem = NULL; /* the caller's, and not kept */
	*ret = server;
	return 0;
}

void http_server_counts(struct http_server *server, struct http_counts *ret)
{
	const struct http_conn *conn;
	const struct http_request *req;
	const struct http_stream *stream;

	pthread_mutex_lock(&server->lock);
	*ret = server->counts;
	LIST_FOREACH(conn, &server->conns, link)
		ret->connections++;
	LIST_FOREACH(req, &server->active, active_link)
		ret->under_way++;
	TAILQ_FOREACH(stream, &server->streams, link)
		ret->streams++;
	pthread_mutex_unlock(&server->lock);
}

const struct metrics_histogram *http_server_seconds(const struct http_server *server)
{
	return &server->seconds;
}

uint16_t http_server_port(const struct http_server *server)
{
	return server->port;
}

static void wait_for_answers(struct http_server *server, int64_t grace_ms)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += grace_ms / 1000;
	until.tv_nsec += grace_ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	while (!LIST_EMPTY(&server->active)) {
		if (pthread_cond_timedwait(&server->all_answered, &server->lock, &until) ==
		    ETIMEDOUT)
			break;
	}
}

void http_server_free(struct http_server *server, int64_t grace_ms)
{
	struct http_request *req;

	if (!server)
		return;
	/* Connections are still accepted, and what they ask for is refused by its name. Not
	 * MHD_quiesce_daemon: in 0.9.75 it and the library's thread may both take the listening
	 * socket out of the epoll set, and the second of them aborts. */
	pthread_mutex_lock(&server->lock);
	server->closing = true;
	LIST_FOREACH(req, &server->active, active_link)
		http_request_gone(req); /* streams end and waits are cancelled; work is finished */
	wait_for_answers(server, grace_ms);
	LIST_FOREACH(req, &server->active, active_link)
		http_request_abandon(req);
	pthread_mutex_unlock(&server->lock);

	MHD_stop_daemon(server->daemon);
	server->daemon = NULL;
	loop_call(server->config.loop, detach_from_loop, server);
	http_server_unref(server);
}
