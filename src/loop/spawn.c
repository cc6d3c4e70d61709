/*
 * Starting processes with fork and exec.
 *
 * Everything that allocates or may lock happens before fork: another thread may have held malloc's
 * lock at that moment, so the child makes system calls only. What fails in the child is written to
 * a CLOEXEC pipe as (step, errno); end of file on that pipe means that execve has succeeded.
 */
#include "loop/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

enum step { STEP_SIGNALS, STEP_PARENT, STEP_SESSION, STEP_DESCRIPTORS, STEP_CWD, STEP_EXEC };

static const char *const step_names[] = {
	[STEP_SIGNALS] = "reset signals",   [STEP_PARENT] = "tie it to its parent",
	[STEP_SESSION] = "start a session", [STEP_DESCRIPTORS] = "pass descriptors",
	[STEP_CWD] = "change directory",    [STEP_EXEC] = "execute",
};

struct failure {
	int step;
	int num;
};

static _Noreturn void child_fail(int report_fd, enum step step)
{
	struct failure failure = { .step = (int)step, .num = errno };
	ssize_t n;

	do {
		n = write(report_fd, &failure, sizeof(failure));
	} while (n < 0 && errno == EINTR);
	_exit(127);
}

static int child_reset_signals(void)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int sig = 1; sig < _NSIG; sig++) {
		/* SIGKILL, SIGSTOP and the C library's own two refuse; none has a handler. (The two
		 * are ignored below a posix_spawn of glibc; it sets them when it needs them.) */
		sigaction(sig, &action, NULL);
	}
	sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The signal is sent only for a parent that dies after prctl. One that died before is noticed by
 * its pid, and by the report pipe having no reader where a new pid namespace hides the pid (0). */
static int child_tie_to_parent(int sig, pid_t parent, int report_fd)
{
	struct pollfd report = { .fd = report_fd };
	pid_t now;

	if (prctl(PR_SET_PDEATHSIG, sig) < 0)
		return -1;
	now = getppid();
	if ((now != parent && now != 0) || poll(&report, 1, 0) < 0 || (report.revents & POLLERR))
		_exit(127);
	return 0;
}

/* Puts the three standard descriptors in place. Sources below 3 are moved out of the way first. */
static int child_place_standard(const struct spawn_spec *spec)
{
	int source[3] = { spec->stdin_fd, spec->stdout_fd, spec->stderr_fd };

	for (int i = 0; i < 3; i++) {
		if (source[i] < 0 && i == STDERR_FILENO)
			continue;
		if (source[i] < 0)
			source[i] = open("/dev/null", (i == 0 ? O_RDONLY : O_WRONLY) | O_CLOEXEC);
		if (source[i] >= 0 && source[i] < 3)
			source[i] = fcntl(source[i], F_DUPFD_CLOEXEC, 3);
		if (source[i] < 0)
			return -1;
	}
	for (int i = 0; i < 3; i++) {
		if (source[i] >= 0 && dup2(source[i], i) < 0)
			return -1;
	}
	return 0;
}

static int child_pass_descriptors(const struct spawn_spec *spec)
{
	if (child_place_standard(spec) < 0)
		return -1;
	/* All others close at exec, and only then, because the report pipe is among them. */
	if (close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) < 0)
		return -1;
	for (size_t i = 0; i < spec->n_keep_fds; i++) {
		if (fcntl(spec->keep_fds[i], F_SETFD, 0) < 0)
			return -1;
	}
	return 0;
}

static _Noreturn void child_main(const struct spawn_spec *spec, const char *program, pid_t parent,
				 int report_fd)
{
	char *const *argv = (char *const *)spec->argv;
	char *const *envp = spec->envp ? (char *const *)spec->envp : environ;

	if (child_reset_signals() < 0)
		child_fail(report_fd, STEP_SIGNALS);
	if (spec->parent_death_signal &&
	    child_tie_to_parent(spec->parent_death_signal, parent, report_fd) < 0)
		child_fail(report_fd, STEP_PARENT);
	if (spec->new_session && setsid() < 0)
		child_fail(report_fd, STEP_SESSION);
	if (child_pass_descriptors(spec) < 0)
		child_fail(report_fd, STEP_DESCRIPTORS);
	if (spec->cwd && chdir(spec->cwd) < 0)
		child_fail(report_fd, STEP_CWD);
	execve(program, argv, envp);
	child_fail(report_fd, STEP_EXEC);
}

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Looks argv[0] up on PATH, as execvp would, but execvp would also run a text file by a shell. */
static int find_program(const char *name, char **ret)
{
	const char *dirs = getenv("PATH") ?: "/usr/sbin:/usr/bin:/sbin:/bin";

	if (*name == '\0')
		return -ENOENT;
	if (strchr(name, '/')) {
		*ret = xstrdup(name);
		return 0;
	}
	while (*dirs) {
		size_t len = strcspn(dirs, ":");
		_cleanup_free_ char *path = xasprintf("%.*s/%s", (int)len, dirs, name);

		/* An empty entry means the current directory: not for a daemon. */
		if (len > 0 && is_program(path)) {
			*ret = STEAL(path);
			return 0;
		}
		dirs += len;
		dirs += *dirs == ':';
	}
	return -ENOENT;
}

/* A pipe with neither end among the standard descriptors, which the child replaces. */
static int make_report_pipe(int fds[2])
{
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	for (int i = 0; i < 2; i++) {
		int moved;

		if (fds[i] >= 3)
			continue;
		moved = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
		if (moved < 0)
			return -errno;
		close(fds[i]);
		fds[i] = moved;
	}
	return 0;
}

/* Blocks every signal around fork, so that no handler of ours runs in the child. */
static pid_t fork_child(const struct spawn_spec *spec, const char *program, int report_fd)
{
	pid_t parent = getpid(), pid;
	sigset_t all, before;
	int saved_errno;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (pid == 0)
		child_main(spec, program, parent, report_fd);
	saved_errno = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = saved_errno;
	return pid;
}

static int report_failure(const struct spawn_spec *spec, const struct failure *failure,
			  struct err *err)
{
	const char *reason = strerrordesc_np(failure->num) ?: "unknown error";
	const char *name = spec->argv[0];

	if (failure->step == STEP_CWD)
		return err_set(err, -failure->num,
			       "cannot start '%s': change directory to '%s': %s", name, spec->cwd,
			       reason);
	return err_set(err, -failure->num, "cannot start '%s': %s: %s", name,
		       step_names[failure->step], reason);
}

static int check_spec(const struct spawn_spec *spec, struct err *err)
{
	if (!spec->argv || !spec->argv[0])
		return err_set(err, -EINVAL, "cannot start a program: no name given");
	for (size_t i = 0; i < spec->n_keep_fds; i++) {
		if (spec->keep_fds[i] < 3)
			return err_set(err, -EINVAL,
				       "cannot start '%s': descriptor %d to keep is a standard one",
				       spec->argv[0], spec->keep_fds[i]);
	}
	return 0;
}

/* Waits for the child's report. 0 when it runs the program now. */
static int read_report(int report_fd, struct failure *ret)
{
	ssize_t n = fd_read_full(report_fd, ret, sizeof(*ret));

	if (n < 0)
		return (int)n;
	if (n == 0)
		return 0;
	return n == sizeof(*ret) ? 1 : -EPROTO;
}

int spawn(const struct spawn_spec *spec, struct child *ret, struct err *err)
{
	_cleanup_free_ char *program = NULL;
	_cleanup_close_ int report_read = -1, report_write = -1;
	struct child child = { .pid = 0, .pidfd = -1 };
	struct failure failure;
	int fds[2] = { -1, -1 };
	int r = check_spec(spec, err);

	if (r < 0)
		return r;
	r = find_program(spec->argv[0], &program);
	if (r < 0) {
		err_set(err, r, "cannot start '%s': no such program on PATH", spec->argv[0]);
		err_hint(err, "install the package that has '%s'", spec->argv[0]);
		return r;
	}
	r = make_report_pipe(fds);
	report_read = fds[0];
	report_write = fds[1];
	if (r < 0)
		return err_set(err, r, "cannot start '%s': make a pipe: %s", spec->argv[0],
			       strerrordesc_np(-r));
	child.pid = fork_child(spec, program, report_write);
	if (child.pid < 0) {
		r = -errno;
		return err_set(err, r, "cannot start '%s': fork: %s", spec->argv[0],
			       strerrordesc_np(-r));
	}
	close(STEAL_FD(report_write));
	/* The pid cannot be anybody else's yet: nobody has reaped the child. */
	child.pidfd = pidfd_open(child.pid, 0);
	if (child.pidfd < 0) {
		r = -errno;
		kill(child.pid, SIGKILL);
		waitpid(child.pid, NULL, 0);
		return err_set(err, r, "cannot start '%s': pidfd_open: %s", spec->argv[0],
			       strerrordesc_np(-r));
	}
	r = read_report(report_read, &failure);
	if (r != 0) {
		child_kill(&child);
		if (r > 0)
			return report_failure(spec, &failure, err);
		return err_set(err, r, "cannot start '%s': read its report: %s", spec->argv[0],
			       strerrordesc_np(-r));
	}
	*ret = child;
	return 0;
}

static int status_of(const siginfo_t *info)
{
	switch (info->si_code) {
	case CLD_EXITED:
		return W_EXITCODE(info->si_status, 0);
	case CLD_DUMPED:
		return W_EXITCODE(0, info->si_status) | WCOREFLAG;
	default:
		return W_EXITCODE(0, info->si_status);
	}
}

/* Reaps by pidfd: a pid could be another child's by now. Blocks until the child has ended. */
static int reap(const struct child *child, int *ret_status)
{
	siginfo_t info = { 0 };
	int r;

	do {
		r = waitid(P_PIDFD, (id_t)child->pidfd, &info, WEXITED);
	} while (r < 0 && errno == EINTR);
	if (r < 0)
		return -errno;
	*ret_status = status_of(&info);
	return 0;
}

int child_wait(const struct child *child, int64_t deadline_boottime_ms, int *ret_status)
{
	struct pollfd ended = { .fd = child->pidfd, .events = POLLIN };

	for (;;) {
		int timeout_ms = clock_remaining_ms(deadline_boottime_ms);
		int n = poll(&ended, 1, timeout_ms);

		if (n > 0)
			return reap(child, ret_status);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0 && clock_remaining_ms(deadline_boottime_ms) == 0)
			return -ETIMEDOUT;
	}
}

void child_kill(struct child *child)
{
	int status;

	if (child->pid <= 0)
		return;
	/* ESRCH: it has been reaped, and reap() says ECHILD: both leave only the descriptor. */
	pidfd_send_signal(child->pidfd, SIGKILL, NULL, 0);
	reap(child, &status);
	close(child->pidfd);
	*child = (struct child){ .pid = 0, .pidfd = -1 };
}
