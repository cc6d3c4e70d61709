/*
 * What the official MCP conformance suite calls by name: tools, prompts, resources, completion,
 * logging, subscriptions. The product has tools alone; a build for tests answers all of it through
 * the same endpoint, so that the suite tests the protocol whole.
 *
 * fixtures.json says what each of them does and answers. A run may wait for a client, and does so
 * on its worker: there are few clients in these tests.
 */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <openssl/rand.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"

#define STEP_US (50 * 1000)

struct mcp_extra *mcp_extra_new(void)
{
	struct mcp_extra *extra = xcalloc(1, sizeof(*extra));
	json_error_t error;

	extra->fixtures = json_load_file(SKERRY_MCP_FIXTURES, 0, &error);
	if (!extra->fixtures || RAND_bytes(extra->secret, sizeof(extra->secret)) != 1) {
		fprintf(stderr, "fixtures: %s: %s\n", SKERRY_MCP_FIXTURES, error.text);
		abort();
	}
	pthread_mutex_init(&extra->lock, NULL);
	pthread_cond_init(&extra->answered, NULL);
	LIST_INIT(&extra->questions);
	LIST_INIT(&extra->subscriptions);
	return extra;
}

void mcp_extra_free(struct mcp_extra *extra)
{
	if (!extra)
		return;
	json_decref(extra->fixtures);
	pthread_cond_destroy(&extra->answered);
	pthread_mutex_destroy(&extra->lock);
	free(extra);
}

/* ---- lists ---- */

void mcp_extra_put_capabilities(const struct mcp_extra *extra, json_t *capabilities)
{
	json_object_update(capabilities, json_object_get(extra->fixtures, "capabilities"));
}

static json_t *definitions(const struct mcp_extra *extra, const char *kind)
{
	json_t *list = json_array(), *fixture;
	size_t i;

	json_array_foreach(json_object_get(extra->fixtures, kind), i, fixture)
		json_array_append(list, json_object_get(fixture, "definition"));
	return list;
}

void mcp_extra_put_tools(const struct mcp_extra *extra, json_t *tools)
{
	_cleanup_json_ json_t *list = definitions(extra, "tools");

	json_array_extend(tools, list);
}

static const json_t *find(const struct mcp_extra *extra, const char *kind, const char *key,
			  const char *value)
{
	const json_t *fixture;
	size_t i;

	json_array_foreach(json_object_get(extra->fixtures, kind), i, fixture) {
		if (str_eq(json_get_str(json_object_get(fixture, "definition"), key, ""), value))
			return fixture;
	}
	return NULL;
}

/* ---- answers ---- */

void run_answer(const struct run *run, json_t *result)
{
	mcp_result_seal(run->m->era, result);
	mcp_exchange_answer(run->exchange, 200, mcp_response(run->m->id, result));
}

void run_refuse(const struct run *run, unsigned int status, enum mcp_error_code code,
		const char *message, json_t *data)
{
	struct mcp_fault fault;

	mcp_fault_set(&fault, status, code, "%s", message);
	fault.data = data;
	mcp_exchange_answer(run->exchange, status, mcp_error_response(run->m->id, &fault));
	mcp_fault_clear(&fault);
}

void run_notify(const struct run *run, const char *method, json_t *params)
{
	mcp_exchange_notify(run->exchange, json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method",
						     method, "params", params));
}

static void answer_cacheable(const struct run *run, json_t *result)
{
	if (run->m->era == MCP_MODERN) {
		json_put_int(result, "ttlMs", 60000);
		json_put_str(result, "cacheScope", "public");
	}
	run_answer(run, result);
}

static json_t *fill_text(const char *text, const json_t *values)
{
	_cleanup_buf_ struct buf filled = BUF_INIT;
	const char *key;
	const json_t *value;

	while (*text) {
		bool found = false;

		json_object_foreach((json_t *)values, key, value) {
			size_t len = strlen(key);

			found = *text == '{' && strncmp(text + 1, key, len) == 0 &&
				text[len + 1] == '}' && json_is_string(value);
			if (found) {
				buf_append_str(&filled, json_string_value(value));
				text += len + 2;
				break;
			}
		}
		if (!found)
			buf_append_char(&filled, *text++);
	}
	return json_string(buf_str(&filled));
}

json_t *fixture_fill(const json_t *template, const json_t *values)
{
	json_t *filled, *value;
	const char *key;
	size_t i;

	if (json_is_string(template))
		return fill_text(json_string_value(template), values);
	filled = json_deep_copy(template);
	json_array_foreach(filled, i, value)
		json_array_set_new(filled, i, fixture_fill(value, values));
	json_object_foreach(filled, key, value)
		json_object_set_new(filled, key, fixture_fill(value, values));
	return filled;
}

/* ---- runs ---- */

/* Legacy clients get logs as soon as the server has logging; modern ones if the request asks. */
static void send_logs(const struct run *run)
{
	const json_t *meta = json_object_get(run->m->params, "_meta"), *text;
	size_t i;

	if (run->m->era == MCP_MODERN && !json_object_get(meta, "io.modelcontextprotocol/logLevel"))
		return;
	json_array_foreach(json_object_get(run->fixture, "log"), i, text) {
		usleep(STEP_US);
		run_notify(run, "notifications/message",
			   json_pack("{s:s, s:s, s:O}", "level", "info", "logger", "fixtures",
				     "data", text));
	}
}

static void send_progress(const struct run *run)
{
	const json_t *value;
	size_t i;

	if (!run->m->progress_token)
		return;
	json_array_foreach(json_object_get(run->fixture, "progress"), i, value) {
		usleep(STEP_US);
		run_notify(run, "notifications/progress",
			   json_pack("{s:O, s:O, s:i}", "progressToken", run->m->progress_token,
				     "progress", value, "total", 100));
	}
}

static const json_t *client_capabilities(const struct run *run)
{
	return json_object_get(json_object_get(run->m->params, "_meta"),
			       "io.modelcontextprotocol/clientCapabilities");
}

static bool client_can(const struct run *run)
{
	json_t *needs = json_object_get(run->fixture, "needs");
	const char *name;
	const json_t *value;

	json_object_foreach(needs, name, value) {
		if (json_object_get(client_capabilities(run), name))
			continue;
		run_refuse(run, 400, MCP_MISSING_CAPABILITY,
			   "the client lacks a capability that this needs",
			   json_pack("{s:O}", "requiredCapabilities", needs));
		return false;
	}
	return true;
}

/* Arguments with "x-mcp-header" in the schema come in a header as well, which must agree. */
static bool headers_agree(const struct run *run)
{
	const json_t *schema =
		json_object_get(json_object_get(run->fixture, "definition"), "inputSchema");
	json_t *properties = json_object_get(schema, "properties"), *property;
	_cleanup_buf_ struct buf value = BUF_INIT;
	const char *name, *wanted, *header;
	char header_name[64];

	json_object_foreach(properties, name, property) {
		wanted = json_get_str(run->values, name, NULL);
		if (!json_object_get(property, "x-mcp-header") || !wanted)
			continue;
		snprintf(header_name, sizeof(header_name), "Mcp-Param-%s",
			 json_get_str(property, "x-mcp-header", ""));
		header = http_header(run->req, header_name);
		if (header && mcp_header_decode(header, &value) && str_eq(buf_str(&value), wanted))
			continue;
		run_refuse(run, 400, MCP_HEADER_MISMATCH, "an argument and its header differ",
			   NULL);
		return false;
	}
	return true;
}

/* A legacy client is asked on the stream; what it says is the value "answer". */
static bool ask_client(const struct run *run, json_t *values)
{
	_cleanup_json_ json_t *request = NULL, *answer = NULL;
	_cleanup_buf_ struct buf text = BUF_INIT;
	const json_t *ask = json_object_get(run->fixture, "ask");

	if (!ask)
		return true;
	request = fixture_fill(ask, values);
	answer = run->m->era == MCP_LEGACY ? question_ask(run, request) : NULL;
	if (!answer) {
		run_answer(run, json_pack("{s:b, s:[{s:s, s:s}]}", "isError", 1, "content", "type",
					  "text", "text", "the client has not answered"));
		return false;
	}
	json_write(answer, &text);
	json_put_str(values, "answer", buf_str(&text));
	return true;
}

static void run_call(struct run *run)
{
	_cleanup_json_ json_t *values =
		run->values ? json_copy((json_t *)run->values) : json_object();
	const char *changes = json_get_str(run->fixture, "changes", NULL);

	if (run->m->era == MCP_MODERN &&
	    (!client_can(run) || !headers_agree(run) || !rounds_done(run)))
		return;
	if (json_object_get(run->fixture, "log") || json_object_get(run->fixture, "progress") ||
	    json_object_get(run->fixture, "ask"))
		mcp_exchange_stream(run->exchange);
	send_logs(run);
	send_progress(run);
	if (!ask_client(run, values))
		return;
	if (changes)
		subscriptions_tell(run->extra, changes);
	run_answer(run, fixture_fill(json_object_get(run->fixture, "result"), values));
}

/* ---- methods ---- */

static void list(const struct run *run, const char *kind)
{
	answer_cacheable(run, json_pack("{s:o}", kind, definitions(run->extra, kind)));
}

static void list_templates(const struct run *run)
{
	json_t *template = json_object_get(run->extra->fixtures, "template");

	answer_cacheable(run, json_pack("{s:[O]}", "resourceTemplates",
					json_object_get(template, "definition")));
}

static void get_prompt(struct run *run)
{
	const char *name = json_get_str(run->m->params, "name", "");

	run->fixture = find(run->extra, "prompts", "name", name);
	run->values = json_object_get(run->m->params, "arguments");
	if (run->fixture)
		run_call(run);
	else
		run_refuse(run, 200, MCP_INVALID_PARAMS, "unknown prompt", NULL);
}

/* "test://template/123/data": {"id": "123"}; NULL for other URIs. */
static json_t *match_template(const json_t *template, const char *uri)
{
	const char *prefix = json_get_str(template, "prefix", "");
	const char *suffix = json_get_str(template, "suffix", "");
	size_t n_prefix = strlen(prefix), n_suffix = strlen(suffix), n = strlen(uri);

	if (n <= n_prefix + n_suffix || !str_starts(uri, prefix) ||
	    !str_eq(uri + n - n_suffix, suffix))
		return NULL;
	return json_pack("{s:s%}", "id", uri + n_prefix, n - n_prefix - n_suffix);
}

static void read_resource(struct run *run)
{
	const char *uri = json_get_str(run->m->params, "uri", "");
	const json_t *template = json_object_get(run->extra->fixtures, "template");
	const json_t *resource = find(run->extra, "resources", "uri", uri);
	_cleanup_json_ json_t *values = match_template(template, uri);
	json_t *content;

	if (!resource && !values) {
		run_refuse(run, 200, MCP_INVALID_PARAMS, "Resource not found",
			   json_pack("{s:s}", "uri", uri));
		return;
	}
	content = fixture_fill(json_object_get(resource ? resource : template, "content"), values);
	json_put_str(content, "uri", uri);
	answer_cacheable(run, json_pack("{s:[o]}", "contents", content));
}

static void complete(const struct run *run)
{
	const json_t *argument = json_object_get(run->m->params, "argument"), *value;
	const char *begun = json_get_str(argument, "value", "");
	json_t *values = json_array();
	size_t i;

	json_array_foreach(json_object_get(run->extra->fixtures, "completions"), i, value) {
		if (str_starts(json_string_value(value), begun))
			json_array_append(values, (json_t *)value);
	}
	run_answer(run, json_pack("{s:{s:o, s:i, s:b}}", "completion", "values", values, "total",
				  (int)json_array_size(values), "hasMore", 0));
}

static bool run_method(struct run *run, const char *method)
{
	bool legacy = run->m->era == MCP_LEGACY;

	if (str_eq(method, "prompts/list"))
		list(run, "prompts");
	else if (str_eq(method, "resources/list"))
		list(run, "resources");
	else if (str_eq(method, "resources/templates/list"))
		list_templates(run);
	else if (str_eq(method, "prompts/get"))
		get_prompt(run);
	else if (str_eq(method, "resources/read"))
		read_resource(run);
	else if (str_eq(method, "completion/complete"))
		complete(run);
	else if (!legacy && str_eq(method, "subscriptions/listen"))
		subscription_open(run);
	else if (legacy &&
		 (str_eq(method, "logging/setLevel") || str_eq(method, "resources/subscribe") ||
		  str_eq(method, "resources/unsubscribe")))
		run_answer(run, json_object());
	else
		return false;
	return true;
}

bool mcp_extra_take(struct mcp_extra *extra, struct http_request *req,
		    struct mcp_exchange *exchange, const struct mcp_message *m)
{
	struct run run = { .extra = extra, .req = req, .exchange = exchange, .m = m };
	const char *method = json_get_str(m->whole, "method", NULL);

	if (m->action == MCP_ACT_ACCEPT && !method)
		question_answered(extra, m->whole);
	if (m->action == MCP_ACT_TOOLS_CALL) {
		run.fixture = find(extra, "tools", "name", m->tool);
		run.values = m->arguments;
		if (run.fixture)
			run_call(&run);
		return run.fixture;
	}
	return m->action == MCP_ACT_FAULT && m->fault.code == MCP_METHOD_NOT_FOUND && method &&
	       run_method(&run, method);
}
