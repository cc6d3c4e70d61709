/* Metering and credit in the core, without machines: who may begin to run, what a run is charged,
 * how it ends, grants, and what is answered. */
#include "network_rig.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "store/intervals.h"
#include "store/ledger_check.h"

#define SMALL_RATE 280 /* of the default prices */
#define HOLD	   (SMALL_RATE * 60)
#define DAY_MS	   (24 * 60 * 60 * 1000LL)
#define CREATORS   200
#define THREADS	   16

/* ---- the pieces ---- */

/* An account that is limited, with so many micro-credits. */
static struct principal make_account(struct fixture *f, const char *id, int64_t microcredits)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct ledger_entry entry = { .at_unix_ms = clock_unix_ms(), .amount = microcredits };
	struct principal who = { .key_id = "key_c" };

	str_copy(who.account_id, sizeof(who.account_id), id);
	str_copy(entry.account_id, sizeof(entry.account_id), id);
	assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
	assert_int_equal(accounts_insert(&txn, id, id, 1, NULL), 0);
	assert_int_equal(wallets_insert(&txn, id, false, NULL), 0);
	assert_int_equal(ledger_append(&txn, &entry, NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
	return who;
}

static void fill_small(struct fixture *f, const struct principal *who, struct sandbox_row *row)
{
	char random[13];

	*row = (struct sandbox_row){
		.size = "small",
		.milli_vcpus = 1000,
		.memory_mb = 1024,
		.disk_gb = 10,
		.status = "creating",
		.image = "base",
		.image_digest = "sha256:0",
		.isolation = "emulated",
		.generation = 1,
		.created_unix_ms = clock_unix_ms(),
	};
	rand_hex(random, sizeof(random) - 1);
	snprintf(row->id, sizeof(row->id), "sbx_%s", random);
	str_copy(row->node_id, sizeof(row->node_id), f->core->node_id);
	str_copy(row->account_id, sizeof(row->account_id), who->account_id);
	str_copy(row->key_id, sizeof(row->key_id), who->key_id);
	row->labels = xstrdup("{}");
	row->egress = xstrdup("[]");
	row->expires_unix_ms = row->created_unix_ms + 600000;
}

/* As a creation reserves one: quota, credit and row in one transaction. */
static int try_reserve(struct fixture *f, const struct principal *who, struct sandbox_row *row,
		       struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(f->core->db, &txn, err);

	fill_small(f, who, row);
	if (r == 0)
		r = reserve_quota(f->core, &txn, who->account_id, 1, err);
	if (r == 0)
		r = reserve_row(f->core, &txn, row, err);
	return r < 0 ? r : db_commit(&txn, err);
}

/* One that runs, as one that is published does; it began so long ago. */
static struct sandbox *run_one(struct fixture *f, const struct principal *who, int64_t ago_ms)
{
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t unix_ms = clock_unix_ms() - ago_ms, boottime_ms = clock_boottime_ms() - ago_ms;
	struct sandbox *sb;

	assert_int_equal(try_reserve(f, who, &row, NULL), 0);
	sb = sandbox_new(f->core, row.id, who->account_id);
	reserve_publish(sb, &row);
	assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
	assert_int_equal(sandboxes_move(&txn, row.id, "creating", "running", NULL), 0);
	assert_int_equal(meters_begin(&txn, row.id, 1, unix_ms, boottime_ms, NULL), 0);
	assert_int_equal(intervals_begin(&txn, row.id, 1, unix_ms, NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
	sandbox_set_status(sb, SANDBOX_RUNNING);
	return sb;
}

static void end_run(struct fixture *f, struct sandbox *sb, int64_t end_boottime_ms)
{
	const struct run_end end = { .boottime_ms = end_boottime_ms, .unix_ms = 1 };
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
	assert_int_equal(meter_end(&txn, sb, &end, NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
}

static void let_go(struct sandbox *sb)
{
	table_remove(sb);
	sandbox_unref(sb);
}

static struct account_credit credit_of(struct fixture *f, const char *account_id)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct account_credit credit;

	assert_int_equal(db_begin_read(f->core->db, &txn, NULL), 0);
	assert_int_equal(credit_get(&txn, account_id, &credit, NULL), 0);
	return credit;
}

static size_t entries_of(struct fixture *f, const char *account_id, struct ledger_entry **ret)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	size_t n;

	assert_int_equal(db_begin_read(f->core->db, &txn, NULL), 0);
	assert_int_equal(ledger_list(&txn, account_id, 0, 1000, ret, &n, NULL), 0);
	return n;
}

static void assert_ledger_right(struct fixture *f)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct ledger_findings findings;

	assert_int_equal(db_begin_long_read(f->core->db, &txn, NULL), 0);
	assert_int_equal(ledger_check(&txn, &findings, NULL), 0);
	assert_string_equal(findings.first, "");
}

/* ---- who may begin ---- */

struct race {
	struct fixture *f;
	struct principal who;
	atomic_int next, won, no_credit, quota;
};

static void *create_some(void *arg)
{
	struct race *race = arg;

	while (atomic_fetch_add(&race->next, 1) < CREATORS) {
		_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
		struct err err = ERR_INIT;

		if (try_reserve(race->f, &race->who, &row, &err) == 0)
			race->won++;
		else if (str_eq(err_code_of(&err), "no_credit"))
			race->no_credit++;
		else if (str_eq(err_code_of(&err), "quota_reached"))
			race->quota++;
	}
	return NULL;
}

static void run_race(struct race *race)
{
	pthread_t threads[THREADS];

	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, create_some, race), 0);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void test_the_last_credit_goes_to_one(void **state)
{
	struct fixture *f = *state;
	struct race race = { .f = f, .who = make_account(f, "acc_a", 2 * HOLD - 1) };
	struct account_credit credit;

	f->core->limits.sandboxes_per_account = CREATORS;
	run_race(&race);
	assert_int_equal(race.won, 1);
	assert_int_equal(race.no_credit, CREATORS - 1);
	credit = credit_of(f, "acc_a");
	assert_int_equal(credit.held, HOLD);
	assert_int_equal(credit_available(&credit), HOLD - 1);
	assert_ledger_right(f);
}

static void test_the_last_place_goes_to_one(void **state)
{
	struct fixture *f = *state;
	struct race race = { .f = f, .who = make_account(f, "acc_a", 1000 * MICROCREDITS) };

	f->core->limits.sandboxes_per_account = 1;
	run_race(&race);
	assert_int_equal(race.won, 1);
	assert_int_equal(race.quota, CREATORS - 1);
}

static void test_without_credit_only_the_unlimited_begin(void **state)
{
	struct fixture *f = *state;
	struct principal poor = make_account(f, "acc_a", HOLD - 1);
	struct principal nobody = make_account(f, "acc_b", 1);
	struct sandbox_row row;
	struct err err = ERR_INIT;

	assert_int_equal(try_reserve(f, &poor, &row, &err), -EDQUOT);
	assert_string_equal(err_code_of(&err), "no_credit");
	assert_non_null(strstr(err.message, "0.016799 credits to spend"));
	assert_non_null(strstr(err.message, "0.016800 are kept aside"));
	sandbox_row_clear(&row);
	assert_int_equal(try_reserve(f, &f->admin, &row, NULL), 0);
	sandbox_row_clear(&row);
	/* What costs nothing needs none. */
	assert_int_equal(core_prices_set(&f->core->limits.prices, "size.small", "0", NULL), 0);
	assert_int_equal(try_reserve(f, &nobody, &row, NULL), 0);
	sandbox_row_clear(&row);
}

/* ---- what a run is charged ---- */

static void test_a_run_is_charged_to_its_end_exactly(void **state)
{
	struct fixture *f = *state;
	struct principal who = make_account(f, "acc_a", 1000 * MICROCREDITS);
	struct sandbox *sb = run_one(f, &who, 100000);
	struct account_credit credit = credit_of(f, "acc_a");
	_cleanup_free_ struct ledger_entry *entries = NULL;

	assert_int_equal(credit.rate, SMALL_RATE);
	assert_int_equal(credit.n_running, 1);
	assert_int_equal(credit.held, 0); /* its first minute is over */
	assert_in_range(credit.uncharged, ledger_cost(SMALL_RATE, 100000),
			ledger_cost(SMALL_RATE, 130000));
	end_run(f, sb, clock_boottime_ms() - 40000);
	assert_int_equal(entries_of(f, "acc_a", &entries), 2);
	assert_string_equal(entries[1].sandbox_id, sb->id);
	assert_string_equal(entries[1].key_id, "key_c");
	assert_in_range(entries[1].to_unix_ms - entries[1].from_unix_ms, 60000, 90000);
	assert_int_equal(entries[1].amount,
			 ledger_cost(SMALL_RATE, entries[1].to_unix_ms - entries[1].from_unix_ms));
	credit = credit_of(f, "acc_a");
	assert_int_equal(credit.rate, 0);
	assert_int_equal(credit_available(&credit), 1000 * MICROCREDITS - entries[1].amount);
	end_run(f, sb, clock_boottime_ms()); /* it has no meter any more */
	assert_int_equal(credit_of(f, "acc_a").wallet.charged, entries[1].amount);
	assert_ledger_right(f);
	let_go(sb);
}

static void test_a_long_run_is_charged_day_by_day(void **state)
{
	struct fixture *f = *state;
	struct principal who = make_account(f, "acc_a", 1000 * MICROCREDITS);
	struct sandbox *sb = run_one(f, &who, 3 * DAY_MS);
	_cleanup_free_ struct ledger_entry *entries = NULL;
	int64_t sum = 0;
	size_t n;

	end_run(f, sb, clock_boottime_ms());
	n = entries_of(f, "acc_a", &entries);
	assert_in_range(n, 4, 5);
	for (size_t i = 1; i < n; i++) {
		assert_true(entries[i].to_unix_ms <= ledger_next_day(entries[i].from_unix_ms));
		sum += entries[i].amount;
	}
	assert_int_equal(
		sum, ledger_cost(SMALL_RATE, entries[n - 1].to_unix_ms - entries[1].from_unix_ms));
	assert_ledger_right(f);
	let_go(sb);
}

static void test_an_end_that_nobody_knows(void **state)
{
	struct fixture *f = *state;
	struct principal who = make_account(f, "acc_a", 1000 * MICROCREDITS);
	struct sandbox *sb = run_one(f, &who, 100000);
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_free_ struct interval_row *intervals = NULL;
	size_t n;

	end_run(f, sb, 0);
	assert_int_equal(credit_of(f, "acc_a").wallet.charged, 0);
	assert_int_equal(db_begin_read(f->core->db, &txn, NULL), 0);
	assert_int_equal(intervals_list(&txn, sb->id, &intervals, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(intervals[0].ended_unix_ms, intervals[0].started_unix_ms);
	let_go(sb);
}

/* Where the record has no exit the daemon saw it just now, or (in recovery) nobody did. */
static void test_ends_by_the_record(void **state)
{
	struct fixture *f = *state;
	struct principal who = make_account(f, "acc_a", 1000 * MICROCREDITS);
	struct sandbox *sb = run_one(f, &who, 1000);
	int64_t now = clock_boottime_ms();
	struct record record = { .started = true };

	f->core->recovered = false;
	assert_int_equal(meter_end_of(sb, &record).boottime_ms, 0);
	f->core->recovered = true;
	assert_in_range(meter_end_of(sb, &record).boottime_ms, now, now + 30000);
	record.cause = RECORD_VMM_CRASHED;
	record.exit_boottime_ms = now - 300;
	assert_int_equal(meter_end_of(sb, &record).boottime_ms, now - 300);
	record.frozen = true; /* it stood still before */
	record.frozen_boottime_ms = now - 500;
	assert_int_equal(meter_end_of(sb, &record).boottime_ms, now - 500);
	sb->expires_boottime_ms = now - 700; /* the grace costs its owner nothing */
	assert_int_equal(meter_end_of(sb, &record).boottime_ms, now - 700);
	let_go(sb);
}

static void test_what_never_ran_costs_nothing(void **state)
{
	struct fixture *f = *state;
	struct principal who = make_account(f, "acc_a", 1000 * MICROCREDITS);
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	struct sandbox *sb;

	assert_int_equal(try_reserve(f, &who, &row, NULL), 0);
	assert_int_equal(credit_of(f, "acc_a").held, HOLD);
	sb = sandbox_new(f->core, row.id, "acc_a");
	end_run(f, sb, clock_boottime_ms());
	assert_int_equal(credit_of(f, "acc_a").held, 0);
	assert_int_equal(credit_of(f, "acc_a").wallet.charged, 0);
	sandbox_unref(sb);
}

/* The clock was set back while it was paused: the runs do not overlap. */
static void test_a_clock_that_is_set_back(void **state)
{
	struct fixture *f = *state;
	struct principal who = make_account(f, "acc_a", 1000 * MICROCREDITS);
	struct sandbox *sb = run_one(f, &who, 1000);
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_free_ struct interval_row *intervals = NULL;
	size_t n;

	end_run(f, sb, clock_boottime_ms() + 3600000);
	assert_int_equal(sandbox_load_row(sb, &row, NULL), 0);
	assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
	assert_int_equal(meter_reserve(f->core, &txn, &row, 2, NULL), 0);
	assert_int_equal(meter_begin(&txn, sb, 2, NULL), 0);
	assert_int_equal(intervals_list(&txn, sb->id, &intervals, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_int_equal(intervals[1].started_unix_ms, intervals[0].ended_unix_ms);
	assert_int_equal(db_commit(&txn, NULL), 0);
	end_run(f, sb, clock_boottime_ms() + 5000);
	assert_ledger_right(f);
	let_go(sb);
}

/* ---- keys ---- */

static void test_what_a_key_has_spent(void **state)
{
	struct fixture *f = *state;
	struct principal who = make_account(f, "acc_a", 1000 * MICROCREDITS), other = who;
	struct sandbox *a, *b;
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t spent;

	str_copy(other.key_id, sizeof(other.key_id), "key_d");
	a = run_one(f, &who, 100000);
	b = run_one(f, &other, 1000);
	end_run(f, a, clock_boottime_ms());
	assert_int_equal(db_begin_read(f->core->db, &txn, NULL), 0);
	assert_int_equal(ledger_spent(&txn, "acc_a", "key_c", &spent, NULL), 0);
	assert_in_range(spent, ledger_cost(SMALL_RATE, 100000), ledger_cost(SMALL_RATE, 130000));
	assert_int_equal(ledger_spent(&txn, "acc_a", "key_d", &spent, NULL), 0);
	assert_int_equal(spent, HOLD); /* of which a second has been used */
	assert_int_equal(ledger_spent(&txn, "acc_a", "key_e", &spent, NULL), 0);
	assert_int_equal(spent, 0);
	let_go(a);
	let_go(b);
}

/* ---- grants, usage, entries ---- */

static int grant(struct fixture *f, const struct principal *by, const char *account_id,
		 int64_t microcredits, const char *reference, json_t **ret, struct err *err)
{
	const struct core_grant_request req = {
		.account_id = account_id,
		.microcredits = microcredits,
		.reference = reference,
		.note = "for tests",
	};

	*err = ERR_INIT;
	return core_grant(f->core, by, &req, ret, err);
}

static void test_grants(void **state)
{
	struct fixture *f = *state;
	struct principal who = make_account(f, "acc_a", 5);
	_cleanup_json_ json_t *first = NULL, *again = NULL, *none = NULL;
	struct err err;

	assert_int_equal(grant(f, &f->admin, "acc_a", 70, "r1", &first, &err), 0);
	assert_int_equal(grant(f, &f->admin, "acc_a", 70, "r1", &again, &err), 0);
	assert_true(json_equal(first, again));
	assert_int_equal(json_get_int(first, "id", 0), 2);
	assert_int_equal(credit_of(f, "acc_a").wallet.granted, 75);
	assert_int_equal(grant(f, &f->admin, "acc_a", 71, "r1", &none, &err), -EEXIST);
	assert_string_equal(err_code_of(&err), "reference_conflict");
	assert_int_equal(grant(f, &f->admin, "acc_x", 70, "r1", &none, &err), -ENOENT);
	assert_string_equal(err_code_of(&err), "account_not_found");
	assert_int_equal(grant(f, &who, "acc_a", 70, "r2", &none, &err), -EACCES);
	assert_int_equal(grant(f, &f->admin, "acc_a", 0, NULL, &none, &err), -EINVAL);
	assert_int_equal(grant(f, &f->admin, "acc_a", CORE_GRANT_MAX + 1, NULL, &none, &err),
			 -EINVAL);
	assert_int_equal(credit_of(f, "acc_a").wallet.granted, 75);
	assert_ledger_right(f);
}

static void test_new_accounts_begin_with_credit(void **state)
{
	struct fixture *f = *state;
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	assert_true(credit_of(f, f->admin.account_id).wallet.unlimited);
	assert_int_equal(credit_of(f, f->admin.account_id).wallet.granted, 0);
	assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
	assert_int_equal(accounts_insert(&txn, "acc_n", "n", 1, NULL), 0);
	assert_int_equal(credit_open(f->core, &txn, "acc_n", false, NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
	assert_int_equal(credit_of(f, "acc_n").wallet.granted, 500 * MICROCREDITS);
	assert_false(credit_of(f, "acc_n").wallet.unlimited);
	assert_int_equal(credit_of(f, "acc_without_wallet").wallet.granted, 0);
	assert_false(credit_of(f, "acc_without_wallet").wallet.unlimited);
}

static void test_usage(void **state)
{
	struct fixture *f = *state;
	struct principal who = make_account(f, "acc_a", 10 * MICROCREDITS);
	struct sandbox *a = run_one(f, &who, 50000), *b = run_one(f, &who, 2000);
	_cleanup_json_ json_t *usage = NULL, *foreign = NULL, *admins = NULL;
	const struct core_usage_request of_a = { .account_id = "acc_a" };
	struct err err = ERR_INIT;
	const json_t *days;

	end_run(f, a, clock_boottime_ms());
	assert_int_equal(core_usage(f->core, &who, &(struct core_usage_request){ 0 }, &usage, NULL),
			 0);
	assert_string_equal(json_get_str(usage, "account_id", ""), "acc_a");
	assert_false(json_get_bool(usage, "unlimited", true));
	assert_int_equal(json_get_int(usage, "balance_microcredits", 0),
			 10 * MICROCREDITS - json_get_int(usage, "charged_microcredits", 0));
	assert_int_equal(json_get_int(usage, "available_microcredits", 0),
			 json_get_int(usage, "balance_microcredits", 0) - HOLD);
	assert_int_equal(json_get_int(usage, "microcredits_per_second", 0), SMALL_RATE);
	assert_int_equal(json_get_int(usage, "running", 0), 1);
	assert_in_range(json_get_int(usage, "seconds_to_zero", 0), 35000, 35714);
	assert_true(json_is_string(json_object_get(usage, "zero_at")));
	days = json_object_get(usage, "by_day");
	assert_in_range(json_array_size(days), 1, 2); /* midnight may be in between */
	assert_int_equal(json_array_size(json_object_get(usage, "by_key")), 1);
	assert_int_equal(json_array_size(json_object_get(usage, "by_sandbox")), 1);
	assert_string_equal(json_get_str(json_array_get(json_object_get(usage, "by_sandbox"), 0),
					 "sandbox_id", ""),
			    a->id);
	assert_int_equal(core_usage(f->core, &f->admin, &of_a, &foreign, NULL), 0);
	assert_string_equal(json_get_str(foreign, "account_id", ""), "acc_a");
	assert_int_equal(
		core_usage(f->core, &who,
			   &(struct core_usage_request){ .account_id = f->admin.account_id },
			   &admins, &err),
		-ENOENT);
	assert_string_equal(err_code_of(&err), "account_not_found");
	let_go(a);
	let_go(b);
}

static void test_entries_in_pages(void **state)
{
	struct fixture *f = *state;
	struct principal who = make_account(f, "acc_a", 10 * MICROCREDITS);
	struct core_ledger_request req = { .limit = 2 };
	_cleanup_json_ json_t *page = NULL, *none = NULL;
	struct err err;
	int64_t id = 0;

	for (int i = 0; i < 4; i++)
		assert_int_equal(grant(f, &f->admin, "acc_a", 1 + i, NULL, &none, &err), 0),
			json_decref(STEAL(none));
	for (int pages = 0; pages < 3; pages++) {
		const char *next;
		const json_t *item;
		size_t i;

		assert_int_equal(core_ledger(f->core, &who, &req, &page, NULL), 0);
		json_array_foreach(json_object_get(page, "items"), i, item)
			assert_int_equal(json_get_int(item, "id", 0), ++id);
		next = json_get_str(page, "next_cursor", NULL);
		assert_int_equal(next != NULL, pages < 2);
		req.after_id = next ? strtoll(next, NULL, 10) : 0;
		json_decref(STEAL(page));
	}
	assert_int_equal(id, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_the_last_credit_goes_to_one),
		RIG_TEST(test_the_last_place_goes_to_one),
		RIG_TEST(test_without_credit_only_the_unlimited_begin),
		RIG_TEST(test_a_run_is_charged_to_its_end_exactly),
		RIG_TEST(test_a_long_run_is_charged_day_by_day),
		RIG_TEST(test_an_end_that_nobody_knows),
		RIG_TEST(test_ends_by_the_record),
		RIG_TEST(test_what_never_ran_costs_nothing),
		RIG_TEST(test_a_clock_that_is_set_back),
		RIG_TEST(test_what_a_key_has_spent),
		RIG_TEST(test_grants),
		RIG_TEST(test_new_accounts_begin_with_credit),
		RIG_TEST(test_usage),
		RIG_TEST(test_entries_in_pages),
	};

	log_init(LOG_LVL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
