/*
 * A request to /mcp goes through HTTP's own questions (method, key, media types), then through
 * mcp_message, and each message of its body is answered into the exchange: at once for all but tool
 * calls, which answer when they end.
 */
#include "api/mcp.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/auth.h"
#include "api/mcp_calls.h"
#include "api/mcp_exchange.h"
#include "api/mcp_extra.h"
#include "api/mcp_message.h"
#include "api/mcp_tools.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "base/version.h"

/* How long a client may keep the answer; limits and tools change with a restart only. */
#define CACHE_TTL_MS 300000

struct mcp {
	struct core *core;
	struct mcp_calls *calls;
	struct mcp_extra *extra; /* NULL in the product */
	const struct preview_domain *preview_domain;
};

struct mcp *mcp_new(struct core *core, struct loop *loop, struct pool *pool,
		    const struct preview_domain *preview_domain)
{
	struct mcp *mcp = xcalloc(1, sizeof(*mcp));

	mcp->core = core;
	mcp->preview_domain = preview_domain;
	mcp->calls = mcp_calls_new(core, loop, pool);
	mcp->extra = mcp_extra_new();
	return mcp;
}

void mcp_free(struct mcp *mcp)
{
	if (!mcp)
		return;
	mcp_calls_free(mcp->calls);
	mcp_extra_free(mcp->extra);
	free(mcp);
}

/* ---- what HTTP asks ---- */

/* id: of the request, or NULL. */
static void refuse(struct http_request *req, json_t *id, const struct mcp_fault *fault,
		   const struct http_extra_header *header)
{
	_cleanup_json_ json_t *response = mcp_error_response(id, fault);
	_cleanup_buf_ struct buf body = BUF_INIT;

	json_write(response, &body);
	http_respond(req, fault->status, "application/json", &body, header, header ? 1 : 0);
}

static bool is_json_type(const char *content_type)
{
	static const char json[] = "application/json";
	size_t n = strlen(json);

	if (!content_type || strncasecmp(content_type, json, n) != 0)
		return false;
	return strchr("; \t", content_type[n]); /* its end counts, too */
}

/* Everything that can be refused without looking into the body. */
static bool check_http(const struct http_request *req, struct mcp_fault *fault,
		       struct mcp_accept *accept)
{
	*accept = mcp_accept_read(http_header(req, "Accept"));
	if (http_body_too_large(req))
		mcp_fault_set(
			fault, 413, MCP_INVALID_REQUEST,
			"the body is larger than this server reads (limits.request_body_bytes)");
	else if (!is_json_type(http_header(req, "Content-Type")))
		mcp_fault_set(fault, 415, MCP_INVALID_REQUEST,
			      "Content-Type must be application/json");
	else if (!accept->json && !accept->stream)
		mcp_fault_set(fault, 406, MCP_INVALID_REQUEST,
			      "Accept must allow application/json or text/event-stream");
	else
		return true;
	return false;
}

/* The key is good, but has asked too often. Its client learns by HTTP when to ask again. */
static void refuse_for_now(struct http_request *req, const struct err *err)
{
	static const struct http_extra_header retry = { "Retry-After", "1" };
	const struct buf *raw = http_body(req);
	_cleanup_json_ json_t *body = NULL;
	struct mcp_fault fault;

	mcp_fault_set(&fault, 429, MCP_TRY_AGAIN, "%s; %s", err->message, err->hint);
	if (!http_body_too_large(req))
		ops_parse_json(buf_str(raw), raw->len, &body, NULL);
	refuse(req, mcp_request_id(body), &fault, &retry);
}

static void refuse_key(struct http_request *req, const struct err *err)
{
	static const struct http_extra_header challenge = { "WWW-Authenticate", AUTH_CHALLENGE };
	struct mcp_fault fault;

	mcp_fault_set(&fault, 401, MCP_INVALID_REQUEST, "%s%s%s", err->message,
		      err->hint[0] ? "; " : "", err->hint);
	refuse(req, NULL, &fault, &challenge);
}

static bool check_key(struct mcp *mcp, struct http_request *req, struct mcp_caller *caller)
{
	const char *agent = http_header(req, "User-Agent");
	struct err err = ERR_INIT;

	*caller = (struct mcp_caller){ .request_id = http_request_id(req) };
	if (auth_check_key(mcp->core, req, &caller->who, &err) < 0) {
		if (str_eq(err_code_of(&err), "rate_limited"))
			refuse_for_now(req, &err);
		else
			refuse_key(req, &err);
		principal_clear(&caller->who);
		return false;
	}
	snprintf(caller->client, sizeof(caller->client), "%s %s", http_peer(req),
		 agent ? agent : "");
	str_copy(caller->peer, sizeof(caller->peer), http_peer(req));
	auth_hold(req, &caller->who);
	auth_own_origin(req, caller->origin);
	caller->preview_domain = mcp->preview_domain;
	http_log_fields(req, "account=%s key=%s", caller->who.account_id, caller->who.key_id);
	return true;
}

static struct mcp_headers read_headers(const struct http_request *req)
{
	return (struct mcp_headers){
		.protocol_version = http_header(req, "MCP-Protocol-Version"),
		.method = http_header(req, "Mcp-Method"),
		.name = http_header(req, "Mcp-Name"),
		.repeated = http_header_count(req, "MCP-Protocol-Version") > 1 ||
			    http_header_count(req, "Mcp-Method") > 1 ||
			    http_header_count(req, "Mcp-Name") > 1,
	};
}

/* ---- answers that are known at once ---- */

static void put_server(json_t *result)
{
	json_t *server = json_object();

	json_put_str(server, "name", "skerry");
	json_put_str(server, "title", "Skerry");
	json_put_str(server, "version", SKERRY_VERSION);
	json_put(result, "serverInfo", server);
}

static void put_offer(const struct mcp *mcp, json_t *result)
{
	json_t *capabilities = json_object();

	json_put(capabilities, "tools", json_object());
	mcp_extra_put_capabilities(mcp->extra, capabilities);
	json_put(result, "capabilities", capabilities);
	json_put_str(result, "instructions", mcp_instructions);
}

/* Private: the list depends on who asks, and nothing here is served without a key. */
static void put_caching(json_t *result)
{
	json_put_int(result, "ttlMs", CACHE_TTL_MS);
	json_put_str(result, "cacheScope", "private");
}

static json_t *initialize(const struct mcp *mcp, const struct mcp_message *m)
{
	json_t *result = json_object();

	json_put_str(result, "protocolVersion", mcp_initialize_version(m->params));
	put_offer(mcp, result);
	put_server(result);
	return result;
}

static json_t *discover(const struct mcp *mcp)
{
	json_t *result = json_object(), *versions = json_array();

	json_array_append_new(versions, json_string(MCP_MODERN_VERSION));
	json_put(result, "supportedVersions", versions);
	put_offer(mcp, result);
	put_caching(result);
	return result;
}

static json_t *list_tools(struct mcp *mcp, const struct mcp_toolset *tools,
			  const struct mcp_message *m)
{
	json_t *result = json_object(), *list = mcp_toolset_list(tools, core_limits(mcp->core));

	mcp_extra_put_tools(mcp->extra, list);
	json_put(result, "tools", list);
	if (m->era == MCP_MODERN)
		put_caching(result);
	return result;
}

/* ---- messages ---- */

struct posted {
	struct http_request *req;
	struct mcp_exchange *exchange;
	struct mcp_caller caller;
	struct mcp_toolset tools;
};

static void answer_fault(struct mcp_exchange *exchange, const struct mcp_message *m,
			 const struct mcp_fault *fault)
{
	mcp_exchange_answer(exchange, fault->status, mcp_error_response(m->id, fault));
}

static void answer_result(struct mcp_exchange *exchange, const struct mcp_message *m,
			  json_t *result)
{
	mcp_result_seal(m->era, result);
	mcp_exchange_answer(exchange, 200, mcp_response(m->id, result));
}

/* A tool that there is, and that tools/list does not show to this key. */
static bool refuse_scope(struct mcp *mcp, const struct posted *posted, const struct mcp_message *m)
{
	const struct op *op = mcp_tool_find(m->tool);
	struct mcp_fault fault;
	struct err err = ERR_INIT;

	if (!op || core_authorize(mcp->core, &posted->caller.who,
				  &(struct core_action){ op->scope, op->name, NULL }, &err) == 0)
		return false;
	mcp_fault_set(&fault, 403, MCP_INVALID_REQUEST, "%s; %s", err.message, err.hint);
	answer_fault(posted->exchange, m, &fault);
	return true;
}

static void call_tool(struct mcp *mcp, const struct posted *posted, const struct mcp_message *m)
{
	const struct op *op = mcp_toolset_find(&posted->tools, m->tool);
	struct mcp_fault fault;

	if (op) {
		mcp_calls_start(mcp->calls, posted->req, posted->exchange, &posted->caller, op, m);
		return;
	}
	if (refuse_scope(mcp, posted, m))
		return;
	mcp_fault_set(&fault, 200, MCP_INVALID_PARAMS,
		      "unknown tool: \"%.64s\" is not among those of tools/list", m->tool);
	answer_fault(posted->exchange, m, &fault);
}

static void handle_message(struct mcp *mcp, const struct posted *posted,
			   const struct mcp_message *m)
{
	if (mcp_extra_take(mcp->extra, posted->req, posted->exchange, m))
		return;
	switch (m->action) {
	case MCP_ACT_CANCEL:
		mcp_calls_cancel(mcp->calls, &posted->caller, m->target_id);
		mcp_exchange_answer(posted->exchange, 202, NULL);
		break;
	case MCP_ACT_ACCEPT:
		mcp_exchange_answer(posted->exchange, 202, NULL);
		break;
	case MCP_ACT_INITIALIZE:
		answer_result(posted->exchange, m, initialize(mcp, m));
		break;
	case MCP_ACT_PING:
		answer_result(posted->exchange, m, json_object());
		break;
	case MCP_ACT_DISCOVER:
		answer_result(posted->exchange, m, discover(mcp));
		break;
	case MCP_ACT_TOOLS_LIST:
		answer_result(posted->exchange, m, list_tools(mcp, &posted->tools, m));
		break;
	case MCP_ACT_TOOLS_CALL:
		call_tool(mcp, posted, m);
		break;
	case MCP_ACT_FAULT:
		answer_fault(posted->exchange, m, &m->fault);
		break;
	}
}

static void handle_body(struct mcp *mcp, struct posted *posted, struct mcp_accept accept)
{
	const struct buf *raw = http_body(posted->req);
	struct mcp_headers headers = read_headers(posted->req);
	struct mcp_body *body = xmalloc(sizeof(*body));
	struct mcp_fault fault = { 0 };
	size_t i;

	if (mcp_body_read(buf_str(raw), raw->len, &headers, body, &fault)) {
		posted->exchange = mcp_exchange_new(posted->req, accept,
						    core_limits(mcp->core)->stream_heartbeat_ms,
						    body->batch, body->n_messages);
		for (i = 0; i < body->n_messages; i++)
			handle_message(mcp, posted, &body->messages[i]);
		mcp_exchange_unref(posted->exchange);
	} else {
		refuse(posted->req, NULL, &fault, NULL);
	}
	mcp_body_clear(body);
	mcp_fault_clear(&fault);
	free(body);
}

/* From a caller who is known. */
static void handle_caller(struct mcp *mcp, struct posted *posted)
{
	struct mcp_accept accept;
	struct mcp_fault fault = { 0 };
	struct err err = ERR_INIT;

	if (!check_http(posted->req, &fault, &accept)) {
		refuse(posted->req, NULL, &fault, NULL);
		return;
	}
	if (mcp_toolset_read(posted->req, &posted->caller.who, &posted->tools, &err) < 0) {
		mcp_fault_set(&fault, 400, MCP_INVALID_REQUEST, "%s", err.message);
		refuse(posted->req, NULL, &fault, NULL);
		return;
	}
	handle_body(mcp, posted, accept);
}

void mcp_handle(struct mcp *mcp, struct http_request *req)
{
	static const struct http_extra_header allow = { "Allow", "POST" };
	struct posted posted = { .req = req };
	struct mcp_fault fault = { 0 };

	if (!str_eq(http_method(req), "POST")) {
		mcp_fault_set(&fault, 405, MCP_INVALID_REQUEST,
			      "the MCP endpoint takes POST only: no sessions, no stream by GET");
		refuse(req, NULL, &fault, &allow);
		return;
	}
	if (!check_key(mcp, req, &posted.caller))
		return;
	handle_caller(mcp, &posted);
	principal_clear(&posted.caller.who);
}
