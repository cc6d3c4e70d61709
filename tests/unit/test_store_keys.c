/* The store's part of accounts and keys: hashes, rotation, lists. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "store/accounts.h"
#include "store/db.h"

struct fixture {
	char dir[SCRATCH_SIZE];
	char path[SCRATCH_SIZE + 16];
	struct db *db;
	struct db_txn txn;
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	scratch_make(f->dir);
	snprintf(f->path, sizeof(f->path), "%s/skerry.db", f->dir);
	assert_int_equal(db_open(f->path, &f->db, NULL), 0);
	assert_int_equal(db_begin_write(f->db, &f->txn, NULL), 0);
	assert_int_equal(accounts_insert(&f->txn, "acc_1", "one", 1, NULL), 0);
	assert_int_equal(accounts_insert(&f->txn, "acc_2", "two", 2, NULL), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	db_rollback(&f->txn);
	db_close(f->db);
	scratch_remove(f->dir);
	free(f);
	return 0;
}

/* Looks a text up; the row's scope is of no interest. */
static int find(struct fixture *f, const char *hash, struct key_row *ret)
{
	int r = keys_by_hash(&f->txn, hash, ret, NULL);

	if (r == 0)
		key_row_clear(ret);
	return r;
}

static void insert(struct fixture *f, const struct key_row *row)
{
	assert_int_equal(keys_insert(&f->txn, row, NULL), 0);
}

static void keys_are_found_by_hash(void **state)
{
	struct fixture *f = *state;
	struct key_row key = { .id = "key_1",
			       .account_id = "acc_1",
			       .hash = "abc",
			       .scope = (char *)"{\"root\":false}",
			       .created_by = "key_0",
			       .admin = true };
	struct key_row got = { 0 };

	insert(f, &key);
	assert_int_equal(keys_by_hash(&f->txn, "abc", &got, NULL), 0);
	assert_string_equal(got.id, "key_1");
	assert_false(got.admin); /* its account is none that administers */
	assert_string_equal(got.scope, key.scope);
	assert_string_equal(got.created_by, "key_0");
	key_row_clear(&got);
	assert_int_equal(accounts_set_admin(&f->txn, "acc_1", NULL), 0);
	assert_int_equal(find(f, "abc", &got), 0);
	assert_true(got.admin);
	assert_int_equal(find(f, "abd", &got), -ENOENT);
	assert_int_equal(keys_insert(&f->txn, &key, NULL), -EEXIST);
	str_copy(key.id, sizeof(key.id), "key_2");
	str_copy(key.account_id, sizeof(key.account_id), "acc_x");
	str_copy(key.hash, sizeof(key.hash), "xyz");
	assert_int_equal(keys_insert(&f->txn, &key, NULL), -EEXIST); /* no such account */
}

static void keys_are_rotated(void **state)
{
	struct fixture *f = *state;
	struct key_row key = { .id = "key_1", .account_id = "acc_1", .hash = "one" }, got = { 0 };

	insert(f, &key);
	assert_int_equal(keys_rotate(&f->txn, &key, "two", "sk_two", 100, 1000, NULL), 0);
	assert_int_equal(find(f, "one", &got), 0);
	assert_string_equal(got.id, "key_1");
	assert_string_equal(got.hash, "one");
	assert_int_equal(got.text_expires_unix_ms, 1000);
	assert_int_equal(find(f, "two", &got), 0);
	assert_string_equal(got.prefix, "sk_two");
	assert_int_equal(got.text_expires_unix_ms, 0);
	assert_int_equal(got.rotated_unix_ms, 100);

	/* Again, with less time: the oldest text has no more of it than the second. */
	assert_int_equal(keys_rotate(&f->txn, &got, "three", "sk_three", 200, 500, NULL), 0);
	assert_int_equal(find(f, "one", &got), 0);
	assert_int_equal(got.text_expires_unix_ms, 500);
	assert_int_equal(find(f, "two", &got), 0);
	assert_int_equal(got.text_expires_unix_ms, 500);

	/* And with none: all earlier ones are gone at once. */
	assert_int_equal(find(f, "three", &got), 0);
	assert_int_equal(keys_rotate(&f->txn, &got, "four", "sk_four", 300, 0, NULL), 0);
	assert_int_equal(find(f, "one", &got), -ENOENT);
	assert_int_equal(find(f, "two", &got), -ENOENT);
	assert_int_equal(find(f, "three", &got), -ENOENT);
	assert_int_equal(find(f, "four", &got), 0);

	assert_int_equal(keys_rotate(&f->txn, &got, "five", "sk_five", 400, 900, NULL), 0);
	assert_int_equal(keys_forget_old(&f->txn, 899, NULL), 0);
	assert_int_equal(find(f, "four", &got), 0);
	assert_int_equal(keys_forget_old(&f->txn, 900, NULL), 0);
	assert_int_equal(find(f, "four", &got), -ENOENT);
}

static void keys_are_revoked_once(void **state)
{
	struct fixture *f = *state;
	struct key_row key = { .id = "key_1", .account_id = "acc_1", .hash = "one" }, got = { 0 };
	int64_t n = 0;

	insert(f, &key);
	assert_int_equal(keys_rotate(&f->txn, &key, "two", "sk_two", 100, 1000, NULL), 0);
	assert_int_equal(keys_count(&f->txn, "acc_1", 50, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(keys_revoke(&f->txn, "key_1", 200, NULL), 0);
	assert_int_equal(keys_revoke(&f->txn, "key_1", 300, NULL), -ESTALE);
	assert_int_equal(find(f, "one", &got), -ENOENT);
	assert_int_equal(find(f, "two", &got), 0);
	assert_int_equal(got.revoked_unix_ms, 200);
	assert_int_equal(keys_count(&f->txn, "acc_1", 50, &n, NULL), 0);
	assert_int_equal(n, 0);
}

static void expect_keys(struct fixture *f, struct key_filter filter, size_t want, const char *first)
{
	struct key_row *rows = NULL;
	size_t n = 0;

	filter.account_id = "acc_1";
	assert_int_equal(keys_list(&f->txn, &filter, &rows, &n, NULL), 0);
	assert_int_equal(n, want);
	assert_string_equal(rows[0].id, first);
	key_rows_free(rows, n);
}

static void keys_are_listed(void **state)
{
	struct fixture *f = *state;
	struct key_row got = { 0 };

	for (int i = 0; i < 4; i++) {
		struct key_row key = { .created_unix_ms = 10 + i,
				       .expires_unix_ms = i == 1 ? 100 : 0,
				       .revoked_unix_ms = i == 2 ? 50 : 0 };

		snprintf(key.id, sizeof(key.id), "key_%d", i);
		snprintf(key.hash, sizeof(key.hash), "hash%d", i);
		str_copy(key.account_id, sizeof(key.account_id), i == 3 ? "acc_2" : "acc_1");
		insert(f, &key);
	}
	expect_keys(f, (struct key_filter){ .after = "", .limit = 10 }, 3, "key_2");
	expect_keys(f, (struct key_filter){ .after = "key_2", .limit = 1 }, 1, "key_1");
	/* Not the revoked one; nor, at its time, the one that expires. */
	expect_keys(f, (struct key_filter){ .valid_unix_ms = 60, .after = "", .limit = 10 }, 2,
		    "key_1");
	expect_keys(f, (struct key_filter){ .valid_unix_ms = 100, .after = "", .limit = 10 }, 1,
		    "key_0");
	assert_int_equal(keys_get(&f->txn, "key_0", "acc_1", &got, NULL), 0);
	key_row_clear(&got);
	assert_int_equal(keys_get(&f->txn, "key_0", "acc_2", &got, NULL), -ENOENT);
	assert_int_equal(keys_get(&f->txn, "key_0", NULL, &got, NULL), 0);
	key_row_clear(&got);
}

static void accounts_have_names_of_their_own(void **state)
{
	struct fixture *f = *state;
	struct account_row *rows = NULL, got;
	size_t n = 0;

	assert_int_equal(accounts_insert(&f->txn, "acc_3", "one", 3, NULL), -EEXIST);
	assert_int_equal(accounts_get(&f->txn, "acc_1", &got, NULL), 0);
	assert_string_equal(got.name, "one");
	assert_false(got.admin);
	assert_int_equal(accounts_get(&f->txn, "acc_9", &got, NULL), -ENOENT);
	assert_int_equal(accounts_list(&f->txn, "", 10, &rows, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_string_equal(rows[0].id, "acc_1");
	free(rows);
	assert_int_equal(accounts_list(&f->txn, "acc_1", 10, &rows, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_string_equal(rows[0].id, "acc_2");
	free(rows);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(keys_are_found_by_hash),
		TEST(keys_are_rotated),
		TEST(keys_are_revoked_once),
		TEST(keys_are_listed),
		TEST(accounts_have_names_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
