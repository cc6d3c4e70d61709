/*
 * The guest's agent in a real guest: what a command gets, how it ends, what happens to its output
 * and input, and that nothing a command does takes the agent away. One guest serves all tests.
 */
#include "guest_vm.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/str.h"
#include "proto/frame.h"

#define SLOW_MS 180000 /* for much work in an emulated guest on a busy machine */

static struct vm vm;

static int boot(void **state)
{
	vm_start(&vm);
	print_message("boot to the agent's answer: %lld ms\n", (long long)vm.boot_ms);
	return 0;
}

static int halt(void **state)
{
	vm_stop(&vm);
	return 0;
}

static void expect_shell(const char *user, const char *command, const char *expected)
{
	_cleanup_free_ char *text = shell(&vm, user, command);

	assert_string_equal(text, expected);
}

static void assert_alive(void)
{
	expect_shell(NULL, "echo alive", "alive");
}

/* ---- greeting ---- */

static void test_hello(void **state)
{
	assert_int_equal(vm.info.version, PROTO_VERSION);
	assert_int_equal(vm.info.epoch, 7);
	assert_int_equal(vm.info.applied, PROTO_APPLIED_ALL);
	assert_in_range(vm.info.mem_total_kib, 256 * 1024, 512 * 1024);
	assert_non_null(strstr(vm.info.os_name, "Debian"));
	assert_string_equal(vm.info.agent_version, SKERRY_VERSION);
	expect_shell(NULL, "uname -r", vm.info.kernel_release);
}

static void test_identity(void **state)
{
	expect_shell(NULL, "cat /etc/machine-id", "0123456789abcdef0123456789abcdef");
	expect_shell(NULL, "cat /etc/hostname; uname -n", "sbx-test\nsbx-test");
	expect_shell(NULL, "grep -c '^127.0.1.1 sbx-test$' /etc/hosts", "1");
}

/* The second identity of a guest: commands have run, and its root has had its way with the files.
 */
static void take_identity(uint64_t epoch, const char *hostname, const char *machine_id)
{
	const struct agent_identity identity = {
		.apply = true,
		.epoch = epoch,
		.hostname = hostname,
		.machine_id = machine_id,
	};

	vm_disconnect(&vm);
	vm_connect_as(&vm, &identity);
	assert_int_equal(vm.info.applied, PROTO_APPLIED_ALL);
}

static void expect_identity(const char *hostname, const char *machine_id)
{
	_cleanup_free_ char *names = xasprintf("%s\n%s\n1\n1", hostname, hostname);
	_cleanup_free_ char *own = xasprintf("uname -n; cat /etc/hostname; "
					     "grep -c '^127.0.1.1 %s$' /etc/hosts; "
					     "grep -c '^127.0.1.1 ' /etc/hosts",
					     hostname);

	expect_shell(NULL, own, names);
	expect_shell(NULL, "cat /etc/machine-id", machine_id);
}

static void test_identity_again(void **state)
{
	static const char *const ids[] = { "11111111111111111111111111111111",
					   "22222222222222222222222222222222",
					   "33333333333333333333333333333333" };

	/* Written through the links: lines of others stay, and the file may grow past a page. */
	expect_shell("root", "echo 192.0.2.1 mine >>/etc/hosts; echo odd >/etc/hostname", "");
	expect_shell("root", "for i in $(seq 300); do echo 192.0.2.2 name-$i; done >>/etc/hosts",
		     "");
	take_identity(8, "a-longer-name-than-before", ids[0]);
	expect_identity("a-longer-name-than-before", ids[0]);
	expect_shell(NULL, "grep -c '^192.0.2' /etc/hosts; cat /run/skerry/generation", "301\n8");

	/* Replaced, as programs do: by a file, by a link to nowhere, by a pipe. */
	expect_shell("root",
		     "sed -i /name-/d /etc/hosts; ln -sf /nowhere /etc/hostname; "
		     "rm /etc/machine-id; mkfifo /etc/machine-id",
		     "");
	take_identity(9, "b", ids[1]);
	expect_identity("b", ids[1]);
	expect_shell(NULL,
		     "cat /run/skerry/generation; grep 192 /etc/hosts; stat -c %a-%F "
		     "/etc/hostname /etc/hosts /etc/machine-id; ls -A /nowhere 2>&1 | wc -l",
		     "9\n192.0.2.1 mine\n644-regular file\n644-regular file\n"
		     "444-regular file\n1");

	/* Taken away, with all that lies there. */
	expect_shell("root",
		     "rm -r /etc/hostname /etc/hosts /run/skerry/identity "
		     "/run/skerry/generation; mkdir /run/skerry/generation",
		     "");
	take_identity(10, "c", ids[2]);
	expect_identity("c", ids[2]);
	expect_shell(NULL, "cat /run/skerry/generation; grep -c localhost /etc/hosts", "10\n2");

	take_identity(7, "sbx-test", "0123456789abcdef0123456789abcdef");
	expect_identity("sbx-test", "0123456789abcdef0123456789abcdef");
}

static void test_clock(void **state)
{
	int64_t before = clock_unix_ms(), guest_ms;
	_cleanup_free_ char *text = shell(&vm, NULL, "date +%s%3N");

	assert_int_equal(str_to_i64(text, &guest_ms), 0);
	assert_in_range(guest_ms, before - 500, clock_unix_ms() + 500);
}

/* ---- results ---- */

static void test_exit_codes(void **state)
{
	static const int codes[] = { 0, 1, 42, 127, 255 };

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++) {
		_cleanup_free_ char *text = xasprintf("exit %d", codes[i]);
		struct command c;

		run(&c, &vm, &(struct agent_exec_spec){ .command = text });
		assert_int_equal(c.exit.exit_code, codes[i]);
		assert_int_equal(c.exit.signal, 0);
		assert_false(c.exit.timed_out);
		command_free(&c);
	}
}

static void test_death_by_signal(void **state)
{
	struct command c;

	run(&c, &vm, &(struct agent_exec_spec){ .command = "kill -SEGV $$" });
	assert_int_equal(c.exit.exit_code, -1);
	assert_int_equal(c.exit.signal, SIGSEGV);
	command_free(&c);
}

static void test_signal_from_outside(void **state)
{
	struct command c;

	command_init(&c, &vm);
	command_start(&c, &(struct agent_exec_spec){
				  .command = "trap 'echo got; exit 3' TERM; echo ready; "
					     "while :; do sleep 0.1; done" });
	assert_true(command_wait(&c, has_started, SLOW_MS));
	while (c.received[0] < 6)
		vm_sleep_ms(10);
	command_signal(&c, SIGTERM);
	assert_true(command_wait(&c, has_ended, SLOW_MS));
	assert_int_equal(c.exit.exit_code, 3);
	assert_string_equal(buf_str(&c.output[0]), "ready\ngot\n");
	command_free(&c);
}

static void test_streams_stay_apart(void **state)
{
	struct command c;

	run(&c, &vm, &(struct agent_exec_spec){ .command = "echo out; echo err >&2; echo out2" });
	assert_string_equal(buf_str(&c.output[0]), "out\nout2\n");
	assert_string_equal(buf_str(&c.output[1]), "err\n");
	assert_int_equal(c.exit.stdout_bytes, 9);
	assert_int_equal(c.exit.stderr_bytes, 4);
	command_free(&c);
}

/* Scripts open them by name, also as a user that is not the agent's. */
static void test_streams_by_name(void **state)
{
	struct command c;

	run(&c, &vm,
	    &(struct agent_exec_spec){
		    .command = "echo out >/dev/stdout; echo err | tee /dev/stderr >/dev/null" });
	assert_string_equal(buf_str(&c.output[0]), "out\n");
	assert_string_equal(buf_str(&c.output[1]), "err\n");
	assert_int_equal(c.exit.exit_code, 0);
	command_free(&c);
}

static void test_binary_output(void **state)
{
	static const char expected[] = "a\0b\377\200\r\n\0";
	struct command c;

	run(&c, &vm, &(struct agent_exec_spec){ .command = "printf 'a\\0b\\377\\200\\r\\n\\0'" });
	assert_int_equal(c.output[0].len, sizeof(expected) - 1);
	assert_memory_equal(c.output[0].data, expected, sizeof(expected) - 1);
	command_free(&c);
}

/* ---- environment ---- */

static void test_sandbox_user(void **state)
{
	expect_shell(
		NULL, "id -un; id -u; pwd; echo $HOME $USER $LOGNAME $SHELL $LANG",
		"sandbox\n1000\n/home/sandbox\n/home/sandbox sandbox sandbox /bin/bash C.UTF-8");
	expect_shell(NULL, "echo $PATH",
		     "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	expect_shell(NULL, "test -w /etc || echo no; cat /proc/self/oom_score_adj; nice; ulimit -n",
		     "no\n0\n0\n1024");
}

static void test_root_user(void **state)
{
	expect_shell("root", "id -u; id -G; echo $HOME $USER", "0\n0\n/root root");
}

static void test_groups(void **state)
{
	free(shell(&vm, "root", "groupadd -g 4242 extra && usermod -aG extra sandbox"));
	expect_shell(NULL, "id -G | tr ' ' '\\n' | grep -c 4242", "1");
}

static void test_env(void **state)
{
	const char *env[] = { "GREETING=hello  'world'", "PATH=/usr/bin:/bin", "EMPTY=", NULL };
	struct command c;

	run(&c, &vm,
	    &(struct agent_exec_spec){ .command = "echo \"$GREETING|$PATH|${EMPTY-unset}|$HOME\"",
				       .env = env });
	assert_string_equal(buf_str(&c.output[0]), "hello  'world'|/usr/bin:/bin||/home/sandbox\n");
	command_free(&c);
	expect_shell(NULL, "echo ${GREETING-gone}", "gone");
}

static void test_cwd(void **state)
{
	struct command c;

	run(&c, &vm, &(struct agent_exec_spec){ .command = "pwd", .cwd = "/usr/share" });
	assert_string_equal(buf_str(&c.output[0]), "/usr/share\n");
	command_free(&c);
}

static void test_own_session(void **state)
{
	expect_shell(NULL, "test $(ps -o sid= -p $$) = $$ && tty; ls /proc/self/fd | wc -l",
		     "not a tty\n4");
}

static void test_bash(void **state)
{
	expect_shell(NULL, "echo ${BASH_VERSION:+bash}; cat <(echo substitution)",
		     "bash\nsubstitution");
}

/* ---- what cannot be started ---- */

static void test_refusals(void **state)
{
	static const struct {
		const char *command, *cwd, *user, *env, *code, *message;
	} cases[] = {
		{ "true", "/nowhere", NULL, NULL, "cwd_not_found",
		  "cwd '/nowhere' does not exist" },
		{ "true", "/etc/passwd", NULL, NULL, "cwd_not_found",
		  "cwd '/etc/passwd' is not a directory" },
		{ "true", "/root", NULL, NULL, "cwd_not_found",
		  "cwd '/root' cannot be entered by user 'sandbox'" },
		{ "true", NULL, "nobody-here", NULL, "user_not_found",
		  "user 'nobody-here' does not exist in the sandbox" },
		{ "true", NULL, NULL, "NOVALUE", "invalid_argument",
		  "env entry 0 is not of the form NAME=value" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *env[] = { cases[i].env, NULL };
		struct command c;

		run(&c, &vm,
		    &(struct agent_exec_spec){
			    .command = cases[i].command,
			    .cwd = cases[i].cwd,
			    .user = cases[i].user,
			    .env = env,
		    });
		assert_true(c.failed);
		assert_string_equal(err_code_of(&c.err), cases[i].code);
		assert_string_equal(c.err.message, cases[i].message);
		command_free(&c);
	}
	assert_alive();
}

static void test_longest_command(void **state)
{
	size_t len = PROTO_COMMAND_MAX;
	_cleanup_free_ char *command = xmalloc(len + 2);
	struct command c;

	memset(command, ' ', len + 1);
	memcpy(command, "echo ok #", 9);
	command[len] = '\0';
	run(&c, &vm, &(struct agent_exec_spec){ .command = command });
	assert_string_equal(buf_str(&c.output[0]), "ok\n");
	command_free(&c);
	command[len] = ' ';
	command[len + 1] = '\0';
	run(&c, &vm, &(struct agent_exec_spec){ .command = command });
	assert_string_equal(err_code_of(&c.err), "invalid_argument");
	command_free(&c);
}

static void test_unknown_exec(void **state)
{
	struct command c;

	command_init(&c, &vm);
	command_attach(&c, "neverwas");
	assert_true(command_wait(&c, has_failed, SLOW_MS));
	assert_string_equal(err_code_of(&c.err), "exec_not_found");
	command_free(&c);
}

/* ---- much output ---- */

/* What `seq 1 n` prints. */
static uint64_t seq_hash(unsigned int n, uint64_t *ret_len)
{
	uint64_t hash = FNV_START;
	char line[16];

	*ret_len = 0;
	for (unsigned int i = 1; i <= n; i++) {
		int len = snprintf(line, sizeof(line), "%u\n", i);

		hash = fnv_add(hash, line, (size_t)len);
		*ret_len += (uint64_t)len;
	}
	return hash;
}

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
		cmocka_unit_test(test_hello),
		cmocka_unit_test(test_identity),
		cmocka_unit_test(test_identity_again),
		cmocka_unit_test(test_clock),
		cmocka_unit_test(test_exit_codes),
		cmocka_unit_test(test_death_by_signal),
		cmocka_unit_test(test_signal_from_outside),
		cmocka_unit_test(test_streams_stay_apart),
		cmocka_unit_test(test_streams_by_name),
		cmocka_unit_test(test_binary_output),
		cmocka_unit_test(test_sandbox_user),
		cmocka_unit_test(test_root_user),
		cmocka_unit_test(test_groups),
		cmocka_unit_test(test_env),
		cmocka_unit_test(test_cwd),
		cmocka_unit_test(test_own_session),
		cmocka_unit_test(test_bash),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_longest_command),
		cmocka_unit_test(test_unknown_exec),
		cmocka_unit_test(test_much_output_with_backpressure),
		cmocka_unit_test(test_log_cap_leaves_a_gap),
		cmocka_unit_test(test_background_child_holds_pipes),
		cmocka_unit_test(test_deadline_kills_the_tree),
		cmocka_unit_test(test_kill_takes_everything),
		cmocka_unit_test(test_input),
		cmocka_unit_test(test_input_nobody_reads),
		cmocka_unit_test(test_without_input),
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

	if (argc > 1)
		cmocka_set_test_filter(argv[1]); /* a pattern, as in test_guest 'test_input*' */
	return cmocka_run_group_tests(tests, boot, halt);
}
