/*
 * Reading an MCP body goes down a ladder, and the first rung that does not hold decides the answer:
 *
 *   JSON                      400, -32700
 *   array: legacy batch       400, -32600 unless the client speaks 2025-03-26
 *   shape of JSON-RPC         400, -32600
 *   era                       `_meta` with a version, or a modern header: modern; else legacy
 *   modern: `_meta` complete  400, -32602
 *   modern: version header    400, -32020, then the version itself: -32022
 *   modern: method and name   400, -32020
 *   legacy: version header    400, -32022
 *   method of that era        404 (modern) or 200 (legacy), -32601
 *   parameters of the method  200, -32602
 *
 * The version stands before the other mirrored headers, as a later version may mirror differently.
 */
#include "api/mcp_message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/ops.h"
#include "base/json.h"
#include "base/str.h"
#include "base/version.h"

#define META_VERSION	  "io.modelcontextprotocol/protocolVersion"
#define META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define META_SERVER	  "io.modelcontextprotocol/serverInfo"

/* Ids are echoed and kept for the call's life. */
#define ID_BYTES_MAX 512

static const char *const legacy_versions[] = { MCP_LEGACY_NEWEST, "2025-06-18", "2025-03-26" };
#define LEGACY_ASSUMED "2025-03-26" /* no header: the only version that did not define it */

/* Text that a client sent, in a message: cut, and without line breaks. */
#define QUOTE_SIZE 80
static const char *quoted(const char *text, size_t len, char out[QUOTE_SIZE])
{
	size_t n = len < QUOTE_SIZE - 4 ? len : QUOTE_SIZE - 4;
	size_t i;

	n = utf8_whole_prefix(text, n);
	for (i = 0; i < n; i++)
		out[i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '?' : text[i];
	memcpy(out + n, n < len ? "..." : "", n < len ? 4 : 1);
	return out;
}

void mcp_fault_set(struct mcp_fault *fault, unsigned int status, enum mcp_error_code code,
		   const char *fmt, ...)
{
	va_list ap;

	*fault = (struct mcp_fault){ .status = status, .code = code };
	va_start(ap, fmt);
	vsnprintf(fault->message, sizeof(fault->message), fmt, ap);
	va_end(ap);
}

void mcp_fault_clear(struct mcp_fault *fault)
{
	json_decref(fault->data);
	fault->data = NULL;
}

void mcp_body_clear(struct mcp_body *body)
{
	size_t i;

	for (i = 0; i < body->n_messages; i++)
		mcp_fault_clear(&body->messages[i].fault);
	body->n_messages = 0;
	json_decref(body->root);
	body->root = NULL;
}

/* Strings of JSON may hold NULs, so that a comparison needs both lengths. */
static bool json_is(const json_t *value, const char *text)
{
	return json_is_string(value) && json_string_length(value) == strlen(text) &&
	       memcmp(json_string_value(value), text, strlen(text)) == 0;
}

static const char *find_legacy(const char *version)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(legacy_versions); i++) {
		if (str_eq(version, legacy_versions[i]))
			return legacy_versions[i];
	}
	return NULL;
}

static void fault_versions(struct mcp_fault *fault, bool with_legacy, const char *requested,
			   size_t len)
{
	char text[QUOTE_SIZE];
	json_t *supported = json_array();
	size_t i;

	mcp_fault_set(fault, 400, MCP_UNSUPPORTED_VERSION, "unsupported protocol version \"%s\"",
		      quoted(requested, len, text));
	json_array_append_new(supported, json_string(MCP_MODERN_VERSION));
	for (i = 0; with_legacy && i < ARRAY_SIZE(legacy_versions); i++)
		json_array_append_new(supported, json_string(legacy_versions[i]));
	fault->data = json_object();
	json_put(fault->data, "supported", supported);
	json_put(fault->data, "requested", json_from_bytes(requested, len < 256 ? len : 256));
}

/* ---- headers ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

bool mcp_header_decode(const char *value, struct buf *out)
{
	static const char prefix[] = "=?base64?", suffix[] = "?=";
	size_t len = strlen(value), wrapped = sizeof(prefix) + sizeof(suffix) - 2;

	while (len > 0 && is_blank(*value)) {
		value++;
		len--;
	}
	while (len > 0 && is_blank(value[len - 1]))
		len--;
	buf_reset(out);
	if (len < wrapped || strncmp(value, prefix, strlen(prefix)) != 0 ||
	    strncmp(value + len - strlen(suffix), suffix, strlen(suffix)) != 0) {
		buf_append(out, value, len);
		return true;
	}
	return base64_decode(value + strlen(prefix), len - wrapped, out) == 0 &&
	       utf8_valid(out->data, out->len);
}

static bool header_agrees(const char *name, const char *header, const json_t *body,
			  struct mcp_fault *fault)
{
	_cleanup_buf_ struct buf value = BUF_INIT;
	char sent[QUOTE_SIZE], expected[QUOTE_SIZE];
	const char *text = json_string_value(body);
	size_t len = json_string_length(body);

	if (!header) {
		mcp_fault_set(fault, 400, MCP_HEADER_MISMATCH,
			      "header mismatch: %s is missing; the body says \"%s\"", name,
			      quoted(text, len, expected));
		return false;
	}
	if (!mcp_header_decode(header, &value)) {
		mcp_fault_set(fault, 400, MCP_HEADER_MISMATCH,
			      "header mismatch: %s is not valid base64 of UTF-8", name);
		return false;
	}
	if (value.len != len || (len > 0 && memcmp(value.data, text, len) != 0)) {
		mcp_fault_set(fault, 400, MCP_HEADER_MISMATCH,
			      "header mismatch: %s is \"%s\", the body says \"%s\"", name,
			      quoted(buf_str(&value), value.len, sent),
			      quoted(text, len, expected));
		return false;
	}
	return true;
}

/* The header that mirrors params.name or params.uri, for the methods that have one. */
static const json_t *mirrored_name(const json_t *method, const json_t *params)
{
	const json_t *value = NULL;

	if (json_is(method, "tools/call") || json_is(method, "prompts/get"))
		value = json_object_get(params, "name");
	else if (json_is(method, "resources/read"))
		value = json_object_get(params, "uri");
	return json_is_string(value) ? value : NULL;
}

/* ---- eras ---- */

static bool header_is_modern(const struct mcp_headers *headers)
{
	static const char form[] = "dddd-dd-dd";
	const char *version = headers->protocol_version;
	size_t i;

	if (!version || strlen(version) != strlen(form))
		return false;
	for (i = 0; form[i]; i++) {
		if (form[i] == 'd' ? version[i] < '0' || version[i] > '9' : version[i] != form[i])
			return false;
	}
	return strcmp(version, MCP_MODERN_VERSION) >= 0;
}

static bool check_modern(const struct mcp_headers *headers, const json_t *method,
			 struct mcp_message *m)
{
	const json_t *meta = json_object_get(m->params, "_meta");
	const json_t *version = json_object_get(meta, META_VERSION);
	const json_t *name = mirrored_name(method, m->params);
	struct mcp_fault *fault = &m->fault;

	if (!json_is_object(meta) || !json_is_string(version)) {
		mcp_fault_set(fault, 400, MCP_INVALID_PARAMS,
			      "params._meta must carry \"" META_VERSION "\" (a string)");
		return false;
	}
	if (!json_is_object(json_object_get(meta, META_CAPABILITIES))) {
		mcp_fault_set(fault, 400, MCP_INVALID_PARAMS,
			      "params._meta must carry \"" META_CAPABILITIES "\" (an object)");
		return false;
	}
	if (headers->repeated) {
		mcp_fault_set(fault, 400, MCP_HEADER_MISMATCH,
			      "header mismatch: an Mcp header came more than once");
		return false;
	}
	if (!header_agrees("MCP-Protocol-Version", headers->protocol_version, version, fault))
		return false;
	if (!json_is(version, MCP_MODERN_VERSION)) {
		fault_versions(fault, false, json_string_value(version),
			       json_string_length(version));
		return false;
	}
	return header_agrees("Mcp-Method", headers->method, method, fault) &&
	       (!name || header_agrees("Mcp-Name", headers->name, name, fault));
}

static bool check_legacy(const struct mcp_headers *headers, struct mcp_message *m)
{
	const char *header = headers->protocol_version;
	const char *spoken = header ? find_legacy(header) : LEGACY_ASSUMED;

	if (headers->repeated) {
		mcp_fault_set(&m->fault, 400, MCP_INVALID_REQUEST,
			      "an Mcp header came more than once");
		return false;
	}
	if (!spoken) {
		fault_versions(&m->fault, true, header, strlen(header));
		return false;
	}
	m->version = spoken;
	return true;
}

/* ---- methods ---- */

static const struct method {
	const char *name;
	enum mcp_action action;
	bool legacy, modern;
} methods[] = {
	{ "initialize", MCP_ACT_INITIALIZE, true, false },
	{ "ping", MCP_ACT_PING, true, false },
	{ "server/discover", MCP_ACT_DISCOVER, false, true },
	{ "tools/list", MCP_ACT_TOOLS_LIST, true, true },
	{ "tools/call", MCP_ACT_TOOLS_CALL, true, true },
};

static bool find_method(const json_t *method, struct mcp_message *m)
{
	char text[QUOTE_SIZE];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(methods); i++) {
		bool known = m->era == MCP_MODERN ? methods[i].modern : methods[i].legacy;

		if (known && json_is(method, methods[i].name)) {
			m->action = methods[i].action;
			return true;
		}
	}
	mcp_fault_set(&m->fault, m->era == MCP_MODERN ? 404 : 200, MCP_METHOD_NOT_FOUND,
		      "method not found: \"%s\" is not a method of MCP %s here",
		      quoted(json_string_value(method), json_string_length(method), text),
		      m->version);
	return false;
}

/* tools/call: a tool's name and its arguments. A NUL in the name would hide the rest of it. */
static bool read_call(struct mcp_message *m)
{
	const json_t *name = json_object_get(m->params, "name");
	json_t *arguments = json_object_get(m->params, "arguments");

	if (!json_is_string(name) || strlen(json_string_value(name)) != json_string_length(name)) {
		mcp_fault_set(&m->fault, 200, MCP_INVALID_PARAMS,
			      "params.name must be a string: the tool to call");
		return false;
	}
	if (arguments && !json_is_null(arguments) && !json_is_object(arguments)) {
		mcp_fault_set(&m->fault, 200, MCP_INVALID_PARAMS,
			      "params.arguments must be an object");
		return false;
	}
	m->tool = json_string_value(name);
	m->arguments = json_is_object(arguments) ? arguments : NULL;
	return true;
}

/* We hand out no cursors, so that none can be right. */
static bool read_list(struct mcp_message *m)
{
	const json_t *cursor = json_object_get(m->params, "cursor");

	if (!cursor || json_is_null(cursor))
		return true;
	mcp_fault_set(&m->fault, 200, MCP_INVALID_PARAMS,
		      "invalid cursor: all tools come in one page, ask without a cursor");
	return false;
}

/* ---- one message ---- */

static bool is_id(const json_t *value)
{
	return json_is_integer(value) ||
	       (json_is_string(value) && json_string_length(value) <= ID_BYTES_MAX);
}

json_t *mcp_request_id(const json_t *body)
{
	json_t *id = json_object_get(body, "id");

	return is_id(id) ? id : NULL;
}

static void read_notification(const json_t *method, struct mcp_message *m)
{
	json_t *target = json_object_get(m->params, "requestId");

	m->action = MCP_ACT_ACCEPT;
	if (m->era == MCP_LEGACY && json_is(method, "notifications/cancelled") && is_id(target)) {
		m->action = MCP_ACT_CANCEL;
		m->target_id = target;
	}
}

/* initialize is the legacy handshake whatever the header says, as some clients send it after a good
 * discover; only a version in `_meta` makes it a modern request (of a method that is no more). */
static enum mcp_era era_of(const struct mcp_headers *headers, const json_t *method,
			   const json_t *params)
{
	const json_t *meta = json_object_get(params, "_meta");

	if (json_object_get(meta, META_VERSION))
		return MCP_MODERN;
	if (json_is(method, "initialize"))
		return MCP_LEGACY;
	return header_is_modern(headers) || json_is(method, "server/discover") ? MCP_MODERN
									       : MCP_LEGACY;
}

static bool read_request(const struct mcp_headers *headers, const json_t *method,
			 struct mcp_message *m)
{
	json_t *token = json_object_get(json_object_get(m->params, "_meta"), "progressToken");

	m->progress_token = is_id(token) ? token : NULL;
	if (m->era == MCP_MODERN ? !check_modern(headers, method, m)
				 : !json_is(method, "initialize") && !check_legacy(headers, m))
		return false;
	if (!find_method(method, m))
		return false;
	if (m->action == MCP_ACT_TOOLS_CALL)
		return read_call(m);
	return m->action != MCP_ACT_TOOLS_LIST || read_list(m);
}

/* Sets m->id as soon as it is known, so that a fault can echo it. */
static bool check_shape(const json_t *value, struct mcp_message *m)
{
	json_t *id = json_object_get(value, "id");
	const json_t *method = json_object_get(value, "method");
	json_t *params = json_object_get(value, "params");
	const char *wrong = NULL;

	m->id = mcp_request_id(value);
	if (!json_is_object(value))
		wrong = "a message must be an object";
	else if (!json_is(json_object_get(value, "jsonrpc"), "2.0"))
		wrong = "\"jsonrpc\" must be \"2.0\"";
	else if (id && !m->id)
		wrong = "\"id\" must be an integer or a string of at most 512 bytes";
	else if (method ? !json_is_string(method)
			: !json_object_get(value, "result") && !json_object_get(value, "error"))
		wrong = "\"method\" must be a string";
	if (wrong) {
		mcp_fault_set(&m->fault, 400, MCP_INVALID_REQUEST, "invalid request: %s", wrong);
		return false;
	}
	if (params && !json_is_object(params)) {
		mcp_fault_set(&m->fault, 400, MCP_INVALID_PARAMS, "\"params\" must be an object");
		return false;
	}
	m->params = params;
	return true;
}

static void read_message(const struct mcp_headers *headers, const json_t *value,
			 struct mcp_message *m)
{
	const json_t *method = json_object_get(value, "method");

	*m = (struct mcp_message){ .action = MCP_ACT_FAULT,
				   .version = MCP_LEGACY_NEWEST,
				   .whole = value };
	if (!check_shape(value, m))
		return;
	m->era = era_of(headers, method, m->params);
	if (m->era == MCP_MODERN)
		m->version = MCP_MODERN_VERSION;
	if (!method) { /* a response: we ask nothing, and 2026-07-28 forbids it */
		m->id = NULL;
		m->action = m->era == MCP_LEGACY ? MCP_ACT_ACCEPT : MCP_ACT_FAULT;
		mcp_fault_set(&m->fault, 400, MCP_INVALID_REQUEST, "clients do not send responses");
	} else if (!m->id) {
		read_notification(method, m);
	} else if (!read_request(headers, method, m)) {
		m->action = MCP_ACT_FAULT;
	}
}

/* ---- bodies ---- */

static bool read_batch(const struct mcp_headers *headers, struct mcp_body *body,
		       struct mcp_fault *fault)
{
	const char *version =
		headers->protocol_version ? headers->protocol_version : LEGACY_ASSUMED;
	size_t n = json_array_size(body->root), i;

	if (!str_eq(version, LEGACY_ASSUMED)) {
		mcp_fault_set(fault, 400, MCP_INVALID_REQUEST,
			      "batches exist in MCP " LEGACY_ASSUMED
			      " only: send one message a request");
		return false;
	}
	if (n == 0 || n > MCP_BATCH_MAX) {
		mcp_fault_set(fault, 400, MCP_INVALID_REQUEST,
			      "a batch holds 1 to %d messages, this one %zu", MCP_BATCH_MAX, n);
		return false;
	}
	body->batch = true;
	for (i = 0; i < n; i++) {
		struct mcp_message *m = &body->messages[i];

		read_message(headers, json_array_get(body->root, i), m);
		body->n_messages = i + 1;
		if (m->era == MCP_MODERN || m->action == MCP_ACT_INITIALIZE) {
			mcp_fault_set(fault, 400, MCP_INVALID_REQUEST,
				      "message %zu of the batch must be sent on its own", i + 1);
			return false;
		}
	}
	return true;
}

bool mcp_body_read(const void *data, size_t len, const struct mcp_headers *headers,
		   struct mcp_body *ret, struct mcp_fault *fault)
{
	struct err err = ERR_INIT;
	bool ok = true;

	*ret = (struct mcp_body){ 0 };
	if (ops_parse_json(len > 0 ? data : "", len, &ret->root, &err) < 0) {
		mcp_fault_set(fault, 400, MCP_PARSE_ERROR, "%s", err.message);
		return false;
	}
	if (json_is_array(ret->root)) {
		ok = read_batch(headers, ret, fault);
	} else {
		read_message(headers, ret->root, &ret->messages[0]);
		ret->n_messages = 1;
	}
	if (!ok)
		mcp_body_clear(ret);
	return ok;
}

/* ---- answers ---- */

const char *mcp_initialize_version(const json_t *params)
{
	const char *known = find_legacy(json_get_str(params, "protocolVersion", ""));

	return known ? known : MCP_LEGACY_NEWEST;
}

static json_t *envelope(json_t *id)
{
	json_t *response = json_object();

	json_put(response, "jsonrpc", json_string("2.0"));
	if (id)
		json_put(response, "id", json_incref(id));
	return response;
}

json_t *mcp_response(json_t *id, json_t *result)
{
	json_t *response = envelope(id);

	json_put(response, "result", result);
	return response;
}

json_t *mcp_error_response(json_t *id, const struct mcp_fault *fault)
{
	json_t *response = envelope(id), *error = json_object();

	json_put_int(error, "code", fault->code);
	json_put_str(error, "message", fault->message);
	if (fault->data)
		json_put(error, "data", json_incref(fault->data));
	json_put(response, "error", error);
	return response;
}

void mcp_result_seal(enum mcp_era era, json_t *result)
{
	json_t *server, *meta;

	if (era != MCP_MODERN)
		return;
	if (!json_object_get(result, "resultType"))
		json_put(result, "resultType", json_string("complete"));
	meta = json_object_get(result, "_meta");
	if (!meta) {
		meta = json_object();
		json_put(result, "_meta", meta);
	}
	server = json_object();
	json_put(server, "name", json_string("skerry"));
	json_put(server, "version", json_string(SKERRY_VERSION));
	json_put(meta, META_SERVER, server);
}
