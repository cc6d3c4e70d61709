/* The warden's record: what is written is read, and damage of any kind is survived or named. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "warden/record.h"

#define BOOT_ID "01234567-89ab-cdef-0123-456789abcdef"

static char dir[SCRATCH_SIZE];
static char path[SCRATCH_SIZE + 16];

static const struct record started = {
	.boot_id = BOOT_ID,
	.start_boottime_ms = 1000,
	.start_unix_ms = 1796013277234,
	.warden_pid = 11,
	.warden_start_ticks = 22,
	.vmm_pid = 33,
	.vmm_start_ticks = 44,
	.expires_boottime_ms = 61000,
};

static const struct record ended = {
	.exit_boottime_ms = 5000,
	.exit_unix_ms = 1796013281234,
	.cause = RECORD_GUEST_PANIC,
	.vmm_status = 256,
	.reason = "a word",
	.detail = "Kernel panic = not syncing: \x1b[31mred\nexit cause=ended",
};

static int set_up(void **state)
{
	scratch_make(dir);
	snprintf(path, sizeof(path), "%s/record", dir);
	return 0;
}

static int tear_down(void **state)
{
	scratch_remove(dir);
	return 0;
}

static void append(const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	close(fd);
}

static struct record read_back(void)
{
	struct record record;
	struct err err = ERR_INIT;

	if (record_read(path, &record, &err) < 0)
		fail_msg("%s", err.message);
	return record;
}

static void assert_unreadable(int num)
{
	struct record record = { .vmm_pid = 1234 };
	struct err err = ERR_INIT;

	assert_int_equal(record_read(path, &record, &err), num);
	assert_non_null(strstr(err.message, path));
	assert_int_equal(record.vmm_pid, 1234); /* untouched */
}

static void start_deadline_and_exit_are_read(void **state)
{
	struct record record;
	struct stat st;

	assert_int_equal(record_append_start(path, &started), 0);
	record = read_back();
	assert_true(record.started);
	assert_string_equal(record.boot_id, BOOT_ID);
	assert_int_equal(record.cause, RECORD_RUNNING);
	assert_int_equal(record.warden_pid, 11);
	assert_int_equal(record.warden_start_ticks, 22);
	assert_int_equal(record.vmm_pid, 33);
	assert_int_equal(record.vmm_start_ticks, 44);
	assert_int_equal(record.start_unix_ms, started.start_unix_ms);
	assert_int_equal(record.expires_boottime_ms, 61000);

	assert_int_equal(record_append_deadline(path, 70000), 0);
	assert_int_equal(record_append_deadline(path, 65000), 0);
	assert_int_equal(read_back().expires_boottime_ms, 65000);

	assert_int_equal(record_append_exit(path, &ended), 0);
	record = read_back();
	assert_int_equal(record.cause, RECORD_GUEST_PANIC);
	assert_int_equal(record.exit_boottime_ms, 5000);
	assert_int_equal(record.vmm_status, 256);
	assert_string_equal(record.reason, "a_word");
	assert_string_equal(record.detail, "Kernel panic = not syncing: ?[31mred?exit cause=ended");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

static void start_is_written_once(void **state)
{
	assert_int_equal(record_append_start(path, &started), 0);
	assert_int_equal(record_append_start(path, &started), -EEXIST);
}

static void first_exit_counts(void **state)
{
	struct record again = ended;

	again.cause = RECORD_ENDED;
	assert_int_equal(record_append_start(path, &started), 0);
	assert_int_equal(record_append_exit(path, &ended), 0);
	assert_int_equal(record_append_exit(path, &again), 0);
	assert_int_equal(read_back().cause, RECORD_GUEST_PANIC);
}

static void nothing_is_appended_to_no_record(void **state)
{
	assert_int_equal(record_append_exit(path, &ended), -ENOENT);
	assert_int_equal(record_append_deadline(path, 1), -ENOENT);
	assert_unreadable(-ENOENT);
}

static void torn_line_is_ignored(void **state)
{
	assert_int_equal(record_append_start(path, &started), 0);
	append("exit boottime_ms=9 unix_ms=9 cause=expired status=0 reason= detail=never whole");
	assert_int_equal(read_back().cause, RECORD_RUNNING);
}

/* A later writer begins a line of its own, and the torn one does not count. */
static void torn_line_does_not_swallow_the_next(void **state)
{
	assert_int_equal(record_append_start(path, &started), 0);
	append("exit boottime_ms=9 unix_ms=9 cau");
	assert_int_equal(record_append_deadline(path, 70000), 0);
	append("exit boottime_ms=9 unix_ms=9 cause=expired status=0");
	assert_int_equal(record_append_exit(path, &ended), 0);
	assert_int_equal(read_back().expires_boottime_ms, 70000);
	assert_int_equal(read_back().cause, RECORD_GUEST_PANIC);
}

static void later_keys_and_events_are_skipped(void **state)
{
	assert_int_equal(record_append_start(path, &started), 0);
	append("tapped slot=3\ndeadline colour=red expires_boottime_ms=62000\n");
	assert_int_equal(read_back().expires_boottime_ms, 62000);
}

static void what_is_no_record_is_refused(void **state)
{
	static const char *const cases[] = {
		"",
		"\n",
		"garbage\n",
		"deadline expires_boottime_ms=1\n",
		"start boot_id=" BOOT_ID " boottime_ms=1 unix_ms=1 warden_pid=1 warden_start=1 "
		"vmm_pid=1 vmm_start=1 expires_boottime_ms=1", /* torn */
		"start boot_id=short boottime_ms=1 unix_ms=1 warden_pid=1 warden_start=1 "
		"vmm_pid=1 vmm_start=1 expires_boottime_ms=1\n",
		"start boot_id=" BOOT_ID " boottime_ms=1 unix_ms=1 warden_pid=0 warden_start=1 "
		"vmm_pid=1 vmm_start=1 expires_boottime_ms=1\n",
		"start boot_id=" BOOT_ID " boottime_ms=1 unix_ms=1 warden_pid=-1 warden_start=1 "
		"vmm_pid=1 vmm_start=1 expires_boottime_ms=1\n",
		"start boot_id=" BOOT_ID " boottime_ms=1 unix_ms=1 warden_pid=99999999999 "
		"warden_start=1 vmm_pid=1 vmm_start=1 expires_boottime_ms=1\n",
		"start boot_id=" BOOT_ID "0123456789 boottime_ms=1 unix_ms=1 warden_pid=1 "
		"warden_start=1 vmm_pid=1 vmm_start=1 expires_boottime_ms=1\n",
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unlink(path);
		append(cases[i]);
		assert_unreadable(-EBADMSG);
	}
}

static void endless_line_is_refused(void **state)
{
	struct buf line = BUF_INIT;

	assert_int_equal(record_append_start(path, &started), 0);
	for (int i = 0; i < 4096; i++)
		buf_append_char(&line, 'x');
	append(line.data);
	buf_clear(&line);
	assert_unreadable(-EBADMSG);
}

static void link_is_not_followed(void **state)
{
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_unreadable(-ELOOP);
}

static void process_start_identifies_this_process(void **state)
{
	uint64_t a = 0, b = 0;

	assert_int_equal(record_process_start(getpid(), &a), 0);
	assert_int_equal(record_process_start(getpid(), &b), 0);
	assert_true(a > 0 && a == b);
	assert_int_equal(record_process_start(1 << 30, &a), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(start_deadline_and_exit_are_read, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(start_is_written_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(first_exit_counts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nothing_is_appended_to_no_record, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(torn_line_is_ignored, set_up, tear_down),
		cmocka_unit_test_setup_teardown(torn_line_does_not_swallow_the_next, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(later_keys_and_events_are_skipped, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(what_is_no_record_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(endless_line_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(link_is_not_followed, set_up, tear_down),
		cmocka_unit_test(process_start_identifies_this_process),
	};

	return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
