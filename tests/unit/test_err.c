/* Errors: filling, wrapping, codes, truncation. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/str.h"

static void test_set_fills_and_returns(void **state)
{
	struct err err = ERR_INIT;

	assert_int_equal(err_set(&err, -ENOENT, "sandbox '%s' is not there", "a"), -ENOENT);
	assert_int_equal(err.num, -ENOENT);
	assert_string_equal(err.message, "sandbox 'a' is not there");
	assert_string_equal(err.hint, "");
	assert_string_equal(err_code_of(&err), "not_found");
}

static void test_null_err_is_fine(void **state)
{
	assert_int_equal(err_set(NULL, -EIO, "x"), -EIO);
	assert_int_equal(err_code(NULL, -EIO, "c", "x"), -EIO);
	err_hint(NULL, "x");
	assert_int_equal(err_wrap(NULL, -EIO, "x"), -EIO);
}

static void test_wrap_keeps_code_and_hint(void **state)
{
	struct err err = ERR_INIT;

	err_code(&err, -ENOSPC, "quota_exceeded", "disk is full");
	err_hint(&err, "delete snapshots");
	assert_int_equal(err_wrap(&err, -EIO, "create sandbox '%s'", "s1"), -ENOSPC);
	assert_string_equal(err.message, "create sandbox 's1': disk is full");
	assert_string_equal(err.hint, "delete snapshots");
	assert_string_equal(err_code_of(&err), "quota_exceeded");
}

static void test_wrap_of_an_unset_err_names_the_errno(void **state)
{
	struct err err = ERR_INIT;

	assert_int_equal(err_wrap(&err, -EACCES, "open"), -EACCES);
	assert_string_equal(err.message, "open: Permission denied");
	assert_string_equal(err_code_of(&err), "forbidden");
}

static void test_a_new_error_replaces_code_and_hint(void **state)
{
	struct err err = ERR_INIT;

	err_code(&err, -ENOSPC, "quota_exceeded", "full");
	err_hint(&err, "delete");
	err_set(&err, -EIO, "disk");
	assert_string_equal(err.hint, "");
	assert_string_equal(err_code_of(&err), "internal");
}

static void test_own_message_as_argument(void **state)
{
	struct err err = ERR_INIT;

	err_set(&err, -EIO, "inner");
	err_set(&err, -EIO, "outer (%s)", err.message);
	assert_string_equal(err.message, "outer (inner)");
	err_hint(&err, "one");
	err_hint(&err, "%s, two", err.hint);
	assert_string_equal(err.hint, "one, two");
}

static void test_long_messages_are_cut_between_characters(void **state)
{
	struct err err = ERR_INIT;
	char text[2000];

	for (size_t i = 0; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa9", 3);
	err_set(&err, -EIO, "x%s", text);
	assert_true(strlen(err.message) >= sizeof(err.message) - 2);
	assert_true(utf8_valid(err.message, strlen(err.message)));
	err_wrap(&err, -EIO, "%s", text);
	assert_true(utf8_valid(err.message, strlen(err.message)));
	err_hint(&err, "xy%s", text);
	assert_true(utf8_valid(err.hint, strlen(err.hint)));
}

static void test_derived_codes(void **state)
{
	static const struct {
		int num;
		const char *code;
	} cases[] = {
		{ -ENOENT, "not_found" },
		{ -ENOSPC, "disk_full" },
		{ -EINVAL, "invalid_argument" },
		{ -EEXIST, "conflict" },
		{ -ETIMEDOUT, "timeout" },
		{ -EACCES, "forbidden" },
		{ -EPERM, "forbidden" },
		{ -EAGAIN, "busy" },
		{ -EBUSY, "busy" },
		{ -EIO, "internal" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct err err = { .num = cases[i].num };

		assert_string_equal(err_code_of(&err), cases[i].code);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set_fills_and_returns),
		cmocka_unit_test(test_null_err_is_fine),
		cmocka_unit_test(test_wrap_keeps_code_and_hint),
		cmocka_unit_test(test_wrap_of_an_unset_err_names_the_errno),
		cmocka_unit_test(test_a_new_error_replaces_code_and_hint),
		cmocka_unit_test(test_own_message_as_argument),
		cmocka_unit_test(test_long_messages_are_cut_between_characters),
		cmocka_unit_test(test_derived_codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
