/* Sessions of browsers: the hashes of their cookies, each of one key. The text of a cookie is never
 * stored. */
#pragma once

#include <stdint.h>

#include "store/accounts.h"
#include "store/db.h"

struct session_row {
	char hash[KEY_HASH_SIZE];
	char key_id[KEY_ID_SIZE];
	int64_t created_unix_ms;
	int64_t expires_unix_ms;
};

int sessions_insert(struct db_txn *txn, const struct session_row *row, struct err *err);
/* The session, and the hash of its key. -ENOENT when there is none, or its key has got another text
 * since; expired ones are found. */
int sessions_find(struct db_txn *txn, const char *hash, struct session_row *ret,
		  char ret_key_hash[KEY_HASH_SIZE], struct err *err);
/* Fine when there is none. */
int sessions_remove(struct db_txn *txn, const char *hash, struct err *err);
/* Those that have expired, and of the key all but the newest `keep`. */
int sessions_prune(struct db_txn *txn, int64_t now_unix_ms, const char *key_id, int64_t keep,
		   struct err *err);
