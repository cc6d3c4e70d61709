/* When sandboxes ran: one row a run (a generation), from the wardens' records. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "store/db.h"

struct interval_row {
	uint64_t generation;
	int64_t started_unix_ms;
	int64_t ended_unix_ms; /* 0: it runs */
};

/* -EEXIST when that run has begun already. */
int intervals_begin(struct db_txn *txn, const char *sandbox_id, uint64_t generation,
		    int64_t started_unix_ms, struct err *err);
/* Ends the one that runs, if one does; never before its start. */
int intervals_end(struct db_txn *txn, const char *sandbox_id, int64_t ended_unix_ms,
		  struct err *err);
/* How long it has run in all, the run under way up to now. */
int intervals_total(struct db_txn *txn, const char *sandbox_id, int64_t now_unix_ms,
		    int64_t *ret_ms, struct err *err);
/* Oldest first; the caller frees *ret. */
int intervals_list(struct db_txn *txn, const char *sandbox_id, struct interval_row **ret,
		   size_t *ret_n, struct err *err);
