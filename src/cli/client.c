/*
 * The HTTP side, over libcurl's multi interface. A request owns its easy handle, headers and body;
 * it is freed by client_poll after done, or by client_cancel.
 */
#include "cli/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <curl/curl.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "base/version.h"

#define CONNECT_TIMEOUT_MS 5000L
#define DEFAULT_TIMEOUT_MS 120000
#define POLL_FDS_MAX	   8
#define UPLOAD_BUFFER	   (256L * 1024)

struct client {
	CURLM *multi;
	char *url;
	char *authorization; /* the whole header line */
	char *ca_file;
	struct client_request *requests;
};

struct client_request {
	struct client_request *next;
	struct client *client;
	CURL *easy;
	struct curl_slist *headers;
	struct buf body;
	struct client_spec spec; /* callbacks and arg only */
	struct client_response response;
	bool streams; /* the answer is a 2xx event stream, handed to spec.events */
	bool passes;  /* it is 2xx, and handed to spec.bytes */
	bool looked;  /* streams has been decided */
	bool too_large;
	int stopped; /* what a callback returned */
};

void client_response_clear(struct client_response *response)
{
	buf_clear(&response->body);
	*response = CLIENT_RESPONSE_INIT;
}

/* ---- addresses ---- */

bool client_url_is_loopback(const char *url)
{
	CURLU *parsed = curl_url();
	char *host = NULL;
	bool loopback = false;

	if (parsed && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK &&
	    curl_url_get(parsed, CURLUPART_HOST, &host, 0) == CURLUE_OK) {
		size_t digits = strspn(host, "0123456789.");

		loopback = strcasecmp(host, "localhost") == 0 || str_eq(host, "[::1]") ||
			   (str_starts(host, "127.") && host[digits] == '\0');
	}
	curl_free(host);
	curl_url_cleanup(parsed);
	return loopback;
}

void client_escape(struct buf *out, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || strchr("-._~", c);

		if (plain)
			buf_append_char(out, *text);
		else
			buf_printf(out, "%%%02X", c);
	}
}

void client_set_up(void *easy, const char *url, const char *ca_file)
{
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS);
	if (client_url_is_loopback(url))
		curl_easy_setopt(easy, CURLOPT_PROXY, "");
	if (ca_file)
		curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file);
}

/* ---- life ---- */

static int check_url(const char *url, struct err *err)
{
	CURLU *parsed = curl_url();
	char *scheme = NULL, *user = NULL;
	bool good, secret;

	good = parsed &&
	       curl_url_set(parsed, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK &&
	       curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
	       (str_eq(scheme, "http") || str_eq(scheme, "https"));
	secret = parsed && curl_url_get(parsed, CURLUPART_USER, &user, 0) == CURLUE_OK;
	curl_free(user);
	curl_free(scheme);
	curl_url_cleanup(parsed);
	if (good && !secret)
		return 0;
	err_code(err, -EINVAL, "usage", "'%s' is not the address of a server%s", secret ? "…" : url,
		 secret ? ": it holds a user name" : "");
	err_hint(err, "set SKERRY_URL (or --url) to something like http://127.0.0.1:7171");
	return -EINVAL;
}

int client_new(const struct client_config *config, struct client **ret, struct err *err)
{
	struct client *client;
	int r = check_url(config->url, err);

	if (r < 0)
		return r;
	if (config->key && strpbrk(config->key, "\r\n"))
		return err_code(err, -EINVAL, "usage", "the key has a line break in it");
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0)
		return err_set(err, -ENOMEM, "libcurl cannot start");
	client = xcalloc(1, sizeof(*client));
	client->multi = curl_multi_init();
	client->url = xstrdup(config->url);
	if (config->key)
		client->authorization = xasprintf("Authorization: Bearer %s", config->key);
	if (config->ca_file)
		client->ca_file = xstrdup(config->ca_file);
	if (!client->multi) {
		client_free(client);
		return err_set(err, -ENOMEM, "libcurl cannot start");
	}
	*ret = client;
	return 0;
}

static void request_free(struct client_request *request)
{
	struct client *client = request->client;

	for (struct client_request **at = &client->requests; *at; at = &(*at)->next) {
		if (*at == request) {
			*at = request->next;
			break;
		}
	}
	if (request->easy) {
		curl_multi_remove_handle(client->multi, request->easy);
		curl_easy_cleanup(request->easy);
	}
	curl_slist_free_all(request->headers);
	buf_clear(&request->body);
	client_response_clear(&request->response);
	free(request);
}

void client_free(struct client *client)
{
	if (!client)
		return;
	while (client->requests)
		request_free(client->requests);
	curl_multi_cleanup(client->multi);
	if (client->authorization)
		explicit_bzero(client->authorization, strlen(client->authorization));
	free(client->authorization);
	free(client->ca_file);
	free(client->url);
	free(client);
	curl_global_cleanup();
}

/* ---- a request ---- */

static void look_at_head(struct client_request *request)
{
	struct client_response *response = &request->response;
	struct curl_header *header;
	curl_off_t length = -1;

	curl_easy_getinfo(request->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	response->length = length;
	if (request->spec.want_header &&
	    curl_easy_header(request->easy, request->spec.want_header, 0, CURLH_HEADER, -1,
			     &header) == CURLHE_OK)
		str_copy(response->header, sizeof(response->header), header->value);
}

static void look_at_answer(struct client_request *request)
{
	struct client_response *response = &request->response;
	char *type = NULL;

	curl_easy_getinfo(request->easy, CURLINFO_RESPONSE_CODE, &response->status);
	curl_easy_getinfo(request->easy, CURLINFO_CONTENT_TYPE, &type);
	str_copy(response->content_type, sizeof(response->content_type), type ? type : "");
	request->streams = request->spec.events && response->status / 100 == 2 &&
			   strncasecmp(response->content_type, "text/event-stream", 17) == 0;
	request->passes = request->spec.bytes && response->status / 100 == 2;
	if (request->passes)
		look_at_head(request);
	request->looked = true;
}

static size_t on_read(char *out, size_t size, size_t n, void *arg)
{
	struct client_request *request = arg;
	ssize_t got = request->spec.read(request->spec.arg, out, size * n);

	if (got >= 0)
		return (size_t)got;
	request->stopped = (int)got;
	return CURL_READFUNC_ABORT;
}

static size_t on_bytes(char *bytes, size_t size, size_t n, void *arg)
{
	struct client_request *request = arg;
	size_t len = size * n;

	if (!request->looked)
		look_at_answer(request);
	if (request->streams) {
		request->stopped = request->spec.events(request->spec.arg, bytes, len);
		return request->stopped < 0 ? 0 : len;
	}
	if (request->passes) {
		request->stopped =
			request->spec.bytes(request->spec.arg, &request->response, bytes, len);
		return request->stopped < 0 ? 0 : len;
	}
	if (request->response.body.len + len > CLIENT_BODY_MAX) {
		request->too_large = true;
		return 0;
	}
	buf_append(&request->response.body, bytes, len);
	return len;
}

static void add_header(struct client_request *request, const char *line)
{
	struct curl_slist *longer = curl_slist_append(request->headers, line);

	if (!longer)
		abort();
	request->headers = longer;
}

static void set_headers(struct client_request *request, const struct client_spec *spec)
{
	add_header(request, spec->accept_events
				    ? "Accept: text/event-stream, application/json;q=0.9"
			    : spec->bytes ? "Accept: */*"
					  : "Accept: application/json");
	/* No round trip before a body, unless it is one that may be refused before it is sent. */
	if (!spec->read)
		add_header(request, "Expect:");
	else
		add_header(request, "Content-Type: application/octet-stream");
	if (spec->body)
		add_header(request, "Content-Type: application/json");
	if (request->client->authorization)
		add_header(request, request->client->authorization);
	for (const char *const *line = spec->headers; line && *line; line++)
		add_header(request, *line);
	if (spec->idempotency_key) {
		_cleanup_free_ char *line = xasprintf("Idempotency-Key: %s", spec->idempotency_key);

		add_header(request, line);
	}
}

static void set_options(struct client_request *request, const struct client_spec *spec)
{
	const struct client *client = request->client;
	_cleanup_free_ char *url = xasprintf("%s%s", client->url, spec->path);
	int64_t timeout_ms = spec->timeout_ms ? spec->timeout_ms : DEFAULT_TIMEOUT_MS;
	CURL *easy = request->easy;

	client_set_up(easy, url, client->ca_file);
	curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, spec->method);
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, request->headers);
	curl_easy_setopt(easy, CURLOPT_USERAGENT,
			 spec->user_agent ? spec->user_agent : "skerry/" SKERRY_VERSION);
	curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, spec->once ? 1L : 0L);
	curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, spec->once ? 1L : 0L);
	curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, timeout_ms > 0 ? (long)timeout_ms : 0L);
	if (spec->silence_ms > 0) {
		curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
		curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)(spec->silence_ms / 1000));
	}
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, request);
	curl_easy_setopt(easy, CURLOPT_PRIVATE, request);
	if (spec->body) {
		json_write(spec->body, &request->body);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, buf_str(&request->body));
	} else if (spec->read) {
		curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
		curl_easy_setopt(easy, CURLOPT_READFUNCTION, on_read);
		curl_easy_setopt(easy, CURLOPT_READDATA, request);
		curl_easy_setopt(easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)spec->read_length);
		curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BUFFER);
	} else if (str_eq(spec->method, "POST")) {
		curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, 0L);
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "");
	}
}

int client_start(struct client *client, const struct client_spec *spec, struct client_request **ret,
		 struct err *err)
{
	struct client_request *request = xcalloc(1, sizeof(*request));

	request->client = client;
	request->spec = *spec;
	request->spec.body = NULL;
	request->response.length = -1;
	request->next = client->requests;
	client->requests = request;
	request->easy = curl_easy_init();
	if (!request->easy) {
		request_free(request);
		return err_set(err, -ENOMEM, "libcurl has no memory for a request");
	}
	set_headers(request, spec);
	set_options(request, spec);
	if (curl_multi_add_handle(client->multi, request->easy) != CURLM_OK) {
		request_free(request);
		return err_set(err, -ENOMEM, "libcurl does not take the request");
	}
	*ret = request;
	return 0;
}

void client_cancel(struct client *client, struct client_request *request)
{
	(void)client;
	if (request)
		request_free(request);
}

static int tls_error(const char *url, CURLcode code, struct err *err)
{
	err_code(err, -EPROTO, "tls_failed", "no safe connection to %s: %s", url,
		 curl_easy_strerror(code));
	err_hint(err, "if its certificate is your own, name it in SKERRY_CA_FILE");
	return -EPROTO;
}

int client_explain(const char *url, int curl_code, struct err *err)
{
	const CURLcode code = (CURLcode)curl_code;

	switch (code) {
	case CURLE_COULDNT_CONNECT:
	case CURLE_COULDNT_RESOLVE_HOST:
		err_code(err, -ECONNREFUSED, "unreachable", "no server answers at %s", url);
		if (client_url_is_loopback(url))
			err_hint(err,
				 "start one as root: skerryd --state-dir /var/lib/skerry --listen "
				 "127.0.0.1:7171, or set SKERRY_URL");
		else
			err_hint(err, "check SKERRY_URL and the network between here and there");
		return -ECONNREFUSED;
	case CURLE_OPERATION_TIMEDOUT:
		return err_code(err, -ETIMEDOUT, "timeout", "%s did not answer in time", url);
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
		return tls_error(url, code, err);
	default:
		return err_code(err, -ECONNRESET, "connection_lost",
				"the connection to %s was lost: %s", url, curl_easy_strerror(code));
	}
}

/* Why no answer came, in words. */
static void explain(const struct client_request *request, CURLcode code, struct err *err)
{
	if (request->too_large)
		err_code(err, -EFBIG, "too_large", "the server's answer is larger than %u MiB",
			 CLIENT_BODY_MAX >> 20);
	else if (request->stopped < 0)
		err_code(err, request->stopped, "stopped", "the stream was ended here");
	else
		client_explain(request->client->url, (int)code, err);
}

static void finish(struct client_request *request, CURLcode code)
{
	struct err err = ERR_INIT;

	if (!request->looked)
		look_at_answer(request);
	if (code != CURLE_OK)
		explain(request, code, &err);
	request->spec.done(request->spec.arg, &request->response, code == CURLE_OK ? NULL : &err);
	request_free(request);
}

int client_poll(struct client *client, struct pollfd *fds, unsigned int n_fds, int timeout_ms,
		struct err *err)
{
	struct curl_waitfd wait[POLL_FDS_MAX] = { 0 };
	CURLMsg *message;
	int running, left;

	if (n_fds > POLL_FDS_MAX)
		return err_set(err, -EINVAL, "too many descriptors to wait for");
	for (unsigned int i = 0; i < n_fds; i++) {
		wait[i].fd = fds[i].fd;
		wait[i].events = fds[i].events & POLLIN ? CURL_WAIT_POLLIN : 0;
		if (fds[i].events & POLLOUT)
			wait[i].events |= CURL_WAIT_POLLOUT;
	}
	if (curl_multi_perform(client->multi, &running) != CURLM_OK)
		return err_set(err, -EIO, "libcurl failed");
	message = curl_multi_info_read(client->multi, &left);
	if (!message) {
		if (curl_multi_poll(client->multi, wait, n_fds, timeout_ms, NULL) != CURLM_OK ||
		    curl_multi_perform(client->multi, &running) != CURLM_OK)
			return err_set(err, -EIO, "libcurl failed");
		message = curl_multi_info_read(client->multi, &left);
	}
	for (unsigned int i = 0; i < n_fds; i++)
		fds[i].revents = wait[i].revents;
	while (message) {
		struct client_request *request = NULL;

		if (message->msg == CURLMSG_DONE &&
		    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &request) == CURLE_OK)
			finish(request, message->data.result);
		message = curl_multi_info_read(client->multi, &left);
	}
	return 0;
}

/* ---- one request, start to end ---- */

struct call {
	struct client_response *ret;
	struct err *err;
	bool done;
	int r;
};

static void call_done(void *arg, struct client_response *response, const struct err *err)
{
	struct call *call = arg;

	call->done = true;
	call->r = err ? err->num : 0;
	if (err && call->err)
		*call->err = *err;
	*call->ret = *response;
	*response = CLIENT_RESPONSE_INIT;
}

/* The caller's callbacks have their own argument: these pass them on. */
struct call_events {
	struct call call;
	const struct client_spec *spec;
};

static int call_on_events(void *arg, const void *bytes, size_t len)
{
	const struct call_events *c = arg;

	return c->spec->events(c->spec->arg, bytes, len);
}

static int call_on_bytes(void *arg, const struct client_response *response, const void *bytes,
			 size_t len)
{
	const struct call_events *c = arg;

	return c->spec->bytes(c->spec->arg, response, bytes, len);
}

static ssize_t call_on_read(void *arg, void *out, size_t max)
{
	const struct call_events *c = arg;

	return c->spec->read(c->spec->arg, out, max);
}

int client_call(struct client *client, const struct client_spec *spec, void (*tick)(void *arg),
		void *tick_arg, struct client_response *ret, struct err *err)
{
	struct call_events c = { .call = { .ret = ret, .err = err }, .spec = spec };
	struct client_spec inner = *spec;
	struct client_request *request;
	int r;

	inner.done = call_done;
	inner.events = spec->events ? call_on_events : NULL;
	inner.bytes = spec->bytes ? call_on_bytes : NULL;
	inner.read = spec->read ? call_on_read : NULL;
	inner.arg = &c;
	r = client_start(client, &inner, &request, err);
	while (r == 0 && !c.call.done) {
		r = client_poll(client, NULL, 0, 100, err);
		if (tick && !c.call.done)
			tick(tick_arg);
	}
	return r < 0 ? r : c.call.r;
}
