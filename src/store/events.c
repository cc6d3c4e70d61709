/* Events as rows. See events.h. */
#include "store/events.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/str.h"

#define FIRST_TYPE_PARAM 5

void event_rows_free(struct event_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(rows[i].data);
	free(rows);
}

/* ---- appending ---- */

static int next_id(struct db_txn *txn, const char *account_id, int64_t *ret_id, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into event_sequences (account_id, last_id, pruned_id)"
			 " values ($1, 1, 0)"
			 " on conflict (account_id) do update set last_id ="
			 " event_sequences.last_id + 1 returning last_id",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret_id = db_column_int(&query, 0);
	return 0;
}

static int insert(struct db_txn *txn, int64_t id, const struct event_new *event, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into events (account_id, id, sandbox_id, type, at_unix_ms, data)"
			 " values ($1, $2, $3, $4, $5, $6)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, event->account_id);
	db_bind_int(&query, 2, id);
	db_bind_text(&query, 3, event->sandbox_id);
	db_bind_text(&query, 4, event->type);
	db_bind_int(&query, 5, event->at_unix_ms);
	db_bind_text(&query, 6, event->data);
	return db_run(&query, NULL, err);
}

static int run_up_to(struct db_txn *txn, const char *sql, const char *account_id, int64_t id,
		     struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, sql, &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	db_bind_int(&query, 2, id);
	return db_run(&query, NULL, err);
}

/* Rows go from the oldest on, so that what is kept has no holes. */
static int drop_up_to(struct db_txn *txn, const char *account_id, int64_t id, struct err *err)
{
	int r = run_up_to(txn, "delete from events where account_id = $1 and id <= $2", account_id,
			  id, err);

	if (r < 0)
		return r;
	return run_up_to(txn,
			 "update event_sequences set pruned_id = $2"
			 " where account_id = $1 and pruned_id < $2",
			 account_id, id, err);
}

int events_append(struct db_txn *txn, const struct event_new *event, int64_t rows_max,
		  struct err *err)
{
	int64_t id;
	int r = next_id(txn, event->account_id, &id, err);

	if (r == 0)
		r = insert(txn, id, event, err);
	if (r == 0 && id % EVENTS_SLACK == 0 && id > rows_max)
		r = drop_up_to(txn, event->account_id, id - rows_max, err);
	if (r == 0)
		db_mark(txn);
	return r;
}

/* ---- reading ---- */

int events_bounds(struct db_txn *txn, const char *account_id, struct event_bounds *ret,
		  struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select last_id, pruned_id from event_sequences where account_id = $1",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret = (struct event_bounds){ 0 };
	if (r == 1)
		*ret = (struct event_bounds){ db_column_int(&query, 0), db_column_int(&query, 1) };
	return 0;
}

static void filter_sql(const struct event_filter *filter, struct buf *sql)
{
	buf_append_str(sql, " from events where account_id = $1 and id > $2");
	if (filter->sandbox_id)
		buf_append_str(sql, " and sandbox_id = $3");
	for (size_t i = 0; filter->types && filter->types[i]; i++)
		buf_printf(sql, "%s$%zu", i ? ", " : " and type in (", FIRST_TYPE_PARAM + i);
	if (filter->types && filter->types[0])
		buf_append_str(sql, ")");
}

static void bind_filter(struct db_query *query, const struct event_filter *filter, int64_t after_id,
			uint32_t limit)
{
	db_bind_text(query, 1, filter->account_id);
	db_bind_int(query, 2, after_id);
	if (filter->sandbox_id)
		db_bind_text(query, 3, filter->sandbox_id);
	db_bind_int(query, 4, limit);
	for (size_t i = 0; filter->types && filter->types[i]; i++)
		db_bind_text(query, (int)(FIRST_TYPE_PARAM + i), filter->types[i]);
}

static int read_rows(struct db_query *query, uint32_t limit, struct event_row **ret, size_t *ret_n,
		     struct err *err)
{
	struct event_row *rows = NULL;
	size_t n = 0, cap = 0;
	int r;

	while ((r = db_step(query, err)) > 0 && n < limit) {
		struct event_row *row;

		if (n == cap) {
			cap = cap ? cap * 2 : 16;
			rows = xrealloc(rows, cap * sizeof(*rows));
		}
		row = &rows[n++];
		*row = (struct event_row){ .id = db_column_int(query, 0) };
		str_copy(row->sandbox_id, sizeof(row->sandbox_id), db_column_text(query, 1));
		str_copy(row->type, sizeof(row->type), db_column_text(query, 2));
		row->at_unix_ms = db_column_int(query, 3);
		row->data = xstrdup(db_column_text(query, 4));
	}
	if (r < 0) {
		event_rows_free(rows, n);
		return r;
	}
	*ret = rows;
	*ret_n = n;
	return 0;
}

int events_list(struct db_txn *txn, const struct event_filter *filter, struct event_row **ret,
		size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	_cleanup_buf_ struct buf sql = BUF_INIT;
	int r;

	buf_append_str(&sql, "select id, sandbox_id, type, at_unix_ms, data");
	filter_sql(filter, &sql);
	buf_append_str(&sql, " order by id limit $4");
	r = db_query(txn, buf_str(&sql), &query, err);
	if (r < 0)
		return r;
	bind_filter(&query, filter, filter->after_id, filter->limit);
	return read_rows(&query, filter->limit, ret, ret_n, err);
}

int events_newest(struct db_txn *txn, const struct event_filter *filter, uint32_t n,
		  int64_t *ret_id, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	_cleanup_buf_ struct buf sql = BUF_INIT;
	int r;

	buf_append_str(&sql, "select coalesce(min(id), 0) from (select id");
	filter_sql(filter, &sql);
	buf_append_str(&sql, " order by id desc limit $4) as newest");
	r = db_query(txn, buf_str(&sql), &query, err);
	if (r < 0)
		return r;
	bind_filter(&query, filter, 0, n);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret_id = db_column_int(&query, 0);
	return 0;
}

/* ---- dropping the old ---- */

/* The newest of an account that is older; 0: none. */
static int newest_before(struct db_txn *txn, const char *account_id, int64_t unix_ms,
			 int64_t *ret_id, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select coalesce(max(id), 0) from events"
			 " where account_id = $1 and at_unix_ms < $2",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	db_bind_int(&query, 2, unix_ms);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret_id = db_column_int(&query, 0);
	return 0;
}

int events_delete_before(struct db_txn *txn, int64_t unix_ms, struct err *err)
{
	_cleanup_query_ struct db_query accounts = DB_QUERY_INIT;
	int r = db_query(txn, "select id from accounts", &accounts, err);

	while (r == 0 && (r = db_step(&accounts, err)) > 0) {
		_cleanup_free_ char *account_id = xstrdup(db_column_text(&accounts, 0));
		int64_t id;

		r = newest_before(txn, account_id, unix_ms, &id, err);
		if (r == 0 && id > 0)
			r = drop_up_to(txn, account_id, id, err);
	}
	return r;
}
