/* Accounts as rows. */
#include "store/accounts.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
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

int accounts_set_admin(struct db_txn *txn, const char *id, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "update accounts set admin = 1 where id = $1", &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, id);
	return db_run(&query, NULL, err);
}

static void read_account(const struct db_query *query, struct account_row *ret)
{
	*ret = (struct account_row){ .admin = db_column_int(query, 2) != 0,
				     .created_unix_ms = db_column_int(query, 3) };
	str_copy(ret->id, sizeof(ret->id), db_column_text(query, 0));
	str_copy(ret->name, sizeof(ret->name), db_column_text(query, 1));
}

int accounts_get(struct db_txn *txn, const char *id, struct account_row *ret, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "select id, name, admin, created_unix_ms from accounts where id = $1",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, id);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_code(err, -ENOENT, "account_not_found", "no account '%.64s'", id);
	read_account(&query, ret);
	return 0;
}

int accounts_list(struct db_txn *txn, const char *after, uint32_t limit, struct account_row **ret,
		  size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	_cleanup_free_ struct account_row *rows = NULL;
	size_t n = 0;
	int r = db_query(txn,
			 "select id, name, admin, created_unix_ms from accounts"
			 " where $1 = '' or (created_unix_ms, id) >"
			 "  (select created_unix_ms, id from accounts where id = $1)"
			 " order by created_unix_ms, id limit $2",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, after);
	db_bind_int(&query, 2, limit);
	while ((r = db_step(&query, err)) > 0) {
		rows = xrealloc(rows, (n + 1) * sizeof(*rows));
		read_account(&query, &rows[n++]);
	}
	if (r < 0)
		return r;
	*ret = STEAL(rows);
	*ret_n = n;
	return 0;
}
