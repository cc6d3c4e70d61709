/* Requests per second of a key: bursts, their end, and keys apart. */
#include "unit.h"

#include <stdio.h>

#include "core/rate.h"

static unsigned int take_all(struct rate *rate, const char *key_id, int64_t now_ms)
{
	unsigned int n = 0;

	while (n < 100000 && rate_take(rate, key_id, now_ms))
		n++;
	return n;
}

static void test_no_limit(void **state)
{
	struct rate rate;

	rate_init(&rate, 0);
	assert_int_equal(take_all(&rate, "key_1", 5), 100000);
	rate_clear(&rate);
}

static void test_burst_then_evenly(void **state)
{
	struct rate rate;

	rate_init(&rate, 3);
	assert_int_equal(take_all(&rate, "key_1", 1000), 30);
	assert_false(rate_take(&rate, "key_1", 1333));
	assert_true(rate_take(&rate, "key_1", 1334));
	assert_false(rate_take(&rate, "key_1", 1335));
	assert_int_equal(take_all(&rate, "key_1", 2334), 3);
	assert_int_equal(take_all(&rate, "key_1", 7000000), 30); /* never more than full */
	assert_false(rate_take(&rate, "key_1", 6000000));	 /* time does not go back */
	rate_clear(&rate);
}

static void test_keys_apart(void **state)
{
	struct rate rate;
	char key[24];
	int i;

	rate_init(&rate, 1);
	assert_int_equal(take_all(&rate, "key_1", 1000), 10);
	assert_int_equal(take_all(&rate, "key_2", 1000), 10);
	/* more keys than buckets: those that ask stay, the one that asked least lately goes */
	for (i = 0; i < 2 * RATE_BUCKETS; i++) {
		snprintf(key, sizeof(key), "other_%d", i);
		assert_true(rate_take(&rate, key, 1001 + i));
		assert_false(rate_take(&rate, "key_2", 1001 + i));
	}
	assert_int_equal(take_all(&rate, "key_1", 1600), 10);
	rate_clear(&rate);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_limit),
		cmocka_unit_test(test_burst_then_evenly),
		cmocka_unit_test(test_keys_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
