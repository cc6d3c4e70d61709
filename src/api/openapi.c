/*
 * The OpenAPI 3.1 document, from the operations table.
 */
#include <string.h>

#include "api/openapi_schemas.h"
#include "api/ops.h"
#include "api/ops_internal.h"
#include "api/rest_internal.h"
#include "base/json.h"
#include "base/str.h"
#include "base/version.h"

static json_t *reference(const char *path)
{
	json_t *json = json_object();

	json_put_str(json, "$ref", path);
	return json;
}

/* {"description": …, "content": {type: {"schema": schema}}}; schema is taken over. */
static json_t *response(const char *description, const char *type, json_t *schema)
{
	json_t *json = json_object(), *content = json_object(), *media = json_object();

	json_put_str(json, "description", description);
	json_put(media, "schema", schema);
	json_put(content, type, media);
	json_put(json, "content", content);
	return json;
}

static json_t *event_stream(const struct op *op)
{
	json_t *media = json_object(), *schema = json_object();

	json_put_str(schema, "type", "string");
	if (str_eq(op->name, "list_events"))
		json_put_str(schema, "description",
			     "Server-sent events: ready {cursor}, then each event under the name "
			     "of its type, or gap {from, to} for those that are not kept any "
			     "more; each with its id, which Last-Event-ID goes on from");
	else
		json_put_str(schema, "description",
			     str_starts(op->name, "exec")
				     ? "Server-sent events: started {exec_id}, stdout "
				       "and stderr {offset, data or "
				       "data_base64}, gap {stream, from, to}, and at "
				       "the end exit (the result without "
				       "output) or error (a problem)"
				     : "Server-sent events: progress {percent, "
				       "message}, and at the end result or "
				       "error (a problem)");
	json_put(media, "schema", schema);
	return media;
}

/* {type: {"schema": binary}} */
static json_t *bytes_content(const struct op *op)
{
	json_t *content = json_object(), *media = json_object(), *schema = json_object();

	json_put_str(schema, "type", "string");
	json_put_str(schema, "format", "binary");
	json_put(media, "schema", schema);
	json_put(content, op->bytes_type, media);
	return content;
}

static json_t *responses(const struct op *op)
{
	json_t *json = json_object(), *success;
	char status[8];

	success = op->rest_status == 101
			  ? json_pack("{s:s}", "description",
				      "A WebSocket (RFC 6455), protocol skerry.terminal")
			  : response(op->title, "application/json", openapi_result_schema(op));
	if (op->bytes == OP_BYTES_OUT)
		json_put(success, "content", bytes_content(op));
	if (op->streams)
		json_put(json_object_get(success, "content"), "text/event-stream",
			 event_stream(op));
	snprintf(status, sizeof(status), "%d", op->rest_status);
	json_put(json, status, success);
	json_put(json, "default", reference("#/components/responses/Problem"));
	return json;
}

static json_t *parameter(const struct op *op, const struct op_arg *arg, const json_t *input)
{
	json_t *json = json_object();
	json_t *schema = json_object_get(json_object_get(input, "properties"), arg->name);

	json_put_str(json, "name", arg->name);
	json_put_str(json, "in", arg->flags & ARG_IN_PATH ? "path" : "query");
	if (arg->flags & ARG_REQUIRED)
		json_put(json, "required", json_true());
	if (arg->description)
		json_put_str(json, "description", arg->description);
	json_put(json, "schema", json_deep_copy(schema));
	return json;
}

static void put_idempotency_header(json_t *parameters)
{
	json_t *json = json_object(), *schema = json_object();

	json_put_str(schema, "type", "string");
	json_put_int(schema, "minLength", 1);
	json_put_int(schema, "maxLength", 255);
	json_put_str(json, "name", "Idempotency-Key");
	json_put_str(json, "in", "header");
	json_put_str(
		json, "description",
		"The same key with the same body answers the same sandbox; with another body 409");
	json_put(json, "schema", schema);
	json_array_append_new(parameters, json);
}

static json_t *example_of(const struct op *op)
{
	static const struct {
		const char *op, *body;
	} examples[] = {
		{ "create_sandbox",
		  "{\"size\":\"small\",\"timeout_minutes\":30,\"labels\":{\"task\":\"42\"}}" },
		{ "exec", "{\"command\":\"uname -a\",\"timeout_ms\":10000}" },
		{ "extend_sandbox", "{\"additional_minutes\":15}" },
		{ "exec_input", "{\"data\":\"yes\\n\",\"close\":true}" },
		{ "exec_signal", "{\"signal\":\"SIGINT\"}" },
		{ "build_image", "{\"name\":\"base\"}" },
		{ "import_image", "{\"source\":\"docker://docker.io/library/alpine:3.20\"}" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(examples); i++) {
		if (str_eq(examples[i].op, op->name))
			return json_loads(examples[i].body, 0, NULL);
	}
	return NULL;
}

/* The schema of the arguments that travel in the body; NULL when there are none. */
static json_t *request_body(const struct op *op, const json_t *input)
{
	json_t *schema = json_deep_copy(input), *required = json_array(), *json, *content, *media;
	json_t *properties = json_object_get(schema, "properties"), *example;

	for (size_t i = 0; i < op->n_args; i++) {
		const struct op_arg *arg = &op->args[i];

		if (!ops_is_body_arg(op, arg))
			json_object_del(properties, arg->name);
		else if (arg->flags & ARG_REQUIRED)
			json_array_append_new(required, json_string(arg->name));
	}
	json_object_del(schema, "required");
	if (json_array_size(required) > 0)
		json_put(schema, "required", json_incref(required));
	if (json_object_size(properties) == 0) {
		json_decref(required);
		json_decref(schema);
		return NULL;
	}
	json = json_object();
	content = json_object();
	media = json_object();
	json_put(media, "schema", schema);
	example = example_of(op);
	if (example)
		json_put(media, "example", example);
	json_put(content, "application/json", media);
	json_put(json, "content", content);
	json_put(json, "required", json_boolean(json_array_size(required) > 0));
	json_decref(required);
	return json;
}

static json_t *operation(const struct op *op, const struct core_limits *limits)
{
	json_t *json = json_object(), *parameters = json_array(), *body;
	_cleanup_json_ json_t *input = ops_input_schema(op, OP_SURFACE_REST, limits);

	json_put_str(json, "operationId", op->name);
	json_put_str(json, "summary", op->title);
	json_put_str(json, "description", op->summary);
	json_put_str(json, "x-scope", op->scope); /* which a key needs for it */
	/* For clients that lost an answer: asking again does nothing twice. */
	json_put(json, "x-idempotent", json_boolean(op->hints & (OP_READ_ONLY | OP_IDEMPOTENT)));
	for (size_t i = 0; i < op->n_args; i++) {
		const struct op_arg *arg = &op->args[i];

		if (ops_arg_on(arg, OP_SURFACE_REST) && !ops_is_body_arg(op, arg))
			json_array_append_new(parameters, parameter(op, arg, input));
	}
	if (str_eq(op->name, "create_sandbox"))
		put_idempotency_header(parameters);
	json_put(json, "parameters", parameters);
	body = request_body(op, input);
	if (op->bytes == OP_BYTES_IN) {
		body = json_object();
		json_put(body, "content", bytes_content(op));
		json_put(body, "required", json_true());
	}
	if (body)
		json_put(json, "requestBody", body);
	json_put(json, "responses", responses(op));
	return json;
}

static json_t *paths(const struct core_limits *limits)
{
	json_t *json = json_object();
	size_t n;
	const struct op *ops = ops_all(&n);

	for (size_t i = 0; i < n; i++) {
		json_t *path;
		char method[8];
		size_t len;

		if (!ops[i].rest_method)
			continue;
		path = json_object_get(json, ops[i].rest_path);
		if (!path) {
			path = json_object();
			json_put(json, ops[i].rest_path, path);
		}
		str_copy(method, sizeof(method), ops[i].rest_method);
		len = strlen(method);
		for (size_t c = 0; c < len; c++)
			method[c] = (char)(method[c] | 0x20); /* lower case */
		json_put(path, method, operation(&ops[i], limits));
	}
	return json;
}

static json_t *components(void)
{
	static const char text[] =
		"{\"securitySchemes\":{\"key\":{\"type\":\"http\",\"scheme\":\"bearer\"}},"
		"\"schemas\":{\"Problem\":{\"type\":\"object\",\"description\":\"RFC 9457\","
		"\"required\":[\"type\",\"title\",\"status\",\"detail\",\"code\",\"request_id\"],"
		"\"properties\":{\"type\":{\"type\":\"string\"},\"title\":{\"type\":\"string\"},"
		"\"status\":{\"type\":\"integer\"},"
		"\"detail\":{\"type\":\"string\",\"description\":\"What failed and why\"},"
		"\"code\":{\"type\":\"string\",\"description\":\"Stable, for programs\"},"
		"\"hint\":{\"type\":\"string\",\"description\":\"What to do next\"},"
		"\"request_id\":{\"type\":\"string\"}}}},"
		"\"responses\":{\"Problem\":{\"description\":\"What went wrong\",\"content\":"
		"{\"application/problem+json\":{\"schema\":{\"$ref\":\"#/components/schemas/"
		"Problem\"},"
		"\"example\":{\"type\":\"about:blank\",\"title\":\"Not Found\",\"status\":404,"
		"\"detail\":\"sandbox \\\"sbx_0123456789ab\\\" was not "
		"found\",\"code\":\"not_found\","
		"\"request_id\":\"req_0123456789abcdef\"}}}}}}";
	json_t *json = json_loads(text, 0, NULL);

	if (!json)
		abort(); /* our own text */
	openapi_put_schemas(json_object_get(json, "schemas"));
	return json;
}

json_t *openapi_document(const struct core_limits *limits)
{
	json_t *json = json_object(), *info = json_object(), *security = json_array();
	json_t *requirement = json_object();

	json_put_str(info, "title", "Skerry");
	json_put_str(info, "version", SKERRY_VERSION);
	json_put_str(info, "description",
		     "Linux microVMs for agents. Times are RFC 3339 UTC; lists are {items, "
		     "next_cursor}; "
		     "errors are problem details with a stable code.");
	json_put(requirement, "key", json_array());
	json_array_append_new(security, requirement);
	json_put_str(json, "openapi", "3.1.0");
	json_put(json, "info", info);
	json_put(json, "security", security);
	json_put(json, "paths", paths(limits));
	json_put(json, "components", components());
	return json;
}
