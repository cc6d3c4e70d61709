/*
 * Events: what happened to an account's sandboxes, as rows that are followed.
 *
 * What changes a sandbox's row writes its event in the same transaction (event_write and what is
 * made of it), so that a crash leaves both or neither. What comes at a high rate and changes no row
 * (commands, denials) is posted: one thread writes it in batches, at most EVENTS_BATCH_MS later,
 * which is what a crash may lose of it.
 *
 * The same thread serves the followers. A commit wakes it once; it reads what is new once for all
 * followers of an account that are at the same place, and hands it on. There is no queue: a
 * follower that takes no more stays where it is, and goes on from the table. So one that waits
 * costs an object, and one that reads slowly no more than that.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "core/core.h"
#include "store/events.h"
#include "store/sandboxes.h"

#define EVENTS_BATCH_MS	  100
#define EVENT_COMMAND_MAX 1024 /* bytes of a command's text that its event has */
#define EVENT_RULES_MAX	  4096 /* longer sets of egress rules are only counted */

struct core_events;
struct denial;
struct exec_view;
struct sandbox;
struct snapshot_row;

enum event_type {
	EVENT_SANDBOX_CREATED,
	EVENT_SANDBOX_RUNNING,
	EVENT_SANDBOX_PAUSING,
	EVENT_SANDBOX_PAUSED,
	EVENT_SANDBOX_RESUMED,
	EVENT_SANDBOX_FORKED,
	EVENT_SANDBOX_EXTENDED,
	EVENT_SANDBOX_EXPIRED,
	EVENT_SANDBOX_DESTROYED,
	EVENT_SANDBOX_FAILED,
	EVENT_SNAPSHOT_CREATED,
	EVENT_SNAPSHOT_REMOVED,
	EVENT_EGRESS_CHANGED,
	EVENT_EGRESS_DENIED,
	EVENT_NETWORK_JOINED,
	EVENT_NETWORK_LEFT,
	EVENT_EXEC_STARTED,
	EVENT_EXEC_ENDED,
	EVENT_CREDIT_GRANTED,
	EVENT_CREDIT_EXHAUSTED,
	EVENT_EVENTS_LOST,
	EVENT_TYPES,
};
/* Their names in this order, NULL-terminated. */
extern const char *const event_type_names[];

/* ---- events.c: the thread ---- */

int core_events_open(struct core *core, struct err *err);
/* Writes what was posted, if it can be, and ends the thread. Nothing is posted, committed or
 * followed any more. Fine for what was not opened. */
void core_events_close(struct core *core);

/* Any thread, does not block. Takes data. Of what comes faster than it can be written the rest is
 * counted, and told by an event of its own. */
void events_post(struct core *core, const char *account_id, const char *sandbox_id,
		 enum event_type type, json_t *data);

/* ---- event_rows.c: events of rows, in the transaction that changes the row ---- */

/* Takes data, an object. */
int event_write(struct db_txn *txn, struct core *core, const char *account_id,
		const char *sandbox_id, enum event_type type, json_t *data, struct err *err);
int event_created(struct db_txn *txn, struct core *core, const struct sandbox_row *row,
		  struct err *err);
/* running, or resumed */
int event_running(struct db_txn *txn, struct sandbox *sb, uint64_t generation, bool resumed,
		  struct err *err);
/* It goes on running, because pausing it failed. */
int event_not_pausing(struct db_txn *txn, struct sandbox *sb, struct err *err);
int event_pausing(struct db_txn *txn, struct sandbox *sb, int64_t remaining_ms, struct err *err);
int event_paused(struct db_txn *txn, struct sandbox *sb, struct err *err);
int event_forked(struct db_txn *txn, struct sandbox *source, struct sandbox *const *children,
		 size_t n, struct err *err);
int event_extended(struct db_txn *txn, struct sandbox *sb, int64_t expires_unix_ms,
		   struct err *err);
/* expired, destroyed or failed */
int event_ended(struct db_txn *txn, struct sandbox *sb, const struct sandbox_end *end,
		struct err *err);
int event_snapshot(struct db_txn *txn, struct core *core, const struct snapshot_row *row,
		   enum event_type type, struct err *err);
/* rules: JSON, as the row has them */
int event_egress(struct db_txn *txn, struct sandbox *sb, const char *rules, struct err *err);
int event_network(struct db_txn *txn, struct sandbox *sb, enum event_type type, const char *network,
		  const char *name, struct err *err);

/* ---- event_posts.c: commands and denials; loop's thread ---- */

/* A command that runs now, or has ended: how, or (exit NULL) why nobody will learn how. */
void event_exec_started(const struct exec_view *view);
void event_exec_ended(const struct exec_view *view, const struct err *err);

/* How many denials a second a sandbox tells one by one. */
#define DENIAL_EVENTS_PER_S 8

/* net_lock. */
struct denial_events {
	int64_t second_boottime_ms; /* when the current one began */
	unsigned int told;	    /* in it */
	uint64_t unreported;	    /* not told yet */
};
void event_denied(struct sandbox *sb, const struct denial *denial, uint64_t unreported);
/* Every second: tells what was held back. */
void events_denied_look(struct core *core);
