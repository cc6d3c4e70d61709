/* Between exec.c (requests), exec_collect.c (calls that answer once) and stream.c (live views). */
#pragma once

#include "core/exec_view.h"

/* A checked request and what it copies of it: the caller's memory is not needed any more once it
 * runs. */
struct exec_start {
	struct sandbox *sandbox; /* borrowed */
	const struct core_exec_request *req;
	char exec_id[EXEC_ID_SIZE];
	char *command;
	int64_t timeout_ms;
	uint64_t stdout_credit, stderr_credit;
	bool backpressure;
	bool confined; /* not as root: its id says so */
	const struct exec_view_events *events;
	void *arg;

	struct exec_view *view; /* result */
	struct err err;		/* result: num 0 or why it was not started */
};

int exec_check(const struct core *core, const struct principal *who,
	       const struct core_exec_request *req, struct exec_start *ret, struct err *err);
void exec_start_clear(struct exec_start *start);
/* Loop's thread. Sets view or err (-EPIPE: no channel, connect and try again). */
void exec_start_now(struct exec_start *start);

/* [worker] Runs fn(arg) on the loop's thread once the sandbox has a channel; fn returns false when
 * it finds none. */
typedef bool (*with_channel_fn)(void *arg);
int exec_with_channel(struct sandbox *sb, with_channel_fn fn, void *arg, struct err *err);

/* "output would be this much": 0 gives the default; "invalid_argument" beyond the limit. */
int exec_check_output_max(const struct core *core, uint64_t max, uint64_t *ret_max,
			  struct err *err);
bool exec_id_valid(const char *id);
/* Ids of commands and terminals that were started by keys that may not be root are shorter by a
 * digit. So it is known, by everybody and for as long as the command lives, and by no means of the
 * guest's, to which commands such a key may speak. */
#define EXEC_ID_HEX	     16
#define EXEC_ID_CONFINED_HEX 15
/* "scope_denied" for a command or terminal that may be root's. */
int exec_authorize(const struct principal *who, const char *id, struct err *err);
/* [worker] Signals a command or a terminal. */
int exec_signal_any(struct core *core, const struct principal *who, const char *sandbox_id,
		    const char *id, int signal, struct err *err);
int exec_not_found(const char *exec_id, struct err *err);

/* What an exit is for callers: 128 + signal, 124 for a timeout. */
int exec_exit_code(const struct agent_exit *exit);
void exec_result_from_exit(struct core_exec_result *result, const struct agent_exit *exit);

/* Milliseconds after a command's own deadline at which an agent that said nothing is given up. */
#define EXEC_BACKSTOP_MS 10000
