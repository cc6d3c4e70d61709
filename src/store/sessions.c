/* Sessions as rows. */
#include "store/sessions.h"

#include <errno.h>

#include "base/str.h"

int sessions_insert(struct db_txn *txn, const struct session_row *row, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into sessions (hash, key_id, created_unix_ms, expires_unix_ms)"
			 " values ($1, $2, $3, $4)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, row->hash);
	db_bind_text(&query, 2, row->key_id);
	db_bind_int(&query, 3, row->created_unix_ms);
	db_bind_int(&query, 4, row->expires_unix_ms);
	return db_run(&query, NULL, err);
}

int sessions_find(struct db_txn *txn, const char *hash, struct session_row *ret,
		  char ret_key_hash[KEY_HASH_SIZE], struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	struct session_row row = { 0 };
	int r = db_query(txn,
			 "select s.hash, s.key_id, s.created_unix_ms, s.expires_unix_ms, k.hash"
			 " from sessions s join keys k on k.id = s.key_id where s.hash = $1"
			 " and coalesce(k.rotated_unix_ms, 0) <= s.created_unix_ms",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, hash);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(err, -ENOENT, "no such session");
	str_copy(row.hash, sizeof(row.hash), db_column_text(&query, 0));
	str_copy(row.key_id, sizeof(row.key_id), db_column_text(&query, 1));
	row.created_unix_ms = db_column_int(&query, 2);
	row.expires_unix_ms = db_column_int(&query, 3);
	str_copy(ret_key_hash, KEY_HASH_SIZE, db_column_text(&query, 4));
	*ret = row;
	return 0;
}

int sessions_remove(struct db_txn *txn, const char *hash, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "delete from sessions where hash = $1", &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, hash);
	return db_run(&query, NULL, err);
}

int sessions_prune(struct db_txn *txn, int64_t now_unix_ms, const char *key_id, int64_t keep,
		   struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "delete from sessions where expires_unix_ms <= $1 or (key_id = $2 and"
			 " hash not in (select hash from sessions where key_id = $2"
			 " order by created_unix_ms desc, hash limit $3))",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, now_unix_ms);
	db_bind_text(&query, 2, key_id);
	db_bind_int(&query, 3, keep);
	return db_run(&query, NULL, err);
}
