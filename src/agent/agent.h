/*
 * The host's end of the agent channel of one sandbox (guest_proto.h over a unix socket).
 *
 * An agent belongs to a loop; its callbacks run on the loop's thread and must not block. Functions
 * marked [worker] block the calling thread until a deadline and must not be called on the loop's
 * thread; all others must be called on the loop's thread unless they say "any thread". Everything
 * that arrives is hostile: a broken frame closes the channel (on_closed), it never harms the
 * process, and memory per channel is bounded by the credit given plus one frame.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "loop/loop.h"
#include "skerry/guest_proto.h"

struct agent;
struct agent_exec; /* one handle: a consumer of one exec in the guest */

struct agent_identity {
	bool apply;	/* hand-over: entropy, clock, hostname, machine-id, generation, before any
			   command, and before commands that a snapshot holds go on */
	uint64_t epoch; /* the sandbox's generation */
	const char *hostname;
	const char *machine_id; /* 32 lower-case hex digits */
};

struct agent_info {
	uint32_t version;
	uint32_t applied; /* PROTO_APPLIED_… */
	uint64_t epoch;
	uint64_t guest_boottime_ms;
	uint64_t mem_total_kib;
	char agent_version[32];
	char kernel_release[65];
	char os_name[128];
};

/* Called once, on the loop's thread, when the channel has broken (guest hung up, bad frame). Every
 * open exec has had its `lost` called before. The owner then calls agent_close. */
typedef void (*agent_closed_fn)(void *arg, const struct err *why);

/* [worker] Connects to the socket (which may not exist or accept yet: tried again every few ms
 * until the deadline), synchronises and waits for HELLO_ACK. When identity->apply is set and the
 * guest did not confirm all of it, it fails (-EPROTO), and commands that were frozen stay so.
 * Without, frozen commands go on: open a restored guest with an identity. on_closed may be NULL. */
int agent_open(struct loop *loop, const char *socket_path, const struct agent_identity *identity,
	       int64_t deadline_boottime_ms, agent_closed_fn on_closed, void *arg,
	       struct agent **ret, struct agent_info *ret_info, struct err *err);

/* Any thread. Closes the channel; open execs get `lost`. on_closed is not called. When it returns
 * no callback of this agent runs or will run. NULL is fine. */
void agent_close(struct agent *agent);

/* [worker] One round trip through the agent. */
int agent_ping(struct agent *agent, int64_t deadline_boottime_ms, struct err *err);

/* [worker] Holds all commands still for a snapshot, after the guest's file system was written out
 * as far as half of the time allows (processes go on meanwhile). When it fails they run
 * ("freeze_failed", "agent_timeout", "agent_gone"; after the last one they go on with the next
 * agent_open). */
int agent_freeze(struct agent *agent, int64_t deadline_boottime_ms, struct err *err);
/* [worker] Lets them go on; fine when they do. agent_open does it too, so that a copy needs none.
 */
int agent_thaw(struct agent *agent, int64_t deadline_boottime_ms, struct err *err);

struct agent_activity {
	uint32_t running; /* commands that have not ended, whoever started them */
	int64_t quiet_ms; /* of guest's time, since the last one ended; or it was booted */
};
/* [worker] What the guest says of itself. */
int agent_ask_activity(struct agent *agent, int64_t deadline_boottime_ms,
		       struct agent_activity *ret, struct err *err);

struct agent_terminal {
	char exec_id[PROTO_EXEC_ID_MAX + 1];
	uint64_t age_ms, output_bytes;
	uint32_t cols, rows;
	bool busy; /* runs something else than a shell that waits at its prompt */
};
/* [worker] The terminals that are open, whoever opened them, oldest first; *ret is the caller's to
 * free. */
int agent_list_terminals(struct agent *agent, int64_t deadline_boottime_ms,
			 struct agent_terminal **ret, size_t *ret_n, struct err *err);

struct agent_exit {
	int exit_code; /* -1 when ended by a signal */
	int signal;
	bool timed_out;
	bool out_of_memory;
	uint64_t duration_ms;
	uint64_t stdout_bytes;
	uint64_t stderr_bytes;
};

struct agent_exec_info {
	char exec_id[PROTO_EXEC_ID_MAX + 1];
	char command[PROTO_COMMAND_SHOWN_MAX + 1]; /* its first bytes */
	bool command_whole;
	bool running;
	uint64_t age_ms;
	struct agent_exit exit; /* while it runs: duration and bytes so far */
};
/* [worker] Commands that the guest knows of, whoever started them: those that run, then those that
 * have ended, newest first; *ret is the caller's to free. */
int agent_list_execs(struct agent *agent, int64_t deadline_boottime_ms,
		     struct agent_exec_info **ret, size_t *ret_n, struct err *err);

struct agent_exec_state {
	bool running;
	uint64_t stdout_bytes;
	uint64_t stderr_bytes;
	uint64_t input_offset;
	uint64_t duration_ms;
};

/* Any member may be NULL. After `failed` or `lost` nothing more comes; the handle must still be
 * freed with agent_exec_free (allowed inside every callback). stream is enum proto_stream. */
struct agent_exec_events {
	void (*started)(void *arg, uint32_t pid);
	void (*state)(void *arg, const struct agent_exec_state *state); /* answer to attach */
	void (*data)(void *arg, int stream, uint64_t offset, const void *data, size_t len);
	void (*gap)(void *arg, int stream, uint64_t from, uint64_t to);
	void (*eof)(void *arg, int stream, uint64_t total);
	void (*exited)(void *arg, const struct agent_exit *exit);
	void (*input_window)(void *arg, uint64_t may_send_up_to);
	/* err code: "cwd_not_found", "user_not_found", "not_executable", "exec_limit",
	 * "exec_exists", "exec_not_found", "guest_resources", "invalid_argument" */
	void (*failed)(void *arg, const struct err *err);
	void (*lost)(void *arg, const struct err *err); /* code "agent_gone" */
};

/* A terminal: output comes as stdout, stdin is open, an empty command is a login shell. */
struct agent_tty {
	uint32_t cols, rows; /* 1 … PROTO_TTY_SIZE_MAX */
	uint32_t max;	     /* "exec_limit" when so many are open already */
};

struct agent_exec_spec {
	const char *exec_id;
	const char *command;	/* at most PROTO_COMMAND_MAX bytes, no NUL */
	const char *cwd;	/* NULL: the user's home */
	const char *user;	/* NULL: "sandbox" */
	const char *const *env; /* "K=V", NULL-terminated; may be NULL */
	uint64_t timeout_ms;	/* 0: none */
	uint64_t log_cap_bytes; /* 0: PROTO_LOG_CAP_DEFAULT */
	bool stdin_open;
	bool backpressure;
	bool confined;		/* not as root, and with no way to become it */
	uint64_t stdout_credit; /* bytes that may come from offset 0 at once */
	uint64_t stderr_credit;
	const struct agent_tty *tty; /* NULL: none */
};

/*
 * A handle on a new or a known exec; never NULL. What goes wrong at once (the channel is broken,
 * the request is too large, PROTO_HANDLES_MAX handles are open) comes as `failed` or `lost` from
 * the loop, after these have returned.
 */
struct agent_exec *agent_exec_start(struct agent *agent, const struct agent_exec_spec *spec,
				    const struct agent_exec_events *events, void *arg);
struct agent_exec *agent_exec_attach(struct agent *agent, const char *exec_id,
				     const struct agent_exec_events *events, void *arg);

/* An operation on files (proto/file.h). Its output comes from offset 0 and cannot be followed anew:
 * it ends with the handle, or the channel. */
struct agent_file_spec {
	const char *exec_id;
	const char *user;    /* NULL: "sandbox" */
	const void *request; /* encoded */
	size_t request_len;  /* at most PROTO_FILE_REQUEST_MAX */
	bool stdin_open;
	bool confined;
	uint64_t stdout_credit, stderr_credit;
};
struct agent_exec *agent_file_start(struct agent *agent, const struct agent_file_spec *spec,
				    const struct agent_exec_events *events, void *arg);

/* Begins (again) to read a stream at offset. What an earlier position still had under way is not
 * delivered. */
void agent_exec_follow(struct agent_exec *exec, int stream, uint64_t offset, uint64_t credit,
		       bool backpressure);
void agent_exec_credit(struct agent_exec *exec, int stream, uint64_t bytes);
/* Queues input; the caller keeps within the window that input_window announced. Any length. */
void agent_exec_input(struct agent_exec *exec, uint64_t offset, const void *data, size_t len);
void agent_exec_input_close(struct agent_exec *exec);
void agent_exec_resize(struct agent_exec *exec, uint32_t cols, uint32_t rows);
void agent_exec_signal(struct agent_exec *exec, int signal);
/* Detaches (the command goes on) and frees. NULL is fine. */
void agent_exec_free(struct agent_exec *exec);
