/* Checking the ledger. See ledger_check.h. Everything is one pass over the charges in the order of
 * their runs, and sums that SQL makes. */
#include "store/ledger_check.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/str.h"
#include "store/ledger.h"

static void found(struct ledger_findings *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void found(struct ledger_findings *f, const char *fmt, ...)
{
	va_list args;

	if (f->n++ > 0)
		return;
	va_start(args, fmt);
	vsnprintf(f->first, sizeof(f->first), fmt, args);
	va_end(args);
}

/* ---- charges, run by run ---- */

struct charge {
	char sandbox_id[24];
	int64_t generation, amount, rate, run, from, to;
};

static void read_charge(const struct db_query *query, struct charge *ret)
{
	str_copy(ret->sandbox_id, sizeof(ret->sandbox_id), db_column_text(query, 0));
	ret->generation = db_column_int(query, 1);
	ret->amount = db_column_int(query, 2);
	ret->rate = db_column_int(query, 3);
	ret->run = db_column_int(query, 4);
	ret->from = db_column_int(query, 5);
	ret->to = db_column_int(query, 6);
}

static bool is_of_run(const struct charge *a, const struct charge *b)
{
	return a->generation == b->generation && str_eq(a->sandbox_id, b->sandbox_id);
}

/* before: the charge before it in the order of sandboxes, runs and times; all zero: none. */
static void check_charge(struct ledger_findings *f, const struct charge *c,
			 const struct charge *before)
{
	int64_t wanted =
		ledger_cost(c->rate, c->to - c->run) - ledger_cost(c->rate, c->from - c->run);
	bool goes_on = is_of_run(c, before);

	f->runs += !goes_on;
	if (c->amount != wanted)
		found(f, "sandbox %s, run %lld: a charge is %lld and should be %lld", c->sandbox_id,
		      (long long)c->generation, (long long)c->amount, (long long)wanted);
	if (c->to > ledger_next_day(c->from))
		found(f, "sandbox %s, run %lld: a charge is of more than one day", c->sandbox_id,
		      (long long)c->generation);
	if (goes_on && (c->run != before->run || c->rate != before->rate))
		found(f, "sandbox %s, run %lld: its charges disagree on its start or its rate",
		      c->sandbox_id, (long long)c->generation);
	if (c->from != (goes_on ? before->to : c->run))
		found(f,
		      "sandbox %s, run %lld: a charge begins at %lld, what came before ends at "
		      "%lld",
		      c->sandbox_id, (long long)c->generation, (long long)c->from,
		      (long long)(goes_on ? before->to : c->run));
	if (!goes_on && str_eq(c->sandbox_id, before->sandbox_id) && c->run < before->to)
		found(f, "sandbox %s: run %lld begins before run %lld has ended", c->sandbox_id,
		      (long long)c->generation, (long long)before->generation);
}

static int check_charges(struct db_txn *txn, struct ledger_findings *f, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	struct charge now = { 0 }, before = { 0 };
	int r = db_query(txn,
			 "select sandbox_id, generation, amount, rate, run_unix_ms, from_unix_ms,"
			 " to_unix_ms from ledger_entries where sandbox_id is not null"
			 " order by sandbox_id, generation, from_unix_ms",
			 &query, err);

	while (r == 0 && (r = db_step(&query, err)) > 0) {
		read_charge(&query, &now);
		check_charge(f, &now, &before);
		before = now;
		r = 0;
	}
	return r;
}

/* ---- sums ---- */

/* A query that should give no row: each says its name and two figures that differ. */
struct comparison {
	const char *what, *sql;
};

static const struct comparison comparisons[] = {
	{ "the numbers of its entries have holes: account",
	  "select w.account_id, w.last_entry, count(e.id) from wallets w left join ledger_entries e"
	  " on e.account_id = w.account_id group by w.account_id, w.last_entry"
	  " having count(e.id) <> w.last_entry or coalesce(max(e.id), 0) <> w.last_entry" },
	{ "what it was granted is not the sum of its grants: account",
	  "select w.account_id, w.granted, coalesce(sum(e.amount), 0) from wallets w"
	  " left join ledger_entries e on e.account_id = w.account_id and e.sandbox_id is null"
	  " group by w.account_id, w.granted having coalesce(sum(e.amount), 0) <> w.granted" },
	{ "what it was charged is not the sum of its charges: account",
	  "select w.account_id, w.charged, coalesce(sum(e.amount), 0) from wallets w"
	  " left join ledger_entries e on e.account_id = w.account_id and e.sandbox_id is not null"
	  " group by w.account_id, w.charged having coalesce(sum(e.amount), 0) <> w.charged" },
	{ "an entry is not between its account and the other side: account",
	  "select account_id, id, amount from ledger_entries where not"
	  " (sandbox_id is null and debit = 'grants' and credit = account_id) and not"
	  " (sandbox_id is not null and debit = account_id and credit = 'usage')" },
	{ "an entry has no wallet: account",
	  "select account_id, id, amount from ledger_entries where account_id not in"
	  " (select account_id from wallets)" },
	{ "its sum by key is not that of its charges:",
	  "select name, sum(amount), sum(ms) from ("
	  "select account_id, name, amount, running_ms as ms, 0 as side from usage_totals"
	  " where kind = 'key' union all"
	  " select account_id, key_id, -sum(amount), sum(from_unix_ms - to_unix_ms), 1"
	  " from ledger_entries where sandbox_id is not null group by account_id, key_id) as both"
	  " group by account_id, name having sum(amount) <> 0 or sum(ms) <> 0"
	  " or min(side) <> 0 or max(side) <> 1" },
	{ "its sum by sandbox is not that of its charges:",
	  "select name, sum(amount), sum(ms) from ("
	  "select account_id, name, amount, running_ms as ms, 0 as side from usage_totals"
	  " where kind = 'sandbox' union all"
	  " select account_id, sandbox_id, -sum(amount), sum(from_unix_ms - to_unix_ms), 1"
	  " from ledger_entries where sandbox_id is not null group by account_id, sandbox_id) as "
	  "both"
	  " group by account_id, name having sum(amount) <> 0 or sum(ms) <> 0"
	  " or min(side) <> 0 or max(side) <> 1" },
	{ "its meter does not agree with its charges: sandbox",
	  "select m.sandbox_id, m.charged, coalesce(sum(e.amount), 0) from meters m"
	  " left join ledger_entries e on e.sandbox_id = m.sandbox_id"
	  " and e.generation = m.generation"
	  " group by m.sandbox_id, m.charged, m.charged_unix_ms, m.run_unix_ms"
	  " having coalesce(sum(e.amount), 0) <> m.charged"
	  " or coalesce(max(e.to_unix_ms), m.run_unix_ms) is distinct from m.charged_unix_ms" },
	{ "a run that has ended is not charged from its start to its end: sandbox",
	  "select i.sandbox_id, i.ended_unix_ms - i.started_unix_ms,"
	  " sum(e.to_unix_ms - e.from_unix_ms) from intervals i join ledger_entries e"
	  " on e.sandbox_id = i.sandbox_id and e.generation = i.generation"
	  " where i.ended_unix_ms is not null"
	  " group by i.sandbox_id, i.generation, i.started_unix_ms, i.ended_unix_ms"
	  " having min(e.from_unix_ms) <> i.started_unix_ms"
	  " or max(e.to_unix_ms) <> i.ended_unix_ms" },
	{ "what does not run has a meter: sandbox",
	  "select m.sandbox_id, m.generation, m.hold from meters m left join sandboxes s"
	  " on s.id = m.sandbox_id"
	  " where s.id is null or s.status in ('paused', 'destroyed', 'failed')" },
	{ "a run that goes on has no meter, or one that has ended has: sandbox",
	  "select m.sandbox_id, m.generation, i.generation from meters m left join intervals i"
	  " on i.sandbox_id = m.sandbox_id and i.generation = m.generation"
	  " and i.ended_unix_ms is null"
	  " where m.run_unix_ms is not null and i.sandbox_id is null" },
};

static int compare(struct db_txn *txn, const struct comparison *comparison,
		   struct ledger_findings *f, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, comparison->sql, &query, err);

	while (r == 0 && (r = db_step(&query, err)) > 0) {
		found(f, "%s %s (%lld, %lld)", comparison->what, db_column_text(&query, 0),
		      (long long)db_column_int(&query, 1), (long long)db_column_int(&query, 2));
		r = 0;
	}
	return r;
}

static int sum_of_days(struct db_txn *txn, int64_t *ret, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select coalesce(sum(amount), 0) from usage_totals where kind = 'day'",
			 &query, err);

	if (r == 0)
		r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret = db_column_int(&query, 0);
	return 0;
}

/* Days in one statement would take functions of dates, which each database has its own of. */
static int check_days(struct db_txn *txn, struct ledger_findings *f, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int64_t sums = 0, totals = 0;
	int r = db_query(txn,
			 "select account_id, from_unix_ms / 86400000, sum(amount)"
			 " from ledger_entries where sandbox_id is not null group by 1, 2",
			 &query, err);

	while (r == 0 && (r = db_step(&query, err)) > 0) {
		const char *account_id = db_column_text(&query, 0);
		int64_t amount = db_column_int(&query, 2), total = 0;
		char day[LEDGER_DAY_SIZE];

		ledger_day(db_column_int(&query, 1) * 86400000, day);
		r = usage_amount(txn, account_id, USAGE_DAY, day, &total, err);
		if (r == 0 && total != amount)
			found(f, "account %s: the sum of %s is %lld, its charges are %lld",
			      account_id, day, (long long)total, (long long)amount);
		sums += amount;
	}
	if (r == 0)
		r = sum_of_days(txn, &totals, err);
	if (r == 0 && totals != sums)
		found(f, "the sums by day are %lld in all, the charges are %lld", (long long)totals,
		      (long long)sums);
	return r;
}

static int count(struct db_txn *txn, struct ledger_findings *f, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select count(*), (select count(*) from wallets),"
			 " coalesce(sum(case when sandbox_id is null then amount else 0 end), 0),"
			 " coalesce(sum(case when sandbox_id is null then 0 else amount end), 0)"
			 " from ledger_entries",
			 &query, err);

	if (r == 0)
		r = db_step(&query, err);
	if (r < 0)
		return r;
	f->entries = db_column_int(&query, 0);
	f->accounts = db_column_int(&query, 1);
	f->granted = db_column_int(&query, 2);
	f->charged = db_column_int(&query, 3);
	return 0;
}

int ledger_check(struct db_txn *txn, struct ledger_findings *ret, struct err *err)
{
	struct ledger_findings findings = { 0 };
	int r = count(txn, &findings, err);

	if (r == 0)
		r = check_charges(txn, &findings, err);
	if (r == 0)
		r = check_days(txn, &findings, err);
	for (size_t i = 0; r == 0 && i < sizeof(comparisons) / sizeof(comparisons[0]); i++)
		r = compare(txn, &comparisons[i], &findings, err);
	if (r == 0)
		*ret = findings;
	return r;
}
