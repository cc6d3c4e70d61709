/* Sandboxes as rows. */
#include "store/sandboxes.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/str.h"
#include "store/egress.h"

#define ROW_COLUMNS                                                                                \
	"id, node_id, account_id, key_id, name, status, size, milli_vcpus, memory_mb, disk_gb,"    \
	" image, image_digest, isolation, labels, generation, uid, created_unix_ms,"               \
	" expires_unix_ms, started_unix_ms, ended_unix_ms, reason, reason_text, parent_id,"        \
	" on_timeout, idle_pause_minutes, machine_id, template_key, remaining_ms, paused_unix_ms," \
	" egress, egress_next, coalesce(slot, -1), out_packets, out_bytes, in_packets, in_bytes,"  \
	" denied_packets, guest_address, image_config"

#define INSERT_COLUMNS                                                                             \
	"id, node_id, account_id, key_id, name, status, size, milli_vcpus, memory_mb, disk_gb,"    \
	" image, image_digest, isolation, labels, generation, uid, created_unix_ms,"               \
	" expires_unix_ms, reason, reason_text, parent_id, on_timeout, idle_pause_minutes,"        \
	" machine_id, template_key, egress, slot, guest_address, image_config"

void sandbox_row_clear(struct sandbox_row *row)
{
	free(row->labels);
	free(row->egress);
	free(row->egress_next);
	free(row->image_config);
	row->labels = row->egress = row->egress_next = row->image_config = NULL;
}

void sandbox_rows_free(struct sandbox_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sandbox_row_clear(&rows[i]);
	free(rows);
}

static void copy_column(char *out, size_t out_size, const struct db_query *query, int column)
{
	str_copy(out, out_size, db_column_text(query, column));
}

/* The columns are those of ROW_COLUMNS. */
static void read_row(const struct db_query *query, struct sandbox_row *ret)
{
	struct sandbox_row row = { 0 };
	const char *next;
	int64_t slot;
	int c = 0;

	copy_column(row.id, sizeof(row.id), query, c++);
	copy_column(row.node_id, sizeof(row.node_id), query, c++);
	copy_column(row.account_id, sizeof(row.account_id), query, c++);
	copy_column(row.key_id, sizeof(row.key_id), query, c++);
	copy_column(row.name, sizeof(row.name), query, c++);
	copy_column(row.status, sizeof(row.status), query, c++);
	copy_column(row.size, sizeof(row.size), query, c++);
	row.milli_vcpus = (uint32_t)db_column_int(query, c++);
	row.memory_mb = (uint32_t)db_column_int(query, c++);
	row.disk_gb = (uint32_t)db_column_int(query, c++);
	copy_column(row.image, sizeof(row.image), query, c++);
	copy_column(row.image_digest, sizeof(row.image_digest), query, c++);
	copy_column(row.isolation, sizeof(row.isolation), query, c++);
	row.labels = xstrdup(db_column_text(query, c++));
	row.generation = (uint64_t)db_column_int(query, c++);
	row.uid = db_column_int(query, c++);
	row.created_unix_ms = db_column_int(query, c++);
	row.expires_unix_ms = db_column_int(query, c++);
	row.started_unix_ms = db_column_int(query, c++);
	row.ended_unix_ms = db_column_int(query, c++);
	copy_column(row.reason, sizeof(row.reason), query, c++);
	copy_column(row.reason_text, sizeof(row.reason_text), query, c++);
	copy_column(row.parent_id, sizeof(row.parent_id), query, c++);
	row.pause_on_timeout = str_eq(db_column_text(query, c++), "pause");
	row.idle_pause_minutes = (uint32_t)db_column_int(query, c++);
	copy_column(row.machine_id, sizeof(row.machine_id), query, c++);
	copy_column(row.template_key, sizeof(row.template_key), query, c++);
	row.remaining_ms = db_column_int(query, c++);
	row.paused_unix_ms = db_column_int(query, c++);
	row.egress = xstrdup(db_column_text(query, c++));
	next = db_column_text(query, c++);
	row.egress_next = *next ? xstrdup(next) : NULL;
	slot = db_column_int(query, c++);
	row.has_slot = slot >= 0;
	row.slot = row.has_slot ? (uint32_t)slot : 0;
	row.traffic.out_packets = (uint64_t)db_column_int(query, c++);
	row.traffic.out_bytes = (uint64_t)db_column_int(query, c++);
	row.traffic.in_packets = (uint64_t)db_column_int(query, c++);
	row.traffic.in_bytes = (uint64_t)db_column_int(query, c++);
	row.traffic.denied_packets = (uint64_t)db_column_int(query, c++);
	copy_column(row.guest_address, sizeof(row.guest_address), query, c++);
	row.image_config = xstrdup(db_column_text(query, c++));
	*ret = row;
}

static int read_rows(struct db_query *query, struct sandbox_row **ret, size_t *ret_n,
		     struct err *err)
{
	struct sandbox_row *rows = NULL;
	size_t n = 0, cap = 0;
	int r;

	while ((r = db_step(query, err)) > 0) {
		if (n == cap) {
			cap = cap ? cap * 2 : 16;
			rows = xrealloc(rows, cap * sizeof(*rows));
		}
		read_row(query, &rows[n++]);
	}
	if (r < 0) {
		sandbox_rows_free(rows, n);
		return r;
	}
	*ret = rows;
	*ret_n = n;
	return 0;
}

static int insert_label(struct db_txn *txn, const char *id, const struct sandbox_label *label,
			struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into sandbox_labels (sandbox_id, name, value) values ($1, $2, $3)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, id);
	db_bind_text(&query, 2, label->name);
	db_bind_text(&query, 3, label->value);
	return db_run(&query, NULL, err);
}

static int insert_row(struct db_txn *txn, const struct sandbox_row *row, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int p = 1;
	int r = db_query(
		txn,
		"insert into sandboxes (" INSERT_COLUMNS
		") values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,"
		" $15, $16, $17, $18, '', '', $19, $20, $21, $22, $23, $24, $25, $26, $27)",
		&query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, p++, row->id);
	db_bind_text(&query, p++, row->node_id);
	db_bind_text(&query, p++, row->account_id);
	db_bind_text(&query, p++, row->key_id);
	db_bind_text(&query, p++, row->name);
	db_bind_text(&query, p++, row->status);
	db_bind_text(&query, p++, row->size);
	db_bind_int(&query, p++, row->milli_vcpus);
	db_bind_int(&query, p++, row->memory_mb);
	db_bind_int(&query, p++, row->disk_gb);
	db_bind_text(&query, p++, row->image);
	db_bind_text(&query, p++, row->image_digest);
	db_bind_text(&query, p++, row->isolation);
	db_bind_text(&query, p++, row->labels);
	db_bind_int(&query, p++, (int64_t)row->generation);
	db_bind_int(&query, p++, row->uid);
	db_bind_int(&query, p++, row->created_unix_ms);
	db_bind_int(&query, p++, row->expires_unix_ms);
	db_bind_text(&query, p++, row->parent_id);
	db_bind_text(&query, p++, row->pause_on_timeout ? "pause" : "destroy");
	db_bind_int(&query, p++, row->idle_pause_minutes);
	db_bind_text(&query, p++, row->machine_id);
	db_bind_text(&query, p++, row->template_key);
	db_bind_text(&query, p++, row->egress ? row->egress : EGRESS_NOTHING);
	if (row->has_slot)
		db_bind_int(&query, p++, row->slot);
	else
		db_bind_null(&query, p++);
	db_bind_text(&query, p++, row->guest_address);
	db_bind_text(&query, p++, row->image_config ? row->image_config : "{}");
	return db_run(&query, NULL, err);
}

int sandboxes_insert(struct db_txn *txn, const struct sandbox_row *row,
		     const struct sandbox_label *labels, size_t n_labels, struct err *err)
{
	int r = insert_row(txn, row, err);

	for (size_t i = 0; r == 0 && i < n_labels; i++)
		r = insert_label(txn, row->id, &labels[i], err);
	return r;
}

int sandboxes_get(struct db_txn *txn, const char *id, const char *account_id,
		  struct sandbox_row *ret, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 account_id ? "select " ROW_COLUMNS " from sandboxes"
				      " where id = $1 and account_id = $2"
				    : "select " ROW_COLUMNS " from sandboxes where id = $1",
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
		return err_code(err, -ENOENT, "not_found", "no sandbox '%s'", id);
	read_row(&query, ret);
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

int sandboxes_count_alive(struct db_txn *txn, const char *account_id, int64_t *ret_n,
			  struct err *err)
{
	return count_by(txn,
			"select count(*) from sandboxes where account_id = $1"
			" and status in ('creating', 'running', 'pausing', 'resuming')",
			account_id, ret_n, err);
}

int sandboxes_count_paused(struct db_txn *txn, const char *account_id, int64_t *ret_n,
			   struct err *err)
{
	return count_by(txn,
			"select count(*) from sandboxes where account_id = $1"
			" and status in ('pausing', 'paused')",
			account_id, ret_n, err);
}

int sandboxes_count_image(struct db_txn *txn, const char *image, int64_t *ret_n, struct err *err)
{
	return count_by(txn,
			"select count(*) from sandboxes where image = $1 and ended_unix_ms is null",
			image, ret_n, err);
}

int sandboxes_uid_taken(struct db_txn *txn, const char *node_id, int64_t uid, bool *ret_taken,
			struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "select 1 from sandboxes where node_id = $1 and uid = $2", &query,
			 err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, node_id);
	db_bind_int(&query, 2, uid);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret_taken = r == 1;
	return 0;
}

static void list_sql(const struct sandbox_filter *filter, struct buf *sql)
{
	buf_append_str(sql, "select " ROW_COLUMNS " from sandboxes where account_id = $1");
	if (!filter->status)
		buf_append_str(sql, " and ended_unix_ms is null");
	else if (!str_eq(filter->status, "all"))
		buf_append_str(sql, " and status = $2");
	if (filter->image)
		buf_append_str(sql, " and image = $3");
	if (filter->label_name)
		buf_append_str(sql, " and exists (select 1 from sandbox_labels"
				    " where sandbox_id = sandboxes.id and name = $4");
	if (filter->label_name && filter->label_value)
		buf_append_str(sql, " and value = $5");
	if (filter->label_name)
		buf_append_str(sql, ")");
	if (filter->ids)
		buf_append_str(sql, " and $9 like '%,' || id || ',%'");
	for (size_t i = 0; i < filter->n_labels; i++)
		buf_printf(sql,
			   " and exists (select 1 from sandbox_labels where sandbox_id ="
			   " sandboxes.id and name = $%zu and value = $%zu)",
			   10 + 2 * i, 11 + 2 * i);
	if (filter->before_created_unix_ms)
		buf_append_str(sql,
			       " and (created_unix_ms < $6 or (created_unix_ms = $6 and id < $7))");
	buf_append_str(sql, " order by created_unix_ms desc, id desc limit $8");
}

int sandboxes_list(struct db_txn *txn, const struct sandbox_filter *filter,
		   struct sandbox_row **ret, size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	_cleanup_buf_ struct buf sql = BUF_INIT, ids = BUF_INIT;
	int r;

	list_sql(filter, &sql);
	buf_append_char(&ids, ',');
	for (size_t i = 0; filter->ids && filter->ids[i]; i++)
		buf_printf(&ids, "%s,", filter->ids[i]);
	r = db_query(txn, buf_str(&sql), &query, err);
	if (r < 0)
		return r;
	db_bind_text(&query, 1, filter->account_id);
	if (filter->status && !str_eq(filter->status, "all"))
		db_bind_text(&query, 2, filter->status);
	if (filter->image)
		db_bind_text(&query, 3, filter->image);
	if (filter->label_name)
		db_bind_text(&query, 4, filter->label_name);
	if (filter->label_name && filter->label_value)
		db_bind_text(&query, 5, filter->label_value);
	if (filter->before_created_unix_ms) {
		db_bind_int(&query, 6, filter->before_created_unix_ms);
		db_bind_text(&query, 7, filter->before_id);
	}
	db_bind_int(&query, 8, filter->limit);
	if (filter->ids)
		db_bind_text(&query, 9, buf_str(&ids));
	for (size_t i = 0; i < filter->n_labels; i++) {
		db_bind_text(&query, (int)(10 + 2 * i), filter->labels[i].name);
		db_bind_text(&query, (int)(11 + 2 * i), filter->labels[i].value);
	}
	return read_rows(&query, ret, ret_n, err);
}

int sandboxes_unended(struct db_txn *txn, const char *node_id, struct sandbox_row **ret,
		      size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(
		txn,
		"select " ROW_COLUMNS " from sandboxes"
		" where node_id = $1 and ended_unix_ms is null order by created_unix_ms, id",
		&query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, node_id);
	return read_rows(&query, ret, ret_n, err);
}

static int run_one(struct db_query *query, const char *id, struct err *err)
{
	int64_t changed;
	int r = db_run(query, &changed, err);

	if (r < 0)
		return r;
	if (changed == 0)
		return err_set(err, -ESTALE, "sandbox '%s' is in another state by now", id);
	return 0;
}

int sandboxes_move(struct db_txn *txn, const char *id, const char *from, const char *to,
		   struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "update sandboxes set status = $1 where id = $2 and status = $3",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, to);
	db_bind_text(&query, 2, id);
	db_bind_text(&query, 3, from);
	return run_one(&query, id, err);
}

static int set_time(struct db_txn *txn, const char *sql, const char *id, int64_t unix_ms,
		    struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, sql, &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, unix_ms);
	db_bind_text(&query, 2, id);
	return run_one(&query, id, err);
}

int sandboxes_set_started(struct db_txn *txn, const char *id, int64_t started_unix_ms,
			  struct err *err)
{
	return set_time(txn, "update sandboxes set started_unix_ms = $1 where id = $2", id,
			started_unix_ms, err);
}

int sandboxes_set_expires(struct db_txn *txn, const char *id, int64_t expires_unix_ms,
			  struct err *err)
{
	return set_time(txn,
			"update sandboxes set expires_unix_ms = $1"
			" where id = $2 and ended_unix_ms is null",
			id, expires_unix_ms, err);
}

int sandboxes_set_pausing(struct db_txn *txn, const char *id, int64_t remaining_ms, struct err *err)
{
	return set_time(txn,
			"update sandboxes set status = 'pausing', remaining_ms = $1"
			" where id = $2 and status = 'running'",
			id, remaining_ms, err);
}

int sandboxes_set_paused(struct db_txn *txn, const char *id, int64_t paused_unix_ms,
			 struct err *err)
{
	return set_time(txn,
			"update sandboxes set status = 'paused', paused_unix_ms = $1"
			" where id = $2 and status = 'pausing'",
			id, paused_unix_ms, err);
}

int sandboxes_set_not_pausing(struct db_txn *txn, const char *id, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "update sandboxes set status = 'running', remaining_ms = null"
			 " where id = $1 and status = 'pausing'",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, id);
	return run_one(&query, id, err);
}

int sandboxes_set_resumed(struct db_txn *txn, const char *id, uint64_t generation,
			  int64_t expires_unix_ms, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "update sandboxes set status = 'running', generation = $1,"
			 " expires_unix_ms = $2, remaining_ms = null, paused_unix_ms = null"
			 " where id = $3 and status = 'resuming'",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, (int64_t)generation);
	db_bind_int(&query, 2, expires_unix_ms);
	db_bind_text(&query, 3, id);
	return run_one(&query, id, err);
}

int sandboxes_end(struct db_txn *txn, const char *id, const struct sandbox_end *end,
		  struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(
		txn,
		"update sandboxes set status = $1, started_unix_ms = coalesce(started_unix_ms, $2),"
		" ended_unix_ms = $3, reason = $4, reason_text = $5, uid = null"
		" where id = $6 and ended_unix_ms is null",
		&query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, end->status);
	if (end->started_unix_ms)
		db_bind_int(&query, 2, end->started_unix_ms);
	else
		db_bind_null(&query, 2);
	db_bind_int(&query, 3, end->ended_unix_ms);
	db_bind_text(&query, 4, end->reason);
	db_bind_text(&query, 5, end->reason_text);
	db_bind_text(&query, 6, id);
	return run_one(&query, id, err);
}

int sandboxes_paused_before(struct db_txn *txn, const char *node_id, int64_t unix_ms,
			    struct sandbox_row **ret, size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select " ROW_COLUMNS " from sandboxes"
			 " where node_id = $1 and status = 'paused' and paused_unix_ms < $2",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, node_id);
	db_bind_int(&query, 2, unix_ms);
	return read_rows(&query, ret, ret_n, err);
}

int sandboxes_delete_ended_before(struct db_txn *txn, int64_t unix_ms, int64_t *ret_n,
				  struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "delete from sandboxes where ended_unix_ms < $1", &query, err);

	if (r < 0)
		return r;
	db_bind_int(&query, 1, unix_ms);
	return db_run(&query, ret_n, err);
}
