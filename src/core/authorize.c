/*
 * What a key may do. core_authorize is asked by every surface before an operation; the others here
 * are asked by the functions that act, once they know what an argument comes to (a size, a
 * lifetime, a set of rules), in the transaction or under the lock where that is settled.
 *
 * A sandbox that a key's scope does not have is not there for it: everything that is said of it is
 * what would be said of an id that never was.
 */
#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "core/internal.h"

static const char who_can[] = "whoever manages the account's keys can make one that may";

static int check_admin(const struct principal *who, const struct core_action *action,
		       struct err *err)
{
	if (!str_eq(action->scope, "admin") || who->admin)
		return 0;
	err_code(err, -EPERM, "forbidden", "%s is for administrators, this key is not one's",
		 action->operation);
	err_hint(err, "use the key in admin.key of the server's state directory");
	return -EPERM;
}

static int check_operation(const struct principal *who, const struct core_action *action,
			   struct err *err)
{
	/* A session is its key in other words, so that beginning one is nothing more to allow. */
	if (str_eq(action->scope, "session") ||
	    key_scope_allows(who->scope, action->scope, action->operation))
		return 0;
	err_code(err, -EPERM, "scope_denied", "this key may not %s: its scope does not have \"%s\"",
		 action->operation, action->scope);
	err_hint(err, "%s: skerry key create --allow %s", who_can, action->scope);
	return -EPERM;
}

static bool sees_row(const struct key_scope *scope, const struct sandbox_row *row)
{
	_cleanup_json_ json_t *labels = NULL;

	if (!key_scope_has_labels(scope))
		return key_scope_sees(scope, row->id, NULL);
	return row->labels && json_parse(row->labels, strlen(row->labels), &labels, NULL) == 0 &&
	       key_scope_sees(scope, row->id, labels);
}

bool scope_sees_sandbox(struct core *core, const struct key_scope *scope, const char *id)
{
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	if (!key_scope_narrows_sandboxes(scope))
		return true;
	if (!key_scope_has_labels(scope))
		return key_scope_sees(scope, id, NULL);
	return db_begin_read(core->db, &txn, NULL) == 0 &&
	       sandboxes_get(&txn, id, NULL, &row, NULL) == 0 && sees_row(scope, &row);
}

bool scope_sees_snapshot(const struct key_scope *scope, const struct snapshot_row *row)
{
	_cleanup_json_ json_t *labels = NULL;

	if (!key_scope_has_labels(scope))
		return key_scope_sees(scope, row->source_id, NULL);
	return row->labels && json_parse(row->labels, strlen(row->labels), &labels, NULL) == 0 &&
	       key_scope_sees(scope, row->source_id, labels);
}

int authorize_sandbox(struct core *core, const struct principal *who, const char *id,
		      struct err *err)
{
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r;

	if (!key_scope_narrows_sandboxes(who->scope))
		return 0;
	if (!key_scope_has_labels(who->scope)) /* whether it is there at all is found out later */
		return key_scope_sees(who->scope, id, NULL) ? 0 : sandbox_not_found(id, err);
	if (!sandbox_id_valid(id))
		return sandbox_not_found(id, err);
	r = db_begin_read(core->db, &txn, err);
	if (r == 0)
		r = sandboxes_get(&txn, id, who->account_id, &row, err);
	if (r == -ENOENT || (r == 0 && !sees_row(who->scope, &row)))
		return sandbox_not_found(id, err);
	return r;
}

int core_authorize(struct core *core, const struct principal *who, const struct core_action *action,
		   struct err *err)
{
	int r = check_admin(who, action, err);

	if (r == 0)
		r = check_operation(who, action, err);
	if (r == 0 && action->sandbox_id)
		r = authorize_sandbox(core, who, action->sandbox_id, err);
	return r;
}

/* ---- what arguments come to ---- */

static int denied(struct err *err, const char *hint)
{
	err_hint(err, "%s%s%s", who_can, hint ? ": " : "", hint ? hint : "");
	return -EPERM;
}

int authorize_scope(const struct principal *who, const char *scope, const char *what,
		    struct err *err)
{
	if (key_scope_allows(who->scope, scope, NULL))
		return 0;
	err_code(err, -EPERM, "scope_denied", "this key may not %s: its scope does not have \"%s\"",
		 what, scope);
	return denied(err, NULL);
}

int authorize_size(const struct principal *who, const char *size, struct err *err)
{
	if (key_scope_allows_size(who->scope, size))
		return 0;
	err_code(err, -EPERM, "scope_denied",
		 "this key may not make sandboxes of size '%s': \"sizes\" of its scope does not "
		 "have it",
		 size);
	return denied(err, NULL);
}

int authorize_lifetime(const struct principal *who, int64_t minutes, struct err *err)
{
	const int64_t max = key_scope_lifetime_minutes_max(who->scope);

	if (max == 0 || minutes <= max)
		return 0;
	err_code(err, -EPERM, "scope_denied",
		 "the lifetime would be %lld minutes in total, this key may give %lld "
		 "(\"lifetime_minutes_max\" of its scope)",
		 (long long)minutes, (long long)max);
	return denied(err, NULL);
}

int64_t authorize_default_minutes(const struct principal *who, int64_t minutes)
{
	const int64_t max = key_scope_lifetime_minutes_max(who->scope);

	return max > 0 && max < minutes ? max : minutes;
}

int authorize_making(const struct principal *who, struct err *err)
{
	if (!key_scope_sandboxes(who->scope))
		return 0;
	err_code(err, -EPERM, "scope_denied",
		 "this key is for certain sandboxes (\"sandboxes\" of its scope) and can make no "
		 "others");
	return denied(err, "with \"labels\" instead, it can make what it may use");
}

/* Bytes of a label that a message has of it. */
static int shown(const char *text)
{
	return (int)utf8_whole_prefix(text, strnlen(text, 64));
}

int authorize_labels(const struct principal *who, const json_t *labels, struct err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)key_scope_labels(who->scope), key, value) {
		if (json_equal(json_object_get(labels, key), value))
			continue;
		err_code(err, -EPERM, "scope_denied",
			 "this key makes sandboxes with the label %.*s=%.*s only (\"labels\" of "
			 "its scope)",
			 shown(key), key, shown(json_string_value(value)),
			 json_string_value(value));
		return denied(err, NULL);
	}
	return 0;
}

json_t *authorize_add_labels(const struct principal *who, const json_t *labels)
{
	json_t *all = labels ? json_copy((json_t *)(uintptr_t)labels) : json_object();
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)key_scope_labels(who->scope), key, value) {
		if (!json_object_get(all, key))
			json_put(all, key, json_copy(value));
	}
	return all;
}

int authorize_egress(const struct principal *who, const struct ruleset *before,
		     const struct ruleset *after, struct err *err)
{
	char offender[RULE_PRINT_SIZE];

	if (key_scope_may_loosen_egress(who->scope) || ruleset_within(after, before, offender))
		return 0;
	err_code(err, -EPERM, "scope_denied",
		 "this key may not loosen egress (\"egress_loosen\" of its scope), and '%.300s' is "
		 "not allowed now",
		 offender);
	return denied(err, NULL);
}
