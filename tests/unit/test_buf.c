/* The buffer: always terminated, grows, gives its storage away. */
#include "unit.h"

#include <string.h>

#include "base/buf.h"

static void test_an_empty_buffer_is_a_string(void **state)
{
	struct buf b = BUF_INIT;
	char *taken;

	assert_string_equal(buf_str(&b), "");
	buf_reset(&b);
	buf_drop_front(&b, 0);
	taken = buf_take(&b);
	assert_string_equal(taken, "");
	free(taken);
	buf_clear(&b);
}

static void test_append_terminates(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	buf_append(&b, NULL, 0);
	assert_string_equal(buf_str(&b), "");
	buf_append(&b, "a\0b", 3);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "a\0b", 4);
	buf_reset(&b);
	buf_append_str(&b, "xy");
	buf_append_char(&b, 'z');
	buf_printf(&b, "-%d-%s", 42, "end");
	assert_string_equal(buf_str(&b), "xyz-42-end");
	assert_int_equal(b.len, strlen("xyz-42-end"));
}

static void test_growth_keeps_the_content(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	for (int i = 0; i < 100000; i++)
		buf_append_char(&b, (char)('a' + i % 26));
	assert_int_equal(b.len, 100000);
	for (int i = 0; i < 100000; i++)
		assert_int_equal(b.data[i], 'a' + i % 26);
	assert_int_equal(b.data[b.len], 0);
}

static void test_reserve_allows_direct_writes(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	buf_reserve(&b, 1000);
	assert_true(b.cap > 1000);
	assert_int_equal(b.len, 0);
	assert_int_equal(b.data[0], 0);
	memset(b.data, 'x', 1000);
	b.data[1000] = '\0';
	b.len = 1000;
	assert_int_equal(strlen(buf_str(&b)), 1000);
}

static void test_drop_front(void **state)
{
	_cleanup_buf_ struct buf b = BUF_INIT;

	buf_append_str(&b, "hello world");
	buf_drop_front(&b, 6);
	assert_string_equal(buf_str(&b), "world");
	buf_drop_front(&b, 5);
	assert_int_equal(b.len, 0);
	assert_string_equal(buf_str(&b), "");
}

static void test_take_empties(void **state)
{
	struct buf b = BUF_INIT;
	char *taken;

	buf_append_str(&b, "mine");
	taken = buf_take(&b);
	assert_string_equal(taken, "mine");
	assert_null(b.data);
	assert_int_equal(b.len, 0);
	free(taken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_empty_buffer_is_a_string),
		cmocka_unit_test(test_append_terminates),
		cmocka_unit_test(test_growth_keeps_the_content),
		cmocka_unit_test(test_reserve_allows_direct_writes),
		cmocka_unit_test(test_drop_front),
		cmocka_unit_test(test_take_empties),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
