/* Accounts and keys as rows. */
#include "store/accounts.h"

#include <errno.h>

#include "base/str.h"

int accounts_count(struct db_txn *txn, int64_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "select count(*) from accounts", &query, err);

	if (r == 0)
		r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret_n = db_column_int(&query, 0);
	return 0;
}

int accounts_insert(struct db_txn *txn, const char *id, const char *name, int64_t created_unix_ms,
		    struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into accounts (id, name, created_unix_ms) values ($1, $2, $3)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, id);
	db_bind_text(&query, 2, name);
	db_bind_int(&query, 3, created_unix_ms);
	return db_run(&query, NULL, err);
}

static void bind_time(struct db_query *query, int param, int64_t unix_ms)
{
	if (unix_ms)
		db_bind_int(query, param, unix_ms);
	else
		db_bind_null(query, param);
}

int keys_insert(struct db_txn *txn, const struct key_row *row, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into keys (id, account_id, hash, prefix, label, admin,"
			 " created_unix_ms, expires_unix_ms, revoked_unix_ms)"
			 " values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, row->id);
	db_bind_text(&query, 2, row->account_id);
	db_bind_text(&query, 3, row->hash);
	db_bind_text(&query, 4, row->prefix);
	db_bind_text(&query, 5, row->label);
	db_bind_int(&query, 6, row->admin);
	db_bind_int(&query, 7, row->created_unix_ms);
	bind_time(&query, 8, row->expires_unix_ms);
	bind_time(&query, 9, row->revoked_unix_ms);
	return db_run(&query, NULL, err);
}

int keys_by_hash(struct db_txn *txn, const char *hash, struct key_row *ret, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	struct key_row row = { 0 };
	int r = db_query(txn,
			 "select id, account_id, hash, prefix, label, admin, created_unix_ms,"
			 " expires_unix_ms, revoked_unix_ms from keys where hash = $1",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, hash);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(err, -ENOENT, "no such key");
	str_copy(row.id, sizeof(row.id), db_column_text(&query, 0));
	str_copy(row.account_id, sizeof(row.account_id), db_column_text(&query, 1));
	str_copy(row.hash, sizeof(row.hash), db_column_text(&query, 2));
	str_copy(row.prefix, sizeof(row.prefix), db_column_text(&query, 3));
	str_copy(row.label, sizeof(row.label), db_column_text(&query, 4));
	row.admin = db_column_int(&query, 5) != 0;
	row.created_unix_ms = db_column_int(&query, 6);
	row.expires_unix_ms = db_column_int(&query, 7);
	row.revoked_unix_ms = db_column_int(&query, 8);
	*ret = row;
	return 0;
}
