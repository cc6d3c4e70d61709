/*
 * Events as rows: a bounded journal for each account. What they say is the core's; here they are
 * numbered, kept for a while and read in order.
 *
 * An event is appended in the transaction that makes the change it speaks of, so that neither is
 * ever there without the other. Because write transactions queue up, numbers become visible in
 * their order: whoever has read up to one has missed none before it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "store/db.h"

#define EVENT_TYPE_SIZE 32

struct event_row {
	int64_t id; /* of its account's: 1, 2, … */
	char sandbox_id[24];
	char type[EVENT_TYPE_SIZE];
	int64_t at_unix_ms;
	char *data; /* a JSON object; owned */
};
void event_rows_free(struct event_row *rows, size_t n);

struct event_new {
	const char *account_id;
	const char *sandbox_id; /* "": none */
	const char *type;
	int64_t at_unix_ms;
	const char *data;
};

/* Marks the transaction (db.h), and drops the oldest of the account beyond rows_max, in passing:
 * at most EVENTS_SLACK more are ever kept. */
#define EVENTS_SLACK 128
int events_append(struct db_txn *txn, const struct event_new *event, int64_t rows_max,
		  struct err *err);

struct event_bounds {
	int64_t last_id;   /* 0: there never was one */
	int64_t pruned_id; /* 0: none was dropped yet */
};
int events_bounds(struct db_txn *txn, const char *account_id, struct event_bounds *ret,
		  struct err *err);

struct event_filter {
	const char *account_id;
	const char *sandbox_id;	  /* NULL: of any, and of none */
	const char *const *types; /* NULL-terminated; NULL: all */
	int64_t after_id;
	uint32_t limit;
};
/* Oldest first. */
int events_list(struct db_txn *txn, const struct event_filter *filter, struct event_row **ret,
		size_t *ret_n, struct err *err);

/* The id of the n-th newest that passes the filter (limit and after_id aside), or of the oldest
 * where there are fewer; 0: there is none. */
int events_newest(struct db_txn *txn, const struct event_filter *filter, uint32_t n,
		  int64_t *ret_id, struct err *err);

/* Drops what happened before then, of all accounts. */
int events_delete_before(struct db_txn *txn, int64_t unix_ms, struct err *err);
