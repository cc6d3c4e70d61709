/* Accounts, and the hashes of their keys. The text of a key is never stored. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/db.h"

#define ACCOUNT_ID_SIZE	  24
#define ACCOUNT_NAME_SIZE 64
#define KEY_ID_SIZE	  24
#define KEY_PREFIX	  "sk_"
#define KEY_RANDOM_LEN	  40
#define KEY_TEXT_SIZE	  (sizeof(KEY_PREFIX) + KEY_RANDOM_LEN)
#define KEY_HASH_SIZE	  65 /* SHA-256 in hex */
#define KEY_LABEL_SIZE	  65

/* ---- accounts ---- */

struct account_row {
	char id[ACCOUNT_ID_SIZE];
	char name[ACCOUNT_NAME_SIZE];
	bool admin;
	int64_t created_unix_ms;
};

int accounts_count(struct db_txn *txn, int64_t *ret_n, struct err *err);
/* -EEXIST: the name is taken. */
int accounts_insert(struct db_txn *txn, const char *id, const char *name, int64_t created_unix_ms,
		    struct err *err);
/* It may act on others. */
int accounts_set_admin(struct db_txn *txn, const char *id, struct err *err);
/* -ENOENT, code "account_not_found". */
int accounts_get(struct db_txn *txn, const char *id, struct account_row *ret, struct err *err);
/* Oldest first; what follows `after` ("": from the first on), limit at most. The caller frees. */
int accounts_list(struct db_txn *txn, const char *after, uint32_t limit, struct account_row **ret,
		  size_t *ret_n, struct err *err);

/* ---- keys ---- */

struct key_row {
	char id[KEY_ID_SIZE];
	char account_id[ACCOUNT_ID_SIZE];
	char hash[KEY_HASH_SIZE];
	char prefix[16];
	char label[KEY_LABEL_SIZE];
	bool admin; /* its own and its account's, where it was read; its own, where it is written */
	char *scope; /* a JSON object; owned; NULL: narrowed by nothing */
	char created_by[KEY_ID_SIZE];
	int64_t created_unix_ms;
	int64_t expires_unix_ms;      /* 0: never */
	int64_t revoked_unix_ms;      /* 0: valid */
	int64_t rotated_unix_ms;      /* 0: never */
	int64_t text_expires_unix_ms; /* found by an earlier text: until when that is good; else 0
				       */
};
void key_row_clear(struct key_row *row);
void key_rows_free(struct key_row *rows, size_t n);

int keys_insert(struct db_txn *txn, const struct key_row *row, struct err *err);
/* -ENOENT when no key has, or had, a text of this hash. Those that are not good any more are found:
 * the caller decides. hash of the row is the one that was looked for. */
int keys_by_hash(struct db_txn *txn, const char *hash, struct key_row *ret, struct err *err);
/* -ENOENT, code "key_not_found". account_id NULL: of any account. */
int keys_get(struct db_txn *txn, const char *id, const char *account_id, struct key_row *ret,
	     struct err *err);

struct key_filter {
	const char *account_id;
	int64_t valid_unix_ms; /* only those that are good at this time; 0: all */
	const char *after;     /* id of a key of the account; "": from the newest on */
	uint32_t limit;
};
/* Newest first. */
int keys_list(struct db_txn *txn, const struct key_filter *filter, struct key_row **ret,
	      size_t *ret_n, struct err *err);
/* Of an account, good at this time. */
int keys_count(struct db_txn *txn, const char *account_id, int64_t unix_ms, int64_t *ret_n,
	       struct err *err);
/* With its earlier texts. -ESTALE when it was revoked already. */
int keys_revoke(struct db_txn *txn, const char *id, int64_t unix_ms, struct err *err);
/* Gives the key a text of another hash; the one it had is good until old_expires_unix_ms (0: no
 * longer), earlier ones until then at most. */
int keys_rotate(struct db_txn *txn, const struct key_row *row, const char *hash, const char *prefix,
		int64_t unix_ms, int64_t old_expires_unix_ms, struct err *err);
/* Texts that are good no more. */
int keys_forget_old(struct db_txn *txn, int64_t unix_ms, struct err *err);
