/* Idempotency keys of create: which sandbox an account's key stands for, until it expires. */
#pragma once

#include <stdint.h>

#include "store/db.h"

struct idempotency_row {
	char request_hash[129];
	char sandbox_id[24];
};

/* -ENOENT when the account has no such key, or it has expired by now_unix_ms. */
int idempotency_get(struct db_txn *txn, const char *account_id, const char *name,
		    int64_t now_unix_ms, struct idempotency_row *ret, struct err *err);
/* Takes the place of an expired one of the same name. */
int idempotency_set(struct db_txn *txn, const char *account_id, const char *name,
		    const char *request_hash, const char *sandbox_id, int64_t expires_unix_ms,
		    struct err *err);
/* A creation that failed gives its key back, so that a retry is a new attempt. */
int idempotency_forget(struct db_txn *txn, const char *sandbox_id, struct err *err);
int idempotency_delete_expired(struct db_txn *txn, int64_t now_unix_ms, struct err *err);
