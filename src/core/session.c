/*
 * Sessions: rows of hashes. Looking one up costs what looking a key up costs, and one row more; it
 * is counted against the key's requests a second.
 */
#include "core/session.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/internal.h"
#include "core/metrics_internal.h"
#include "store/sessions.h"

#define SESSIONS_PER_KEY 64
#define MINUTE_MS	 60000

static int refuse(struct core *core, struct err *err)
{
	metrics_count(core, METRICS_BAD_KEYS, 1);
	err_code(err, -EACCES, "invalid_key", "the session has ended");
	err_hint(err, "sign in again with a key");
	return -EACCES;
}

static int store(struct core *core, const struct session_row *row, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(core->db, &txn, err);

	if (r == 0)
		r = sessions_prune(&txn, row->created_unix_ms, row->key_id, SESSIONS_PER_KEY - 1,
				   err);
	if (r == 0)
		r = sessions_insert(&txn, row, err);
	return r < 0 ? r : db_commit(&txn, err);
}

int core_session_open(struct core *core, const struct principal *who,
		      char ret_token[CORE_SESSION_TOKEN_SIZE], int64_t *ret_expires_unix_ms,
		      struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	struct session_row row = { .created_unix_ms = clock_unix_ms() };
	char random[CORE_SESSION_RANDOM_LEN + 1], token[CORE_SESSION_TOKEN_SIZE];
	int r;

	if (!work)
		return -ESHUTDOWN;
	if (who->by_session) {
		err_code(err, -EPERM, "forbidden", "a session cannot begin another");
		err_hint(err, "sign in with the key: Authorization: Bearer KEY");
		return -EPERM;
	}
	rand_alnum(random, CORE_SESSION_RANDOM_LEN);
	snprintf(token, sizeof(token), CORE_SESSION_PREFIX "%s", random);
	key_hash(token, strlen(token), row.hash);
	str_copy(row.key_id, sizeof(row.key_id), who->key_id);
	row.expires_unix_ms = row.created_unix_ms + core->limits.session_minutes * MINUTE_MS;
	r = store(core, &row, err);
	if (r == 0) {
		memcpy(ret_token, token, sizeof(token));
		*ret_expires_unix_ms = row.expires_unix_ms;
	}
	explicit_bzero(random, sizeof(random));
	explicit_bzero(token, sizeof(token));
	return r;
}

int core_session_close(struct core *core, const char *token, size_t len, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	char hash[KEY_HASH_SIZE];
	int r = work ? db_begin_write(core->db, &txn, err) : -ESHUTDOWN;

	if (r < 0)
		return r;
	key_hash(token, len, hash);
	r = sessions_remove(&txn, hash, err);
	return r < 0 ? r : db_commit(&txn, err);
}

/* The hash of its key, while it lasts. */
static int find_key(struct core *core, const char *hash, char ret_key_hash[KEY_HASH_SIZE],
		    struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct session_row row;
	int r = db_begin_read(core->db, &txn, err);

	if (r == 0)
		r = sessions_find(&txn, hash, &row, ret_key_hash, err);
	if (r == -ENOENT || (r == 0 && row.expires_unix_ms <= clock_unix_ms()))
		return refuse(core, err);
	return r;
}

int core_session_authenticate(struct core *core, const char *token, size_t len,
			      struct principal *ret, struct err *err)
{
	char hash[KEY_HASH_SIZE], of_key[KEY_HASH_SIZE];
	int r;

	if (len != CORE_SESSION_TOKEN_SIZE - 1)
		return refuse(core, err);
	key_hash(token, len, hash);
	r = find_key(core, hash, of_key, err);
	if (r == 0)
		r = identity_admit(core, of_key, ret, err);
	if (r == 0)
		ret->by_session = true;
	return r;
}
