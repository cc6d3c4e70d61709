/*
 * What sandboxes may reach, their slots and their traffic: columns of their rows. The rules are
 * text in canonical JSON; what it means is net/rules.h's to say. A change is written twice: as what
 * is wanted, before it takes effect, and as what is, after; between the two a reader knows both.
 */
#pragma once

#include <stdint.h>

#include "store/db.h"
#include "store/sandboxes.h"

#define EGRESS_OPEN    "null"
#define EGRESS_NOTHING "[]"

/* NULL takes a wish back. -ESTALE as for sandboxes_move: it has ended. */
int egress_set_next(struct db_txn *txn, const char *id, const char *egress, struct err *err);
/* It is in effect: egress, and nothing is under way. */
int egress_set(struct db_txn *txn, const char *id, const char *egress, struct err *err);

/* Before anything uses the slot. */
int slot_set_row(struct db_txn *txn, const char *id, uint32_t slot, struct err *err);
/* The slot is given back; what went through it is added to the counters. NULL: nothing did. */
int slot_clear_row(struct db_txn *txn, const char *id, const struct traffic *traffic,
		   struct err *err);
