/* The ledger as rows. See ledger.h. */
#include "store/ledger.h"

#include <errno.h>
#include <time.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/str.h"

#define DAY_MS (24 * 60 * 60 * 1000LL)

static const char *const kind_names[] = {
	[USAGE_DAY] = "day",
	[USAGE_KEY] = "key",
	[USAGE_SANDBOX] = "sandbox",
};

/* ---- arithmetic ---- */

/* Whole seconds and the rest apart: no product leaves 64 bits in the longest life. */
int64_t ledger_cost(int64_t rate, int64_t ms)
{
	return ms <= 0 ? 0 : rate * (ms / 1000) + rate * (ms % 1000) / 1000;
}

int64_t ledger_next_day(int64_t unix_ms)
{
	return (unix_ms / DAY_MS + 1) * DAY_MS;
}

void ledger_day(int64_t unix_ms, char out[LEDGER_DAY_SIZE])
{
	time_t seconds = unix_ms / 1000;
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || strftime(out, LEDGER_DAY_SIZE, "%Y-%m-%d", &tm) == 0)
		str_copy(out, LEDGER_DAY_SIZE, "0000-00-00");
}

/* ---- wallets ---- */

int wallets_insert(struct db_txn *txn, const char *account_id, bool unlimited, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into wallets (account_id, unlimited, granted, charged, last_entry)"
			 " values ($1, $2, 0, 0, 0)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	db_bind_int(&query, 2, unlimited);
	return db_run(&query, NULL, err);
}

int wallets_get(struct db_txn *txn, const char *account_id, struct wallet_row *ret, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select unlimited, granted, charged, last_entry from wallets"
			 " where account_id = $1",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret = (struct wallet_row){ 0 };
	if (r == 1)
		*ret = (struct wallet_row){
			.unlimited = db_column_int(&query, 0) != 0,
			.granted = db_column_int(&query, 1),
			.charged = db_column_int(&query, 2),
			.last_entry = db_column_int(&query, 3),
		};
	return 0;
}

int wallets_entries(struct db_txn *txn, int64_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn, "select coalesce(sum(last_entry), 0) from wallets", &query, err);

	if (r == 0)
		r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret_n = db_column_int(&query, 0);
	return 0;
}

int wallets_sum(struct db_txn *txn, struct wallets_sum *ret, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select count(*), coalesce(sum(case when unlimited = 0 and"
			 " granted <= charged then 1 else 0 end), 0), coalesce(sum(granted), 0),"
			 " coalesce(sum(charged), 0) from wallets",
			 &query, err);

	if (r == 0)
		r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret = (struct wallets_sum){
		.accounts = db_column_int(&query, 0),
		.empty = db_column_int(&query, 1),
		.granted = db_column_int(&query, 2),
		.charged = db_column_int(&query, 3),
	};
	return 0;
}

/* ---- appending ---- */

static bool is_charge(const struct ledger_entry *entry)
{
	return entry->sandbox_id[0] != '\0';
}

static int move_wallet(struct db_txn *txn, struct ledger_entry *entry, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into wallets (account_id, unlimited, granted, charged, last_entry)"
			 " values ($1, 0, $2, $3, 1) on conflict (account_id) do update set"
			 " granted = wallets.granted + $2, charged = wallets.charged + $3,"
			 " last_entry = wallets.last_entry + 1 returning last_entry",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, entry->account_id);
	db_bind_int(&query, 2, is_charge(entry) ? 0 : entry->amount);
	db_bind_int(&query, 3, is_charge(entry) ? entry->amount : 0);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	entry->id = db_column_int(&query, 0);
	return 0;
}

static int insert_grant(struct db_txn *txn, const struct ledger_entry *entry, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into ledger_entries (account_id, id, at_unix_ms, debit, credit,"
			 " amount, reference, note) values ($1, $2, $3, $4, $1, $5, $6, $7)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, entry->account_id);
	db_bind_int(&query, 2, entry->id);
	db_bind_int(&query, 3, entry->at_unix_ms);
	db_bind_text(&query, 4, LEDGER_GRANTS);
	db_bind_int(&query, 5, entry->amount);
	db_bind_text(&query, 6, entry->reference[0] ? entry->reference : NULL);
	db_bind_text(&query, 7, entry->note);
	return db_run(&query, NULL, err);
}

static int insert_charge(struct db_txn *txn, const struct ledger_entry *entry, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into ledger_entries (account_id, id, at_unix_ms, debit, credit,"
			 " amount, sandbox_id, generation, key_id, rate, run_unix_ms,"
			 " from_unix_ms, to_unix_ms)"
			 " values ($1, $2, $3, $1, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, entry->account_id);
	db_bind_int(&query, 2, entry->id);
	db_bind_int(&query, 3, entry->at_unix_ms);
	db_bind_text(&query, 4, LEDGER_USAGE);
	db_bind_int(&query, 5, entry->amount);
	db_bind_text(&query, 6, entry->sandbox_id);
	db_bind_int(&query, 7, (int64_t)entry->generation);
	db_bind_text(&query, 8, entry->key_id);
	db_bind_int(&query, 9, entry->rate);
	db_bind_int(&query, 10, entry->run_unix_ms);
	db_bind_int(&query, 11, entry->from_unix_ms);
	db_bind_int(&query, 12, entry->to_unix_ms);
	return db_run(&query, NULL, err);
}

static int add_total(struct db_txn *txn, const struct ledger_entry *entry, enum usage_kind kind,
		     const char *name, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "insert into usage_totals (account_id, kind, name, amount, running_ms,"
			 " at_unix_ms) values ($1, $2, $3, $4, $5, $6)"
			 " on conflict (account_id, kind, name) do update set"
			 " amount = usage_totals.amount + $4,"
			 " running_ms = usage_totals.running_ms + $5,"
			 " at_unix_ms = case when usage_totals.at_unix_ms > $6"
			 " then usage_totals.at_unix_ms else $6 end",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, entry->account_id);
	db_bind_text(&query, 2, kind_names[kind]);
	db_bind_text(&query, 3, name);
	db_bind_int(&query, 4, entry->amount);
	db_bind_int(&query, 5, entry->to_unix_ms - entry->from_unix_ms);
	db_bind_int(&query, 6, entry->to_unix_ms);
	return db_run(&query, NULL, err);
}

int ledger_append(struct db_txn *txn, struct ledger_entry *entry, struct err *err)
{
	char day[LEDGER_DAY_SIZE];
	int r = move_wallet(txn, entry, err);

	if (r < 0)
		return r;
	if (!is_charge(entry))
		return insert_grant(txn, entry, err);
	ledger_day(entry->from_unix_ms, day);
	r = insert_charge(txn, entry, err);
	if (r == 0)
		r = add_total(txn, entry, USAGE_DAY, day, err);
	if (r == 0)
		r = add_total(txn, entry, USAGE_KEY, entry->key_id, err);
	if (r == 0)
		r = add_total(txn, entry, USAGE_SANDBOX, entry->sandbox_id, err);
	return r;
}

/* ---- reading ---- */

#define ENTRY_COLUMNS                                                                              \
	"account_id, id, at_unix_ms, amount, reference, note, sandbox_id, generation, key_id,"     \
	" rate, run_unix_ms, from_unix_ms, to_unix_ms"

static void read_entry(const struct db_query *query, struct ledger_entry *ret)
{
	*ret = (struct ledger_entry){
		.id = db_column_int(query, 1),
		.at_unix_ms = db_column_int(query, 2),
		.amount = db_column_int(query, 3),
		.generation = (uint64_t)db_column_int(query, 7),
		.rate = db_column_int(query, 9),
		.run_unix_ms = db_column_int(query, 10),
		.from_unix_ms = db_column_int(query, 11),
		.to_unix_ms = db_column_int(query, 12),
	};
	str_copy(ret->account_id, sizeof(ret->account_id), db_column_text(query, 0));
	str_copy(ret->reference, sizeof(ret->reference), db_column_text(query, 4));
	str_copy(ret->note, sizeof(ret->note), db_column_text(query, 5));
	str_copy(ret->sandbox_id, sizeof(ret->sandbox_id), db_column_text(query, 6));
	str_copy(ret->key_id, sizeof(ret->key_id), db_column_text(query, 8));
}

int ledger_grant_get(struct db_txn *txn, const char *account_id, const char *reference,
		     struct ledger_entry *ret, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select " ENTRY_COLUMNS " from ledger_entries"
			 " where account_id = $1 and reference = $2",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	db_bind_text(&query, 2, reference);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	if (r == 0)
		return err_set(err, -ENOENT, "no grant has that reference");
	read_entry(&query, ret);
	return 0;
}

int ledger_list(struct db_txn *txn, const char *account_id, int64_t after_id, uint32_t limit,
		struct ledger_entry **ret, size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	_cleanup_free_ struct ledger_entry *entries = xcalloc(limit + 1, sizeof(*entries));
	size_t n = 0;
	int r = db_query(txn,
			 "select " ENTRY_COLUMNS " from ledger_entries"
			 " where account_id = $1 and id > $2 order by id limit $3",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	db_bind_int(&query, 2, after_id);
	db_bind_int(&query, 3, limit);
	while (n < limit && (r = db_step(&query, err)) > 0)
		read_entry(&query, &entries[n++]);
	if (r < 0)
		return r;
	*ret = STEAL(entries);
	*ret_n = n;
	return 0;
}

static const char *const list_queries[] = {
	[USAGE_DAY] = "select name, '', amount, running_ms, at_unix_ms from usage_totals"
		      " where account_id = $1 and kind = $2 order by at_unix_ms desc limit $3",
	[USAGE_KEY] = "select u.name, k.label, u.amount, u.running_ms, u.at_unix_ms"
		      " from usage_totals u left join keys k on k.id = u.name"
		      " where u.account_id = $1 and u.kind = $2"
		      " order by u.at_unix_ms desc limit $3",
	[USAGE_SANDBOX] = "select u.name, s.name, u.amount, u.running_ms, u.at_unix_ms"
			  " from usage_totals u left join sandboxes s on s.id = u.name"
			  " where u.account_id = $1 and u.kind = $2"
			  " order by u.at_unix_ms desc limit $3",
};

int usage_list(struct db_txn *txn, const char *account_id, enum usage_kind kind, uint32_t limit,
	       struct usage_total **ret, size_t *ret_n, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	_cleanup_free_ struct usage_total *totals = xcalloc(limit + 1, sizeof(*totals));
	size_t n = 0;
	int r = db_query(txn, list_queries[kind], &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	db_bind_text(&query, 2, kind_names[kind]);
	db_bind_int(&query, 3, limit);
	while (n < limit && (r = db_step(&query, err)) > 0) {
		struct usage_total *total = &totals[n++];

		str_copy(total->name, sizeof(total->name), db_column_text(&query, 0));
		str_copy(total->label, sizeof(total->label), db_column_text(&query, 1));
		total->amount = db_column_int(&query, 2);
		total->running_ms = db_column_int(&query, 3);
		total->at_unix_ms = db_column_int(&query, 4);
	}
	if (r < 0)
		return r;
	*ret = STEAL(totals);
	*ret_n = n;
	return 0;
}

int usage_amount(struct db_txn *txn, const char *account_id, enum usage_kind kind, const char *name,
		 int64_t *ret_amount, struct err *err)
{
	_cleanup_query_ struct db_query query = DB_QUERY_INIT;
	int r = db_query(txn,
			 "select amount from usage_totals"
			 " where account_id = $1 and kind = $2 and name = $3",
			 &query, err);

	if (r < 0)
		return r;
	db_bind_text(&query, 1, account_id);
	db_bind_text(&query, 2, kind_names[kind]);
	db_bind_text(&query, 3, name);
	r = db_step(&query, err);
	if (r < 0)
		return r;
	*ret_amount = r == 1 ? db_column_int(&query, 0) : 0;
	return 0;
}
