/*
 * The audit as rows: a chain of records, and what is under way. It has a database of its own
 * (audit_db_open). What records say is the core's; here they are kept in order, found again and
 * checked.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/chain.h"
#include "store/db.h"

#define AUDIT_TEXT_SIZE 72 /* of each column but the body and the hash */

struct audit_row {
	int64_t seq;
	int64_t at_unix_ms;
	char account_id[AUDIT_TEXT_SIZE];
	char key_id[AUDIT_TEXT_SIZE];
	char sandbox_id[AUDIT_TEXT_SIZE]; /* "": none */
	char operation[AUDIT_TEXT_SIZE];
	char request_id[AUDIT_TEXT_SIZE];
	char result[AUDIT_TEXT_SIZE];
	char *body; /* as it was hashed; owned */
	char hash[CHAIN_HASH_SIZE];
};
void audit_row_clear(struct audit_row *row);
void audit_rows_free(struct audit_row *rows, size_t n);

/* Opens or makes it, with room set aside on the disk, so that it can be written for a while when
 * the disk is full. */
int audit_db_open(const char *path, struct db **ret, struct err *err);

struct audit_state {
	int64_t last_seq; /* 0: there is no record yet */
	char last_hash[CHAIN_HASH_SIZE];
	int64_t pruned_seq; /* 0: all are kept */
	char pruned_hash[CHAIN_HASH_SIZE];
};
int audit_state_get(struct db_txn *txn, struct audit_state *ret, struct err *err);

/* Writes the record that follows the last one: seq and hash are the caller's. */
int audit_append(struct db_txn *txn, const struct audit_row *row, struct err *err);

struct audit_filter {
	const char *account_id; /* each: NULL for any */
	const char *key_id;
	const char *sandbox_id;
	const char *operation;
	const char *request_id;
	const char *result;
	int64_t after_seq;
	int64_t before_seq; /* 0: no bound */
	bool newest;	    /* the newest `limit` of them; else the oldest */
	uint32_t limit;
};
/* By number, the lowest first. */
int audit_list(struct db_txn *txn, const struct audit_filter *filter, struct audit_row **ret,
	       size_t *ret_n, struct err *err);

/* The newest of those from the oldest on that were all asked for before then; 0: none. */
int audit_newest_before(struct db_txn *txn, int64_t unix_ms, int64_t *ret_seq, struct err *err);
/* Forgets the records up to this one, whose hash is kept. */
int audit_prune(struct db_txn *txn, int64_t seq, struct err *err);

/* ---- what is under way ---- */

struct audit_open {
	int64_t id;
	char *body;
};
int audit_open_insert(struct db_txn *txn, int64_t id, const char *body, struct err *err);
int audit_open_delete(struct db_txn *txn, int64_t id, struct err *err);
/* All; the caller frees bodies and array. */
int audit_open_list(struct db_txn *txn, struct audit_open **ret, size_t *ret_n, struct err *err);
