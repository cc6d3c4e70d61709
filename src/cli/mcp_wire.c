#include "cli/mcp_wire.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"

#define INTERNAL_ERROR (-32603)

const char *mcp_wire_version(const json_t *message)
{
	const json_t *meta = json_object_get(json_object_get(message, "params"), "_meta");

	return json_get_str(meta, "io.modelcontextprotocol/protocolVersion", NULL);
}

/* Visible ASCII with blanks inside, and nothing that looks like what stands for other text. libcurl
 * leaves out headers that are empty. */
static bool is_plain(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] < 0x20 || text[i] > 0x7e)
			return false;
	}
	return len > 0 && text[0] != ' ' && text[len - 1] != ' ' && !str_starts(text, "=?base64?");
}

static void add(struct mcp_wire_headers *headers, const char *name, const json_t *value)
{
	struct buf *line = &headers->lines[headers->n];
	const char *text = json_string_value(value);
	size_t len = json_string_length(value);

	if (!text)
		return;
	headers->n++;
	buf_printf(line, "%s: ", name);
	if (is_plain(text, len)) {
		buf_append(line, text, len);
	} else {
		buf_append_str(line, "=?base64?");
		base64_encode(text, len, line);
		buf_append_str(line, "?=");
	}
}

/* The part of its parameters that a method is about, and that a header repeats. */
static const json_t *subject(const json_t *message)
{
	const char *method = json_get_str(message, "method", "");
	const json_t *params = json_object_get(message, "params");

	if (str_eq(method, "tools/call") || str_eq(method, "prompts/get"))
		return json_object_get(params, "name");
	return str_eq(method, "resources/read") ? json_object_get(params, "uri") : NULL;
}

void mcp_wire_headers(const json_t *message, const char *legacy_version,
		      struct mcp_wire_headers *ret)
{
	const char *modern = mcp_wire_version(message);
	const char *version = modern ? modern : legacy_version;
	_cleanup_json_ json_t *value = version ? json_string(version) : NULL;

	*ret = (struct mcp_wire_headers){ 0 };
	if (!modern && str_eq(json_get_str(message, "method", ""), "initialize"))
		return; /* a handshake begins anew */
	add(ret, "MCP-Protocol-Version", value);
	if (!modern)
		return;
	add(ret, "Mcp-Method", json_object_get(message, "method"));
	add(ret, "Mcp-Name", subject(message));
}

void mcp_wire_headers_clear(struct mcp_wire_headers *headers)
{
	for (size_t i = 0; i < MCP_WIRE_HEADERS_MAX; i++)
		buf_clear(&headers->lines[i]);
}

json_t *mcp_wire_id(const json_t *message)
{
	return json_object_get(message, "method") ? json_object_get(message, "id") : NULL;
}

bool mcp_wire_is_silent(const json_t *message)
{
	return json_object_get(message, "method")
		       ? !json_object_get(message, "id")
		       : json_object_get(message, "result") || json_object_get(message, "error");
}

json_t *mcp_wire_cancelled(const json_t *message)
{
	if (!str_eq(json_get_str(message, "method", ""), "notifications/cancelled"))
		return NULL;
	return json_object_get(json_object_get(message, "params"), "requestId");
}

static json_t *envelope(json_t *id)
{
	json_t *response = json_object();

	json_put_str(response, "jsonrpc", "2.0");
	json_put(response, "id", id ? json_incref(id) : json_null());
	return response;
}

json_t *mcp_wire_error(json_t *id, int code, const char *text)
{
	json_t *response = envelope(id), *error = json_object();

	json_put_int(error, "code", code);
	json_put_str(error, "message", text);
	json_put(response, "error", error);
	return response;
}

json_t *mcp_wire_failure(const json_t *request, const char *text)
{
	json_t *id = mcp_wire_id(request), *response, *result, *content, *block;

	if (!str_eq(json_get_str(request, "method", ""), "tools/call"))
		return mcp_wire_error(id, INTERNAL_ERROR, text);
	block = json_object();
	json_put_str(block, "type", "text");
	json_put_str(block, "text", text);
	content = json_array();
	json_array_append_new(content, block);
	result = json_object();
	json_put(result, "content", content);
	json_put(result, "isError", json_true());
	if (mcp_wire_version(request))
		json_put_str(result, "resultType", "complete");
	response = envelope(id);
	json_put(response, "result", result);
	return response;
}
