/*
 * The core with real VMs: a sandbox's life from creation to tombstone, its commands, and that a
 * daemon can be killed at any moment. One image and one template serve all tests.
 */
#include "core_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "loop/spawn.h"

static struct rig rig;
static const char *self; /* this program, for the daemons that are killed */

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

/* ---- life ---- */

static void test_create_exec_destroy(void **state)
{
	struct sandbox_info info;
	struct record record;
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE];
	int64_t began = clock_boottime_ms(), created, first, second;
	struct answer a;

	rig_create(&rig, &(struct core_create_request){ .name = "web-1" }, id);
	created = clock_boottime_ms();
	rig_expect(&rig, id, "true", "");
	first = clock_boottime_ms();
	rig_expect(&rig, id, "true", "");
	second = clock_boottime_ms();
	print_message("create %lld ms, first exec %lld ms, second %lld ms\n",
		      (long long)(created - began), (long long)(first - created),
		      (long long)(second - first));
	rig_expect(&rig, id, "hostname; whoami; pwd", "web-1\nsandbox\n/home/sandbox\n");
	rig_get(&rig, id, &info);
	assert_int_equal(info.status, SANDBOX_RUNNING);
	assert_string_equal(info.isolation, "emulated");
	assert_int_equal(info.expires_unix_ms - info.created_unix_ms, 15 * 60000);
	sandbox_info_clear(&info);
	rig_read_record(&rig, id, &record);
	rig_destroy(&rig, id);
	rig_assert_no_residue(&rig, id, &record);
	rig_get(&rig, id, &info);
	assert_string_equal(info.reason, "destroyed_by_user");
	assert_true(info.ended_unix_ms >= info.created_unix_ms);
	sandbox_info_clear(&info);
	rig_destroy(&rig, id); /* idempotent */
	answer_init(&a);
	assert_int_equal(
		answer_exec(&a, &rig, id, &(struct core_exec_request){ .command = "true" }, &err),
		-ESHUTDOWN);
	assert_string_equal(err_code_of(&err), "sandbox_ended");
	answer_clear(&a);
}

static void test_sandboxes_are_distinct(void **state)
{
	char a[SANDBOX_ID_SIZE], b[SANDBOX_ID_SIZE];
	const char *const ids[] = { a, b };
	char *seen[2];

	rig_create(&rig, NULL, a);
	rig_create(&rig, NULL, b);
	for (int i = 0; i < 2; i++) {
		struct answer answer;

		answer_init(&answer);
		assert_int_equal(
			answer_exec(&answer, &rig, ids[i],
				    &(struct core_exec_request){
					    .command =
						    "hostname; cat /etc/machine-id; head -c 16 "
						    "/dev/urandom | od -An -tx1; echo x >~/f; ls ~",
					    .wait_ms = -1,
				    },
				    NULL),
			0);
		answer_get(&answer, 60000);
		assert_int_equal(answer.result.exit_code, 0);
		seen[i] = buf_take(&answer.result.out);
		answer_clear(&answer);
	}
	assert_string_not_equal(seen[0], seen[1]);
	/* Not one of the three lines is the same. */
	for (int line = 0; line < 3; line++) {
		char *l0 = seen[0], *l1 = seen[1], *e0, *e1;

		for (int skip = 0; skip < line; skip++) {
			l0 = strchr(l0, '\n') + 1;
			l1 = strchr(l1, '\n') + 1;
		}
		e0 = strchr(l0, '\n');
		e1 = strchr(l1, '\n');
		assert_true(e0 - l0 != e1 - l1 || memcmp(l0, l1, (size_t)(e0 - l0)) != 0);
	}
	free(seen[0]);
	free(seen[1]);
	rig_destroy(&rig, a);
	rig_destroy(&rig, b);
}

/* The bound on minutes is the API's; a deadline in seconds is set where the VM takes it from. */
static void set_deadline(const char *id, int64_t in_ms)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(rig.core, id, NULL);
	struct err err = ERR_INIT;

	assert_non_null(sb);
	pthread_mutex_lock(&sb->op_lock);
	if (vmm_extend(rig.driver, &sb->vm, clock_boottime_ms() + in_ms, clock_boottime_ms() + 5000,
		       &err) < 0)
		fail_msg("deadline: %s", err.message);
	sb->expires_boottime_ms = clock_boottime_ms() + in_ms;
	pthread_mutex_unlock(&sb->op_lock);
}

static void test_extend(void **state)
{
	struct sandbox_info before, after;
	struct err err = ERR_INIT;
	struct record record;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, &(struct core_create_request){ .timeout_minutes = 5 }, id);
	rig_get(&rig, id, &before);
	assert_int_equal(core_extend(rig.core, &rig.admin, id, 10, &after, NULL), 0);
	assert_int_equal(after.expires_unix_ms - before.expires_unix_ms, 600000);
	sandbox_info_clear(&after);
	rig_read_record(&rig, id, &record);
	assert_in_range(record.expires_boottime_ms - record.start_boottime_ms, 14 * 60000,
			15 * 60000);
	/* Beyond the total nothing changes. */
	assert_int_equal(core_extend(rig.core, &rig.admin, id, 1426, &after, &err), -ERANGE);
	assert_string_equal(err_code_of(&err), "limit_reached");
	assert_non_null(strstr(err.hint, "1425"));
	rig_get(&rig, id, &after);
	assert_int_equal(after.expires_unix_ms - before.expires_unix_ms, 600000);
	sandbox_info_clear(&after);
	sandbox_info_clear(&before);
	rig_destroy(&rig, id);
	assert_int_equal(core_extend(rig.core, &rig.admin, id, 1, &after, &err), -ESHUTDOWN);
	assert_string_equal(err_code_of(&err), "already_ended");
}

static void test_expiry_ends_on_time_with_its_commands(void **state)
{
	struct sandbox_info info;
	struct record record;
	struct answer a;
	char id[SANDBOX_ID_SIZE];
	int64_t deadline_unix;

	rig_create(&rig, NULL, id);
	answer_init(&a);
	assert_int_equal(
		answer_exec(&a, &rig, id,
			    &(struct core_exec_request){ .command = "sleep 1000", .wait_ms = -1 },
			    NULL),
		0);
	deadline_unix = clock_unix_ms() + 2000;
	set_deadline(id, 2000);
	rig_read_record(&rig, id, &record);
	answer_get(&a, 10000);
	assert_true(a.failed);
	assert_string_equal(err_code_of(&a.err), "sandbox_ended");
	assert_non_null(strstr(a.err.message, "expired"));
	answer_clear(&a);
	rig_wait_ended(&rig, id, 5000, &info);
	assert_string_equal(info.reason, "expired");
	assert_in_range(info.ended_unix_ms - deadline_unix + 1000, 900, 2500);
	sandbox_info_clear(&info);
	rig_assert_no_residue(&rig, id, &record);
}

static void test_crashes_have_reasons(void **state)
{
	static const struct {
		const char *command, *reason;
	} cases[] = {
		{ "echo c >/proc/sysrq-trigger; sleep 60", "guest_crashed" },
		{ "echo o >/proc/sysrq-trigger; sleep 60", "destroyed_by_user" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases) + 1; i++) {
		bool vmm = i == ARRAY_SIZE(cases);
		struct sandbox_info info;
		struct record record;
		struct answer a;
		char id[SANDBOX_ID_SIZE];
		int64_t began;

		rig_create(&rig, NULL, id);
		rig_read_record(&rig, id, &record);
		answer_init(&a);
		assert_int_equal(answer_exec(&a, &rig, id,
					     &(struct core_exec_request){
						     .command = vmm ? "sleep 60" : cases[i].command,
						     .user = "root",
						     .wait_ms = -1,
					     },
					     NULL),
				 0);
		began = clock_boottime_ms();
		if (vmm)
			kill(record.vmm_pid, SIGKILL);
		answer_get(&a, 20000);
		assert_true(a.failed);
		assert_string_equal(err_code_of(&a.err), "sandbox_ended");
		assert_in_range(clock_boottime_ms() - began, 0, 10000);
		answer_clear(&a);
		rig_wait_ended(&rig, id, 10000, &info);
		assert_string_equal(info.reason, vmm ? "vmm_crashed" : cases[i].reason);
		sandbox_info_clear(&info);
		rig_assert_no_residue(&rig, id, &record);
	}
}

/* ---- commands ---- */

static void run(const char *id, const struct core_exec_request *req, struct answer *a)
{
	struct err err = ERR_INIT;

	answer_init(a);
	if (answer_exec(a, &rig, id, req, &err) < 0)
		fail_msg("exec: %s", err.message);
	answer_get(a, 90000);
}

static void test_results(void **state)
{
	char id[SANDBOX_ID_SIZE];
	const char *const env[] = { "A=b c", NULL };
	struct answer a;

	rig_create(&rig, NULL, id);
#define RUN(...) run(id, &(struct core_exec_request){ .wait_ms = -1, __VA_ARGS__ }, &a)
	RUN(.command = "echo out; echo err >&2; exit 3");
	assert_string_equal(buf_str(&a.result.out), "out\n");
	assert_string_equal(buf_str(&a.result.err), "err\n");
	assert_int_equal(a.result.exit_code, 3);
	assert_false(a.result.truncated);
	answer_clear(&a);
	RUN(.command = "kill -9 $$");
	assert_int_equal(a.result.exit_code, 137);
	assert_int_equal(a.result.signal, 9);
	answer_clear(&a);
	RUN(.command = "echo before; sleep 100", .timeout_ms = 700);
	assert_true(a.result.timed_out);
	assert_int_equal(a.result.exit_code, 124);
	assert_string_equal(buf_str(&a.result.out), "before\n");
	assert_in_range(a.result.duration_ms, 600, 5000);
	answer_clear(&a);
	RUN(.command = "cat; echo $A; id -un; pwd", .stdin_data = "in\0put", .stdin_len = 6,
	    .env = env, .user = "root", .cwd = "/etc");
	assert_int_equal(a.result.out.len, 6 + strlen("b c\nroot\n/etc\n"));
	assert_memory_equal(a.result.out.data, "in\0putb c\nroot\n/etc\n", a.result.out.len);
	answer_clear(&a);
	RUN(.command = "true", .cwd = "/nosuch");
	assert_true(a.failed);
	assert_string_equal(err_code_of(&a.err), "cwd_not_found");
	answer_clear(&a);
	RUN(.command = "true", .user = "nobody2");
	assert_string_equal(err_code_of(&a.err), "user_not_found");
	answer_clear(&a);
	/* A child in the background that holds the pipes does not hold the answer. */
	RUN(.command = "(sleep 50; echo late) & echo now");
	assert_string_equal(buf_str(&a.result.out), "now\n");
	answer_clear(&a);
	/* One that loops for good does not poison the next. */
	RUN(.command = "yes >/dev/null", .timeout_ms = 500);
	assert_true(a.result.timed_out);
	answer_clear(&a);
	RUN(.command = "echo next");
	assert_string_equal(buf_str(&a.result.out), "next\n");
	answer_clear(&a);
#undef RUN
	rig_destroy(&rig, id);
}

static void test_output_is_head_and_tail(void **state)
{
	char id[SANDBOX_ID_SIZE];
	struct answer a;
	const char *marker;

	rig_create(&rig, NULL, id);
	/* Exactly the cap is whole, one more is not. */
	run(id,
	    &(struct core_exec_request){ .command = "head -c 4096 /dev/zero | tr '\\0' x",
					 .wait_ms = -1,
					 .max_output_bytes = 4096 },
	    &a);
	assert_false(a.result.truncated);
	assert_int_equal(a.result.out.len, 4096);
	answer_clear(&a);
	run(id,
	    &(struct core_exec_request){ .command = "seq 1 200000; echo error >&2",
					 .wait_ms = -1,
					 .max_output_bytes = 4096 },
	    &a);
	assert_true(a.result.truncated);
	assert_int_equal(a.result.stdout_bytes, 1288895);
	assert_int_equal(a.result.out_to, 1288895);
	assert_true(str_starts(a.result.out.data, "1\n2\n3\n"));
	assert_string_equal(a.result.out.data + a.result.out.len - 14, "199999\n200000\n");
	marker = strstr(a.result.out.data, "… 1284799 bytes left out; whole log in the sandbox: ");
	assert_non_null(marker);
	assert_in_range(a.result.out.len, 4096, 4096 + 200);
	assert_string_equal(buf_str(&a.result.err), "error\n");
	/* The log is where the line says. */
	{
		_cleanup_free_ char *check =
			xasprintf("wc -c </run/skerry/exec/%s/stdout", a.result.exec_id);

		rig_expect(&rig, id, check, "1288895\n");
	}
	answer_clear(&a);
	/* The head is replayed by offset, and characters are whole. */
	run(id,
	    &(struct core_exec_request){ .command = "for i in $(seq 1 1000); do printf 'ä'; done",
					 .wait_ms = -1,
					 .max_output_bytes = 1023 },
	    &a);
	assert_true(a.result.truncated);
	assert_true(utf8_valid(a.result.out.data, a.result.out.len));
	answer_clear(&a);
	rig_destroy(&rig, id);
}

static void test_background_wait_input_signal(void **state)
{
	char id[SANDBOX_ID_SIZE], exec_id[EXEC_ID_SIZE];
	struct err err = ERR_INIT;
	struct answer a;

	rig_create(&rig, NULL, id);
	run(id,
	    &(struct core_exec_request){ .command = "echo begin; cat; echo end",
					 .stdin_open = true },
	    &a);
	assert_true(a.result.running);
	str_copy(exec_id, sizeof(exec_id), a.result.exec_id);
	answer_clear(&a);
	/* Polled until it has said something; each answer comes when its wait is over. */
	for (int i = 0; i < 100; i++) {
		uint64_t seen;

		answer_init(&a);
		assert_int_equal(answer_wait_for(&a, &rig, id, exec_id, 100, 0, NULL), 0);
		answer_get(&a, 10000);
		assert_true(a.result.running);
		seen = a.result.out_to;
		if (seen > 0)
			assert_string_equal(buf_str(&a.result.out), "begin\n");
		answer_clear(&a);
		if (seen > 0)
			break;
	}
	assert_int_equal(core_exec_input(rig.core, &rig.admin, id, exec_id, "one ", 4, false, NULL),
			 0);
	assert_int_equal(core_exec_input(rig.core, &rig.admin, id, exec_id, "two\n", 4, true, NULL),
			 0);
	answer_init(&a);
	assert_int_equal(answer_wait_for(&a, &rig, id, exec_id, 10000, 6, NULL), 0);
	answer_get(&a, 15000);
	assert_false(a.result.running);
	assert_string_equal(buf_str(&a.result.out), "one two\nend\n");
	answer_clear(&a);
	assert_int_equal(core_exec_input(rig.core, &rig.admin, id, exec_id, "x", 1, false, &err),
			 -EPIPE);
	/* Replayed after its end, also at once. */
	answer_init(&a);
	assert_int_equal(answer_wait_for(&a, &rig, id, exec_id, 0, 0, NULL), 0);
	answer_get(&a, 10000);
	assert_false(a.result.running);
	assert_string_equal(buf_str(&a.result.out), "begin\none two\nend\n");
	answer_clear(&a);

	run(id, &(struct core_exec_request){ .command = "sleep 100" }, &a);
	assert_int_equal(
		core_exec_signal(rig.core, &rig.admin, id, a.result.exec_id, SIGTERM, NULL), 0);
	str_copy(exec_id, sizeof(exec_id), a.result.exec_id);
	answer_clear(&a);
	answer_init(&a);
	assert_int_equal(answer_wait_for(&a, &rig, id, exec_id, -1, 0, NULL), 0);
	answer_get(&a, 10000);
	assert_int_equal(a.result.signal, SIGTERM);
	answer_clear(&a);
	answer_init(&a);
	assert_int_equal(answer_wait_for(&a, &rig, id, "exec_00000000", 100, 0, NULL), 0);
	answer_get(&a, 10000);
	assert_true(a.failed);
	assert_string_equal(err_code_of(&a.err), "exec_not_found");
	answer_clear(&a);
	rig_destroy(&rig, id);
}

static void test_cancelled_call_leaves_the_command(void **state)
{
	char id[SANDBOX_ID_SIZE];
	struct answer a, b;
	struct core_exec_call *call;

	rig_create(&rig, NULL, id);
	answer_init(&a);
	assert_int_equal(
		answer_exec(&a, &rig, id,
			    &(struct core_exec_request){ .command = "sleep 1; echo done >~/mark",
							 .wait_ms = -1 },
			    NULL),
		0);
	call = a.call;
	assert_true(core_exec_cancel(rig.core, call));
	assert_false(core_exec_cancel(rig.core, call));
	assert_false(a.done);
	rig_expect(&rig, id, "sleep 2; cat ~/mark", "done\n");
	assert_false(a.done);
	run(id, &(struct core_exec_request){ .command = "true", .wait_ms = -1 }, &b);
	assert_false(core_exec_cancel(rig.core, b.call)); /* answered already */
	answer_clear(&a);
	answer_clear(&b);
	rig_destroy(&rig, id);
}

#define MANY 64

static void test_many_commands_at_once(void **state)
{
	char id[SANDBOX_ID_SIZE];
	struct answer *answers = xcalloc(MANY + 1, sizeof(*answers));
	struct err err = ERR_INIT;

	rig_create(&rig, NULL, id);
	for (int i = 0; i < MANY; i++) {
		answer_init(&answers[i]);
		if (answer_exec(&answers[i], &rig, id,
				&(struct core_exec_request){ .command = "sleep 6; echo ok",
							     .timeout_ms = 300000,
							     .wait_ms = -1 },
				&err) < 0)
			fail_msg("exec %d: %s", i, err.message);
	}
	answer_init(&answers[MANY]);
	assert_int_equal(answer_exec(&answers[MANY], &rig, id,
				     &(struct core_exec_request){ .command = "true" }, &err),
			 -EAGAIN);
	assert_string_equal(err_code_of(&err), "exec_limit");
	for (int i = 0; i < MANY; i++) {
		answer_get(&answers[i], 300000);
		assert_false(answers[i].failed);
		assert_string_equal(buf_str(&answers[i].result.out), "ok\n");
		answer_clear(&answers[i]);
	}
	answer_clear(&answers[MANY]);
	free(answers);
	rig_destroy(&rig, id);
}

/* ---- streams ---- */

struct tally {
	struct core_stream *stream;
	_Atomic uint64_t bytes[2]; /* written on the loop's thread */
	uint64_t sum;
	atomic_bool started, ended;
	int exit_code;
	char code[32];
	char exec_id[EXEC_ID_SIZE];
	uint64_t stop_at; /* no credit beyond */
};

static void on_started(void *arg, const char *exec_id)
{
	struct tally *t = arg;

	str_copy(t->exec_id, sizeof(t->exec_id), exec_id);
	atomic_store(&t->started, true);
}

static void on_data(void *arg, int stream, uint64_t offset, const void *data, size_t len)
{
	struct tally *t = arg;
	int i = stream == PROTO_STDERR;

	assert_int_equal(offset, t->bytes[i]);
	t->bytes[i] += len;
	for (size_t n = 0; n < len; n++)
		t->sum += ((const unsigned char *)data)[n];
	if (!t->stop_at || t->bytes[0] < t->stop_at)
		core_stream_credit(t->stream, stream, len);
}

static void on_ended(void *arg, const struct core_exec_result *result, const struct err *err)
{
	struct tally *t = arg;

	t->exit_code = result ? result->exit_code : -1;
	if (err)
		str_copy(t->code, sizeof(t->code), err_code_of(err));
	atomic_store(&t->ended, true);
}

static const struct core_stream_sink sink = {
	.started = on_started,
	.data = on_data,
	.ended = on_ended,
};

static bool wait_flag(atomic_bool *flag, int64_t timeout_ms)
{
	int64_t deadline = clock_boottime_ms() + timeout_ms;

	while (!atomic_load(flag) && clock_boottime_ms() < deadline)
		poll(NULL, 0, 5);
	return atomic_load(flag);
}

static void test_stream_is_byte_exact(void **state)
{
	char id[SANDBOX_ID_SIZE];
	const char *command = "head -c 20000000 /dev/zero | tr '\\0' '\\1'; echo e >&2; exit 4";
	const struct core_exec_request req = {
		.command = command,
		.command_len = strlen(command),
	};
	struct tally t = { 0 };
	int64_t began;

	rig_create(&rig, NULL, id);
	began = clock_boottime_ms();
	/* The first bytes come before the pointer is known otherwise. */
	assert_int_equal(
		core_exec_stream(rig.core, &rig.admin, id, &req, &sink, &t, 0, &t.stream, NULL), 0);
	core_stream_credit(t.stream, PROTO_STDOUT, 256 * 1024);
	core_stream_credit(t.stream, PROTO_STDERR, 1024);
	assert_true(wait_flag(&t.ended, 60000));
	assert_int_equal(t.bytes[0], 20000000);
	assert_int_equal(t.sum - t.bytes[0], 'e' + '\n');
	assert_int_equal(t.bytes[1], 2);
	assert_int_equal(t.exit_code, 4);
	print_message("20 MB streamed in %lld ms\n", (long long)(clock_boottime_ms() - began));
	core_stream_close(t.stream);
	rig_destroy(&rig, id);
}

static void test_stream_holds_the_command_back(void **state)
{
	char id[SANDBOX_ID_SIZE];
	const char *command = "yes";
	const struct core_exec_request req = { .command = command, .command_len = strlen(command) };
	struct tally t = { .stop_at = 300000 };
	uint64_t held;

	rig_create(&rig, NULL, id);
	assert_int_equal(
		core_exec_stream(rig.core, &rig.admin, id, &req, &sink, &t, 0, &t.stream, NULL), 0);
	core_stream_credit(t.stream, PROTO_STDOUT, 100000);
	assert_true(wait_flag(&t.started, 10000));
	for (int64_t deadline = clock_boottime_ms() + 60000;
	     t.bytes[0] < 300000 && clock_boottime_ms() < deadline;)
		poll(NULL, 0, 20);
	poll(NULL, 0, 500);
	held = t.bytes[0];
	assert_in_range(held, 300000, 450000);
	poll(NULL, 0, 500);
	assert_int_equal(t.bytes[0], held);
	/* The sandbox's end ends the stream. */
	rig_destroy(&rig, id);
	assert_true(wait_flag(&t.ended, 1000));
	assert_string_equal(t.code, "sandbox_ended");
	core_stream_close(t.stream);
}

/* ---- concurrency ---- */

struct creator {
	pthread_t thread;
	struct core_create_request req;
	int result;
	struct err err;
	char id[SANDBOX_ID_SIZE];
};

static void *create_one(void *arg)
{
	struct creator *c = arg;

	c->result = rig_try_create(&rig, &c->req, c->id, &c->err);
	return NULL;
}

static void test_quota_under_concurrency(void **state)
{
	struct creator creators[8] = { 0 };
	int made = 0;

	rig.core->limits.sandboxes_per_account = 3;
	for (size_t i = 0; i < ARRAY_SIZE(creators); i++)
		pthread_create(&creators[i].thread, NULL, create_one, &creators[i]);
	for (size_t i = 0; i < ARRAY_SIZE(creators); i++) {
		pthread_join(creators[i].thread, NULL);
		if (creators[i].result == 0)
			made++;
		else
			assert_string_equal(err_code_of(&creators[i].err), "quota_reached");
	}
	assert_int_equal(made, 3);
	for (size_t i = 0; i < ARRAY_SIZE(creators); i++) {
		if (creators[i].result == 0) {
			char id[SANDBOX_ID_SIZE];

			rig_destroy(&rig, creators[i].id);
			rig_assert_no_residue(&rig, creators[i].id, NULL);
			rig_create(&rig, NULL, id); /* its place is free at once */
			rig_destroy(&rig, id);
		}
	}
	rig.core->limits.sandboxes_per_account = 20;
}

static void test_idempotency(void **state)
{
	struct creator creators[4] = { 0 };
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(creators); i++) {
		creators[i].req = (struct core_create_request){ .idempotency_key = "once",
								.request_hash = "aa" };
		pthread_create(&creators[i].thread, NULL, create_one, &creators[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(creators); i++) {
		pthread_join(creators[i].thread, NULL);
		assert_int_equal(creators[i].result, 0);
		assert_string_equal(creators[i].id, creators[0].id);
	}
	assert_int_equal(rig_try_create(&rig,
					&(struct core_create_request){ .idempotency_key = "once",
								       .request_hash = "bb" },
					id, &err),
			 -EEXIST);
	assert_string_equal(err_code_of(&err), "idempotency_conflict");
	rig_destroy(&rig, creators[0].id);
}

static void *destroy_one(void *arg)
{
	struct creator *c = arg;
	struct sandbox_info info;

	c->result = core_destroy(rig.core, &rig.admin, c->id, &info, &c->err);
	if (c->result == 0)
		sandbox_info_clear(&info);
	return NULL;
}

static void test_destroy_twenty_times_at_once(void **state)
{
	struct creator destroyers[20] = { 0 };
	struct record record;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, NULL, id);
	rig_read_record(&rig, id, &record);
	for (size_t i = 0; i < ARRAY_SIZE(destroyers); i++) {
		str_copy(destroyers[i].id, sizeof(destroyers[i].id), id);
		pthread_create(&destroyers[i].thread, NULL, destroy_one, &destroyers[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(destroyers); i++) {
		pthread_join(destroyers[i].thread, NULL);
		assert_int_equal(destroyers[i].result, 0);
	}
	rig_assert_no_residue(&rig, id, &record);
}

static void test_destroy_while_creating(void **state)
{
	for (int delay_ms = 0; delay_ms <= 200; delay_ms += 25) {
		struct creator c = { 0 };
		struct sandbox_info *items = NULL, info;
		char *cursor = NULL;
		size_t n = 0;
		int64_t deadline = clock_boottime_ms() + 5000;

		pthread_create(&c.thread, NULL, create_one, &c);
		poll(NULL, 0, delay_ms);
		while (n == 0 && clock_boottime_ms() < deadline) {
			core_list_clear(items, n);
			assert_int_equal(core_list(rig.core, &rig.admin,
						   &(struct core_list_request){ 0 }, &items, &n,
						   &cursor, NULL),
					 0);
		}
		assert_int_equal(n, 1);
		assert_int_equal(core_destroy(rig.core, &rig.admin, items[0].id, &info, NULL), 0);
		assert_int_equal(info.status, SANDBOX_DESTROYED);
		assert_string_equal(info.reason, "destroyed_by_user");
		sandbox_info_clear(&info);
		pthread_join(c.thread, NULL);
		if (c.result < 0)
			assert_string_equal(err_code_of(&c.err), "sandbox_ended");
		rig_assert_no_residue(&rig, items[0].id, NULL);
		core_list_clear(items, n);
	}
}

static void test_destroy_of_a_guest_that_hangs(void **state)
{
	struct sandbox_info info;
	struct record record;
	struct answer a;
	char id[SANDBOX_ID_SIZE];
	int64_t began;

	rig_create(&rig, NULL, id);
	answer_init(&a);
	assert_int_equal(
		answer_exec(&a, &rig, id,
			    &(struct core_exec_request){ .command = "sleep 100", .wait_ms = -1 },
			    NULL),
		0);
	rig_read_record(&rig, id, &record);
	assert_int_equal(kill(record.vmm_pid, SIGSTOP), 0);
	began = clock_boottime_ms();
	assert_int_equal(core_destroy(rig.core, &rig.admin, id, &info, NULL), 0);
	assert_int_equal(info.status, SANDBOX_DESTROYED);
	sandbox_info_clear(&info);
	print_message("destroyed after %lld ms\n", (long long)(clock_boottime_ms() - began));
	answer_get(&a, 1000);
	assert_string_equal(err_code_of(&a.err), "sandbox_ended");
	answer_clear(&a);
	rig_assert_no_residue(&rig, id, &record);
}

static void test_image_in_use_is_kept(void **state)
{
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, NULL, id);
	assert_int_equal(core_image_remove(rig.core, &rig.admin, "base", &err), -EBUSY);
	assert_string_equal(err_code_of(&err), "image_in_use");
	rig_destroy(&rig, id);
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
	const char *const argv[] = { self, "--daemon", rig.dir, what, NULL };
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
		set_deadline(id, 20 * 60000);
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
	if (str_eq(what, "expire")) {
		set_deadline(id, 2500);
		say("sandbox", id);
	}
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_create_exec_destroy),
		cmocka_unit_test(test_sandboxes_are_distinct),
		cmocka_unit_test(test_extend),
		cmocka_unit_test(test_expiry_ends_on_time_with_its_commands),
		cmocka_unit_test(test_crashes_have_reasons),
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_output_is_head_and_tail),
		cmocka_unit_test(test_background_wait_input_signal),
		cmocka_unit_test(test_cancelled_call_leaves_the_command),
		cmocka_unit_test(test_many_commands_at_once),
		cmocka_unit_test(test_stream_is_byte_exact),
		cmocka_unit_test(test_stream_holds_the_command_back),
		cmocka_unit_test(test_quota_under_concurrency),
		cmocka_unit_test(test_idempotency),
		cmocka_unit_test(test_destroy_twenty_times_at_once),
		cmocka_unit_test(test_destroy_while_creating),
		cmocka_unit_test(test_destroy_of_a_guest_that_hangs),
		cmocka_unit_test(test_image_in_use_is_kept),
		cmocka_unit_test(test_killed_daemon_leaves_sandboxes_alive),
		cmocka_unit_test(test_deadline_while_the_daemon_is_down),
		cmocka_unit_test(test_killed_while_creating),
		cmocka_unit_test(test_what_is_not_ours_is_left),
		cmocka_unit_test(test_damaged_template_is_made_anew),
	};

	self = "/proc/self/exe";
	log_init(LOG_LVL_WARN);
	if (argc == 4 && str_eq(argv[1], "--daemon"))
		return be_daemon(argv[2], argv[3]);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, make, remove_all);
}
