/* The store's part of events: numbers, order, what is kept. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "store/accounts.h"
#include "store/db.h"
#include "store/events.h"

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

static void commit_and_begin(struct fixture *f)
{
	assert_int_equal(db_commit(&f->txn, NULL), 0);
	assert_int_equal(db_begin_write(f->db, &f->txn, NULL), 0);
}

static void append(struct fixture *f, const char *account, const char *sandbox, const char *type,
		   int64_t at)
{
	const struct event_new event = {
		.account_id = account,
		.sandbox_id = sandbox,
		.type = type,
		.at_unix_ms = at,
		.data = "{\"a\":1}",
	};

	assert_int_equal(events_append(&f->txn, &event, 1000, NULL), 0);
}

/* The ids that a filter gives, as "3 5 ". */
static void assert_ids(struct fixture *f, struct event_filter filter, const char *expected)
{
	struct event_row *rows = NULL;
	char ids[256] = "";
	size_t n = 0;

	if (!filter.account_id)
		filter.account_id = "acc_1";
	if (!filter.limit)
		filter.limit = 100;
	assert_int_equal(events_list(&f->txn, &filter, &rows, &n, NULL), 0);
	for (size_t i = 0; i < n; i++)
		snprintf(ids + strlen(ids), sizeof(ids) - strlen(ids), "%lld ",
			 (long long)rows[i].id);
	event_rows_free(rows, n);
	assert_string_equal(ids, expected);
}

static void assert_bounds(struct fixture *f, const char *account, int64_t pruned, int64_t last)
{
	struct event_bounds bounds;

	assert_int_equal(events_bounds(&f->txn, account, &bounds, NULL), 0);
	assert_int_equal(bounds.pruned_id, pruned);
	assert_int_equal(bounds.last_id, last);
}

static void test_numbers_are_an_account_s(void **state)
{
	struct fixture *f = *state;
	struct event_row *rows = NULL;
	size_t n = 0;

	assert_bounds(f, "acc_1", 0, 0);
	append(f, "acc_1", "sbx_a", "sandbox_created", 10);
	append(f, "acc_2", "sbx_b", "sandbox_created", 11);
	append(f, "acc_1", "", "events_lost", 12);
	assert_ids(f, (struct event_filter){ 0 }, "1 2 ");
	assert_ids(f, (struct event_filter){ .account_id = "acc_2" }, "1 ");
	assert_bounds(f, "acc_1", 0, 2);
	assert_bounds(f, "acc_2", 0, 1);
	assert_int_equal(events_list(&f->txn,
				     &(struct event_filter){ .account_id = "acc_1", .limit = 1 },
				     &rows, &n, NULL),
			 0);
	assert_int_equal(n, 1);
	assert_string_equal(rows[0].sandbox_id, "sbx_a");
	assert_string_equal(rows[0].type, "sandbox_created");
	assert_int_equal(rows[0].at_unix_ms, 10);
	assert_string_equal(rows[0].data, "{\"a\":1}");
	event_rows_free(rows, n);
}

static void test_filters(void **state)
{
	const char *const execs[] = { "exec_started", "exec_ended", NULL };
	const char *const ended[] = { "exec_ended", NULL };
	struct fixture *f = *state;
	int64_t id;

	append(f, "acc_1", "sbx_a", "exec_started", 1);
	append(f, "acc_1", "sbx_b", "exec_started", 1);
	append(f, "acc_1", "sbx_a", "exec_ended", 1);
	append(f, "acc_1", "sbx_a", "sandbox_paused", 1);
	assert_ids(f, (struct event_filter){ .sandbox_id = "sbx_a" }, "1 3 4 ");
	assert_ids(f, (struct event_filter){ .sandbox_id = "sbx_a", .after_id = 1, .limit = 1 },
		   "3 ");
	assert_ids(f, (struct event_filter){ .types = execs }, "1 2 3 ");
	assert_ids(f, (struct event_filter){ .types = execs, .sandbox_id = "sbx_b" }, "2 ");
	assert_ids(f, (struct event_filter){ .types = ended, .after_id = 3 }, "");

	assert_int_equal(
		events_newest(&f->txn,
			      &(struct event_filter){ .account_id = "acc_1", .types = execs }, 2,
			      &id, NULL),
		0);
	assert_int_equal(id, 2);
	assert_int_equal(events_newest(&f->txn, &(struct event_filter){ .account_id = "acc_1" }, 50,
				       &id, NULL),
			 0);
	assert_int_equal(id, 1);
	assert_int_equal(events_newest(&f->txn, &(struct event_filter){ .account_id = "acc_2" }, 50,
				       &id, NULL),
			 0);
	assert_int_equal(id, 0);
}

/* However many come, a bounded number is kept, and it is known which are not. */
static void test_rows_are_bounded(void **state)
{
	struct fixture *f = *state;
	struct event_bounds bounds;

	for (int i = 0; i < 1500; i++)
		append(f, "acc_1", "sbx_a", "exec_started", i);
	append(f, "acc_2", "sbx_b", "exec_started", 1);
	assert_int_equal(events_bounds(&f->txn, "acc_1", &bounds, NULL), 0);
	assert_int_equal(bounds.last_id, 1500);
	assert_in_range(bounds.pruned_id, 1500 - 1000 - EVENTS_SLACK, 1500 - 1000);
	for (int64_t id = 0; id <= bounds.last_id; id++) {
		const struct event_filter filter = { .account_id = "acc_1",
						     .after_id = id,
						     .limit = 1 };
		struct event_row *rows = NULL;
		size_t n = 0;

		assert_int_equal(events_list(&f->txn, &filter, &rows, &n, NULL), 0);
		assert_int_equal(n, id < bounds.last_id);
		if (n > 0)
			assert_int_equal(rows[0].id,
					 id < bounds.pruned_id ? bounds.pruned_id + 1 : id + 1);
		event_rows_free(rows, n);
	}
	assert_bounds(f, "acc_2", 0, 1);
}

/* By age; a clock that was set back in between leaves no holes. Numbers are not used again. */
static void test_the_old_go(void **state)
{
	struct fixture *f = *state;

	append(f, "acc_1", "sbx_a", "exec_started", 100);
	append(f, "acc_1", "sbx_a", "exec_started", 300);
	append(f, "acc_1", "sbx_a", "exec_started", 150);
	append(f, "acc_1", "sbx_a", "exec_started", 400);
	append(f, "acc_2", "sbx_b", "exec_started", 500);
	assert_int_equal(events_delete_before(&f->txn, 200, NULL), 0);
	assert_ids(f, (struct event_filter){ 0 }, "4 ");
	assert_bounds(f, "acc_1", 3, 4);
	assert_ids(f, (struct event_filter){ .account_id = "acc_2" }, "1 ");
	assert_int_equal(events_delete_before(&f->txn, 1000, NULL), 0);
	assert_ids(f, (struct event_filter){ 0 }, "");
	assert_bounds(f, "acc_1", 4, 4);
	append(f, "acc_1", "sbx_a", "exec_started", 1000);
	assert_ids(f, (struct event_filter){ 0 }, "5 ");
	assert_int_equal(events_delete_before(&f->txn, 1000, NULL), 0);
	assert_bounds(f, "acc_1", 4, 5);
}

static void count_up(void *arg)
{
	++*(int *)arg;
}

/* Who watches is told of commits that have events in them, and of no others. */
static void test_commits_are_told(void **state)
{
	struct fixture *f = *state;
	int commits = 0;

	db_rollback(&f->txn);
	db_watch(f->db, count_up, &commits);
	assert_int_equal(db_begin_write(f->db, &f->txn, NULL), 0);
	assert_int_equal(accounts_insert(&f->txn, "acc_1", "one", 1, NULL), 0);
	commit_and_begin(f);
	assert_int_equal(commits, 0);
	append(f, "acc_1", "sbx_a", "exec_started", 1);
	append(f, "acc_1", "sbx_a", "exec_ended", 1);
	assert_int_equal(commits, 0);
	commit_and_begin(f);
	assert_int_equal(commits, 1);
	append(f, "acc_1", "sbx_a", "exec_started", 1);
	db_rollback(&f->txn);
	assert_int_equal(db_begin_write(f->db, &f->txn, NULL), 0);
	commit_and_begin(f);
	assert_int_equal(commits, 1);
	assert_ids(f, (struct event_filter){ 0 }, "1 2 ");
	db_rollback(&f->txn);
	db_watch(f->db, NULL, NULL);
	assert_int_equal(db_begin_write(f->db, &f->txn, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_numbers_are_an_account_s, setup, teardown),
		cmocka_unit_test_setup_teardown(test_filters, setup, teardown),
		cmocka_unit_test_setup_teardown(test_rows_are_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(test_the_old_go, setup, teardown),
		cmocka_unit_test_setup_teardown(test_commits_are_told, setup, teardown),
	};

	return cmocka_run_group_tests_name("store_events", tests, NULL, NULL);
}
