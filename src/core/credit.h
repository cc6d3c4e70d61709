/*
 * Metering and credit.
 *
 * A sandbox that is about to run has a meter (store/meters.h) from its reservation on: in the
 * transaction that counts the quota the account's credit is looked at and a hold for the first
 * minute is kept aside, so that of many who want the last credit one gets it. Its run begins when
 * it is published, and ends when its warden's record says: those two moments, and no clock in
 * between, are what is charged. What runs is charged in parts meanwhile, each cumulative, so that
 * the parts add up to the whole exactly.
 *
 * Every change of a meter is in the transaction that changes its sandbox's row, and a charge is in
 * one with how far its meter is charged. So nothing can be charged twice or be forgotten, whatever
 * dies when. All times are measured by CLOCK_BOOTTIME, which is never set; they become wall-clock
 * time by the moment at which the run began.
 *
 * An account whose credit is used up has its running sandboxes paused (credit.c).
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "store/db.h"
#include "store/ledger.h"
#include "store/meters.h"
#include "store/sandboxes.h"
#include "warden/record.h"

struct sandbox;

/* When a run ended. */
struct run_end {
	int64_t boottime_ms; /* of the boot that it ran in; 0: nobody knows */
	int64_t unix_ms;     /* of one that was never metered */
};

/* ---- metering.c ---- */

/* For a run that is about to begin: credit, spend cap, meter and hold. "no_credit",
 * "spend_cap_reached" (-EDQUOT). */
int meter_reserve(struct core *core, struct db_txn *txn, const struct sandbox_row *row,
		  uint64_t generation, struct err *err);
/* The reserved run does not begin after all. */
int meter_withdraw(struct db_txn *txn, const char *sandbox_id, struct err *err);
/* [worker, op_lock] The run begins now: its agent has answered. */
int meter_begin(struct db_txn *txn, struct sandbox *sb, uint64_t generation, struct err *err);
/* The run, if one is reserved or has begun, is charged to its end, or (where nobody knows it) as
 * far as it is known to have run. */
int meter_end(struct db_txn *txn, struct sandbox *sb, const struct run_end *end, struct err *err);
/* [worker, op_lock] What the record says of the end. Without an exit in it that is now, where the
 * daemon saw it, and not known in recovery. A run is not charged beyond the end of its sandbox's
 * lifetime, nor for standing still there. */
struct run_end meter_end_of(const struct sandbox *sb, const struct record *record);
/* [worker] Charges what runs up to now. */
int meters_charge(struct core *core, struct err *err);
/* Loop's thread, every second: does that when it is time, on a worker. */
void meters_look(struct core *core);

/* ---- credit.c ---- */

struct account_credit {
	struct wallet_row wallet;
	int64_t uncharged; /* what runs has cost since it was charged last */
	int64_t held;	   /* kept aside beside that */
	int64_t rate;	   /* of all that runs */
	size_t n_running;
};
/* What there is to spend: granted, less what was charged, what will be and what is held. */
int64_t credit_available(const struct account_credit *credit);
int credit_get(struct db_txn *txn, const char *account_id, struct account_credit *ret,
	       struct err *err);
/* What was spent with a key, with all that is not charged yet or held. */
int ledger_spent(struct db_txn *txn, const char *account_id, const char *key_id,
		 int64_t *ret_amount, struct err *err);
/* What the key's scope lets it spend in all; negative: no bound of its own. */
int credit_spend_cap(struct db_txn *txn, const char *account_id, const char *key_id,
		     int64_t *ret_amount, struct err *err);
/* May that much be held for a run? */
int credit_check(struct db_txn *txn, const char *account_id, const char *key_id, int64_t rate,
		 int64_t hold, struct err *err);
/* In the transaction that makes an account: its wallet, with the starting credit unless it is
 * unlimited. */
int credit_open(struct core *core, struct db_txn *txn, const char *account_id, bool unlimited,
		struct err *err);
/* Loop's thread, every second: pauses what runs without credit, on workers. */
void credit_look(struct core *core);
/* Any thread: what runs, or the credit, has changed. */
void credit_changed(struct core *core);
