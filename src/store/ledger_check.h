/*
 * Whether the ledger is right: what must hold between entries, wallets, sums, meters and intervals
 * at any moment, whatever was killed when.
 *
 *   entries    an account's are numbered from 1 on without holes; each has the account on one side
 *   charges    a run's begin where it began and follow each other without gap or overlap, each
 *              within its day; what they cost adds up to the cost of the run, to the micro-credit
 *   runs       those of a sandbox do not overlap
 *   wallets    granted and charged are the sums of the entries: grants = balance + charges
 *   sums       by day, key and sandbox they are those of the charges
 *   meters     a run that is not closed is charged as far as its meter says
 *   intervals  a run that has ended and is still remembered is charged to its end
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "store/db.h"

struct ledger_findings {
	int64_t accounts, entries, runs;
	int64_t granted, charged; /* of all accounts, by their entries */
	size_t n;		  /* how many things are wrong */
	char first[256];	  /* the first of them, in words */
};

/* Reads everything; 0 also when something is wrong: findings say so. */
int ledger_check(struct db_txn *txn, struct ledger_findings *ret, struct err *err);
