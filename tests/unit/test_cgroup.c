/* Control groups: where they are found, by many threads at once. */
#include "unit.h"

#include <pthread.h>
#include <string.h>

#include "warden/cgroup.h"

#define THREADS 8
#define ROUNDS	300

static void test_names(void **state)
{
	assert_true(cgroup_name_valid("sbx_0123456789ab"));
	assert_false(cgroup_name_valid(""));
	assert_false(cgroup_name_valid(".."));
	assert_false(cgroup_name_valid("a/b"));
}

struct finder {
	pthread_t thread;
	const struct cgroup *expected;
	int wrong;
};

static void *find_often(void *arg)
{
	struct finder *finder = arg;

	for (int i = 0; i < ROUNDS; i++) {
		struct cgroup group = { 0 };

		if (cgroup_find("skerry-unit", "one", &group, NULL) < 0 ||
		    memcmp(&group, finder->expected, sizeof(group)) != 0)
			finder->wrong++;
	}
	return NULL;
}

/* Many sandboxes are ended at once; a reader of mounts that shares its buffer finds nothing then.
 */
static void test_found_by_many_at_once(void **state)
{
	struct finder finders[THREADS] = { 0 };
	struct cgroup expected = { 0 };
	struct err err = ERR_INIT;

	if (cgroup_find("skerry-unit", "one", &expected, &err) < 0) {
		print_message("%s\n", err.message);
		skip();
	}
	for (int i = 0; i < THREADS; i++) {
		finders[i].expected = &expected;
		assert_int_equal(pthread_create(&finders[i].thread, NULL, find_often, &finders[i]),
				 0);
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(finders[i].thread, NULL);
		assert_int_equal(finders[i].wrong, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_found_by_many_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
