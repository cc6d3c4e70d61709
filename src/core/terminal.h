/*
 * Terminals of sandboxes: shells in a PTY that outlive whoever looks at them.
 *
 * A terminal is an exec of the guest (exec_view.h) with a PTY in place of pipes, and so has what
 * every exec has: a log with absolute offsets, credit, back-pressure, a view that outlives breaks
 * of the channel, a restart of the daemon, and pauses. One viewer at a time: whoever joins takes
 * the place of the one before, so that no forgotten connection holds the shell up and its size is
 * nobody's guess.
 */
#pragma once

#include "core/core.h"

#define CORE_TERMINAL_SIZE_MAX 4096 /* columns or rows */
#define CORE_TERMINAL_TERM_MAX 64
#define CORE_TERMINAL_COLS     80 /* of one that is opened without a size */
#define CORE_TERMINAL_ROWS     24

struct core_terminal; /* a viewer */

struct core_terminal_request {
	const char *terminal_id; /* join this one; NULL: open one */
	bool has_offset;
	uint64_t from_offset; /* of the next byte of output to be seen */
	uint32_t cols, rows;  /* 0: 80 and 24, or as it is */
	/* of a new one; NULL: login shell, sandbox, home, xterm-256color */
	const char *command, *user, *cwd, *term;
};

struct core_terminal_state {
	const char *terminal_id;
	bool is_new;
	uint64_t offset;       /* of the first byte of output that will come */
	uint64_t output_bytes; /* that there are so far */
	uint64_t input_bytes;  /* that it has been given so far, by whomever */
};

/* Loop's thread. */
struct core_terminal_sink {
	void (*ready)(void *arg, const struct core_terminal_state *state);
	void (*data)(void *arg, const void *data, size_t len);
	void (*gap)(void *arg, uint64_t from, uint64_t to); /* no longer kept */
	void (*room)(void *arg);			    /* for more input, maybe */
	void (*paused)(void *arg, bool paused);
	/* The last call. result: the command has ended, and all of its output was delivered. Codes
	 * of err: "terminal_taken_over", "terminal_not_found", "terminal_limit", "agent_gone", and
	 * as of commands. */
	void (*ended)(void *arg, const struct core_exec_result *result, const struct err *err);
};

bool core_terminal_id_valid(const char *id);

/* [worker] Output comes against credit, of which there is none at first. *ret is set before the
 * first call of the sink, which may be before this has returned. A paused sandbox is resumed. */
int core_terminal_open(struct core *core, const struct principal *who, const char *sandbox_id,
		       const struct core_terminal_request *req,
		       const struct core_terminal_sink *sink, void *arg, struct core_terminal **ret,
		       struct err *err);

/* Loop's thread, after `ready` and before `ended` or core_terminal_close. */
void core_terminal_credit(struct core_terminal *terminal, uint64_t bytes);
/* Takes what there is room for; the rest is the caller's to offer again after `room`. Input for a
 * paused sandbox resumes it. */
size_t core_terminal_input(struct core_terminal *terminal, const void *data, size_t len);
void core_terminal_resize(struct core_terminal *terminal, uint32_t cols, uint32_t rows);

/* Loop's thread. Leaves, and frees; the terminal goes on. Also after `ended`. NULL is fine. */
void core_terminal_close(struct core_terminal *terminal);

struct core_terminal_info {
	char terminal_id[EXEC_ID_SIZE];
	int64_t created_unix_ms;
	uint64_t output_bytes;
	uint32_t cols, rows;
	bool busy;     /* runs something else than a shell that waits at its prompt */
	bool attached; /* somebody looks at it */
};
/* [worker] Those that are open, oldest first; the caller frees *ret. */
int core_terminal_list(struct core *core, const struct principal *who, const char *sandbox_id,
		       struct core_terminal_info **ret, size_t *ret_n, struct err *err);
/* [worker] Kills everything that runs in it. "terminal_not_found". */
int core_terminal_end(struct core *core, const struct principal *who, const char *sandbox_id,
		      const char *terminal_id, struct err *err);
