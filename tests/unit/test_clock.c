/* Clocks and RFC 3339. */
#include "unit.h"

#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

static void test_rfc3339(void **state)
{
	static const struct {
		int64_t ms;
		const char *text;
	} cases[] = {
		{ 0, "1970-01-01T00:00:00.000Z" },
		{ 1796011260123, "2026-11-30T04:01:00.123Z" },
		{ 951782400000, "2000-02-29T00:00:00.000Z" },
		{ -1, "1969-12-31T23:59:59.999Z" },
		{ -62135596800000, "0001-01-01T00:00:00.000Z" },
		{ INT64_MAX, "9999-12-31T23:59:59.999Z" },
		{ INT64_MIN, "0000-01-01T00:00:00.000Z" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char out[CLOCK_RFC3339_SIZE];

		assert_string_equal(clock_rfc3339(cases[i].ms, out), cases[i].text);
	}
}

static void test_boottime_advances(void **state)
{
	int64_t before_us = clock_boottime_us(), before_ms = clock_boottime_ms();

	usleep(3000);
	assert_true(clock_boottime_us() - before_us >= 3000);
	assert_true(clock_boottime_ms() - before_ms >= 2);
	assert_true(llabs(clock_boottime_us() / 1000 - clock_boottime_ms()) < 1000);
}

static void test_remaining_is_clamped(void **state)
{
	int remaining = clock_remaining_ms(clock_boottime_ms() + 5000);

	assert_int_equal(clock_remaining_ms(clock_boottime_ms() - 1), 0);
	assert_int_equal(clock_remaining_ms(INT64_MIN), 0);
	assert_int_equal(clock_remaining_ms(INT64_MAX), INT_MAX);
	assert_true(remaining > 0 && remaining <= 5000);
}

static void test_boot_id(void **state)
{
	char first[37], second[37];

	assert_int_equal(clock_boot_id(first), 0);
	assert_int_equal(clock_boot_id(second), 0);
	assert_int_equal(strlen(first), 36);
	assert_int_equal(first[8], '-');
	assert_string_equal(first, second);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rfc3339),
		cmocka_unit_test(test_boottime_advances),
		cmocka_unit_test(test_remaining_is_clamped),
		cmocka_unit_test(test_boot_id),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
