/* The limits: the product's defaults, what can be set, and the table of a sandbox's life. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "core/limits.h"
#include "core/status.h"

static void test_defaults_of_the_product(void **state)
{
	struct core_limits limits;

	core_limits_init(&limits);
	assert_int_equal(core_limits_check(&limits, NULL), 0);
	assert_string_equal(limits.default_size, "small");
	assert_string_equal(limits.default_image, "base");
	assert_int_equal(limits.timeout_minutes_default, 15);
	assert_int_equal(limits.timeout_minutes_max, 1440);
	assert_int_equal(limits.sandboxes_per_account, 20);
	assert_int_equal(limits.exec_timeout_ms_default, 120000);
	assert_int_equal(limits.output_bytes_rest, 1024 * 1024);
	assert_int_equal(limits.output_bytes_mcp, 10 * 1024);
	assert_int_equal(limits.output_bytes_max, 16 * 1024 * 1024);
	assert_int_equal(limits.tombstone_days, 7);
	assert_int_equal(limits.n_sizes, 5);
	assert_int_equal(core_limits_size(&limits, "tiny")->milli_vcpus, 250);
	assert_int_equal(core_limits_size(&limits, "xlarge")->memory_mb, 16384);
	assert_null(core_limits_size(&limits, "huge"));
}

static void test_set_by_name(void **state)
{
	struct core_limits limits;

	core_limits_init(&limits);
	assert_int_equal(core_limits_set(&limits, "sandboxes_per_account", "3", NULL), 0);
	assert_int_equal(limits.sandboxes_per_account, 3);
	assert_int_equal(core_limits_set(&limits, "require_isolation", "kvm", NULL), 0);
	assert_string_equal(limits.require_isolation, "kvm");
	assert_int_equal(core_limits_set(&limits, "size.small", "0.5 768 12", NULL), 0);
	assert_int_equal(core_limits_size(&limits, "small")->milli_vcpus, 500);
	assert_int_equal(limits.n_sizes, 5);
	assert_int_equal(core_limits_set(&limits, "size.mine", "2 2048 10", NULL), 0);
	assert_int_equal(limits.n_sizes, 6);
	assert_int_equal(core_limits_size(&limits, "mine")->memory_mb, 2048);
}

static void test_refusals_name_value_and_bounds(void **state)
{
	static const struct {
		const char *name, *value, *says;
		int result;
	} cases[] = {
		{ "nosuch", "1", "nosuch", -ENOENT },
		{ "sandboxes_per_account", "-1", "from 0 to 100000", -EINVAL },
		{ "sandboxes_per_account", "100001", "'100001'", -EINVAL },
		{ "sandboxes_per_account", "1.5", "'1.5'", -EINVAL },
		{ "sandboxes_per_account", "", "''", -EINVAL },
		{ "sandboxes_per_account", "99999999999999999999", "from 0", -EINVAL },
		{ "require_isolation", "none", "'any' nor 'kvm'", -EINVAL },
		{ "default_image", "", "1 to 64", -EINVAL },
		{ "size.", "1 1024 10", "names are", -EINVAL },
		{ "size.custom", "1 1024 10", "names are", -EINVAL },
		{ "size.small", "1 1024", "VCPUS MEMORY_MB DISK_GB", -EINVAL },
		{ "size.small", "1 1024 10 x", "VCPUS MEMORY_MB DISK_GB", -EINVAL },
		{ "size.small", "nan 1024 10", "VCPUS MEMORY_MB DISK_GB", -EINVAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct core_limits limits, before;
		struct err err = ERR_INIT;

		core_limits_init(&limits);
		before = limits;
		assert_int_equal(core_limits_set(&limits, cases[i].name, cases[i].value, &err),
				 cases[i].result);
		assert_non_null(strstr(err.message, cases[i].says));
		assert_memory_equal(&limits, &before, sizeof(limits));
	}
}

static void test_limits_that_contradict_each_other(void **state)
{
	struct core_limits limits;
	struct err err = ERR_INIT;

	core_limits_init(&limits);
	limits.timeout_minutes_default = limits.timeout_minutes_max + 1;
	assert_int_equal(core_limits_check(&limits, &err), -EINVAL);
	assert_non_null(strstr(err.message, "timeout_minutes_default"));
	core_limits_init(&limits);
	assert_int_equal(core_limits_set(&limits, "default_size", "huge", NULL), 0);
	assert_int_equal(core_limits_check(&limits, &err), -EINVAL);
	core_limits_init(&limits);
	assert_int_equal(core_limits_set(&limits, "size.big", "16 1024 10", NULL), 0);
	assert_int_equal(core_limits_check(&limits, &err), -EINVAL);
	assert_non_null(strstr(err.message, "'big'"));
}

static void test_json_has_everything(void **state)
{
	_cleanup_json_ json_t *json = NULL;
	struct core_limits limits;
	json_t *size;

	core_limits_init(&limits);
	json = core_limits_json(&limits);
	size = json_array_get(json_object_get(json, "sizes"), 0);
	assert_string_equal(json_get_str(size, "name", ""), "tiny");
	assert_true(json_number_value(json_object_get(size, "vcpus")) == 0.25);
	assert_int_equal(json_get_int(json, "sandboxes_per_account", 0), 20);
	assert_string_equal(json_get_str(json, "default_image", ""), "base");
}

/* ---- the life of a sandbox ---- */

static void test_status_names(void **state)
{
	enum sandbox_status status;

	for (enum sandbox_status i = SANDBOX_CREATING; i <= SANDBOX_FAILED; i++) {
		assert_int_equal(sandbox_status_parse(sandbox_status_name(i), &status), 0);
		assert_int_equal(status, i);
	}
	assert_int_equal(sandbox_status_parse("sleeping", &status), -EINVAL);
}

static void test_moves(void **state)
{
	/* Row: from; column: to. C r P p R d D F */
	static const char *const allowed[] = {
		[SANDBOX_CREATING] = "-r---dDF",  [SANDBOX_RUNNING] = "--P--dDF",
		[SANDBOX_PAUSING] = "-r-p-dDF",	  [SANDBOX_PAUSED] = "----RdDF",
		[SANDBOX_RESUMING] = "-r-p-dDF",  [SANDBOX_DESTROYING] = "------DF",
		[SANDBOX_DESTROYED] = "--------", [SANDBOX_FAILED] = "--------",
	};

	for (enum sandbox_status from = SANDBOX_CREATING; from <= SANDBOX_FAILED; from++) {
		for (enum sandbox_status to = SANDBOX_CREATING; to <= SANDBOX_FAILED; to++)
			assert_int_equal(sandbox_move_allowed(from, to), allowed[from][to] != '-');
	}
	assert_true(sandbox_status_ended(SANDBOX_DESTROYED));
	assert_true(sandbox_status_ended(SANDBOX_FAILED));
	assert_false(sandbox_status_ended(SANDBOX_DESTROYING));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults_of_the_product),
		cmocka_unit_test(test_set_by_name),
		cmocka_unit_test(test_refusals_name_value_and_bounds),
		cmocka_unit_test(test_limits_that_contradict_each_other),
		cmocka_unit_test(test_json_has_everything),
		cmocka_unit_test(test_status_names),
		cmocka_unit_test(test_moves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
