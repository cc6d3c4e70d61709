/*
 * Keys. Changes are made in one write transaction with what they depend on (quota, the last key),
 * and the passes in memory hear of them after the commit, before the caller does.
 *
 * STATE/admin.key holds the text of the first key, for whoever is root on the host. It follows that
 * key: a new text is written beside it before the commit and takes its place after it, so that a
 * daemon that dies leaves a file that opens the server (identity.c).
 */
#include "core/keys.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/internal.h"

#define MINUTE_MS      60000LL
#define SECOND_MS      1000LL
#define KEYS_LOOKED_AT 100000

static_assert(CORE_KEY_TEXT_SIZE > KEY_TEXT_SIZE, "a key's text fits");
static_assert(CORE_KEY_LABEL_MAX < KEY_LABEL_SIZE, "a label fits");

/* ---- what is known of a key ---- */

void core_key_info_clear(struct core_key_info *info)
{
	json_decref(info->scopes);
	info->scopes = NULL;
}

void core_key_infos_free(struct core_key_info *infos, size_t n)
{
	for (size_t i = 0; i < n; i++)
		core_key_info_clear(&infos[i]);
	free(infos);
}

int key_row_scope(const struct key_row *row, struct key_scope **ret, struct err *err)
{
	_cleanup_json_ json_t *json = NULL;
	int r = row->scope ? json_parse(row->scope, strlen(row->scope), &json, err) : 0;

	return r < 0 ? r : key_scope_parse(json, ret, err);
}

void key_info(const struct key_row *row, struct core_key_info *ret)
{
	_cleanup_key_scope_ struct key_scope *scope = NULL;

	*ret = (struct core_key_info){
		.admin = row->admin,
		.created_unix_ms = row->created_unix_ms,
		.expires_unix_ms = row->expires_unix_ms,
		.rotated_unix_ms = row->rotated_unix_ms,
		.revoked_unix_ms = row->revoked_unix_ms,
	};
	str_copy(ret->id, sizeof(ret->id), row->id);
	str_copy(ret->account_id, sizeof(ret->account_id), row->account_id);
	str_copy(ret->label, sizeof(ret->label), row->label);
	str_copy(ret->prefix, sizeof(ret->prefix), row->prefix);
	str_copy(ret->created_by, sizeof(ret->created_by), row->created_by);
	if (key_row_scope(row, &scope, NULL) < 0)
		log_error("the scope of a key cannot be read, and the key opens nothing", "key=%s",
			  row->id);
	ret->scopes = key_scope_json(scope);
}

/* ---- who may act on which ---- */

static int64_t until_of(const struct principal *who)
{
	return who->pass ? atomic_load(&who->pass->until_unix_ms) : KEY_PASS_FOREVER;
}

/* The account that is acted on. */
static int check_account(struct db_txn *txn, const struct principal *who, const char *account_id,
			 struct account_row *ret, struct err *err)
{
	if (!account_id)
		account_id = who->account_id;
	if (!str_eq(account_id, who->account_id) && !who->admin) {
		err_code(err, -EPERM, "forbidden", "other accounts are for administrators");
		err_hint(err, "leave account_id out for your own account");
		return -EPERM;
	}
	return accounts_get(txn, account_id, ret, err);
}

static bool is_within(const struct core *core, const struct principal *who,
		      const struct key_row *row)
{
	_cleanup_key_scope_ struct key_scope *scope = NULL;

	if (str_eq(row->id, who->key_id))
		return true;
	return (!row->admin || who->admin) && key_row_scope(row, &scope, NULL) == 0 &&
	       key_scope_within(scope, who->scope, core->operation_scope, NULL);
}

static int key_not_found(const char *id, struct err *err)
{
	err_code(err, -ENOENT, "key_not_found", "no key '%.64s'", id);
	err_hint(err, "list your keys to see their ids");
	return -ENOENT;
}

static int load_key(struct core *core, struct db_txn *txn, const struct principal *who,
		    const struct account_row *account, const char *id, struct key_row *ret,
		    struct err *err)
{
	int r = keys_get(txn, id, account->id, ret, err);

	if (r == -ENOENT || (r == 0 && !is_within(core, who, ret)))
		return key_not_found(id, err);
	return r;
}

/* ---- creating ---- */

static int check_within(const struct core *core, const struct principal *who,
			const struct key_scope *scope, struct err *err)
{
	const char *field = "";

	if (key_scope_within(scope, who->scope, core->operation_scope, &field))
		return 0;
	err_code(err, -EPERM, "scope_denied",
		 "a key can make keys within its own scope only, and \"%s\" would go further",
		 field);
	err_hint(err, "narrow \"%s\" of scopes, or use a key that may do more", field);
	return -EPERM;
}

static int check_sandboxes(struct db_txn *txn, const char *account_id,
			   const struct key_scope *scope, struct err *err)
{
	const char *const *ids = key_scope_sandboxes(scope);

	for (size_t i = 0; ids && ids[i]; i++) {
		struct sandbox_row row = { 0 };
		int r = sandbox_id_valid(ids[i]) ? sandboxes_get(txn, ids[i], account_id, &row, err)
						 : -ENOENT;

		sandbox_row_clear(&row);
		if (r < 0)
			return r == -ENOENT ? sandbox_not_found(ids[i], err) : r;
	}
	return 0;
}

static int check_admin(const struct principal *who, const struct account_row *account,
		       const struct core_key_request *req, struct err *err)
{
	if (!req->admin)
		return 0;
	if (!who->admin) {
		err_code(err, -EPERM, "scope_denied",
			 "only a key that administers can make another that does");
		err_hint(err, "leave \"admin\" out");
		return -EPERM;
	}
	if (account->admin)
		return 0;
	return err_code(err, -EINVAL, "invalid_argument",
			"account '%s' administers nothing, so no key of it can", account->id);
}

static int set_expiry(const struct principal *who, int64_t ttl_minutes, struct key_row *row,
		      struct err *err)
{
	const int64_t until = until_of(who);

	if (ttl_minutes)
		row->expires_unix_ms = row->created_unix_ms + ttl_minutes * MINUTE_MS;
	else if (until != KEY_PASS_FOREVER)
		row->expires_unix_ms = until;
	if (!row->expires_unix_ms || row->expires_unix_ms <= until)
		return 0;
	err_code(err, -EPERM, "scope_denied",
		 "this key expires itself, before the one that it would make");
	err_hint(err, "leave ttl_minutes out: the new key then lasts as long as this one");
	return -EPERM;
}

static int check_quota(struct core *core, struct db_txn *txn, const char *account_id,
		       struct err *err)
{
	const int64_t limit = core->limits.keys_per_account;
	int64_t n;
	int r = keys_count(txn, account_id, clock_unix_ms(), &n, err);

	if (r < 0 || n < limit)
		return r;
	err_code(err, -EDQUOT, "limit_reached", "the account has %lld keys, the limit is %lld",
		 (long long)n, (long long)limit);
	err_hint(err, "revoke one that is not needed any more");
	return -EDQUOT;
}

static char *scope_text(const struct key_scope *scope)
{
	_cleanup_json_ json_t *json = key_scope_json(scope);
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (!scope)
		return NULL;
	json_write(json, &text);
	return buf_take(&text);
}

static int insert_key(struct core *core, const struct principal *who,
		      const struct core_key_request *req, const struct key_scope *scope,
		      struct key_row *row, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct account_row account = { 0 };
	int r = db_begin_write(core->db, &txn, err);

	if (r == 0)
		r = check_account(&txn, who, req->account_id, &account, err);
	if (r == 0)
		r = check_admin(who, &account, req, err);
	if (r == 0)
		r = check_sandboxes(&txn, account.id, scope, err);
	if (r == 0)
		r = check_quota(core, &txn, account.id, err);
	if (r < 0)
		return r;
	str_copy(row->account_id, sizeof(row->account_id), account.id);
	r = keys_insert(&txn, row, err);
	return r < 0 ? r : db_commit(&txn, err);
}

/* What the request leaves open is as of the key that makes it. */
static int scope_of_request(const struct principal *who, const struct core_key_request *req,
			    struct key_scope **ret, struct err *err)
{
	_cleanup_json_ json_t *json = key_scope_json(who->scope);

	if (req->scopes)
		json_object_update(json, (json_t *)(uintptr_t)req->scopes);
	return key_scope_parse(json, ret, err);
}

int core_key_create(struct core *core, const struct principal *who,
		    const struct core_key_request *req, char ret_text[CORE_KEY_TEXT_SIZE],
		    struct core_key_info *ret, struct err *err)
{
	_cleanup_key_scope_ struct key_scope *scope = NULL;
	_cleanup_(key_row_clear) struct key_row row = { 0 };
	char text[KEY_TEXT_SIZE];
	int r = scope_of_request(who, req, &scope, err);

	if (r == 0)
		r = check_within(core, who, scope, err);
	if (r < 0)
		return r;
	key_make(text, &row);
	row.admin = req->admin;
	row.scope = scope_text(scope);
	str_copy(row.label, sizeof(row.label), req->label ? req->label : "");
	str_copy(row.created_by, sizeof(row.created_by), who->key_id);
	r = set_expiry(who, req->ttl_minutes, &row, err);
	if (r == 0)
		r = insert_key(core, who, req, scope, &row, err);
	if (r == 0) {
		log_info("key created", "key=%s account=%s by=%s", row.id, row.account_id,
			 who->key_id);
		str_copy(ret_text, CORE_KEY_TEXT_SIZE, text);
		key_info(&row, ret);
	}
	explicit_bzero(text, sizeof(text));
	return r;
}

/* ---- listing ---- */

/* Those that who may see; the cursor is the last one looked at. */
static void pick(struct core *core, const struct principal *who, const struct key_row *rows,
		 size_t n, struct core_key_info **ret, size_t *ret_n)
{
	struct core_key_info *infos = xcalloc(n + 1, sizeof(*infos));
	size_t shown = 0;

	for (size_t i = 0; i < n; i++) {
		if (is_within(core, who, &rows[i]))
			key_info(&rows[i], &infos[shown++]);
	}
	*ret = infos;
	*ret_n = shown;
}

int core_key_list(struct core *core, const struct principal *who,
		  const struct core_key_list_request *req, struct core_key_info **ret,
		  size_t *ret_n, char **ret_next_cursor, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct account_row account = { 0 };
	struct key_row *rows = NULL, last = { 0 };
	uint32_t limit = req->limit;
	size_t n = 0;
	int r = list_limit(&limit, err);

	if (r == 0)
		r = db_begin_read(core->db, &txn, err);
	if (r == 0)
		r = check_account(&txn, who, req->account_id, &account, err);
	if (r == 0 && req->cursor) {
		r = list_cursor(keys_get(&txn, req->cursor, account.id, &last, err), err);
		key_row_clear(&last);
	}
	if (r == 0)
		r = keys_list(&txn,
			      &(struct key_filter){
				      .account_id = account.id,
				      .valid_unix_ms = req->all ? 0 : clock_unix_ms(),
				      .after = req->cursor ? req->cursor : "",
				      .limit = limit + 1,
			      },
			      &rows, &n, err);
	if (r < 0)
		return r;
	pick(core, who, rows, n > limit ? limit : n, ret, ret_n);
	*ret_next_cursor = n > limit ? xstrdup(rows[limit - 1].id) : NULL;
	key_rows_free(rows, n);
	return 0;
}

/* ---- rotating ---- */

static int check_rotatable(const struct principal *who, const struct key_row *row, struct err *err)
{
	if (row->revoked_unix_ms ||
	    (row->expires_unix_ms && row->expires_unix_ms <= clock_unix_ms())) {
		err_code(err, -EEXIST, "key_revoked", "key '%s' is good no more", row->id);
		err_hint(err, "create a new one");
		return -EEXIST;
	}
	if (str_eq(row->id, who->key_id) || key_row_until(row) <= until_of(who))
		return 0;
	err_code(err, -EPERM, "scope_denied", "key '%s' lasts longer than the one that asks",
		 row->id);
	err_hint(err, "use a key that does not expire before it");
	return -EPERM;
}

static int write_rotation(struct core *core, const struct principal *who, const char *account_id,
			  const char *id, int64_t overlap_seconds, struct key_row *row,
			  struct key_row *fresh, const char *text, int64_t *ret_old_until,
			  struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	const int64_t now = clock_unix_ms();
	struct account_row account = { 0 };
	int r = db_begin_write(core->db, &txn, err);

	if (r == 0)
		r = check_account(&txn, who, account_id, &account, err);
	if (r == 0)
		r = load_key(core, &txn, who, &account, id, row, err);
	if (r == 0)
		r = check_rotatable(who, row, err);
	if (r < 0)
		return r;
	*ret_old_until = overlap_seconds ? now + overlap_seconds * SECOND_MS : 0;
	r = keys_rotate(&txn, row, fresh->hash, fresh->prefix, now, *ret_old_until, err);
	if (r == 0)
		r = admin_key_prepare(core, row->hash, text, err);
	return r < 0 ? r : db_commit(&txn, err);
}

int core_key_rotate(struct core *core, const struct principal *who, const char *account_id,
		    const char *id, int64_t overlap_seconds, char ret_text[CORE_KEY_TEXT_SIZE],
		    struct core_key_info *ret, struct err *err)
{
	_cleanup_(key_row_clear) struct key_row row = { 0 };
	struct key_row fresh = { 0 };
	char text[KEY_TEXT_SIZE];
	int64_t old_until = 0;
	int r;

	key_make_text(text, &fresh);
	r = write_rotation(core, who, account_id, id, overlap_seconds, &row, &fresh, text,
			   &old_until, err);
	if (r == 0) {
		admin_key_replace(core);
		key_passes_limit(&core->passes, row.id, fresh.hash, old_until);
		log_info("key rotated", "key=%s account=%s by=%s overlap_s=%lld", row.id,
			 row.account_id, who->key_id, (long long)overlap_seconds);
		row.rotated_unix_ms = clock_unix_ms();
		str_copy(row.prefix, sizeof(row.prefix), fresh.prefix);
		str_copy(ret_text, CORE_KEY_TEXT_SIZE, text);
		key_info(&row, ret);
	}
	explicit_bzero(text, sizeof(text));
	return r;
}

/* ---- revoking ---- */

/* By it keys can be made, for as long as the account lives; of an account that administers, all
 * keys. */
static bool manages(const struct key_row *row, const struct account_row *account)
{
	_cleanup_key_scope_ struct key_scope *scope = NULL;

	return !row->revoked_unix_ms && !row->expires_unix_ms && (row->admin || !account->admin) &&
	       key_row_scope(row, &scope, NULL) == 0 && !scope;
}

/* Only the account's own keys are kept from it: an administrator can give it another. */
static int check_not_last(struct db_txn *txn, const struct principal *who,
			  const struct account_row *account, const struct key_row *row,
			  struct err *err)
{
	const struct key_filter filter = { .account_id = account->id,
					   .valid_unix_ms = clock_unix_ms(),
					   .after = "",
					   .limit = KEYS_LOOKED_AT };
	struct key_row *rows = NULL;
	bool another = false;
	size_t n = 0;
	int r;

	if (!manages(row, account) || !str_eq(account->id, who->account_id))
		return 0;
	r = keys_list(txn, &filter, &rows, &n, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n && !another; i++)
		another = !str_eq(rows[i].id, row->id) && manages(&rows[i], account);
	key_rows_free(rows, n);
	if (another)
		return 0;
	err_code(err, -EEXIST, "last_key",
		 "key '%s' is the last one that can manage %s: nobody could get in again", row->id,
		 account->admin ? "this server" : "the account");
	err_hint(err, "rotate it, which ends its present text at once; or create another key "
		      "without scopes and expiry first");
	return -EEXIST;
}

static int write_revocation(struct core *core, const struct principal *who, const char *account_id,
			    const char *id, struct key_row *row, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct account_row account = { 0 };
	int64_t now = clock_unix_ms();
	int r = db_begin_write(core->db, &txn, err);

	if (r == 0)
		r = check_account(&txn, who, account_id, &account, err);
	if (r == 0)
		r = load_key(core, &txn, who, &account, id, row, err);
	if (r < 0 || row->revoked_unix_ms)
		return r;
	r = check_not_last(&txn, who, &account, row, err);
	if (r == 0)
		r = keys_revoke(&txn, row->id, now, err);
	if (r == 0)
		r = db_commit(&txn, err);
	if (r == 0)
		row->revoked_unix_ms = now;
	return r;
}

int core_key_revoke(struct core *core, const struct principal *who, const char *account_id,
		    const char *id, struct core_key_info *ret, struct err *err)
{
	_cleanup_(key_row_clear) struct key_row row = { 0 };
	int r = write_revocation(core, who, account_id, id, &row, err);

	if (r < 0)
		return r;
	key_passes_limit(&core->passes, row.id, NULL, 0);
	admin_key_forget(core, row.hash);
	log_info("key revoked", "key=%s account=%s by=%s", row.id, row.account_id, who->key_id);
	key_info(&row, ret);
	return 0;
}
