/* Snapshots as rows. */
#include "store/snapshots.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "store/egress.h"

#define SNAPSHOT_COLUMNS                                                                           \
	"id, node_id, account_id, name, status, source_id, size, milli_vcpus, memory_mb, disk_gb," \
	" image, image_digest, template_key, labels, generation, bytes, created_unix_ms, egress,"  \
	" guest_address, image_config"

void snapshot_row_clear(struct snapshot_row *row)
{
	free(row->labels);
	free(row->egress);
	free(row->image_config);
	row->labels = row->egress = row->image_config = NULL;
}

void snapshot_rows_free(struct snapshot_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		snapshot_row_clear(&rows[i]);
	free(rows);
}

static void copy_column(char *out, size_t out_size, const struct db_query *query, int column)
{
	str_copy(out, out_size, db_column_text(query, column));
}

/* The columns are those of SNAPSHOT_COLUMNS. */
static void read_row(const struct db_query *query, struct snapshot_row *ret)
{
	struct snapshot_row row = { 0 };
	int c = 0;

	copy_column(row.id, sizeof(row.id), query, c++);
	copy_column(row.node_id, sizeof(row.node_id), query, c++);
	copy_column(row.account_id, sizeof(row.account_id), query, c++);
	copy_column(row.name, sizeof(row.name), query, c++);
	row.ready = str_eq(db_column_text(query, c++), "ready");
	copy_column(row.source_id, sizeof(row.source_id), query, c++);
	copy_column(row.size, sizeof(row.size), query, c++);
	row.milli_vcpus = (uint32_t)db_column_int(query, c++);
	row.memory_mb = (uint32_t)db_column_int(query, c++);
	row.disk_gb = (uint32_t)db_column_int(query, c++);
	copy_column(row.image, sizeof(row.image), query, c++);
	copy_column(row.image_digest, sizeof(row.image_digest), query, c++);
	copy_column(row.template_key, sizeof(row.template_key), query, c++);
	row.labels = xstrdup(db_column_text(query, c++));
	row.generation = (uint64_t)db_column_int(query, c++);
	row.bytes = db_column_int(query, c++);
	row.created_unix_ms = db_column_int(query, c++);
	row.egress = xstrdup(db_column_text(query, c++));
	copy_column(row.guest_address, sizeof(row.guest_address), query, c++);
	row.image_config = xstrdup(db_column_text(query, c++));
	*ret = row;
}

int snapshots_insert(struct db_txn *txn, const struct snapshot_row *row, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int p = 1;
	int r = db_query(txn,
			 "insert into snapshots (" SNAPSHOT_COLUMNS ") values ($1, $2, $3, $4, $5,"
			 " $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, p++, row->id);
	db_bind_text(&query, p++, row->node_id);
	db_bind_text(&query, p++, row->account_id);
	db_bind_text(&query, p++, row->name);
	db_bind_text(&query, p++, row->ready ? "ready" : "making");
	db_bind_text(&query, p++, row->source_id);
	db_bind_text(&query, p++, row->size);
	db_bind_int(&query, p++, row->milli_vcpus);
	db_bind_int(&query, p++, row->memory_mb);
	db_bind_int(&query, p++, row->disk_gb);
	db_bind_text(&query, p++, row->image);
	db_bind_text(&query, p++, row->image_digest);
	db_bind_text(&query, p++, row->template_key);
	db_bind_text(&query, p++, row->labels);
	db_bind_int(&query, p++, (int64_t)row->generation);
	db_bind_int(&query, p++, row->bytes);
	db_bind_int(&query, p++, row->created_unix_ms);
	db_bind_text(&query, p++, row->egress ? row->egress : EGRESS_NOTHING);
	db_bind_text(&query, p++, row->guest_address);
	db_bind_text(&query, p++, row->image_config ? row->image_config : "{}");
	return db_run(&query, NULL, err);
}

int snapshots_by_name(struct db_txn *txn, const char *account_id, const char *name,
		      struct snapshot_row *ret, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select " SNAPSHOT_COLUMNS " from snapshots"
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
		return err_code(err, -ENOENT, "snapshot_not_found", "no snapshot '%.64s'", name);
	read_row(&query, ret);
	return 0;
}

int snapshots_list(struct db_txn *txn, const char *account_id, struct snapshot_row **ret,
		   size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	struct snapshot_row *rows = NULL;
	size_t n = 0;
	int r = db_query(txn,
			 account_id ? "select " SNAPSHOT_COLUMNS " from snapshots"
				      " where account_id = $1 order by name"
				    : "select " SNAPSHOT_COLUMNS " from snapshots order by name",
			 &query, err);

	if (r < 0)
		return r;
	if (account_id)
		db_bind_text(&query, 1, account_id);
	while ((r = db_step(&query, err)) > 0) {
		rows = xrealloc(rows, (n + 1) * sizeof(*rows));
		read_row(&query, &rows[n++]);
	}
	if (r < 0) {
		snapshot_rows_free(rows, n);
		return r;
	}
	*ret = rows;
	*ret_n = n;
	return 0;
}

static int count_by(struct db_txn *txn, const char *sql, const char *value, int64_t *ret_n,
		    struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, sql, &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, value);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret_n = db_column_int(&query, 0);
	return 0;
}

int snapshots_count(struct db_txn *txn, const char *account_id, int64_t *ret_n, struct err *err)
{
	return count_by(txn, "select count(*) from snapshots where account_id = $1", account_id,
			ret_n, err);
}

int snapshots_count_image(struct db_txn *txn, const char *image, int64_t *ret_n, struct err *err)
{
	return count_by(txn, "select count(*) from snapshots where image = $1", image, ret_n, err);
}

int snapshots_set_ready(struct db_txn *txn, const char *id, int64_t bytes, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "update snapshots set status = 'ready', bytes = $1 where id = $2",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, bytes);
	db_bind_text(&query, 2, id);
	return db_run(&query, NULL, err);
}

int snapshots_delete(struct db_txn *txn, const char *id, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "delete from snapshots where id = $1", &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, id);
	return db_run(&query, NULL, err);
}

int templates_count_users(struct db_txn *txn, const char *template_key, int64_t *ret_n,
			  struct err *err)
{
	return count_by(txn,
			"select (select count(*) from sandboxes"
			" where template_key = $1 and ended_unix_ms is null)"
			" + (select count(*) from snapshots where template_key = $1)",
			template_key, ret_n, err);
}
