/*
 * The reference as Markdown, from the operations table: a section for each part of the service, in
 * it each operation with its route, scope, arguments and results.
 */
#include <string.h>

#include "api/docs_fill.h"
#include "api/ops.h"
#include "api/ops_internal.h"
#include "base/json.h"
#include "base/str.h"

/* ---- which section ---- */

/* The first part of a path that occurs decides; order matters. */
static const struct {
	const char *part, *section;
} sections_of[] = {
	{ "/exec", "Commands" },
	{ "/terminal", "Terminals" },
	{ "/files", "Files" },
	{ "/tree", "Files" },
	{ "/egress", "Egress" },
	{ "/v1/networks", "Networks" },
	{ "/expose", "Previews" },
	{ "snapshots", "Snapshots" },
	{ "/v1/sandboxes", "Sandboxes" },
	{ "/v1/images", "Images" },
	{ "/v1/events", "Events" },
	{ "/v1/usage", "Credits" },
	{ "/v1/prices", "Credits" },
	{ "/v1/ledger", "Credits" },
	{ "/grants", "Credits" },
	{ "/v1/keys", "Keys and accounts" },
	{ "/v1/accounts", "Keys and accounts" },
	{ "/v1/session", "Keys and accounts" },
	{ "/v1/audit", "Audit" },
	{ "", "The server" },
};

static const char *const sections[] = {
	"Sandboxes",	     "Commands", "Terminals", "Files",	    "Egress",
	"Networks",	     "Previews", "Snapshots", "Images",	    "Events",
	"Keys and accounts", "Credits",	 "Audit",     "The server",
};

static const char *section_of(const struct op *op)
{
	size_t i = 0;

	while (!strstr(op->rest_path, sections_of[i].part))
		i++;
	return sections_of[i].section;
}

/* ---- arguments ---- */

static void put_choice(void *arg, const char *choice)
{
	buf_printf(arg, "%s`%s`", ((struct buf *)arg)->len ? ", " : "", choice);
}

static void put_size_bounds(struct buf *out, int64_t min, int64_t max, const char *what)
{
	if (max <= 0 || max == INT64_MAX)
		return;
	if (min > 0)
		buf_printf(out, " of %lld to %lld %s", (long long)min, (long long)max, what);
	else
		buf_printf(out, " of at most %lld %s", (long long)max, what);
}

static void put_type(const struct op_arg *arg, const struct core_limits *limits, struct buf *out)
{
	int64_t min, max;

	ops_arg_bounds(arg, limits, &min, &max);
	switch (arg->type) {
	case ARG_STRING:
		buf_append_str(out, "string");
		put_size_bounds(out, min, max, "bytes");
		break;
	case ARG_INTEGER:
		buf_append_str(out, "integer");
		if (max == INT64_MAX)
			buf_printf(out, " from %lld", (long long)min);
		else
			buf_printf(out, " from %lld to %lld", (long long)min, (long long)max);
		break;
	case ARG_NUMBER:
		buf_printf(out, "number from %g to %g", (double)min / 1000, (double)max / 1000);
		break;
	case ARG_BOOLEAN:
		buf_append_str(out, "boolean");
		break;
	case ARG_STRING_MAP:
		buf_append_str(out, "object of strings");
		put_size_bounds(out, 0, max, "entries");
		break;
	case ARG_STRING_LIST:
		buf_append_str(out, "list of strings");
		put_size_bounds(out, 0, max, "entries");
		break;
	case ARG_RULES:
		buf_append_str(out, "null, or list of rules");
		put_size_bounds(out, 0, max, "entries");
		break;
	case ARG_OBJECT:
		buf_append_str(out, "object");
		break;
	}
}

static void put_default(const struct op_arg *arg, const struct core_limits *limits, struct buf *out)
{
	_cleanup_json_ json_t *value = NULL;
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (arg->limit_default) {
		value = ops_limit_json(limits, arg->limit_default);
	} else if (arg->default_json) {
		value = json_loads(arg->default_json, JSON_DECODE_ANY, NULL);
	}
	if (json_is_string(value))
		buf_append_str(&text, json_string_value(value));
	else if (value)
		json_write(value, &text);
	if (text.len > 0)
		buf_printf(out, "; default `%s`", buf_str(&text));
}

/* A cell of a table: what would end it is escaped. */
static void put_cell(struct buf *out, const char *text)
{
	for (; text && *text; text++) {
		if (*text == '|')
			buf_append_char(out, '\\');
		buf_append_char(out, *text);
	}
}

static const char *place_of(const struct op *op, const struct op_arg *arg)
{
	return arg->flags & ARG_IN_PATH ? "path" : ops_is_body_arg(op, arg) ? "body" : "query";
}

static void put_arg(const struct op *op, const struct op_arg *arg, const char *prefix,
		    const char *place, const struct core_limits *limits, struct buf *out)
{
	_cleanup_buf_ struct buf choices = BUF_INIT;

	buf_printf(out, "| `%s%s`%s | %s | ", prefix, arg->name,
		   arg->flags & ARG_REQUIRED ? " *" : "", place);
	if (ops_arg_choices(arg, limits, put_choice, &choices))
		buf_append_str(out, buf_str(&choices));
	else
		put_type(arg, limits, out);
	put_default(arg, limits, out);
	buf_append_str(out, " | ");
	put_cell(out, arg->description);
	buf_append_str(out, " |\n");
	for (size_t i = 0; i < arg->n_fields; i++) {
		_cleanup_buf_ struct buf inner = BUF_INIT;

		buf_printf(&inner, "%s%s.", prefix, arg->name);
		put_arg(op, &arg->fields[i], buf_str(&inner), place, limits, out);
	}
}

static void put_args(const struct op *op, const struct core_limits *limits, struct buf *out)
{
	bool any = false;

	for (size_t i = 0; i < op->n_args; i++) {
		if (!ops_arg_on(&op->args[i], OP_SURFACE_REST))
			continue;
		if (!any)
			buf_append_str(out, "\n| argument | in | | |\n|---|---|---|---|\n");
		any = true;
		put_arg(op, &op->args[i], "", place_of(op, &op->args[i]), limits, out);
	}
}

/* ---- results ---- */

static void put_fields(const struct op *op, struct buf *out)
{
	for (size_t i = 0; i < op->n_results; i++)
		buf_printf(out, "%s`%s`%s", i ? ", " : " with ", op->results[i].name,
			   op->results[i].optional ? " (not always)" : "");
}

static void put_answer(const struct op *op, struct buf *out)
{
	const struct op *whole = ops_find("get_sandbox");

	if (op->rest_status == 101) {
		buf_append_str(out, "\nAnswer: 101, a WebSocket.\n");
		return;
	}
	buf_printf(out, "\nAnswer: %d", op->rest_status);
	if (whole && op != whole && op->results && op->results == whole->results) {
		buf_printf(out, " with a sandbox, as of `%s %s`.\n", whole->rest_method,
			   whole->rest_path);
		return;
	}
	if (op->bytes == OP_BYTES_OUT)
		buf_printf(out, ", `%s`", op->bytes_type);
	else if (op->results)
		put_fields(op, out);
	buf_append_str(out, ".\n");
}

/* ---- operations ---- */

static void put_scope(const struct op *op, struct buf *out)
{
	if (!op->scope)
		buf_append_str(out, " Any key may.");
	else if (str_eq(op->scope, "admin"))
		buf_append_str(out, " For administrators.");
	else
		buf_printf(out, " Scope `%s`.", op->scope);
}

static void put_op(const struct op *op, const struct core_limits *limits, struct buf *out)
{
	buf_printf(out, "\n### `%s %s`\n\n`%s`: %s", op->rest_method, op->rest_path, op->name,
		   op->summary);
	put_scope(op, out);
	if (op->on_mcp)
		buf_append_str(out, " A tool on MCP.");
	if (op->streams)
		buf_append_str(out, " Streams with `Accept: text/event-stream`.");
	if (op->bytes == OP_BYTES_IN)
		buf_printf(out, " The body is `%s`.", op->bytes_type);
	buf_append_char(out, '\n');
	put_args(op, limits, out);
	put_answer(op, out);
}

void docs_reference(const struct core_limits *limits, struct buf *out)
{
	size_t n;
	const struct op *ops = ops_all(&n);

	for (size_t s = 0; s < ARRAY_SIZE(sections); s++) {
		buf_printf(out, "%s## %s\n", s ? "\n" : "", sections[s]);
		for (size_t i = 0; i < n; i++) {
			if (ops[i].rest_method && str_eq(section_of(&ops[i]), sections[s]))
				put_op(&ops[i], limits, out);
		}
	}
}
