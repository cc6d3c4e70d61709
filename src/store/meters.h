/* What runs, or is about to, and how far it is charged: one row a sandbox, see migrations. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "store/accounts.h"
#include "store/db.h"

struct meter_row {
	char sandbox_id[24];
	char account_id[ACCOUNT_ID_SIZE];
	char key_id[KEY_ID_SIZE];
	uint64_t generation;
	int64_t rate;
	int64_t hold;
	int64_t run_unix_ms; /* 0: the run has not begun */
	int64_t run_boottime_ms;
	int64_t charged_unix_ms;
	int64_t charged;
};

/* -EEXIST when the sandbox has one. */
int meters_insert(struct db_txn *txn, const struct meter_row *row, struct err *err);
/* -ENOENT. */
int meters_get(struct db_txn *txn, const char *sandbox_id, struct meter_row *ret, struct err *err);
/* account_id NULL: of all. By account; the caller frees *ret. */
int meters_list(struct db_txn *txn, const char *account_id, struct meter_row **ret, size_t *ret_n,
		struct err *err);
/* The run begins; -ESTALE when the sandbox has no meter of that generation that waits for it. */
int meters_begin(struct db_txn *txn, const char *sandbox_id, uint64_t generation,
		 int64_t run_unix_ms, int64_t run_boottime_ms, struct err *err);
int meters_advance(struct db_txn *txn, const char *sandbox_id, int64_t charged_unix_ms,
		   int64_t charged, struct err *err);
/* Fine when there is none. */
int meters_delete(struct db_txn *txn, const char *sandbox_id, struct err *err);
