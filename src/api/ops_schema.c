/* JSON Schema (2020-12) of arguments and results, from the table. */
#include "api/ops_internal.h"

#include "base/json.h"
#include "base/str.h"

static const char *type_name(enum arg_type type)
{
	switch (type) {
	case ARG_STRING:
		return "string";
	case ARG_INTEGER:
		return "integer";
	case ARG_NUMBER:
		return "number";
	case ARG_BOOLEAN:
		return "boolean";
	case ARG_STRING_MAP:
	case ARG_OBJECT:
		return "object";
	case ARG_STRING_LIST:
	case ARG_RULES:
		return "array";
	}
	abort();
}

static json_t *parse_own(const char *text)
{
	json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);

	if (!value)
		abort(); /* the table's own text */
	return value;
}

static void append_choice(void *array, const char *choice)
{
	json_array_append_new(array, json_string(choice));
}

static void put_bounds(json_t *schema, const struct op_arg *arg, enum op_surface surface,
		       const struct core_limits *limits)
{
	int64_t min, max;

	ops_arg_bounds(arg, limits, &min, &max);
	switch (arg->type) {
	case ARG_INTEGER:
		json_put_int(schema, "minimum", min);
		if (max != INT64_MAX)
			json_put_int(schema, "maximum", max);
		break;
	case ARG_NUMBER:
		json_put(schema, "minimum", json_real((double)min / 1000));
		json_put(schema, "maximum", json_real((double)max / 1000));
		break;
	case ARG_STRING:
		/* Bytes, where JSON Schema counts characters: close enough to tell people, and left
		 * out where every token counts. */
		if (surface == OP_SURFACE_MCP)
			break;
		if (min > 0)
			json_put_int(schema, "minLength", min);
		json_put_int(schema, "maxLength", max);
		break;
	case ARG_STRING_MAP:
		if (surface == OP_SURFACE_REST)
			json_put_int(schema, "maxProperties", max);
		break;
	case ARG_STRING_LIST:
	case ARG_RULES:
		if (surface == OP_SURFACE_REST)
			json_put_int(schema, "maxItems", max);
		break;
	case ARG_BOOLEAN:
	case ARG_OBJECT:
		break;
	}
}

static bool is_list(const struct op_arg *arg)
{
	return arg->type == ARG_STRING_LIST || arg->type == ARG_RULES;
}

static json_t *item_schema(const struct op_arg *arg, enum op_surface surface)
{
	json_t *schema = parse_own("{\"type\":\"string\"}");

	if (arg->pattern && surface == OP_SURFACE_REST)
		json_put_str(schema, "pattern", arg->pattern);
	return schema;
}

static void put_args(json_t *schema, const struct op_arg *args, size_t n_args,
		     enum op_surface surface, const struct core_limits *limits);

static json_t *arg_schema(const struct op_arg *arg, enum op_surface surface,
			  const struct core_limits *limits)
{
	json_t *schema = json_object();
	json_t *choices = json_array();

	json_put_str(schema, "type", type_name(arg->type));
	if (arg->type == ARG_OBJECT)
		put_args(schema, arg->fields, arg->n_fields, surface, limits);
	if (ops_arg_choices(arg, limits, append_choice, choices))
		json_put(schema, "enum", json_incref(choices));
	else
		put_bounds(schema, arg, surface, limits);
	json_decref(choices);
	if (arg->type == ARG_STRING_MAP)
		json_put(schema, "additionalProperties", parse_own("{\"type\":\"string\"}"));
	if (arg->type == ARG_RULES)
		json_put(schema, "type", parse_own("[\"array\",\"null\"]"));
	if (is_list(arg))
		json_put(schema, "items", item_schema(arg, surface));
	else if (arg->pattern && surface == OP_SURFACE_REST)
		json_put_str(schema, "pattern", arg->pattern);
	if (arg->limit_default)
		json_put(schema, "default", ops_limit_json(limits, arg->limit_default));
	else if (arg->default_json && surface == OP_SURFACE_REST)
		json_put(schema, "default", parse_own(arg->default_json));
	/* On MCP every word is in every agent's context, and an id's name says all. */
	if (arg->description && !(surface == OP_SURFACE_MCP && arg->flags & ARG_IN_PATH))
		json_put_str(schema, "description", arg->description);
	return schema;
}

static void put_args(json_t *schema, const struct op_arg *args, size_t n_args,
		     enum op_surface surface, const struct core_limits *limits)
{
	json_t *properties = json_object(), *required = json_array();

	for (size_t i = 0; i < n_args; i++) {
		const char *name = ops_arg_name(&args[i], surface);

		if (!ops_arg_on(&args[i], surface))
			continue;
		json_put(properties, name, arg_schema(&args[i], surface, limits));
		if (args[i].flags & ARG_REQUIRED)
			json_array_append_new(required, json_string(name));
	}
	json_put(schema, "properties", properties);
	if (json_array_size(required) > 0)
		json_put(schema, "required", required);
	else
		json_decref(required);
	json_put(schema, "additionalProperties", json_false());
}

json_t *ops_input_schema(const struct op *op, enum op_surface surface,
			 const struct core_limits *limits)
{
	json_t *schema = json_object();

	json_put_str(schema, "type", "object");
	put_args(schema, op->args, op->n_args, surface, limits);
	return schema;
}

json_t *ops_output_schema(const struct op *op, enum op_surface surface)
{
	json_t *schema = json_object(), *properties, *required;

	json_put_str(schema, "type", "object");
	if (op->n_results == 0 || (op->mcp_result_open && surface == OP_SURFACE_MCP))
		return schema;
	properties = json_object();
	required = json_array();
	for (size_t i = 0; i < op->n_results; i++) {
		const struct op_result_field *field = &op->results[i];
		json_t *type;

		if (field->rest_only && surface == OP_SURFACE_MCP)
			continue;
		type = parse_own(field->json_schema);
		if (surface == OP_SURFACE_REST && *field->description)
			json_put_str(type, "description", field->description);
		json_put(properties, field->name, type);
		if (!field->optional)
			json_array_append_new(required, json_string(field->name));
	}
	json_put(schema, "properties", properties);
	if (surface == OP_SURFACE_REST)
		json_put(schema, "required", required);
	else
		json_decref(required);
	return schema;
}
