/* Meters as rows. */
#include "store/meters.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/str.h"

#define COLUMNS                                                                                    \
	"sandbox_id, account_id, key_id, generation, rate, hold, run_unix_ms, run_boottime_ms,"    \
	" charged_unix_ms, charged"

int meters_insert(struct db_txn *txn, const struct meter_row *row, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into meters (sandbox_id, account_id, key_id, generation, rate,"
			 " hold, charged) values ($1, $2, $3, $4, $5, $6, 0)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, row->sandbox_id);
	db_bind_text(&query, 2, row->account_id);
	db_bind_text(&query, 3, row->key_id);
	db_bind_int(&query, 4, (int64_t)row->generation);
	db_bind_int(&query, 5, row->rate);
	db_bind_int(&query, 6, row->hold);
	return db_run(&query, NULL, err);
}

static void read_row(const struct db_query *query, struct meter_row *ret)
{
	*ret = (struct meter_row){
		.generation = (uint64_t)db_column_int(query, 3),
		.rate = db_column_int(query, 4),
		.hold = db_column_int(query, 5),
		.run_unix_ms = db_column_int(query, 6),
		.run_boottime_ms = db_column_int(query, 7),
		.charged_unix_ms = db_column_int(query, 8),
		.charged = db_column_int(query, 9),
	};
	str_copy(ret->sandbox_id, sizeof(ret->sandbox_id), db_column_text(query, 0));
	str_copy(ret->account_id, sizeof(ret->account_id), db_column_text(query, 1));
	str_copy(ret->key_id, sizeof(ret->key_id), db_column_text(query, 2));
}

int meters_get(struct db_txn *txn, const char *sandbox_id, struct meter_row *ret, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "select " COLUMNS " from meters where sandbox_id = $1", &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, sandbox_id);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(err, -ENOENT, "sandbox '%s' has no meter", sandbox_id);
	read_row(&query, ret);
	return 0;
}

int meters_list(struct db_txn *txn, const char *account_id, struct meter_row **ret, size_t *ret_n,
		struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	_cleanup_free_ struct meter_row *rows = NULL;
	size_t n = 0, cap = 0;
	int r = db_query(txn,
			 account_id ? "select " COLUMNS " from meters where account_id = $1"
				    : "select " COLUMNS " from meters order by account_id",
			 &query, err);

	if (r < 0)
		return r;
	if (account_id)
		db_bind_text(&query, 1, account_id);
	while ((r = db_step(&query, err)) > 0) {
		if (n == cap) {
			cap = cap ? cap * 2 : 16;
			rows = xrealloc(rows, cap * sizeof(*rows));
		}
		read_row(&query, &rows[n++]);
	}
	if (r < 0)
		return r;
	*ret = STEAL(rows);
	*ret_n = n;
	return 0;
}

int meters_begin(struct db_txn *txn, const char *sandbox_id, uint64_t generation,
		 int64_t run_unix_ms, int64_t run_boottime_ms, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int64_t changed = 0;
	int r = db_query(txn,
			 "update meters set run_unix_ms = $1, run_boottime_ms = $2,"
			 " charged_unix_ms = $1 where sandbox_id = $3 and generation = $4"
			 " and run_unix_ms is null",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, run_unix_ms);
	db_bind_int(&query, 2, run_boottime_ms);
	db_bind_text(&query, 3, sandbox_id);
	db_bind_int(&query, 4, (int64_t)generation);
	r = db_run(&query, &changed, err);
	if (r < 0 || changed == 1)
		return r;
	return err_set(err, -ESTALE, "sandbox '%s' has no meter that waits for run %llu",
		       sandbox_id, (unsigned long long)generation);
}

int meters_advance(struct db_txn *txn, const char *sandbox_id, int64_t charged_unix_ms,
		   int64_t charged, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "update meters set charged_unix_ms = $1, charged = $2"
			 " where sandbox_id = $3",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, charged_unix_ms);
	db_bind_int(&query, 2, charged);
	db_bind_text(&query, 3, sandbox_id);
	return db_run(&query, NULL, err);
}

int meters_delete(struct db_txn *txn, const char *sandbox_id, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "delete from meters where sandbox_id = $1", &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, sandbox_id);
	return db_run(&query, NULL, err);
}
