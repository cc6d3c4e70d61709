/*
 * The operations table as a contract: for every argument of every operation on every surface,
 * values of wrong types, just inside and just outside the bounds, with NULs, unknown names; that
 * schemas agree with what is accepted; and that tool definitions stay small.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "api/ops.h"
#include "api/ops_internal.h"
#include "base/json.h"
#include "base/str.h"

#define MCP_DEFINITIONS_MAX_BYTES 8000 /* below 2,000 tokens: 4.19 bytes each were counted */

static struct core_limits limits;

static int set_up(void **state)
{
	core_limits_init(&limits);
	return 0;
}

/* ---- one argument after the other ---- */

struct subject {
	const struct op *op;
	const struct op_arg *arg;
	enum op_surface surface;
};

static void take_first(void *arg, const char *choice)
{
	const char **first = arg;

	if (!*first)
		*first = choice;
}

static char *filled(size_t len)
{
	char *text = calloc(1, len + 1);

	assert_non_null(text);
	memset(text, '1', len);
	return text;
}

static json_t *string_of(size_t len)
{
	_cleanup_free_ char *text = filled(len);

	return json_stringn(text, len);
}

/* A value that the argument accepts. */
static json_t *good_value(const struct op_arg *arg)
{
	const char *choice = NULL;
	int64_t min, max;

	ops_arg_bounds(arg, &limits, &min, &max);
	switch (arg->type) {
	case ARG_STRING:
		if (ops_arg_choices(arg, &limits, take_first, &choice))
			return json_string(choice);
		return string_of((size_t)(min > 0 ? min : 1));
	case ARG_INTEGER:
		return json_integer(min);
	case ARG_NUMBER:
		return json_real((double)min / 1000);
	case ARG_BOOLEAN:
		return json_true();
	case ARG_STRING_MAP:
		return json_pack("{s:s}", "KEY", "value");
	case ARG_STRING_LIST:
	case ARG_RULES:
		return json_pack("[s]", "value");
	case ARG_OBJECT:
		return json_object();
	}
	return NULL;
}

/* Every required argument of the operation, and nothing else. */
static json_t *required_args(const struct subject *s)
{
	json_t *args = json_object();

	for (size_t i = 0; i < s->op->n_args; i++) {
		const struct op_arg *arg = &s->op->args[i];

		if ((arg->flags & ARG_REQUIRED) && ops_arg_on(arg, s->surface))
			json_put(args, ops_arg_name(arg, s->surface), good_value(arg));
	}
	return args;
}

static int validate_with(const struct subject *s, json_t *value /* stolen */, json_t **ret,
			 struct err *err)
{
	_cleanup_json_ json_t *args = required_args(s);
	_cleanup_json_ json_t *checked = NULL;
	int rc;

	json_put(args, ops_arg_name(s->arg, s->surface), value);
	*err = ERR_INIT;
	rc = ops_validate(s->op, s->surface, &limits, args, &checked, err);
	if (ret)
		*ret = json_incref(checked);
	return rc;
}

static void describe(const struct subject *s, const char *what, const json_t *value,
		     const struct err *err)
{
	char *text = json_dumps(value, JSON_ENCODE_ANY);

	fail_msg("%s of %s: %s: %.100s: %s", s->arg->name, s->op->name, what, text ? text : "?",
		 err->message);
}

static void accept(const struct subject *s, json_t *value)
{
	_cleanup_json_ json_t *kept = json_incref(value), *checked = NULL;
	struct err err;

	if (validate_with(s, value, &checked, &err) < 0)
		describe(s, "refused", kept, &err);
	/* Under the REST name, whatever the surface calls it. */
	assert_true(json_is_null(kept) || json_object_get(checked, s->arg->name));
}

/* The refusal names the argument; secret values are never part of it. */
static void refuse(const struct subject *s, json_t *value)
{
	_cleanup_json_ json_t *kept = json_incref(value);
	const char *name = ops_arg_name(s->arg, s->surface);
	struct err err;

	if (validate_with(s, value, NULL, &err) != -EINVAL)
		describe(s, "accepted", kept, &err);
	if (!str_eq(err_code_of(&err), "invalid_argument") || !strstr(err.message, name))
		describe(s, "refused without its name", kept, &err);
	if ((s->arg->flags & ARG_SECRET) && strstr(err.message, "hunter2"))
		describe(s, "secret shown", kept, &err);
	if (!(s->arg->flags & ARG_SECRET) && json_is_string(kept) && json_string_length(kept) > 0 &&
	    !strstr(err.message, "got "))
		describe(s, "refused without what was given", kept, &err);
	assert_true(strlen(err.message) < 700);
}

static void check_types(const struct subject *s)
{
	const enum arg_type type = s->arg->type;

	accept(s, good_value(s->arg));
	if (!(s->arg->flags & ARG_REQUIRED) || type == ARG_RULES)
		accept(s, json_null());
	else
		refuse(s, json_null());
	if (type != ARG_STRING_LIST && type != ARG_RULES) {
		refuse(s, json_array());
		refuse(s, json_pack("[s]", "hunter2"));
	}
	if (type != ARG_STRING)
		refuse(s, json_string("hunter2"));
	if (type != ARG_STRING_MAP && type != ARG_OBJECT)
		refuse(s, json_object());
	if (type != ARG_BOOLEAN) {
		refuse(s, json_true());
		refuse(s, json_false());
	}
	if (type != ARG_INTEGER && type != ARG_NUMBER)
		refuse(s, json_integer(1));
}

static void check_numbers(const struct subject *s)
{
	int64_t min, max;

	ops_arg_bounds(s->arg, &limits, &min, &max);
	refuse(s, json_real(1e300));
	refuse(s, json_real(-1e300));
	refuse(s, json_integer(INT64_MIN));
	refuse(s, json_integer(-1));
	if (s->arg->type == ARG_NUMBER) {
		accept(s, json_real((double)min / 1000));
		accept(s, json_real((double)max / 1000));
		accept(s, json_integer(max / 1000));
		refuse(s, json_real((double)min / 1000 - 0.001));
		refuse(s, json_real((double)max / 1000 + 0.001));
		return;
	}
	accept(s, json_integer(min));
	accept(s, json_integer(max));
	accept(s, json_real((double)min));
	refuse(s, json_integer(min - 1));
	refuse(s, json_real((double)min + 0.5));
	if (max < INT64_MAX) {
		refuse(s, json_integer(max + 1));
		refuse(s, json_integer(INT64_MAX));
	}
}

static void check_strings(const struct subject *s)
{
	const char *choice = NULL;
	int64_t min, max;

	ops_arg_bounds(s->arg, &limits, &min, &max);
	if (!(s->arg->flags & ARG_ALLOW_NUL))
		refuse(s, json_stringn("a\0b", 3));
	else
		accept(s, json_stringn("a\0b", 3));
	if (ops_arg_choices(s->arg, &limits, take_first, &choice)) {
		refuse(s, json_string("no such choice"));
		refuse(s, json_string(""));
		return;
	}
	accept(s, string_of((size_t)min));
	if (min > 0)
		refuse(s, string_of((size_t)min - 1));
	if (max <= 1 << 20) {
		accept(s, string_of((size_t)max));
		refuse(s, string_of((size_t)max + 1));
	}
	if (s->arg->pattern) {
		refuse(s, json_string("-Bad Name"));
		refuse(s, json_string("ä"));
		refuse(s, json_string("a/../b"));
	}
}

static json_t *map_of(size_t n)
{
	json_t *map = json_object();
	char key[32];

	for (size_t i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "K%zu", i);
		json_put_str(map, key, "v");
	}
	return map;
}

static json_t *pair(const char *key, json_t *value)
{
	json_t *map = json_object();

	json_object_set_new_nocheck(map, key, value);
	return map;
}

static void check_maps(const struct subject *s)
{
	size_t value_max = (size_t)ops_arg_value_max(s->arg, &limits);
	_cleanup_free_ char *long_key = filled((size_t)ops_arg_key_max(s->arg, &limits) + 1);
	int64_t min, max;

	ops_arg_bounds(s->arg, &limits, &min, &max);
	accept(s, json_object());
	accept(s, map_of((size_t)max));
	refuse(s, map_of((size_t)max + 1));
	accept(s, pair("KEY", string_of(value_max)));
	refuse(s, pair("KEY", string_of(value_max + 1)));
	refuse(s, pair("KEY", json_stringn("hunter2\0", 8)));
	refuse(s, pair("KEY", json_integer(1)));
	refuse(s, pair("KEY", json_null()));
	refuse(s, pair("KEY", json_object()));
	refuse(s, pair("", json_string("hunter2")));
	refuse(s, pair(long_key, json_string("hunter2")));
	if (s->arg->key_matches) {
		refuse(s, pair("A=B", json_string("hunter2")));
		refuse(s, pair("1A", json_string("hunter2")));
		refuse(s, pair("A B", json_string("hunter2")));
	}
}

static json_t *list_of(size_t n, const char *value)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(value));
	return list;
}

static void check_lists(const struct subject *s)
{
	size_t value_max = (size_t)ops_arg_value_max(s->arg, &limits);
	_cleanup_free_ char *longest = filled(value_max), *longer = filled(value_max + 1);
	int64_t min, max;

	ops_arg_bounds(s->arg, &limits, &min, &max);
	accept(s, json_array());
	accept(s, list_of((size_t)max, "a"));
	refuse(s, list_of((size_t)max + 1, "a"));
	accept(s, list_of(1, longest));
	refuse(s, list_of(1, longer));
	refuse(s, list_of(1, ""));
	refuse(s, json_pack("[i]", 1));
	refuse(s, json_pack("[s, n]", "a"));
	refuse(s, json_pack("[[]]"));
	refuse(s, json_pack("[o]", json_stringn("a\0b", 3)));
	if (s->arg->pattern)
		refuse(s, list_of(1, "-Bad Name"));
}

/* Each field is checked as an argument is, and named with the object that it is in. */
static void check_objects(const struct subject *s)
{
	refuse(s, pair("no such field", json_integer(1)));
	for (size_t i = 0; i < s->arg->n_fields; i++) {
		const struct op_arg *field = &s->arg->fields[i];
		_cleanup_json_ json_t *checked = NULL;
		char full[96];
		struct err err;

		accept(s, pair(field->name, good_value(field)));
		assert_int_equal(validate_with(s, pair(field->name, json_null()), &checked, &err),
				 0);
		assert_null(json_object_get(json_object_get(checked, s->arg->name), field->name));
		refuse(s, pair(field->name, json_pack("[[]]")));
		snprintf(full, sizeof(full), "\"%s.%s\"", s->arg->name, field->name);
		assert_int_equal(validate_with(s, pair(field->name, json_pack("[[]]")), NULL, &err),
				 -EINVAL);
		assert_non_null(strstr(err.message, full));
	}
}

/* null is a value of its own: it must reach the handler. */
static void test_null_is_not_absent(void **state)
{
	const struct op *op = ops_find("create_sandbox");
	_cleanup_json_ json_t *with = json_pack("{s:n, s:n}", "egress", "networks");
	_cleanup_json_ json_t *without = json_object();
	json_t *checked = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(ops_validate(op, OP_SURFACE_REST, &limits, with, &checked, &err), 0);
	assert_true(json_is_null(json_object_get(checked, "egress")));
	assert_null(json_object_get(checked, "networks"));
	json_decref(checked);
	assert_int_equal(ops_validate(op, OP_SURFACE_REST, &limits, without, &checked, &err), 0);
	assert_null(json_object_get(checked, "egress"));
	json_decref(checked);
}

static void check_arg(const struct subject *s)
{
	check_types(s);
	switch (s->arg->type) {
	case ARG_INTEGER:
	case ARG_NUMBER:
		check_numbers(s);
		break;
	case ARG_STRING:
		check_strings(s);
		break;
	case ARG_STRING_MAP:
		check_maps(s);
		break;
	case ARG_STRING_LIST:
	case ARG_RULES:
		check_lists(s);
		break;
	case ARG_OBJECT:
		check_objects(s);
		break;
	case ARG_BOOLEAN:
		break;
	}
}

static const enum op_surface surfaces[] = { OP_SURFACE_REST, OP_SURFACE_MCP };

static void for_every_op(void (*fn)(const struct subject *s))
{
	size_t n;
	const struct op *ops = ops_all(&n);

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(surfaces); k++) {
			struct subject s = { .op = &ops[i], .surface = surfaces[k] };

			if (s.surface == OP_SURFACE_REST || ops[i].on_mcp)
				fn(&s);
		}
	}
}

static void check_all_args(const struct subject *s)
{
	for (size_t i = 0; i < s->op->n_args; i++) {
		struct subject one = *s;

		one.arg = &s->op->args[i];
		if (ops_arg_on(one.arg, s->surface))
			check_arg(&one);
	}
}

static void test_every_argument(void **state)
{
	for_every_op(check_all_args);
}

/* ---- names ---- */

static void check_names(const struct subject *s)
{
	static const char *const unknown[] = { "nothing_like_it", "", "id\xc3\xa4", "ARGS",
					       "__proto__" };
	_cleanup_json_ json_t *good = required_args(s);
	struct err err = ERR_INIT;
	json_t *checked = NULL;

	assert_int_equal(ops_validate(s->op, s->surface, &limits, good, &checked, &err), 0);
	json_decref(checked);
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
		_cleanup_json_ json_t *args = required_args(s);

		json_put_str(args, unknown[i], "x");
		assert_int_equal(ops_validate(s->op, s->surface, &limits, args, &checked, &err),
				 -EINVAL);
		assert_non_null(strstr(err.message, "unknown argument"));
		assert_non_null(strstr(err.message, s->op->name));
	}
	/* Each required one is missed by its name. */
	for (size_t i = 0; i < s->op->n_args; i++) {
		const struct op_arg *arg = &s->op->args[i];
		_cleanup_json_ json_t *args = required_args(s);

		if (!(arg->flags & ARG_REQUIRED))
			continue;
		json_object_del(args, ops_arg_name(arg, s->surface));
		assert_int_equal(ops_validate(s->op, s->surface, &limits, args, &checked, &err),
				 -EINVAL);
		assert_non_null(strstr(err.message, "is required"));
	}
	/* The other surface's arguments are unknown here. */
	for (size_t i = 0; i < s->op->n_args; i++) {
		const struct op_arg *arg = &s->op->args[i];
		_cleanup_json_ json_t *args = required_args(s);
		bool elsewhere = !ops_arg_on(arg, s->surface);

		for (size_t k = 0; k < s->op->n_args; k++)
			elsewhere &= k == i || !str_eq(s->op->args[k].name, arg->name);
		if (!elsewhere)
			continue;
		json_put(args, arg->name, good_value(arg));
		assert_int_equal(ops_validate(s->op, s->surface, &limits, args, &checked, &err),
				 -EINVAL);
	}
}

static void test_names(void **state)
{
	for_every_op(check_names);
}

static void test_hints(void **state)
{
	_cleanup_json_ json_t *args = json_pack("{s:i}", "timeout_minuts", 5);
	_cleanup_json_ json_t *far = json_pack("{s:i}", "zzzzzzzz", 5);
	const struct op *op = ops_find("create_sandbox");
	json_t *checked = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(ops_validate(op, OP_SURFACE_REST, &limits, args, &checked, &err), -EINVAL);
	assert_string_equal(err.hint, "did you mean \"timeout_minutes\"?");
	err = ERR_INIT;
	assert_int_equal(ops_validate(op, OP_SURFACE_REST, &limits, far, &checked, &err), -EINVAL);
	assert_string_equal(err.hint, "");
}

static void test_not_an_object(void **state)
{
	json_t *raws[] = { json_array(), json_null(), json_string("x"), json_integer(1), NULL };

	for (size_t i = 0; i < ARRAY_SIZE(raws); i++) {
		json_t *checked = NULL;
		struct err err = ERR_INIT;

		assert_int_equal(ops_validate(ops_find("exec"), OP_SURFACE_REST, &limits, raws[i],
					      &checked, &err),
				 -EINVAL);
		assert_non_null(strstr(err.message, "must be a JSON object"));
		json_decref(raws[i]);
	}
}

/* What was given is cut, never in the middle of a character. */
static void test_long_values(void **state)
{
	_cleanup_json_ json_t *args = json_object();
	_cleanup_buf_ struct buf text = BUF_INIT;
	json_t *checked = NULL;
	struct err err = ERR_INIT;

	for (int i = 0; i < 5000; i++)
		buf_append_str(&text, "ä");
	json_put_str(args, "size", buf_str(&text));
	assert_int_equal(ops_validate(ops_find("create_sandbox"), OP_SURFACE_REST, &limits, args,
				      &checked, &err),
			 -EINVAL);
	assert_true(utf8_valid(err.message, strlen(err.message)));
	assert_non_null(strstr(err.message, "… (10002 bytes)"));
	assert_true(strlen(err.message) < 300);
}

static void test_defaults(void **state)
{
	_cleanup_json_ json_t *raw = json_pack("{s:s,s:s}", "id", "sbx_aa", "command", "true");
	json_t *checked = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(
		ops_validate(ops_find("exec"), OP_SURFACE_REST, &limits, raw, &checked, &err), 0);
	assert_false(json_get_bool(checked, "background", true));
	assert_string_equal(json_get_str(checked, "encoding", "?"), "utf8");
	assert_null(json_object_get(checked, "timeout_ms")); /* the core's to fill in */
	json_decref(checked);
}

/* ---- parsing ---- */

static void test_parse(void **state)
{
	static const struct {
		const char *text;
		bool ok;
	} rows[] = {
		{ "{}", true },
		{ " {\"a\":1} ", true },
		{ "{\"a\":1,\"a\":2}", false },
		{ "{\"a\":1,}", false },
		{ "{'a':1}", false },
		{ "{\"a\":01}", false },
		{ "{\"a\":NaN}", false },
		{ "{\"a\":1e999}", false },
		{ "{\"a\":18446744073709551616}", true },
		{ "{\"a\":\"\\ud800\"}", false },
		{ "{\"a\":\"\x01\"}", false },
		{ "{} {}", false },
		{ "", false },
		{ "{\"a\":\"\\u0000\"}", true },
		{ "// x\n{}", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		json_t *value = NULL;
		struct err err = ERR_INIT;
		int rc = ops_parse_json(rows[i].text, strlen(rows[i].text), &value, &err);

		if ((rc == 0) != rows[i].ok)
			fail_msg("%s: %d %s", rows[i].text, rc, err.message);
		if (rc < 0) {
			assert_string_equal(err_code_of(&err), "malformed_json");
			assert_non_null(strstr(err.message, "line 1, column"));
		}
		json_decref(value);
	}
}

static void test_depth(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	json_t *value = NULL;
	struct err err = ERR_INIT;

	for (int i = 0; i < 500000; i++)
		buf_append_char(&text, '[');
	assert_int_equal(ops_parse_json(text.data, text.len, &value, &err), -EINVAL);
}

/* ---- schemas ---- */

static void check_schema(const json_t *schema, bool closed)
{
	const json_t *properties = json_object_get(schema, "properties");
	const json_t *required = json_object_get(schema, "required");
	size_t i;
	json_t *name;

	assert_string_equal(json_get_str(schema, "type", "?"), "object");
	assert_null(json_object_get(schema, "oneOf"));
	assert_null(json_object_get(schema, "anyOf"));
	if (closed)
		assert_true(json_is_false(json_object_get(schema, "additionalProperties")));
	json_array_foreach(required, i, name)
		assert_non_null(json_object_get(properties, json_string_value(name)));
}

static void check_schemas(const struct subject *s)
{
	_cleanup_json_ json_t *input = ops_input_schema(s->op, s->surface, &limits);
	_cleanup_json_ json_t *output = ops_output_schema(s->op, s->surface);
	const char *name;
	json_t *property;

	check_schema(input, true);
	check_schema(output, false);
	json_object_foreach(json_object_get(input, "properties"), name, property)
		assert_non_null(json_object_get(property, "type"));
	for (const char *c = s->op->name; *c; c++)
		assert_true((*c >= 'a' && *c <= 'z') || *c == '_');
	assert_in_range(strlen(s->op->name), 1, 30);
}

static void test_schemas(void **state)
{
	for_every_op(check_schemas);
}

static void test_tool_definitions_are_small(void **state)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	size_t n;
	const struct op *ops = ops_all(&n);

	assert_string_equal(ops[0].name, "list_sandboxes"); /* the first tool must be harmless */
	for (size_t i = 0; i < n; i++) {
		_cleanup_json_ json_t *input = ops_input_schema(&ops[i], OP_SURFACE_MCP, &limits);
		_cleanup_json_ json_t *output = ops_output_schema(&ops[i], OP_SURFACE_MCP);

		if (!ops[i].on_mcp)
			continue;
		json_write(input, &text);
		json_write(output, &text);
		buf_printf(&text, "%s%s%s%160s", ops[i].name, ops[i].title, ops[i].summary, "");
	}
	print_message("tool definitions: %zu bytes\n", text.len);
	assert_in_range(text.len, 1000, MCP_DEFINITIONS_MAX_BYTES);
}

static void test_limits_by_name(void **state)
{
	/* Aborts when the table names a limit that does not exist. */
	size_t n;
	const struct op *ops = ops_all(&n);

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < ops[i].n_args; k++) {
			const struct op_arg *arg = &ops[i].args[k];
			int64_t min, max;

			ops_arg_bounds(arg, &limits, &min, &max);
			assert_true(min <= max);
			if (arg->limit_default)
				json_decref(ops_limit_json(&limits, arg->limit_default));
			assert_true(!arg->pattern == !arg->matches);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_argument),
		cmocka_unit_test(test_null_is_not_absent),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_hints),
		cmocka_unit_test(test_not_an_object),
		cmocka_unit_test(test_long_values),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_schemas),
		cmocka_unit_test(test_tool_definitions_are_small),
		cmocka_unit_test(test_limits_by_name),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
