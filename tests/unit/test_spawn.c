/* Starting processes: failures are reported, descriptors are exact, deadlines hold. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"
#include "loop/spawn.h"

#define IN_SECONDS(n) (clock_boottime_ms() + (n)*1000)

static int run_shell(const char *script, struct buf *out, size_t out_max, struct err *err)
{
	const char *argv[] = { "/bin/sh", "-c", script, NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;

	spec.argv = argv;
	return spawn_run(&spec, IN_SECONDS(20), out, out_max, NULL, NULL, err);
}

static void test_output(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	buf_append_str(&out, "> ");
	assert_int_equal(run_shell("echo hello; cat; echo end", &out, 1000, NULL), 0);
	assert_string_equal(buf_str(&out), "> hello\nend\n");
}

static void test_output_is_capped(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	assert_int_equal(run_shell("head -c 1000000 /dev/zero", &out, 12345, NULL), 0);
	assert_int_equal(out.len, 12345);
	assert_int_equal(run_shell("head -c 1000000 /dev/zero", NULL, 0, NULL), 0);
}

static void test_failure_carries_status_and_stderr(void **state)
{
	struct err err = ERR_INIT;

	assert_int_equal(run_shell("echo first >&2; printf last >&2; exit 3", NULL, 0, &err), -EIO);
	assert_int_equal(err.num, -EIO);
	assert_string_equal(err.message, "'/bin/sh' ended with exit status 3: first; last");
	assert_int_equal(run_shell("kill -TERM $$", NULL, 0, &err), -EIO);
	assert_string_equal(err.message, "'/bin/sh' was killed by signal 15 (Terminated)");
}

static void test_failure_shows_the_last_lines(void **state)
{
	struct err err = ERR_INIT;

	assert_int_equal(
		run_shell("for i in $(seq 1000); do echo line $i >&2; done; exit 1", NULL, 0, &err),
		-EIO);
	assert_non_null(strstr(err.message, "line 999; line 1000"));
	assert_null(strstr(err.message, "line 1;"));
	assert_non_null(strstr(err.message, "exit status 1: line "));
}

static void test_program_that_cannot_start(void **state)
{
	const char *none[] = { "/nonexistent/program", NULL };
	const char *unknown[] = { "skerry-no-such-program", NULL };
	const char *not_executable[] = { "/proc/version", NULL };
	const char *true_argv[] = { "true", NULL };
	const char *empty[] = { NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct child child = { .pid = -7 };
	struct err err = ERR_INIT;

	spec.argv = none;
	assert_int_equal(spawn(&spec, &child, &err), -ENOENT);
	assert_string_equal(
		err.message,
		"cannot start '/nonexistent/program': execute: No such file or directory");
	assert_int_equal(child.pid, -7);
	spec.argv = unknown;
	assert_int_equal(spawn(&spec, &child, &err), -ENOENT);
	assert_non_null(strstr(err.message, "no such program on PATH"));
	spec.argv = not_executable;
	assert_int_equal(spawn(&spec, &child, &err), -EACCES);
	spec.argv = empty;
	assert_int_equal(spawn(&spec, &child, &err), -EINVAL);
	spec.argv = true_argv;
	spec.cwd = "/nonexistent";
	assert_int_equal(spawn(&spec, &child, &err), -ENOENT);
	assert_non_null(strstr(err.message, "change directory to '/nonexistent'"));
	/* All of them were reaped. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

/* A text file without an interpreter line is not handed to a shell, as execvp would. */
static void test_never_a_shell(void **state)
{
	char dir[SCRATCH_SIZE];
	_cleanup_free_ char *path = NULL;
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	const char *argv[] = { NULL, NULL };
	struct child child;

	scratch_make(dir);
	path = xasprintf("%s/script", dir);
	assert_int_equal(file_write_durable(path, "exit 0\n", 7, 0755), 0);
	argv[0] = path;
	spec.argv = argv;
	assert_int_equal(spawn(&spec, &child, NULL), -ENOEXEC);
	scratch_remove(dir);
}

static void test_environment_and_directory(void **state)
{
	const char *argv[] = { "sh", "-c", "pwd; echo $A; env | wc -l", NULL };
	const char *envp[] = { "A=b c", "PATH=/usr/bin:/bin", NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	_cleanup_buf_ struct buf out = BUF_INIT;

	spec.argv = argv;
	spec.envp = envp;
	spec.cwd = "/usr";
	assert_int_equal(spawn_run(&spec, IN_SECONDS(20), &out, 100, NULL, NULL, NULL), 0);
	assert_string_equal(buf_str(&out), "/usr\nb c\n3\n"); /* sh adds PWD */
}

static void test_other_descriptors_are_closed(void **state)
{
	/* 0 to 2, the kept one, and that of ls itself. */
	const char *argv[] = { "ls", "/proc/self/fd", NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	_cleanup_buf_ struct buf out = BUF_INIT;
	int leaked = fcntl(STDERR_FILENO, F_DUPFD, 50); /* without CLOEXEC */
	int kept = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 70);

	assert_true(leaked >= 50 && kept >= 70);
	spec.argv = argv;
	spec.keep_fds = &kept;
	spec.n_keep_fds = 1;
	assert_int_equal(spawn_run(&spec, IN_SECONDS(20), &out, 1000, NULL, NULL, NULL), 0);
	assert_string_equal(buf_str(&out), "0\n1\n2\n3\n70\n");
	assert_true(fcntl(kept, F_GETFD) & FD_CLOEXEC); /* ours is as it was */
	close(leaked);
	close(kept);
}

static void test_kept_descriptor_is_usable(void **state)
{
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	char text[6] = "", script[64];
	const char *argv[] = { "sh", "-c", script, NULL };
	const int standard = 1;
	int fds[2], high;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	high = fcntl(fds[1], F_DUPFD_CLOEXEC, 9); /* sh redirects to one digit only */
	assert_in_range(high, 9, 99);
	snprintf(script, sizeof(script), "echo hello > /proc/self/fd/%d", high);
	spec.argv = argv;
	spec.keep_fds = &high;
	spec.n_keep_fds = 1;
	assert_int_equal(spawn_run(&spec, IN_SECONDS(20), NULL, 0, NULL, NULL, NULL), 0);
	assert_int_equal(fd_read_full(fds[0], text, 5), 5);
	assert_string_equal(text, "hello");
	spec.keep_fds = &standard;
	assert_int_equal(spawn_run(&spec, IN_SECONDS(20), NULL, 0, NULL, NULL, NULL), -EINVAL);
	close(fds[0]);
	close(fds[1]);
	close(high);
}

/* stdout and stderr exchanged: sources and targets overlap. */
static void test_standard_descriptors_exchanged(void **state)
{
	const char *argv[] = { "sh", "-c", "echo out; echo err >&2", NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	int out[2], err[2], saved_out, saved_err, status = -1;
	struct child child;
	char text[4] = "";

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	assert_int_equal(pipe2(err, O_CLOEXEC), 0);
	saved_out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	saved_err = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	dup2(err[1], STDOUT_FILENO);
	dup2(out[1], STDERR_FILENO);
	spec.argv = argv;
	spec.stdout_fd = STDERR_FILENO;
	spec.stderr_fd = STDOUT_FILENO;
	spawn(&spec, &child, NULL);
	child_wait(&child, IN_SECONDS(20), &status);
	dup2(saved_out, STDOUT_FILENO);
	dup2(saved_err, STDERR_FILENO);
	child_kill(&child);
	assert_int_equal(status, 0);
	assert_int_equal(fd_read_full(out[0], text, 3), 3);
	assert_string_equal(text, "out");
	assert_int_equal(fd_read_full(err[0], text, 3), 3);
	assert_string_equal(text, "err");
	for (int i = 0; i < 2; i++) {
		close(out[i]);
		close(err[i]);
	}
	close(saved_out);
	close(saved_err);
}

/* The C library's own two: its posix_spawn (make uses it) has them ignored in every child, from
 * where they are inherited, and no program can set them. */
#define LIBRARY_SIGNALS (1ULL << (32 - 1) | 1ULL << (33 - 1))

static unsigned long long signal_set(const char *status, const char *name)
{
	const char *line = strstr(status, name);

	assert_non_null(line);
	return strtoull(line + strlen(name), NULL, 16);
}

static void test_signals_are_reset(void **state)
{
	const char *argv[] = { "grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status", NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	_cleanup_buf_ struct buf out = BUF_INIT;
	sigset_t blocked, before;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &blocked, &before);
	spec.argv = argv;
	assert_int_equal(spawn_run(&spec, IN_SECONDS(20), &out, 1000, NULL, NULL, NULL), 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	signal(SIGPIPE, SIG_DFL);
	assert_int_equal(signal_set(buf_str(&out), "SigBlk:\t"), 0);
	assert_int_equal(signal_set(buf_str(&out), "SigIgn:\t") & ~LIBRARY_SIGNALS, 0);
}

static void test_deadline_kills(void **state)
{
	const char *argv[] = { "yes", NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct err err = ERR_INIT;
	int64_t start_ms = clock_boottime_ms();

	spec.argv = argv;
	assert_int_equal(spawn_run(&spec, start_ms + 200, &out, 100, NULL, NULL, &err), -ETIMEDOUT);
	assert_in_range(clock_boottime_ms() - start_ms, 200, 10000);
	assert_string_equal(err.message, "'yes' did not end in time and was killed");
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* reaped */
}

/* With a session of its own, what the program started goes too: its background sleep holds a pipe
 * of ours, which comes to its end. */
static void test_deadline_kills_the_session(void **state)
{
	const char *argv[] = { "sh", "-c", "sleep 1000 & wait", NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	int fds[2];
	char c;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	spec.argv = argv;
	spec.new_session = true;
	spec.keep_fds = &fds[1];
	spec.n_keep_fds = 1;
	assert_int_equal(spawn_run(&spec, IN_SECONDS(0) + 200, NULL, 0, NULL, NULL, NULL),
			 -ETIMEDOUT);
	close(fds[1]);
	assert_int_equal(fd_read_full(fds[0], &c, 1), 0);
	close(fds[0]);
}

/* A background process that keeps the pipes open does not keep the caller. */
static void test_background_process_does_not_hold(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	int64_t start_ms = clock_boottime_ms();

	assert_int_equal(run_shell("sleep 15 & echo done", &out, 100, NULL), 0);
	assert_true(clock_boottime_ms() - start_ms < 10000);
	assert_string_equal(buf_str(&out), "done\n");
}

static void collect_line(void *arg, const char *line)
{
	buf_printf(arg, "[%s]", line);
}

static void measure_line(void *arg, const char *line)
{
	buf_printf(arg, "%zu ", strlen(line));
}

static void test_lines(void **state)
{
	const char *argv[] = { "sh", "-c", "printf 'one\\n\\ntwo' >&2; printf 'x\\0y\\nlast' >&2",
			       NULL };
	const char *long_argv[] = { "sh", "-c", "head -c 10000 /dev/zero >&2; echo >&2; echo x >&2",
				    NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	_cleanup_buf_ struct buf lines = BUF_INIT;

	spec.argv = argv;
	assert_int_equal(spawn_run(&spec, IN_SECONDS(20), NULL, 0, collect_line, &lines, NULL), 0);
	assert_string_equal(buf_str(&lines), "[one][][twox?y][last]");
	buf_reset(&lines);
	spec.argv = long_argv;
	assert_int_equal(spawn_run(&spec, IN_SECONDS(20), NULL, 0, measure_line, &lines, NULL), 0);
	assert_string_equal(buf_str(&lines), "4096 1 ");
}

static void test_wait_and_kill(void **state)
{
	const char *argv[] = { "sleep", "100", NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct child child, cleared = { 0 };
	int status = 0;

	child_kill(&cleared);
	assert_int_equal(fcntl(STDIN_FILENO, F_GETFD) >= 0, 1); /* pidfd 0 of it was not closed */
	spec.argv = argv;
	assert_int_equal(spawn(&spec, &child, NULL), 0);
	assert_int_equal(child_wait(&child, clock_boottime_ms() + 20, &status), -ETIMEDOUT);
	assert_int_equal(kill(child.pid, SIGTERM), 0);
	assert_int_equal(child_wait(&child, IN_SECONDS(20), &status), 0);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	assert_int_equal(child_wait(&child, IN_SECONDS(20), &status), -ECHILD);
	child_kill(&child);
	assert_int_equal(child.pid, 0);
	assert_int_equal(spawn(&spec, &child, NULL), 0);
	child_kill(&child);
	child_kill(&child);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* A parent that starts a child with parent_death_signal and dies at once; we hold the read end of a
 * pipe that closes when the grandchild is gone. */
static void test_parent_death(void **state)
{
	const char *argv[] = { "sleep", "100", NULL };
	int fds[2];
	char c;
	pid_t parent;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	parent = fork();
	if (parent == 0) {
		struct spawn_spec spec = SPAWN_SPEC_INIT;
		struct child child;

		spec.argv = argv;
		spec.stdout_fd = fds[1];
		spec.parent_death_signal = SIGKILL;
		_exit(spawn(&spec, &child, NULL) < 0 ? 1 : 0);
	}
	close(fds[1]);
	assert_int_equal(fd_read_full(fds[0], &c, 1),
			 0); /* would wait 100 s, past the test's limit */
	assert_int_equal(waitpid(parent, NULL, 0), parent);
	close(fds[0]);
}

static void *spawn_many(void *arg)
{
	int *failures = arg;

	for (int i = 0; i < 20; i++) {
		_cleanup_buf_ struct buf out = BUF_INIT;

		if (run_shell("echo hi", &out, 10, NULL) < 0 || !str_eq(buf_str(&out), "hi\n"))
			(*failures)++;
	}
	return NULL;
}

static void test_from_many_threads(void **state)
{
	pthread_t threads[4];
	int failures[4] = { 0 };

	for (int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, spawn_many, &failures[i]), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(failures[i], 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_output),
		cmocka_unit_test(test_output_is_capped),
		cmocka_unit_test(test_failure_carries_status_and_stderr),
		cmocka_unit_test(test_failure_shows_the_last_lines),
		cmocka_unit_test(test_program_that_cannot_start),
		cmocka_unit_test(test_never_a_shell),
		cmocka_unit_test(test_environment_and_directory),
		cmocka_unit_test(test_other_descriptors_are_closed),
		cmocka_unit_test(test_kept_descriptor_is_usable),
		cmocka_unit_test(test_standard_descriptors_exchanged),
		cmocka_unit_test(test_signals_are_reset),
		cmocka_unit_test(test_deadline_kills),
		cmocka_unit_test(test_deadline_kills_the_session),
		cmocka_unit_test(test_background_process_does_not_hold),
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_wait_and_kill),
		cmocka_unit_test(test_parent_death),
		cmocka_unit_test(test_from_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
