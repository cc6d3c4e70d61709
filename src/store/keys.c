/* Keys as rows. See accounts.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "store/accounts.h"

#define KEY_COLUMNS                                                                                \
	"keys.id, keys.account_id, keys.hash, keys.prefix, keys.label,"                            \
	" keys.admin * (select admin from accounts where id = keys.account_id), keys.scope,"       \
	" keys.created_by, keys.created_unix_ms, keys.expires_unix_ms, keys.revoked_unix_ms,"      \
	" keys.rotated_unix_ms"
#define N_KEY_COLUMNS 12

void key_row_clear(struct key_row *row)
{
	free(row->scope);
	row->scope = NULL;
}

void key_rows_free(struct key_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		key_row_clear(&rows[i]);
	free(rows);
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
			 "insert into keys (id, account_id, hash, prefix, label, admin, scope,"
			 " created_by, created_unix_ms, expires_unix_ms, revoked_unix_ms)"
			 " values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, row->id);
	db_bind_text(&query, 2, row->account_id);
	db_bind_text(&query, 3, row->hash);
	db_bind_text(&query, 4, row->prefix);
	db_bind_text(&query, 5, row->label);
	db_bind_int(&query, 6, row->admin);
	db_bind_text(&query, 7, row->scope);
	db_bind_text(&query, 8, row->created_by);
	db_bind_int(&query, 9, row->created_unix_ms);
	bind_time(&query, 10, row->expires_unix_ms);
	bind_time(&query, 11, row->revoked_unix_ms);
	return db_run(&query, NULL, err);
}

static void read_key(const struct db_query *query, struct key_row *ret)
{
	const char *scope = db_column_text(query, 6);

	*ret = (struct key_row){ .admin = db_column_int(query, 5) != 0,
				 .scope = *scope ? xstrdup(scope) : NULL,
				 .created_unix_ms = db_column_int(query, 8),
				 .expires_unix_ms = db_column_int(query, 9),
				 .revoked_unix_ms = db_column_int(query, 10),
				 .rotated_unix_ms = db_column_int(query, 11) };
	str_copy(ret->id, sizeof(ret->id), db_column_text(query, 0));
	str_copy(ret->account_id, sizeof(ret->account_id), db_column_text(query, 1));
	str_copy(ret->hash, sizeof(ret->hash), db_column_text(query, 2));
	str_copy(ret->prefix, sizeof(ret->prefix), db_column_text(query, 3));
	str_copy(ret->label, sizeof(ret->label), db_column_text(query, 4));
	str_copy(ret->created_by, sizeof(ret->created_by), db_column_text(query, 7));
}

static int by_old_hash(struct db_txn *txn, const char *hash, struct key_row *ret, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select " KEY_COLUMNS ", old_key_hashes.hash,"
			 " old_key_hashes.expires_unix_ms"
			 " from old_key_hashes join keys on keys.id = old_key_hashes.key_id"
			 " where old_key_hashes.hash = $1",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, hash);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(err, -ENOENT, "no such key");
	read_key(&query, ret);
	str_copy(ret->hash, sizeof(ret->hash), db_column_text(&query, N_KEY_COLUMNS));
	ret->text_expires_unix_ms = db_column_int(&query, N_KEY_COLUMNS + 1);
	return 0;
}

int keys_by_hash(struct db_txn *txn, const char *hash, struct key_row *ret, struct err *err)
{
	int r;
	{
		_cleanup_query_ struct db_query query = DB_QUERY_INIT;

		r = db_query(txn, "select " KEY_COLUMNS " from keys where hash = $1", &query, err);
		if (r < 0)
			return r;
		db_bind_text(&query, 1, hash);
		r = db_step(&query, err);
		if (r < 0)
			return r;
		if (r > 0) {
			read_key(&query, ret);
			return 0;
		}
	}
	return by_old_hash(txn, hash, ret, err);
}

int keys_get(struct db_txn *txn, const char *id, const char *account_id, struct key_row *ret,
	     struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 account_id ? "select " KEY_COLUMNS " from keys"
				      " where keys.id = $1 and keys.account_id = $2"
				    : "select " KEY_COLUMNS " from keys where keys.id = $1",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, id);
	if (account_id)
		db_bind_text(&query, 2, account_id);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_code(err, -ENOENT, "key_not_found", "no key '%.64s'", id);
	read_key(&query, ret);
	return 0;
}

#define GOOD_AT " keys.revoked_unix_ms is null and coalesce(keys.expires_unix_ms, $2 + 1) > $2"

int keys_list(struct db_txn *txn, const struct key_filter *filter, struct key_row **ret,
	      size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	struct key_row *rows = NULL;
	size_t n = 0;
	int r = db_query(
		txn,
		"select " KEY_COLUMNS " from keys where keys.account_id = $1"
		" and ($2 = 0 or (" GOOD_AT "))"
		" and ($3 = '' or (keys.created_unix_ms, keys.id) <"
		"  (select created_unix_ms, id from keys where id = $3 and account_id = $1))"
		" order by keys.created_unix_ms desc, keys.id desc limit $4",
		&query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, filter->account_id);
	db_bind_int(&query, 2, filter->valid_unix_ms);
	db_bind_text(&query, 3, filter->after);
	db_bind_int(&query, 4, filter->limit);
	while ((r = db_step(&query, err)) > 0) {
		rows = xrealloc(rows, (n + 1) * sizeof(*rows));
		read_key(&query, &rows[n++]);
	}
	if (r < 0) {
		key_rows_free(rows, n);
		return r;
	}
	*ret = rows;
	*ret_n = n;
	return 0;
}

int keys_count(struct db_txn *txn, const char *account_id, int64_t unix_ms, int64_t *ret_n,
	       struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "select count(*) from keys where account_id = $1 and" GOOD_AT, &query,
			 err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	db_bind_int(&query, 2, unix_ms);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret_n = db_column_int(&query, 0);
	return 0;
}

/* Its earlier texts are good until then at most; 0: no longer. */
static int limit_old(struct db_txn *txn, const char *id, int64_t until_unix_ms, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 until_unix_ms ? "update old_key_hashes set expires_unix_ms = $2"
					 " where key_id = $1 and expires_unix_ms > $2"
				       : "delete from old_key_hashes where key_id = $1",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, id);
	if (until_unix_ms)
		db_bind_int(&query, 2, until_unix_ms);
	return db_run(&query, NULL, err);
}

int keys_revoke(struct db_txn *txn, const char *id, int64_t unix_ms, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int64_t changed = 0;
	int r = db_query(txn,
			 "update keys set revoked_unix_ms = $1"
			 " where id = $2 and revoked_unix_ms is null",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, unix_ms);
	db_bind_text(&query, 2, id);
	r = db_run(&query, &changed, err);
	if (r < 0)
		return r;
	if (changed == 0)
		return err_set(err, -ESTALE, "key '%s' was revoked already", id);
	return limit_old(txn, id, 0, err);
}

static int keep_text(struct db_txn *txn, const struct key_row *row, int64_t expires_unix_ms,
		     struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into old_key_hashes (hash, key_id, expires_unix_ms)"
			 " values ($1, $2, $3)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, row->hash);
	db_bind_text(&query, 2, row->id);
	db_bind_int(&query, 3, expires_unix_ms);
	return db_run(&query, NULL, err);
}

int keys_rotate(struct db_txn *txn, const struct key_row *row, const char *hash, const char *prefix,
		int64_t unix_ms, int64_t old_expires_unix_ms, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = limit_old(txn, row->id, old_expires_unix_ms, err);

	if (r == 0 && old_expires_unix_ms)
		r = keep_text(txn, row, old_expires_unix_ms, err);
	if (r == 0)
		r = db_query(txn,
			     "update keys set hash = $1, prefix = $2, rotated_unix_ms = $3"
			     " where id = $4",
			     &query, err);
	if (r < 0)
		return r;
	db_bind_text(&query, 1, hash);
	db_bind_text(&query, 2, prefix);
	db_bind_int(&query, 3, unix_ms);
	db_bind_text(&query, 4, row->id);
	return db_run(&query, NULL, err);
}

int keys_forget_old(struct db_txn *txn, int64_t unix_ms, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "delete from old_key_hashes where expires_unix_ms <= $1", &query,
			 err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, unix_ms);
	return db_run(&query, NULL, err);
}
