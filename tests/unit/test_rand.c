/* Random bytes and names: length, alphabet, and that they differ. */
#include "unit.h"

#include <string.h>

#include "base/rand.h"

static void test_bytes_fill_exactly(void **state)
{
	unsigned char a[66] = { 0 }, zero[66] = { 0 };

	rand_bytes(a, 0);
	assert_memory_equal(a, zero, sizeof(a));
	rand_bytes(a + 1, 64);
	assert_int_equal(a[0], 0);
	assert_int_equal(a[65], 0);
	assert_memory_not_equal(a + 1, zero, 64);
}

static void test_hex_names(void **state)
{
	char a[33], b[33], odd[4];

	rand_hex(a, 32);
	rand_hex(b, 32);
	assert_int_equal(strspn(a, "0123456789abcdef"), 32);
	assert_int_equal(strlen(a), 32);
	assert_string_not_equal(a, b);
	rand_hex(odd, 3);
	assert_int_equal(strlen(odd), 3);
}

static void test_alnum_uses_the_whole_alphabet(void **state)
{
	static const char alphabet[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	unsigned count[256] = { 0 };
	char text[6201];

	rand_alnum(text, 6200);
	assert_int_equal(strlen(text), 6200);
	assert_int_equal(strspn(text, alphabet), 6200);
	for (const char *p = text; *p; p++)
		count[(unsigned char)*p]++;
	/* 100 of each are expected, with a deviation of 10: 40 is six deviations away. */
	for (const char *p = alphabet; *p; p++)
		assert_in_range(count[(unsigned char)*p], 40, 160);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bytes_fill_exactly),
		cmocka_unit_test(test_hex_names),
		cmocka_unit_test(test_alnum_uses_the_whole_alphabet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
