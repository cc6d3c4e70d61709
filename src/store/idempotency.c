/* Idempotency keys as rows. */
#include "store/idempotency.h"

#include <errno.h>

#include "base/str.h"

int idempotency_get(struct db_txn *txn, const char *account_id, const char *name,
		    int64_t now_unix_ms, struct idempotency_row *ret, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select request_hash, sandbox_id from idempotency_keys"
			 " where account_id = $1 and name = $2 and expires_unix_ms > $3",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	db_bind_text(&query, 2, name);
	db_bind_int(&query, 3, now_unix_ms);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(err, -ENOENT, "no such idempotency key");
	str_copy(ret->request_hash, sizeof(ret->request_hash), db_column_text(&query, 0));
	str_copy(ret->sandbox_id, sizeof(ret->sandbox_id), db_column_text(&query, 1));
	return 0;
}

int idempotency_set(struct db_txn *txn, const char *account_id, const char *name,
		    const char *request_hash, const char *sandbox_id, int64_t expires_unix_ms,
		    struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into idempotency_keys"
			 " (account_id, name, request_hash, sandbox_id, expires_unix_ms)"
			 " values ($1, $2, $3, $4, $5)"
			 " on conflict (account_id, name) do update set"
			 " request_hash = excluded.request_hash, sandbox_id = excluded.sandbox_id,"
			 " expires_unix_ms = excluded.expires_unix_ms",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	db_bind_text(&query, 2, name);
	db_bind_text(&query, 3, request_hash);
	db_bind_text(&query, 4, sandbox_id);
	db_bind_int(&query, 5, expires_unix_ms);
	return db_run(&query, NULL, err);
}

int idempotency_forget(struct db_txn *txn, const char *sandbox_id, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "delete from idempotency_keys where sandbox_id = $1", &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, sandbox_id);
	return db_run(&query, NULL, err);
}

int idempotency_delete_expired(struct db_txn *txn, int64_t now_unix_ms, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "delete from idempotency_keys where expires_unix_ms <= $1", &query,
			 err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, now_unix_ms);
	return db_run(&query, NULL, err);
}
