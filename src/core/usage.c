/* Usage, grants and the ledger as they are asked for. Figures are micro-credits; see
 * docs/credits.md.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/internal.h"
#include "store/ledger_check.h"

#define ENTRIES_MAX	1000
#define ENTRIES_DEFAULT 100
#define LIST_MAX	200
#define LIST_DEFAULT	50
#define DAYS_MAX	366
#define DAYS_DEFAULT	30

/* ---- whose ---- */

/* Only an administrator learns whether there is another account of that id. */
static int choose_account(struct db_txn *txn, const struct principal *who, const char *wanted,
			  const char **ret, struct err *err)
{
	struct account_row row;

	*ret = who->account_id;
	if (!wanted || str_eq(wanted, who->account_id))
		return 0;
	if (!who->admin)
		return err_code(err, -ENOENT, "account_not_found", "no account '%.64s'", wanted);
	*ret = wanted;
	return accounts_get(txn, wanted, &row, err);
}

/* ---- usage ---- */

static const char *const total_names[] = {
	[USAGE_DAY] = "day",
	[USAGE_KEY] = "key_id",
	[USAGE_SANDBOX] = "sandbox_id",
};

static json_t *total_json(const struct usage_total *total, enum usage_kind kind)
{
	json_t *json = json_object();

	json_put_str(json, total_names[kind], total->name);
	if (kind == USAGE_KEY)
		json_put_str(json, "label", total->label[0] ? total->label : NULL);
	if (kind == USAGE_SANDBOX)
		json_put_str(json, "name", total->label[0] ? total->label : NULL);
	json_put_int(json, "microcredits", total->amount);
	json_put(json, "running_seconds", json_real((double)total->running_ms / 1000));
	if (kind != USAGE_DAY)
		json_put_time(json, "last_charged_at", total->at_unix_ms);
	return json;
}

static int add_totals(json_t *json, const char *name, struct db_txn *txn, const char *account_id,
		      enum usage_kind kind, uint32_t limit, struct err *err)
{
	_cleanup_free_ struct usage_total *totals = NULL;
	json_t *list = json_array();
	size_t n = 0;
	int r = usage_list(txn, account_id, kind, limit, &totals, &n, err);

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, total_json(&totals[i], kind));
	json_put(json, name, list);
	return r;
}

static void add_credit(json_t *json, const struct account_credit *credit)
{
	int64_t left = credit->wallet.granted - credit->wallet.charged - credit->uncharged;
	int64_t seconds = left > 0 && credit->rate > 0 ? left / credit->rate : 0;
	bool ends = !credit->wallet.unlimited && credit->rate > 0;

	json_put(json, "unlimited", json_boolean(credit->wallet.unlimited));
	json_put_int(json, "granted_microcredits", credit->wallet.granted);
	json_put_int(json, "charged_microcredits", credit->wallet.charged);
	json_put_int(json, "balance_microcredits", credit->wallet.granted - credit->wallet.charged);
	json_put_int(json, "uncharged_microcredits", credit->uncharged);
	json_put_int(json, "held_microcredits", credit->held);
	json_put_int(json, "available_microcredits", credit_available(credit));
	json_put_int(json, "running", (int64_t)credit->n_running);
	json_put_int(json, "microcredits_per_second", credit->rate);
	json_put(json, "seconds_to_zero", ends ? json_integer(seconds) : json_null());
	json_put_time(json, "zero_at", ends ? clock_unix_ms() + seconds * 1000 : 0);
}

static int add_usage(json_t *json, struct db_txn *txn, const char *account_id,
		     const struct core_usage_request *req, struct err *err)
{
	uint32_t limit = req->limit ? req->limit : LIST_DEFAULT;
	uint32_t days = req->days ? req->days : DAYS_DEFAULT;
	struct account_credit credit;
	int r = credit_get(txn, account_id, &credit, err);

	if (r < 0)
		return r;
	json_put_str(json, "account_id", account_id);
	add_credit(json, &credit);
	r = add_totals(json, "by_day", txn, account_id, USAGE_DAY, days, err);
	if (r == 0)
		r = add_totals(json, "by_key", txn, account_id, USAGE_KEY, limit, err);
	if (r == 0)
		r = add_totals(json, "by_sandbox", txn, account_id, USAGE_SANDBOX, limit, err);
	return r;
}

static int read_usage(struct core *core, const struct principal *who,
		      const struct core_usage_request *req, json_t *json, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	const char *account_id = NULL;
	int r = db_begin_read(core->db, &txn, err);

	if (r == 0)
		r = choose_account(&txn, who, req->account_id, &account_id, err);
	return r < 0 ? r : add_usage(json, &txn, account_id, req, err);
}

/* Sandboxes that are not there for the key are not in its list either. */
static void hide_sandboxes(struct core *core, const struct principal *who, json_t *list)
{
	size_t i = json_array_size(list);

	if (!key_scope_narrows_sandboxes(who->scope))
		return;
	while (i-- > 0) {
		const char *id = json_get_str(json_array_get(list, i), "sandbox_id", "");

		if (authorize_sandbox(core, who, id, NULL) < 0)
			json_array_remove(list, i);
	}
}

int core_usage(struct core *core, const struct principal *who, const struct core_usage_request *req,
	       json_t **ret, struct err *err)
{
	_cleanup_json_ json_t *json = json_object();
	int r;

	if (req->days > DAYS_MAX || req->limit > LIST_MAX)
		return err_set(err, -EINVAL, "days goes up to %d, limit up to %d", DAYS_MAX,
			       LIST_MAX);
	r = read_usage(core, who, req, json, err);
	if (r < 0)
		return r;
	hide_sandboxes(core, who, json_object_get(json, "by_sandbox"));
	*ret = STEAL(json);
	return 0;
}

/* ---- entries ---- */

static json_t *entry_json(const struct ledger_entry *entry)
{
	bool charge = entry->sandbox_id[0] != '\0';
	json_t *json = json_object();

	json_put_int(json, "id", entry->id);
	json_put_time(json, "at", entry->at_unix_ms);
	json_put_str(json, "kind", charge ? "charge" : "grant");
	json_put_str(json, "debit", charge ? entry->account_id : LEDGER_GRANTS);
	json_put_str(json, "credit", charge ? LEDGER_USAGE : entry->account_id);
	json_put_int(json, "microcredits", entry->amount);
	if (!charge) {
		json_put_str(json, "reference", entry->reference[0] ? entry->reference : NULL);
		json_put_str(json, "note", entry->note[0] ? entry->note : NULL);
		return json;
	}
	json_put_str(json, "sandbox_id", entry->sandbox_id);
	json_put_int(json, "generation", (int64_t)entry->generation);
	json_put_str(json, "key_id", entry->key_id);
	json_put_int(json, "microcredits_per_second", entry->rate);
	json_put_time(json, "run_began_at", entry->run_unix_ms);
	json_put_time(json, "from", entry->from_unix_ms);
	json_put_time(json, "to", entry->to_unix_ms);
	return json;
}

static int list_entries(struct core *core, const struct principal *who,
			const struct core_ledger_request *req, uint32_t limit,
			struct ledger_entry **ret, size_t *ret_n, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	const char *account_id = NULL;
	int r = db_begin_read(core->db, &txn, err);

	if (r == 0)
		r = choose_account(&txn, who, req->account_id, &account_id, err);
	return r < 0 ? r : ledger_list(&txn, account_id, req->after_id, limit + 1, ret, ret_n, err);
}

int core_ledger(struct core *core, const struct principal *who,
		const struct core_ledger_request *req, json_t **ret, struct err *err)
{
	_cleanup_free_ struct ledger_entry *entries = NULL;
	uint32_t limit = req->limit ? req->limit : ENTRIES_DEFAULT;
	json_t *json, *items;
	size_t n = 0, shown;
	int r;

	if (limit > ENTRIES_MAX)
		return err_set(err, -EINVAL, "limit %u is not from 1 to %d", limit, ENTRIES_MAX);
	if (key_scope_narrows_sandboxes(who->scope))
		return err_code(err, -EPERM, "scope_denied",
				"the ledger is of the whole account, and this key is for certain "
				"sandboxes");
	r = list_entries(core, who, req, limit, &entries, &n, err);
	if (r < 0)
		return r;
	json = json_object();
	items = json_array();
	shown = n > limit ? limit : n;
	for (size_t i = 0; i < shown; i++)
		json_array_append_new(items, entry_json(&entries[i]));
	json_put(json, "items", items);
	json_put(json, "next_cursor",
		 n > limit ? json_sprintf("%lld", (long long)entries[shown - 1].id) : json_null());
	*ret = json;
	return 0;
}

/* ---- grants ---- */

static int same_grant(const struct ledger_entry *before, const struct ledger_entry *entry,
		      struct err *err)
{
	if (before->amount == entry->amount)
		return 0;
	err_code(err, -EEXIST, "reference_conflict",
		 "the reference '%.64s' was used for a grant of %lld micro-credits",
		 entry->reference, (long long)before->amount);
	err_hint(err, "use a new reference for a new grant");
	return -EEXIST;
}

/* 1: it was written before. */
static int find_grant(struct db_txn *txn, struct ledger_entry *entry, struct err *err)
{
	struct ledger_entry before;
	struct err none = ERR_INIT;
	int r = entry->reference[0]
			? ledger_grant_get(txn, entry->account_id, entry->reference, &before, &none)
			: -ENOENT;

	if (r == -ENOENT)
		return 0;
	if (r == 0)
		r = same_grant(&before, entry, err);
	else if (err)
		*err = none;
	if (r < 0)
		return r;
	*entry = before;
	return 1;
}

static int write_grant(struct core *core, struct db_txn *txn, struct ledger_entry *entry,
		       struct err *err)
{
	json_t *data;
	int r = ledger_append(txn, entry, err);

	if (r < 0)
		return r;
	data = json_object();
	json_put_int(data, "microcredits", entry->amount);
	json_put_str(data, "reference", entry->reference[0] ? entry->reference : NULL);
	return event_write(txn, core, entry->account_id, "", EVENT_CREDIT_GRANTED, data, err);
}

static int grant(struct core *core, const struct principal *who, struct ledger_entry *entry,
		 struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	const char *account_id = NULL;
	int r = db_begin_write(core->db, &txn, err);

	if (r == 0)
		r = choose_account(&txn, who, entry->account_id, &account_id, err);
	if (r == 0)
		r = find_grant(&txn, entry, err);
	if (r != 0)
		return r < 0 ? r : 0;
	r = write_grant(core, &txn, entry, err);
	if (r == 0)
		r = db_commit(&txn, err);
	if (r == 0)
		log_info("credit granted", "account=%s microcredits=%lld entry=%lld by=%s",
			 entry->account_id, (long long)entry->amount, (long long)entry->id,
			 who->key_id);
	return r;
}

int core_grant(struct core *core, const struct principal *who, const struct core_grant_request *req,
	       json_t **ret, struct err *err)
{
	struct ledger_entry entry = { .at_unix_ms = clock_unix_ms(), .amount = req->microcredits };
	int r;

	if (!who->admin)
		return err_code(err, -EACCES, "forbidden", "grants are made by administrators");
	if (req->microcredits < 1 || req->microcredits > CORE_GRANT_MAX)
		return err_set(err, -EINVAL, "a grant is of 1 to %lld micro-credits",
			       (long long)CORE_GRANT_MAX);
	if (!str_copy(entry.account_id, sizeof(entry.account_id), req->account_id))
		return err_code(err, -ENOENT, "account_not_found", "no account '%.64s'",
				req->account_id);
	if ((req->reference &&
	     !str_copy(entry.reference, sizeof(entry.reference), req->reference)) ||
	    (req->note && !str_copy(entry.note, sizeof(entry.note), req->note)))
		return err_set(err, -EINVAL, "a reference has up to %d bytes, a note up to %d",
			       LEDGER_REFERENCE_MAX, LEDGER_NOTE_MAX);
	r = grant(core, who, &entry, err);
	if (r < 0)
		return r;
	credit_changed(core);
	*ret = entry_json(&entry);
	return 0;
}

/* ---- is it right? ---- */

int core_ledger_check(struct core *core, json_t **ret, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct ledger_findings findings = { 0 };
	json_t *json;
	int r = db_begin_long_read(core->db, &txn, err);

	if (r == 0)
		r = ledger_check(&txn, &findings, err);
	if (r < 0)
		return r;
	json = json_object();
	json_put(json, "ok", json_boolean(findings.n == 0));
	json_put_int(json, "accounts", findings.accounts);
	json_put_int(json, "entries", findings.entries);
	json_put_int(json, "runs", findings.runs);
	json_put_int(json, "granted_microcredits", findings.granted);
	json_put_int(json, "charged_microcredits", findings.charged);
	json_put_int(json, "balance_microcredits", findings.granted - findings.charged);
	json_put_int(json, "findings", (int64_t)findings.n);
	json_put_str(json, "first_finding", findings.n ? findings.first : NULL);
	*ret = json;
	return 0;
}
