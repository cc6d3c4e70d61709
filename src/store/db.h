/*
 * The database: a narrow layer over SQLite that PostgreSQL could take the place of. It knows
 * connections, transactions and statements; what the tables mean is said in the files beside it.
 *
 * Every statement runs within a transaction. One write transaction runs at a time (they wait for
 * each other); reads have a connection of their own, see what was committed last and never wait for
 * a write to reach the disk. What db_commit has returned 0 for survives a crash of the host.
 *
 * All functions block and may be called from any thread; a transaction is used by one thread. SQL
 * is kept to what both databases understand; parameters are written $1, $2, ….
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

struct db;
struct db_migration;

/* Opens or makes the database, checks its integrity and applies the migrations that are missing.
 * -EUCLEAN ("database_damaged"), -EPROTO ("database_too_new": written by a later version). */
int db_open(const char *path, struct db **ret, struct err *err);

/* One that has another schema than the product's. */
struct db_options {
	const struct db_migration *migrations;
	size_t n_migrations;
	size_t reserved_bytes; /* of the disk, kept for its log */
	bool unchecked;	       /* its integrity is not checked as a whole */
};
int db_open_with(const char *path, const struct db_options *options, struct db **ret,
		 struct err *err);
void db_close(struct db *db); /* no transaction may be open; NULL is fine */

/* ---- transactions: rolled back at the end of their scope unless committed ---- */

struct db_conn;
struct db_txn {
	struct db_conn *conn; /* NULL: not begun or ended */
	bool marked;
};
#define _cleanup_txn_ _cleanup_(db_rollback)
#define DB_TXN_INIT   ((struct db_txn){ 0 })

int db_begin_write(struct db *db, struct db_txn *ret, struct err *err);
int db_begin_read(struct db *db, struct db_txn *ret, struct err *err);
/* The same for what reads for seconds: on a connection of its own, so that nobody who reads a few
 * rows waits for it. */
int db_begin_long_read(struct db *db, struct db_txn *ret, struct err *err);
/* On failure nothing was changed, and the transaction has ended as well. */
int db_commit(struct db_txn *txn, struct err *err);
void db_rollback(struct db_txn *txn);

/* fn is called after each commit of a transaction that was marked, on the thread that committed; it
 * must not block. One watcher, set before transactions begin and as long as there may be any; NULL
 * ends it. */
void db_watch(struct db *db, void (*fn)(void *arg), void *arg);
void db_mark(struct db_txn *txn);

/* ---- statements ---- */

struct db_query {
	struct db_txn *txn;
	struct db_conn *conn;
	void *stmt;
	int bind_result;
};
#define _cleanup_query_ _cleanup_(db_query_end)
#define DB_QUERY_INIT	((struct db_query){ 0 })

int db_query(struct db_txn *txn, const char *sql, struct db_query *ret, struct err *err);
/* Texts are copied; NULL binds NULL. param counts from 1. A failure shows at the next step. */
void db_bind_text(struct db_query *query, int param, const char *value);
void db_bind_int(struct db_query *query, int param, int64_t value);
void db_bind_null(struct db_query *query, int param);
/* 1: there is a row, 0: the end, negative: -EEXIST (a constraint), -ENOSPC, -EUCLEAN, -EIO, …. */
int db_step(struct db_query *query, struct err *err);
/* Steps a statement that gives no rows. *ret_changed (may be NULL) is the number of rows changed.
 */
int db_run(struct db_query *query, int64_t *ret_changed, struct err *err);
/* Columns count from 0. NULL reads as 0 and as "". The text is borrowed until the next step. */
int64_t db_column_int(const struct db_query *query, int column);
const char *db_column_text(const struct db_query *query, int column);
void db_query_end(struct db_query *query);
