/*
 * Commands: start, deadline, end, and what is kept of them afterwards.
 *
 * An exec goes STARTING -> RUNNING -> ENDING -> ENDED. STARTING: the child has been cloned into its
 * cgroup and reports over a pipe why it cannot run, or nothing. RUNNING: execve worked. ENDING: the
 * command's own process has ended, and what its pipes held at that moment is still being logged.
 * ENDED: the result stands. Background children may still run and write; the pipes stay open and
 * the cgroup stays until the last of them is gone.
 *
 * STARTING -> FAILED: it never ran; the exec is freed as soon as the session was told.
 *
 * A file operation is an exec too, with a child of our own code instead of a shell (exec_child.c).
 * Its output is not logged but handed through (output.h), so that it lives and dies with the handle
 * that started it: exec_abandon.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "guest/input.h"
#include "guest/output.h"
#include "guest/poller.h"
#include "guest/terminal.h"
#include "proto/frame.h"

struct guest;

enum exec_phase { EXEC_STARTING, EXEC_RUNNING, EXEC_ENDING, EXEC_ENDED, EXEC_FAILED };

/* A failure in words; what the child writes into its status pipe. */
struct exec_failure {
	uint32_t reason; /* enum proto_failure */
	char message[508];
};

/* An EXEC or FILE frame, taken apart. Owns its strings. */
struct exec_request {
	char *exec_id, *user, *cwd, *command; /* user and cwd may be "" */
	uint64_t timeout_ms, log_cap;
	bool tty; /* in a terminal, unless so many are open; an empty command is a login shell */
	struct terminal_size size;
	uint32_t terminals_max;
	bool with_stdin;
	bool confined; /* not as root, and with no way to become it */
	char **env;    /* NULL-terminated */
	/* FILE: what to do; then there are no cwd, command, env, log and timeout. */
	bool is_file;
	struct buf file;
};

struct exec {
	struct guest *guest;
	struct exec *next, *prev; /* guest->execs, oldest first */
	char id[PROTO_EXEC_ID_MAX + 1];
	enum exec_phase phase;
	pid_t pid;
	struct watch status; /* the child's report; closed by execve */
	struct exec_failure failure;
	int cgroup_fd; /* -1 once the group is removed */
	struct output streams[2];
	bool with_stdin;
	bool is_file;
	bool tty;	  /* streams[0] is its terminal, streams[1] is nothing */
	bool login_shell; /* of a terminal */
	char *shown;	  /* the command's first bytes, for lists */
	bool shown_whole;
	struct terminal_size size;
	int64_t busy_ms; /* when the terminal was last seen to run something */
	struct input input;
	int64_t started_ms, ended_ms, deadline_ms; /* CLOCK_BOOTTIME; no deadline: INT64_MAX */
	bool timed_out, out_of_memory;
	int wait_status;
	uint64_t exit_totals[2]; /* of the streams, when the end's output had been logged */
	unsigned int n_handles;	 /* of the session, that look at it */
};

/* Starts a command. NULL with failure set when it cannot even be tried; what goes wrong later shows
 * as EXEC_FAILED. */
struct exec *exec_start(struct guest *guest, const struct exec_request *request,
			struct exec_failure *failure);
struct exec *exec_find(struct guest *guest, const char *id);
/* The handle of a file operation is closed: it is told to put away what it has begun, and killed if
 * it takes too long over that. */
void exec_abandon(struct exec *exec);
struct output *exec_stream(struct exec *exec, int stream);
/* SIGKILL kills the whole cgroup; others go to the command's process group. */
void exec_signal(struct exec *exec, int signal);
uint64_t exec_duration_ms(const struct exec *exec);
/* How many run (of terminals those that are busy), and for how long that has been none. */
uint32_t exec_activity(struct guest *guest, uint64_t *ret_quiet_ms);
/* Called by output.c when a stream has logged what its pipe held at the end, or reached its end. */
void exec_output_progress(struct exec *exec);
/* Collects every child that has ended, ours and orphans. */
void exec_reap(struct guest *guest);
/* Kills what is over its deadline; returns the next deadline (INT64_MAX: none). */
int64_t exec_check_deadlines(struct guest *guest, int64_t now_ms);
/* Removes the control groups of those whose last process has ended. Frees failed execs nobody looks
 * at, and the oldest ended ones beyond what is kept. */
void exec_collect(struct guest *guest);

/* exec_list.c: writes the payload of EXECS behind its token. */
void execs_put(const struct guest *guest, struct buf *out);
/* The end as EXIT and EXECS have it; of one that has not ended, what there is. */
void exec_put_exit(const struct exec *exec, struct buf *out);

void exec_request_clear(struct exec_request *request);

/* exec_child.c: turns the cloned child into the command. Writes why not to status_fd. */
struct exec_child {
	const struct exec_request *request;
	int stdin_fd, stdout_fd, stderr_fd, status_fd; /* the first three may be one terminal */
};
void exec_child_run(const struct exec_child *child) __attribute__((noreturn));
