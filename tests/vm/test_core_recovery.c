/*
 * A daemon can end at any moment: what its next start finds, with real VMs, is adopted, ended with
 * the right times and reasons, or undone. One image and one template serve all tests.
 */
#include "core_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/spawn.h"
#include "store/intervals.h"
#include "store/ledger_check.h"

static struct rig rig;

static int make(void **state)
{
	rig_make(&rig);
	return 0;
}

static int remove_all(void **state)
{
	rig_remove(&rig);
	return 0;
}

#define CHARGED_EVERY_MS 60000 /* charge_interval_seconds */

/* The run that a sandbox has had is charged to that moment; 0: to one at which it was known to run,
 * because nobody wrote its end down. What is charged agrees with its interval: the check sees to
 * that. */
static void assert_charged_to(const char *id, int64_t ended_unix_ms)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_free_ struct interval_row *runs = NULL;
	struct ledger_findings findings;
	size_t n = 0;

	assert_int_equal(db_begin_read(rig.core->db, &txn, NULL), 0);
	assert_int_equal(intervals_list(&txn, id, &runs, &n, NULL), 0);
	assert_int_equal(n, 1);
	if (ended_unix_ms)
		assert_in_range(runs[0].ended_unix_ms, ended_unix_ms - 1000, ended_unix_ms + 1000);
	else
		assert_in_range(runs[0].ended_unix_ms - runs[0].started_unix_ms, 0,
				CHARGED_EVERY_MS);
	assert_int_equal(ledger_check(&txn, &findings, NULL), 0);
	assert_string_equal(findings.first, "");
}

/* ---- a daemon that is killed ---- */

/* Another process on the same directory, which says "ready …" and is then killed. */
struct daemon {
	struct child child;
	int out;
	struct buf said;
};

static void daemon_start(struct daemon *d, const char *what)
{
	const char *const argv[] = { "/proc/self/exe", "--daemon", rig.dir, what, NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct err err = ERR_INIT;
	int fds[2];

	*d = (struct daemon){ 0 };
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	spec.argv = argv;
	spec.stdout_fd = fds[1];
	if (spawn(&spec, &d->child, &err) < 0)
		fail_msg("spawn: %s", err.message);
	close(fds[1]);
	d->out = fds[0];
}

/* Waits for a line and returns its second word. */
static void daemon_read(struct daemon *d, char *out, size_t out_size)
{
	int64_t deadline = clock_boottime_ms() + 60000;
	char *newline, *space;

	while (!(newline = d->said.len ? memchr(d->said.data, '\n', d->said.len) : NULL)) {
		struct pollfd p = { .fd = d->out, .events = POLLIN };
		char chunk[256];
		ssize_t n;

		if (poll(&p, 1, clock_remaining_ms(deadline)) == 0)
			fail_msg("the daemon says nothing");
		n = read(d->out, chunk, sizeof(chunk));
		assert_true(n > 0);
		buf_append(&d->said, chunk, (size_t)n);
	}
	*newline = '\0';
	space = strchr(d->said.data, ' ');
	str_copy(out, out_size, space ? space + 1 : "");
	buf_drop_front(&d->said, (size_t)(newline - d->said.data) + 1);
}

static void daemon_kill(struct daemon *d)
{
	child_kill(&d->child);
	close(d->out);
	buf_clear(&d->said);
}

static void test_killed_daemon_leaves_sandboxes_alive(void **state)
{
	struct daemon d;
	struct sandbox_info info;
	struct record record;
	struct answer a;
	char id[SANDBOX_ID_SIZE], exec_id[EXEC_ID_SIZE];
	int64_t expires;

	rig_close(&rig);
	daemon_start(&d, "create");
	daemon_read(&d, id, sizeof(id));
	daemon_read(&d, exec_id, sizeof(exec_id));
	daemon_kill(&d);
	/* The record has a later deadline than the row, as after a kill in the middle of extending.
	 */
	rig_read_record(&rig, id, &record);
	expires = clock_unix_ms() + record.expires_boottime_ms - clock_boottime_ms();
	/* Killed during its recovery as well, at some moments of it. */
	for (int i = 0; i < 3; i++) {
		daemon_start(&d, "recover");
		poll(NULL, 0, 15 * (i + 1));
		daemon_kill(&d);
	}
	rig_open(&rig);
	rig_get(&rig, id, &info);
	assert_int_equal(info.status, SANDBOX_RUNNING);
	assert_in_range(info.expires_unix_ms - expires + 1000, 900, 1100);
	sandbox_info_clear(&info);
	rig_expect(&rig, id, "cat ~/mark", "before the kill\n");
	/* The command that was running goes on, and nothing of its output is lost. */
	answer_init(&a);
	assert_int_equal(answer_wait_for(&a, &rig, id, exec_id, 20000, 0, NULL), 0);
	answer_get(&a, 30000);
	assert_false(a.failed);
	assert_false(a.result.running);
	assert_string_equal(buf_str(&a.result.out), "one\ntwo\n");
	answer_clear(&a);
	rig_read_record(&rig, id, &record);
	rig_destroy(&rig, id);
	rig_assert_no_residue(&rig, id, &record);
}

static void test_deadline_while_the_daemon_is_down(void **state)
{
	struct daemon d;
	struct sandbox_info info;
	struct record record;
	char id[SANDBOX_ID_SIZE];
	uint64_t ticks;

	rig_close(&rig);
	daemon_start(&d, "expire");
	daemon_read(&d, id, sizeof(id));
	rig_read_record(&rig, id, &record);
	daemon_kill(&d);
	poll(NULL, 0, clock_remaining_ms(record.expires_boottime_ms + 1500));
	/* Gone on time, although nobody was there. */
	assert_true(record_process_start(record.vmm_pid, &ticks) < 0 ||
		    ticks != record.vmm_start_ticks);
	rig_read_record(&rig, id, &record);
	assert_int_equal(record.cause, RECORD_EXPIRED);
	assert_in_range(record.exit_boottime_ms - record.expires_boottime_ms + 100, 100, 1100);
	rig_open(&rig);
	rig_get(&rig, id, &info);
	assert_int_equal(info.status, SANDBOX_DESTROYED);
	assert_string_equal(info.reason, "expired");
	assert_int_equal(info.ended_unix_ms, record.exit_unix_ms);
	assert_charged_to(id, record.exit_unix_ms);
	sandbox_info_clear(&info);
	rig_assert_no_residue(&rig, id, &record);
}

static void test_killed_while_creating(void **state)
{
	for (int delay_ms = 0; delay_ms < 300; delay_ms += 50) {
		struct daemon d;
		struct sandbox_info *items;
		struct core_list_request all = { .status = "all", .limit = 1 };
		char word[32];
		char *cursor = NULL;
		size_t n;

		rig_close(&rig);
		daemon_start(&d, "creating");
		daemon_read(&d, word, sizeof(word));
		poll(NULL, 0, delay_ms);
		daemon_kill(&d);
		rig_open(&rig);
		assert_int_equal(core_list(rig.core, &rig.admin, &all, &items, &n, &cursor, NULL),
				 0);
		free(cursor);
		assert_int_equal(n, 1);
		/* Done or undone, nothing between. */
		if (items[0].status == SANDBOX_RUNNING)
			rig_destroy(&rig, items[0].id);
		else
			assert_true(sandbox_status_ended(items[0].status));
		rig_assert_no_residue(&rig, items[0].id, NULL);
		core_list_clear(items, n);
	}
}

static void test_what_is_not_ours_is_left(void **state)
{
	_cleanup_free_ char *foreign = xasprintf("%s/state/sandboxes/not-ours", rig.dir);
	_cleanup_free_ char *orphan = xasprintf("%s/state/sandboxes/sbx_0123456789ab/run", rig.dir);

	rig_close(&rig);
	assert_int_equal(dir_make(foreign, 0700), 0);
	assert_int_equal(dir_make(orphan, 0700), 0);
	rig_open(&rig);
	assert_int_equal(access(foreign, F_OK), 0);
	assert_int_equal(access(orphan, F_OK), -1);
	assert_int_equal(rmdir(foreign), 0);
}

static void test_damaged_template_is_made_anew(void **state)
{
	_cleanup_free_ char *command =
		xasprintf("echo x >>$(ls -d %s/state/templates/*/state)", rig.dir);
	const char *const argv[] = { "/bin/sh", "-c", command, NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	char id[SANDBOX_ID_SIZE];

	rig_close(&rig);
	spec.argv = argv;
	assert_int_equal(spawn_run(&spec, clock_boottime_ms() + 5000, NULL, 0, NULL, NULL, NULL),
			 0);
	rig_open(&rig);
	rig_create(&rig, NULL, id);
	rig_expect(&rig, id, "echo fresh", "fresh\n");
	rig_destroy(&rig, id);
}

/* ---- what ended unseen ---- */

static void kill_and_wait(pid_t pid, uint64_t start_ticks)
{
	int64_t deadline = clock_boottime_ms() + 5000;
	uint64_t ticks;

	kill(pid, SIGKILL);
	while (record_process_start(pid, &ticks) == 0 && ticks == start_ticks) {
		assert_true(clock_boottime_ms() < deadline);
		poll(NULL, 0, 20);
	}
}

/* A sandbox whose daemon, warden and VM went down without a word, as by a loss of power. */
static void make_power_cut(const char *what, char id[SANDBOX_ID_SIZE], struct record *ret)
{
	struct daemon d;

	rig_close(&rig);
	daemon_start(&d, what);
	daemon_read(&d, id, SANDBOX_ID_SIZE);
	daemon_kill(&d);
	rig_read_record(&rig, id, ret);
	kill_and_wait(ret->warden_pid, ret->warden_start_ticks);
	kill_and_wait(ret->vmm_pid, ret->vmm_start_ticks);
}

static void assert_end(const char *id, const char *reason, int64_t ended_unix_ms,
		       const struct record *record)
{
	bool written = record->cause != RECORD_RUNNING;

	struct sandbox_info info;

	/* The next start but one finds nothing more to do. */
	for (int i = 0; i < 2; i++) {
		rig_open(&rig);
		rig_get(&rig, id, &info);
		assert_int_equal(info.status, SANDBOX_DESTROYED);
		assert_string_equal(info.reason, reason);
		assert_in_range(info.ended_unix_ms, ended_unix_ms - 1000, ended_unix_ms + 1000);
		assert_charged_to(id, written ? record->exit_unix_ms : 0);
		sandbox_info_clear(&info);
		rig_assert_no_residue(&rig, id, record);
		if (i == 0)
			rig_close(&rig);
	}
}

static void test_a_warden_that_died_unheard(void **state)
{
	struct record record;
	char id[SANDBOX_ID_SIZE];

	make_power_cut("idle", id, &record);
	assert_end(id, "vmm_crashed", clock_unix_ms(), &record);
	/* Found after its deadline, it has not lived beyond it. */
	make_power_cut("expire", id, &record);
	poll(NULL, 0, clock_remaining_ms(record.expires_boottime_ms + 3000));
	assert_end(id, "vmm_crashed", clock_unix_ms() - 3000, &record);
}

/* The record as an earlier boot of the host would have left it: another boot's id, and times of it.
 */
static void date_before_boot(const char *id, const struct record *was, int64_t start_unix_ms)
{
	_cleanup_free_ char *path = xasprintf("%s/state/sandboxes/%s/run/record", rig.dir, id);
	struct record record = *was;

	str_copy(record.boot_id, sizeof(record.boot_id), "00000000-0000-4000-8000-000000000000");
	record.start_unix_ms = start_unix_ms;
	assert_int_equal(unlink(path), 0);
	assert_int_equal(record_append_start(path, &record), 0);
	if (was->cause != RECORD_RUNNING)
		assert_int_equal(record_append_exit(path, &record), 0);
}

static void set_row_expires(const char *id, int64_t expires_unix_ms)
{
	_cleanup_free_ char *path = xasprintf("%s/state/skerry.db", rig.dir);
	struct db_txn txn = DB_TXN_INIT;
	struct db *db;

	assert_int_equal(db_open(path, &db, NULL), 0);
	assert_int_equal(db_begin_write(db, &txn, NULL), 0);
	assert_int_equal(sandboxes_set_expires(&txn, id, expires_unix_ms, NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
	db_close(db);
}

/* It ended when the host went down, of which the next boot is the latest moment, or at its deadline
 * before that. */
static void test_the_host_was_restarted(void **state)
{
	int64_t boot_unix_ms = clock_unix_ms() - clock_boottime_ms();
	const struct {
		int64_t expires_unix_ms, ended_unix_ms;
	} cases[] = {
		{ boot_unix_ms + 600000, boot_unix_ms },
		{ boot_unix_ms - 30000, boot_unix_ms - 30000 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct record record;
		char id[SANDBOX_ID_SIZE];

		make_power_cut("idle", id, &record);
		date_before_boot(id, &record, boot_unix_ms - 60000);
		set_row_expires(id, cases[i].expires_unix_ms);
		assert_end(id, "host_restarted", cases[i].ended_unix_ms, &record);
	}
}

/* What the warden still wrote counts. */
static void test_an_exit_before_the_host_was_restarted(void **state)
{
	struct daemon d;
	struct record record;
	char id[SANDBOX_ID_SIZE];

	rig_close(&rig);
	daemon_start(&d, "expire");
	daemon_read(&d, id, sizeof(id));
	daemon_kill(&d);
	rig_read_record(&rig, id, &record);
	poll(NULL, 0, clock_remaining_ms(record.expires_boottime_ms + 1500));
	rig_read_record(&rig, id, &record);
	assert_int_equal(record.cause, RECORD_EXPIRED);
	date_before_boot(id, &record, record.start_unix_ms);
	assert_end(id, "expired", record.exit_unix_ms, &record);
}

/* ---- the daemon that is killed ---- */

static void say(const char *word, const char *value)
{
	char line[128];
	int len = snprintf(line, sizeof(line), "%s %s\n", word, value);

	if (fd_write_all(STDOUT_FILENO, line, (size_t)len) < 0)
		abort();
}

static int be_daemon(const char *dir, const char *what)
{
	char id[SANDBOX_ID_SIZE];

	rig_for_dir(&rig, dir);
	rig_open(&rig);
	if (str_eq(what, "creating"))
		say("now", "creating");
	if (!str_eq(what, "recover"))
		rig_create(&rig, NULL, id);
	if (str_eq(what, "create")) {
		struct answer a;

		rig_expect(&rig, id, "echo before the kill >~/mark", "");
		rig_set_deadline(&rig, id, 20 * 60000);
		answer_init(&a);
		if (answer_exec(
			    &a, &rig, id,
			    &(struct core_exec_request){ .command = "echo one; sleep 4; echo two" },
			    NULL) < 0)
			abort();
		answer_get(&a, 20000);
		say("sandbox", id);
		say("exec", a.result.exec_id);
	}
	if (str_eq(what, "idle"))
		say("sandbox", id);
	if (str_eq(what, "expire")) {
		rig_set_deadline(&rig, id, 2500);
		say("sandbox", id);
	}
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_daemon_leaves_sandboxes_alive),
		cmocka_unit_test(test_deadline_while_the_daemon_is_down),
		cmocka_unit_test(test_killed_while_creating),
		cmocka_unit_test(test_what_is_not_ours_is_left),
		cmocka_unit_test(test_damaged_template_is_made_anew),
		cmocka_unit_test(test_a_warden_that_died_unheard),
		cmocka_unit_test(test_the_host_was_restarted),
		cmocka_unit_test(test_an_exit_before_the_host_was_restarted),
	};

	log_init(LOG_LVL_WARN);
	if (argc == 4 && str_eq(argv[1], "--daemon"))
		return be_daemon(argv[2], argv[3]);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, make, remove_all);
}
