/*
 * The named schemas of the OpenAPI document: what several operations answer, and what is in lists.
 *
 * A result of the table gets a name here, and every operation whose result it is refers to it. What
 * is in a list the table leaves open, because a model that reads MCP's schemas has to pay for every
 * word; programs are told here. tests/sdk holds real answers against this document.
 */
#include "api/openapi_schemas.h"

#include "api/ops_internal.h"
#include "base/json.h"
#include "base/str.h"

/* The result of an operation, under a name. */
static const struct {
	const char *name, *op;
} results[] = {
	{ "Sandbox", "get_sandbox" },	     { "ExecResult", "exec" },
	{ "Snapshot", "create_snapshot" },   { "Egress", "get_egress" },
	{ "Network", "create_network" },     { "NetworkMembership", "join_network" },
	{ "FileEntry", "stat_file" },	     { "Image", "build_image" },
	{ "SandboxEnd", "destroy_sandbox" }, { "Key", "revoke_key" },
	{ "NewKey", "create_key" },
};

#define STRING_TYPE  "{\"type\":\"string\"}"
#define INTEGER_TYPE "{\"type\":\"integer\"}"
#define TEXT_OR_NULL "{\"type\":[\"string\",\"null\"]}"
#define NUM_OR_NULL  "{\"type\":[\"integer\",\"null\"]}"
#define NUMBER_TYPE  "{\"type\":\"number\"}"
#define BOOLEAN_TYPE "{\"type\":\"boolean\"}"
#define TIME_TYPE    "{\"type\":\"string\",\"format\":\"date-time\"}"
#define MAYBE_TIME   "{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}"
#define TEXTS	     "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}"

/* Objects that are no operation's result. Members are required but for the optional ones. */
struct member {
	const char *name, *schema;
	bool optional;
};

static const struct member event_members[] = {
	{ "id", INTEGER_TYPE, false },
	{ "at", TIME_TYPE, false },
	{ "type", STRING_TYPE, false },
	{ "sandbox_id", TEXT_OR_NULL, false },
	{ "data", "{\"type\":\"object\"}", false },
};

static const struct member gap_members[] = {
	{ "from", INTEGER_TYPE, false },
	{ "to", INTEGER_TYPE, false },
};

static const struct member denial_members[] = {
	{ "host", TEXT_OR_NULL, false },  { "address", TEXT_OR_NULL, false },
	{ "port", NUM_OR_NULL, false },	  { "protocol", TEXT_OR_NULL, false },
	{ "reason", STRING_TYPE, false }, { "rule", TEXT_OR_NULL, false },
	{ "at", TIME_TYPE, false },	  { "count", INTEGER_TYPE, false },
	{ "first_at", TIME_TYPE, false },
};

static const struct member short_denial_members[] = {
	{ "target", STRING_TYPE, false },
	{ "reason", STRING_TYPE, false },
	{ "rule", TEXT_OR_NULL, false },
};

/* As of exec, without output. */
static const struct member command_members[] = {
	{ "exec_id", STRING_TYPE, false },	     { "command", STRING_TYPE, false },
	{ "command_truncated", BOOLEAN_TYPE, true }, { "started_at", TIME_TYPE, false },
	{ "running", BOOLEAN_TYPE, false },	     { "exit_code", NUM_OR_NULL, false },
	{ "signal", TEXT_OR_NULL, false },	     { "duration_ms", INTEGER_TYPE, false },
	{ "timed_out", BOOLEAN_TYPE, false },	     { "out_of_memory", BOOLEAN_TYPE, false },
	{ "stdout_bytes", INTEGER_TYPE, false },     { "stderr_bytes", INTEGER_TYPE, false },
};

static const struct member network_member_members[] = {
	{ "id", STRING_TYPE, false },
	{ "name", STRING_TYPE, false },
	{ "host", STRING_TYPE, false },
	{ "address", TEXT_OR_NULL, false },
};

static const struct member directory_entry_members[] = {
	{ "name", STRING_TYPE, false },	 { "name_base64", STRING_TYPE, true },
	{ "type", STRING_TYPE, false },	 { "size", NUM_OR_NULL, false },
	{ "mode", STRING_TYPE, false },	 { "user", TEXT_OR_NULL, false },
	{ "uid", INTEGER_TYPE, false },	 { "group", TEXT_OR_NULL, false },
	{ "gid", INTEGER_TYPE, false },	 { "modified_at", MAYBE_TIME, false },
	{ "target", STRING_TYPE, true },
};

static const struct member terminal_members[] = {
	{ "terminal_id", STRING_TYPE, false },	 { "created_at", TIME_TYPE, false },
	{ "cols", INTEGER_TYPE, false },	 { "rows", INTEGER_TYPE, false },
	{ "output_bytes", INTEGER_TYPE, false }, { "busy", BOOLEAN_TYPE, false },
	{ "attached", BOOLEAN_TYPE, false },
};

static const struct member traffic_members[] = {
	{ "out_bytes", INTEGER_TYPE, false },	   { "out_packets", INTEGER_TYPE, false },
	{ "in_bytes", INTEGER_TYPE, false },	   { "in_packets", INTEGER_TYPE, false },
	{ "denied_packets", INTEGER_TYPE, false },
};

static const struct member fork_report_members[] = {
	{ "distinct", TEXTS, false },
	{ "shared", TEXTS, false },
	{ "source_paused_ms", INTEGER_TYPE, false },
};

static const struct member stats_members[] = {
	{ "at", TIME_TYPE, false },
	{ "cpu_percent", NUMBER_TYPE, false },
	{ "memory_bytes", INTEGER_TYPE, false },
};

static const struct member account_members[] = {
	{ "id", STRING_TYPE, false },
	{ "name", STRING_TYPE, false },
	{ "admin", BOOLEAN_TYPE, false },
	{ "created_at", TIME_TYPE, false },
};

static const struct member price_members[] = {
	{ "name", STRING_TYPE, false },
	{ "vcpus", NUMBER_TYPE, false },
	{ "memory_mb", INTEGER_TYPE, false },
	{ "disk_gb", INTEGER_TYPE, false },
	{ "microcredits_per_second", INTEGER_TYPE, false },
	{ "credits_per_hour", NUMBER_TYPE, false },
};

#define USAGE_MEMBERS                                                                              \
	{ "microcredits", INTEGER_TYPE, false },                                                   \
	{                                                                                          \
		"running_seconds", NUMBER_TYPE, false                                              \
	}

static const struct member usage_of_day_members[] = {
	{ "day", STRING_TYPE, false },
	USAGE_MEMBERS,
};

static const struct member usage_of_key_members[] = {
	{ "key_id", STRING_TYPE, false },
	{ "label", TEXT_OR_NULL, false },
	USAGE_MEMBERS,
	{ "last_charged_at", MAYBE_TIME, false },
};

static const struct member usage_of_sandbox_members[] = {
	{ "sandbox_id", STRING_TYPE, false },
	{ "name", TEXT_OR_NULL, false },
	USAGE_MEMBERS,
	{ "last_charged_at", MAYBE_TIME, false },
};

/* A grant has reference and note, a charge what follows them. */
static const struct member ledger_members[] = {
	{ "id", INTEGER_TYPE, false },	     { "at", TIME_TYPE, false },
	{ "kind", STRING_TYPE, false },	     { "debit", STRING_TYPE, false },
	{ "credit", STRING_TYPE, false },    { "microcredits", INTEGER_TYPE, false },
	{ "reference", TEXT_OR_NULL, true }, { "note", TEXT_OR_NULL, true },
	{ "sandbox_id", STRING_TYPE, true }, { "generation", INTEGER_TYPE, true },
	{ "key_id", STRING_TYPE, true },     { "microcredits_per_second", INTEGER_TYPE, true },
	{ "run_began_at", TIME_TYPE, true }, { "from", TIME_TYPE, true },
	{ "to", TIME_TYPE, true },
};

/* One that somebody has changed has seq and damaged alone. */
static const struct member audit_members[] = {
	{ "seq", INTEGER_TYPE, false },
	{ "damaged", BOOLEAN_TYPE, true },
	{ "prev", STRING_TYPE, true },
	{ "at", TIME_TYPE, true },
	{ "account_id", TEXT_OR_NULL, true },
	{ "key_id", TEXT_OR_NULL, true },
	{ "surface", STRING_TYPE, true },
	{ "peer", TEXT_OR_NULL, true },
	{ "request_id", TEXT_OR_NULL, true },
	{ "operation", STRING_TYPE, true },
	{ "sandbox_id", TEXT_OR_NULL, true },
	{ "args", "{\"type\":\"object\"}", true },
	{ "result", STRING_TYPE, true },
	{ "duration_ms", INTEGER_TYPE, true },
	{ "outcome", "{\"type\":\"object\"}", true },
	{ "hash", STRING_TYPE, true },
};

#define MEMBERS(array) array, ARRAY_SIZE(array)

static const struct {
	const char *name;
	const struct member *members;
	size_t n_members;
} objects[] = {
	{ "Event", MEMBERS(event_members) },
	{ "EventGap", MEMBERS(gap_members) },
	{ "Denial", MEMBERS(denial_members) },
	{ "ExecDenial", MEMBERS(short_denial_members) },
	{ "Command", MEMBERS(command_members) },
	{ "NetworkMember", MEMBERS(network_member_members) },
	{ "DirectoryEntry", MEMBERS(directory_entry_members) },
	{ "Terminal", MEMBERS(terminal_members) },
	{ "Traffic", MEMBERS(traffic_members) },
	{ "ForkReport", MEMBERS(fork_report_members) },
	{ "StatsSample", MEMBERS(stats_members) },
	{ "Account", MEMBERS(account_members) },
	{ "SizePrice", MEMBERS(price_members) },
	{ "UsageOfDay", MEMBERS(usage_of_day_members) },
	{ "UsageOfKey", MEMBERS(usage_of_key_members) },
	{ "UsageOfSandbox", MEMBERS(usage_of_sandbox_members) },
	{ "LedgerEntry", MEMBERS(ledger_members) },
	{ "AuditRecord", MEMBERS(audit_members) },
};

/* What a field of a result holds that the table has as an object, or as a list of objects. */
static const struct {
	const char *op, *field, *schema;
} contents[] = {
	{ "list_sandboxes", "items", "Sandbox" },
	{ "list_snapshots", "items", "Snapshot" },
	{ "list_networks", "items", "Network" },
	{ "list_images", "items", "Image" },
	{ "list_events", "items", "Event" },
	{ "list_events", "gap", "EventGap" },
	{ "list_denials", "items", "Denial" },
	{ "list_files", "items", "DirectoryEntry" },
	{ "list_terminals", "items", "Terminal" },
	{ "list_execs", "items", "Command" },
	{ "fork_sandbox", "sandboxes", "Sandbox" },
	{ "fork_sandbox", "fork_report", "ForkReport" },
	{ "get_sandbox", "traffic", "Traffic" },
	{ "create_network", "members", "NetworkMember" },
	{ "exec", "egress_denied", "ExecDenial" },
	{ "get_stats", "samples", "StatsSample" },
	{ "list_keys", "items", "Key" },
	{ "list_accounts", "items", "Account" },
	{ "create_account", "key", "NewKey" },
	{ "prices", "sizes", "SizePrice" },
	{ "get_usage", "by_day", "UsageOfDay" },
	{ "get_usage", "by_key", "UsageOfKey" },
	{ "get_usage", "by_sandbox", "UsageOfSandbox" },
	{ "list_ledger", "items", "LedgerEntry" },
	{ "list_audit", "items", "AuditRecord" },
};

static const struct op *op_named(const char *name)
{
	size_t n;
	const struct op *ops = ops_all(&n);

	for (size_t i = 0; i < n; i++) {
		if (str_eq(ops[i].name, name))
			return &ops[i];
	}
	abort(); /* the tables above name one that is not */
}

static json_t *reference(const char *schema)
{
	json_t *json = json_object();

	json_object_set_new(json, "$ref", json_sprintf("#/components/schemas/%s", schema));
	return json;
}

/* The description of a field stays beside the reference, which JSON Schema 2020-12 allows. */
static void put_content(json_t *field, const char *schema)
{
	json_t *type = json_object_get(field, "type");

	if (json_is_string(type) && str_eq(json_string_value(type), "array")) {
		json_put(field, "items", reference(schema));
		return;
	}
	if (json_is_array(type)) { /* an object or null */
		json_t *choices = json_array(), *null = json_object();

		json_put_str(null, "type", "null");
		json_array_append_new(choices, reference(schema));
		json_array_append_new(choices, null);
		json_put(field, "anyOf", choices);
	} else {
		json_object_set_new(field, "$ref", json_sprintf("#/components/schemas/%s", schema));
	}
	json_object_del(field, "type");
}

static json_t *whole_schema(const struct op *op)
{
	json_t *schema = ops_output_schema(op, OP_SURFACE_REST);

	for (size_t i = 0; i < ARRAY_SIZE(contents); i++) {
		if (str_eq(contents[i].op, op->name))
			put_content(json_object_get(json_object_get(schema, "properties"),
						    contents[i].field),
				    contents[i].schema);
	}
	return schema;
}

json_t *openapi_result_schema(const struct op *op)
{
	for (size_t i = 0; i < ARRAY_SIZE(results) && op->n_results > 0; i++) {
		if (op_named(results[i].op)->results == op->results)
			return reference(results[i].name);
	}
	return whole_schema(op);
}

static json_t *object_schema(const struct member *members, size_t n)
{
	json_t *schema = json_object(), *properties = json_object(), *required = json_array();

	for (size_t i = 0; i < n; i++) {
		json_put(properties, members[i].name, json_loads(members[i].schema, 0, NULL));
		if (!members[i].optional)
			json_array_append_new(required, json_string(members[i].name));
	}
	json_put_str(schema, "type", "object");
	json_put(schema, "properties", properties);
	json_put(schema, "required", required);
	return schema;
}

void openapi_put_schemas(json_t *schemas)
{
	for (size_t i = 0; i < ARRAY_SIZE(results); i++)
		json_put(schemas, results[i].name, whole_schema(op_named(results[i].op)));
	for (size_t i = 0; i < ARRAY_SIZE(objects); i++)
		json_put(schemas, objects[i].name,
			 object_schema(objects[i].members, objects[i].n_members));
}
