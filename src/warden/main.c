/*
 * skerry-warden: runs one VMM in its jail, until its deadline.
 *
 * It is started by skerryd and does not need it afterwards: it holds the deadline on
 * CLOCK_BOOTTIME, kills the VMM when it comes, and leaves a fsynced record of start and exit that
 * bills and reasons are made from. The VMM dies with it (PR_SET_PDEATHSIG), so a warden that is
 * gone means a VM that is gone.
 *
 * Where it was told to freeze (--freeze-by-qmp), the deadline does not kill: the VMM is stopped and
 * stays so, for any time, until somebody extends, saves or ends it. See enum phase.
 *
 * One thread, one poll loop over the VMM's pidfd, the deadline's timer, the console's pipe, the
 * control socket and SIGTERM. Nothing in it waits for the guest, the VMM or a peer. Order at the
 * exit: the VMM is reaped, its control group removed, console.log written, the exit recorded, and
 * only then does the warden end; so who sees its pidfd readable finds all that done.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "warden/cgroup.h"
#include "warden/console.h"
#include "warden/control.h"
#include "warden/jail.h"
#include "warden/options.h"
#include "warden/pauser.h"
#include "warden/record.h"

/* The console is read this often at most: a guest that floods it fills the pipe, and then waits,
 * instead of waking the warden for every byte. */
#define CONSOLE_PAUSE_MS      20
#define CONSOLE_READ_SIZE     (16u * 1024u)
#define CONSOLE_BURST_READS   4u
#define CGROUP_REMOVE_WAIT_MS 2000
/* QEMU has that long to stop its guest at the deadline, before it is stopped itself. */
#define STOP_WAIT_MS	500
#define THAWED_MAX_MS	60000
#define RECORD_RETRY_MS 1000

/*
 * What the timer stands for:
 *   RUNNING   the deadline. Then STOPPING, or the end
 *   STOPPING  QEMU was asked to stop its guest and has STOP_WAIT_MS. Then FROZEN
 *   FROZEN    the VMM has SIGSTOP. The timer runs only where that could not be recorded yet
 *   THAWED    by `thaw`: somebody has stopped the guest and saves it, which takes a VMM that runs,
 *             and has THAWED_MAX_MS to end or extend it, whatever the deadline. Then FROZEN
 * `extend` leads from each to RUNNING.
 */
enum phase { PHASE_RUNNING, PHASE_STOPPING, PHASE_FROZEN, PHASE_THAWED };

struct warden {
	struct options options;
	struct jail jail;
	struct cgroup cgroup;
	struct control control;
	struct console console;
	struct record record;
	char *record_path;
	char *control_path;
	char *console_path;

	int timer_fd;
	int signal_fd;
	enum phase phase;
	struct pauser pauser;
	bool sealed;
	bool ending;		 /* record.cause says why */
	int64_t console_next_ms; /* not read before */
};

/* ---- deadline and end ---- */

/* 0 switches it off. */
static int set_timer(struct warden *w, int64_t boottime_ms)
{
	const struct itimerspec when = {
		.it_value = { .tv_sec = boottime_ms / 1000,
			      .tv_nsec = boottime_ms % 1000 * 1000000 },
	};

	return timerfd_settime(w->timer_fd, TFD_TIMER_ABSTIME, &when, NULL) < 0 ? -errno : 0;
}

/* The first reason stays. */
static void end(struct warden *w, enum record_cause cause, const char *reason)
{
	if (w->ending)
		return;
	w->ending = true;
	w->record.cause = cause;
	str_copy(w->record.reason, sizeof(w->record.reason), reason);
	jail_kill(&w->jail);
}

/* Without a line in the record the time since would be billed: tried again where the disk is full.
 */
static void record_frozen(struct warden *w)
{
	struct record *record = &w->record;
	int r = record_append_frozen(w->record_path, record->frozen_boottime_ms,
				     record->frozen_unix_ms);

	record->frozen = r == 0;
	set_timer(w, r == 0 ? 0 : clock_boottime_ms() + RECORD_RETRY_MS);
}

static void freeze(struct warden *w)
{
	jail_freeze(&w->jail);
	pauser_drop(&w->pauser);
	w->phase = PHASE_FROZEN;
	if (!w->record.frozen_boottime_ms) { /* else it has stood still since then */
		w->record.frozen_boottime_ms = clock_boottime_ms();
		w->record.frozen_unix_ms = clock_unix_ms();
	}
	if (w->record.frozen)
		set_timer(w, 0);
	else
		record_frozen(w);
}

/* A guest that is not sealed yet is not up: nothing of it is worth keeping. */
static void expire(struct warden *w)
{
	if (!w->options.freeze_by_qmp || !w->sealed) {
		end(w, RECORD_EXPIRED, "expired");
		return;
	}
	w->phase = PHASE_STOPPING;
	if (pauser_ask_stop(&w->pauser, w->options.freeze_by_qmp) < 0)
		freeze(w);
	else
		set_timer(w, clock_boottime_ms() + STOP_WAIT_MS);
}

/* Also called before a command is obeyed, as the timer may not have been looked at yet. */
static void check_deadline(struct warden *w)
{
	if (!w->ending && w->phase == PHASE_RUNNING &&
	    clock_boottime_ms() >= w->record.expires_boottime_ms)
		expire(w);
}

static void on_timer(struct warden *w)
{
	uint64_t expirations;

	if (read(w->timer_fd, &expirations, sizeof(expirations)) < 0 || w->ending)
		return;
	if (w->phase == PHASE_RUNNING)
		check_deadline(w);
	else if (w->phase == PHASE_FROZEN)
		record_frozen(w);
	else
		freeze(w);
}

static void on_pauser(struct warden *w)
{
	if (!pauser_read(&w->pauser))
		return;
	if (w->phase == PHASE_STOPPING)
		freeze(w);
	else
		pauser_drop(&w->pauser);
}

/* The guest goes on where it was stopped. Should QEMU not be reachable, it is its own end that
 * tells. */
static void go_on(struct warden *w)
{
	bool stopped = w->phase != PHASE_RUNNING;

	w->phase = PHASE_RUNNING;
	w->record.frozen = false;
	w->record.frozen_boottime_ms = 0;
	if (!stopped)
		return;
	jail_thaw(&w->jail);
	pauser_ask_continue(&w->pauser, w->options.freeze_by_qmp);
}

/* ---- commands of the control socket ---- */

static void refuse(struct buf *out, int num, const char *sentence)
{
	buf_printf(out, "error %s %s\n", strerrorname_np(-num) ?: "EIO", sentence);
}

static void command_seal(struct warden *w, struct buf *out)
{
	struct err err = ERR_INIT;
	int r = 0;

	if (w->sealed) {
		buf_append_str(out, "ok\n");
		return;
	}
	r = jail_seal(&w->jail, &w->options, &err);
	/* Only now: starting and restoring are ours and may take what they need; the guest is not.
	 */
	if (r == 0 && w->options.cpu_quota_percent > 0)
		r = cgroup_limit_cpu(&w->cgroup, w->options.cpu_quota_percent, &err);
	if (r < 0) {
		refuse(out, r, err.message);
		return;
	}
	w->sealed = true;
	buf_append_str(out, "ok\n");
}

/* The line is on disk before the timer moves: should the host crash in between, the record allows
 * more time than was given, never less than was promised. */
static void command_extend(struct warden *w, const char *arg, struct buf *out)
{
	int64_t expires_ms;
	int r;

	if (str_to_i64(arg, &expires_ms) < 0 || expires_ms < 1 ||
	    expires_ms > INT64_MAX / 1000000) {
		refuse(out, -EINVAL, "the deadline is not a time");
		return;
	}
	check_deadline(w);
	if (w->ending) {
		refuse(out, -ESRCH,
		       w->record.cause == RECORD_EXPIRED ? "the deadline has passed"
							 : "the machine is being ended");
		return;
	}
	r = record_append_deadline(w->record_path, expires_ms);
	if (r == 0)
		r = set_timer(w, expires_ms);
	if (r < 0) {
		refuse(out, r, "the deadline could not be recorded");
		return;
	}
	w->record.expires_boottime_ms = expires_ms;
	go_on(w);
	buf_append_str(out, "ok\n");
}

/* Not recorded: nothing has changed that a bill or a reader of the record would want to know, as
 * the guest stays stopped. */
static void command_thaw(struct warden *w, struct buf *out)
{
	if (w->ending) {
		refuse(out, -ESRCH, "the machine is being ended");
		return;
	}
	if (w->options.freeze_by_qmp && w->sealed) {
		pauser_drop(&w->pauser);
		jail_thaw(&w->jail);
		w->phase = PHASE_THAWED;
		set_timer(w, clock_boottime_ms() + THAWED_MAX_MS);
	}
	buf_append_str(out, "ok\n");
}

static void command_end(struct warden *w, const char *word, struct buf *out)
{
	if (!*word || strlen(word) >= sizeof(w->record.reason)) {
		refuse(out, -EINVAL, "the reason must be a word of 1 to 63 characters");
		return;
	}
	end(w, RECORD_ENDED, word);
	buf_append_str(out, "ok\n");
}

static void command_console(struct warden *w, struct buf *out)
{
	char text[CONSOLE_SIZE];
	size_t len = console_copy(&w->console, text);

	buf_printf(out, "ok %zu\n", len);
	buf_append(out, text, len);
}

static void handle_command(void *arg, const char *line, struct buf *out)
{
	struct warden *w = arg;

	if (str_eq(line, "seal"))
		command_seal(w, out);
	else if (str_starts(line, "extend "))
		command_extend(w, line + strlen("extend "), out);
	else if (str_eq(line, "thaw"))
		command_thaw(w, out);
	else if (str_starts(line, "end "))
		command_end(w, line + strlen("end "), out);
	else if (str_eq(line, "console"))
		command_console(w, out);
	else
		refuse(out, -EINVAL, "no such command");
}

/* ---- console ---- */

static bool console_open(const struct warden *w)
{
	return w->options.console_fd >= 0;
}

/* Milliseconds until the console may be read again; 0: now. */
static int console_rest_ms(const struct warden *w)
{
	return console_open(w) ? clock_remaining_ms(w->console_next_ms) : 0;
}

/* Returns false when there is nothing more for now. */
static bool read_console(struct warden *w)
{
	char text[CONSOLE_READ_SIZE];
	ssize_t n = read(w->options.console_fd, text, sizeof(text));

	if (n > 0) {
		console_append(&w->console, text, (size_t)n);
		return true;
	}
	if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		close(w->options.console_fd);
		w->options.console_fd = -1;
	}
	return false;
}

/* At most what the pipe held. */
static void read_console_burst(struct warden *w)
{
	for (size_t i = 0; i < CONSOLE_BURST_READS && console_open(w) && read_console(w); i++)
		;
	w->console_next_ms = clock_boottime_ms() + CONSOLE_PAUSE_MS;
}

static void write_console_log(struct warden *w)
{
	char text[CONSOLE_SIZE];
	size_t len = console_copy(&w->console, text);
	_cleanup_close_ int fd =
		open(w->console_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	/* Without room for it the record's own sentence has to do. */
	if (fd >= 0)
		fd_write_all(fd, text, len);
}

/* ---- supervision ---- */

/* A VMM that was killed has no words of its own. */
static void tell_signal(struct record *record, bool out_of_memory)
{
	char last[128];

	str_copy(last, sizeof(last), record->detail);
	snprintf(record->detail, sizeof(record->detail), "the VMM was ended by signal %d%s%s%s",
		 WTERMSIG(record->vmm_status),
		 out_of_memory ? ", its memory limit was reached" : "",
		 *last ? "; last words: " : "", last);
}

/* What the VMM's end by itself means. */
static void find_cause(struct warden *w)
{
	struct record *record = &w->record;
	enum console_verdict verdict;

	if (w->ending)
		return;
	verdict = console_read(&w->console, record->detail, sizeof(record->detail));
	if (!w->sealed)
		record->cause = RECORD_START_FAILED;
	else if (verdict == CONSOLE_OUT_OF_MEMORY)
		record->cause = RECORD_GUEST_OOM;
	else if (verdict == CONSOLE_PANIC)
		record->cause = RECORD_GUEST_PANIC;
	else if (WIFEXITED(record->vmm_status) && WEXITSTATUS(record->vmm_status) == 0)
		record->cause = RECORD_GUEST_OFF;
	else
		record->cause = RECORD_VMM_CRASHED;
	if (verdict == CONSOLE_QUIET && WIFSIGNALED(record->vmm_status))
		tell_signal(record, cgroup_oom_kills(&w->cgroup) > 0);
}

static void supervise(struct warden *w)
{
	enum {
		VMM,
		TIMER,
		SIGNAL,
		CONSOLE,
		PAUSER,
		CONTROL,
		POLLS = CONTROL + CONTROL_PEERS_MAX + 1
	};
	struct pollfd polls[POLLS];

	for (;;) {
		int rest_ms = console_rest_ms(w);

		polls[VMM] = (struct pollfd){ .fd = w->jail.pidfd, .events = POLLIN };
		polls[TIMER] =
			(struct pollfd){ .fd = w->ending ? -1 : w->timer_fd, .events = POLLIN };
		polls[SIGNAL] = (struct pollfd){ .fd = w->signal_fd, .events = POLLIN };
		polls[CONSOLE] = (struct pollfd){
			.fd = rest_ms ? -1 : w->options.console_fd,
			.events = POLLIN,
		};
		polls[PAUSER] = (struct pollfd){ .fd = w->pauser.fd, .events = POLLIN };
		control_poll(&w->control, polls + CONTROL);
		if (poll(polls, POLLS, rest_ms ? rest_ms : -1) < 0)
			continue; /* EINTR; there is nothing to be done about anything else */
		if (polls[VMM].revents)
			return;
		if (polls[CONSOLE].revents)
			read_console_burst(w);
		if (polls[PAUSER].revents)
			on_pauser(w);
		if (polls[TIMER].revents)
			on_timer(w);
		if (polls[SIGNAL].revents) {
			struct signalfd_siginfo info;

			if (read(w->signal_fd, &info, sizeof(info)) > 0)
				end(w, RECORD_ENDED, "warden_terminated");
		}
		control_dispatch(&w->control, polls + CONTROL, handle_command, w);
	}
}

static void finish(struct warden *w)
{
	while (waitpid(w->jail.pid, &w->record.vmm_status, 0) < 0 && errno == EINTR)
		;
	w->record.exit_boottime_ms = clock_boottime_ms();
	w->record.exit_unix_ms = clock_unix_ms();
	while (console_open(w) && read_console(w))
		;
	find_cause(w);
	cgroup_remove(&w->cgroup, CGROUP_REMOVE_WAIT_MS, NULL);
	write_console_log(w);
	unlink(w->control_path);
	record_append_exit(w->record_path, &w->record);
}

/* ---- start ---- */

static int prepare_signals(struct warden *w)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigdelset(&set,
		  SIGHUP); /* of a terminal that is none of ours: ignored by never being read */
	w->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return w->signal_fd < 0 ? -errno : 0;
}

/* The deadline must hold when the host is short of memory. */
static void hide_from_oom_killer(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		fd_write_all(fd, "-900", 4);
		close(fd);
	}
}

static int write_start(struct warden *w, struct err *err)
{
	struct record *record = &w->record;
	int r = clock_boot_id(record->boot_id);

	record->warden_pid = getpid();
	record->vmm_pid = w->jail.pid;
	record->expires_boottime_ms = w->options.expires_boottime_ms;
	if (r == 0)
		r = record_process_start(record->warden_pid, &record->warden_start_ticks);
	if (r == 0)
		r = record_process_start(record->vmm_pid, &record->vmm_start_ticks);
	record->start_boottime_ms = clock_boottime_ms();
	record->start_unix_ms = clock_unix_ms();
	if (r == 0)
		r = record_append_start(w->record_path, record);
	if (r == 0)
		r = set_timer(w, record->expires_boottime_ms);
	return r < 0 ? err_set(err, r, "cannot record the start in '%s': %s", w->record_path,
			       strerrordesc_np(-r))
		     : 0;
}

static int make_group(struct warden *w, struct err *err)
{
	int r = cgroup_create(&w->cgroup, err);

	if (r == 0)
		r = cgroup_limit_memory(&w->cgroup, w->options.memory_max, err);
	if (r == 0)
		r = cgroup_limit_pids(&w->cgroup, w->options.pids_max, err);
	return r;
}

/* Up to the point where the VMM executes: it is in its control group, and its start is on disk. */
static int start(struct warden *w, struct err *err)
{
	int r = cgroup_find(w->options.cgroup_parent, w->options.name, &w->cgroup, err);

	if (r == 0)
		r = control_open(&w->control, w->control_path, err);
	if (r == 0)
		r = jail_start(&w->options, &w->jail, err);
	if (r == 0)
		r = make_group(w, err);
	if (r == 0)
		r = cgroup_add(&w->cgroup, w->jail.pid, err);
	if (r == 0)
		r = write_start(w, err);
	if (r == 0)
		r = jail_go(&w->jail, err);
	return r;
}

/* Only the VMM holds the console's write end, its sockets and files from here on: their end shows
 * its own. */
static void let_go_of_descriptors(struct warden *w)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null >= 0) {
		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		close(null);
	}
	for (size_t i = 0; i < w->options.n_keep_fds; i++)
		close(w->options.keep_fds[i]);
}

static bool report(int fd, const char *text)
{
	bool told = fd_write_all(fd, text, strlen(text)) == 0;

	close(fd);
	return told;
}

static int run(struct warden *w)
{
	struct err err = ERR_INIT;
	char text[sizeof(err.message) + 2];
	int r;

	hide_from_oom_killer();
	r = prepare_signals(w);
	w->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (r < 0 || w->timer_fd < 0)
		r = err_set(&err, -errno, "cannot make the timer: %s", strerrordesc_np(errno));
	if (r == 0)
		r = start(w, &err);
	let_go_of_descriptors(w);
	fd_set_nonblock(w->options.console_fd, true);
	if (r < 0) {
		snprintf(text, sizeof(text), "%s\n", err.message);
		console_append(&w->console, text, strlen(text));
		if (w->jail.pidfd >= 0)
			jail_kill(&w->jail);
	} else if (!report(w->options.status_fd, "ok\n")) {
		/* Whoever asked for this VM is gone and does not know that it stands. */
		end(w, RECORD_ENDED, "start_abandoned");
	}
	if (w->jail.pidfd >= 0) {
		supervise(w);
		finish(w);
	}
	if (r < 0) {
		cgroup_remove(&w->cgroup, CGROUP_REMOVE_WAIT_MS, NULL);
		report(w->options.status_fd, text);
	}
	return r < 0 ? 1 : 0;
}

int main(int argc, char *argv[])
{
	struct warden *w = xcalloc(1, sizeof(*w));
	struct err err = ERR_INIT;

	umask(077);
	if (argc == 2 && str_eq(argv[1], "--help")) {
		fputs(options_usage(), stdout);
		return 0;
	}
	if (options_parse(argc, argv, &w->options, &err) < 0) {
		fprintf(stderr, "skerry-warden: %s\n", err.message);
		return 2;
	}
	w->jail = JAIL_INIT;
	w->pauser.fd = -1;
	w->record_path = xasprintf("%s/record", w->options.run_dir);
	w->control_path = xasprintf("%s/warden.sock", w->options.run_dir);
	w->console_path = xasprintf("%s/console.log", w->options.run_dir);
	prctl(PR_SET_NAME, "skerry-warden", 0, 0, 0);
	return run(w);
}
