/*
 * Fills the ledger of an account with charges, as years of use would, and tells what that took.
 *
 *   ledger_fill DATABASE ACCOUNT KEY CHARGES [--check]
 *
 * The database is that of a daemon that is stopped. Charges are of a minute each, spread over 50
 * keys, sandboxes of 50 runs' minutes and as many days as it takes. Prints one JSON object:
 * {"charges", "append_us" (each, without syncs), "check_ms" (-1: was not asked for), "findings"}.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "store/ledger.h"
#include "store/ledger_check.h"

#define AT_ONCE	  10000
#define OF_A_RUN  50
#define KEYS	  50
#define MINUTE_MS 60000
#define RATE	  280
#define AT_A_TIME 20 /* sandboxes that run beside each other */

static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "ledger_fill: %s: %s\n", what, err->message);
	exit(1);
}

static struct ledger_entry charge_of(const char *account_id, const char *key_id, int64_t i,
				     int64_t began)
{
	int64_t run = i / OF_A_RUN, part = i % OF_A_RUN;
	int64_t run_ms = began + run / AT_A_TIME * OF_A_RUN * MINUTE_MS;
	struct ledger_entry entry = {
		.amount = (int64_t)RATE * MINUTE_MS / 1000,
		.generation = 1,
		.rate = RATE,
		.run_unix_ms = run_ms,
		.from_unix_ms = run_ms + part * MINUTE_MS,
		.to_unix_ms = run_ms + (part + 1) * MINUTE_MS,
	};

	entry.at_unix_ms = entry.to_unix_ms;
	str_copy(entry.account_id, sizeof(entry.account_id), account_id);
	if (run % KEYS == 0)
		str_copy(entry.key_id, sizeof(entry.key_id), key_id);
	else
		snprintf(entry.key_id, sizeof(entry.key_id), "key_%016" PRIx64, run % KEYS);
	/* An account's sandboxes are its own. */
	snprintf(entry.sandbox_id, sizeof(entry.sandbox_id), "sbx_%.4s%08" PRIx64, account_id + 4,
		 run);
	return entry;
}

static void append_some(struct db *db, const char *account_id, const char *key_id, int64_t from,
			int64_t to, int64_t began)
{
	struct db_txn txn = DB_TXN_INIT;
	struct err err = ERR_INIT;

	if (db_begin_write(db, &txn, &err) < 0)
		die("begin", &err);
	for (int64_t i = from; i < to; i++) {
		struct ledger_entry entry = charge_of(account_id, key_id, i, began);

		if (ledger_append(&txn, &entry, &err) < 0)
			die("append", &err);
	}
	if (db_commit(&txn, &err) < 0)
		die("commit", &err);
}

static int64_t check(struct db *db, size_t *ret_findings)
{
	struct db_txn txn = DB_TXN_INIT;
	struct ledger_findings findings;
	struct err err = ERR_INIT;
	int64_t began = clock_boottime_ms();

	if (db_begin_long_read(db, &txn, &err) < 0 || ledger_check(&txn, &findings, &err) < 0)
		die("check", &err);
	db_rollback(&txn);
	if (findings.n)
		fprintf(stderr, "ledger_fill: %s\n", findings.first);
	*ret_findings = findings.n;
	return clock_boottime_ms() - began;
}

int main(int argc, char **argv)
{
	int64_t charges = 0, began, spent_us = 0, check_ms = -1;
	size_t findings = 0;
	struct err err = ERR_INIT;
	struct db *db;

	log_init(LOG_LVL_WARN);
	if (argc < 5 || str_to_i64(argv[4], &charges) < 0) {
		fprintf(stderr, "usage: ledger_fill DATABASE ACCOUNT KEY CHARGES [--check]\n");
		return 2;
	}
	if (db_open(argv[1], &db, &err) < 0)
		die("open", &err);
	/* Whole minutes, so that no charge is of two days. */
	began = (clock_unix_ms() - charges / AT_A_TIME * MINUTE_MS) / MINUTE_MS * MINUTE_MS;
	for (int64_t i = 0; i < charges; i += AT_ONCE) {
		int64_t to = i + AT_ONCE < charges ? i + AT_ONCE : charges;
		int64_t before_us = clock_boottime_us();

		append_some(db, argv[2], argv[3], i, to, began);
		spent_us += clock_boottime_us() - before_us;
	}
	if (argc > 5)
		check_ms = check(db, &findings);
	printf("{\"charges\": %" PRId64 ", \"append_us\": %.2f, \"check_ms\": %" PRId64
	       ", \"findings\": %zu}\n",
	       charges, (double)spent_us / (double)(charges ? charges : 1), check_ms, findings);
	db_close(db);
	return 0;
}
