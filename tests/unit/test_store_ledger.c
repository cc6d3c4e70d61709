/* The ledger in the store: arithmetic, what an entry moves, what cannot be written twice, and that
 * the check finds what is wrong. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "store/intervals.h"
#include "store/ledger.h"
#include "store/ledger_check.h"
#include "store/meters.h"

#define ACCOUNT "acc_1"
#define KEY	"key_1"
#define SANDBOX "sbx_000000000001"
#define RATE	280
#define NOON	1780056000123LL /* some time of a day */

struct fixture {
	char dir[SCRATCH_SIZE];
	struct db *db;
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_free_ char *path = NULL;

	scratch_make(f->dir);
	path = xasprintf("%s/db", f->dir);
	assert_int_equal(db_open(path, &f->db, NULL), 0);
	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(accounts_insert(&txn, ACCOUNT, "one", 1, NULL), 0);
	assert_int_equal(wallets_insert(&txn, ACCOUNT, false, NULL), 0);
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

/* ---- arithmetic ---- */

static void test_parts_cost_what_the_whole_costs(void **state)
{
	for (int round = 0; round < 200; round++) {
		uint32_t random[2];
		int64_t rate, total_ms = 0, sum = 0;

		rand_bytes(random, sizeof(random));
		rate = random[0] % 100000;
		for (int i = 0; i < 50; i++) {
			int64_t before = total_ms;

			rand_bytes(random, sizeof(random));
			total_ms += random[1] % 100000;
			sum += ledger_cost(rate, total_ms) - ledger_cost(rate, before);
		}
		assert_int_equal(sum, ledger_cost(rate, total_ms));
		assert_true(ledger_cost(rate, total_ms) * 1000 <= rate * total_ms);
		assert_true((ledger_cost(rate, total_ms) + 1) * 1000 > rate * total_ms);
	}
	/* The dearest price and the longest life. */
	assert_int_equal(ledger_cost(1000000000, 525600LL * 60000), 1000000000LL * 525600 * 60);
	assert_int_equal(ledger_cost(280, -5), 0);
}

static void test_days(void **state)
{
	char day[LEDGER_DAY_SIZE];

	ledger_day(NOON, day);
	assert_string_equal(day, "2026-05-29");
	assert_true(ledger_next_day(NOON) > NOON);
	ledger_day(ledger_next_day(NOON) - 1, day);
	assert_string_equal(day, "2026-05-29");
	ledger_day(ledger_next_day(NOON), day);
	assert_string_equal(day, "2026-05-30");
	assert_int_equal(ledger_next_day(ledger_next_day(NOON)), ledger_next_day(NOON) + 86400000);
}

/* ---- entries ---- */

static int grant(struct db_txn *txn, int64_t amount, const char *reference)
{
	struct ledger_entry entry = { .at_unix_ms = NOON, .amount = amount };

	str_copy(entry.account_id, sizeof(entry.account_id), ACCOUNT);
	str_copy(entry.reference, sizeof(entry.reference), reference);
	return ledger_append(txn, &entry, NULL);
}

/* For a part of the run that began at noon. */
static int charge(struct db_txn *txn, const char *sandbox_id, uint64_t generation, int64_t from_ms,
		  int64_t to_ms)
{
	struct ledger_entry entry = {
		.at_unix_ms = NOON + to_ms,
		.amount = ledger_cost(RATE, to_ms) - ledger_cost(RATE, from_ms),
		.generation = generation,
		.rate = RATE,
		.run_unix_ms = NOON,
		.from_unix_ms = NOON + from_ms,
		.to_unix_ms = NOON + to_ms,
	};

	str_copy(entry.account_id, sizeof(entry.account_id), ACCOUNT);
	str_copy(entry.key_id, sizeof(entry.key_id), KEY);
	str_copy(entry.sandbox_id, sizeof(entry.sandbox_id), sandbox_id);
	return ledger_append(txn, &entry, NULL);
}

static void write_some(struct fixture *f)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(grant(&txn, 5000000, "first"), 0);
	assert_int_equal(charge(&txn, SANDBOX, 1, 0, 1500), 0);
	assert_int_equal(charge(&txn, SANDBOX, 1, 1500, 60001), 0);
	assert_int_equal(charge(&txn, "sbx_000000000002", 1, 0, 777), 0);
	assert_int_equal(grant(&txn, 1, ""), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
}

static void test_an_entry_moves_wallet_and_sums(void **state)
{
	struct fixture *f = *state;
	const int64_t first = ledger_cost(RATE, 60001), second = ledger_cost(RATE, 777);
	const enum usage_kind kinds[] = { USAGE_DAY, USAGE_KEY, USAGE_SANDBOX };
	const char *const names[] = { "2026-05-29", KEY, SANDBOX };
	const int64_t amounts[] = { first + second, first + second, first };
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_free_ struct ledger_entry *entries = NULL;
	_cleanup_free_ struct usage_total *totals = NULL;
	struct wallet_row wallet;
	int64_t amount;
	size_t n;

	write_some(f);
	assert_int_equal(db_begin_read(f->db, &txn, NULL), 0);
	assert_int_equal(wallets_get(&txn, ACCOUNT, &wallet, NULL), 0);
	assert_int_equal(wallet.granted, 5000001);
	assert_int_equal(wallet.charged, first + second);
	assert_int_equal(wallet.last_entry, 5);
	assert_false(wallet.unlimited);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		assert_int_equal(usage_amount(&txn, ACCOUNT, kinds[i], names[i], &amount, NULL), 0);
		assert_int_equal(amount, amounts[i]);
	}
	assert_int_equal(usage_amount(&txn, ACCOUNT, USAGE_KEY, "key_2", &amount, NULL), 0);
	assert_int_equal(amount, 0);
	assert_int_equal(usage_list(&txn, ACCOUNT, USAGE_SANDBOX, 1, &totals, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_string_equal(totals[0].name, SANDBOX); /* it was charged last */
	assert_int_equal(totals[0].running_ms, 60001);
	assert_int_equal(ledger_list(&txn, ACCOUNT, 1, 2, &entries, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_int_equal(entries[0].id, 2);
	assert_int_equal(entries[1].to_unix_ms, NOON + 60001);
}

static void test_nothing_is_written_twice(void **state)
{
	struct fixture *f = *state;
	struct db_txn txn = DB_TXN_INIT;
	struct ledger_entry entry;

	write_some(f);
	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(charge(&txn, SANDBOX, 1, 1500, 2000), -EEXIST);
	db_rollback(&txn);
	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(grant(&txn, 7, "first"), -EEXIST);
	db_rollback(&txn);
	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(charge(&txn, SANDBOX, 2, 1500, 1500), -EEXIST); /* no time at all */
	db_rollback(&txn);
	assert_int_equal(db_begin_read(f->db, &txn, NULL), 0);
	assert_int_equal(ledger_grant_get(&txn, ACCOUNT, "first", &entry, NULL), 0);
	assert_int_equal(entry.amount, 5000000);
	assert_int_equal(ledger_grant_get(&txn, ACCOUNT, "second", &entry, NULL), -ENOENT);
	assert_int_equal(ledger_grant_get(&txn, "acc_2", "first", &entry, NULL), -ENOENT);
	db_rollback(&txn);
}

/* ---- meters ---- */

static void test_a_meter_waits_runs_and_ends(void **state)
{
	struct fixture *f = *state;
	const struct meter_row new = {
		.sandbox_id = SANDBOX,
		.account_id = ACCOUNT,
		.key_id = KEY,
		.generation = 3,
		.rate = RATE,
		.hold = 16800,
	};
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_free_ struct meter_row *rows = NULL;
	struct meter_row row;
	size_t n;

	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	assert_int_equal(meters_insert(&txn, &new, NULL), 0);
	assert_int_equal(meters_get(&txn, SANDBOX, &row, NULL), 0);
	assert_int_equal(row.run_unix_ms, 0);
	assert_int_equal(row.hold, 16800);
	assert_int_equal(meters_begin(&txn, SANDBOX, 2, NOON, 5, NULL), -ESTALE);
	assert_int_equal(meters_begin(&txn, SANDBOX, 3, NOON, 5, NULL), 0);
	assert_int_equal(meters_begin(&txn, SANDBOX, 3, NOON, 5, NULL), -ESTALE);
	assert_int_equal(meters_advance(&txn, SANDBOX, NOON + 10, 2, NULL), 0);
	assert_int_equal(meters_list(&txn, ACCOUNT, &rows, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(rows[0].charged_unix_ms, NOON + 10);
	assert_int_equal(rows[0].charged, 2);
	assert_int_equal(rows[0].run_boottime_ms, 5);
	assert_int_equal(meters_delete(&txn, SANDBOX, NULL), 0);
	assert_int_equal(meters_delete(&txn, SANDBOX, NULL), 0);
	assert_int_equal(meters_get(&txn, SANDBOX, &row, NULL), -ENOENT);
}

/* ---- the check ---- */

static void check(struct fixture *f, struct ledger_findings *findings)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	assert_int_equal(db_begin_long_read(f->db, &txn, NULL), 0);
	assert_int_equal(ledger_check(&txn, findings, NULL), 0);
}

static void test_a_right_ledger(void **state)
{
	struct fixture *f = *state;
	struct ledger_findings findings;

	check(f, &findings);
	assert_int_equal(findings.n, 0);
	write_some(f);
	check(f, &findings);
	assert_string_equal(findings.first, "");
	assert_int_equal(findings.n, 0);
	assert_int_equal(findings.accounts, 1);
	assert_int_equal(findings.entries, 5);
	assert_int_equal(findings.runs, 2);
	assert_int_equal(findings.granted, 5000001);
	assert_int_equal(findings.charged, ledger_cost(RATE, 60001) + ledger_cost(RATE, 777));
}

/* A copy of a running sandbox's row for intervals, which want one. */
#define SANDBOX_ROW                                                                                \
	"insert into sandboxes (id, node_id, account_id, key_id, name, status, size, milli_vcpus," \
	" memory_mb, disk_gb, image, image_digest, isolation, labels, generation,"                 \
	" created_unix_ms, expires_unix_ms, reason, reason_text) values ('" SANDBOX                \
	"', 'n', '" ACCOUNT "', '" KEY                                                             \
	"', '', 'running', 'small', 1, 1, 1, 'i', 'd', 'kvm', '{}', 1, 1, 1,"                      \
	" '', '')"

/* Each statement breaks one thing that must hold. */
static const struct {
	const char *says, *sql, *before;
} damages[] = {
	{ "is 16379 and should be 16380", "update ledger_entries set amount = 16379 where id = 3",
	  NULL },
	{ "should be", "update ledger_entries set rate = 281 where id = 4", NULL },
	{ "disagree on its start or its rate",
	  "update ledger_entries set rate = 0, amount = 0 where id = 3", NULL },
	{ "begins at", "update ledger_entries set from_unix_ms = from_unix_ms + 1 where id = 3",
	  NULL },
	{ "begins at", "delete from ledger_entries where id = 2", NULL },
	{ "more than one day",
	  "update ledger_entries set to_unix_ms = to_unix_ms + 90000000, amount = 25200217 where"
	  " id = 4",
	  NULL },
	{ "begins before run 1 has ended",
	  "update ledger_entries set sandbox_id = '" SANDBOX "', generation = 2 where id = 4",
	  NULL },
	{ "have holes", "update ledger_entries set id = 9 where id = 5", NULL },
	{ "have holes", "delete from ledger_entries where id = 1", NULL },
	{ "sum of its grants", "update wallets set granted = granted + 1", NULL },
	{ "sum of its charges", "update wallets set charged = charged - 1", NULL },
	{ "the other side", "update ledger_entries set credit = 'acc_2' where id = 1", NULL },
	{ "the other side", "update ledger_entries set debit = 'usage' where id = 2", NULL },
	{ "no wallet", "delete from wallets", NULL },
	{ "the sum of 2026-05-29", "update usage_totals set amount = 1 where kind = 'day'", NULL },
	{ "by day are",
	  "insert into usage_totals values ('" ACCOUNT "', 'day', '2020-01-01', 1, 1, 1)", NULL },
	{ "by key", "update usage_totals set running_ms = 1 where kind = 'key'", NULL },
	{ "by key", "delete from usage_totals where kind = 'key'", NULL },
	{ "by sandbox", "update usage_totals set amount = amount + 1 where name = '" SANDBOX "'",
	  NULL },
	{ "by sandbox", "insert into usage_totals values ('" ACCOUNT "', 'sandbox', 'x', 0, 0, 0)",
	  NULL },
	{ "its meter does not agree",
	  "insert into meters values ('" SANDBOX "', '" ACCOUNT "', '" KEY
	  "', 1, 280, 0, 1, 1, 1, 5)",
	  SANDBOX_ROW },
	{ "has no meter",
	  "insert into meters values ('" SANDBOX "', '" ACCOUNT "', '" KEY
	  "', 7, 280, 0, 7, 7, 7, 0)",
	  SANDBOX_ROW },
	{ "what does not run has a meter",
	  "insert into meters values ('sbx_3', '" ACCOUNT "', '" KEY
	  "', 1, 280, 0, null, null, null, 0)",
	  NULL },
	{ "what does not run has a meter",
	  "insert into meters values ('sbx_3', '" ACCOUNT "', '" KEY "', 1, 280, 0, 7, 7, 7, 0)",
	  NULL },
	{ "from its start to its end",
	  "insert into intervals values ('" SANDBOX "', 1, 1780056000123, 1780056060125)",
	  SANDBOX_ROW },
	{ "from its start to its end",
	  "insert into intervals values ('" SANDBOX "', 1, 1780056000122, 1780056060124)",
	  SANDBOX_ROW },
};

static void run_sql(struct db_txn *txn, const char *sql)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;

	assert_int_equal(db_query(txn, sql, &query, NULL), 0);
	assert_int_equal(db_run(&query, NULL, NULL), 0);
}

static void test_the_check_finds_what_is_wrong(void **state)
{
	struct fixture *f = *state;

	write_some(f);
	for (size_t i = 0; i < ARRAY_SIZE(damages); i++) {
		struct db_txn txn = DB_TXN_INIT;
		struct ledger_findings findings;
		struct err err = ERR_INIT;

		assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
		if (damages[i].before)
			run_sql(&txn, damages[i].before);
		run_sql(&txn, damages[i].sql);
		if (ledger_check(&txn, &findings, &err) < 0)
			fail_msg("%s", err.message);
		if (findings.n == 0 || !strstr(findings.first, damages[i].says))
			fail_msg("%s: %zu findings: '%s'", damages[i].sql, findings.n,
				 findings.first);
		db_rollback(&txn);
	}
}

static void test_an_interval_that_is_charged(void **state)
{
	struct fixture *f = *state;
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct ledger_findings findings;

	write_some(f);
	assert_int_equal(db_begin_write(f->db, &txn, NULL), 0);
	run_sql(&txn, SANDBOX_ROW);
	assert_int_equal(intervals_begin(&txn, SANDBOX, 1, NOON, NULL), 0);
	assert_int_equal(intervals_end(&txn, SANDBOX, NOON + 60001, NULL), 0);
	assert_int_equal(ledger_check(&txn, &findings, NULL), 0);
	assert_string_equal(findings.first, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts_cost_what_the_whole_costs),
		cmocka_unit_test(test_days),
		TEST(test_an_entry_moves_wallet_and_sums),
		TEST(test_nothing_is_written_twice),
		TEST(test_a_meter_waits_runs_and_ends),
		TEST(test_a_right_ledger),
		TEST(test_the_check_finds_what_is_wrong),
		TEST(test_an_interval_that_is_charged),
	};

	log_init(LOG_LVL_WARN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
