/* Strings: strict integers, bounded copies, UTF-8 edges, hex and base64. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

static void test_eq_and_starts(void **state)
{
	assert_true(str_eq(NULL, NULL));
	assert_false(str_eq(NULL, ""));
	assert_false(str_eq("", NULL));
	assert_true(str_eq("a", "a"));
	assert_false(str_eq("a", "b"));
	assert_true(str_starts("prefix", "pre"));
	assert_true(str_starts("x", ""));
	assert_false(str_starts("pr", "pre"));
}

static void test_copy(void **state)
{
	char out[6];

	assert_true(str_copy(out, sizeof(out), "12345"));
	assert_string_equal(out, "12345");
	assert_false(str_copy(out, sizeof(out), "123456"));
	assert_string_equal(out, "12345");
	assert_false(str_copy(out, sizeof(out), "1234\xc3\xa9"));
	assert_string_equal(out, "1234");
	assert_false(str_copy(out, 1, "x"));
	assert_string_equal(out, "");
	assert_false(str_copy(out, 0, "x"));
}

static void test_integers(void **state)
{
	static const struct {
		const char *text;
		int r;
		int64_t value;
	} cases[] = {
		{ "0", 0, 0 },
		{ "-0", 0, 0 },
		{ "42", 0, 42 },
		{ "-42", 0, -42 },
		{ "007", 0, 7 },
		{ "9223372036854775807", 0, INT64_MAX },
		{ "-9223372036854775808", 0, INT64_MIN },
		{ "9223372036854775808", -ERANGE, 0 },
		{ "-9223372036854775809", -ERANGE, 0 },
		{ "99999999999999999999999", -ERANGE, 0 },
		{ "", -EINVAL, 0 },
		{ "-", -EINVAL, 0 },
		{ "+1", -EINVAL, 0 },
		{ " 1", -EINVAL, 0 },
		{ "1 ", -EINVAL, 0 },
		{ "--1", -EINVAL, 0 },
		{ "0x10", -EINVAL, 0 },
		{ "1e3", -EINVAL, 0 },
		{ "99999999999999999999999x", -EINVAL, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int64_t value = 77;

		assert_int_equal(str_to_i64(cases[i].text, &value), cases[i].r);
		assert_true(value == (cases[i].r ? 77 : cases[i].value));
	}
}

static void test_utf8_valid(void **state)
{
	static const char *const good[] = {
		"",
		"ascii",
		"\xc2\x80",
		"\xdf\xbf",
		"\xe0\xa0\x80",
		"\xed\x9f\xbf",
		"\xee\x80\x80",
		"\xef\xbf\xbf",
		"\xf0\x90\x80\x80",
		"\xf4\x8f\xbf\xbf",
	};
	static const char *const bad[] = {
		"\x80",
		"\xbf",
		"\xc0\x80",
		"\xc1\xbf",
		"\xc2",
		"\xc2\x41",
		"\xe0\x9f\xbf",
		"\xe1\x80",
		"\xed\xa0\x80",
		"\xed\xbf\xbf",
		"\xf0\x8f\xbf\xbf",
		"\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80",
		"\xff",
		"a\xfe",
		"\xf0\x90\x80",
	};

	for (size_t i = 0; i < ARRAY_SIZE(good); i++)
		assert_true(utf8_valid(good[i], strlen(good[i])));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_false(utf8_valid(bad[i], strlen(bad[i])));
	assert_true(utf8_valid("a\0b", 3));
}

static void test_utf8_whole_prefix(void **state)
{
	static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
	static const size_t expected[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10 };

	for (size_t len = 0; len <= strlen(text); len++)
		assert_int_equal(utf8_whole_prefix(text, len), expected[len]);
	/* What is not the beginning of a character is not waited for. */
	assert_int_equal(utf8_whole_prefix("a\x80", 2), 2);
	assert_int_equal(utf8_whole_prefix("\x80\x80\x80\x80", 4), 4);
	assert_int_equal(utf8_whole_prefix("a\xff", 2), 2);
	assert_int_equal(utf8_whole_prefix("a\xc0", 2), 2);
	assert_int_equal(utf8_whole_prefix("\xed\xa0", 2), 2);
	assert_int_equal(utf8_whole_prefix("a\xf0\x9f", 3), 1);
}

static void test_hex(void **state)
{
	char out[9];

	hex_encode("\x00\x7f\xff\xa5", 4, out);
	assert_string_equal(out, "007fffa5");
	hex_encode("", 0, out);
	assert_string_equal(out, "");
}

static void test_base64_both_ways(void **state)
{
	static const char *const pairs[][2] = {
		/* RFC 4648, section 10 */
		{ "", "" },
		{ "f", "Zg==" },
		{ "fo", "Zm8=" },
		{ "foo", "Zm9v" },
		{ "foob", "Zm9vYg==" },
		{ "fooba", "Zm9vYmE=" },
		{ "foobar", "Zm9vYmFy" },
		{ "\xfb\xff\xfe", "+//+" },
	};
	uint8_t all[256];

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		_cleanup_buf_ struct buf text = BUF_INIT, back = BUF_INIT;

		base64_encode(pairs[i][0], strlen(pairs[i][0]), &text);
		assert_string_equal(buf_str(&text), pairs[i][1]);
		assert_int_equal(base64_decode(text.data, text.len, &back), 0);
		assert_string_equal(buf_str(&back), pairs[i][0]);
	}
	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (uint8_t)i;
	for (size_t len = 0; len <= sizeof(all); len++) {
		_cleanup_buf_ struct buf text = BUF_INIT, back = BUF_INIT;

		base64_encode(all, len, &text);
		assert_int_equal(base64_decode(text.data, text.len, &back), 0);
		assert_int_equal(back.len, len);
		assert_memory_equal(back.data, all, len);
	}
}

static void test_base64_is_strict(void **state)
{
	static const char *const bad[] = {
		"A",	"AA",	    "AAA",  "AAAAA", "A===", "====",  "=AAA", "A=AA",
		"AA=A", "AA==AAAA", "AB==", "AAB=",  "AA A", "AAA\n", "AA-_", "Zg==\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		_cleanup_buf_ struct buf out = BUF_INIT;

		buf_append_str(&out, "kept");
		assert_int_equal(base64_decode(bad[i], strlen(bad[i]), &out), -EINVAL);
		assert_string_equal(buf_str(&out), "kept");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eq_and_starts),	  cmocka_unit_test(test_copy),
		cmocka_unit_test(test_integers),	  cmocka_unit_test(test_utf8_valid),
		cmocka_unit_test(test_utf8_whole_prefix), cmocka_unit_test(test_hex),
		cmocka_unit_test(test_base64_both_ways),  cmocka_unit_test(test_base64_is_strict),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
