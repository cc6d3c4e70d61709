/*
 * One output stream of an exec: the pipe (or the terminal's master) the command writes to and the
 * log it ends up in.
 *
 * The pipe is read whenever it has something, unless a follower asked for back-pressure and the log
 * would drop bytes that it has not been sent: then the pipe is left alone (output_check) until the
 * follower has caught up or gone.
 *
 * We run before the commands, and so would wake up for each of their writes, and send a frame for
 * it: a command that prints line by line would spend most of its time on us. So an output that
 * comes in small pieces, one soon after the other, is given a rest after each, in which the pipe
 * gathers. What comes after a pause is passed on at once, and the end of the command ends the rest.
 *
 * The output of a file operation is handed through instead: it is read from the pipe when its one
 * handle has credit and the port has room (output_take), and kept nowhere. log then only counts.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guest/capture.h"
#include "guest/poller.h"

struct exec;

struct output {
	struct exec *exec;
	struct watch pipe;
	struct capture log;
	bool ended;		  /* every writer has closed */
	int64_t read_boottime_ms; /* the last time */
	int64_t rest_boottime_ms; /* the pipe is left alone until then; 0: it is not */
	bool direct;		  /* no log: handed through */
	bool readable;		  /* direct: the pipe may have something */
	bool draining;		  /* the command has ended: drain_left was in the pipe then */
	size_t drain_left;
};

/* Takes over the pipe's read end (non-blocking). */
void output_begin(struct output *o, struct exec *exec, int pipe_fd, bool direct);
/* Direct: the next bytes; 0: none now, or none any more (ended). */
size_t output_take(struct output *o, char *out, size_t max);
/* Direct: nobody will take the rest. */
void output_abandon(struct output *o);
/* The command's own process has ended: from here on, what the pipe holds now counts as its output.
 */
void output_drain(struct output *o);
bool output_drained(const struct output *o);
/* Reads on or pauses, as the followers stand and the time is now. Returns when it must be called
 * again; INT64_MAX: after the next thing that happens. */
int64_t output_check(struct output *o, int64_t now_ms);
void output_close(struct output *o);
