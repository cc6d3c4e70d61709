/* Intervals as rows. */
#include "store/intervals.h"

#include "base/alloc.h"
#include "base/cleanup.h"

int intervals_begin(struct db_txn *txn, const char *sandbox_id, uint64_t generation,
		    int64_t started_unix_ms, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into intervals (sandbox_id, generation, started_unix_ms)"
			 " values ($1, $2, $3)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, sandbox_id);
	db_bind_int(&query, 2, (int64_t)generation);
	db_bind_int(&query, 3, started_unix_ms);
	return db_run(&query, NULL, err);
}

int intervals_end(struct db_txn *txn, const char *sandbox_id, int64_t ended_unix_ms,
		  struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "update intervals set ended_unix_ms ="
			 " case when $1 < started_unix_ms then started_unix_ms else $1 end"
			 " where sandbox_id = $2 and ended_unix_ms is null",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, ended_unix_ms);
	db_bind_text(&query, 2, sandbox_id);
	return db_run(&query, NULL, err);
}

int intervals_total(struct db_txn *txn, const char *sandbox_id, int64_t now_unix_ms,
		    int64_t *ret_ms, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select coalesce(sum(coalesce(ended_unix_ms, $1) - started_unix_ms), 0)"
			 " from intervals where sandbox_id = $2",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, now_unix_ms);
	db_bind_text(&query, 2, sandbox_id);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret_ms = db_column_int(&query, 0);
	return 0;
}

int intervals_list(struct db_txn *txn, const char *sandbox_id, struct interval_row **ret,
		   size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	_cleanup_free_ struct interval_row *rows = NULL;
	size_t n = 0;
	int r = db_query(txn,
			 "select generation, started_unix_ms, ended_unix_ms from intervals"
			 " where sandbox_id = $1 order by generation",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, sandbox_id);
	while ((r = db_step(&query, err)) > 0) {
		rows = xrealloc(rows, (n + 1) * sizeof(*rows));
		rows[n++] = (struct interval_row){
			.generation = (uint64_t)db_column_int(&query, 0),
			.started_unix_ms = db_column_int(&query, 1),
			.ended_unix_ms = db_column_int(&query, 2),
		};
	}
	if (r < 0)
		return r;
	*ret = STEAL(rows);
	*ret_n = n;
	return 0;
}
