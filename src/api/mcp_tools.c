/*
 * Tools for models. Some clients show the model only the text of a result, others only the
 * structured part, so that both carry everything. The text of a command is laid out for reading;
 * all else is JSON.
 */
#include "api/mcp_tools.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"

/* Claude Code writes longer results to a file instead of showing them; output is bounded by
 * max_output_bytes already, and a model that raised that wants to see what it asked for. */
#define MAX_RESULT_CHARS 500000

const char mcp_instructions[] =
	"Skerry gives you Linux microVMs of your own (sandboxes), isolated from the host. "
	"create_sandbox returns an id; exec runs shell commands there. Files and "
	"background "
	"processes stay between calls, sudo needs no password, and a non-zero exit code is a "
	"result, "
	"not an error. Write files by exec with a heredoc. A command that takes long answers "
	"running: "
	"true and an exec_id: call exec_wait until running is false. A sandbox is destroyed at its "
	"expires_at: extend_sandbox before that if you need it longer, pause_sandbox to keep it "
	"for "
	"later (the next use resumes it), destroy_sandbox when you are done. fork_sandbox copies "
	"one as it runs, to try several ways at once. What a sandbox may reach is set by egress: "
	"where a request fails, egress_denied in the result of exec says why and which rule of "
	"set_egress would allow it. list_sandboxes shows what you have. The server's "
	"documentation, "
	"with its limits and prices, is plain text at /llms.txt of its address.";

/* ---- which tools ---- */

static void all_tools(struct mcp_toolset *set)
{
	const struct op *ops;
	size_t n, i;

	ops = ops_all(&n);
	set->n = 0;
	for (i = 0; i < n && set->n < MCP_TOOLS_MAX; i++) {
		if (ops[i].on_mcp)
			set->ops[set->n++] = &ops[i];
	}
}

const struct op *mcp_toolset_find(const struct mcp_toolset *set, const char *name)
{
	size_t i;

	for (i = 0; i < set->n; i++) {
		if (str_eq(set->ops[i]->name, name))
			return set->ops[i];
	}
	return NULL;
}

const struct op *mcp_tool_find(const char *name)
{
	struct mcp_toolset all;

	all_tools(&all);
	return mcp_toolset_find(&all, name);
}

struct narrowing {
	struct mcp_toolset all;
	bool wanted[MCP_TOOLS_MAX];
	bool given;
	char unknown[64];
};

static void want(struct narrowing *narrowing, const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < narrowing->all.n; i++) {
		const char *known = narrowing->all.ops[i]->name;

		if (strlen(known) == len && memcmp(known, name, len) == 0) {
			narrowing->wanted[i] = true;
			return;
		}
	}
	if (len > sizeof(narrowing->unknown) - 1)
		len = sizeof(narrowing->unknown) - 1;
	memcpy(narrowing->unknown, name, len);
	narrowing->unknown[len] = '\0';
}

static void read_parameter(void *arg, const char *key, const char *value, size_t len)
{
	struct narrowing *narrowing = arg;
	const char *end = value + len, *comma;

	if (!str_eq(key, "tools"))
		return;
	narrowing->given = true;
	for (; value < end; value = comma + 1) {
		comma = memchr(value, ',', (size_t)(end - value));
		if (!comma)
			comma = end;
		if (comma > value)
			want(narrowing, value, (size_t)(comma - value));
	}
}

int mcp_toolset_read(const struct http_request *req, const struct principal *who,
		     struct mcp_toolset *ret, struct err *err)
{
	struct narrowing narrowing = { 0 };
	struct mcp_toolset set = { 0 };
	size_t i;

	all_tools(&narrowing.all);
	http_query_each(req, read_parameter, &narrowing);
	if (narrowing.unknown[0]) {
		_cleanup_buf_ struct buf names = BUF_INIT;

		for (i = 0; i < narrowing.all.n; i++)
			buf_printf(&names, "%s%s", i ? ", " : "", narrowing.all.ops[i]->name);
		return err_code(err, -EINVAL, "invalid_argument",
				"?tools= names \"%s\", which is not a tool; there are %s",
				narrowing.unknown, buf_str(&names));
	}
	for (i = 0; i < narrowing.all.n; i++) {
		const struct op *op = narrowing.all.ops[i];

		if ((!narrowing.given || narrowing.wanted[i]) &&
		    key_scope_allows(who->scope, op->scope, op->name))
			set.ops[set.n++] = op;
	}
	*ret = set;
	return 0;
}

bool mcp_tool_is_slow(const struct op *op)
{
	return op->streams || str_eq(op->name, "exec_wait") || str_eq(op->name, "create_sandbox") ||
	       str_eq(op->name, "fork_sandbox");
}

/* ---- definitions ---- */

static json_t *annotations(const struct op *op)
{
	json_t *hints = json_object();

	json_put(hints, "readOnlyHint", json_boolean(op->hints & OP_READ_ONLY));
	json_put(hints, "destructiveHint", json_boolean(op->hints & OP_DESTRUCTIVE));
	json_put(hints, "idempotentHint", json_boolean(op->hints & OP_IDEMPOTENT));
	json_put(hints, "openWorldHint", json_boolean(op->hints & OP_OPEN_WORLD));
	return hints;
}

static bool gives_output(const struct op *op)
{
	return str_eq(op->name, "exec") || str_eq(op->name, "exec_wait");
}

static json_t *definition(const struct op *op, const struct core_limits *limits)
{
	json_t *tool = json_object(), *meta;

	json_put_str(tool, "name", op->name);
	json_put_str(tool, "title", op->title);
	json_put_str(tool, "description", op->summary);
	json_put(tool, "inputSchema", ops_input_schema(op, OP_SURFACE_MCP, limits));
	json_put(tool, "outputSchema", ops_output_schema(op, OP_SURFACE_MCP));
	json_put(tool, "annotations", annotations(op));
	if (gives_output(op)) {
		meta = json_object();
		json_put_int(meta, "anthropic/maxResultSizeChars", MAX_RESULT_CHARS);
		json_put(tool, "_meta", meta);
	}
	return tool;
}

json_t *mcp_toolset_list(const struct mcp_toolset *set, const struct core_limits *limits)
{
	json_t *tools = json_array();
	size_t i;

	for (i = 0; i < set->n; i++)
		json_array_append_new(tools, definition(set->ops[i], limits));
	return tools;
}

/* ---- results ---- */

static void append_section(struct buf *text, const char *name, const json_t *output)
{
	size_t len = json_string_length(output);

	if (len == 0) {
		buf_printf(text, "%s: (empty)\n", name);
		return;
	}
	buf_printf(text, "--- %s ---\n", name);
	buf_append(text, json_string_value(output), len);
	if (text->data[text->len - 1] != '\n')
		buf_append_char(text, '\n');
}

static void append_outcome(struct buf *text, const json_t *answer)
{
	const char *exec_id = json_get_str(answer, "exec_id", "");
	long long ms = json_get_int(answer, "duration_ms", 0);

	if (json_get_bool(answer, "running", false))
		buf_printf(text, "still running after %lld ms; call exec_wait with exec_id %s\n",
			   ms, exec_id);
	else if (json_get_bool(answer, "timed_out", false))
		buf_printf(text, "timed out and killed after %lld ms, exit code %lld\n", ms,
			   (long long)json_get_int(answer, "exit_code", 124));
	else
		buf_printf(text, "exit code %lld after %lld ms\n",
			   (long long)json_get_int(answer, "exit_code", 0), ms);
}

/* How it ended, what it printed, then every other field. */
static void append_command(struct buf *text, const json_t *answer)
{
	const char *key, *separator = "";
	const json_t *value;

	append_outcome(text, answer);
	append_section(text, "stdout", json_object_get(answer, "stdout"));
	append_section(text, "stderr", json_object_get(answer, "stderr"));
	buf_append_char(text, '(');
	json_object_foreach((json_t *)answer, key, value) {
		if (str_eq(key, "stdout") || str_eq(key, "stderr"))
			continue;
		buf_printf(text, "%s%s: ", separator, key);
		json_write(value, text);
		separator = ", ";
	}
	buf_append_str(text, ")\n");
}

static json_t *text_content(const struct buf *text)
{
	json_t *content = json_array(), *block = json_object();

	json_put_str(block, "type", "text");
	json_put(block, "text", json_from_bytes(buf_str(text), text->len));
	json_array_append_new(content, block);
	return content;
}

json_t *mcp_tool_result(const struct op *op, json_t *answer)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	json_t *result = json_object();

	if (gives_output(op))
		append_command(&text, answer);
	else
		json_write(answer, &text);
	json_put(result, "content", text_content(&text));
	json_put(result, "structuredContent", json_incref(answer));
	json_put(result, "isError", json_false());
	return result;
}

/* ---- failures ---- */

/* What to do next, by the stable code of the failure. */
static const struct {
	const char *code, *next;
} next_steps[] = {
	{ "invalid_argument", "nothing was changed; correct the argument and call the tool again" },
	{ "invalid_cursor", "call list_sandboxes without cursor" },
	{ "not_found", "call list_sandboxes to see what there is, or create_sandbox" },
	{ "exec_not_found", "call exec to run a command; exec_wait takes the exec_id it returned" },
	{ "exec_ended", "call exec_wait without stdin and signal to read its result" },
	{ "exec_limit", "call exec_wait on a running command, or signal it to end" },
	{ "input_closed", "call exec with stdin_open: true for a command that is to be fed" },
	{ "input_full", "call exec_wait without stdin to let the command read what it has" },
	{ "already_ended", "call create_sandbox to make a new one" },
	{ "sandbox_ended", "call create_sandbox to make a new one" },
	{ "sandbox_not_running", "call list_sandboxes to see its status" },
	{ "limit_reached", "call create_sandbox for a new sandbox and move your work there" },
	{ "quota_reached", "call list_sandboxes, then destroy_sandbox on one not needed any more" },
	{ "no_credit",
	  "destroy_sandbox on one that runs, or tell the user that credit is used up" },
	{ "spend_cap_reached", "tell the user that this key has spent what it may" },
	{ "invalid_egress_rule", "nothing was changed; correct the rule and call the tool again" },
	{ "network_unavailable",
	  "go on without network, or ask the operator to run skerry doctor" },
	{ "network_not_found",
	  "call create_sandbox without network; `skerry network create` makes one" },
	{ "scope_denied", "go on without it, or ask the operator for a key that may" },
	{ "image_not_found", "call create_sandbox without image for the default one" },
	{ "agent_gone", "call list_sandboxes to see the sandbox's status, then try again" },
	{ "agent_unresponsive", "call exec_wait with the exec_id, or destroy_sandbox" },
	{ "shutting_down", "try again when the server is back; sandboxes and commands go on" },
	{ "busy", "wait a few seconds and call the tool again" },
};

static const char *next_step(const char *code)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(next_steps); i++) {
		if (str_eq(next_steps[i].code, code))
			return next_steps[i].next;
	}
	return "call list_sandboxes to see the state of your sandboxes, then decide";
}

static void append_state(struct buf *text, struct core *core, const struct principal *who,
			 const json_t *args)
{
	const char *id = json_get_str(args, "id", NULL);
	const struct core_action read = { "sandbox:read", "get_sandbox", id };
	struct sandbox_info info = { 0 };
	char time[CLOCK_RFC3339_SIZE];

	if (!id || core_authorize(core, who, &read, NULL) < 0 ||
	    core_get(core, who, id, &info, NULL) < 0)
		return;
	buf_printf(text, "State now: sandbox %s is %s", info.id, sandbox_status_name(info.status));
	if (info.ended_unix_ms)
		buf_printf(text, " since %s: %s", clock_rfc3339(info.ended_unix_ms, time),
			   info.reason_text[0] ? info.reason_text : info.reason);
	else
		buf_printf(text, ", expires at %s", clock_rfc3339(info.expires_unix_ms, time));
	buf_append_char(text, '\n');
	sandbox_info_clear(&info);
}

json_t *mcp_tool_failure(const struct op *op, struct core *core, const struct principal *who,
			 const json_t *args, const struct err *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	const char *code = err_code_of(err);
	json_t *result = json_object();

	buf_printf(&text, "%s failed (%s): %s\n", op->name, code, err->message);
	append_state(&text, core, who, args);
	if (err->hint[0])
		buf_printf(&text, "Hint: %s\n", err->hint);
	buf_printf(&text, "Next: %s\n", next_step(code));
	json_put(result, "content", text_content(&text));
	json_put(result, "isError", json_true());
	return result;
}
