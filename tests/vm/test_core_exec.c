/*
 * Commands in real VMs as the core runs them: results, output, input, signals, streams. One image
 * and one template serve all tests.
 */
#include "core_rig.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/str.h"

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

/* ---- commands ---- */

static void test_results(void **state)
{
	char id[SANDBOX_ID_SIZE];
	const char *const env[] = { "A=b c", NULL };
	struct answer a;

	rig_create(&rig, NULL, id);
#define RUN(...) rig_run(&rig, id, &(struct core_exec_request){ .wait_ms = -1, __VA_ARGS__ }, &a)
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
	/* What the image says holds where the request says nothing. */
	RUN(.command = "echo $IMAGE_WORD $OTHER; id -un; pwd");
	assert_string_equal(buf_str(&a.result.out), "of the image 1\nsandbox\n/home/sandbox\n");
	answer_clear(&a);
	RUN(.command = "echo $IMAGE_WORD $OTHER; id -un; pwd", .user = "root",
	    .env = (const char *const[]){ "OTHER=2", NULL });
	assert_string_equal(buf_str(&a.result.out), "of the image 2\nroot\n/root\n");
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
	rig_run(&rig, id,
		&(struct core_exec_request){ .command = "head -c 4096 /dev/zero | tr '\\0' x",
					     .wait_ms = -1,
					     .max_output_bytes = 4096 },
		&a);
	assert_false(a.result.truncated);
	assert_int_equal(a.result.out.len, 4096);
	answer_clear(&a);
	rig_run(&rig, id,
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
	rig_run(&rig, id,
		&(struct core_exec_request){ .command =
						     "for i in $(seq 1 1000); do printf 'ä'; done",
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
	rig_run(&rig, id,
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

	rig_run(&rig, id, &(struct core_exec_request){ .command = "sleep 100" }, &a);
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
	rig_run(&rig, id, &(struct core_exec_request){ .command = "true", .wait_ms = -1 }, &b);
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_output_is_head_and_tail),
		cmocka_unit_test(test_background_wait_input_signal),
		cmocka_unit_test(test_cancelled_call_leaves_the_command),
		cmocka_unit_test(test_many_commands_at_once),
		cmocka_unit_test(test_stream_is_byte_exact),
		cmocka_unit_test(test_stream_holds_the_command_back),
	};

	log_init(LOG_LVL_WARN);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, make, remove_all);
}
