/*
 * The ledger: wallets, entries, and their sums by day, key and sandbox. What an entry moves, the
 * wallet and the sums are written together, in the caller's transaction. Amounts are micro-credits,
 * rates are micro-credits a second.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/accounts.h"
#include "store/db.h"

#define LEDGER_REFERENCE_MAX 128
#define LEDGER_NOTE_MAX	     256
#define LEDGER_GRANTS	     "grants" /* the other side of a grant, */
#define LEDGER_USAGE	     "usage"  /* and of a charge */

/* ---- wallets ---- */

struct wallet_row {
	bool unlimited; /* its balance may go below zero */
	int64_t granted, charged;
	int64_t last_entry;
};

/* -EEXIST when it has one. */
int wallets_insert(struct db_txn *txn, const char *account_id, bool unlimited, struct err *err);
/* An account without one has nothing. */
int wallets_get(struct db_txn *txn, const char *account_id, struct wallet_row *ret,
		struct err *err);

/* How many entries there are, of all accounts. */
int wallets_entries(struct db_txn *txn, int64_t *ret_n, struct err *err);
struct wallets_sum {
	int64_t accounts, empty; /* empty: they have no credit left, and need some */
	int64_t granted, charged;
};
int wallets_sum(struct db_txn *txn, struct wallets_sum *ret, struct err *err);

/* ---- entries ---- */

struct ledger_entry {
	char account_id[ACCOUNT_ID_SIZE];
	int64_t id; /* of the account's: 1, 2, … */
	int64_t at_unix_ms;
	int64_t amount;
	/* of a grant */
	char reference[LEDGER_REFERENCE_MAX + 1]; /* "": none */
	char note[LEDGER_NOTE_MAX + 1];
	/* of a charge: for a part of a run */
	char sandbox_id[24]; /* "": it is a grant */
	char key_id[KEY_ID_SIZE];
	uint64_t generation;
	int64_t rate;
	int64_t run_unix_ms;
	int64_t from_unix_ms, to_unix_ms; /* within one day */
};

/* What a run costs in its first `ms`. Cumulative, so that parts add up to the whole exactly: a part
 * costs ledger_cost(to) - ledger_cost(from). */
int64_t ledger_cost(int64_t rate, int64_t ms);
/* When the day (UTC) after this moment begins. */
int64_t ledger_next_day(int64_t unix_ms);
#define LEDGER_DAY_SIZE 11
/* "2026-11-30" */
void ledger_day(int64_t unix_ms, char out[LEDGER_DAY_SIZE]);

/* Gives the entry its id and writes it, with wallet and sums. -EEXIST: that part of that run is
 * charged already, or the reference was used. */
int ledger_append(struct db_txn *txn, struct ledger_entry *entry, struct err *err);
/* The grant of that reference; -ENOENT. */
int ledger_grant_get(struct db_txn *txn, const char *account_id, const char *reference,
		     struct ledger_entry *ret, struct err *err);
/* Those after that id, oldest first; the caller frees *ret. */
int ledger_list(struct db_txn *txn, const char *account_id, int64_t after_id, uint32_t limit,
		struct ledger_entry **ret, size_t *ret_n, struct err *err);

/* ---- sums ---- */

struct usage_total {
	char name[24];	/* the date, or the id */
	char label[65]; /* of a key: its own; of a sandbox that is remembered: its name; else "" */
	int64_t amount, running_ms, at_unix_ms;
};

enum usage_kind { USAGE_DAY, USAGE_KEY, USAGE_SANDBOX };
/* What was charged last comes first; the caller frees *ret. */
int usage_list(struct db_txn *txn, const char *account_id, enum usage_kind kind, uint32_t limit,
	       struct usage_total **ret, size_t *ret_n, struct err *err);
/* What was charged for one of them; 0 for what was never. */
int usage_amount(struct db_txn *txn, const char *account_id, enum usage_kind kind, const char *name,
		 int64_t *ret_amount, struct err *err);
