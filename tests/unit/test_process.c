/* What /proc says of processes. */
#include "unit.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/process.h"

#define TAIL "S 1 7 7 0 -1 4194560 10 0 0 0 120 34 0 0 20 0 5 0 9876 1000 42 18446744073709551615 1"

static void texts(void **state)
{
	static const char *const good[] = {
		"7 (skerryd) " TAIL,
		"7 (a name (with) braces ) S 9) " TAIL,
		"7 () " TAIL,
	};
	static const char *const bad[] = {
		"", ("7 skerryd " TAIL), "7 (skerryd)", "7 (skerryd) S 1 7 7", "7 (skerryd) S x",
	};
	struct process_stat stat;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		memset(&stat, 0, sizeof(stat));
		assert_int_equal(process_stat_parse(good[i], &stat), 0);
		assert_int_equal(stat.cpu_ticks, 154);
		assert_int_equal(stat.start_ticks, 9876);
		assert_int_equal(stat.threads, 5);
		assert_int_equal(stat.resident_pages, 42);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(process_stat_parse(bad[i], &stat), -EBADMSG);
}

static void processes(void **state)
{
	struct process_stat own, same;
	struct process_usage usage;
	pid_t pid;

	(void)state;
	assert_int_equal(process_stat(0, &own), 0);
	assert_int_equal(process_stat(getpid(), &same), 0);
	assert_true(own.start_ticks == same.start_ticks && own.start_ticks > 0);
	assert_true(own.threads == 1 && own.resident_pages > 0);
	assert_int_equal(process_usage(&usage), 0);
	assert_true(usage.open_fds >= 3 && usage.max_fds >= usage.open_fds);
	assert_true(usage.start_unix_seconds > 0 && usage.resident_bytes > 0);

	pid = fork();
	if (pid == 0)
		_exit(0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(process_stat(pid, &same), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts),
		cmocka_unit_test(processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
