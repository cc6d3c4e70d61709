/* Commands: start, deadline, end. See exec.h for the phases. */
#include "guest/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "guest/cgroup.h"
#include "guest/guest.h"

#define ABANDONED_MS	30000
#define EXECS_ALIVE_MAX (2 * PROTO_EXECS_RUNNING_MAX) /* with background children of ended ones */

void exec_request_clear(struct exec_request *req)
{
	free(req->exec_id);
	free(req->user);
	free(req->cwd);
	free(req->command);
	for (char **e = req->env; e && *e; e++)
		free(*e);
	free(req->env);
	buf_clear(&req->file);
}

struct output *exec_stream(struct exec *exec, int stream)
{
	return &exec->streams[stream == PROTO_STDERR];
}

struct exec *exec_find(struct guest *guest, const char *id)
{
	for (struct exec *exec = guest->execs; exec; exec = exec->next)
		if (str_eq(exec->id, id))
			return exec;
	return NULL;
}

static bool is_running(struct exec *exec, int64_t now_ms)
{
	if (exec->phase == EXEC_ENDED || exec->phase == EXEC_FAILED)
		return false;
	if (exec->tty && !terminal_is_busy(exec))
		return false;
	exec->busy_ms = now_ms;
	return true;
}

uint32_t exec_activity(struct guest *guest, uint64_t *ret_quiet_ms)
{
	int64_t now_ms = clock_boottime_ms(), last_ms = 0;
	uint32_t running = 0;

	for (struct exec *exec = guest->execs; exec; exec = exec->next) {
		running += is_running(exec, now_ms);
		if (exec->phase == EXEC_ENDED && exec->ended_ms > last_ms)
			last_ms = exec->ended_ms;
		if (exec->tty && exec->busy_ms > last_ms)
			last_ms = exec->busy_ms;
	}
	*ret_quiet_ms = (uint64_t)(now_ms - last_ms);
	return running;
}

uint64_t exec_duration_ms(const struct exec *exec)
{
	int64_t end = exec->ended_ms ? exec->ended_ms : clock_boottime_ms();

	return (uint64_t)(end - exec->started_ms);
}

/* ---- making and freeing ---- */

static void remove_logs(const struct guest *guest, const char *id)
{
	char path[PROTO_EXEC_ID_MAX + 16];
	static const char *const names[] = { "stdout", "stderr" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", id, names[i]);
		unlinkat(guest->exec_dir_fd, path, 0);
	}
	unlinkat(guest->exec_dir_fd, id, AT_REMOVEDIR);
}

/* Nobody looks at it any more; also takes a half-built one. */
static void exec_free(struct exec *exec)
{
	struct guest *guest = exec->guest;

	poller_close(&guest->poller, &exec->status);
	for (int i = 0; i < 2; i++)
		output_close(&exec->streams[i]);
	input_end(&exec->input);
	if (exec->cgroup_fd >= 0) {
		cgroup_remove(guest->cgroup_fd, exec->cgroup_fd, exec->id);
		close(exec->cgroup_fd);
	}
	if (!exec->is_file)
		remove_logs(guest, exec->id);
	free(exec->shown);
	if (exec->prev)
		exec->prev->next = exec->next;
	else
		guest->execs = exec->next;
	if (exec->next)
		exec->next->prev = exec->prev;
	else
		guest->last_exec = exec->prev;
	free(exec);
}

static struct exec *exec_new(struct guest *guest, const struct exec_request *req)
{
	struct exec *exec = xcalloc(1, sizeof(*exec));

	exec->guest = guest;
	str_copy(exec->id, sizeof(exec->id), req->exec_id);
	exec->status.fd = exec->cgroup_fd = -1;
	exec->with_stdin = req->with_stdin;
	exec->is_file = req->is_file;
	exec->tty = req->tty;
	exec->login_shell = req->tty && req->command[0] == '\0';
	if (req->command) {
		exec->shown_whole = strlen(req->command) <= PROTO_COMMAND_SHOWN_MAX;
		exec->shown = xstrndup(req->command, PROTO_COMMAND_SHOWN_MAX);
	}
	exec->size = req->size;
	exec->started_ms = clock_boottime_ms();
	exec->deadline_ms = INT64_MAX;
	if (req->timeout_ms > 0 && req->timeout_ms < (uint64_t)(INT64_MAX - exec->started_ms))
		exec->deadline_ms = exec->started_ms + (int64_t)req->timeout_ms;
	for (int i = 0; i < 2; i++) {
		exec->streams[i].exec = exec;
		exec->streams[i].pipe.fd = exec->streams[i].log.fd = -1;
	}
	if (exec->tty)
		exec->streams[1].ended = exec->streams[1].draining = true;
	input_begin(&exec->input, &guest->poller, -1);
	exec->prev = guest->last_exec;
	if (exec->prev)
		exec->prev->next = exec;
	else
		guest->execs = exec;
	guest->last_exec = exec;
	return exec;
}

/* ---- starting ---- */

/* The pipes of a start: [0] is read from, [1] is written to. */
struct pipes {
	int in[2], out[2], err[2], status[2];
};

static void close_pair(int pair[2])
{
	for (int i = 0; i < 2; i++)
		if (pair[i] >= 0)
			close(pair[i]);
}

static void close_pipes(struct pipes *p)
{
	close_pair(p->in);
	close_pair(p->out);
	close_pair(p->err);
	close_pair(p->status);
}

/* Only our ends are non-blocking: the others are open files of the command's. */
static int make_pipe(int pair[2], int our_end)
{
	if (pipe2(pair, O_CLOEXEC) < 0 || fcntl(pair[our_end], F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	return 0;
}

/* Both ways of a terminal: its master at our ends, its slave once, at the command's. */
static int make_terminal(const struct guest *guest, struct pipes *p, struct terminal_size size)
{
	int r = terminal_make(guest->devpts_fd, size, &p->out[0], &p->out[1]);

	if (r < 0)
		return r;
	p->in[1] = fcntl(p->out[0], F_DUPFD_CLOEXEC, 0);
	return p->in[1] < 0 ? -errno : make_pipe(p->status, 0);
}

static int make_pipes(struct pipes *p, bool with_stdin)
{
	int r = with_stdin ? make_pipe(p->in, 1) : 0;

	if (r == 0)
		r = make_pipe(p->out, 0);
	if (r == 0)
		r = make_pipe(p->err, 0);
	return r == 0 ? make_pipe(p->status, 0) : r;
}

static int open_logs(struct exec *exec, uint64_t cap)
{
	int dir, r;

	/* Of an exec of the same name in an earlier life of this disk. */
	remove_logs(exec->guest, exec->id);
	if (mkdirat(exec->guest->exec_dir_fd, exec->id, 0755) < 0)
		return -errno;
	dir = openat(exec->guest->exec_dir_fd, exec->id, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -errno;
	r = capture_open(&exec->streams[0].log, dir, "stdout", cap);
	if (r == 0 && !exec->tty)
		r = capture_open(&exec->streams[1].log, dir, "stderr", cap);
	close(dir);
	return r;
}

static void on_status(struct watch *w, uint32_t events);

/* fork(2), but the child begins in its cgroup: nothing of it ever runs outside. */
static pid_t clone_into(int cgroup_fd)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (unsigned int)cgroup_fd,
	};

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static int launch(struct exec *exec, const struct exec_request *req, struct pipes *p)
{
	struct guest *guest = exec->guest;
	const struct exec_child child = {
		.request = req,
		.stdin_fd = req->tty	      ? p->out[1]
			    : req->with_stdin ? p->in[0]
					      : guest->null_fd,
		.stdout_fd = p->out[1],
		.stderr_fd = req->tty ? p->out[1] : p->err[1],
		.status_fd = p->status[1],
	};

	exec->pid = clone_into(exec->cgroup_fd);
	if (exec->pid == 0)
		exec_child_run(&child);
	if (exec->pid < 0)
		return -errno;
	poller_add(&guest->poller, &exec->status, STEAL_FD(p->status[0]), EPOLLIN, on_status, exec);
	output_begin(&exec->streams[0], exec, STEAL_FD(p->out[0]), req->is_file);
	if (!req->tty)
		output_begin(&exec->streams[1], exec, STEAL_FD(p->err[0]), req->is_file);
	input_begin(&exec->input, &guest->poller, STEAL_FD(p->in[1]));
	return 0;
}

static int prepare_and_launch(struct exec *exec, const struct exec_request *req)
{
	struct pipes p = {
		.in = { -1, -1 }, .out = { -1, -1 }, .err = { -1, -1 }, .status = { -1, -1 }
	};
	int r = req->is_file ? 0 : open_logs(exec, req->log_cap);

	if (r == 0)
		r = req->tty ? make_terminal(exec->guest, &p, req->size)
			     : make_pipes(&p, req->with_stdin);
	if (r == 0) {
		r = cgroup_make(exec->guest->cgroup_fd, exec->id);
		if (r >= 0) {
			exec->cgroup_fd = r;
			r = launch(exec, req, &p);
		}
	}
	close_pipes(&p);
	return r;
}

static bool refused(struct guest *guest, const struct exec_request *req, struct exec_failure *f)
{
	size_t len = strlen(req->exec_id), running = 0, alive = 0;

	for (const struct exec *e = guest->execs; e; e = e->next) {
		running += e->phase < EXEC_ENDED;
		alive += e->phase < EXEC_ENDED || e->cgroup_fd >= 0;
	}
	if (len == 0 || strspn(req->exec_id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					     "0123456789_-") != len)
		*f = (struct exec_failure){ PROTO_FAIL_BAD_REQUEST, "exec id is malformed" };
	else if (exec_find(guest, req->exec_id))
		*f = (struct exec_failure){ PROTO_FAIL_EXISTS, "exec id is in use" };
	else if (running >= PROTO_EXECS_RUNNING_MAX)
		*f = (struct exec_failure){ PROTO_FAIL_LIMIT,
					    "too many commands are running at once" };
	else if (alive >= EXECS_ALIVE_MAX)
		*f = (struct exec_failure){ PROTO_FAIL_LIMIT,
					    "too many earlier commands still have "
					    "processes running in the background" };
	else if (req->tty && terminals_open(guest) >= req->terminals_max)
		*f = (struct exec_failure){ PROTO_FAIL_LIMIT, "too many terminals are open" };
	else
		return false;
	return true;
}

struct exec *exec_start(struct guest *guest, const struct exec_request *req, struct exec_failure *f)
{
	struct exec *exec;
	int r;

	if (refused(guest, req, f))
		return NULL;
	exec = exec_new(guest, req);
	r = prepare_and_launch(exec, req);
	if (r == 0)
		return exec;
	f->reason = PROTO_FAIL_RESOURCES;
	snprintf(f->message, sizeof(f->message), "cannot start a process: %s", strerrordesc_np(-r));
	exec_free(exec);
	return NULL;
}

/* ---- the child's report ---- */

/* Reads what the status pipe has: nothing yet, a failure, or its end, which execve made. */
static void read_status(struct exec *exec)
{
	struct exec_failure f;
	ssize_t n = read(exec->status.fd, &f, sizeof(f));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	poller_close(&exec->guest->poller, &exec->status);
	if (n == (ssize_t)sizeof(f)) {
		f.message[sizeof(f.message) - 1] = '\0';
		exec->failure = f;
		exec->phase = EXEC_FAILED;
	} else {
		exec->phase = EXEC_RUNNING;
	}
}

static void on_status(struct watch *w, uint32_t events)
{
	read_status(w->owner);
}

/* ---- signals and the end ---- */

void exec_abandon(struct exec *exec)
{
	if (exec->pid > 0) {
		kill(exec->pid, SIGTERM);
		exec->deadline_ms = clock_boottime_ms() + ABANDONED_MS;
	}
	for (int i = 0; i < 2; i++)
		output_abandon(&exec->streams[i]);
}

void exec_signal(struct exec *exec, int signal)
{
	if (signal == SIGKILL) {
		if (exec->cgroup_fd >= 0)
			cgroup_kill(exec->cgroup_fd);
	} else if (exec->phase == EXEC_RUNNING) {
		kill(-exec->pid, signal);
	} else if (exec->cgroup_fd >= 0) {
		/* Its process group may be gone and the number in use again. */
		cgroup_signal(exec->cgroup_fd, signal);
	}
}

void exec_output_progress(struct exec *exec)
{
	if (exec->phase != EXEC_ENDING || !output_drained(&exec->streams[0]) ||
	    !output_drained(&exec->streams[1]))
		return;
	exec->phase = EXEC_ENDED;
	for (int i = 0; i < 2; i++)
		exec->exit_totals[i] = exec->streams[i].log.total;
}

static void try_remove_cgroup(struct exec *exec)
{
	if (exec->cgroup_fd < 0 ||
	    !cgroup_remove(exec->guest->cgroup_fd, exec->cgroup_fd, exec->id))
		return;
	close(exec->cgroup_fd);
	exec->cgroup_fd = -1;
}

static void exec_ended(struct exec *exec, int wait_status)
{
	if (exec->phase == EXEC_STARTING)
		read_status(exec);
	exec->wait_status = wait_status;
	exec->ended_ms = clock_boottime_ms();
	exec->deadline_ms = INT64_MAX;
	exec->pid = 0;
	exec->out_of_memory = cgroup_had_oom_kill(exec->cgroup_fd);
	input_end(&exec->input);
	if (exec->phase == EXEC_FAILED)
		return;
	exec->phase = EXEC_ENDING;
	for (int i = 0; i < 2; i++)
		output_drain(&exec->streams[i]);
	exec_output_progress(exec);
}

void exec_reap(struct guest *guest)
{
	int wait_status;
	pid_t pid;

	while ((pid = waitpid(-1, &wait_status, WNOHANG)) > 0) {
		struct exec *exec = guest->execs;

		if (freeze_reap(guest, pid, wait_status))
			continue;
		while (exec && exec->pid != pid)
			exec = exec->next;
		if (exec)
			exec_ended(exec, wait_status);
	}
	guest->groups_due = true;
}

/* Not before the host has been told of the end: the kernel takes a moment for it. */
static void remove_cgroups(struct guest *guest)
{
	if (!guest->groups_due)
		return;
	guest->groups_due = false;
	for (struct exec *exec = guest->execs; exec; exec = exec->next)
		if (exec->pid == 0)
			try_remove_cgroup(exec);
}

int64_t exec_check_deadlines(struct guest *guest, int64_t now_ms)
{
	int64_t next = INT64_MAX;

	for (struct exec *exec = guest->execs; exec; exec = exec->next) {
		if (exec->deadline_ms <= now_ms) {
			exec->timed_out = true;
			exec->deadline_ms = INT64_MAX;
			cgroup_kill(exec->cgroup_fd);
		}
		if (exec->deadline_ms < next)
			next = exec->deadline_ms;
	}
	return next;
}

/* ---- what is kept ---- */

/* Ended for good, nothing of it runs or writes, and nobody looks at it. */
static bool is_idle(const struct exec *exec)
{
	return exec->phase == EXEC_ENDED && exec->cgroup_fd < 0 && exec->n_handles == 0 &&
	       exec->streams[0].ended && exec->streams[1].ended;
}

void exec_collect(struct guest *guest)
{
	struct exec *exec, *next;
	unsigned int n_idle = 0;
	uint64_t kept = 0;

	remove_cgroups(guest);
	for (exec = guest->execs; exec; exec = next) {
		next = exec->next;
		if (exec->phase == EXEC_FAILED && exec->pid == 0 && exec->n_handles == 0) {
			exec_free(exec);
		} else if (exec->is_file) {
			if (is_idle(exec))
				exec_free(exec);
		} else if (is_idle(exec)) {
			n_idle++;
			kept += capture_kept(&exec->streams[0].log) +
				capture_kept(&exec->streams[1].log);
		}
	}
	for (exec = guest->execs; exec; exec = next) {
		next = exec->next;
		if (n_idle <= PROTO_EXECS_KEPT_MAX && kept <= guest->log_budget)
			break;
		if (exec->is_file || !is_idle(exec))
			continue;
		n_idle--;
		kept -= capture_kept(&exec->streams[0].log) + capture_kept(&exec->streams[1].log);
		exec_free(exec);
	}
}
