/* Networks and members as rows. */
#include "store/networks.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

#define NETWORK_COLUMNS "number, account_id, name, created_unix_ms"
#define MEMBER_SELECT                                                                              \
	"select m.network, n.name, m.sandbox_id, m.name from network_members m"                    \
	" join networks n on n.number = m.network"

static void read_network(const struct db_query *query, struct network_row *ret)
{
	*ret = (struct network_row){
		.number = (uint32_t)db_column_int(query, 0),
		.created_unix_ms = db_column_int(query, 3),
	};
	str_copy(ret->account_id, sizeof(ret->account_id), db_column_text(query, 1));
	str_copy(ret->name, sizeof(ret->name), db_column_text(query, 2));
}

int networks_insert(struct db_txn *txn, const struct network_row *row, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "insert into networks (" NETWORK_COLUMNS ") values ($1, $2, $3, $4)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, row->number);
	db_bind_text(&query, 2, row->account_id);
	db_bind_text(&query, 3, row->name);
	db_bind_int(&query, 4, row->created_unix_ms);
	return db_run(&query, NULL, err);
}

int networks_by_name(struct db_txn *txn, const char *account_id, const char *name,
		     struct network_row *ret, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select " NETWORK_COLUMNS " from networks"
			 " where account_id = $1 and name = $2",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	db_bind_text(&query, 2, name);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_code(err, -ENOENT, "network_not_found", "no network '%.64s'", name);
	read_network(&query, ret);
	return 0;
}

int networks_list(struct db_txn *txn, const char *account_id, struct network_row **ret,
		  size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	_cleanup_free_ struct network_row *rows = NULL;
	size_t n = 0;
	int r = db_query(txn,
			 "select " NETWORK_COLUMNS " from networks where account_id = $1"
			 " order by name",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	while ((r = db_step(&query, err)) > 0) {
		rows = xrealloc(rows, (n + 1) * sizeof(*rows));
		read_network(&query, &rows[n++]);
	}
	if (r < 0)
		return r;
	*ret = STEAL(rows);
	*ret_n = n;
	return 0;
}

int networks_count(struct db_txn *txn, const char *account_id, int64_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "select count(*) from networks where account_id = $1", &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret_n = db_column_int(&query, 0);
	return 0;
}

int networks_delete(struct db_txn *txn, uint32_t number, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "delete from networks where number = $1", &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, number);
	return db_run(&query, NULL, err);
}

int network_members_insert(struct db_txn *txn, uint32_t network, const char *sandbox_id,
			   const char *name, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into network_members (network, sandbox_id, name)"
			 " values ($1, $2, $3)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, network);
	db_bind_text(&query, 2, sandbox_id);
	db_bind_text(&query, 3, name);
	return db_run(&query, NULL, err);
}

int network_members_name_taken(struct db_txn *txn, uint32_t network, const char *name,
			       bool *ret_taken, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "select 1 from network_members where network = $1 and name = $2",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, network);
	db_bind_text(&query, 2, name);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret_taken = r == 1;
	return 0;
}

int network_members_delete(struct db_txn *txn, uint32_t network, const char *sandbox_id,
			   struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int64_t changed;
	int r = db_query(txn, "delete from network_members where network = $1 and sandbox_id = $2",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, network);
	db_bind_text(&query, 2, sandbox_id);
	r = db_run(&query, &changed, err);
	if (r == 0 && changed == 0)
		r = err_set(err, -ENOENT, "sandbox '%s' is no member", sandbox_id);
	return r;
}

int network_members_delete_all(struct db_txn *txn, const char *sandbox_id, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "delete from network_members where sandbox_id = $1", &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, sandbox_id);
	return db_run(&query, NULL, err);
}

static int read_members(struct db_query *query, struct network_member_row **ret, size_t *ret_n,
			struct err *err)
{
	_cleanup_free_ struct network_member_row *rows = NULL;
	size_t n = 0;
	int r;

	while ((r = db_step(query, err)) > 0) {
		struct network_member_row *row;

		rows = xrealloc(rows, (n + 1) * sizeof(*rows));
		row = &rows[n++];
		*row = (struct network_member_row){ .network = (uint32_t)db_column_int(query, 0) };
		str_copy(row->network_name, sizeof(row->network_name), db_column_text(query, 1));
		str_copy(row->sandbox_id, sizeof(row->sandbox_id), db_column_text(query, 2));
		str_copy(row->name, sizeof(row->name), db_column_text(query, 3));
	}
	if (r < 0)
		return r;
	*ret = STEAL(rows);
	*ret_n = n;
	return 0;
}

int network_members_list(struct db_txn *txn, uint32_t network, struct network_member_row **ret,
			 size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, MEMBER_SELECT " where m.network = $1 order by m.name", &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, network);
	return read_members(&query, ret, ret_n, err);
}

int network_members_of(struct db_txn *txn, const char *sandbox_id, struct network_member_row **ret,
		       size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, MEMBER_SELECT " where m.sandbox_id = $1 order by n.name", &query,
			 err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, sandbox_id);
	return read_members(&query, ret, ret_n, err);
}
