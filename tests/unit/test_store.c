/* The store: migrations, durability, transactions that exclude each other, and what the tables
 * mean. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/str.h"
#include "store/accounts.h"
#include "store/db.h"
#include "store/idempotency.h"
#include "store/intervals.h"
#include "store/meta.h"
#include "store/sandboxes.h"
#include "store/snapshots.h"

struct fixture {
	char dir[SCRATCH_SIZE];
	char path[SCRATCH_SIZE + 16];
	struct db *db;
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	scratch_make(f->dir);
	snprintf(f->path, sizeof(f->path), "%s/skerry.db", f->dir);
	assert_int_equal(db_open(f->path, &f->db, NULL), 0);
	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(accounts_insert(&txn, "acc_1", "one", 1, NULL), 0);
	assert_int_equal(accounts_insert(&txn, "acc_2", "two", 2, NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	db_close(f->db);
	scratch_remove(f->dir);
	free(f);
	return 0;
}

static struct sandbox_row row_of(const char *id, const char *account, const char *status,
				 int64_t uid, int64_t created)
{
	struct sandbox_row row = {
		.node_id = "node_1",
		.key_id = "key_1",
		.size = "small",
		.milli_vcpus = 1000,
		.memory_mb = 1024,
		.disk_gb = 10,
		.image = "base",
		.image_digest = "sha256:00",
		.isolation = "emulated",
		.labels = (char *)"{}",
		.generation = 1,
		.uid = uid,
		.created_unix_ms = created,
		.expires_unix_ms = created + 60000,
	};

	str_copy(row.id, sizeof(row.id), id);
	str_copy(row.account_id, sizeof(row.account_id), account);
	str_copy(row.status, sizeof(row.status), status);
	return row;
}

static int insert(struct db *db, const struct sandbox_row *row, const struct sandbox_label *labels,
		  size_t n)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r;

	assert_int_equal(db_begin_write(db, &txn, NULL), 0);
	r = sandboxes_insert(&txn, row, labels, n, NULL);
	return r < 0 ? r : db_commit(&txn, NULL);
}

static int64_t alive(struct db *db, const char *account)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t n;

	assert_int_equal(db_begin_read(db, &txn, NULL), 0);
	assert_int_equal(sandboxes_count_alive(&txn, account, &n, NULL), 0);
	return n;
}

static void test_reopening_keeps_everything(void **state)
{
	struct fixture *f = *state;
	struct sandbox_row row = row_of("sbx_00000001", "acc_1", "running", 7, 1000), got = { 0 };
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	str_copy(row.name, sizeof(row.name), "web");
	row.labels = (char *)"{\"a\":\"b\"}";
	assert_int_equal(insert(f->db, &row, NULL, 0), 0);
	db_close(f->db);
	assert_int_equal(db_open(f->path, &f->db, NULL), 0);
	assert_int_equal(db_begin_read(f->db, &txn, NULL), 0);
	assert_int_equal(sandboxes_get(&txn, row.id, "acc_1", &got, NULL), 0);
	assert_string_equal(got.name, "web");
	assert_string_equal(got.labels, "{\"a\":\"b\"}");
	assert_int_equal(got.uid, 7);
	assert_int_equal(got.memory_mb, 1024);
	assert_int_equal(got.expires_unix_ms, 61000);
	assert_int_equal(got.ended_unix_ms, 0);
	sandbox_row_clear(&got);
}

static void test_other_accounts_see_nothing(void **state)
{
	struct fixture *f = *state;
	struct sandbox_row row = row_of("sbx_00000001", "acc_1", "running", 7, 1000), got;
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	assert_int_equal(insert(f->db, &row, NULL, 0), 0);
	assert_int_equal(db_begin_read(f->db, &txn, NULL), 0);
	assert_int_equal(sandboxes_get(&txn, row.id, "acc_2", &got, NULL), -ENOENT);
}

static void test_what_was_committed_survives_a_kill(void **state)
{
	struct fixture *f = *state;
	int status;
	pid_t pid;

	db_close(f->db);
	f->db = NULL;
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct sandbox_row kept = row_of("sbx_0000000a", "acc_1", "creating", 1, 1);
		struct sandbox_row lost = row_of("sbx_0000000b", "acc_1", "creating", 2, 2);
		struct db_txn txn;

		if (db_open(f->path, &f->db, NULL) < 0 || insert(f->db, &kept, NULL, 0) < 0 ||
		    db_begin_write(f->db, &txn, NULL) < 0 ||
		    sandboxes_insert(&txn, &lost, NULL, 0, NULL) < 0)
			_exit(1);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(db_open(f->path, &f->db, NULL), 0);
	assert_int_equal(alive(f->db, "acc_1"), 1);
}

static void test_rollback_without_commit(void **state)
{
	struct fixture *f = *state;

	{
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
		struct sandbox_row row = row_of("sbx_00000001", "acc_1", "creating", 1, 1);

		assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
		assert_int_equal(sandboxes_insert(&txn, &row, NULL, 0, NULL), 0);
	}
	assert_int_equal(alive(f->db, "acc_1"), 0);
}

/* ---- quota ---- */

#define THREADS 32
#define QUOTA	20

struct racer {
	struct db *db;
	int number;
	atomic_int *won;
};

static void *race(void *arg)
{
	struct racer *racer = arg;
	char id[24];
	struct sandbox_row row;
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t n;

	snprintf(id, sizeof(id), "sbx_%08x", (unsigned int)racer->number);
	row = row_of(id, "acc_1", "creating", 100 + racer->number, racer->number);
	if (db_begin_write(racer->db, &txn, NULL) < 0 ||
	    sandboxes_count_alive(&txn, "acc_1", &n, NULL) < 0 || n >= QUOTA ||
	    sandboxes_insert(&txn, &row, NULL, 0, NULL) < 0 || db_commit(&txn, NULL) < 0)
		return NULL;
	atomic_fetch_add(racer->won, 1);
	return NULL;
}

static void test_quota_is_exact_under_concurrency(void **state)
{
	struct fixture *f = *state;
	pthread_t threads[THREADS];
	struct racer racers[THREADS];
	atomic_int won = 0;

	for (int i = 0; i < THREADS; i++) {
		racers[i] = (struct racer){ f->db, i, &won };
		assert_int_equal(pthread_create(&threads[i], NULL, race, &racers[i]), 0);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(won, QUOTA);
	assert_int_equal(alive(f->db, "acc_1"), QUOTA);
	assert_int_equal(alive(f->db, "acc_2"), 0);
}

static void test_what_counts_against_the_quota(void **state)
{
	struct fixture *f = *state;
	const char *const statuses[] = { "creating", "running",	   "pausing",	"paused",
					 "resuming", "destroying", "destroyed", "failed" };

	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		char id[24];
		struct sandbox_row row;

		snprintf(id, sizeof(id), "sbx_%08zx", i);
		row = row_of(id, "acc_1", statuses[i], (int64_t)i, 1);
		assert_int_equal(insert(f->db, &row, NULL, 0), 0);
	}
	assert_int_equal(alive(f->db, "acc_1"), 4); /* creating, running, pausing, resuming */
}

static void test_uids_are_unique_until_the_end(void **state)
{
	struct fixture *f = *state;
	struct sandbox_row a = row_of("sbx_0000000a", "acc_1", "running", 5, 1);
	struct sandbox_row b = row_of("sbx_0000000b", "acc_2", "creating", 5, 2);
	const struct sandbox_end end = {
		.status = "destroyed",
		.ended_unix_ms = 9,
		.reason = "expired",
		.reason_text = "x",
	};
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	assert_int_equal(insert(f->db, &a, NULL, 0), 0);
	assert_int_equal(insert(f->db, &b, NULL, 0), -EEXIST);
	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(sandboxes_end(&txn, a.id, &end, NULL), 0);
	assert_int_equal(sandboxes_insert(&txn, &b, NULL, 0, NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
}

/* ---- moves and ends ---- */

static void test_of_two_movers_one_wins(void **state)
{
	struct fixture *f = *state;
	struct sandbox_row row = row_of("sbx_0000000a", "acc_1", "creating", 5, 1);
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	assert_int_equal(insert(f->db, &row, NULL, 0), 0);
	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(sandboxes_move(&txn, row.id, "creating", "destroying", NULL), 0);
	assert_int_equal(sandboxes_move(&txn, row.id, "creating", "running", NULL), -ESTALE);
}

static void test_an_end_is_final(void **state)
{
	struct fixture *f = *state;
	struct sandbox_row row = row_of("sbx_0000000a", "acc_1", "running", 5, 1), got = { 0 };
	struct sandbox_end end = {
		.status = "destroyed",
		.started_unix_ms = 2000,
		.ended_unix_ms = 3000,
		.reason = "expired",
		.reason_text = "its lifetime ended",
	};
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	assert_int_equal(insert(f->db, &row, NULL, 0), 0);
	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(sandboxes_end(&txn, row.id, &end, NULL), 0);
	end.reason = "vmm_crashed";
	assert_int_equal(sandboxes_end(&txn, row.id, &end, NULL), -ESTALE);
	assert_int_equal(sandboxes_set_expires(&txn, row.id, 99999, NULL), -ESTALE);
	assert_int_equal(sandboxes_get(&txn, row.id, NULL, &got, NULL), 0);
	assert_string_equal(got.reason, "expired");
	assert_int_equal(got.started_unix_ms, 2000);
	assert_int_equal(got.ended_unix_ms, 3000);
	assert_int_equal(got.uid, 0);
	sandbox_row_clear(&got);
}

static void test_tombstones_go_with_time(void **state)
{
	struct fixture *f = *state;
	const struct sandbox_label label = { "team", "blue" };
	struct sandbox_row old = row_of("sbx_0000000a", "acc_1", "running", 5, 1), got;
	struct sandbox_row living = row_of("sbx_0000000b", "acc_1", "running", 6, 1);
	const struct sandbox_end end = {
		.status = "destroyed",
		.ended_unix_ms = 100,
		.reason = "expired",
		.reason_text = "x",
	};
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t n;

	assert_int_equal(insert(f->db, &old, &label, 1), 0);
	assert_int_equal(insert(f->db, &living, NULL, 0), 0);
	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(idempotency_set(&txn, "acc_1", "k", "h", old.id, 1000, NULL), 0);
	assert_int_equal(sandboxes_end(&txn, old.id, &end, NULL), 0);
	assert_int_equal(sandboxes_delete_ended_before(&txn, 100, &n, NULL), 0);
	assert_int_equal(n, 0);
	assert_int_equal(sandboxes_delete_ended_before(&txn, 101, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(sandboxes_get(&txn, old.id, NULL, &got, NULL), -ENOENT);
	assert_int_equal(sandboxes_get(&txn, living.id, NULL, &got, NULL), 0);
	sandbox_row_clear(&got);
}

/* ---- lists ---- */

static void assert_list(struct db *db, const struct sandbox_filter *filter, const char *expected)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_buf_ struct buf ids = BUF_INIT;
	struct sandbox_row *rows;
	size_t n;

	assert_int_equal(db_begin_read(db, &txn, NULL), 0);
	assert_int_equal(sandboxes_list(&txn, filter, &rows, &n, NULL), 0);
	for (size_t i = 0; i < n; i++)
		buf_append_char(&ids, rows[i].id[11]);
	sandbox_rows_free(rows, n);
	assert_string_equal(buf_str(&ids), expected);
}

static void test_lists_filter_and_page(void **state)
{
	struct fixture *f = *state;
	const struct sandbox_label blue[] = { { "team", "blue" }, { "env", "ci" } };
	const struct sandbox_label red[] = { { "team", "red" } };
	struct sandbox_row a = row_of("sbx_0000000a", "acc_1", "running", 1, 100);
	struct sandbox_row b = row_of("sbx_0000000b", "acc_1", "creating", 2, 200);
	struct sandbox_row c = row_of("sbx_0000000c", "acc_1", "running", 3, 200);
	struct sandbox_row d = row_of("sbx_0000000d", "acc_1", "running", 4, 300);
	struct sandbox_row e = row_of("sbx_0000000e", "acc_2", "running", 5, 400);
	const struct sandbox_end end = {
		.status = "destroyed",
		.ended_unix_ms = 500,
		.reason = "expired",
		.reason_text = "x",
	};

	str_copy(c.image, sizeof(c.image), "dev");
	assert_int_equal(insert(f->db, &a, blue, 2), 0);
	assert_int_equal(insert(f->db, &b, red, 1), 0);
	assert_int_equal(insert(f->db, &c, NULL, 0), 0);
	assert_int_equal(insert(f->db, &d, blue, 1), 0);
	assert_int_equal(insert(f->db, &e, blue, 1), 0);
	{
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

		assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
		assert_int_equal(sandboxes_end(&txn, d.id, &end, NULL), 0);
		assert_int_equal(db_commit(&txn, NULL), 0);
	}
#define LIST(expected, ...)                                                                        \
	assert_list(f->db,                                                                         \
		    &(struct sandbox_filter){ .account_id = "acc_1", .limit = 50, __VA_ARGS__ },   \
		    expected)
	LIST("cba", .status = NULL);
	LIST("dcba", .status = "all");
	LIST("ca", .status = "running");
	LIST("d", .status = "destroyed");
	LIST("c", .image = "dev");
	LIST("a", .label_name = "team", .label_value = "blue");
	LIST("ba", .label_name = "team");
	LIST("a", .label_name = "env", .label_value = "ci", .status = "running");
	LIST("", .label_name = "env", .label_value = "prod");
	LIST("ba", .before_created_unix_ms = 200, .before_id = "sbx_0000000c");
	LIST("a", .before_created_unix_ms = 200, .before_id = "sbx_0000000b");
	assert_list(f->db, &(struct sandbox_filter){ .account_id = "acc_1", .limit = 2 }, "cb");
#undef LIST
}

/* ---- idempotency keys ---- */

static void test_idempotency_keys(void **state)
{
	struct fixture *f = *state;
	struct sandbox_row a = row_of("sbx_0000000a", "acc_1", "running", 1, 100);
	struct sandbox_row b = row_of("sbx_0000000b", "acc_2", "running", 2, 100);
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct idempotency_row row;

	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(sandboxes_insert(&txn, &a, NULL, 0, NULL), 0);
	assert_int_equal(sandboxes_insert(&txn, &b, NULL, 0, NULL), 0);
	assert_int_equal(idempotency_set(&txn, "acc_1", "k", "hash1", a.id, 1000, NULL), 0);
	assert_int_equal(idempotency_get(&txn, "acc_1", "k", 999, &row, NULL), 0);
	assert_string_equal(row.request_hash, "hash1");
	assert_string_equal(row.sandbox_id, a.id);
	/* Another account's key of the same name is another key; one that expired is none. */
	assert_int_equal(idempotency_get(&txn, "acc_2", "k", 999, &row, NULL), -ENOENT);
	assert_int_equal(idempotency_get(&txn, "acc_1", "k", 1000, &row, NULL), -ENOENT);
	assert_int_equal(idempotency_set(&txn, "acc_2", "k", "hash2", b.id, 1000, NULL), 0);
	assert_int_equal(idempotency_forget(&txn, a.id, NULL), 0);
	assert_int_equal(idempotency_get(&txn, "acc_1", "k", 1, &row, NULL), -ENOENT);
	assert_int_equal(idempotency_get(&txn, "acc_2", "k", 1, &row, NULL), 0);
	assert_int_equal(idempotency_delete_expired(&txn, 1000, NULL), 0);
	assert_int_equal(idempotency_get(&txn, "acc_2", "k", 1, &row, NULL), -ENOENT);
}

/* ---- pausing, intervals, snapshots ---- */

static void test_pausing_and_its_intervals(void **state)
{
	struct fixture *f = *state;
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_free_ struct interval_row *intervals = NULL;
	struct sandbox_row row = { 0 }, *rows = NULL;
	const struct sandbox_end end = { .status = "destroyed",
					 .started_unix_ms = 900,
					 .ended_unix_ms = 1000,
					 .reason = "expired",
					 .reason_text = "" };
	int64_t n = 0, total = 0;
	size_t count = 0;

	row = row_of("sbx_p", "acc_1", "running", 1, 50);
	insert(f->db, &row, NULL, 0);
	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(sandboxes_set_started(&txn, "sbx_p", 100, NULL), 0);
	assert_int_equal(intervals_begin(&txn, "sbx_p", 1, 100, NULL), 0);
	assert_int_equal(intervals_begin(&txn, "sbx_p", 1, 100, NULL), -EEXIST);
	assert_int_equal(sandboxes_set_pausing(&txn, "sbx_p", 5000, NULL), 0);
	assert_int_equal(sandboxes_set_pausing(&txn, "sbx_p", 5000, NULL), -ESTALE);
	/* A pause that fails leaves nothing. */
	assert_int_equal(sandboxes_set_not_pausing(&txn, "sbx_p", NULL), 0);
	assert_int_equal(sandboxes_set_not_pausing(&txn, "sbx_p", NULL), -ESTALE);
	assert_int_equal(sandboxes_get(&txn, "sbx_p", NULL, &row, NULL), 0);
	assert_string_equal(row.status, "running");
	assert_int_equal(row.remaining_ms, 0);
	sandbox_row_clear(&row);
	assert_int_equal(sandboxes_set_pausing(&txn, "sbx_p", 5000, NULL), 0);
	assert_int_equal(sandboxes_count_paused(&txn, "acc_1", &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(sandboxes_count_alive(&txn, "acc_1", &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(intervals_end(&txn, "sbx_p", 250, NULL), 0);
	assert_int_equal(sandboxes_set_paused(&txn, "sbx_p", 260, NULL), 0);
	assert_int_equal(sandboxes_count_alive(&txn, "acc_1", &n, NULL), 0);
	assert_int_equal(n, 0);
	assert_int_equal(sandboxes_paused_before(&txn, "node_1", 260, &rows, &count, NULL), 0);
	assert_int_equal(count, 0);
	free(rows);
	assert_int_equal(sandboxes_paused_before(&txn, "node_1", 261, &rows, &count, NULL), 0);
	assert_int_equal(count, 1);
	assert_int_equal(rows[0].remaining_ms, 5000);
	sandbox_rows_free(rows, count);
	assert_int_equal(sandboxes_move(&txn, "sbx_p", "paused", "resuming", NULL), 0);
	assert_int_equal(sandboxes_set_resumed(&txn, "sbx_p", 2, 9000, NULL), 0);
	assert_int_equal(intervals_begin(&txn, "sbx_p", 2, 400, NULL), 0);
	assert_int_equal(intervals_total(&txn, "sbx_p", 450, &total, NULL), 0);
	assert_int_equal(total, 150 + 50);
	assert_int_equal(sandboxes_end(&txn, "sbx_p", &end, NULL), 0);
	assert_int_equal(intervals_end(&txn, "sbx_p", 300, NULL), 0); /* never before its start */
	assert_int_equal(intervals_list(&txn, "sbx_p", &intervals, &count, NULL), 0);
	assert_int_equal(count, 2);
	assert_int_equal(intervals[0].ended_unix_ms, 250);
	assert_int_equal(intervals[1].ended_unix_ms, 400);
	assert_int_equal(sandboxes_get(&txn, "sbx_p", NULL, &row, NULL), 0);
	assert_int_equal(row.started_unix_ms, 100); /* of its first run */
	assert_int_equal(row.generation, 2);
	assert_int_equal(row.remaining_ms, 0);
	sandbox_row_clear(&row);
}

static void test_snapshots_have_names_of_their_account(void **state)
{
	struct fixture *f = *state;
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct snapshot_row row = { .id = "snp_1",
				    .node_id = "node_1",
				    .account_id = "acc_1",
				    .name = "one",
				    .template_key = "key",
				    .labels = "{}" },
			    found, *rows = NULL;
	int64_t n = 0;
	size_t count = 0;

	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(snapshots_insert(&txn, &row, NULL), 0);
	str_copy(row.id, sizeof(row.id), "snp_2");
	assert_int_equal(snapshots_insert(&txn, &row, NULL), -EEXIST);
	str_copy(row.account_id, sizeof(row.account_id), "acc_2");
	assert_int_equal(snapshots_insert(&txn, &row, NULL), 0);
	assert_int_equal(snapshots_set_ready(&txn, "snp_1", 77, NULL), 0);
	assert_int_equal(snapshots_by_name(&txn, "acc_1", "one", &found, NULL), 0);
	assert_string_equal(found.id, "snp_1");
	assert_true(found.ready);
	assert_int_equal(found.bytes, 77);
	snapshot_row_clear(&found);
	assert_int_equal(templates_count_users(&txn, "key", &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_int_equal(snapshots_list(&txn, "acc_2", &rows, &count, NULL), 0);
	assert_int_equal(count, 1);
	assert_false(rows[0].ready);
	snapshot_rows_free(rows, count);
	assert_int_equal(snapshots_delete(&txn, "snp_1", NULL), 0);
	assert_int_equal(snapshots_by_name(&txn, "acc_1", "one", &found, NULL), -ENOENT);
	assert_int_equal(snapshots_count(&txn, "acc_1", &n, NULL), 0);
	assert_int_equal(n, 0);
}

/* ---- damage ---- */

static void test_damaged_database_is_refused(void **state)
{
	struct fixture *f = *state;
	char garbage[512];
	struct err err = ERR_INIT;
	struct db *other = NULL;
	int fd;

	db_close(f->db);
	f->db = NULL;
	memset(garbage, 'x', sizeof(garbage));
	fd = open(f->path, O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	for (off_t at = 4096 * 2; at < 4096 * 20; at += 4096)
		assert_int_equal(pwrite(fd, garbage, sizeof(garbage), at), sizeof(garbage));
	close(fd);
	assert_int_equal(db_open(f->path, &other, &err), -EUCLEAN);
	assert_string_equal(err_code_of(&err), "database_damaged");
	assert_null(other);
}

static void test_newer_database_is_refused(void **state)
{
	struct fixture *f = *state;
	struct err err = ERR_INIT;
	struct db *other = NULL;

	{
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
		_cleanup_query_ struct db_query query = DB_QUERY_INIT;

		assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
		assert_int_equal(db_query(&txn, "insert into schema_migrations values (9999, 1)",
					  &query, NULL),
				 0);
		assert_int_equal(db_run(&query, NULL, NULL), 0);
		db_query_end(&query);
		assert_int_equal(db_commit(&txn, NULL), 0);
	}
	assert_int_equal(db_open(f->path, &other, &err), -EPROTO);
	assert_string_equal(err_code_of(&err), "database_too_new");
}

static void test_meta(void **state)
{
	struct fixture *f = *state;
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	char value[32];

	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(meta_get(&txn, "a", value, sizeof(value), NULL), -ENOENT);
	assert_int_equal(meta_set(&txn, "a", "1", NULL), 0);
	assert_int_equal(meta_set(&txn, "a", "2", NULL), 0);
	assert_int_equal(meta_get(&txn, "a", value, sizeof(value), NULL), 0);
	assert_string_equal(value, "2");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_reopening_keeps_everything),
		TEST(test_other_accounts_see_nothing),
		TEST(test_what_was_committed_survives_a_kill),
		TEST(test_rollback_without_commit),
		TEST(test_quota_is_exact_under_concurrency),
		TEST(test_what_counts_against_the_quota),
		TEST(test_uids_are_unique_until_the_end),
		TEST(test_of_two_movers_one_wins),
		TEST(test_an_end_is_final),
		TEST(test_tombstones_go_with_time),
		TEST(test_lists_filter_and_page),
		TEST(test_idempotency_keys),
		TEST(test_pausing_and_its_intervals),
		TEST(test_snapshots_have_names_of_their_account),
		TEST(test_damaged_database_is_refused),
		TEST(test_newer_database_is_refused),
		TEST(test_meta),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
