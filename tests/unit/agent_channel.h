/*
 * What tests of the host's channel share: the channel to a guest that a thread plays, and a command
 * as its owner sees it.
 */
#pragma once

#include "fake_guest.h"

#include "agent/agent.h"
#include "base/clock.h"

#define IN_MS(n) (clock_boottime_ms() + (n))
#define CREDIT	 1000 /* of each stream of a command */

struct fixture {
	char dir[SCRATCH_SIZE];
	struct loop *loop;
	struct peer peer;
	struct agent *agent;
	struct agent_info info;
	atomic_int closed;
	struct err why;
};

/* For cmocka: *state is a struct fixture. */
int channel_set_up(void **state);
int channel_tear_down(void **state);
#define CHANNEL_TEST(name) cmocka_unit_test_setup_teardown(name, channel_set_up, channel_tear_down)

/* Lets the guest play its script. */
void play(struct fixture *f, void (*script)(struct peer *));
int open_agent(struct fixture *f, int timeout_ms, struct err *err);
void must_open(struct fixture *f);
/* Ends the test when the value is not reached. */
void wait_for(atomic_int *value, int wanted);

/* ---- a command as its owner sees it ---- */

struct owner {
	struct fixture *f;
	struct agent_exec *exec;
	atomic_int n_started, n_state, n_data, n_gap, n_eof, n_exited, n_failed, n_lost;
	struct buf data;
	struct agent_exit exit;
	struct err err;
	uint64_t gap_to;
	bool free_in_callback, close_in_callback;
};

extern const struct agent_exec_events owner_events;

void owner_start(struct owner *o, struct fixture *f);
void owner_clear(struct owner *o);
/* On the loop's thread, with a struct owner (freeing: its exec). */
void owner_start_on_loop(void *arg);
void owner_attach_on_loop(void *arg);
void owner_follow_on_loop(void *arg); /* stdout, from 4000 */
void owner_free_on_loop(void *arg);
