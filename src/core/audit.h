/*
 * The audit: who did what, when, on which sandbox, and how it ended, as a chain of records that
 * nothing is taken out of (base/chain.h).
 *
 * A surface says when an operation begins and how it has ended. One record is made of both, so that
 * each operation is in the chain once, with its result. Until then it stands in a list of what is
 * under way, which is written before anybody is answered: an operation whose daemon died has its
 * record from the next one, with the result "interrupted".
 *
 * One thread writes, whatever is there at once in one transaction. Who changes something waits for
 * it, before and after. Who runs a command waits for nothing: what is known of it is written while
 * it runs, and only its answer waits, where that took longer than the command.
 *
 * While nothing can be written (a full disk) changes and commands are refused, but for those that
 * end or remove something; records of what was under way are kept in memory until they can be
 * written.
 *
 * Never in it: env, stdin, the content of files, the text of keys.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

#define CORE_AUDIT_COMMAND_MAX 16384 /* bytes of a text that a record keeps */

struct core_audit_entry;

struct core_audit_call {
	const char *operation;
	const char *surface;	/* "rest", "mcp" */
	const char *request_id; /* "": none */
	const char *peer;	/* the address that it came from; "": not known */
	const char *sandbox_id; /* NULL: none, or not known yet */
	json_t *args;		/* what was asked for, without secrets; taken */
	bool ends; /* it ends or removes something: done also where it cannot be noted */
};

/* An operation begins. wait: [worker] returns when that is on the disk. Refused with the reason
 * why nothing can be written ("disk_full" …). */
int core_audit_begin(struct core *core, const struct principal *who,
		     const struct core_audit_call *call, bool wait, struct core_audit_entry **ret,
		     struct err *err);

struct core_audit_end {
	const char *result;	/* "ok", or the code of the error */
	const char *sandbox_id; /* where it was not known at the beginning; NULL: none */
	json_t *outcome;	/* what came of it; taken; NULL: nothing to say */
};
/* Any thread; once for each entry, which is gone then. then (may be NULL) is called when the
 * beginning is on the disk: at once where it is, else later on the loop's thread. */
void core_audit_end(struct core *core, struct core_audit_entry *entry,
		    const struct core_audit_end *end, void (*then)(void *arg), void *arg);
/* [worker] The same, but returns when the record is on the disk. */
void core_audit_end_wait(struct core *core, struct core_audit_entry *entry,
			 const struct core_audit_end *end);

/* ---- reading: an account sees its own, an administrator all ---- */

struct core_audit_record {
	int64_t seq;
	const char *line; /* JSON, with its hash: base/chain.h */
};

struct core_audit_filter {
	const char *account_id; /* each: NULL for any */
	const char *key_id;
	const char *sandbox_id;
	const char *operation;
	const char *request_id;
	const char *result;
};

struct core_audit_page {
	struct core_audit_record *items; /* oldest first */
	size_t n;
	int64_t cursor; /* of the last one looked at: go on there */
	bool more;	/* there are more in the direction asked for */
};
void core_audit_page_clear(struct core_audit_page *page);

struct core_audit_range {
	int64_t after;	/* only what follows this one */
	int64_t before; /* only what comes before this one; 0: no bound */
	bool newest;	/* the newest of these, else the oldest */
	uint32_t limit; /* 1 to 1000 */
};
int core_audit_list(struct core *core, const struct principal *who,
		    const struct core_audit_filter *filter, const struct core_audit_range *range,
		    struct core_audit_page *ret, struct err *err);

struct core_audit_follower;
struct core_audit_sink {
	/* On the audit's thread, must not block. false: no more until core_audit_resume. */
	bool (*record)(void *arg, const struct core_audit_record *record);
	/* The same thread: what was there at the beginning has been handed on. NULL: it goes on
	 * with what comes. */
	void (*end)(void *arg);
};
/* [worker] Follows from the cursor on (negative: from now on); nothing comes before the first
 * core_audit_resume. "invalid_cursor", "limit_reached". Close it before the core is freed. */
int core_audit_follow(struct core *core, const struct principal *who,
		      const struct core_audit_filter *filter, int64_t cursor,
		      const struct core_audit_sink *sink, void *arg, int64_t *ret_cursor,
		      struct core_audit_follower **ret, struct err *err);
/* Any thread, but not from within the sink. */
void core_audit_resume(struct core_audit_follower *follower);
/* Any thread, but not from within the sink, which is not called again. NULL is fine. */
void core_audit_close_follower(struct core_audit_follower *follower);

/* [worker] Checks all that is kept. */
struct core_audit_verdict {
	int64_t first, last; /* records that were checked; 0: there are none */
	char head[65];	     /* hash of the last one */
	int64_t broken_at;   /* 0: it is whole */
	char problem[256];
};
int core_audit_verify(struct core *core, struct core_audit_verdict *ret, struct err *err);

/* ---- for those who look after it ---- */

/* The last attempt to write it failed, and nothing was written since. */
bool core_audit_is_failing(struct core *core, struct err *ret_why);

struct core_audit_counts {
	uint64_t records, commits, failures; /* since the daemon began */
	size_t waiting;			     /* to be written */
	int64_t last_seq;
};
void core_audit_counts(struct core *core, struct core_audit_counts *ret);
