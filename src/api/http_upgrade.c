/*
 * Upgraded connections. libmicrohttpd sends the 101 and then hands its socket out (under TLS one
 * end of a pair, between which and the client it goes on to encrypt). The descriptor is the
 * handler's until http_upgrade_end, which gives it back to be closed.
 */
#include "api/http_internal.h"

#include <sys/socket.h>

#include "base/fd.h"
#include "base/log.h"

/* Loop's thread. */
static void run_upgraded(void *arg)
{
	struct http_request *req = arg;
	http_upgraded_fn upgraded;

	pthread_mutex_lock(&req->callback_lock);
	upgraded = req->upgrade.upgraded;
	req->upgrade.upgraded = NULL;
	if (upgraded)
		upgraded(req->upgrade.arg, req->upgrade.fd, buf_str(&req->upgrade.early),
			 req->upgrade.early.len);
	pthread_mutex_unlock(&req->callback_lock);
	buf_clear(&req->upgrade.early);
	http_request_unref(req);
}

/* libmicrohttpd's thread. */
static void on_upgrade(void *arg, struct MHD_Connection *mhd, void *context, const char *data,
		       size_t len, MHD_socket fd, struct MHD_UpgradeResponseHandle *handle)
{
	struct http_request *req = arg;
	bool ended;

	fd_set_nonblock(fd, true);
	pthread_mutex_lock(&req->lock);
	ended = req->upgrade.ended;
	req->upgrade.fd = fd;
	buf_append(&req->upgrade.early, data, len);
	if (!ended)
		req->upgrade.handle = handle;
	pthread_mutex_unlock(&req->lock);
	if (ended)
		MHD_upgrade_action(handle, MHD_UPGRADE_ACTION_CLOSE);
	else
		loop_post(req->server->config.loop, run_upgraded, http_request_ref(req));
}

void http_upgrade(struct http_request *req, const struct http_extra_header *headers, size_t n,
		  http_upgraded_fn upgraded, void *arg)
{
	struct MHD_Response *response = MHD_create_response_for_upgrade(on_upgrade, req);

	if (!response) {
		log_error("http upgrade cannot be made", "request=%s", req->request_id);
		abort();
	}
	for (size_t i = 0; i < n; i++)
		MHD_add_response_header(response, headers[i].name, headers[i].value);
	pthread_mutex_lock(&req->callback_lock);
	req->upgrade.upgraded = upgraded;
	req->upgrade.arg = arg;
	pthread_mutex_unlock(&req->callback_lock);
	http_request_answer(req, MHD_HTTP_SWITCHING_PROTOCOLS, response);
}

/* Lock held. libmicrohttpd 0.9.75 shuts its pair down before it notes that the handler is done: a
 * thread of its that comes in between finds nothing to do, and is not woken again. An event on the
 * client's socket wakes it. The socket is open as long as libmicrohttpd has the request. */
static void close_upgraded(struct http_request *req)
{
	MHD_upgrade_action(STEAL(req->upgrade.handle), MHD_UPGRADE_ACTION_CLOSE);
	if (http_is_tls(req) && req->mhd)
		shutdown(req->conn->fd, SHUT_RD);
}

void http_upgrade_end(struct http_request *req)
{
	http_request_silence(req);
	pthread_mutex_lock(&req->lock);
	req->upgrade.ended = true;
	if (req->upgrade.handle)
		close_upgraded(req);
	pthread_mutex_unlock(&req->lock);
	http_request_release(req);
}
