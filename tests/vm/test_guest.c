/*
 * The agent in a real guest: whom it greets, what a command gets, how it ends, and what cannot be
 * started.
 */
#include "guest_rig.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/version.h"

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
	};

	return guest_run_tests(tests, argc, argv);
}
