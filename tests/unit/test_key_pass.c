/* Passes: what is remembered of keys, and how a change reaches those who hold on to it. */
#include "core/key_pass.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "unit.h"

static struct key_row row_of(const char *key_id, int n)
{
	struct key_row row = { .account_id = "acc_1" };

	str_copy(row.id, sizeof(row.id), key_id);
	snprintf(row.hash, sizeof(row.hash), "%02x%062d", (unsigned int)n & 0xff, n);
	return row;
}

static struct principal known(struct key_passes *passes, const struct key_row *row)
{
	struct principal who = { 0 };
	uint64_t epoch;

	assert_false(key_passes_find(passes, row->hash, &who, &epoch));
	assert_int_equal(key_passes_add(passes, row, NULL, epoch, &who), 0);
	return who;
}

static void a_key_is_found_again(void **state)
{
	struct key_row row = row_of("key_1", 7), other = row_of("key_2", 7 + 256);
	struct key_passes passes;
	struct principal who, again;
	uint64_t epoch;

	row.admin = true;
	key_passes_init(&passes);
	who = known(&passes, &row);
	assert_true(key_passes_find(&passes, row.hash, &again, &epoch));
	assert_ptr_equal(who.pass, again.pass);
	assert_string_equal(again.key_id, "key_1");
	assert_string_equal(again.account_id, "acc_1");
	assert_true(again.admin);
	assert_true(principal_is_good(&again));
	principal_clear(&again);
	assert_false(key_passes_find(&passes, other.hash, &again, &epoch)); /* same bucket */
	principal_clear(&who);
	key_passes_clear(&passes);
}

static void who_holds_on_hears_of_a_change(void **state)
{
	struct key_row row = row_of("key_1", 1), second = row_of("key_1", 2);
	struct key_row other = row_of("key_2", 3);
	struct key_passes passes;
	struct principal a, b, c, copy;

	key_passes_init(&passes);
	a = known(&passes, &row);
	b = known(&passes, &second);
	c = known(&passes, &other);
	principal_copy(&copy, &a);
	key_passes_limit(&passes, "key_1", second.hash, clock_unix_ms() + 60000);
	assert_true(principal_is_good(&a));
	key_passes_limit(&passes, "key_1", second.hash, 0);
	assert_false(principal_is_good(&a));
	assert_false(principal_is_good(&copy));
	assert_true(principal_is_good(&b));
	key_passes_limit(&passes, "key_1", NULL, 0);
	assert_false(principal_is_good(&b));
	assert_true(principal_is_good(&c));
	key_passes_limit(&passes, "key_1", NULL, KEY_PASS_FOREVER); /* never longer */
	assert_false(principal_is_good(&b));
	principal_clear(&a);
	principal_clear(&b);
	principal_clear(&c);
	key_passes_clear(&passes);
	assert_false(principal_is_good(&copy)); /* outlives the table */
	principal_clear(&copy);
}

static void a_row_that_was_read_before_a_change_is_not_taken(void **state)
{
	struct key_row row = row_of("key_1", 1);
	struct key_passes passes;
	struct principal who = { 0 };
	uint64_t epoch;

	key_passes_init(&passes);
	assert_false(key_passes_find(&passes, row.hash, &who, &epoch));
	key_passes_limit(&passes, "key_1", NULL, 0);
	assert_int_equal(key_passes_add(&passes, &row, NULL, epoch, &who), -ESTALE);
	assert_false(key_passes_find(&passes, row.hash, &who, &epoch));
	assert_int_equal(key_passes_add(&passes, &row, NULL, epoch, &who), 0);
	principal_clear(&who);
	key_passes_clear(&passes);
}

static void times_end_it(void **state)
{
	const int64_t now = clock_unix_ms();
	struct key_row row = row_of("key_1", 1);

	assert_int_equal(key_row_until(&row), KEY_PASS_FOREVER);
	row.expires_unix_ms = now + 5000;
	assert_int_equal(key_row_until(&row), now + 5000);
	row.text_expires_unix_ms = now + 1000;
	assert_int_equal(key_row_until(&row), now + 1000);
	row.text_expires_unix_ms = now + 9000;
	assert_int_equal(key_row_until(&row), now + 5000);
	row.revoked_unix_ms = now;
	assert_int_equal(key_row_until(&row), 0);
}

static void those_in_use_are_never_forgotten(void **state)
{
	struct key_row held_row = row_of("key_held", 1);
	struct key_passes passes;
	struct principal held;

	key_passes_init(&passes);
	held = known(&passes, &held_row);
	for (int i = 0; i < 3 * KEY_PASSES_KEPT; i++) {
		struct key_row row = row_of("key_other", 1000 + i);
		struct principal who = known(&passes, &row);

		principal_clear(&who);
	}
	assert_true(passes.n <= KEY_PASSES_KEPT);
	key_passes_limit(&passes, "key_held", NULL, 0);
	assert_false(principal_is_good(&held));
	principal_clear(&held);
	key_passes_clear(&passes);
}

static void one_without_a_pass_is_good(void **state)
{
	struct principal who = { .account_id = "acc_1" }, copy;

	principal_copy(&copy, &who);
	assert_true(principal_is_good(&copy));
	principal_clear(&copy);
	principal_clear(&copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_is_found_again),
		cmocka_unit_test(who_holds_on_hears_of_a_change),
		cmocka_unit_test(a_row_that_was_read_before_a_change_is_not_taken),
		cmocka_unit_test(times_end_it),
		cmocka_unit_test(those_in_use_are_never_forgotten),
		cmocka_unit_test(one_without_a_pass_is_good),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
