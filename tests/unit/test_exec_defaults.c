/* What commands start with where their request says nothing. */
#include "unit.h"

#include <string.h>

#include "core/exec_defaults.h"

static void test_of_an_image(void **state)
{
	struct exec_defaults d;

	exec_defaults_init(&d, "{\"user\":\"app\",\"workdir\":\"/srv\",\"shell\":\"/bin/sh\","
			       "\"env\":{\"PATH\":\"/opt/bin:/bin\",\"EMPTY\":\"\"}}");
	assert_string_equal(d.user, "app");
	assert_string_equal(d.workdir, "/srv");
	assert_string_equal(d.env[0], "PATH=/opt/bin:/bin");
	assert_string_equal(d.env[1], "EMPTY=");
	assert_null(d.env[2]);
	exec_defaults_clear(&d);
}

/* A login begins there anyway, and does not fail when it is gone. */
static void test_home_is_left_to_the_login(void **state)
{
	struct exec_defaults d;

	exec_defaults_init(&d, "{\"user\":\"app\",\"workdir\":\"/home/app\"}");
	assert_null(d.workdir);
	exec_defaults_clear(&d);
	exec_defaults_init(&d, "{\"user\":\"root\",\"workdir\":\"/root\"}");
	assert_null(d.workdir);
	exec_defaults_clear(&d);
	exec_defaults_init(&d, "{\"user\":\"app\",\"workdir\":\"/home/app/src\"}");
	assert_string_equal(d.workdir, "/home/app/src");
	exec_defaults_clear(&d);
}

static void test_what_is_no_configuration(void **state)
{
	const char *const texts[] = {
		NULL,
		"",
		"{",
		"[]",
		"{}",
		"{\"user\":7,\"env\":[\"A=1\"]}",
		"{\"user\":\"\",\"env\":{\"A\":1,\"B=C\":\"x\",\"\":\"y\"}}"
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct exec_defaults d;

		exec_defaults_init(&d, texts[i]);
		assert_null(d.user);
		assert_null(d.workdir);
		assert_null(exec_defaults_env(&d, NULL));
		exec_defaults_clear(&d);
	}
}

static void test_the_request_goes_before(void **state)
{
	const char *const asked[] = { "OTHER=2", "PATHS=x", NULL };
	struct exec_defaults d;
	const char **env;

	exec_defaults_init(&d, "{\"env\":{\"PATH\":\"/bin\",\"OTHER\":\"1\"}}");
	env = exec_defaults_env(&d, asked);
	assert_string_equal(env[0], "OTHER=2");
	assert_string_equal(env[1], "PATHS=x");
	assert_string_equal(env[2], "PATH=/bin");
	assert_null(env[3]);
	free(env);
	env = exec_defaults_env(&d, NULL);
	assert_string_equal(env[0], "PATH=/bin");
	assert_string_equal(env[1], "OTHER=1");
	assert_null(env[2]);
	free(env);
	exec_defaults_clear(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_an_image),
		cmocka_unit_test(test_home_is_left_to_the_login),
		cmocka_unit_test(test_what_is_no_configuration),
		cmocka_unit_test(test_the_request_goes_before),
	};

	return cmocka_run_group_tests_name("exec_defaults", tests, NULL, NULL);
}
