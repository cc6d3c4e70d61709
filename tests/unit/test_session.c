/* Sessions of browsers on a core without machines: what they are worth, and when no longer. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"
#include "core/internal.h"
#include "core/session.h"
#include "store/sessions.h"

struct fixture {
	char dir[SCRATCH_SIZE];
	struct core_config config;
	struct core *core;
	struct principal admin;
	char token[CORE_SESSION_TOKEN_SIZE];
	int64_t expires_unix_ms;
};

static void read_key(const struct fixture *f, char out[KEY_TEXT_SIZE])
{
	_cleanup_free_ char *path = xasprintf("%s/state/admin.key", f->dir);
	_cleanup_buf_ struct buf text = BUF_INIT;

	assert_int_equal(file_read(path, 100, &text), 0);
	text.data[text.len - 1] = '\0';
	str_copy(out, KEY_TEXT_SIZE, text.data);
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	_cleanup_free_ char *images = NULL;
	char key[KEY_TEXT_SIZE];

	scratch_make(f->dir);
	images = xasprintf("%s/images", f->dir);
	f->config.state_dir = xasprintf("%s/state", f->dir);
	core_limits_init(&f->config.limits);
	assert_int_equal(loop_new(&f->config.loop, NULL), 0);
	assert_int_equal(loop_start(f->config.loop, "loop", NULL), 0);
	assert_int_equal(pool_new(4, 100, &f->config.pool, NULL), 0);
	assert_int_equal(image_store_new(images, f->dir, &f->config.images, NULL), 0);
	assert_int_equal(core_new(&f->config, &f->core, NULL), 0);
	read_key(f, key);
	assert_int_equal(core_authenticate(f->core, key, strlen(key), &f->admin, NULL), 0);
	assert_int_equal(core_session_open(f->core, &f->admin, f->token, &f->expires_unix_ms, NULL),
			 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	principal_clear(&f->admin);
	core_free(f->core, 1000);
	pool_free(f->config.pool);
	loop_free(f->config.loop);
	image_store_free(f->config.images);
	free((char *)f->config.state_dir);
	scratch_remove(f->dir);
	free(f);
	return 0;
}

static int come(struct fixture *f, const char *token, struct err *err)
{
	_cleanup_principal_ struct principal who = { 0 };

	return core_session_authenticate(f->core, token, strlen(token), &who, err);
}

static void it_is_worth_its_key(void **state)
{
	struct fixture *f = *state;
	_cleanup_principal_ struct principal who = { 0 };

	assert_int_equal(core_session_authenticate(f->core, f->token, strlen(f->token), &who, NULL),
			 0);
	assert_string_equal(who.account_id, f->admin.account_id);
	assert_string_equal(who.key_id, f->admin.key_id);
	assert_true(who.admin);
	assert_true(who.by_session);
	assert_false(f->admin.by_session);
	assert_true(f->expires_unix_ms > clock_unix_ms());
}

static void it_begins_no_other(void **state)
{
	struct fixture *f = *state;
	_cleanup_principal_ struct principal who = { 0 };
	char token[CORE_SESSION_TOKEN_SIZE];
	struct err err = ERR_INIT;
	int64_t expires;

	assert_int_equal(core_session_authenticate(f->core, f->token, strlen(f->token), &who, NULL),
			 0);
	assert_int_equal(core_session_open(f->core, &who, token, &expires, &err), -EPERM);
	assert_string_equal(err_code_of(&err), "forbidden");
}

static void other_texts_are_none(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;
	char key[KEY_TEXT_SIZE], other[CORE_SESSION_TOKEN_SIZE];

	read_key(f, key);
	assert_int_equal(come(f, key, &err), -EACCES);
	assert_string_equal(err_code_of(&err), "invalid_key");
	assert_int_equal(come(f, "", NULL), -EACCES);
	str_copy(other, sizeof(other), f->token);
	other[sizeof(other) - 2] = other[sizeof(other) - 2] == 'a' ? 'b' : 'a';
	assert_int_equal(come(f, other, NULL), -EACCES);
	/* And it is no key. */
	assert_int_equal(core_authenticate(f->core, f->token, strlen(f->token), &f->admin, NULL),
			 -EACCES);
}

static void it_ends_when_it_is_closed(void **state)
{
	struct fixture *f = *state;
	char second[CORE_SESSION_TOKEN_SIZE];
	int64_t expires;

	assert_int_equal(core_session_open(f->core, &f->admin, second, &expires, NULL), 0);
	assert_int_equal(core_session_close(f->core, f->token, strlen(f->token), NULL), 0);
	assert_int_equal(come(f, f->token, NULL), -EACCES);
	assert_int_equal(come(f, second, NULL), 0);
	assert_int_equal(core_session_close(f->core, f->token, strlen(f->token), NULL), 0);
}

/* As the store has it, whatever wrote it. */
static void run_sql(struct fixture *f, const char *sql)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;

	assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
	assert_int_equal(db_query(&txn, sql, &query, NULL), 0);
	assert_int_equal(db_run(&query, NULL, NULL), 0);
	db_query_end(&query);
	assert_int_equal(db_commit(&txn, NULL), 0);
}

static void it_ends_in_time(void **state)
{
	struct fixture *f = *state;

	run_sql(f, "update sessions set expires_unix_ms = 1");
	assert_int_equal(come(f, f->token, NULL), -EACCES);
}

static void it_ends_with_the_text_of_its_key(void **state)
{
	struct fixture *f = *state;

	run_sql(f, "update keys set rotated_unix_ms = (select created_unix_ms + 1 from sessions)");
	assert_int_equal(come(f, f->token, NULL), -EACCES);
}

/* After a restart, so that the key is looked up anew. */
static void it_ends_with_its_key(void **state)
{
	struct fixture *f = *state;

	run_sql(f, "update keys set revoked_unix_ms = 1");
	principal_clear(&f->admin);
	core_free(f->core, 1000);
	assert_int_equal(core_new(&f->config, &f->core, NULL), 0);
	assert_int_equal(come(f, f->token, NULL), -EACCES);
}

static void it_outlives_a_restart(void **state)
{
	struct fixture *f = *state;

	principal_clear(&f->admin);
	core_free(f->core, 1000);
	assert_int_equal(core_new(&f->config, &f->core, NULL), 0);
	assert_int_equal(come(f, f->token, NULL), 0);
}

static void so_many_are_kept_of_a_key(void **state)
{
	struct fixture *f = *state;
	char token[CORE_SESSION_TOKEN_SIZE];
	int64_t expires;

	run_sql(f, "update sessions set created_unix_ms = created_unix_ms - 1000");
	for (int i = 0; i < 64; i++)
		assert_int_equal(core_session_open(f->core, &f->admin, token, &expires, NULL), 0);
	assert_int_equal(come(f, f->token, NULL), -EACCES);
	assert_int_equal(come(f, token, NULL), 0);
}

static void its_text_is_stored_nowhere(void **state)
{
	struct fixture *f = *state;
	static const char *const names[] = { "skerry.db", "skerry.db-wal" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *path = xasprintf("%s/state/%s", f->dir, names[i]);
		_cleanup_buf_ struct buf content = BUF_INIT;

		assert_int_equal(file_read(path, 1 << 24, &content), 0);
		assert_null(memmem(content.data, content.len, f->token + 4, 20));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_is_worth_its_key, setup, teardown),
		cmocka_unit_test_setup_teardown(it_begins_no_other, setup, teardown),
		cmocka_unit_test_setup_teardown(other_texts_are_none, setup, teardown),
		cmocka_unit_test_setup_teardown(it_ends_when_it_is_closed, setup, teardown),
		cmocka_unit_test_setup_teardown(it_ends_in_time, setup, teardown),
		cmocka_unit_test_setup_teardown(it_ends_with_the_text_of_its_key, setup, teardown),
		cmocka_unit_test_setup_teardown(it_ends_with_its_key, setup, teardown),
		cmocka_unit_test_setup_teardown(it_outlives_a_restart, setup, teardown),
		cmocka_unit_test_setup_teardown(so_many_are_kept_of_a_key, setup, teardown),
		cmocka_unit_test_setup_teardown(its_text_is_stored_nowhere, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
