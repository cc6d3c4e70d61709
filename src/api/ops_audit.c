#include "api/ops_audit.h"

#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "core/audit.h"

#define LIST_TEXT_MAX 16384 /* of lists and maps, as text; of longer ones the size is kept */

static bool is_command(const struct op *op)
{
	return str_eq(op->scope, "exec") || str_eq(op->scope, "files");
}

/* Of sandboxes: their rows and events say the same in one transaction, but for who asked. */
static bool is_life(const struct op *op)
{
	static const char *const scopes[] = { "sandbox:create", "sandbox:extend", "sandbox:destroy",
					      "sandbox:pause" };

	for (size_t i = 0; i < ARRAY_SIZE(scopes); i++) {
		if (str_eq(op->scope, scopes[i]))
			return true;
	}
	return false;
}

/* Over MCP the same operation feeds and signals; else it only looks. */
static bool only_looks(const struct op *op, const json_t *args)
{
	return str_eq(op->name, "exec_wait") && !json_object_get(args, "stdin") &&
	       !json_get_bool(args, "close_stdin", false) && !json_object_get(args, "signal");
}

enum ops_audit_mode ops_audit_mode(const struct op *op, const json_t *args)
{
	if ((op->hints & OP_READ_ONLY) || only_looks(op, args))
		return OPS_AUDIT_NONE;
	if (op->bytes || str_eq(op->name, "open_terminal"))
		return OPS_AUDIT_BYTES;
	if (is_command(op))
		return OPS_AUDIT_COMMAND;
	return is_life(op) ? OPS_AUDIT_LIFE : OPS_AUDIT_CHANGE;
}

static bool waits_before(enum ops_audit_mode mode)
{
	return mode == OPS_AUDIT_BYTES || mode == OPS_AUDIT_CHANGE;
}

bool ops_audit_waits_after(const struct op *op, const json_t *args)
{
	const enum ops_audit_mode mode = ops_audit_mode(op, args);

	return mode == OPS_AUDIT_LIFE || mode == OPS_AUDIT_CHANGE;
}

/* ---- what is kept ---- */

static void put_text(json_t *out, const char *name, const json_t *value)
{
	const char *text = json_string_value(value);
	size_t len = json_string_length(value);
	char size_name[64];

	if (len <= CORE_AUDIT_COMMAND_MAX) {
		json_put(out, name, json_incref((json_t *)(uintptr_t)value));
		return;
	}
	snprintf(size_name, sizeof(size_name), "%s_bytes", name);
	json_put(out, name, json_stringn(text, utf8_whole_prefix(text, CORE_AUDIT_COMMAND_MAX)));
	json_put_int(out, size_name, (int64_t)len);
}

static void put_collection(json_t *out, const char *name, const json_t *value)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	char size_name[64];

	json_write(value, &text);
	if (text.len <= LIST_TEXT_MAX) {
		json_put(out, name, json_incref((json_t *)(uintptr_t)value));
		return;
	}
	snprintf(size_name, sizeof(size_name), "%s_count", name);
	json_put_int(
		out, size_name,
		(int64_t)(json_is_array(value) ? json_array_size(value) : json_object_size(value)));
}

static bool is_default(const struct op_arg *arg, const json_t *value)
{
	_cleanup_json_ json_t *initial = NULL;

	if (!arg->default_json)
		return false;
	initial = json_loads(arg->default_json, JSON_DECODE_ANY, NULL);
	return json_equal(initial, value);
}

json_t *ops_audit_args(const struct op *op, const json_t *args)
{
	json_t *out = json_object();

	for (size_t i = 0; i < op->n_args; i++) {
		const struct op_arg *arg = &op->args[i];
		const json_t *value = json_object_get(args, arg->name);

		if (!value || (arg->flags & (ARG_SECRET | ARG_SANDBOX)) || is_default(arg, value))
			continue;
		if (json_is_string(value))
			put_text(out, arg->name, value);
		else if (json_is_array(value) || json_is_object(value))
			put_collection(out, arg->name, value);
		else
			json_put(out, arg->name, json_incref((json_t *)(uintptr_t)value));
	}
	return out;
}

static json_t *ids_of(const json_t *list)
{
	json_t *ids = json_array();
	const json_t *item;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, item)
		json_array_append_new(ids, json_string(json_get_str(item, "id", "?")));
	return ids;
}

json_t *ops_audit_outcome(const json_t *result)
{
	static const char *const kept[] = {
		"id",	     "exec_id",	   "running", "exit_code",	"signal",
		"timed_out", "expires_at", "status",  "accepted_bytes", "terminal_id",
	};
	json_t *out = json_object();
	const json_t *sandboxes = json_object_get(result, "sandboxes");

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		const json_t *value = json_object_get(result, kept[i]);

		if (value && !json_is_null(value) && !json_is_false(value))
			json_put(out, kept[i], json_incref((json_t *)(uintptr_t)value));
	}
	if (sandboxes)
		json_put(out, "sandboxes", ids_of(sandboxes));
	return out;
}

/* ---- calls ---- */

static bool is_sandbox_id(const char *text)
{
	return text && str_starts(text, "sbx_");
}

static struct core_audit_call describe(const struct op_call *call, const struct op *op,
				       const char *sandbox_id)
{
	return (struct core_audit_call){
		.operation = op->name,
		.surface = call->surface == OP_SURFACE_MCP ? "mcp" : "rest",
		.request_id = call->request_id,
		.peer = call->peer,
		.sandbox_id = sandbox_id,
		.args = op == call->op ? ops_audit_args(op, call->args) : json_object(),
		.ends = (op->hints & OP_DESTRUCTIVE) && str_eq(op->rest_method, "DELETE"),
	};
}

int ops_audit_begin(struct op_call *call, struct err *err)
{
	const enum ops_audit_mode mode = ops_audit_mode(call->op, call->args);
	struct core_audit_call begin;

	if (mode == OPS_AUDIT_NONE)
		return 0;
	begin = describe(call, call->op, op_call_sandbox(call));
	return core_audit_begin(call->core, &call->who, &begin, waits_before(mode), &call->audit,
				err);
}

static struct core_audit_end end_of(const struct op_call *call, const struct err *err)
{
	const char *made = json_get_str(call->result, "id", NULL);

	return (struct core_audit_end){
		.result = err ? err_code_of(err) : "ok",
		.sandbox_id = is_sandbox_id(made) ? made : NULL,
		.outcome = ops_audit_outcome(call->result),
	};
}

void ops_audit_end(struct op_call *call, const struct err *err, void (*then)(void *arg), void *arg)
{
	struct core_audit_end end;

	if (!call->audit) {
		if (then)
			then(arg);
		return;
	}
	end = end_of(call, err);
	core_audit_end(call->core, STEAL(call->audit), &end, then, arg);
}

void ops_audit_end_wait(struct op_call *call, const struct err *err)
{
	struct core_audit_end end;

	if (!call->audit)
		return;
	end = end_of(call, err);
	core_audit_end_wait(call->core, STEAL(call->audit), &end);
}

void ops_audit_note(const struct op_call *call, const struct op *op, const char *sandbox_id,
		    const struct err *err)
{
	struct core_audit_call begin = describe(call, op, sandbox_id);
	const struct core_audit_end end = { .result = err ? err_code_of(err) : "ok" };
	struct core_audit_entry *entry;

	if (core_audit_begin(call->core, &call->who, &begin, false, &entry, NULL) == 0)
		core_audit_end(call->core, entry, &end, NULL, NULL);
}
