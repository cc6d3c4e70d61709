/* Accounts, and what lists of them and of keys share. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/internal.h"
#include "core/keys.h"

#define LIST_LIMIT_DEFAULT 50
#define LIST_LIMIT_MAX	   200

/* ---- lists ---- */

int list_limit(uint32_t *limit, struct err *err)
{
	if (*limit > LIST_LIMIT_MAX)
		return err_set(err, -EINVAL, "limit %u is not from 1 to %d", *limit,
			       LIST_LIMIT_MAX);
	if (*limit == 0)
		*limit = LIST_LIMIT_DEFAULT;
	return 0;
}

int list_cursor(int r, struct err *err)
{
	if (r != -ENOENT)
		return r;
	err_code(err, -EINVAL, "invalid_cursor", "cursor is not one of ours");
	err_hint(err, "use next_cursor of the last answer, or leave it out to begin anew");
	return -EINVAL;
}

/* ---- accounts ---- */

static int check_quota(struct core *core, struct db_txn *txn, struct err *err)
{
	const int64_t limit = core->limits.accounts_max;
	int64_t n;
	int r = accounts_count(txn, &n, err);

	if (r < 0 || n < limit)
		return r;
	return err_code(err, -EDQUOT, "limit_reached", "there are %lld accounts, the limit is %lld",
			(long long)n, (long long)limit);
}

static int insert_account(struct core *core, const struct account_row *account,
			  const struct key_row *key, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(core->db, &txn, err);

	if (r == 0)
		r = check_quota(core, &txn, err);
	if (r == 0)
		r = accounts_insert(&txn, account->id, account->name, account->created_unix_ms,
				    err);
	if (r == -EEXIST)
		err_code(err, r, "account_exists", "there is an account '%s' already",
			 account->name);
	if (r == 0 && account->admin)
		r = accounts_set_admin(&txn, account->id, err);
	if (r == 0)
		r = credit_open(core, &txn, account->id, false, err);
	if (r == 0)
		r = keys_insert(&txn, key, err);
	return r < 0 ? r : db_commit(&txn, err);
}

static void account_info(const struct account_row *row, struct core_account_info *ret)
{
	*ret = (struct core_account_info){ .admin = row->admin,
					   .created_unix_ms = row->created_unix_ms };
	str_copy(ret->id, sizeof(ret->id), row->id);
	str_copy(ret->name, sizeof(ret->name), row->name);
}

static int require_admin(const struct principal *who, struct err *err)
{
	return who->admin ? 0
			  : err_code(err, -EPERM, "forbidden", "accounts are for administrators");
}

int core_account_create(struct core *core, const struct principal *who, const char *name,
			bool admin, struct core_account_info *ret,
			char ret_text[CORE_KEY_TEXT_SIZE], struct core_key_info *ret_key,
			struct err *err)
{
	_cleanup_(key_row_clear) struct key_row key = { 0 };
	struct account_row account = { .admin = admin, .created_unix_ms = clock_unix_ms() };
	char text[KEY_TEXT_SIZE], random[17];
	int r = require_admin(who, err);

	if (r < 0)
		return r;
	rand_hex(random, sizeof(random) - 1);
	snprintf(account.id, sizeof(account.id), "acc_%s", random);
	str_copy(account.name, sizeof(account.name), name);
	key_make(text, &key);
	key.admin = admin;
	str_copy(key.account_id, sizeof(key.account_id), account.id);
	str_copy(key.created_by, sizeof(key.created_by), who->key_id);
	str_copy(key.label, sizeof(key.label), "first");
	r = insert_account(core, &account, &key, err);
	if (r == 0) {
		log_info("account created", "account=%s name=%s key=%s by=%s", account.id,
			 account.name, key.id, who->key_id);
		str_copy(ret_text, CORE_KEY_TEXT_SIZE, text);
		key_info(&key, ret_key);
		account_info(&account, ret);
	}
	explicit_bzero(text, sizeof(text));
	return r;
}

int core_account_list(struct core *core, const struct principal *who, const char *cursor,
		      uint32_t limit, struct core_account_info **ret, size_t *ret_n,
		      char **ret_next_cursor, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_free_ struct account_row *rows = NULL;
	struct core_account_info *infos;
	struct account_row last;
	size_t n = 0, shown;
	int r = require_admin(who, err);

	if (r == 0)
		r = list_limit(&limit, err);
	if (r == 0)
		r = db_begin_read(core->db, &txn, err);
	if (r == 0 && cursor)
		r = list_cursor(accounts_get(&txn, cursor, &last, err), err);
	if (r == 0)
		r = accounts_list(&txn, cursor ? cursor : "", limit + 1, &rows, &n, err);
	if (r < 0)
		return r;
	shown = n > limit ? limit : n;
	infos = xcalloc(shown + 1, sizeof(*infos));
	for (size_t i = 0; i < shown; i++)
		account_info(&rows[i], &infos[i]);
	*ret = infos;
	*ret_n = shown;
	*ret_next_cursor = n > limit ? xstrdup(rows[shown - 1].id) : NULL;
	return 0;
}
