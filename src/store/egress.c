/* Rules, slots and traffic of sandboxes. */
#include "store/egress.h"

#include <errno.h>

static int run_one(struct db_query *query, const char *id, struct err *err)
{
	int64_t changed;
	int r = db_run(query, &changed, err);

	if (r == 0 && changed == 0)
		r = err_set(err, -ESTALE, "sandbox '%s' has ended by now", id);
	return r;
}

/* The statement takes the text as $1 and the id as $2. */
static int set_text(struct db_txn *txn, const char *statement, const char *id, const char *egress,
		    struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, statement, &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, egress);
	db_bind_text(&query, 2, id);
	return run_one(&query, id, err);
}

int egress_set_next(struct db_txn *txn, const char *id, const char *egress, struct err *err)
{
	return set_text(txn,
			"update sandboxes set egress_next = $1"
			" where id = $2 and ended_unix_ms is null",
			id, egress, err);
}

int egress_set(struct db_txn *txn, const char *id, const char *egress, struct err *err)
{
	return set_text(txn,
			"update sandboxes set egress = $1, egress_next = null"
			" where id = $2 and ended_unix_ms is null",
			id, egress, err);
}

int slot_set_row(struct db_txn *txn, const char *id, uint32_t slot, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "update sandboxes set slot = $1 where id = $2 and ended_unix_ms is null",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, slot);
	db_bind_text(&query, 2, id);
	return run_one(&query, id, err);
}

int slot_clear_row(struct db_txn *txn, const char *id, const struct traffic *traffic,
		   struct err *err)
{
	const struct traffic none = { 0 };
	const struct traffic *t = traffic ? traffic : &none;
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(
		txn,
		"update sandboxes set slot = null, out_packets = out_packets + $1,"
		" out_bytes = out_bytes + $2, in_packets = in_packets + $3,"
		" in_bytes = in_bytes + $4, denied_packets = denied_packets + $5 where id = $6",
		&query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, (int64_t)t->out_packets);
	db_bind_int(&query, 2, (int64_t)t->out_bytes);
	db_bind_int(&query, 3, (int64_t)t->in_packets);
	db_bind_int(&query, 4, (int64_t)t->in_bytes);
	db_bind_int(&query, 5, (int64_t)t->denied_packets);
	db_bind_text(&query, 6, id);
	return db_run(&query, NULL, err);
}
