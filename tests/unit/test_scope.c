/* Scopes of keys: what they take, what they allow, and which is within which. */
#include "core/scope.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "unit.h"

static struct key_scope *scope_of(const char *text)
{
	_cleanup_json_ json_t *json = NULL;
	struct key_scope *scope = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(json_parse(text, strlen(text), &json, &err), 0);
	assert_int_equal(key_scope_parse(json, &scope, &err), 0);
	return scope;
}

static void refused(const char *text, const char *why)
{
	_cleanup_json_ json_t *json = NULL;
	struct key_scope *scope = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(json_parse(text, strlen(text), &json, &err), 0);
	assert_int_equal(key_scope_parse(json, &scope, &err), -EINVAL);
	assert_string_equal(err_code_of(&err), "invalid_argument");
	assert_non_null(strstr(err.message, why));
	assert_null(scope);
}

static void nothing_narrows_nothing(void **state)
{
	_cleanup_json_ json_t *json = NULL;

	assert_null(scope_of("{}"));
	assert_null(scope_of("null"));
	assert_null(scope_of("{\"root\": true, \"egress_loosen\": true, \"sizes\": null}"));
	assert_true(key_scope_allows(NULL, "exec", "exec_wait"));
	assert_true(key_scope_sees(NULL, "sbx_1", NULL));
	assert_true(key_scope_may_be_root(NULL));
	assert_true(key_scope_may_loosen_egress(NULL));
	assert_true(key_scope_allows_size(NULL, "xlarge"));
	assert_int_equal(key_scope_lifetime_minutes_max(NULL), 0);
	assert_int_equal(key_scope_spend_credits_max(NULL), -1);
	json = key_scope_json(NULL);
	assert_int_equal(json_object_size(json), 0);
}

static void each_field_narrows(void **state)
{
	_cleanup_json_ json_t *good = json_pack("{s:s, s:s}", "team", "a", "more", "x");
	_cleanup_json_ json_t *other = json_pack("{s:s}", "team", "b");
	_cleanup_key_scope_ struct key_scope *scope =
		scope_of("{\"operations\": [\"exec\", \"read_file\"], \"sandboxes\": [\"sbx_1\"],"
			 " \"labels\": {\"team\": \"a\"}, \"sizes\": [\"tiny\"],"
			 " \"lifetime_minutes_max\": 30, \"egress_loosen\": false, \"root\": false,"
			 " \"spend_credits_max\": 5}");

	assert_true(key_scope_allows(scope, "exec", "exec_wait"));
	assert_true(key_scope_allows(scope, "files", "read_file"));
	assert_false(key_scope_allows(scope, "files", "write_file"));
	assert_false(key_scope_allows(scope, "files", NULL));
	assert_true(key_scope_sees(scope, "sbx_1", good));
	assert_false(key_scope_sees(scope, "sbx_2", good));
	assert_false(key_scope_sees(scope, "sbx_1", other));
	assert_false(key_scope_sees(scope, "sbx_1", NULL));
	assert_true(key_scope_narrows_sandboxes(scope));
	assert_true(key_scope_allows_size(scope, "tiny"));
	assert_false(key_scope_allows_size(scope, "small"));
	assert_false(key_scope_allows_size(scope, "custom"));
	assert_int_equal(key_scope_lifetime_minutes_max(scope), 30);
	assert_false(key_scope_may_loosen_egress(scope));
	assert_false(key_scope_may_be_root(scope));
	assert_int_equal(key_scope_spend_credits_max(scope), 5);
}

/* An empty list once meant "open" elsewhere. */
static void empty_lists_allow_nothing(void **state)
{
	_cleanup_key_scope_ struct key_scope *scope =
		scope_of("{\"operations\": [], \"sandboxes\": [], \"sizes\": []}");

	assert_false(key_scope_allows(scope, "exec", "exec"));
	assert_false(key_scope_sees(scope, "sbx_1", NULL));
	assert_false(key_scope_allows_size(scope, "tiny"));
	refused("{\"labels\": {}}", "at least one");
}

static void what_is_not_understood_is_refused(void **state)
{
	refused("[]", "object");
	refused("{\"operation\": [\"exec\"]}", "operation");
	refused("{\"operations\": \"exec\"}", "operations");
	refused("{\"operations\": [1]}", "operations");
	refused("{\"operations\": [\"\"]}", "operations");
	refused("{\"operations\": [\"a\\u0000b\"]}", "operations");
	refused("{\"labels\": {\"a\": 1}}", "labels");
	refused("{\"labels\": {\"a=b\": \"c\"}}", "labels");
	refused("{\"labels\": {\"a\": \"b\\u0000c\"}}", "labels");
	refused("{\"lifetime_minutes_max\": 0}", "lifetime_minutes_max");
	refused("{\"lifetime_minutes_max\": 1.5}", "lifetime_minutes_max");
	refused("{\"spend_credits_max\": -1}", "spend_credits_max");
	refused("{\"root\": 0}", "root");
	refused("{\"egress_loosen\": \"false\"}", "egress_loosen");
}

static const char *table_scope(const char *operation)
{
	return strcmp(operation, "exec_wait") == 0 ? "exec" : NULL;
}

static void within(const char *inner_text, const char *outer_text, const char *field)
{
	_cleanup_key_scope_ struct key_scope *inner = scope_of(inner_text);
	_cleanup_key_scope_ struct key_scope *outer = scope_of(outer_text);
	const char *got = "";

	assert_int_equal(key_scope_within(inner, outer, table_scope, &got), !field);
	assert_string_equal(got, field ? field : "");
}

static void a_scope_within_another(void **state)
{
	within("{}", "{}", NULL);
	within("{\"root\": false}", "{}", NULL);
	within("{}", "{\"root\": false}", "root");
	within("{}", "{\"egress_loosen\": false}", "egress_loosen");
	within("{}", "{\"operations\": [\"exec\"]}", "operations");
	within("{\"operations\": []}", "{\"operations\": [\"exec\"]}", NULL);
	within("{\"operations\": [\"exec_wait\"]}", "{\"operations\": [\"exec\"]}", NULL);
	within("{\"operations\": [\"exec\"]}", "{\"operations\": [\"exec_wait\"]}", "operations");
	within("{\"operations\": [\"other\"]}", "{\"operations\": [\"exec\"]}", "operations");
	within("{\"sandboxes\": [\"a\"]}", "{\"sandboxes\": [\"a\", \"b\"]}", NULL);
	within("{\"sandboxes\": [\"a\", \"c\"]}", "{\"sandboxes\": [\"a\"]}", "sandboxes");
	within("{\"labels\": {\"a\": \"1\"}}", "{\"sandboxes\": [\"a\"]}", "sandboxes");
	within("{\"labels\": {\"a\": \"1\", \"b\": \"2\"}}", "{\"labels\": {\"a\": \"1\"}}", NULL);
	within("{\"labels\": {\"a\": \"2\"}}", "{\"labels\": {\"a\": \"1\"}}", "labels");
	within("{}", "{\"labels\": {\"a\": \"1\"}}", "labels");
	within("{\"sizes\": [\"tiny\"]}", "{\"sizes\": [\"tiny\"]}", NULL);
	within("{}", "{\"sizes\": [\"tiny\"]}", "sizes");
	within("{\"lifetime_minutes_max\": 5}", "{\"lifetime_minutes_max\": 6}", NULL);
	within("{\"lifetime_minutes_max\": 7}", "{\"lifetime_minutes_max\": 6}",
	       "lifetime_minutes_max");
	within("{}", "{\"lifetime_minutes_max\": 6}", "lifetime_minutes_max");
	within("{\"spend_credits_max\": 0}", "{\"spend_credits_max\": 6}", NULL);
	within("{}", "{\"spend_credits_max\": 0}", "spend_credits_max");
}

static void json_goes_round(void **state)
{
	static const char text[] = "{\"operations\": [\"exec\"], \"labels\": {\"a\": \"b\"},"
				   " \"root\": false, \"spend_credits_max\": 7}";
	_cleanup_key_scope_ struct key_scope *scope = scope_of(text), *again = NULL;
	_cleanup_json_ json_t *json = key_scope_json(scope), *want = NULL, *second = NULL;

	assert_int_equal(json_parse(text, strlen(text), &want, NULL), 0);
	assert_true(json_equal(json, want));
	assert_int_equal(key_scope_parse(json, &again, NULL), 0);
	second = key_scope_json(again);
	assert_true(json_equal(second, want));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_narrows_nothing),
		cmocka_unit_test(each_field_narrows),
		cmocka_unit_test(empty_lists_allow_nothing),
		cmocka_unit_test(what_is_not_understood_is_refused),
		cmocka_unit_test(a_scope_within_another),
		cmocka_unit_test(json_goes_round),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
