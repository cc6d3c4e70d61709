/* The warden's record: what is written is read, what a crash tore is skipped, what is no record
 * says so. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "warden/record.h"

#define START                                                                                      \
	"start boot_id=01234567-89ab-cdef-0123-456789abcdef boottime_ms=1000 unix_ms=5000 "        \
	"warden_pid=10 warden_start=20 vmm_pid=11 vmm_start=21 expires_boottime_ms=2000\n"

struct fixture {
	char dir[SCRATCH_SIZE];
	char path[SCRATCH_SIZE + 16];
};

static int set_up(void **state)
{
	static struct fixture f;

	scratch_make(f.dir);
	snprintf(f.path, sizeof(f.path), "%s/record", f.dir);
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	scratch_remove(f->dir);
	return 0;
}

/* The file's whole text, as a record. */
static int read_text(struct fixture *f, const char *text, struct record *ret)
{
	struct err err = ERR_INIT;

	assert_int_equal(file_write_durable(f->path, text, strlen(text), 0600), 0);
	return record_read(f->path, ret, &err);
}

static void every_event_is_read_as_it_was_written(void **state)
{
	struct fixture *f = *state;
	struct record out = {
		.boot_id = "01234567-89ab-cdef-0123-456789abcdef",
		.start_boottime_ms = 1000,
		.start_unix_ms = 5000,
		.warden_pid = 10,
		.warden_start_ticks = 20,
		.vmm_pid = 11,
		.vmm_start_ticks = 21,
		.expires_boottime_ms = 2000,
		.cause = RECORD_ENDED,
		.reason = "destroyed_by_user",
		.exit_boottime_ms = 9000,
		.exit_unix_ms = 13000,
		.detail = "last words",
	};
	struct record in;
	struct err err = ERR_INIT;

	assert_int_equal(record_append_start(f->path, &out), 0);
	assert_int_equal(record_append_frozen(f->path, 2001, 6001), 0);
	assert_int_equal(record_read(f->path, &in, &err), 0);
	assert_true(in.frozen);
	assert_true(in.frozen_boottime_ms == 2001 && in.frozen_unix_ms == 6001);
	assert_int_equal(in.cause, RECORD_RUNNING);
	assert_int_equal(record_append_exit(f->path, &out), 0);
	assert_int_equal(record_read(f->path, &in, &err), 0);
	assert_true(in.frozen); /* it ended as it stood: the time since is nobody's */
	assert_int_equal(in.cause, RECORD_ENDED);
	assert_string_equal(in.reason, "destroyed_by_user");
	assert_string_equal(in.detail, "last words");
	assert_int_equal(in.vmm_pid, 11);
}

static void a_new_deadline_ends_the_frozen_time(void **state)
{
	struct fixture *f = *state;
	struct record in;

	assert_int_equal(read_text(f,
				   START "frozen boottime_ms=2000 unix_ms=6000\n"
					 "deadline boottime_ms=2500 expires_boottime_ms=3000\n"
					 "frozen boottime_ms=3000 unix_ms=7000\n"
					 "deadline boottime_ms=4000 expires_boottime_ms=9000\n"
					 "deadline boottime_ms=5000 expires_boottime_ms=9500\n",
				   &in),
			 0);
	assert_false(in.frozen);
	assert_true(in.frozen_total_ms == 500 + 1000);
	assert_true(in.expires_boottime_ms == 9500);
}

static void the_deadline_tells_when_it_was_moved(void **state)
{
	struct fixture *f = *state;
	int64_t now_ms = clock_boottime_ms();
	struct record in;
	struct err err = ERR_INIT;

	assert_int_equal(read_text(f, START "frozen boottime_ms=1 unix_ms=6000\n", &in), 0);
	assert_int_equal(record_append_deadline(f->path, 8000), 0);
	assert_int_equal(record_read(f->path, &in, &err), 0);
	assert_false(in.frozen);
	assert_in_range(in.frozen_total_ms, now_ms - 1, clock_boottime_ms() - 1);
}

static void torn_lines_are_skipped(void **state)
{
	static const char *const torn[] = {
		"frozen boottime_ms=2000\n",
		"frozen\n",
		"frozen boottime_ms=-5 unix_ms=1\n",
		"frozen boottime_ms=x unix_ms=1\n",
		"frozen boottime_ms=2000 unix_ms=6000",
		"deadline boottime_ms=7\n",
		"melted boottime_ms=2000 unix_ms=6000\n",
		"\n",
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(torn); i++) {
		char text[512];
		struct record in;

		snprintf(text, sizeof(text), START "%s", torn[i]);
		assert_int_equal(read_text(f, text, &in), 0);
		assert_false(in.frozen);
		assert_true(in.expires_boottime_ms == 2000);
	}
}

static void what_is_no_record_says_so(void **state)
{
	static const char *const bad[] = {
		"",
		"frozen boottime_ms=2000 unix_ms=6000\n",
		"deadline boottime_ms=1 expires_boottime_ms=3000\n",
		"start boot_id=short boottime_ms=1000 expires_boottime_ms=2000\n",
	};
	struct fixture *f = *state;
	struct record in;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(read_text(f, bad[i], &in), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_event_is_read_as_it_was_written, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_new_deadline_ends_the_frozen_time, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(the_deadline_tells_when_it_was_moved, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(torn_lines_are_skipped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_no_record_says_so, set_up, tear_down),
	};

	return cmocka_run_group_tests_name("record", tests, NULL, NULL);
}
