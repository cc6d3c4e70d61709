/* What the machine's texts say, and the form of what is found. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "host/check.h"
#include "host/parse.h"

static void versions(void **state)
{
	static const struct {
		const char *text;
		int r, major, minor;
	} cases[] = {
		{ "6.1.0-18-amd64", 0, 6, 1 },
		{ "6.18.44-fc-v782", 0, 6, 18 },
		{ "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)", 0, 7, 2 },
		{ "v10 is not one, but 10.0 is", 0, 10, 0 },
		{ "version 3", -EINVAL, 0, 0 },
		{ "1.", -EINVAL, 0, 0 },
		{ ".5", -EINVAL, 0, 0 },
		{ "", -EINVAL, 0, 0 },
		{ "99999999999999999999.1", -EINVAL, 0, 0 },
		{ "1.99999999999999999999", -EINVAL, 0, 0 },
		{ "99999999999999999999.1 and 4.2", 0, 4, 2 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int major = 0, minor = 0;

		if (host_parse_version(cases[i].text, &major, &minor) != cases[i].r ||
		    major != cases[i].major || minor != cases[i].minor)
			fail_msg("'%s' gave %d.%d", cases[i].text, major, minor);
	}
}

static void words(void **state)
{
	(void)state;
	assert_true(host_has_word("cpuset cpu io memory pids\n", "cpu"));
	assert_true(host_has_word("cpuset cpu io memory pids\n", "pids"));
	assert_true(host_has_word("cpuset", "cpuset"));
	assert_false(host_has_word("cpuset io", "cpu"));
	assert_false(host_has_word("mycpu", "cpu"));
	assert_false(host_has_word("", "cpu"));
}

static void meminfo(void **state)
{
	static const char text[] = "MemTotal:       24567890 kB\nMemFree:  12 kB\n"
				   "MemAvailable:   22000000 kB\nSwapFree:              0 kB\n";

	(void)state;
	assert_true(host_parse_meminfo(text, "MemTotal") == 24567890);
	assert_true(host_parse_meminfo(text, "MemAvailable") == 22000000);
	assert_true(host_parse_meminfo(text, "SwapFree") == 0);
	assert_true(host_parse_meminfo(text, "Mem") == -1);
	assert_true(host_parse_meminfo(text, "Cached") == -1);
	assert_true(host_parse_meminfo("", "MemTotal") == -1);
}

/* A fix is said where there is something to fix, and only there. */
static void form(void **state)
{
	const struct host_check cases[] = {
		{ .name = "a", .level = HOST_OK, .detail = "x", .fix = "never said" },
		{ .name = "b", .level = HOST_ADVICE, .detail = "y", .fix = "could be" },
		{ .name = "c", .level = HOST_MISSING, .detail = "z", .fix = "must be" },
	};
	static const char *const levels[] = { "ok", "advice", "missing" };
	_cleanup_json_ json_t *checks = json_array();

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		const json_t *json;

		host_check_add(checks, &cases[i]);
		json = json_array_get(checks, i);
		assert_string_equal(json_get_str(json, "level", ""), levels[i]);
		assert_int_equal(json_get_bool(json, "ok", false), i < 2);
		assert_int_equal(json_is_null(json_object_get(json, "fix")), i == 0);
	}
}

/* On whatever machine this is: every check comes to something, and leaves nothing behind. */
static void this_machine(void **state)
{
	static const char *const nothing[] = { "/nowhere/qemu", NULL };
	const struct host_spec spec = {
		.state_dir = "/nowhere/at/all",
		.free_disk_mb_min = INT64_MAX,
		.qemu = nothing,
		.descriptors_wanted = 1,
	};
	_cleanup_json_ json_t *checks = json_array();
	const json_t *check;
	size_t i, seen = 0;

	(void)state;
	host_checks(&spec, checks);
	json_array_foreach(checks, i, check) {
		const char *name = json_get_str(check, "name", "");

		assert_true(json_get_str(check, "detail", "")[0] != '\0');
		if (strcmp(name, "qemu") == 0 || strcmp(name, "disk") == 0) {
			assert_false(json_get_bool(check, "ok", true));
			assert_non_null(json_get_str(check, "fix", NULL));
			seen++;
		}
		if (strcmp(name, "descriptors") == 0) {
			assert_string_equal(json_get_str(check, "level", ""), "ok");
			seen++;
		}
		/* Nobody asked for them. */
		assert_true(strcmp(name, "kvm") != 0 && strcmp(name, "port") != 0);
	}
	assert_int_equal(seen, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions),	cmocka_unit_test(words),
		cmocka_unit_test(meminfo),	cmocka_unit_test(form),
		cmocka_unit_test(this_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
