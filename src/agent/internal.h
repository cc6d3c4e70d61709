/*
 * What the files of src/agent share. agent.c owns the channel (descriptor, queues, opening,
 * closing), exec.c the handles and what is dispatched to them, message.c the parser.
 *
 * Everything here runs on the loop's thread.
 */
#pragma once

#include "agent/agent.h"
#include "agent/message.h"

#define SLOT_BITS 10
static_assert(1u << SLOT_BITS == PROTO_HANDLES_MAX, "a handle is a generation and a slot");

/* Somebody on another thread who waits for the loop: an eventfd and a result. */
struct agent_waiter {
	int event_fd;
	bool done;
	struct err err;			  /* num 0: it worked */
	uint8_t request;		  /* calls: PROTO_PING, PROTO_FREEZE, … */
	struct agent_activity activity;	  /* the answer to PROTO_ASK_ACTIVITY */
	struct agent_terminal *terminals; /* … to PROTO_ASK_TERMINALS; the caller's to free */
	size_t n_terminals;
	struct agent_exec_info *execs; /* … to PROTO_ASK_EXECS; the caller's to free */
	size_t n_execs;
	uint64_t token;			   /* calls */
	struct agent_waiter *next, **link; /* calls: in agent->calls while not done */
};

struct agent {
	struct loop *loop;
	int fd;
	struct loop_io *io;
	struct frame_decoder in;
	struct buf out;
	size_t sent;	 /* bytes of out already written */
	bool overflowed; /* the guest does not read: the queue hit its bound */

	/* opening */
	struct agent_identity identity; /* its strings are alive while opening only */
	uint8_t nonce[PROTO_NONCE_LEN];
	bool synced;  /* our marker came back: frames follow */
	bool greeted; /* HELLO_ACK came */
	bool ready;   /* and the clock is right: opened */
	unsigned int clock_tries;
	int64_t clock_sent_ms;
	bool flushed;
	int64_t hello_queued_ms, quiet_since_ms;
	struct loop_timer *flush_timer;
	struct agent_waiter *opener;
	struct agent_info info;

	agent_closed_fn on_closed;
	void *closed_arg;
	bool broken;	    /* torn down: no descriptor, no execs */
	bool closing;	    /* agent_close was called; freed when depth is 0 */
	unsigned int depth; /* callbacks under way */

	struct agent_waiter *calls;
	uint64_t next_token;

	struct agent_exec *execs;
	struct agent_exec *slots[PROTO_HANDLES_MAX];
	uint32_t
		generations[PROTO_HANDLES_MAX]; /* of the last handle issued in the slot; 0: none */
	uint32_t next_slot;
	uint64_t stale_credit; /* DATA that may still come for handles and positions given up */
};

/* agent.c. Around everything that may call an owner's callback: the agent stays allocated in
 * between. agent_leave may free it. */
void agent_enter(struct agent *agent);
void agent_leave(struct agent *agent);
/* Tears the channel down and tells everybody. */
void agent_break(struct agent *agent, const struct err *why);
/* Sends what is queued in agent->out as far as the socket takes it. */
void agent_flush(struct agent *agent);

/* exec.c. Hands a frame of a handle to its owner; 0, or negative with err set when it is not
 * acceptable. */
int agent_exec_dispatch(struct agent *agent, const struct agent_message *message, struct err *err);
void agent_exec_lose_all(struct agent *agent, const struct err *why);
