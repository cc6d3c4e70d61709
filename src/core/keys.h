/*
 * Accounts and keys: made, listed, rotated, revoked. docs/keys.md says what users see.
 *
 * A key can make, show and change only keys that may do no more than it: whose scope is within its
 * own, that administer no more and, where a text comes out of it, last no longer. Others of its
 * account are not there for it. Administrators name another account to act on its keys.
 */
#pragma once

#include "core/core.h"

#define CORE_KEY_TEXT_SIZE  64 /* "sk_" and 40 characters */
#define CORE_KEY_LABEL_MAX  64
#define CORE_ACCOUNT_ID_MAX 23

struct core_key_info {
	char id[24];
	char account_id[24];
	char label[CORE_KEY_LABEL_MAX + 1];
	char prefix[16];     /* of its text */
	char created_by[24]; /* the key that it was made with; "": none */
	bool admin;
	json_t *scopes; /* owned; {} when it is narrowed by nothing */
	int64_t created_unix_ms;
	int64_t expires_unix_ms; /* 0: never */
	int64_t rotated_unix_ms; /* 0: never */
	int64_t revoked_unix_ms; /* 0: it is not */
};
void core_key_info_clear(struct core_key_info *info);
void core_key_infos_free(struct core_key_info *infos, size_t n);

struct core_key_request {
	const char *account_id; /* NULL: that of who asks */
	const char *label;
	bool admin;
	const json_t *scopes; /* what is absent is as of who asks; NULL: all of it */
	int64_t ttl_minutes;  /* 0: as long as who asks */
};

/* [worker] The text is given once, here; the caller wipes it. "scope_denied" where the key would do
 * more than who asks, "forbidden" (another account, by none that administers), "account_not_found",
 * "not_found" (a sandbox of its scope), "invalid_argument", "limit_reached". */
int core_key_create(struct core *core, const struct principal *who,
		    const struct core_key_request *req, char ret_text[CORE_KEY_TEXT_SIZE],
		    struct core_key_info *ret, struct err *err);

struct core_key_list_request {
	const char *account_id; /* NULL: that of who asks */
	bool all;		/* revoked and expired ones too */
	const char *cursor;	/* NULL: from the newest on */
	uint32_t limit;		/* 1 … 200; 0: 50 */
};
/* Newest first. The caller frees both; *ret_next_cursor is malloc'ed or NULL. */
int core_key_list(struct core *core, const struct principal *who,
		  const struct core_key_list_request *req, struct core_key_info **ret,
		  size_t *ret_n, char **ret_next_cursor, struct err *err);

/* [worker] Gives the key another text; the one it had is good for overlap_seconds more. What is
 * open with the old text ends with it. "key_not_found", "key_revoked". */
int core_key_rotate(struct core *core, const struct principal *who, const char *account_id,
		    const char *id, int64_t overlap_seconds, char ret_text[CORE_KEY_TEXT_SIZE],
		    struct core_key_info *ret, struct err *err);

/* [worker] From now on it opens nothing, and what is open with it ends. Fine for one that is
 * revoked already. "key_not_found"; "last_key": nobody could make keys for the account afterwards.
 */
int core_key_revoke(struct core *core, const struct principal *who, const char *account_id,
		    const char *id, struct core_key_info *ret, struct err *err);

struct core_account_info {
	char id[24];
	char name[64];
	bool admin;
	int64_t created_unix_ms;
};

/* [worker] With a first key, which may do everything in it. "account_exists" (-EEXIST),
 * "limit_reached". */
int core_account_create(struct core *core, const struct principal *who, const char *name,
			bool admin, struct core_account_info *ret,
			char ret_text[CORE_KEY_TEXT_SIZE], struct core_key_info *ret_key,
			struct err *err);
/* Oldest first; cursor and limit as of keys. The caller frees both. */
int core_account_list(struct core *core, const struct principal *who, const char *cursor,
		      uint32_t limit, struct core_account_info **ret, size_t *ret_n,
		      char **ret_next_cursor, struct err *err);
