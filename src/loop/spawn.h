/*
 * Starting processes: argv only (never a shell), exact descriptors, pidfds.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

struct spawn_spec {
	const char *const *argv; /* argv[0] is the program: a path, or searched on our PATH */
	const char *const *envp; /* NULL: inherit */
	const char *cwd;	 /* NULL: inherit */
	int stdin_fd;		 /* -1: /dev/null */
	int stdout_fd;		 /* -1: /dev/null */
	int stderr_fd;		 /* -1: inherit */
	const int *keep_fds;	 /* further ones (from 3) kept at their own numbers, no CLOEXEC */
	size_t n_keep_fds;
	bool new_session;	 /* setsid() */
	int parent_death_signal; /* 0: none; sent when the thread that called spawn() ends */
};

#define SPAWN_SPEC_INIT ((struct spawn_spec){ .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1 })

struct child {
	pid_t pid;
	int pidfd;
};

/* Starts the program. Signals are reset to their defaults and the mask is cleared; every other
 * descriptor is closed. A program that cannot be executed is reported here (errno from execve), not
 * by the child's exit. The caller owns ret->pidfd and must reap with child_wait. */
int spawn(const struct spawn_spec *spec, struct child *ret, struct err *err);

/* Waits until the deadline for the child's end. ret_status is that of waitpid(2). 0, -ETIMEDOUT, or
 * -ECHILD. The pidfd stays open. */
int child_wait(const struct child *child, int64_t deadline_boottime_ms, int *ret_status);
/* SIGKILL by pidfd, wait, close. A cleared child is fine. */
void child_kill(struct child *child);

/* Called for each complete line (without newline, cut at 4096 bytes) of the program's output. */
typedef void (*spawn_line_fn)(void *arg, const char *line);

/* Runs a program to its end, with the descriptors of spec but stderr. stdout is appended to out
 * (capped at out_max bytes, the rest is read and dropped); where out is NULL it is that of spec.
 * stderr goes line by line to line_fn, or, when it is NULL, its last lines go into err when the
 * program fails. -ETIMEDOUT (program killed, with its whole process group where spec asks for a new
 * session) at the deadline, -EIO with the status in err when it ends with anything but exit code
 * 0. */
int spawn_run(const struct spawn_spec *spec, int64_t deadline_boottime_ms, struct buf *out,
	      size_t out_max, spawn_line_fn line_fn, void *line_arg, struct err *err);
