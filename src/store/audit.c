/* The audit as rows. See audit.h. */
#include "store/audit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/str.h"
#include "store/db_migrate.h"

#define RESERVED_BYTES (4u << 20)

#define COLUMNS                                                                                    \
	"seq, at_unix_ms, account_id, key_id, sandbox_id, operation, request_id, result, body, "   \
	"hash"

int audit_db_open(const char *path, struct db **ret, struct err *err)
{
	const struct db_options options = {
		.migrations = audit_migrations,
		.n_migrations = audit_n_migrations,
		.reserved_bytes = RESERVED_BYTES,
		.unchecked = true, /* it may be long; the chain is what checks it */
	};

	return db_open_with(path, &options, ret, err);
}

void audit_row_clear(struct audit_row *row)
{
	free(row->body);
	row->body = NULL;
}

void audit_rows_free(struct audit_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		audit_row_clear(&rows[i]);
	free(rows);
}

/* ---- the state ---- */

int audit_state_get(struct db_txn *txn, struct audit_state *ret, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select last_seq, last_hash, pruned_seq, pruned_hash from audit_state",
			 &query, err);

	if (r == 0)
		r = db_step(&query, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_code(err, -EBADMSG, "audit_broken", "the audit has lost its state");
	*ret = (struct audit_state){ .last_seq = db_column_int(&query, 0),
				     .pruned_seq = db_column_int(&query, 2) };
	str_copy(ret->last_hash, sizeof(ret->last_hash), db_column_text(&query, 1));
	str_copy(ret->pruned_hash, sizeof(ret->pruned_hash), db_column_text(&query, 3));
	return 0;
}

static int set_state(struct db_txn *txn, const char *sql, int64_t seq, const char *hash,
		     struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, sql, &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, seq);
	db_bind_text(&query, 2, hash);
	return db_run(&query, NULL, err);
}

/* ---- records ---- */

static int insert(struct db_txn *txn, const struct audit_row *row, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into audit (" COLUMNS ")"
			 " values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, row->seq);
	db_bind_int(&query, 2, row->at_unix_ms);
	db_bind_text(&query, 3, row->account_id);
	db_bind_text(&query, 4, row->key_id);
	db_bind_text(&query, 5, row->sandbox_id);
	db_bind_text(&query, 6, row->operation);
	db_bind_text(&query, 7, row->request_id);
	db_bind_text(&query, 8, row->result);
	db_bind_text(&query, 9, row->body);
	db_bind_text(&query, 10, row->hash);
	return db_run(&query, NULL, err);
}

int audit_append(struct db_txn *txn, const struct audit_row *row, struct err *err)
{
	int r = insert(txn, row, err);

	if (r < 0)
		return r;
	return set_state(txn, "update audit_state set last_seq = $1, last_hash = $2", row->seq,
			 row->hash, err);
}

/* The conditions in the order of their parameters. */
static size_t conditions(const struct audit_filter *filter, const char *names[6],
			 const char *values[6])
{
	const struct {
		const char *name, *value;
	} all[] = {
		{ "account_id", filter->account_id }, { "key_id", filter->key_id },
		{ "sandbox_id", filter->sandbox_id }, { "operation", filter->operation },
		{ "request_id", filter->request_id }, { "result", filter->result },
	};
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if (!all[i].value)
			continue;
		names[n] = all[i].name;
		values[n++] = all[i].value;
	}
	return n;
}

static void list_sql(const struct audit_filter *filter, const char *const *names, size_t n,
		     struct buf *sql)
{
	buf_append_str(sql, "select " COLUMNS " from audit where seq > $1 and seq < $2");
	for (size_t i = 0; i < n; i++)
		buf_printf(sql, " and %s = $%zu", names[i], i + 4);
	buf_printf(sql, " order by seq%s limit $3", filter->newest ? " desc" : "");
}

static void read_row(const struct db_query *query, struct audit_row *row)
{
	*row = (struct audit_row){ .seq = db_column_int(query, 0),
				   .at_unix_ms = db_column_int(query, 1) };
	str_copy(row->account_id, sizeof(row->account_id), db_column_text(query, 2));
	str_copy(row->key_id, sizeof(row->key_id), db_column_text(query, 3));
	str_copy(row->sandbox_id, sizeof(row->sandbox_id), db_column_text(query, 4));
	str_copy(row->operation, sizeof(row->operation), db_column_text(query, 5));
	str_copy(row->request_id, sizeof(row->request_id), db_column_text(query, 6));
	str_copy(row->result, sizeof(row->result), db_column_text(query, 7));
	row->body = xstrdup(db_column_text(query, 8));
	str_copy(row->hash, sizeof(row->hash), db_column_text(query, 9));
}

static void reverse(struct audit_row *rows, size_t n)
{
	for (size_t i = 0; i < n / 2; i++) {
		struct audit_row row = rows[i];

		rows[i] = rows[n - 1 - i];
		rows[n - 1 - i] = row;
	}
}

int audit_list(struct db_txn *txn, const struct audit_filter *filter, struct audit_row **ret,
	       size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	_cleanup_buf_ struct buf sql = BUF_INIT;
	const char *names[6], *values[6];
	size_t n_conditions = conditions(filter, names, values), n = 0;
	struct audit_row *rows;
	int r;

	list_sql(filter, names, n_conditions, &sql);
	r = db_query(txn, buf_str(&sql), &query, err);
	if (r < 0)
		return r;
	db_bind_int(&query, 1, filter->after_seq);
	db_bind_int(&query, 2, filter->before_seq ? filter->before_seq : INT64_MAX);
	db_bind_int(&query, 3, filter->limit);
	for (size_t i = 0; i < n_conditions; i++)
		db_bind_text(&query, (int)i + 4, values[i]);
	rows = xcalloc(filter->limit + 1, sizeof(*rows));
	while ((r = db_step(&query, err)) > 0 && n < filter->limit)
		read_row(&query, &rows[n++]);
	if (r < 0) {
		audit_rows_free(rows, n);
		return r;
	}
	if (filter->newest)
		reverse(rows, n);
	*ret = rows;
	*ret_n = n;
	return 0;
}

/* ---- dropping the old ---- */

int audit_newest_before(struct db_txn *txn, int64_t unix_ms, int64_t *ret_seq, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select coalesce(max(seq), 0) from audit where seq <"
			 " coalesce((select min(seq) from audit where at_unix_ms >= $1),"
			 " (select last_seq + 1 from audit_state))",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, unix_ms);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret_seq = db_column_int(&query, 0);
	return 0;
}

static int hash_of(struct db_txn *txn, int64_t seq, char out[CHAIN_HASH_SIZE], struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "select hash from audit where seq = $1", &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, seq);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(err, -ENOENT, "the audit has no record %lld", (long long)seq);
	str_copy(out, CHAIN_HASH_SIZE, db_column_text(&query, 0));
	return 0;
}

int audit_prune(struct db_txn *txn, int64_t seq, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	char hash[CHAIN_HASH_SIZE];
	int r = hash_of(txn, seq, hash, err);

	if (r == 0)
		r = set_state(txn, "update audit_state set pruned_seq = $1, pruned_hash = $2", seq,
			      hash, err);
	if (r == 0)
		r = db_query(txn, "delete from audit where seq <= $1", &query, err);
	if (r < 0)
		return r;
	db_bind_int(&query, 1, seq);
	return db_run(&query, NULL, err);
}

/* ---- what is under way ---- */

int audit_open_insert(struct db_txn *txn, int64_t id, const char *body, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "insert into audit_open (id, body) values ($1, $2)", &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, id);
	db_bind_text(&query, 2, body);
	return db_run(&query, NULL, err);
}

int audit_open_delete(struct db_txn *txn, int64_t id, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "delete from audit_open where id = $1", &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, id);
	return db_run(&query, NULL, err);
}

int audit_open_list(struct db_txn *txn, struct audit_open **ret, size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	struct audit_open *list = NULL;
	size_t n = 0, cap = 0;
	int r = db_query(txn, "select id, body from audit_open order by id", &query, err);

	while (r == 0 && (r = db_step(&query, err)) > 0) {
		if (n == cap) {
			cap = cap ? cap * 2 : 16;
			list = xrealloc(list, cap * sizeof(*list));
		}
		list[n++] = (struct audit_open){ db_column_int(&query, 0),
						 xstrdup(db_column_text(&query, 1)) };
		r = 0;
	}
	if (r < 0) {
		while (n > 0)
			free(list[--n].body);
		free(list);
		return r;
	}
	*ret = list;
	*ret_n = n;
	return 0;
}
