/* The agent in a real guest: the output and input of commands, their children and their deadline.
 */
#include "guest_rig.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/str.h"

/* ---- much output ---- */

static void test_much_output_with_backpressure(void **state)
{
	uint64_t len, hash = seq_hash(2700000, &len);
	int64_t begin = clock_boottime_ms();
	struct command c;

	/* The log keeps far less than what is printed: only back-pressure brings every byte. */
	run(&c, &vm,
	    &(struct agent_exec_spec){ .command = "seq 1 2700000",
				       .log_cap_bytes = 1024 * 1024,
				       .backpressure = true });
	assert_true(len > 20 * 1000 * 1000);
	assert_int_equal(c.gap_to[0], 0);
	assert_int_equal(c.received[0], len);
	assert_true(c.hash[0] == hash);
	assert_int_equal(c.exit.stdout_bytes, len);
	print_message("output: %.1f MB/s\n",
		      (double)len / 1000 / (double)(clock_boottime_ms() - begin));
	command_free(&c);
}

static void test_log_cap_leaves_a_gap(void **state)
{
	const struct agent_exec_spec spec = { .command = "seq 1 300000; echo the end",
					      .log_cap_bytes = 256 * 1024,
					      .stdout_credit = 1,
					      .stderr_credit = 1 };
	uint64_t len;
	struct command c, again;
	_cleanup_free_ char *check = NULL;

	seq_hash(300000, &len);
	len += strlen("the end\n");
	command_init(&c, &vm);
	c.hold_at[0] = 1; /* not read while it runs, so that the middle is dropped */
	command_start(&c, &spec);
	assert_true(command_wait(&c, has_exited, SLOW_MS));
	assert_int_equal(c.exit.stdout_bytes, len);
	command_init(&again, &vm);
	command_attach(&again, c.id);
	command_follow(&again, PROTO_STDOUT, 0, false);
	command_follow(&again, PROTO_STDERR, 0, false);
	assert_true(command_wait(&again, has_ended, SLOW_MS));
	assert_int_equal(again.gap_from[0], 128 * 1024);
	assert_int_equal(again.next[0], len);
	assert_int_equal(again.received[0] + again.gap_to[0] - again.gap_from[0], len);
	assert_in_range(again.received[0], 200 * 1024, 256 * 1024);
	assert_memory_equal(again.output[0].data, "1\n2\n3\n", 6);
	assert_memory_equal(again.output[0].data + again.output[0].len - 15, "300000\nthe end\n",
			    15);
	/* The file in the guest has the same bytes at the same offsets, and a hole between them. */
	check = xasprintf("tail -n 1 /run/skerry/exec/%s/stdout; stat -c '%%s %%b' "
			  "/run/skerry/exec/%s/stdout | awk '{ print $1, $2 * 512 <= 272 * 1024 }'",
			  c.id, c.id);
	{
		_cleanup_free_ char *expected =
			xasprintf("the end\n%llu 1", (unsigned long long)len);

		expect_shell(NULL, check, expected);
	}
	command_free(&c);
	command_free(&again);
}

/* ---- background children, deadline ---- */

static bool has_both_lines(const struct command *c)
{
	return c->received[0] >= strlen("now\nlater\n");
}

static void test_background_child_holds_pipes(void **state)
{
	struct command c;

	command_init(&c, &vm);
	command_start(&c, &(struct agent_exec_spec){
				  .command = "(sleep 8; echo later) & echo now; exit 5" });
	assert_true(command_wait(&c, has_exited, SLOW_MS));
	assert_int_equal(c.exit.exit_code, 5);
	assert_int_equal(c.exit.stdout_bytes, 4);
	assert_false(c.eof[0]);
	assert_true(command_wait(&c, has_both_lines, SLOW_MS));
	assert_true(command_wait(&c, has_ended, SLOW_MS));
	assert_string_equal(buf_str(&c.output[0]), "now\nlater\n");
	command_free(&c);
}

static void test_deadline_kills_the_tree(void **state)
{
	int64_t begin = clock_boottime_ms();
	struct command c;

	run(&c, &vm,
	    &(struct agent_exec_spec){
		    .command = "echo begun; setsid sleep 7001 & (setsid sleep 7002 &) ; "
			       "nohup sleep 7003 & sleep 7004",
		    .timeout_ms = 2000 });
	assert_in_range(clock_boottime_ms() - begin, 1900, 30000);
	assert_true(c.exit.timed_out);
	assert_int_equal(c.exit.signal, SIGKILL);
	assert_string_equal(buf_str(&c.output[0]), "begun\n");
	command_free(&c);
	expect_shell(NULL, "pgrep -fc '^sleep 700' || true", "0");
	expect_shell(NULL, "ls /sys/fs/cgroup/skerry | grep -c ^exec-", "1");
}

static void test_kill_takes_everything(void **state)
{
	struct command c;

	command_init(&c, &vm);
	command_start(&c, &(struct agent_exec_spec){ .command = "setsid sleep 8001 & sleep 8002" });
	assert_true(command_wait(&c, has_started, SLOW_MS));
	vm_sleep_ms(300);
	command_signal(&c, SIGKILL);
	assert_true(command_wait(&c, has_ended, SLOW_MS));
	assert_int_equal(c.exit.signal, SIGKILL);
	assert_false(c.exit.timed_out);
	command_free(&c);
	expect_shell(NULL, "pgrep -fc '^sleep 800' || true", "0");
}

/* ---- input ---- */

static bool window_is_open(const struct command *c)
{
	return c->window > 0;
}

static bool window_reaches_hold(const struct command *c)
{
	return c->window >= c->hold_at[1] || c->failed || c->lost;
}

static void test_input(void **state)
{
	const size_t total = 1024 * 1024, part = 60000;
	_cleanup_free_ char *data = xmalloc(total);
	struct command c;

	for (size_t i = 0; i < total; i++)
		data[i] = (char)(i * 2654435761u >> 13);
	command_init(&c, &vm);
	command_start(&c, &(struct agent_exec_spec){ .command = "cat", .stdin_open = true });
	assert_true(command_wait(&c, window_is_open, SLOW_MS));
	for (size_t sent = 0; sent < total;) {
		size_t n = total - sent < part ? total - sent : part;

		c.hold_at[1] = sent + n; /* stderr stays empty: used as the mark waited for */
		assert_true(command_wait(&c, window_reaches_hold, SLOW_MS));
		command_input(&c, sent, data + sent, n);
		sent += n;
	}
	command_input_close(&c);
	assert_true(command_wait(&c, has_ended, SLOW_MS));
	assert_int_equal(c.exit.exit_code, 0);
	assert_int_equal(c.received[0], total);
	assert_true(c.hash[0] == fnv_add(FNV_START, data, total));
	command_free(&c);
}

static void test_input_nobody_reads(void **state)
{
	_cleanup_free_ char *data = xcalloc(1, PROTO_INPUT_WINDOW);
	struct command c;

	command_init(&c, &vm);
	command_start(&c, &(struct agent_exec_spec){ .command = "exec <&-; sleep 1; echo done",
						     .stdin_open = true });
	assert_true(command_wait(&c, window_is_open, SLOW_MS));
	command_input(&c, 0, data, PROTO_INPUT_WINDOW);
	assert_true(command_wait(&c, has_ended, SLOW_MS));
	assert_string_equal(buf_str(&c.output[0]), "done\n");
	command_free(&c);
}

static void test_without_input(void **state)
{
	expect_shell(NULL, "cat; echo end", "end");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_much_output_with_backpressure),
		cmocka_unit_test(test_log_cap_leaves_a_gap),
		cmocka_unit_test(test_background_child_holds_pipes),
		cmocka_unit_test(test_deadline_kills_the_tree),
		cmocka_unit_test(test_kill_takes_everything),
		cmocka_unit_test(test_input),
		cmocka_unit_test(test_input_nobody_reads),
		cmocka_unit_test(test_without_input),
	};

	return guest_run_tests(tests, argc, argv);
}
