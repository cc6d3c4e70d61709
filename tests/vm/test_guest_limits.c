/*
 * The agent in a real guest: hostile commands, many of them, channels that break, and a guest that
 * is left alone.
 */
#include "guest_rig.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/str.h"
#include "proto/frame.h"

/* ---- hostile commands ---- */

static void test_fork_bomb(void **state)
{
	struct command bomb;
	int64_t begin;

	command_init(&bomb, &vm);
	command_start(&bomb, &(struct agent_exec_spec){ .command = "b() { b | b & }; b; sleep 60",
							.timeout_ms = 6000,
							.log_cap_bytes = 256 * 1024 });
	assert_true(command_wait(&bomb, has_started, SLOW_MS));
	vm_sleep_ms(3000);
	begin = clock_boottime_ms();
	{
		struct err err = ERR_INIT;

		assert_int_equal(agent_ping(vm.agent, begin + 2000, &err), 0);
	}
	print_message("ping under a fork bomb: %lld ms\n",
		      (long long)(clock_boottime_ms() - begin));
	assert_true(command_wait(&bomb, has_exited, SLOW_MS));
	command_free(&bomb);
	assert_alive();
}

static void test_memory_hog(void **state)
{
	struct command c;

	run(&c, &vm,
	    &(struct agent_exec_spec){ .command = "exec tail /dev/zero", .timeout_ms = 50000 });
	assert_true(c.exit.out_of_memory);
	assert_int_equal(c.exit.signal, SIGKILL);
	assert_false(c.exit.timed_out);
	command_free(&c);
	assert_alive();
}

static void test_orphans_are_reaped(void **state)
{
	expect_shell(NULL,
		     "for i in $(seq 20); do (setsid sh -c 'sleep 0.2' &) ; done; sleep 2; "
		     "ps -eo stat= | grep -c ^Z || true",
		     "0");
}

static void test_pipes_nobody_may_block_on(void **state)
{
	/* A name service file that is a pipe without a writer hangs its own command only. */
	free(shell(&vm, "root", "cp /etc/passwd /root/p && rm /etc/passwd && mkfifo /etc/passwd"));
	{
		struct command c;
		struct err err = ERR_INIT;

		command_init(&c, &vm);
		command_start(&c,
			      &(struct agent_exec_spec){ .command = "true", .timeout_ms = 2000 });
		assert_int_equal(agent_ping(vm.agent, clock_boottime_ms() + 1500, &err), 0);
		assert_true(command_wait(&c, has_ended, SLOW_MS));
		assert_true(c.failed || c.exit.timed_out);
		command_free(&c);
	}
}

/* ---- many at once, reconnecting ---- */

static void test_64_at_once(void **state)
{
	static struct command c[64];
	struct command one;

	/* All of them are running, and then all of them write. */
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		command_init(&c[i], &vm);
		command_start(&c[i], &(struct agent_exec_spec){
					     .command = "read; head -c 20000 /bin/bash; exit 9",
					     .stdin_open = true });
	}
	for (size_t i = 0; i < ARRAY_SIZE(c); i++)
		assert_true(command_wait(&c[i], has_started, SLOW_MS));
	run(&one, &vm, &(struct agent_exec_spec){ .command = "head -c 20000 /bin/bash" });
	for (size_t i = 0; i < ARRAY_SIZE(c); i++)
		command_input_close(&c[i]);
	for (size_t i = 0; i < ARRAY_SIZE(c); i++) {
		assert_true(command_wait(&c[i], has_ended, SLOW_MS));
		assert_int_equal(c[i].exit.exit_code, 9);
		assert_int_equal(c[i].received[0], 20000);
		assert_true(c[i].hash[0] == one.hash[0]);
		command_free(&c[i]);
	}
	command_free(&one);
}

static bool has_some(const struct command *c)
{
	return c->received[0] >= 300 * 1024;
}

static void test_reconnect_in_a_stream(void **state)
{
	uint64_t len, hash = seq_hash(400000, &len), offset;
	struct command c, again;

	command_init(&c, &vm);
	c.hold_at[0] = 400 * 1024;
	command_start(&c, &(struct agent_exec_spec){ .command = "seq 1 400000" });
	assert_true(command_wait(&c, has_some, SLOW_MS));
	vm_disconnect(&vm);
	assert_true(c.lost);
	assert_string_equal(err_code_of(&c.err), "agent_gone");
	offset = c.next[0];
	vm_connect(&vm, false);
	command_init(&again, &vm);
	again.hash[0] = c.hash[0];
	command_attach(&again, c.id);
	command_follow(&again, PROTO_STDOUT, offset, false);
	command_follow(&again, PROTO_STDERR, 0, false);
	assert_true(command_wait(&again, has_ended, SLOW_MS));
	assert_true(again.has_state);
	assert_int_equal(offset + again.received[0], len);
	assert_true(again.hash[0] == hash);
	assert_int_equal(again.exit.exit_code, 0);
	command_free(&c);
	command_free(&again);
}

/* What a daemon leaves behind that is killed while it writes: a piece of a session. */
static void write_half_a_frame(uint32_t missing)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	uint8_t nonce[PROTO_NONCE_LEN] = { 1 };
	int fd = unix_connect(vm.socket_path, false), r;
	size_t frame;

	assert_true(fd >= 0);
	frame_put_marker(&out, nonce);
	frame = frame_begin(&out, PROTO_INPUT, 0, 99);
	frame_put_u64(&out, 0);
	for (int i = 0; i < 200; i++)
		frame_put_bytes(&out, "half a frame of input ", 22);
	frame_end(&out, frame);
	r = fd_write_all(fd, out.data, out.len - missing);
	close(fd); /* before anything fails: the VMM talks to one host at a time */
	assert_int_equal(r, 0);
}

static void test_half_a_frame(void **state)
{
	for (uint32_t missing = 1; missing < 4400; missing += 997) {
		int64_t begin;

		vm_disconnect(&vm);
		write_half_a_frame(missing);
		begin = clock_boottime_ms();
		vm_connect(&vm, false);
		assert_in_range(clock_boottime_ms() - begin, 0, 20000);
		assert_alive();
	}
}

static void test_garbage(void **state)
{
	_cleanup_free_ char *data = xmalloc(300000);
	int fd, r;

	vm_disconnect(&vm);
	for (size_t i = 0; i < 300000; i++)
		data[i] = (char)(i * 2654435761u >> 11);
	fd = unix_connect(vm.socket_path, false);
	assert_true(fd >= 0);
	r = fd_write_all(fd, data, 300000);
	close(fd);
	assert_int_equal(r, 0);
	vm_connect(&vm, false);
	assert_alive();
}

static void test_reconnect_is_quick(void **state)
{
	int64_t begin = clock_boottime_us();

	for (int i = 0; i < 10; i++) {
		vm_disconnect(&vm);
		vm_connect(&vm, false);
	}
	print_message("reconnect: %.1f ms\n", (double)(clock_boottime_us() - begin) / 10000);
	assert_in_range(clock_boottime_us() - begin, 0, 10 * 500000);
}

/* Processor time of QEMU so far, in ticks of 10 ms. */
static long qemu_ticks(void)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/stat", vm.qemu.pid);
	_cleanup_buf_ struct buf stat = BUF_INIT;
	char *at;

	assert_int_equal(file_read(path, 4096, &stat), 0);
	at = strrchr(stat.data, ')');
	for (int i = 0; i < 12; i++) { /* to field 14, utime; stime follows */
		at = strchr(at + 1, ' ');
		assert_non_null(at);
	}
	return strtol(at, &at, 10) + strtol(at, NULL, 10);
}

/* Fails when there is no stretch of two seconds with less than 5 % of a processor. */
static void assert_idle(void)
{
	long used = 0;

	for (int i = 0; i < 15; i++) {
		long begin = qemu_ticks();

		vm_sleep_ms(2000);
		used = qemu_ticks() - begin;
		if (used < 10)
			break;
	}
	print_message("idle: %ld %% of a processor\n", used / 2);
	assert_in_range(used, 0, 9);
}

static void test_idle_guest_sleeps(void **state)
{
	/* Connected and not: a hung-up port must not keep the agent busy either. */
	assert_idle();
	vm_disconnect(&vm);
	assert_idle();
	vm_connect(&vm, false);
}

static void test_round_trip(void **state)
{
	int64_t begin;
	struct command c;
	struct err err = ERR_INIT;

	free(shell(&vm, NULL, "true"));
	begin = clock_boottime_us();
	for (int i = 0; i < 20; i++) {
		run(&c, &vm, &(struct agent_exec_spec){ .command = "true" });
		assert_int_equal(c.exit.exit_code, 0);
		command_free(&c);
	}
	print_message("true: %.1f ms\n", (double)(clock_boottime_us() - begin) / 20000);
	begin = clock_boottime_us();
	for (int i = 0; i < 20; i++)
		assert_int_equal(agent_ping(vm.agent, clock_boottime_ms() + 5000, &err), 0);
	print_message("ping: %.2f ms\n", (double)(clock_boottime_us() - begin) / 20000);
}

static void test_logs_of_old_execs_go(void **state)
{
	for (int i = 0; i < (int)PROTO_EXECS_KEPT_MAX + 10; i++) {
		struct command c;

		run(&c, &vm, &(struct agent_exec_spec){ .command = ":" });
		command_free(&c);
	}
	expect_shell(NULL, "test $(ls /run/skerry/exec | wc -l) -le 258 && echo bounded",
		     "bounded");
}
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_64_at_once),
		cmocka_unit_test(test_orphans_are_reaped),
		cmocka_unit_test(test_reconnect_in_a_stream),
		cmocka_unit_test(test_half_a_frame),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_reconnect_is_quick),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_idle_guest_sleeps),
		cmocka_unit_test(test_logs_of_old_execs_go),
		cmocka_unit_test(test_memory_hog),
		cmocka_unit_test(test_fork_bomb),
		/* Last: no command can be run afterwards. */
		cmocka_unit_test(test_pipes_nobody_may_block_on),
	};

	return guest_run_tests(tests, argc, argv);
}
