/*
 * Pausing and resuming: by hand, by a request, at the deadline, when idle; what goes on after it,
 * and what goes wrong. With real VMs; one image and one template serve all tests.
 */
#include "state_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/spawn.h"
#include "store/intervals.h"

static struct rig rig;
static struct small_disk disk;

static int make(void **state)
{
	small_disk_enter(&disk);
	rig_make(&rig);
	return 0;
}

static int remove_all(void **state)
{
	rig_remove(&rig);
	small_disk_leave(&disk);
	return 0;
}

/* ---- pause and resume ---- */

/* Before the first command: what it reads lies between the host's times before and after it. */
static void check_clock(const char *id)
{
	int64_t before_ms = clock_unix_ms(), guest_ms;
	_cleanup_free_ char *text = rig_output(&rig, id, "date +%s%3N");

	guest_ms = strtoll(text, NULL, 10);
	if (guest_ms < before_ms - 500 || guest_ms > clock_unix_ms() + 500)
		fail_msg("the guest's clock is off by %lld ms", (long long)(guest_ms - before_ms));
}

/* By hand, or because its lifetime is about to end. */
static void pause_somehow(const char *id, int turn)
{
	if (turn % 3 != 2) {
		rig_pause(&rig, id);
		return;
	}
	rig_set_deadline(&rig, id, 5000);
	assert_int_equal(rig_wait_status(&rig, id, SANDBOX_PAUSED, 60000), 0);
}

static void test_ten_cycles(void **state)
{
	char id[SANDBOX_ID_SIZE];
	struct answer half_done;
	struct err err = ERR_INIT;
	struct interval_row *intervals = NULL;
	size_t n = 0;
	long count = 0;

	rig_create(&rig,
		   &(struct core_create_request){ .name = "cycles", .pause_on_timeout = true }, id);
	rig_start_server_and_counter(&rig, id);
	answer_init(&half_done);
	assert_int_equal(answer_exec(&half_done, &rig, id,
				     &(struct core_exec_request){
					     .command = "echo begin; sleep 12; echo end",
					     .timeout_ms = 100000,
					     .wait_ms = -1 },
				     &err),
			 0);
	for (int i = 0; i < 10; i++) {
		_cleanup_free_ char *edit =
			xasprintf("echo edit %d >>~/edits; head -c 300000 /dev/urandom >~/blob%d;"
				  "cat ~/edits ~/blob* | sha256sum",
				  i, i % 3);
		_cleanup_free_ char *before = rig_output(&rig, id, edit), *after = NULL;
		int64_t began = clock_boottime_ms(), paused, resumed;
		long now;

		pause_somehow(id, i);
		paused = clock_boottime_ms();
		if (i % 2)
			rig_resume(&rig, id); /* else by the command */
		resumed = clock_boottime_ms();
		check_clock(id);
		print_message("cycle %d: pause %lld ms, resume %lld ms\n", i,
			      (long long)(paused - began), (long long)(resumed - paused));
		after = rig_output(&rig, id, "cat ~/edits ~/blob* | sha256sum");
		assert_string_equal(before, after);
		now = rig_number(&rig, id, "tail -n 1 ~/count");
		assert_true(now >= count);
		count = now;
	}
	rig_check_server(&rig, id);
	rig_expect(&rig, id, "wc -l <~/edits; hostname; cat /run/skerry/generation",
		   "10\ncycles\n11\n");
	answer_get(&half_done, 60000);
	if (half_done.failed)
		fail_msg("the half-done command: %s", half_done.err.message);
	assert_string_equal(buf_str(&half_done.result.out), "begin\nend\n");
	answer_clear(&half_done);
	{
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

		assert_int_equal(db_begin_read(rig.core->db, &txn, NULL), 0);
		assert_int_equal(intervals_list(&txn, id, &intervals, &n, NULL), 0);
	}
	assert_int_equal(n, 11);
	for (size_t i = 1; i < n; i++)
		assert_true(intervals[i].started_unix_ms >= intervals[i - 1].ended_unix_ms);
	assert_int_equal(intervals[10].ended_unix_ms, 0);
	free(intervals);
	rig_destroy(&rig, id);
	rig_assert_no_residue(&rig, id, NULL);
}

/* ---- a stream across pauses ---- */

#define STREAM_BYTES  (100u << 20)
#define STREAM_CREDIT (1u << 20)
#define PATTERN	      "0123456789abcde\n"

struct reader {
	struct core_stream *stream;
	_Atomic uint64_t next;
	atomic_bool ended, wrong;
	int exit_code;
};

static void on_stream_data(void *arg, int which, uint64_t offset, const void *data, size_t len)
{
	struct reader *reader = arg;
	const char *bytes = data;

	if (which != PROTO_STDOUT || offset != reader->next)
		reader->wrong = true;
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] != PATTERN[(offset + i) % 16])
			reader->wrong = true;
	}
	reader->next = offset + len;
	core_stream_credit(reader->stream, which, len);
}

static void on_stream_ended(void *arg, const struct core_exec_result *result, const struct err *err)
{
	struct reader *reader = arg;

	if (err)
		print_message("stream: %s\n", err->message);
	reader->exit_code = result ? result->exit_code : -1;
	reader->ended = true;
}

static void wait_bytes(struct reader *reader, uint64_t bytes)
{
	int64_t deadline = clock_boottime_ms() + rig_patience_ms(300000);

	while (reader->next < bytes && !reader->ended) {
		if (clock_boottime_ms() > deadline)
			fail_msg("the stream stands at %llu", (unsigned long long)reader->next);
		poll(NULL, 0, 5);
	}
}

static void test_stream_across_pauses(void **state)
{
	const struct core_stream_sink sink = { .data = on_stream_data, .ended = on_stream_ended };
	const struct core_exec_request req = {
		.command = "yes 0123456789abcde | head -c 104857600",
		.command_len = strlen("yes 0123456789abcde | head -c 104857600"),
		.timeout_ms = 900000,
	};
	struct reader reader = { 0 };
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, NULL, id);
	/* Without credit nothing comes before reader.stream is known. */
	if (core_exec_stream(rig.core, &rig.admin, id, &req, &sink, &reader, 0, &reader.stream,
			     &err) < 0)
		fail_msg("stream: %s", err.message);
	core_stream_credit(reader.stream, PROTO_STDOUT, STREAM_CREDIT);
	for (unsigned int i = 1; i <= 3; i++) {
		uint64_t at = (uint64_t)i * 20 << 20;

		wait_bytes(&reader, at);
		rig_pause(&rig, id);
		assert_false(reader.ended);
		rig_resume(&rig, id);
	}
	wait_bytes(&reader, STREAM_BYTES);
	for (int i = 0; i < 600 && !reader.ended; i++)
		poll(NULL, 0, 50);
	assert_true(reader.ended);
	assert_false(reader.wrong);
	assert_int_equal(reader.next, STREAM_BYTES);
	assert_int_equal(reader.exit_code, 0);
	core_stream_close(reader.stream);
	rig_destroy(&rig, id);
}

struct many {
	const char *id;
	atomic_int failed;
};

static void *ask(void *arg)
{
	struct many *many = arg;
	struct answer a;
	struct err err = ERR_INIT;

	answer_init(&a);
	if (answer_exec(&a, &rig, many->id,
			&(struct core_exec_request){ .command = "cat ~/mark", .wait_ms = -1 },
			&err) < 0) {
		print_message("exec: %s\n", err.message);
		many->failed++;
	} else {
		answer_get(&a, 400000);
		if (a.failed || !str_eq(buf_str(&a.result.out), "here\n"))
			many->failed++;
	}
	answer_clear(&a);
	return NULL;
}

static void test_fifty_requests_resume_once(void **state)
{
	struct many many = { 0 };
	struct sandbox_info info;
	pthread_t threads[50];
	int64_t began;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, NULL, id);
	rig_expect(&rig, id, "echo here >~/mark", "");
	rig_pause(&rig, id);
	rig_assert_status(&rig, id, SANDBOX_PAUSED);
	many.id = id;
	began = clock_boottime_ms();
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask, &many), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(many.failed, 0);
	print_message("fifty requests to a paused one: %lld ms\n",
		      (long long)(clock_boottime_ms() - began));
	rig_get(&rig, id, &info);
	assert_int_equal(info.generation, 2);
	sandbox_info_clear(&info);
	rig_destroy(&rig, id);
}

/* Says the list of this filter what get says? */
static void assert_listed(const struct core_list_request *req, const char *id, bool listed)
{
	struct sandbox_info *infos = NULL, info;
	char *cursor = NULL;
	size_t n = 0, found = 0;

	rig_get(&rig, id, &info);
	assert_int_equal(core_list(rig.core, &rig.admin, req, &infos, &n, &cursor, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		if (!str_eq(infos[i].id, id))
			continue;
		found++;
		assert_int_equal(infos[i].status, info.status);
		assert_int_equal(infos[i].remaining_ms, info.remaining_ms);
		assert_int_equal(infos[i].generation, info.generation);
	}
	assert_int_equal(found, listed);
	core_list_clear(infos, n);
	sandbox_info_clear(&info);
}

static void assert_filters_agree(const char *id, bool paused)
{
	assert_listed(&(struct core_list_request){ 0 }, id, true);
	assert_listed(&(struct core_list_request){ .status = "all" }, id, true);
	assert_listed(&(struct core_list_request){ .status = "paused" }, id, paused);
	assert_listed(&(struct core_list_request){ .status = "running" }, id, !paused);
	assert_listed(&(struct core_list_request){ .image = "base" }, id, true);
	assert_listed(&(struct core_list_request){ .label = "kind=cold" }, id, true);
	assert_listed(&(struct core_list_request){ .label = "kind=warm" }, id, false);
}

static void test_paused_are_listed_and_destroyed(void **state)
{
	_cleanup_json_ json_t *labels = json_pack("{s:s}", "kind", "cold");
	struct sandbox_info info;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, &(struct core_create_request){ .labels = labels }, id);
	assert_filters_agree(id, false);
	rig_pause(&rig, id);
	assert_filters_agree(id, true);
	/* A daemon that was stopped and started keeps it. */
	rig_close(&rig);
	rig_open(&rig);
	assert_filters_agree(id, true);
	rig_expect(&rig, id, "echo still", "still\n");
	assert_filters_agree(id, false);
	rig_pause(&rig, id);
	rig_destroy(&rig, id);
	rig_get(&rig, id, &info);
	assert_string_equal(info.reason, "destroyed_by_user");
	sandbox_info_clear(&info);
	assert_listed(&(struct core_list_request){ .status = "paused" }, id, false);
	rig_assert_no_residue(&rig, id, NULL);
}

/* ---- destroying from every state ---- */

static void *pause_or_resume(void *arg)
{
	struct sandbox_info info = { 0 };
	struct err err = ERR_INIT;
	enum sandbox_status status;

	rig_get(&rig, arg, &info);
	status = info.status;
	sandbox_info_clear(&info);
	/* It may come too late, and says so then. */
	if (status == SANDBOX_PAUSED)
		core_resume(rig.core, &rig.admin, arg, &info, &err);
	else
		core_pause(rig.core, &rig.admin, arg, &info, &err);
	sandbox_info_clear(&info);
	return NULL;
}

/* Its first state is running or paused; a moment later somebody wants it gone. */
static void destroy_while(bool resuming, int after_ms)
{
	struct sandbox_info info;
	char id[SANDBOX_ID_SIZE];
	pthread_t thread;

	rig_create(&rig, NULL, id);
	if (resuming)
		rig_pause(&rig, id);
	assert_int_equal(pthread_create(&thread, NULL, pause_or_resume, id), 0);
	poll(NULL, 0, after_ms);
	rig_destroy(&rig, id);
	pthread_join(thread, NULL);
	rig_get(&rig, id, &info);
	assert_string_equal(info.reason, "destroyed_by_user");
	sandbox_info_clear(&info);
	assert_listed(&(struct core_list_request){ 0 }, id, false);
	rig_assert_no_residue(&rig, id, NULL);
}

static void test_destroy_while_pausing_and_resuming(void **state)
{
	static const int after_ms[] = { 0, 20, 80, 200 };

	for (size_t i = 0; i < ARRAY_SIZE(after_ms); i++) {
		destroy_while(false, after_ms[i]);
		destroy_while(true, after_ms[i]);
	}
}

static void test_damage_is_named(void **state)
{
	_cleanup_free_ char *path = NULL;
	struct sandbox_info info;
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE], byte;
	int fd;

	rig_create(&rig, NULL, id);
	rig_pause(&rig, id);
	path = xasprintf("%s/state/sandboxes/%s/pause/" SAVED_MEMORY, rig.dir, id);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, 300000), 1);
	byte = (char)~byte;
	assert_int_equal(pwrite(fd, &byte, 1, 300000), 1);
	assert_true(core_resume(rig.core, &rig.admin, id, &info, &err) < 0);
	assert_string_equal(err_code_of(&err), "snapshot_damaged");
	rig_assert_status(&rig, id, SANDBOX_PAUSED);
	byte = (char)~byte;
	assert_int_equal(pwrite(fd, &byte, 1, 300000), 1);
	close(fd);
	rig_resume(&rig, id);
	rig_destroy(&rig, id);
}

static void test_paused_at_its_deadline(void **state)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, &(struct core_create_request){ .pause_on_timeout = true }, id);
	rig_expect(&rig, id, "echo kept >~/mark", "");
	sb = table_find(rig.core, id, NULL);
	pthread_mutex_lock(&sb->op_lock);
	assert_int_equal(vmm_extend(rig.driver, &sb->vm, clock_boottime_ms() + 8000,
				    clock_boottime_ms() + 5000, NULL),
			 0);
	sb->expires_boottime_ms = clock_boottime_ms() + 8000;
	pthread_mutex_unlock(&sb->op_lock);
	assert_int_equal(rig_wait_status(&rig, id, SANDBOX_PAUSED, 40000), 0);
	rig_expect(&rig, id, "cat ~/mark", "kept\n");
	rig_destroy(&rig, id);
}

/* ---- what cannot be paused at its deadline ---- */

/* When the guest's commands ran: the last time before its next run. */
static int64_t last_tick(const char *id, int64_t resumed_ms)
{
	_cleanup_free_ char *command =
		xasprintf("awk '$1 < %lld' ~/ticks | tail -n 1", (long long)resumed_ms);
	_cleanup_free_ char *text = rig_output(&rig, id, command);

	return strtoll(text, NULL, 10);
}

/* In its row, too, as where it was asked for. */
static void set_whole_deadline(const char *id, int64_t in_ms)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(rig.core, id, NULL);
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	rig_set_deadline(&rig, id, in_ms);
	sb->expires_unix_ms = clock_unix_ms() + in_ms;
	assert_int_equal(db_begin_write(rig.core->db, &txn, NULL), 0);
	assert_int_equal(sandboxes_set_expires(&txn, id, sb->expires_unix_ms, NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
}

/* Its lifetime is over, and it stands still. */
static void wait_held(const char *id, int64_t until_unix_ms)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(rig.core, id, NULL);
	bool held = false;

	while (!held && clock_unix_ms() < until_unix_ms) {
		poll(NULL, 0, 50);
		pthread_mutex_lock(&sb->op_lock);
		held = sb->held && sandbox_is_overdue(sb);
		pthread_mutex_unlock(&sb->op_lock);
	}
	assert_true(held);
	rig_assert_status(&rig, id, SANDBOX_PAUSING);
}

/* Its memory finds no room on the disk until long after its deadline: it stands still all the time,
 * also under another daemon, and is paused as soon as there is room. */
static void test_a_pause_that_fails_does_not_prolong_a_life(void **state)
{
	_cleanup_free_ char *filler = xasprintf("%s/state/filler", rig.dir);
	struct interval_row *intervals = NULL;
	char id[SANDBOX_ID_SIZE];
	int64_t deadline, last;
	size_t n = 0;

	if (!disk.dir[0])
		skip();
	rig_create(&rig, &(struct core_create_request){ .pause_on_timeout = true }, id);
	rig_expect(&rig, id, "head -c 40000000 /dev/urandom >/dev/shm/x; echo kept >~/mark; sync",
		   "");
	rig_background(&rig, id, "while :; do date +%s%3N >>~/ticks; sleep 0.2; done");
	small_disk_fill(&disk, filler, 30 << 20);
	deadline = clock_unix_ms() + 7000;
	set_whole_deadline(id, 7000);
	wait_held(id, deadline + PAUSE_GRACE_MS);
	rig_close(&rig);
	rig_open(&rig);
	for (int i = 0; i < 140; i++) { /* it is tried again */
		poll(NULL, 0, 50);
		rig_assert_status(&rig, id, SANDBOX_PAUSING);
	}
	unlink(filler);
	assert_int_equal(rig_wait_status(&rig, id, SANDBOX_PAUSED, 60000), 0);
	last = last_tick(id, clock_unix_ms());
	print_message("its commands ran until %lld ms after its deadline\n",
		      (long long)(last - deadline));
	assert_in_range(last, deadline - 7000, deadline + PAUSE_GRACE_MS);
	rig_expect(&rig, id, "cat ~/mark", "kept\n");
	{
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

		assert_int_equal(db_begin_read(rig.core->db, &txn, NULL), 0);
		assert_int_equal(intervals_list(&txn, id, &intervals, &n, NULL), 0);
	}
	assert_int_equal(n, 2);
	assert_true(intervals[0].ended_unix_ms < deadline + 1000); /* the grace is free */
	free(intervals);
	rig_destroy(&rig, id);
	rig_assert_no_residue(&rig, id, NULL);
}

/* Its agent does not answer any more, so that its commands cannot be held still. */
static void test_one_that_cannot_be_held_is_destroyed_in_time(void **state)
{
	struct sandbox_info info;
	struct record record;
	char id[SANDBOX_ID_SIZE];
	int64_t deadline;
	int channel;

	rig_create(&rig, &(struct core_create_request){ .pause_on_timeout = true }, id);
	rig_read_record(&rig, id, &record);
	channel = rig_take_channel(&rig, id);
	deadline = clock_boottime_ms() + 8000;
	rig_set_deadline(&rig, id, 8000);
	rig_wait_ended(&rig, id, 8000 + PAUSE_GRACE_MS + 60000, &info);
	assert_string_equal(info.reason, "expired");
	assert_non_null(strstr(info.reason_text, "could not be paused"));
	sandbox_info_clear(&info);
	assert_true(clock_boottime_ms() >= deadline);
	close(channel);
	rig_assert_no_residue(&rig, id, &record);
}

/* ---- idle ---- */

/* The daemon that started the job is gone; the next one asks the guest. */
static void test_idle_under_another_daemon(void **state)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, &(struct core_create_request){ .idle_pause_minutes = 1 }, id);
	rig_background(&rig, id, "while [ ! -e ~/stop ]; do sleep 0.2; done");
	rig_close(&rig);
	rig_open(&rig);
	sb = table_find(rig.core, id, NULL);
	sb->used_boottime_ms = clock_boottime_ms() - 70000;
	for (int i = 0; i < 600 && !sb->idle_not_before_ms; i++)
		poll(NULL, 0, 50);
	assert_true(sb->idle_not_before_ms > 0); /* it was asked, and a job runs */
	assert_int_equal(sandbox_status(sb), SANDBOX_RUNNING);
	rig_expect(&rig, id, "touch ~/stop; sleep 1", "");
	/* Nothing runs, and the last command has just ended. */
	sb->idle_not_before_ms = 0;
	sb->used_boottime_ms = clock_boottime_ms() - 70000;
	for (int i = 0; i < 600 && !sb->idle_not_before_ms; i++)
		poll(NULL, 0, 50);
	assert_in_range(sb->idle_not_before_ms - clock_boottime_ms(), 20000, 60000);
	sb->idle_pause_ms = 1000; /* a minute has passed */
	sb->idle_not_before_ms = 0;
	for (int i = 0; i < 600 && sandbox_status(sb) != SANDBOX_PAUSED; i++)
		poll(NULL, 0, 50); /* asking for it would be use */
	assert_int_equal(sandbox_status(sb), SANDBOX_PAUSED);
	rig_destroy(&rig, id);
}

static void test_idle_is_paused_and_a_job_is_not(void **state)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, &(struct core_create_request){ .idle_pause_minutes = 1 }, id);
	sb = table_find(rig.core, id, NULL);
	rig_background(&rig, id, "sleep 4");
	sb->used_boottime_ms = clock_boottime_ms() - 58000;
	poll(NULL, 0, 3500); /* the minute is over, the job is not */
	assert_int_equal(sandbox_status(sb), SANDBOX_RUNNING);
	poll(NULL, 0, 3000);
	assert_int_equal(sandbox_status(sb), SANDBOX_RUNNING); /* its end was use, too */
	/* As if the minute since that end were over; its guest, which is asked, knows it as well.
	 */
	sb->idle_pause_ms = 1000;
	sb->idle_not_before_ms = 0;
	sb->used_boottime_ms = clock_boottime_ms() - 2000;
	for (int i = 0; i < 400 && sandbox_status(sb) != SANDBOX_PAUSED; i++)
		poll(NULL, 0, 50);
	assert_int_equal(sandbox_status(sb), SANDBOX_PAUSED);
	rig_destroy(&rig, id);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ten_cycles),
		cmocka_unit_test(test_stream_across_pauses),
		cmocka_unit_test(test_fifty_requests_resume_once),
		cmocka_unit_test(test_paused_are_listed_and_destroyed),
		cmocka_unit_test(test_destroy_while_pausing_and_resuming),
		cmocka_unit_test(test_damage_is_named),
		cmocka_unit_test(test_paused_at_its_deadline),
		cmocka_unit_test(test_idle_is_paused_and_a_job_is_not),
		cmocka_unit_test(test_idle_under_another_daemon),
		cmocka_unit_test(test_a_pause_that_fails_does_not_prolong_a_life),
		cmocka_unit_test(test_one_that_cannot_be_held_is_destroyed_in_time),
	};

	log_init(LOG_LVL_WARN);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, make, remove_all);
}
