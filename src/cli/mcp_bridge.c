/*
 * The bridge keeps nothing but the calls that are under way and, for legacy clients, the version
 * that the handshake has agreed on. Every line is a POST of its own, several at once.
 *
 * A server that is being restarted is waited for: what cannot have reached it is sent again for
 * some seconds, as is all that changes nothing. A call of a tool whose answer was lost is not: its
 * client is told, and how to go on.
 *
 * A client takes a request back by notifications/cancelled. Over HTTP a modern one does it by
 * closing the connection, so that the bridge does; a legacy notification is passed on.
 *
 * stdout has JSON-RPC and nothing else. stderr is for people.
 */
#include "cli/mcp_bridge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/rand.h"
#include "base/str.h"
#include "base/version.h"
#include "cli/cli.h"
#include "cli/mcp_wire.h"
#include "cli/output.h"
#include "cli/sse.h"

#define LINE_MAX_BYTES (16u << 20)
#define CALLS_MAX      256   /* under way; then stdin waits */
#define TRY_FOR_MS     15000 /* a server that is not there */
#define TRY_EVERY_MS   300
#define LEAVE_AFTER_MS 2000 /* stdin has ended, and calls are under way */
#define SILENCE_MS     300000

#define PARSE_ERROR (-32700)

struct bridge;

struct call {
	LIST_ENTRY(call) link;
	struct bridge *bridge;
	json_t *message;
	struct client_request *request; /* NULL: waits to be sent again */
	struct sse sse;
	int64_t retry_ms;   /* boottime, while request is NULL */
	int64_t give_up_ms; /* boottime */
	bool answered;
	bool taken_back;
};

struct bridge {
	struct mcp_bridge_config config;
	char user_agent[64]; /* tells this bridge's requests from another's */
	char legacy_version[32];
	struct buf input; /* a line that is not whole yet */
	bool skipping;	  /* of a line that is too long */
	bool ended;	  /* stdin, or stdout */
	int64_t leave_ms; /* boottime, once ended */
	LIST_HEAD(, call) calls;
	size_t n_calls;
};

/* ---- to the client ---- */

static void say(struct bridge *bridge, const json_t *message)
{
	_cleanup_buf_ struct buf line = BUF_INIT;

	json_write(message, &line);
	buf_append_char(&line, '\n');
	if (fwrite(line.data, 1, line.len, stdout) != line.len || fflush(stdout) != 0)
		bridge->ended = true; /* nobody listens any more */
}

static void remember_version(struct bridge *bridge, const json_t *request, const json_t *response)
{
	const json_t *result = json_object_get(response, "result");

	if (str_eq(json_get_str(request, "method", ""), "initialize") && !mcp_wire_version(request))
		str_copy(bridge->legacy_version, sizeof(bridge->legacy_version),
			 json_get_str(result, "protocolVersion", ""));
}

/* A message of the server. An error that it could put no id to is about this very request. */
static void pass_on(struct call *call, json_t *message)
{
	json_t *wanted = mcp_wire_id(call->message), *id = json_object_get(message, "id");

	if (call->taken_back)
		return;
	if (!json_object_get(message, "method") && !json_is_array(call->message)) {
		if (mcp_wire_is_silent(call->message)) {
			report_note(
				"the server refused a notification: %s",
				json_get_str(json_object_get(message, "error"), "message", "?"));
			return;
		}
		if (!id || json_is_null(id))
			json_put(message, "id", wanted ? json_incref(wanted) : json_null());
		remember_version(call->bridge, call->message, message);
		call->answered = true;
	}
	say(call->bridge, message);
}

static void fail_one(struct call *call, const json_t *request, const char *text)
{
	_cleanup_json_ json_t *failure = NULL;

	if (mcp_wire_is_silent(request)) {
		report_note("%s", text);
		return;
	}
	failure = mcp_wire_failure(request, text);
	say(call->bridge, failure);
}

/* Every request of the message is answered. */
static void fail(struct call *call, const char *text)
{
	const json_t *request;
	size_t i;

	if (call->answered || call->taken_back)
		return;
	if (!json_is_array(call->message))
		fail_one(call, call->message, text);
	json_array_foreach(call->message, i, request)
		fail_one(call, request, text);
}

/* ---- from the server ---- */

static void call_end(struct call *call)
{
	LIST_REMOVE(call, link);
	call->bridge->n_calls--;
	client_cancel(call->bridge->config.client, call->request);
	sse_clear(&call->sse);
	json_decref(call->message);
	free(call);
}

static bool take_json(struct call *call, const char *text, size_t len)
{
	_cleanup_json_ json_t *parsed = NULL;
	json_t *message;
	size_t i;

	if (json_parse(text, len, &parsed, NULL) < 0)
		return false;
	if (json_object_get(parsed, "jsonrpc"))
		pass_on(call, parsed);
	json_array_foreach(parsed, i, message)
		pass_on(call, message);
	return json_is_array(parsed) || json_object_get(parsed, "jsonrpc");
}

static int on_event(void *arg, const char *name, const char *data, size_t len)
{
	return str_eq(name, "message") && !take_json(arg, data, len) ? -EBADMSG : 0;
}

static int on_events(void *arg, const void *bytes, size_t len)
{
	struct call *call = arg;

	return sse_feed(&call->sse, bytes, len);
}

static bool changes_nothing(const json_t *message)
{
	return !str_eq(json_get_str(message, "method", ""), "tools/call") &&
	       !json_is_array(message);
}

static bool send_again_later(struct call *call)
{
	int64_t now_ms = clock_boottime_ms();

	if (now_ms >= call->give_up_ms || call->bridge->ended || call->taken_back)
		return false;
	call->request = NULL;
	call->retry_ms = now_ms + TRY_EVERY_MS;
	sse_reset(&call->sse);
	return true;
}

static bool lost(struct call *call, const struct err *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	bool never_came = str_eq(err_code_of(err), "unreachable");

	if ((never_came || changes_nothing(call->message)) && send_again_later(call))
		return true;
	buf_printf(&text, "%s", err->message);
	if (never_came && err->hint[0])
		buf_printf(&text, "; %s", err->hint);
	else if (!never_came)
		buf_append_str(&text,
			       ". What was asked may have been done: list_sandboxes shows what "
			       "there is, and a command goes on in its sandbox");
	fail(call, buf_str(&text));
	return false;
}

/* An answer that is no message: it comes from before the endpoint, or from a proxy. */
static void not_a_message(struct call *call, const struct client_response *response)
{
	_cleanup_json_ json_t *problem = NULL;
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (json_parse(buf_str(&response->body), response->body.len, &problem, NULL) < 0)
		problem = NULL;
	buf_printf(&text, "%s answered with status %ld: %s", call->bridge->config.url,
		   response->status, json_get_str(problem, "detail", "this is no MCP server"));
	fail(call, buf_str(&text));
}

/* Nothing was done, and the server said so. */
static bool is_busy(const struct client_response *response)
{
	return response->status == 429 || response->status == 503;
}

static void on_done(void *arg, struct client_response *response, const struct err *err)
{
	struct call *call = arg;
	const struct buf *body = &response->body;

	call->request = NULL; /* freed by whoever calls this */
	if (err ? lost(call, err) : is_busy(response) && send_again_later(call))
		return;
	if (!err && body->len > 0 && !take_json(call, buf_str(body), body->len))
		not_a_message(call, response);
	else if (!err && !json_is_array(call->message) && !mcp_wire_is_silent(call->message))
		fail(call, "the server ended its answer before it was whole");
	call_end(call);
}

/* ---- to the server ---- */

static void post(struct call *call)
{
	struct bridge *bridge = call->bridge;
	struct mcp_wire_headers headers;
	const char *lines[MCP_WIRE_HEADERS_MAX + 1] = { NULL };
	struct client_spec spec = {
		.method = "POST",
		.path = bridge->config.path,
		.body = call->message,
		.accept_events = true,
		.timeout_ms = -1,
		.silence_ms = SILENCE_MS,
		.headers = lines,
		.user_agent = bridge->user_agent,
		.once = !changes_nothing(call->message),
		.events = on_events,
		.done = on_done,
		.arg = call,
	};
	struct err err = ERR_INIT;

	mcp_wire_headers(call->message, bridge->legacy_version[0] ? bridge->legacy_version : NULL,
			 &headers);
	for (size_t i = 0; i < headers.n; i++)
		lines[i] = buf_str(&headers.lines[i]);
	if (client_start(bridge->config.client, &spec, &call->request, &err) < 0) {
		fail(call, err.message);
		call_end(call);
	}
	mcp_wire_headers_clear(&headers);
}

static struct call *find_call(struct bridge *bridge, const json_t *id)
{
	struct call *call;

	LIST_FOREACH(call, &bridge->calls, link) {
		if (json_equal(mcp_wire_id(call->message), id))
			return call;
	}
	return NULL;
}

/* Returns whether that is all: otherwise the server is to know of it. */
static bool take_back(struct bridge *bridge, const json_t *id)
{
	struct call *call = find_call(bridge, id);

	if (!call)
		return true;
	call->taken_back = true;
	if (call->request && !mcp_wire_version(call->message))
		return false; /* the server ends its answer */
	call_end(call);
	return true;
}

/* message is stolen. */
static void take_message(struct bridge *bridge, json_t *message)
{
	const json_t *cancelled = mcp_wire_cancelled(message);
	struct call *call;

	if (cancelled && take_back(bridge, cancelled)) {
		json_decref(message);
		return;
	}
	call = xcalloc(1, sizeof(*call));
	call->bridge = bridge;
	call->message = message;
	call->give_up_ms = clock_boottime_ms() + TRY_FOR_MS;
	sse_init(&call->sse, on_event, call);
	call->sse.max = CLIENT_BODY_MAX;
	LIST_INSERT_HEAD(&bridge->calls, call, link);
	bridge->n_calls++;
	post(call);
}

static void refuse_line(struct bridge *bridge, const char *text)
{
	_cleanup_json_ json_t *error = mcp_wire_error(NULL, PARSE_ERROR, text);

	say(bridge, error);
}

static void take_line(struct bridge *bridge, const char *line, size_t len)
{
	struct err err = ERR_INIT;
	json_t *message;

	if (len > 0 && line[len - 1] == '\r')
		len--;
	if (len == 0)
		return;
	if (json_parse(line, len, &message, &err) < 0)
		refuse_line(bridge, err.message);
	else
		take_message(bridge, message);
}

/* ---- stdin ---- */

static void take_bytes(struct bridge *bridge, const char *bytes, size_t len)
{
	const char *end;

	while (len > 0) {
		size_t n;

		end = memchr(bytes, '\n', len);
		n = end ? (size_t)(end - bytes) : len;
		if (!bridge->skipping && bridge->input.len + n > LINE_MAX_BYTES) {
			refuse_line(bridge, "the message is too long for this bridge");
			bridge->skipping = true;
		}
		if (!bridge->skipping)
			buf_append(&bridge->input, bytes, n);
		if (end) {
			_cleanup_buf_ struct buf line = bridge->input;

			bridge->input = BUF_INIT;
			if (!bridge->skipping)
				take_line(bridge, buf_str(&line), line.len);
			bridge->skipping = false;
			n++;
		}
		bytes += n;
		len -= n;
	}
}

static void read_input(struct bridge *bridge)
{
	static char bytes[64 * 1024];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (n > 0)
		take_bytes(bridge, bytes, (size_t)n);
	else if (n == 0 || (errno != EINTR && errno != EAGAIN))
		bridge->ended = true;
}

/* ---- the loop ---- */

static void send_waiting(struct bridge *bridge)
{
	int64_t now_ms = clock_boottime_ms();
	struct call *call, *next;

	for (call = LIST_FIRST(&bridge->calls); call; call = next) {
		next = LIST_NEXT(call, link);
		if (!call->request && call->retry_ms <= now_ms)
			post(call);
	}
}

/* Calls that are under way when the client leaves get a moment: it may only have no more to say. */
static bool goes_on(struct bridge *bridge)
{
	int64_t now_ms = clock_boottime_ms();

	if (!bridge->ended)
		return true;
	if (bridge->leave_ms == 0)
		bridge->leave_ms = now_ms + LEAVE_AFTER_MS;
	return bridge->n_calls > 0 && now_ms < bridge->leave_ms && !ferror(stdout);
}

int mcp_bridge_run(const struct mcp_bridge_config *config)
{
	struct bridge bridge = { .config = *config };
	struct err err = ERR_INIT;
	char random[17];
	int r = 0;

	rand_hex(random, sizeof(random) - 1);
	snprintf(bridge.user_agent, sizeof(bridge.user_agent), "skerry-mcp/%s (%s)", SKERRY_VERSION,
		 random);
	LIST_INIT(&bridge.calls);
	while (r == 0 && goes_on(&bridge)) {
		struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
		bool listens = !bridge.ended && bridge.n_calls < CALLS_MAX;

		r = client_poll(config->client, &input, listens ? 1 : 0, TRY_EVERY_MS, &err);
		if (r == 0 && listens && input.revents)
			read_input(&bridge);
		send_waiting(&bridge);
	}
	while (!LIST_EMPTY(&bridge.calls))
		call_end(LIST_FIRST(&bridge.calls));
	buf_clear(&bridge.input);
	return r < 0 ? report_err(&err) : CLI_OK;
}
