/* Between audit.c (what is under way, and the thread), audit_keep.c (over deaths and years) and
 * audit_read.c (pages, followers, checks).
 */
#pragma once

#include <pthread.h>
#include <sys/queue.h>

#include "core/audit.h"
#include "core/followers.h"
#include "core/internal.h"
#include "store/audit.h"

struct core_audit_entry {
	STAILQ_ENTRY(core_audit_entry) link;
	struct audit_row row; /* but for seq, body and hash */
	int64_t id;	      /* in the list of what is under way */
	int64_t began_boottime_ms;
	char *begin_text; /* members of the record, in braces */
	char *end_text;
	bool has_sandbox;

	/* under the audit's lock */
	unsigned int refs; /* the owner, and those who wait */
	bool queued, in_batch;
	bool ended;
	bool durable;	  /* its beginning is on the disk */
	bool written;	  /* its record is */
	bool batch_ended; /* as the thread took it */
	void (*then)(void *arg);
	void *then_arg;
};
STAILQ_HEAD(audit_queue, core_audit_entry);

struct core_audit {
	struct core *core;
	struct db *db;
	pthread_t thread;
	bool started;

	pthread_mutex_t lock;
	pthread_cond_t wake;
	pthread_cond_t moved; /* something was written, or could not be */
	bool stopping;
	bool look; /* for followers */
	struct audit_queue queue;
	size_t n_queued;
	int64_t last_id;
	bool failing; /* the last attempt to write failed: why */
	struct err failure;
	int64_t retry_boottime_ms;

	/* the thread's, but read under the lock */
	struct audit_state state;
	int64_t noted_seq; /* of the head that was noted last */
	bool note_is_kept; /* the chain has not what was noted of it by an earlier daemon */

	pthread_mutex_t prune_lock; /* held while records are dropped, or all are checked */

	struct followers followers;

	_Atomic uint64_t n_records, n_commits, n_failures;
};

/* Makes the record that follows state of the members in begin and end (texts in braces). */
int audit_append_record(struct db_txn *txn, struct audit_state *state,
			const struct audit_row *columns, const char *begin, const char *end,
			struct err *err);

/* ---- audit_keep.c ---- */

/* Reads the state, and makes records of what an earlier daemon left under way. */
int audit_finish_all(struct core_audit *audit, struct err *err);
/* Says so where the chain has not what an earlier daemon noted of it. */
void audit_look_at_note(struct core_audit *audit);

/* ---- audit.c, audit_read.c ---- */

/* Any thread. */
void audit_wake(struct core_audit *audit);
/* The audit's thread. false: something is left that could not be read now. */
bool audit_serve(struct core_audit *audit);
/* What a record's text says, as its columns have it. -EBADMSG: it is none. */
int audit_row_from_body(const char *body, struct audit_row *ret, struct err *err);
/* Whether the chain has what was noted of it elsewhere. -EBADMSG: it has not; -ENOENT: nothing was
 * noted yet. */
int audit_check_note(struct core_audit *audit, struct err *err);

/* ---- core.c ---- */

int core_audit_open(struct core *core, struct err *err);
/* Writes what waits, if it can be. Nothing begins or ends any more. Fine for what was not opened.
 */
void core_audit_close(struct core *core);
/* [worker] Every hour: drops what is older than audit_days, and notes the head of the chain. */
void audit_keep_house(struct core *core);
/* [worker] Logs the head of the chain, and notes it in the other database. */
void audit_note_head(struct core *core);
int audit_noted_head(struct core *core, int64_t *ret_seq, char ret_hash[CHAIN_HASH_SIZE],
		     struct err *err);
