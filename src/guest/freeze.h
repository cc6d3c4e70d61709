/*
 * Holding all commands still while a snapshot is taken, and in what is made from it until the host
 * has said who that is.
 *
 * The agent freezes the commands' control group before the host stops the machine. So the processes
 * of a restored or forked guest are frozen in the first moment of their new life; they go on when
 * HELLO has given entropy, clock, names and generation (requests.c), and not at all when one of
 * those could not be taken. The agent, which is outside the group, goes on throughout.
 *
 * Any HELLO thaws: a host that died between FREEZE and the snapshot leaves nothing frozen for
 * longer than until its successor connects. There is no way back by time alone, because a guest
 * cannot tell that case from its own copy, which must wait.
 *
 * A guest's root can leave the group or thaw it. It harms itself: its own processes then see the
 * old identity for some milliseconds.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct guest;

enum freeze_phase {
	FREEZE_NONE,
	FREEZE_SYNCING,	 /* a child writes out the file system; commands run */
	FREEZE_STOPPING, /* the kernel is stopping the commands */
	FREEZE_FROZEN,
};

struct freeze {
	enum freeze_phase phase;
	pid_t sync_pid; /* 0: none */
	bool synced;
	uint64_t token;			    /* of the request to be answered */
	int64_t sync_until_ms, deadline_ms; /* CLOCK_BOOTTIME */
};

/* FREEZE: is answered when it is done, or could not be done within timeout_ms. The file system has
 * half of that; what is not written by then is written by nobody in particular. */
void freeze_begin(struct guest *guest, uint64_t token, uint32_t timeout_ms);
/* THAW and HELLO: lets the commands go on, whatever the phase. False when the kernel refuses. */
bool freeze_end(struct guest *guest);
/* Goes a step further if it is time to. */
void freeze_check(struct guest *guest, int64_t now_ms);
/* When to call that next; INT64_MAX: not by time. */
int64_t freeze_next_ms(const struct guest *guest);
/* Is it the child that ended? */
bool freeze_reap(struct guest *guest, pid_t pid, int wait_status);
/* Tells the host how things stand. */
void freeze_answer(struct guest *guest, uint64_t token);
