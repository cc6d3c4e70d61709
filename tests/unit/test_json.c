/* JSON helpers: strict parsing, bytes of commands, getters with fallbacks. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"

static int parse(const char *text, json_t **ret, struct err *err)
{
	return json_parse(text, strlen(text), ret, err);
}

static void test_round_trip(void **state)
{
	static const char text[] = "{\"a\":[1,2.5,true,null,\"x\xc3\xa9\"],\"b\":{}}";
	_cleanup_buf_ struct buf out = BUF_INIT;
	_cleanup_json_ json_t *value = NULL;

	assert_int_equal(parse(text, &value, NULL), 0);
	buf_append_str(&out, "> ");
	json_write(value, &out);
	assert_string_equal(buf_str(&out), "> {\"a\":[1,2.5,true,null,\"x\xc3\xa9\"],\"b\":{}}");
}

/* As the library writes them, to the byte. */
static void test_written_as_by_the_library(void **state)
{
	_cleanup_json_ json_t *value = json_pack(
		"{s:[f,f,f,f,f], s:[i,i,b,b,n], s:{}, s:[], s:{s:{}}}", "reals", 0.1, 1e300,
		-2.5e-10, 3.0, 1.0 / 3, "words", 0, -1, 1, 0, "empty", "none", "deep", "er");
	static const char longer[] = "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"\\";
	char all[0x80 + sizeof(longer)];

	for (int c = 0; c < 0x80; c++)
		all[c] = (char)c;
	memcpy(all + 0x80, longer, sizeof(longer));
	json_put(value, "all", json_from_bytes(all, sizeof(all) - 1));
	json_put_int(value, "a \"key\"\n", INT64_MIN);
	for (size_t cut = 0; cut < 24; cut++) { /* runs of every length around the eight */
		char name[8];

		snprintf(name, sizeof(name), "%zu", cut);
		json_put(value, name, json_from_bytes(all + 0x60, 0x10 + cut));
	}
	{
		_cleanup_free_ char *expected = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
		_cleanup_buf_ struct buf out = BUF_INIT;

		json_write(value, &out);
		assert_string_equal(buf_str(&out), expected);
	}
}

static void test_any_value_is_json(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	_cleanup_json_ json_t *value = NULL;

	assert_int_equal(parse(" \"s\" ", &value, NULL), 0);
	json_write(value, &out);
	assert_string_equal(buf_str(&out), "\"s\"");
}

static void test_refusals_say_where(void **state)
{
	static const char *const bad[] = {
		"",
		"{",
		"{\"a\":1,\"a\":2}",
		"[1,]",
		"{'a':1}",
		"[1] x",
		"nul",
		"\"\xff\"",
		"[01]",
		"\"\\ud800\"",
		"99999999999999999999999999",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct err err = ERR_INIT;
		json_t *value = NULL;

		assert_int_equal(parse(bad[i], &value, &err), -EINVAL);
		assert_null(value);
		assert_non_null(strstr(err.message, "line "));
		assert_non_null(strstr(err.message, "column "));
	}
}

static void test_depth_is_bounded(void **state)
{
	_cleanup_buf_ struct buf deep = BUF_INIT;
	struct err err = ERR_INIT;
	json_t *value = NULL;

	for (int i = 0; i < 100000; i++)
		buf_append_char(&deep, '[');
	assert_int_equal(json_parse(deep.data, deep.len, &value, &err), -EINVAL);
	assert_non_null(strstr(err.message, "depth"));
}

static void test_nul_is_accepted_in_values(void **state)
{
	_cleanup_json_ json_t *value = NULL;
	const json_t *path;

	assert_int_equal(parse("{\"path\":\"a\\u0000b\"}", &value, NULL), 0);
	path = json_object_get(value, "path");
	assert_int_equal(json_string_length(path), 3);
	assert_memory_equal(json_string_value(path), "a\0b", 3);
}

static void test_getters(void **state)
{
	_cleanup_json_ json_t *value = NULL;

	assert_int_equal(
		parse("{\"s\":\"x\",\"i\":-7,\"b\":true,\"f\":1.5,\"n\":null}", &value, NULL), 0);
	assert_string_equal(json_get_str(value, "s", "d"), "x");
	assert_string_equal(json_get_str(value, "i", "d"), "d");
	assert_string_equal(json_get_str(value, "none", "d"), "d");
	assert_null(json_get_str(value, "n", NULL));
	assert_int_equal(json_get_int(value, "i", 1), -7);
	assert_int_equal(json_get_int(value, "f", 1), 1);
	assert_int_equal(json_get_int(value, "s", 1), 1);
	assert_true(json_get_bool(value, "b", false));
	assert_true(json_get_bool(value, "n", true));
	assert_false(json_get_bool(value, "i", false));
	assert_int_equal(json_get_int(NULL, "i", 9), 9);
}

static void test_puts(void **state)
{
	_cleanup_json_ json_t *obj = json_object();
	_cleanup_buf_ struct buf out = BUF_INIT;

	json_put_str(obj, "s", "x");
	json_put_str(obj, "null", NULL);
	json_put_str(obj, "bad", "a\xff");
	json_put_int(obj, "i", INT64_MIN);
	json_put_time(obj, "t", 1796011260123);
	json_put_time(obj, "never", 0);
	json_put(obj, "sub", json_array());
	json_write(obj, &out);
	assert_string_equal(buf_str(&out),
			    "{\"s\":\"x\",\"null\":null,\"bad\":\"a\xef\xbf\xbd\","
			    "\"i\":-9223372036854775808,\"t\":\"2026-11-30T04:01:00.123Z\","
			    "\"never\":null,\"sub\":[]}");
}

static void assert_bytes(const void *data, size_t len, const void *expected, size_t expected_len)
{
	_cleanup_json_ json_t *value = json_from_bytes(data, len);

	assert_int_equal(json_string_length(value), expected_len);
	assert_memory_equal(json_string_value(value), expected, expected_len);
}

static void test_bytes_become_text(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	_cleanup_json_ json_t *value = NULL;

	assert_bytes("", 0, "", 0);
	assert_bytes(NULL, 0, "", 0);
	assert_bytes("a\0b", 3, "a\0b", 3);
	assert_bytes("\xff\xfe", 2, "\xef\xbf\xbd\xef\xbf\xbd", 6);
	assert_bytes("\0\xffz", 3, "\0\xef\xbf\xbdz", 5);
	/* A character cut at the end: each of its bytes is replaced. */
	assert_bytes("x\xe2\x82", 3, "x\xef\xbf\xbd\xef\xbf\xbd", 7);
	assert_bytes("\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 9);

	value = json_from_bytes("a\0\x1b", 3);
	json_write(value, &out);
	assert_string_equal(buf_str(&out), "\"a\\u0000\\u001B\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_written_as_by_the_library),
		cmocka_unit_test(test_any_value_is_json),
		cmocka_unit_test(test_refusals_say_where),
		cmocka_unit_test(test_depth_is_bounded),
		cmocka_unit_test(test_nul_is_accepted_in_values),
		cmocka_unit_test(test_getters),
		cmocka_unit_test(test_puts),
		cmocka_unit_test(test_bytes_become_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
