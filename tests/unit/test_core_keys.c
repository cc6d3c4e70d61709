/* Keys and accounts in the core: who may make, see and change which; rotation, revocation, expiry;
 * and what becomes of the file that has the first key. */
#include "core/keys.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "network_rig.h"

#define ADMIN_KEY_SIZE 100

struct made {
	char text[CORE_KEY_TEXT_SIZE];
	struct core_key_info info;
};

static struct made make_key(struct fixture *f, const struct principal *who, const char *scopes)
{
	_cleanup_json_ json_t *json = scopes ? json_loads(scopes, 0, NULL) : NULL;
	const struct core_key_request req = { .label = "made", .scopes = json };
	struct made made = { 0 };
	struct err err = ERR_INIT;

	assert_int_equal(core_key_create(f->core, who, &req, made.text, &made.info, &err), 0);
	return made;
}

static void made_clear(struct made *made)
{
	core_key_info_clear(&made->info);
}
#define _cleanup_made_ __attribute__((cleanup(made_clear)))

static struct principal enter(struct fixture *f, const char *text)
{
	struct principal who = { 0 };

	assert_int_equal(core_authenticate(f->core, text, strlen(text), &who, NULL), 0);
	return who;
}

static void shut_out(struct fixture *f, const char *text)
{
	struct principal who = { 0 };
	struct err err = ERR_INIT;

	assert_int_equal(core_authenticate(f->core, text, strlen(text), &who, &err), -EACCES);
	assert_string_equal(err_code_of(&err), "invalid_key");
	assert_null(strstr(err.message, text));
}

static void refused(int r, const struct err *err, const char *code)
{
	assert_true(r < 0);
	assert_string_equal(err_code_of(err), code);
}

static void create_refused(struct fixture *f, const struct principal *who, const char *scopes,
			   const char *code)
{
	_cleanup_json_ json_t *json = json_loads(scopes, 0, NULL);
	const struct core_key_request req = { .scopes = json };
	struct core_key_info info;
	char text[CORE_KEY_TEXT_SIZE];
	struct err err = ERR_INIT;

	refused(core_key_create(f->core, who, &req, text, &info, &err), &err, code);
}

static size_t count_keys(struct fixture *f, const struct principal *who, bool all)
{
	const struct core_key_list_request req = { .all = all, .limit = 200 };
	struct core_key_info *infos = NULL;
	char *next = NULL;
	size_t n = 0;

	assert_int_equal(core_key_list(f->core, who, &req, &infos, &n, &next, NULL), 0);
	assert_null(next);
	core_key_infos_free(infos, n);
	return n;
}

static int end_key(struct fixture *f, const struct principal *who, const char *account_id,
		   const char *id, struct err *err)
{
	struct core_key_info info = { 0 };
	int r = core_key_revoke(f->core, who, account_id, id, &info, err);

	core_key_info_clear(&info);
	return r;
}

static int renew(struct fixture *f, const struct principal *who, const char *id, int64_t overlap,
		 char text[CORE_KEY_TEXT_SIZE], struct err *err)
{
	struct core_key_info info = { 0 };
	int r = core_key_rotate(f->core, who, NULL, id, overlap, text, &info, err);

	core_key_info_clear(&info);
	return r;
}

static void admin_key_text(struct fixture *f, char out[ADMIN_KEY_SIZE])
{
	_cleanup_free_ char *path = xasprintf("%s/admin.key", f->config.state_dir);
	_cleanup_buf_ struct buf text = BUF_INIT;

	assert_int_equal(file_read(path, ADMIN_KEY_SIZE, &text), 0);
	text.data[text.len - 1] = '\0';
	str_copy(out, ADMIN_KEY_SIZE, text.data);
}

/* ---- what a key is ---- */

static void a_key_is_what_was_asked_for(void **state)
{
	struct fixture *f = *state;
	_cleanup_made_ struct made full = make_key(f, &f->admin, NULL);
	_cleanup_made_ struct made narrow =
		make_key(f, &f->admin, "{\"operations\": [\"exec\"], \"root\": false}");
	struct principal who = enter(f, full.text), less = enter(f, narrow.text);

	assert_string_equal(full.info.created_by, f->admin.key_id);
	assert_string_equal(full.info.label, "made");
	assert_true(str_starts(full.text, full.info.prefix));
	assert_string_equal(who.account_id, f->admin.account_id);
	assert_false(who.admin); /* not asked for */
	assert_null(who.scope);
	assert_true(key_scope_allows(less.scope, "exec", NULL));
	assert_false(key_scope_allows(less.scope, "files", NULL));
	assert_int_equal(json_object_size(narrow.info.scopes), 2);
	principal_clear(&who);
	principal_clear(&less);
}

static void what_it_may_survives_a_restart(void **state)
{
	struct fixture *f = *state;
	_cleanup_made_ struct made narrow = make_key(f, &f->admin, "{\"operations\": [\"exec\"]}");
	_cleanup_made_ struct made gone = make_key(f, &f->admin, NULL);
	struct principal who;

	assert_int_equal(end_key(f, &f->admin, NULL, gone.info.id, NULL), 0);
	rig_restart(f);
	who = enter(f, narrow.text);
	assert_false(key_scope_allows(who.scope, "files", NULL));
	principal_clear(&who);
	shut_out(f, gone.text);
}

/* ---- who may what ---- */

static void a_key_makes_no_more_than_itself(void **state)
{
	struct fixture *f = *state;
	_cleanup_made_ struct made maker =
		make_key(f, &f->admin,
			 "{\"operations\": [\"exec\", \"key:write\", \"key:read\"], \"labels\": "
			 "{\"a\": \"1\"},"
			 " \"root\": false, \"lifetime_minutes_max\": 10}");
	struct principal who = enter(f, maker.text);
	_cleanup_made_ struct made same = make_key(f, &who, NULL);
	_cleanup_made_ struct made less = make_key(f, &who, "{\"operations\": [\"exec\"]}");
	struct core_key_request admin = { .admin = true };
	struct core_key_info info;
	char text[CORE_KEY_TEXT_SIZE];
	struct err err = ERR_INIT;

	/* What was left open is as of the maker. */
	assert_true(json_equal(same.info.scopes, maker.info.scopes));
	assert_int_equal(json_object_size(less.info.scopes), 4);
	create_refused(f, &who, "{\"operations\": [\"files\"]}", "scope_denied");
	create_refused(f, &who, "{\"root\": true}", "scope_denied");
	create_refused(f, &who, "{\"labels\": {\"a\": \"2\"}}", "scope_denied");
	create_refused(f, &who, "{\"lifetime_minutes_max\": 11}", "scope_denied");
	refused(core_key_create(f->core, &who, &admin, text, &info, &err), &err, "scope_denied");
	principal_clear(&who);
}

static void wider_keys_are_not_there(void **state)
{
	struct fixture *f = *state;
	_cleanup_made_ struct made maker =
		make_key(f, &f->admin, "{\"operations\": [\"exec\", \"key:write\", \"key:read\"]}");
	_cleanup_made_ struct made wide = make_key(f, &f->admin, NULL);
	struct principal who = enter(f, maker.text), nobody = enter(f, wide.text);
	_cleanup_made_ struct made less = make_key(f, &who, "{\"operations\": [\"exec\"]}");
	char text[CORE_KEY_TEXT_SIZE];
	struct err foreign = ERR_INIT, unknown = ERR_INIT;

	assert_int_equal(count_keys(f, &who, false), 2); /* itself, and what it made */
	assert_int_equal(count_keys(f, &f->admin, false), 4);
	assert_int_equal(count_keys(f, &nobody, false), 3); /* not the administrator's */
	refused(renew(f, &who, wide.info.id, 0, text, &foreign), &foreign, "key_not_found");
	refused(renew(f, &who, "key_0123456789abcdef", 0, text, &unknown), &unknown,
		"key_not_found");
	assert_string_equal(foreign.hint, unknown.hint);
	refused(end_key(f, &who, NULL, f->admin.key_id, &foreign), &foreign, "key_not_found");
	refused(end_key(f, &nobody, NULL, f->admin.key_id, &foreign), &foreign, "key_not_found");
	assert_int_equal(renew(f, &who, less.info.id, 0, text, NULL), 0);
	assert_int_equal(end_key(f, &who, NULL, less.info.id, NULL), 0);
	principal_clear(&who);
	principal_clear(&nobody);
}

static void accounts_are_apart(void **state)
{
	struct fixture *f = *state;
	struct core_account_info one, two, *all = NULL;
	struct made first = { 0 }, second = { 0 };
	struct principal who;
	struct err err = ERR_INIT, unknown = ERR_INIT;
	char *next = NULL;
	size_t n = 0;

	assert_int_equal(core_account_create(f->core, &f->admin, "one", false, &one, first.text,
					     &first.info, &err),
			 0);
	assert_int_equal(core_account_create(f->core, &f->admin, "two", false, &two, second.text,
					     &second.info, &err),
			 0);
	core_key_info_clear(&second.info);
	refused(core_account_create(f->core, &f->admin, "two", false, &two, second.text,
				    &second.info, &err),
		&err, "account_exists");
	who = enter(f, first.text);
	assert_false(who.admin);
	assert_string_equal(who.account_id, one.id);
	assert_int_equal(count_keys(f, &who, true), 1);
	refused(core_account_list(f->core, &who, NULL, 0, &all, &n, &next, &err), &err,
		"forbidden");
	refused(core_account_create(f->core, &who, "three", false, &two, second.text, &second.info,
				    &err),
		&err, "forbidden");
	refused(end_key(f, &who, NULL, f->admin.key_id, &err), &err, "key_not_found");
	refused(end_key(f, &who, NULL, "key_0123456789abcdef", &unknown), &unknown,
		"key_not_found");
	assert_string_equal(err.hint, unknown.hint);
	refused(end_key(f, &who, f->admin.account_id, f->admin.key_id, &err), &err, "forbidden");
	refused(end_key(f, &who, "acc_0123456789abcdef", f->admin.key_id, &err), &err, "forbidden");
	refused(end_key(f, &f->admin, "acc_0123456789abcdef", who.key_id, &err), &err,
		"account_not_found");
	assert_int_equal(core_account_list(f->core, &f->admin, NULL, 2, &all, &n, &next, &err), 0);
	assert_int_equal(n, 2);
	assert_string_equal(all[1].name, "one");
	assert_non_null(next);
	free(all);
	free(next);
	/* The administrator may end the last key of another account, and give it another. */
	assert_int_equal(end_key(f, &f->admin, one.id, who.key_id, &err), 0);
	shut_out(f, first.text);
	principal_clear(&who);
	core_key_info_clear(&first.info);
}

static void sandboxes_of_a_scope_are_the_accounts(void **state)
{
	struct fixture *f = *state;
	_cleanup_sandbox_ struct sandbox *sb = make_sandbox(f, "mine", "[]");
	_cleanup_free_ char *scopes = xasprintf("{\"sandboxes\": [\"%s\"]}", sb->id);
	_cleanup_made_ struct made made = make_key(f, &f->admin, scopes);
	struct principal who = enter(f, made.text);

	assert_true(key_scope_sees(who.scope, sb->id, NULL));
	create_refused(f, &f->admin, "{\"sandboxes\": [\"sbx_0123456789ab\"]}", "not_found");
	create_refused(f, &f->admin, "{\"sandboxes\": [\"../etc\"]}", "not_found");
	principal_clear(&who);
}

/* ---- rotation, revocation, expiry ---- */

static void rotation_with_overlap(void **state)
{
	struct fixture *f = *state;
	_cleanup_made_ struct made made = make_key(f, &f->admin, NULL);
	struct principal old = enter(f, made.text), fresh;
	char second[CORE_KEY_TEXT_SIZE], third[CORE_KEY_TEXT_SIZE];

	assert_int_equal(renew(f, &f->admin, made.info.id, 600, second, NULL), 0);
	assert_string_not_equal(second, made.text);
	assert_true(principal_is_good(&old));
	fresh = enter(f, second);
	assert_string_equal(fresh.key_id, old.key_id);
	principal_clear(&old);
	old = enter(f, made.text);
	assert_int_equal(renew(f, &f->admin, made.info.id, 0, third, NULL), 0);
	assert_false(principal_is_good(&old));
	assert_false(principal_is_good(&fresh));
	shut_out(f, made.text);
	shut_out(f, second);
	principal_clear(&old);
	principal_clear(&fresh);
	fresh = enter(f, third);
	assert_true(principal_is_good(&fresh));
	principal_clear(&fresh);
}

static void revocation_reaches_who_holds_on(void **state)
{
	struct fixture *f = *state;
	_cleanup_made_ struct made made = make_key(f, &f->admin, NULL);
	struct principal who = enter(f, made.text);
	struct err err = ERR_INIT;
	char text[CORE_KEY_TEXT_SIZE];

	assert_int_equal(end_key(f, &f->admin, NULL, made.info.id, NULL), 0);
	assert_false(principal_is_good(&who));
	shut_out(f, made.text);
	assert_int_equal(end_key(f, &f->admin, NULL, made.info.id, NULL), 0); /* again */
	refused(renew(f, &f->admin, made.info.id, 0, text, &err), &err, "key_revoked");
	assert_int_equal(count_keys(f, &f->admin, false), 1);
	assert_int_equal(count_keys(f, &f->admin, true), 2);
	principal_clear(&who);
}

static void keys_expire(void **state)
{
	struct fixture *f = *state;
	const struct core_key_request req = { .ttl_minutes = 1 }, longer = { .ttl_minutes = 2 };
	struct core_key_info info = { 0 }, child = { 0 };
	struct made full = { 0 };
	char text[CORE_KEY_TEXT_SIZE], other[CORE_KEY_TEXT_SIZE];
	struct principal who;
	struct err err = ERR_INIT;

	assert_int_equal(core_key_create(f->core, &f->admin, &req, text, &info, &err), 0);
	full = make_key(f, &f->admin, NULL);
	who = enter(f, text);
	assert_true(info.expires_unix_ms > clock_unix_ms());
	/* It cannot make, nor get the text of, a key that lasts longer. */
	refused(core_key_create(f->core, &who, &longer, other, &child, &err), &err, "scope_denied");
	refused(renew(f, &who, full.info.id, 0, other, &err), &err, "scope_denied");
	assert_int_equal(core_key_create(f->core, &who, &(struct core_key_request){ 0 }, other,
					 &child, &err),
			 0);
	assert_int_equal(child.expires_unix_ms, info.expires_unix_ms);
	key_passes_limit(&f->core->passes, info.id, NULL, clock_unix_ms()); /* a minute later */
	assert_false(principal_is_good(&who));
	shut_out(f, text);
	principal_clear(&who);
	core_key_info_clear(&info);
	core_key_info_clear(&child);
	made_clear(&full);
}

static void the_last_key_stays(void **state)
{
	struct fixture *f = *state;
	_cleanup_made_ struct made ordinary = make_key(f, &f->admin, NULL);
	const struct core_key_request expiring = { .admin = true, .ttl_minutes = 60 };
	const struct core_key_request lasting = { .admin = true };
	struct core_key_info info = { 0 };
	char text[CORE_KEY_TEXT_SIZE];
	struct principal who;
	struct err err = ERR_INIT;

	/* Neither a key that administers nothing nor one that expires would let anybody in again.
	 */
	assert_false(ordinary.info.admin);
	refused(end_key(f, &f->admin, NULL, f->admin.key_id, &err), &err, "last_key");
	assert_int_equal(core_key_create(f->core, &f->admin, &expiring, text, &info, &err), 0);
	core_key_info_clear(&info);
	refused(end_key(f, &f->admin, NULL, f->admin.key_id, &err), &err, "last_key");
	assert_true(principal_is_good(&f->admin));
	assert_int_equal(core_key_create(f->core, &f->admin, &lasting, text, &info, &err), 0);
	core_key_info_clear(&info);
	assert_int_equal(end_key(f, &f->admin, NULL, f->admin.key_id, &err), 0);
	who = enter(f, text);
	refused(end_key(f, &who, NULL, who.key_id, &err), &err, "last_key");
	principal_clear(&who);
}

static void keys_are_counted(void **state)
{
	struct fixture *f = *state;
	struct core_key_info info = { 0 };
	char text[CORE_KEY_TEXT_SIZE];
	struct err err = ERR_INIT;

	f->core->limits.keys_per_account = 2;
	assert_int_equal(core_key_create(f->core, &f->admin, &(struct core_key_request){ 0 }, text,
					 &info, &err),
			 0);
	refused(core_key_create(f->core, &f->admin, &(struct core_key_request){ 0 }, text, &info,
				&err),
		&err, "limit_reached");
	assert_int_equal(end_key(f, &f->admin, NULL, info.id, &err), 0);
	core_key_info_clear(&info);
	assert_int_equal(core_key_create(f->core, &f->admin, &(struct core_key_request){ 0 }, text,
					 &info, &err),
			 0);
	core_key_info_clear(&info);
}

/* ---- the file of the first key ---- */

static void the_file_follows_its_key(void **state)
{
	struct fixture *f = *state;
	_cleanup_made_ struct made other = make_key(f, &f->admin, NULL);
	char before[ADMIN_KEY_SIZE], after[ADMIN_KEY_SIZE], text[CORE_KEY_TEXT_SIZE];

	admin_key_text(f, before);
	assert_int_equal(renew(f, &f->admin, other.info.id, 0, text, NULL), 0);
	admin_key_text(f, after);
	assert_string_equal(before, after); /* of another key */
	assert_int_equal(renew(f, &f->admin, f->admin.key_id, 60, text, NULL), 0);
	admin_key_text(f, after);
	assert_string_equal(after, text);
	rig_restart(f); /* which reads it */
}

/* The daemon dies between the commit and the file, or before the commit. */
static void the_file_survives_a_death(void **state)
{
	struct fixture *f = *state;
	_cleanup_free_ char *path = xasprintf("%s/admin.key", f->config.state_dir);
	_cleanup_free_ char *next = xasprintf("%s.next", path);
	char before[ADMIN_KEY_SIZE], text[CORE_KEY_TEXT_SIZE], after[ADMIN_KEY_SIZE];

	admin_key_text(f, before);
	assert_int_equal(renew(f, &f->admin, f->admin.key_id, 0, text, NULL), 0);
	assert_int_equal(rename(path, next), 0);
	assert_int_equal(file_write_durable(path, before, strlen(before), 0600), 0);
	rig_restart(f);
	admin_key_text(f, after);
	assert_string_equal(after, text);
	assert_int_equal(file_write_durable(next, before, strlen(before), 0600), 0);
	rig_restart(f);
	admin_key_text(f, after);
	assert_string_equal(after, text);
	assert_int_not_equal(access(next, F_OK), 0);
}

static void the_file_of_a_revoked_key_goes(void **state)
{
	struct fixture *f = *state;
	_cleanup_free_ char *path = xasprintf("%s/admin.key", f->config.state_dir);
	const struct core_key_request lasting = { .admin = true };
	struct core_key_info info = { 0 };
	char text[CORE_KEY_TEXT_SIZE];

	assert_int_equal(core_key_create(f->core, &f->admin, &lasting, text, &info, NULL), 0);
	assert_int_equal(end_key(f, &f->admin, NULL, info.id, NULL), 0);
	assert_int_equal(access(path, F_OK), 0);
	core_key_info_clear(&info);
	assert_int_equal(core_key_create(f->core, &f->admin, &lasting, text, &info, NULL), 0);
	core_key_info_clear(&info);
	assert_int_equal(end_key(f, &f->admin, NULL, f->admin.key_id, NULL), 0);
	assert_int_not_equal(access(path, F_OK), 0);
}

/* ---- the one place ---- */

static void what_is_out_of_scope_reads_like_what_never_was(void **state)
{
	struct fixture *f = *state;
	_cleanup_sandbox_ struct sandbox *mine = make_sandbox(f, "mine", "[]");
	_cleanup_sandbox_ struct sandbox *other = make_sandbox(f, "other", "[]");
	_cleanup_free_ char *scopes =
		xasprintf("{\"sandboxes\": [\"%s\"], \"operations\": [\"exec\"]}", mine->id);
	_cleanup_made_ struct made made = make_key(f, &f->admin, scopes);
	struct principal who = enter(f, made.text);
	struct core_action exec = { .scope = "exec", .operation = "exec", .sandbox_id = mine->id };
	struct core_action read = { .scope = "sandbox:read", .operation = "get_sandbox" };
	struct err out = ERR_INIT, unknown = ERR_INIT;

	assert_int_equal(core_authorize(f->core, &who, &exec, NULL), 0);
	exec.sandbox_id = other->id;
	refused(core_authorize(f->core, &who, &exec, &out), &out, "not_found");
	exec.sandbox_id = "sbx_0123456789ab";
	refused(core_authorize(f->core, &who, &exec, &unknown), &unknown, "not_found");
	assert_string_equal(out.hint, unknown.hint);
	assert_non_null(strstr(out.message, other->id));
	exec.sandbox_id = "nonsense";
	refused(core_authorize(f->core, &who, &exec, &out), &out, "not_found");
	refused(core_authorize(f->core, &who, &read, &out), &out, "scope_denied");
	assert_non_null(strstr(out.message, "sandbox:read"));
	assert_int_equal(core_authorize(f->core, &f->admin, &read, NULL), 0);
	read.scope = "admin";
	refused(core_authorize(f->core, &who, &read, &out), &out, "forbidden");
	principal_clear(&who);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(a_key_is_what_was_asked_for),
		RIG_TEST(what_it_may_survives_a_restart),
		RIG_TEST(a_key_makes_no_more_than_itself),
		RIG_TEST(wider_keys_are_not_there),
		RIG_TEST(accounts_are_apart),
		RIG_TEST(sandboxes_of_a_scope_are_the_accounts),
		RIG_TEST(rotation_with_overlap),
		RIG_TEST(revocation_reaches_who_holds_on),
		RIG_TEST(keys_expire),
		RIG_TEST(the_last_key_stays),
		RIG_TEST(keys_are_counted),
		RIG_TEST(the_file_follows_its_key),
		RIG_TEST(the_file_survives_a_death),
		RIG_TEST(the_file_of_a_revoked_key_goes),
		RIG_TEST(what_is_out_of_scope_reads_like_what_never_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
