/*
 * Passes: the keys that were used lately, by the hash of their text, in memory. A request with a
 * key that is here needs no database, and what changes a key changes its passes, which open streams
 * hold on to as well.
 *
 * The table is a cache and no truth: what is not in it is looked up, and whoever changes a key's
 * row tells the table after the commit. A pass that was read from the row before that, and comes
 * too late, is found out by the epoch and read again.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "core/principal.h"
#include "store/accounts.h"

#define KEY_PASS_BUCKETS 256
#define KEY_PASSES_KEPT	 4096 /* of those that nobody holds */
#define KEY_PASS_FOREVER INT64_MAX

struct key_pass {
	atomic_uint refs;
	_Atomic int64_t until_unix_ms; /* good before that */
	char hash[KEY_HASH_SIZE];
	char key_id[KEY_ID_SIZE];
	char account_id[ACCOUNT_ID_SIZE];
	bool admin;
	struct key_scope *scope;
	struct key_pass *next; /* under the table's lock */
};

struct key_passes {
	pthread_mutex_t lock;
	uint64_t epoch; /* of changes */
	size_t n;
	struct key_pass *buckets[KEY_PASS_BUCKETS];
};

void key_passes_init(struct key_passes *passes);
void key_passes_clear(struct key_passes *passes);
/* Fills ret (a reference is taken) and returns true; false: it has to be looked up, and *ret_epoch
 * is for key_passes_add. Compares in constant time. Those that are good no more are found. */
bool key_passes_find(struct key_passes *passes, const char *hash, struct principal *ret,
		     uint64_t *ret_epoch);
/* From a row and its parsed scope (stolen). -ESTALE: a key was changed meanwhile, look it up anew.
 */
int key_passes_add(struct key_passes *passes, const struct key_row *row, struct key_scope *scope,
		   uint64_t epoch, struct principal *ret);
/* A key was changed: its passes, but for the one of except_hash (NULL: all), are good until then at
 * most (0: no longer). */
void key_passes_limit(struct key_passes *passes, const char *key_id, const char *except_hash,
		      int64_t until_unix_ms);

/* Until when what a row says is good. */
int64_t key_row_until(const struct key_row *row);
/* A pass on its own, that the table does not know. */
struct key_pass *key_pass_new(const struct key_row *row, struct key_scope *scope);
void key_pass_unref(struct key_pass *pass);
