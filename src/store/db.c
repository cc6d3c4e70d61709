/*
 * SQLite behind db.h.
 *
 * Three connections in WAL mode: the writer, whose mutex makes write transactions queue up in order
 * instead of spinning on SQLITE_BUSY, the reader, and one more for reading that takes long.
 * synchronous=FULL syncs the log at every commit. A directory is locked by its daemon before this
 * opens, so that nobody else writes.
 *
 * Compiling a statement takes longer than running most of ours. So each connection keeps those that
 * it ran last, by their text, and lends one to whoever asks for the same.
 */
#include "store/db.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/db_migrate.h"

#define DB_BUSY_TIMEOUT_MS 5000
#define RESERVED_BYTES	   (8u << 20) /* on a full disk, ends can be written for a while */
#define KEPT_STATEMENTS	   64

struct kept_statement {
	sqlite3_stmt *stmt; /* NULL: none */
	uint64_t used;	    /* when, in turns */
	bool lent;
};

struct db_conn {
	pthread_mutex_t lock;
	sqlite3 *sqlite;
	void (*watch)(void *arg); /* under the lock */
	void *watch_arg;
	struct kept_statement kept[KEPT_STATEMENTS]; /* under the lock */
	uint64_t turn;
};

struct db {
	char *path;
	struct db_conn writer;
	struct db_conn reader;
	struct db_conn long_reader;
};

/* ---- errors ---- */

static int sqlite_error(sqlite3 *sqlite, int r, const char *what, struct err *err)
{
	const char *reason = sqlite ? sqlite3_errmsg(sqlite) : sqlite3_errstr(r);

	switch (r & 0xff) {
	case SQLITE_CONSTRAINT:
		return err_set(err, -EEXIST, "%s: %s", what, reason);
	case SQLITE_FULL:
		err_code(err, -ENOSPC, "disk_full", "%s: %s", what, reason);
		err_hint(err, "free space on the file system of the state directory");
		return -ENOSPC;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		err_code(err, -EUCLEAN, "database_damaged", "%s: %s", what, reason);
		err_hint(err, "stop the daemon and put back a copy of the database that is whole");
		return -EUCLEAN;
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return err_set(err, -EBUSY, "%s: %s", what, reason);
	case SQLITE_NOMEM:
		return err_set(err, -ENOMEM, "%s: %s", what, reason);
	case SQLITE_CANTOPEN:
		return err_set(err, -EACCES, "%s: %s", what, reason);
	default:
		return err_set(err, -EIO, "%s: %s", what, reason);
	}
}

static int conn_exec(struct db_conn *conn, const char *sql, const char *what, struct err *err)
{
	int r = sqlite3_exec(conn->sqlite, sql, NULL, NULL, NULL);

	return r == SQLITE_OK ? 0 : sqlite_error(conn->sqlite, r, what, err);
}

/* ---- statements that are kept ---- */

static sqlite3_stmt *borrow(struct db_conn *conn, const char *sql)
{
	for (size_t i = 0; i < KEPT_STATEMENTS; i++) {
		struct kept_statement *one = &conn->kept[i];

		if (!one->stmt || one->lent || strcmp(sqlite3_sql(one->stmt), sql) != 0)
			continue;
		one->lent = true;
		one->used = ++conn->turn;
		return one->stmt;
	}
	return NULL;
}

/* In the place of the one that was not used for longest. */
static void keep(struct db_conn *conn, sqlite3_stmt *stmt)
{
	struct kept_statement *oldest = NULL;

	for (size_t i = 0; i < KEPT_STATEMENTS; i++) {
		struct kept_statement *one = &conn->kept[i];

		if (!one->lent && (!oldest || one->used < oldest->used))
			oldest = one;
	}
	if (!oldest) /* all are lent: this one goes when it is given back */
		return;
	sqlite3_finalize(oldest->stmt);
	*oldest = (struct kept_statement){ .stmt = stmt, .used = ++conn->turn, .lent = true };
}

static void give_back(struct db_conn *conn, sqlite3_stmt *stmt)
{
	for (size_t i = 0; i < KEPT_STATEMENTS; i++) {
		if (conn->kept[i].stmt != stmt)
			continue;
		sqlite3_reset(stmt);
		sqlite3_clear_bindings(stmt);
		conn->kept[i].lent = false;
		return;
	}
	sqlite3_finalize(stmt);
}

static void drop_kept(struct db_conn *conn)
{
	for (size_t i = 0; i < KEPT_STATEMENTS; i++)
		sqlite3_finalize(conn->kept[i].stmt);
}

static int prepare(struct db_conn *conn, const char *sql, sqlite3_stmt **ret, struct err *err)
{
	sqlite3_stmt *stmt = borrow(conn, sql);
	int r = SQLITE_OK;

	if (!stmt) {
		r = sqlite3_prepare_v2(conn->sqlite, sql, -1, &stmt, NULL);
		if (r == SQLITE_OK)
			keep(conn, stmt);
	}
	if (r != SQLITE_OK)
		return sqlite_error(conn->sqlite, r, "prepare a statement", err);
	*ret = stmt;
	return 0;
}

/* One statement without parameters and rows. */
static int conn_run(struct db_conn *conn, const char *sql, const char *what, struct err *err)
{
	sqlite3_stmt *stmt = NULL;
	int r = prepare(conn, sql, &stmt, err);

	if (r < 0)
		return r;
	r = sqlite3_step(stmt) == SQLITE_DONE
		    ? 0
		    : sqlite_error(conn->sqlite, sqlite3_errcode(conn->sqlite), what, err);
	give_back(conn, stmt);
	return r;
}

/* ---- transactions ---- */

static int conn_begin(struct db_conn *conn, const char *sql, struct db_txn *ret, struct err *err)
{
	int r;

	pthread_mutex_lock(&conn->lock);
	r = conn_run(conn, sql, "begin a transaction", err);
	if (r < 0) {
		pthread_mutex_unlock(&conn->lock);
		return r;
	}
	*ret = (struct db_txn){ .conn = conn };
	return 0;
}

int db_begin_write(struct db *db, struct db_txn *ret, struct err *err)
{
	return conn_begin(&db->writer, "begin immediate", ret, err);
}

int db_begin_read(struct db *db, struct db_txn *ret, struct err *err)
{
	return conn_begin(&db->reader, "begin", ret, err);
}

int db_begin_long_read(struct db *db, struct db_txn *ret, struct err *err)
{
	return conn_begin(&db->long_reader, "begin", ret, err);
}

int db_commit(struct db_txn *txn, struct err *err)
{
	struct db_conn *conn = txn->conn;
	int r = conn_run(conn, "commit", "commit a transaction", err);

	if (r < 0) {
		db_rollback(txn);
		return r;
	}
	if (txn->marked && conn->watch)
		conn->watch(conn->watch_arg);
	pthread_mutex_unlock(&conn->lock);
	txn->conn = NULL;
	return 0;
}

void db_rollback(struct db_txn *txn)
{
	if (!txn->conn)
		return;
	/* Some errors (a full disk) have rolled back already. */
	if (!sqlite3_get_autocommit(txn->conn->sqlite))
		conn_run(txn->conn, "rollback", "roll a transaction back", NULL);
	pthread_mutex_unlock(&txn->conn->lock);
	txn->conn = NULL;
}

void db_mark(struct db_txn *txn)
{
	txn->marked = true;
}

void db_watch(struct db *db, void (*fn)(void *arg), void *arg)
{
	pthread_mutex_lock(&db->writer.lock);
	db->writer.watch = fn;
	db->writer.watch_arg = arg;
	pthread_mutex_unlock(&db->writer.lock);
}

/* ---- statements ---- */

int db_query(struct db_txn *txn, const char *sql, struct db_query *ret, struct err *err)
{
	struct db_conn *conn = txn->conn;
	sqlite3_stmt *stmt = NULL;
	int r = prepare(conn, sql, &stmt, err);

	if (r < 0)
		return r;
	*ret = (struct db_query){
		.txn = txn, .conn = conn, .stmt = stmt, .bind_result = SQLITE_OK
	};
	return 0;
}

/* SQLite numbers $1 by where it first appears; its name is what the callers mean. */
static int param_index(struct db_query *query, int param)
{
	char name[16];
	int index;

	snprintf(name, sizeof(name), "$%d", param);
	index = sqlite3_bind_parameter_index(query->stmt, name);
	assert(index > 0);
	return index;
}

static void note_bind(struct db_query *query, int r)
{
	if (query->bind_result == SQLITE_OK)
		query->bind_result = r;
}

void db_bind_text(struct db_query *query, int param, const char *value)
{
	if (!value) {
		db_bind_null(query, param);
		return;
	}
	note_bind(query, sqlite3_bind_text(query->stmt, param_index(query, param), value, -1,
					   SQLITE_TRANSIENT));
}

void db_bind_int(struct db_query *query, int param, int64_t value)
{
	note_bind(query, sqlite3_bind_int64(query->stmt, param_index(query, param), value));
}

void db_bind_null(struct db_query *query, int param)
{
	note_bind(query, sqlite3_bind_null(query->stmt, param_index(query, param)));
}

int db_step(struct db_query *query, struct err *err)
{
	int r = query->bind_result;
	sqlite3 *sqlite;

	assert(query->txn && query->stmt);
	sqlite = query->txn->conn->sqlite;
	if (r == SQLITE_OK)
		r = sqlite3_step(query->stmt);
	if (r == SQLITE_ROW)
		return 1;
	if (r == SQLITE_DONE)
		return 0;
	return sqlite_error(sqlite, r, "run a statement", err);
}

int db_run(struct db_query *query, int64_t *ret_changed, struct err *err)
{
	int r = db_step(query, err);

	if (r < 0)
		return r;
	assert(r == 0);
	if (ret_changed)
		*ret_changed = sqlite3_changes64(query->txn->conn->sqlite);
	return 0;
}

int64_t db_column_int(const struct db_query *query, int column)
{
	return sqlite3_column_int64(query->stmt, column);
}

const char *db_column_text(const struct db_query *query, int column)
{
	const unsigned char *text = sqlite3_column_text(query->stmt, column);

	return text ? (const char *)text : "";
}

void db_query_end(struct db_query *query)
{
	if (query->stmt)
		give_back(query->conn, query->stmt);
	query->stmt = NULL;
}

/* ---- opening ---- */

static int conn_open(struct db_conn *conn, const char *path, struct err *err)
{
	int r = sqlite3_open_v2(path, &conn->sqlite,
				SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
				NULL);

	if (r != SQLITE_OK)
		return sqlite_error(conn->sqlite, r, "open", err);
	sqlite3_busy_timeout(conn->sqlite, DB_BUSY_TIMEOUT_MS);
	return conn_exec(conn,
			 "pragma journal_mode = wal;"
			 "pragma synchronous = full;"
			 "pragma foreign_keys = on;"
			 "pragma trusted_schema = off;",
			 "set up the connection", err);
}

static int check_integrity(struct db *db, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_begin_read(db, &txn, err);

	if (r == 0)
		r = db_query(&txn, "pragma integrity_check(1)", &query, err);
	if (r == 0)
		r = db_step(&query, err);
	if (r < 0)
		return r;
	if (strcmp(db_column_text(&query, 0), "ok") != 0)
		return sqlite_error(NULL, SQLITE_CORRUPT, db_column_text(&query, 0), err);
	return 0;
}

static int schema_version(struct db_txn *txn, int64_t *ret_version, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "select coalesce(max(version), 0) from schema_migrations", &query,
			 err);

	if (r == 0)
		r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret_version = db_column_int(&query, 0);
	return 0;
}

static int apply_migration(struct db_txn *txn, const struct db_migration *migration,
			   struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = conn_exec(txn->conn, migration->sql, migration->name, err);

	if (r == 0)
		r = db_query(
			txn,
			"insert into schema_migrations (version, applied_unix_ms) values ($1, $2)",
			&query, err);
	if (r < 0)
		return r;
	db_bind_int(&query, 1, migration->version);
	db_bind_int(&query, 2, clock_unix_ms());
	return db_run(&query, NULL, err);
}

/* All missing migrations in one transaction: the schema is of one version or of the other. */
static int migrate(struct db *db, const struct db_options *options, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t newest = options->migrations[options->n_migrations - 1].version;
	int64_t version = 0;
	int r = db_begin_write(db, &txn, err);

	if (r == 0)
		r = conn_exec(txn.conn,
			      "create table if not exists schema_migrations"
			      " (version integer primary key, applied_unix_ms bigint not null)",
			      "make the table of migrations", err);
	if (r == 0)
		r = schema_version(&txn, &version, err);
	if (r < 0)
		return r;
	if (version > newest) {
		err_code(err, -EPROTO, "database_too_new",
			 "the database has schema version %lld, this program knows %lld",
			 (long long)version, (long long)newest);
		err_hint(err, "run the version of Skerry that wrote it, or a later one");
		return -EPROTO;
	}
	for (size_t i = 0; i < options->n_migrations; i++) {
		if (options->migrations[i].version <= version)
			continue;
		r = apply_migration(&txn, &options->migrations[i], err);
		if (r < 0)
			return r;
		log_info("database migrated", "migration=%s", options->migrations[i].name);
	}
	return db_commit(&txn, err);
}

/* Blocks for the log beyond its end, which it keeps as long as the database is open: what is
 * written next needs none of the disk's. No file system has to be able to. */
static void reserve(const char *path, size_t bytes)
{
	_cleanup_free_ char *log_path = xasprintf("%s-wal", path);
	_cleanup_close_ int fd = open(log_path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, (off_t)bytes) < 0)
		log_debug("no room can be set aside for a database", "path=%s reason=\"%s\"", path,
			  strerror(errno));
}

DEFINE_CLEANUP(struct db *, db_closep, db_close);

int db_open(const char *path, struct db **ret, struct err *err)
{
	const struct db_options options = { .migrations = db_migrations,
					    .n_migrations = db_n_migrations,
					    .reserved_bytes = RESERVED_BYTES };

	return db_open_with(path, &options, ret, err);
}

int db_open_with(const char *path, const struct db_options *options, struct db **ret,
		 struct err *err)
{
	_cleanup_(db_closep) struct db *db = xcalloc(1, sizeof(*db));
	int r;

	db->path = xstrdup(path);
	pthread_mutex_init(&db->writer.lock, NULL);
	pthread_mutex_init(&db->reader.lock, NULL);
	pthread_mutex_init(&db->long_reader.lock, NULL);
	r = conn_open(&db->writer, path, err);
	if (r == 0)
		r = conn_open(&db->reader, path, err);
	if (r == 0)
		r = conn_open(&db->long_reader, path, err);
	if (r == 0 && !options->unchecked)
		r = check_integrity(db, err);
	if (r == 0)
		r = migrate(db, options, err);
	if (r < 0)
		return err_wrap(err, r, "database '%s'", path);
	if (options->reserved_bytes)
		reserve(path, options->reserved_bytes);
	*ret = STEAL(db);
	return 0;
}

void db_close(struct db *db)
{
	if (!db)
		return;
	drop_kept(&db->long_reader);
	drop_kept(&db->reader);
	drop_kept(&db->writer);
	sqlite3_close(db->long_reader.sqlite);
	sqlite3_close(db->reader.sqlite);
	sqlite3_close(db->writer.sqlite); /* the last one folds the log into the database */
	pthread_mutex_destroy(&db->long_reader.lock);
	pthread_mutex_destroy(&db->reader.lock);
	pthread_mutex_destroy(&db->writer.lock);
	free(db->path);
	free(db);
}
