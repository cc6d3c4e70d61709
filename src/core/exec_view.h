/*
 * A view: one consumer of one command in a sandbox, which outlives breaks of the channel.
 *
 * It wraps a handle of the agent. When the channel breaks, the view stays, and attaches again where
 * it was as soon as there is a new channel; when the sandbox ends, it ends with the sandbox's
 * reason. The view that started a command (its owner) remains as a keeper when its consumer leaves:
 * it carries the command's input and tells how many commands run.
 *
 * Everything here belongs to the loop's thread.
 */
#pragma once

#include "core/internal.h"

/* Any member may be NULL. After `ended` nothing more comes and the view is gone: it frees itself.
 * Each callback may detach the view. */
struct exec_view_events {
	void (*started)(void *arg); /* it runs, or was found; totals are set */
	void (*data)(void *arg, int stream, uint64_t offset, const void *data, size_t len);
	void (*gap)(void *arg, int stream, uint64_t from, uint64_t to);
	void (*exited)(void *arg, const struct agent_exit *exit);
	void (*ended)(void *arg, const struct err *err);
	void (*input_moved)(
		void *arg); /* the command has taken some, or there is a channel again */
	/* The sandbox is paused: time stands still for the command. It may still be detached. */
	void (*suspended)(void *arg);
	void (*resumed)(void *arg);
};

struct exec_view_stream {
	bool following;
	uint64_t next;	 /* offset of the next byte to come */
	uint64_t credit; /* bytes that may still come */
	uint64_t total;	 /* as far as it is known */
};

struct exec_input {
	bool open; /* the command's stdin is a pipe that was not closed */
	bool close_after;
	struct buf queue; /* from offset base: not yet taken by the command, as far as is known */
	uint64_t base;
	uint64_t sent; /* offset up to which it was sent on this channel */
	uint64_t window;
	bool close_sent;
};

struct exec_view {
	struct sandbox *sandbox;	/* a reference */
	struct exec_view *next, **link; /* in sandbox->views */
	char exec_id[EXEC_ID_SIZE];
	struct agent_exec *handle;	       /* NULL while there is no channel */
	const struct exec_view_events *events; /* NULL: a keeper */
	void *arg;
	bool owner;
	bool terminal; /* of a terminal: alone it keeps no sandbox awake (terminal.c) */
	bool backpressure;
	bool found; /* STARTED or STATE came once */
	bool ran_when_found;
	char *command; /* until it has been told that it runs; NULL: it was not started here */
	bool end_due;  /* it was told, or seen, that it runs, and its end is to be told */
	bool exited;
	struct agent_exit exit;
	struct exec_view_stream streams[2];
	struct exec_input input;
	struct loop_timer *answer_timer; /* the agent's first answer must come in time */
	bool suspended;
	int64_t suspended_boottime_ms;
	int64_t began_boottime_ms;
	uint64_t state_duration_ms; /* as the agent said when it was found */
};

static inline int stream_index(int stream)
{
	return stream == PROTO_STDERR;
}

/* Starts a command on the sandbox's channel, which must be there. */
struct exec_view *exec_view_start(struct sandbox *sb, const struct agent_exec_spec *spec,
				  const struct exec_view_events *events, void *arg);
/* Looks at a command by its id; follow streams in `started`. */
struct exec_view *exec_view_attach(struct sandbox *sb, const char *exec_id, bool owner,
				   const struct exec_view_events *events, void *arg);
/* Another consumer takes the place of the one there may be, for whom it ends because of why, and
 * begins as if it had just attached. */
void exec_view_take(struct exec_view *view, const struct exec_view_events *events, void *arg,
		    const struct err *why);
/* From the offset on, with this credit, which replaces what there was. */
void exec_view_follow(struct exec_view *view, int stream, uint64_t offset, uint64_t credit);
void exec_view_credit(struct exec_view *view, int stream, uint64_t bytes);
/* The consumer leaves: the view becomes a keeper, for which the command is not held back, or goes
 * away. NULL is fine. */
void exec_view_detach(struct exec_view *view);
int64_t exec_view_duration_ms(const struct exec_view *view);

/* Queues input of the owner; "input_closed", "input_full". */
int exec_view_input(struct exec_view *view, const void *data, size_t len, bool close_after,
		    size_t queue_max, struct err *err);

/* The one that keeps this command, or NULL. */
struct exec_view *exec_view_owner(struct sandbox *sb, const char *exec_id);
size_t exec_views_running(const struct sandbox *sb); /* without terminals */

/* connect.c: the sandbox is paused: views stay without their timers until they attach again. */
void exec_views_suspend(struct sandbox *sb);
/* connect.c: a channel was made, or cannot be made (now), or never will again. */
void exec_views_reattach(struct sandbox *sb);
void exec_views_end(struct sandbox *sb, const struct err *err);
