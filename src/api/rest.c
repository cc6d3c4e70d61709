/*
 * The router, and REST calls from their request to their answer.
 *
 * A call that waits (exec) leaves its worker; `finished` answers it later, on whatever thread has
 * the outcome. A client that goes away meanwhile cancels the wait, not the command.
 */
#include "api/rest.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "api/auth.h"
#include "api/dashboard.h"
#include "api/docs.h"
#include "api/files_http.h"
#include "api/preview.h"
#include "api/problem.h"
#include "api/rest_internal.h"
#include "api/route.h"
#include "api/terminal.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"

#define IDEMPOTENCY_KEY_MAX 255
#define PROGRESS_EVERY_MS   100

typedef void (*serve_fn)(struct rest_call *rc);

struct rest {
	struct rest_config config;
	struct preview_config preview;
	struct rest_status status;
	struct buf openapi;
	struct docs *docs;
};

struct rest *rest_new(const struct rest_config *config)
{
	struct rest *rest = xcalloc(1, sizeof(*rest));
	_cleanup_json_ json_t *openapi = openapi_document(core_limits(config->core));

	rest->config = *config;
	rest->preview = (struct preview_config){
		.core = config->core,
		.loop = config->loop,
		.allowed_hosts = config->allowed_hosts,
		.domain = config->preview_domain,
	};
	rest->status = (struct rest_status){
		.core = config->core,
		.metrics_open = config->metrics_open,
	};
	json_write(openapi, &rest->openapi);
	rest->docs = docs_new(core_limits(config->core));
	return rest;
}

void rest_free(struct rest *rest)
{
	if (!rest)
		return;
	buf_clear(&rest->openapi);
	docs_free(rest->docs);
	free(rest);
}

/* ---- answers ---- */

static void respond_json(struct http_request *req, unsigned int status, const json_t *json,
			 const char *set_cookie)
{
	const struct http_extra_header cookie = { "Set-Cookie", set_cookie };
	struct buf body = BUF_INIT;

	json_write(json, &body);
	http_respond(req, status, "application/json", &body, &cookie, *set_cookie ? 1 : 0);
}

static void respond_text(struct http_request *req, const char *content_type, const char *text,
			 size_t len)
{
	struct buf body = BUF_INIT;

	buf_append(&body, text, len);
	http_respond(req, 200, content_type, &body, NULL, 0);
}

static void send_event(struct http_stream *stream, const char *name, const json_t *data)
{
	_cleanup_buf_ struct buf event = BUF_INIT;

	rest_append_event(&event, name, data);
	http_stream_write(stream, event.data, event.len);
}

/* ---- a call ---- */

static void finish_progress(struct rest_call *rc, const struct err *err)
{
	_cleanup_json_ json_t *problem = NULL;

	if (err) {
		problem = problem_json(problem_status(err), err, http_request_id(rc->req));
		send_event(rc->progress_stream, "error", problem);
	} else {
		send_event(rc->progress_stream, "result", rc->call.result);
	}
	http_stream_end(rc->progress_stream);
}

/* Any thread. */
static void call_finished(struct op_call *call, const struct err *err)
{
	struct rest_call *rc = call->surface_state;

	if (!err && str_eq(call->op->name, "create_sandbox"))
		http_log_fields(rc->req, "account=%s sandbox=%s", call->who.account_id,
				json_get_str(call->result, "id", "?"));
	if (rc->progress_stream)
		finish_progress(rc, err);
	else if (err)
		problem_respond(rc->req, err);
	else
		respond_json(rc->req, (unsigned int)call->op->rest_status, call->result,
			     call->set_cookie);
	rest_call_free(rc);
}

/* Progress of operations that take long and report it: events, if the client accepts them. */
static void call_progress(struct op_call *call, int percent, const char *tail)
{
	struct rest_call *rc = call->surface_state;
	const int64_t now_ms = clock_boottime_ms();
	_cleanup_json_ json_t *event = NULL;

	if (rc->progress_stream && percent == rc->progress_percent &&
	    now_ms - rc->progress_sent_ms < PROGRESS_EVERY_MS)
		return;
	if (!rc->progress_stream)
		rc->progress_stream = http_stream_begin(rc->req, rest_heartbeat_ms(rc), NULL, NULL);
	rc->progress_sent_ms = now_ms;
	rc->progress_percent = percent;
	event = json_object();
	json_put_int(event, "percent", percent);
	json_put_str(event, "message", tail);
	send_event(rc->progress_stream, "progress", event);
}

static void client_gone(void *arg)
{
	struct rest_call *rc = arg;

	op_call_cancel(&rc->call);
}

/* The header Idempotency-Key, for operations that change something. */
static int read_idempotency_key(struct rest_call *rc, struct err *err)
{
	const char *key = http_header(rc->req, "Idempotency-Key");
	size_t len = key ? strlen(key) : 0;

	if (!key)
		return 0;
	if (http_header_count(rc->req, "Idempotency-Key") > 1 || len < 1 ||
	    len > IDEMPOTENCY_KEY_MAX)
		return err_code(
			err, -EINVAL, "invalid_argument",
			"header Idempotency-Key must be given once, with 1 to %d characters, got "
			"%zu",
			IDEMPOTENCY_KEY_MAX, len);
	for (size_t i = 0; i < len; i++) {
		if (key[i] < 0x21 || key[i] > 0x7e)
			return err_code(
				err, -EINVAL, "invalid_argument",
				"header Idempotency-Key must be visible ASCII without blanks, byte "
				"%zu is not",
				i + 1);
	}
	rc->idempotency_key = xstrdup(key);
	rc->call.idempotency_key = rc->idempotency_key;
	return 0;
}

static int prepare_call(struct rest_call *rc, const struct route *route, struct err *err)
{
	_cleanup_json_ json_t *raw = NULL;
	int result;

	if (http_body_too_large(rc->req)) {
		err_code(err, -E2BIG, "request_too_large", "the body is larger than %lld bytes",
			 (long long)core_limits(rc->call.core)->request_body_bytes);
		err_hint(err, "limit request_body_bytes in section [limits] of the configuration");
		return -E2BIG;
	}
	result = rest_read_args(route->op, rc->req, route->params, &raw, err);
	if (result == 0)
		result = ops_validate(route->op, OP_SURFACE_REST, core_limits(rc->call.core), raw,
				      &rc->call.args, err);
	if (result == 0)
		result = read_idempotency_key(rc, err);
	return result;
}

/* ---- operations that are no calls: bytes, streams, terminals ---- */

static void serve_terminal(struct rest_call *rc)
{
	terminal_serve(rc, rc->rest->config.loop);
}

/* NULL: it is a call. */
static serve_fn server_of(const struct rest_call *rc)
{
	static const struct {
		const char *op;
		bool as_stream; /* only where one is accepted */
		serve_fn serve;
	} servers[] = {
		{ "open_terminal", false, serve_terminal },
		{ "export_audit", false, rest_export_audit },
		{ "exec", true, rest_stream_exec },
		{ "exec_wait", true, rest_stream_exec },
		{ "list_events", true, rest_stream_events },
		{ "list_audit", true, rest_stream_audit },
	};

	for (size_t i = 0; i < ARRAY_SIZE(servers); i++) {
		if (str_eq(rc->call.op->name, servers[i].op) &&
		    (rc->accepts_stream || !servers[i].as_stream))
			return servers[i].serve;
	}
	return rc->call.op->bytes ? files_serve : NULL;
}

static void serve_otherwise(struct rest *rest, struct rest_call *rc, serve_fn serve)
{
	struct err err = ERR_INIT;

	rc->rest = rest;
	if (op_call_enter(&rc->call, &err) < 0) {
		files_refuse(rest->config.core, rc->req, &err);
		rest_call_free(rc);
		return;
	}
	serve(rc);
}

static void run_op(struct rest *rest, struct http_request *req, const struct route *route)
{
	struct err err = ERR_INIT;
	serve_fn serve;
	_cleanup_principal_ struct principal who = { 0 };
	struct rest_call *rc;
	const char *sandbox;
	const bool is_terminal = str_eq(route->op->name, "open_terminal");

	if ((is_terminal ? terminal_check_key : auth_check_key)(rest->config.core, req, &who,
								&err) < 0) {
		files_refuse(rest->config.core, req, &err);
		return;
	}
	sandbox = json_get_str(route->params, "id", "");
	http_log_fields(req, "account=%s%s%.40s", who.account_id, *sandbox ? " sandbox=" : "",
			sandbox);
	rc = xcalloc(1, sizeof(*rc));
	op_call_init(&rc->call, route->op, rest->config.core, &who, OP_SURFACE_REST,
		     http_request_id(req));
	str_copy(rc->call.peer, sizeof(rc->call.peer), http_peer(req));
	rc->req = req;
	auth_own_origin(req, rc->call.origin);
	rc->call.cookie = http_header(req, "Cookie");
	rc->call.preview_domain = rest->config.preview_domain;
	rc->call.pool = rest->config.pool;
	rc->call.surface_state = rc;
	rc->call.finished = call_finished;
	if (prepare_call(rc, route, &err) < 0) {
		files_refuse(rest->config.core, req, &err);
		rest_call_free(rc);
		return;
	}
	if (route->op->streams || route->op->bytes || is_terminal)
		auth_hold(req, &who);
	rc->accepts_stream = route->op->streams && rest_accepts_stream(http_header(req, "Accept"));
	serve = server_of(rc);
	if (serve) {
		serve_otherwise(rest, rc, serve);
		return;
	}
	if (rc->accepts_stream)
		rc->call.progress = call_progress;
	http_on_disconnect(req, client_gone, rc);
	op_call_run(&rc->call);
}

/* ---- fixed routes ---- */

static void respond_unknown(struct http_request *req)
{
	struct err err = ERR_INIT;

	err_code(&err, -ENOENT, "not_found", "there is no %.100s here", http_path(req));
	err_hint(&err, "the routes are listed in /openapi.json");
	problem_respond(req, &err);
}

static void respond_not_allowed(struct http_request *req, const char *allow)
{
	const struct http_extra_header header = { "Allow", allow };
	struct err err = ERR_INIT;

	if (str_eq(http_method(req), "OPTIONS")) {
		http_respond(req, 204, NULL, NULL, &header, 1);
		return;
	}
	err_code(&err, -EOPNOTSUPP, "method_not_allowed", "%.100s takes %s, not %s", http_path(req),
		 allow, http_method(req));
	problem_respond_with(req, 405, &err, &header);
}

/* Anything but a JSON 404 sends MCP clients into an OAuth flow that does not exist here. */
static bool is_oauth_probe(const char *path)
{
	return str_starts(path, "/.well-known/oauth-") ||
	       str_starts(path, "/.well-known/openid-configuration") || str_eq(path, "/register");
}

static bool is_health(const char *path)
{
	return str_eq(path, "/healthz");
}

static bool is_fixed(const char *path)
{
	return is_health(path) || str_eq(path, "/readyz") || str_eq(path, "/metrics") ||
	       str_eq(path, "/openapi.json");
}

static bool handle_fixed(struct rest *rest, struct http_request *req)
{
	static const char ok[] = "{\"status\":\"ok\"}";
	const char *path = http_path(req);
	const bool is_get = str_eq(http_method(req), "GET") || str_eq(http_method(req), "HEAD");

	if (is_oauth_probe(path)) {
		respond_unknown(req);
		return true;
	}
	if (!is_fixed(path) && !dashboard_takes(req) && !docs_takes(req))
		return false;
	if (!is_get)
		respond_not_allowed(req, "GET, HEAD, OPTIONS");
	else if (dashboard_takes(req))
		dashboard_serve(req);
	else if (docs_takes(req))
		docs_serve(rest->docs, req);
	else if (rest_status_handle(&rest->status, req))
		return true;
	else if (is_health(path))
		respond_text(req, "application/json", ok, sizeof(ok) - 1);
	else
		respond_text(req, "application/json", rest->openapi.data, rest->openapi.len);
	return true;
}

bool rest_passes(void *arg, const struct http_request *req)
{
	const struct rest *rest = arg;

	return preview_takes(&rest->preview, req) || files_takes(req);
}

/* The operation that is found here is kept for rest_handle. */
bool rest_is_quick(void *arg, struct http_request *req)
{
	const struct op *op;

	(void)arg;
	if (!str_eq(http_method(req), "GET") && !str_eq(http_method(req), "HEAD"))
		return false;
	if (is_health(http_path(req)) || dashboard_takes(req))
		return true;
	op = route_op(http_method(req), http_path(req));
	http_set_note(req, op);
	return op && op->quick;
}

void rest_handle(void *arg, struct http_request *req)
{
	struct rest *rest = arg;
	const char *path = http_path(req);
	struct err err = ERR_INIT;
	struct route route;
	int rc;

	if (http_is_passed(req) && preview_takes(&rest->preview, req)) {
		preview_handle(&rest->preview, req);
		return;
	}
	if (auth_check_origin(req, rest->config.allowed_hosts, &err) < 0) {
		files_refuse(rest->config.core, req, &err);
		return;
	}
	if (rest->config.mcp && (str_eq(path, "/mcp") || str_eq(path, "/mcp/"))) {
		rest->config.mcp(rest->config.mcp_arg, req);
		return;
	}
	if (handle_fixed(rest, req))
		return;
	rc = http_note(req) ? route_take(http_note(req), path, &route)
			    : route_find(http_method(req), path, &route);
	if (rc == -ENOENT) {
		respond_unknown(req);
	} else if (rc < 0) {
		respond_not_allowed(req, route.allow);
	} else {
		run_op(rest, req, &route);
		route_clear(&route);
	}
}
