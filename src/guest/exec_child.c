/*
 * The child's side of an exec: between clone and execve.
 *
 * Everything that touches the guest's own files (users, working directory, shell) happens here and
 * not in the agent: a file system that hangs or lies costs this one command, which has a deadline,
 * and not PID 1. What goes wrong is written to the status pipe; execve closes it and so reports
 * success.
 *
 * A file operation goes the same way up to its home and then on in our own code (files.h). It stays
 * a copy of the agent: without execve the kernel leaves it "not dumpable", so that no process of
 * the same user can look into it.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "guest/exec.h"
#include "guest/files.h"
#include "guest/users.h"

#define DEFAULT_USER	"sandbox"
#define NOGROUP		65534
#define PATH_DEFAULT	"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define OPEN_FILES_SOFT 1024
#define OPEN_FILES_HARD 524288
#define STATUS_FD	3
#define TERM_DEFAULT	"xterm-256color"

static void fail(uint32_t reason, const char *fmt, ...)
	__attribute__((format(printf, 2, 3), noreturn));

static void fail(uint32_t reason, const char *fmt, ...)
{
	struct exec_failure f = { .reason = reason };
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f.message, sizeof(f.message), fmt, ap);
	va_end(ap);
	fd_write_all(STATUS_FD, &f, sizeof(f));
	_exit(127);
}

/* ---- descriptors, signals, limits: nothing of the agent's is inherited ---- */

static void reset_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	for (int i = 1; i < NSIG; i++)
		signal(i, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* 0, 1, 2 and the status pipe at 3, which alone goes away at execve. The sources may stand at any
 * number, these among them, so that they are moved up first. */
static void arrange_descriptors(const struct exec_child *child)
{
	const int from[] = { child->stdin_fd, child->stdout_fd, child->stderr_fd,
			     child->status_fd };
	int high[4];

	for (int i = 0; i < 4; i++)
		high[i] = fcntl(from[i], F_DUPFD, 10);
	for (int i = 0; i < 4; i++)
		dup2(high[i], i);
	fcntl(STATUS_FD, F_SETFD, FD_CLOEXEC);
	close_range(STATUS_FD + 1, ~0u, 0);
}

static void reset_limits(void)
{
	const struct rlimit files = { .rlim_cur = OPEN_FILES_SOFT, .rlim_max = OPEN_FILES_HARD };
	const struct rlimit core = { .rlim_cur = 0, .rlim_max = RLIM_INFINITY };
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "0", 1) != 1)
		fail(PROTO_FAIL_RESOURCES,
		     "cannot give up the agent's protection from the "
		     "out-of-memory killer: %s",
		     strerrordesc_np(errno));
	close(fd);
	setrlimit(RLIMIT_NOFILE, &files);
	setrlimit(RLIMIT_CORE, &core);
	setpriority(PRIO_PROCESS, 0, 0);
	umask(022);
}

/* ---- who ---- */

/* An image need not have them: root and numbers are understood without. */
static void read_etc(const char *path, struct buf *out)
{
	int r = file_read(path, USERS_FILE_MAX, out);

	if (r < 0 && r != -ENOENT)
		fail(PROTO_FAIL_USER, "cannot read %s: %s", path, strerrordesc_np(-r));
}

/* /dev/stderr and its like are opened anew, with the rights of whoever opens: a pipe is then the
 * user's own, and so is a terminal, whose group stays tty's. Anything else (/dev/null) is left as
 * it is. */
static void own_streams(const struct user *user)
{
	struct stat st;

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		bool pipe = fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);

		if ((pipe || isatty(fd)) && fchown(fd, user->uid, pipe ? user->gid : (gid_t)-1) < 0)
			fail(PROTO_FAIL_RESOURCES, "cannot hand the command its streams: %s",
			     strerrordesc_np(errno));
	}
}

/* By number: any name may stand for root. A user that is only a number has root's group otherwise.
 */
static void confine(const char *name, struct user *user)
{
	if (user->uid == 0)
		fail(PROTO_FAIL_DENIED,
		     "this key may do nothing as root (\"root\" of its scope), which user '%s' is",
		     name);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		fail(PROTO_FAIL_RESOURCES, "cannot keep the command from becoming root: %s",
		     strerrordesc_np(errno));
	if (user->gid == 0)
		user->gid = NOGROUP;
}

static void become_user(const char *name, bool confined, struct user *user, struct buf *passwd,
			struct buf *group)
{
	gid_t groups[USER_GROUPS_MAX];
	size_t n;
	int r;

	read_etc("/etc/passwd", passwd);
	read_etc("/etc/group", group);
	r = user_resolve(buf_str(passwd), passwd->len, buf_str(group), group->len, name, user);
	if (r < 0)
		fail(PROTO_FAIL_USER, "%s '%s' does not exist in the sandbox",
		     r == -ESRCH ? "the group of user" : "user", name);
	if (confined)
		confine(name, user);
	n = user_groups(buf_str(group), group->len, user, groups, USER_GROUPS_MAX);
	own_streams(user);
	if (setgroups(n, groups) < 0 || setresgid(user->gid, user->gid, user->gid) < 0 ||
	    setresuid(user->uid, user->uid, user->uid) < 0)
		fail(PROTO_FAIL_RESOURCES, "cannot become user '%s': %s", name,
		     strerrordesc_np(errno));
}

/* ---- where ---- */

static void enter_cwd(const char *cwd, const struct user *user)
{
	if (cwd[0] == '\0') {
		/* Like a login: a home that is not there is no reason to refuse. */
		if (chdir(user->home) < 0 && chdir("/") < 0)
			fail(PROTO_FAIL_CWD, "cannot enter '/': %s", strerrordesc_np(errno));
		return;
	}
	if (cwd[0] != '/' && chdir(user->home) < 0)
		fail(PROTO_FAIL_CWD,
		     "cwd '%s' is relative, and the home '%s' cannot be entered: %s", cwd,
		     user->home, strerrordesc_np(errno));
	if (chdir(cwd) == 0)
		return;
	if (errno == ENOENT)
		fail(PROTO_FAIL_CWD, "cwd '%s' does not exist", cwd);
	if (errno == ENOTDIR)
		fail(PROTO_FAIL_CWD, "cwd '%s' is not a directory", cwd);
	if (errno == EACCES)
		fail(PROTO_FAIL_CWD, "cwd '%s' cannot be entered by user '%s'", cwd, user->name);
	fail(PROTO_FAIL_CWD, "cwd '%s' cannot be entered: %s", cwd, strerrordesc_np(errno));
}

/* ---- environment ---- */

/* The name of "NAME=value"; 0 when it is no such thing. */
static size_t name_len(const char *entry)
{
	const char *equals = strchr(entry, '=');

	return equals ? (size_t)(equals - entry) : 0;
}

static bool is_set(char *const *env, const char *entry)
{
	size_t len = name_len(entry);

	for (; *env; env++)
		if (name_len(*env) == len && memcmp(*env, entry, len) == 0)
			return true;
	return false;
}

/* What a login would set, under what the request sets. */
static char **make_env(char *const *asked, const struct user *user, bool tty)
{
	char *const login[] = {
		xstrdup("PATH=" PATH_DEFAULT),	    xasprintf("HOME=%s", user->home),
		xasprintf("USER=%s", user->name),   xasprintf("LOGNAME=%s", user->name),
		xasprintf("SHELL=%s", user->shell), xstrdup("LANG=C.UTF-8"),
		xstrdup("TERM=" TERM_DEFAULT), /* the last one: only in a terminal */
	};
	const size_t n_login = ARRAY_SIZE(login) - (tty ? 0 : 1);
	size_t n = 0;
	char **env;

	while (asked[n]) {
		if (name_len(asked[n]) == 0)
			fail(PROTO_FAIL_BAD_REQUEST, "env entry %zu is not of the form NAME=value",
			     n);
		n++;
	}
	env = xcalloc(n + ARRAY_SIZE(login) + 1, sizeof(*env));
	memcpy(env, asked, n * sizeof(*env));
	for (size_t i = 0; i < n_login; i++)
		if (!is_set(asked, login[i]))
			env[n++] = login[i];
	return env;
}

/* ---- the command ---- */

/* login: as a login shell, which reads what its user has set up, and no command. */
static void run_shell(char *command, char *const *env, bool login)
{
	static const char *const shells[] = { "/bin/bash", "/bin/sh" };

	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		const char *name = strrchr(shells[i], '/') + 1;
		char *argv[] = { login ? xasprintf("-%s", name) : xstrdup(name),
				 login ? NULL : xstrdup("-c"), command, NULL };

		execve(shells[i], argv, env);
		if (errno == E2BIG)
			fail(PROTO_FAIL_BAD_REQUEST, "command and env together are too long");
	}
	fail(PROTO_FAIL_NOT_EXECUTABLE,
	     "the image has neither /bin/bash nor /bin/sh that can run: %s",
	     strerrordesc_np(errno));
}

static void run_file(const struct buf *encoded, const struct buf *passwd, const struct buf *group)
{
	const struct files_io io = {
		.in = STDIN_FILENO,
		.out = STDOUT_FILENO,
		.err = STDERR_FILENO,
		.passwd = buf_str(passwd),
		.passwd_len = passwd->len,
		.group = buf_str(group),
		.group_len = group->len,
	};
	const struct rlimit files = { .rlim_cur = OPEN_FILES_HARD, .rlim_max = OPEN_FILES_HARD };
	struct buf storage = BUF_INIT;
	struct file_request request;

	prctl(PR_SET_DUMPABLE, 0);
	setrlimit(RLIMIT_NOFILE, &files);
	if (file_request_parse(encoded->data, encoded->len, &storage, &request) < 0)
		fail(PROTO_FAIL_BAD_REQUEST, "the file operation is malformed");
	files_prepare();
	close(STATUS_FD); /* as execve does: it has started */
	_exit(files_run(&request, &io));
}

void exec_child_run(const struct exec_child *child)
{
	const struct exec_request *req = child->request;
	struct buf passwd = BUF_INIT, group = BUF_INIT;
	struct user user;

	arrange_descriptors(child);
	reset_signals();
	reset_limits();
	if (setsid() < 0)
		fail(PROTO_FAIL_RESOURCES, "cannot start a session: %s", strerrordesc_np(errno));
	if (req->tty && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0)
		fail(PROTO_FAIL_RESOURCES, "cannot take the terminal over: %s",
		     strerrordesc_np(errno));
	become_user(req->user[0] ? req->user : DEFAULT_USER, req->confined, &user, &passwd, &group);
	enter_cwd(req->is_file ? "" : req->cwd, &user);
	if (req->is_file)
		run_file(&req->file, &passwd, &group);
	run_shell(req->command, make_env(req->env, &user, req->tty),
		  req->tty && req->command[0] == '\0');
	_exit(127);
}
