/* Accounts and the hashes of their keys. The text of a key is never stored. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "store/db.h"

#define ACCOUNT_ID_SIZE 24
#define KEY_ID_SIZE	24
#define KEY_PREFIX	"sk_"
#define KEY_RANDOM_LEN	40
#define KEY_TEXT_SIZE	(sizeof(KEY_PREFIX) + KEY_RANDOM_LEN)
#define KEY_HASH_SIZE	65 /* SHA-256 in hex */

struct key_row {
	char id[KEY_ID_SIZE];
	char account_id[ACCOUNT_ID_SIZE];
	char hash[KEY_HASH_SIZE];
	char prefix[16];
	char label[65];
	bool admin;
	int64_t created_unix_ms;
	int64_t expires_unix_ms; /* 0: never */
	int64_t revoked_unix_ms; /* 0: valid */
};

int accounts_count(struct db_txn *txn, int64_t *ret_n, struct err *err);
int accounts_insert(struct db_txn *txn, const char *id, const char *name, int64_t created_unix_ms,
		    struct err *err);

int keys_insert(struct db_txn *txn, const struct key_row *row, struct err *err);
/* -ENOENT when no key has this hash. Revoked and expired ones are found: the caller decides. */
int keys_by_hash(struct db_txn *txn, const char *hash, struct key_row *ret, struct err *err);
