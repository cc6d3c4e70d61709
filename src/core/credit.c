/*
 * Credit: what an account may spend, and what becomes of its sandboxes when it has nothing left.
 *
 * Whether something may begin to run is decided where it is reserved. What runs is watched: the
 * moment at which the credit of an account, or the spend cap of a key, will be used up is known
 * from its balance and its rates, so that nothing is looked at before the first such moment comes,
 * unless something changes (credit_changed). Then what runs on that credit is paused, a little
 * early, because saving takes time. Nothing is lost: after a grant it is resumed by the next
 * request. One that cannot be paused is destroyed after OUT_OF_CREDIT_GRACE_MS, which its tombstone
 * says.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/internal.h"

#define EARLY_MS       5000 /* less than what is held for a run at least */
#define LOOK_MIN_MS    1000
#define LOOK_MAX_MS    60000
#define RETRY_MS       5000
#define UNPAID_ANEW_MS 30000

/* ---- figures ---- */

static int64_t cost_so_far(const struct meter_row *meter, int64_t now_boottime_ms)
{
	return meter->run_unix_ms
		       ? ledger_cost(meter->rate, now_boottime_ms - meter->run_boottime_ms)
		       : 0;
}

static void add_meter(struct account_credit *credit, const struct meter_row *meter,
		      int64_t now_boottime_ms)
{
	int64_t cost = cost_so_far(meter, now_boottime_ms);

	if (cost < meter->charged)
		cost = meter->charged;
	credit->uncharged += cost - meter->charged;
	credit->held += meter->hold > cost ? meter->hold - cost : 0;
	credit->rate += meter->run_unix_ms ? meter->rate : 0;
	credit->n_running += meter->run_unix_ms != 0;
}

int64_t credit_available(const struct account_credit *credit)
{
	return credit->wallet.granted - credit->wallet.charged - credit->uncharged - credit->held;
}

int credit_get(struct db_txn *txn, const char *account_id, struct account_credit *ret,
	       struct err *err)
{
	_cleanup_free_ struct meter_row *meters = NULL;
	struct account_credit credit = { 0 };
	int64_t now = clock_boottime_ms();
	size_t n = 0;
	int r = wallets_get(txn, account_id, &credit.wallet, err);

	if (r == 0)
		r = meters_list(txn, account_id, &meters, &n, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		add_meter(&credit, &meters[i], now);
	if (r == 0)
		*ret = credit;
	return r;
}

int ledger_spent(struct db_txn *txn, const char *account_id, const char *key_id,
		 int64_t *ret_amount, struct err *err)
{
	_cleanup_free_ struct meter_row *meters = NULL;
	struct account_credit credit = { 0 };
	int64_t now = clock_boottime_ms(), charged;
	size_t n = 0;
	int r = usage_amount(txn, account_id, USAGE_KEY, key_id, &charged, err);

	if (r == 0)
		r = meters_list(txn, account_id, &meters, &n, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (str_eq(meters[i].key_id, key_id))
			add_meter(&credit, &meters[i], now);
	}
	*ret_amount = charged + credit.uncharged + credit.held;
	return 0;
}

/* ---- may it begin? ---- */

static double credits(int64_t micro)
{
	return (double)micro / (double)MICROCREDITS;
}

int credit_spend_cap(struct db_txn *txn, const char *account_id, const char *key_id,
		     int64_t *ret_amount, struct err *err)
{
	_cleanup_(key_row_clear) struct key_row key = { 0 };
	_cleanup_key_scope_ struct key_scope *scope = NULL;
	_cleanup_json_ json_t *json = NULL;
	struct err none = ERR_INIT;
	int64_t credits_max;
	int r = keys_get(txn, key_id, account_id, &key, &none);

	*ret_amount = -1;
	if (r == -ENOENT || (r == 0 && !key.scope)) /* tests, and the core, act without a key */
		return 0;
	if (r == 0)
		r = json_parse(key.scope, strlen(key.scope), &json, &none);
	if (r == 0)
		r = key_scope_parse(json, &scope, &none);
	if (r < 0) {
		if (err)
			*err = none;
		return r;
	}
	credits_max = key_scope_spend_credits_max(scope);
	*ret_amount = credits_max < 0 ? -1 : credits_max * MICROCREDITS;
	return 0;
}

static int check_spend_cap(struct db_txn *txn, const char *account_id, const char *key_id,
			   int64_t hold, struct err *err)
{
	int64_t cap, spent = 0;
	int r = credit_spend_cap(txn, account_id, key_id, &cap, err);

	if (r < 0 || cap < 0)
		return r;
	r = ledger_spent(txn, account_id, key_id, &spent, err);
	if (r < 0 || (spent + hold <= cap && spent < cap))
		return r;
	err_code(err, -EDQUOT, "spend_cap_reached",
		 "this key may spend %.6f credits (\"spend_credits_max\" of its scope), and has "
		 "spent %.6f; %.6f are kept aside for what is about to run",
		 credits(cap), credits(spent), credits(hold));
	err_hint(err, "whoever manages the account's keys can make one that may spend more");
	return -EDQUOT;
}

int credit_check(struct db_txn *txn, const char *account_id, const char *key_id, int64_t rate,
		 int64_t hold, struct err *err)
{
	struct account_credit credit = { 0 };
	int64_t available;
	int r = rate > 0 ? check_spend_cap(txn, account_id, key_id, hold, err) : 0;

	if (r == 0)
		r = credit_get(txn, account_id, &credit, err);
	if (r < 0 || credit.wallet.unlimited || rate == 0)
		return r;
	available = credit_available(&credit);
	if (available >= hold && available > 0)
		return 0;
	err_code(err, -EDQUOT, "no_credit",
		 "the account has %.6f credits to spend, and %.6f are kept aside for what is about "
		 "to run",
		 credits(available > 0 ? available : 0), credits(hold));
	err_hint(err, "ask an administrator for a grant; nothing of what is paused is lost");
	return -EDQUOT;
}

int credit_open(struct core *core, struct db_txn *txn, const char *account_id, bool unlimited,
		struct err *err)
{
	struct ledger_entry entry = {
		.at_unix_ms = clock_unix_ms(),
		.amount = core->limits.starting_credits * MICROCREDITS,
		.reference = "starting credit",
	};
	int r = wallets_insert(txn, account_id, unlimited, err);

	if (r < 0 || unlimited || entry.amount == 0)
		return r;
	str_copy(entry.account_id, sizeof(entry.account_id), account_id);
	return ledger_append(txn, &entry, err);
}

/* ---- pausing what runs without credit ---- */

static void destroy_unpaid(struct sandbox *sb, const char *why)
{
	_cleanup_free_ char *text = xasprintf(
		"its account's credit is used up, and it could not be paused: %.160s", why);
	struct err err = ERR_INIT;

	sandbox_set_status(sb, SANDBOX_DESTROYING);
	if (sandbox_finish(sb, SANDBOX_DESTROYED, "out_of_credit", text, &err) < 0)
		sandbox_finish_later(sb, END_RETRY_MS);
}

static void pause_unpaid(struct sandbox *sb)
{
	int64_t grace_ms = sb->core->limits.out_of_credit_grace_seconds * 1000;
	struct err err = ERR_INIT;
	int r;

	if (sandbox_status(sb) != SANDBOX_RUNNING || sandbox_end_wanted(sb))
		return;
	sb->unpaid = true;
	r = sandbox_pause(sb, &err);
	sb->unpaid = false;
	if (r == 0)
		return;
	if (sandbox_status(sb) == SANDBOX_RUNNING &&
	    clock_boottime_ms() - sb->unpaid_boottime_ms > grace_ms)
		destroy_unpaid(sb, err.message);
	sb->pause_not_before_ms = clock_boottime_ms() + RETRY_MS;
}

static void pause_job(void *arg)
{
	_cleanup_sandbox_ struct sandbox *sb = arg;

	pthread_mutex_lock(&sb->op_lock);
	pause_unpaid(sb);
	pthread_mutex_unlock(&sb->op_lock);
	sb->pause_asked = false;
}

/* True: it is news. */
static bool stop_one(struct core *core, const struct meter_row *meter)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(core, meter->sandbox_id, NULL);
	int64_t now = clock_boottime_ms();
	bool first;

	if (!sb || sandbox_status(sb) != SANDBOX_RUNNING)
		return false;
	/* It is looked at every second while it is so. */
	first = !sb->unpaid_seen_boottime_ms || now - sb->unpaid_seen_boottime_ms > UNPAID_ANEW_MS;
	if (first)
		sb->unpaid_boottime_ms = now;
	sb->unpaid_seen_boottime_ms = now;
	if (now < sb->pause_not_before_ms)
		return first;
	if (!atomic_exchange(&sb->pause_asked, true))
		core_job(core, pause_job, sandbox_ref(sb), 0);
	return first;
}

static void say_exhausted(struct core *core, const char *account_id, const char *key_id)
{
	json_t *data = json_object();

	json_put_str(data, "reason", key_id ? "spend_cap_reached" : "no_credit");
	json_put_str(data, "key_id", key_id);
	events_post(core, account_id, "", EVENT_CREDIT_EXHAUSTED, data);
	log_warn("credit is used up, what runs on it is paused", "account=%s key=%s", account_id,
		 key_id ? key_id : "any");
}

/* In how many milliseconds what is left is used up at this rate, less what saving takes. */
static int64_t lasts_ms(int64_t left, int64_t rate)
{
	if (rate == 0)
		return LOOK_MAX_MS;
	left = left > 0 ? left * 1000 / rate - EARLY_MS : 0;
	return left > 0 ? left : 0;
}

struct bound {
	const char *account_id, *key_id; /* key_id NULL: of the account */
	int64_t left;			 /* of what may be spent */
	int64_t rate;
};

/* Of these meters those that the bound is for: stops them, or notes that there is credit. Returns
 * in how many milliseconds to look again. */
static int64_t keep_bound(struct core *core, const struct bound *bound,
			  const struct meter_row *meters, size_t n)
{
	int64_t ms = lasts_ms(bound->left, bound->rate);
	bool said = false;

	for (size_t i = 0; i < n && ms == 0; i++) {
		if ((!bound->key_id || str_eq(bound->key_id, meters[i].key_id)) &&
		    meters[i].run_unix_ms && meters[i].rate > 0)
			said |= stop_one(core, &meters[i]);
	}
	if (said)
		say_exhausted(core, bound->account_id, bound->key_id);
	return ms > 0 ? ms : LOOK_MIN_MS;
}

static int64_t look_at_account(struct core *core, struct db_txn *txn,
			       const struct meter_row *meters, size_t n, struct err *err)
{
	struct bound bound = { .account_id = meters[0].account_id };
	struct account_credit credit = { 0 };

	if (credit_get(txn, bound.account_id, &credit, err) < 0)
		return LOOK_MIN_MS;
	if (credit.wallet.unlimited)
		return LOOK_MAX_MS;
	bound.left = credit.wallet.granted - credit.wallet.charged - credit.uncharged;
	bound.rate = credit.rate;
	return keep_bound(core, &bound, meters, n);
}

static bool is_first_of_key(const struct meter_row *meters, size_t i)
{
	for (size_t j = 0; j < i; j++) {
		if (str_eq(meters[j].key_id, meters[i].key_id))
			return false;
	}
	return true;
}

static int64_t look_at_key(struct core *core, struct db_txn *txn, const struct meter_row *meters,
			   size_t n, const char *key_id, struct err *err)
{
	struct bound bound = { .account_id = meters[0].account_id, .key_id = key_id };
	struct account_credit credit = { 0 };
	int64_t now = clock_boottime_ms(), cap, charged;

	if (credit_spend_cap(txn, bound.account_id, key_id, &cap, err) < 0)
		return LOOK_MIN_MS;
	if (cap < 0)
		return LOOK_MAX_MS;
	if (usage_amount(txn, bound.account_id, USAGE_KEY, key_id, &charged, err) < 0)
		return LOOK_MIN_MS;
	for (size_t i = 0; i < n; i++) {
		if (str_eq(meters[i].key_id, key_id))
			add_meter(&credit, &meters[i], now);
	}
	bound.left = cap - charged - credit.uncharged;
	bound.rate = credit.rate;
	return keep_bound(core, &bound, meters, n);
}

static int64_t look_at_all(struct core *core, struct err *err)
{
	_cleanup_free_ struct meter_row *meters = NULL;
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t next_ms = LOOK_MAX_MS;
	size_t n = 0;
	int r = db_begin_read(core->db, &txn, err);

	if (r == 0)
		r = meters_list(&txn, NULL, &meters, &n, err);
	if (r < 0)
		return LOOK_MIN_MS;
	for (size_t from = 0, to; from < n; from = to) {
		int64_t ms;

		for (to = from + 1; to < n; to++) {
			if (!str_eq(meters[to].account_id, meters[from].account_id))
				break;
		}
		ms = look_at_account(core, &txn, &meters[from], to - from, err);
		next_ms = ms < next_ms ? ms : next_ms;
		for (size_t i = from; i < to; i++) {
			if (!is_first_of_key(&meters[from], i - from))
				continue;
			ms = look_at_key(core, &txn, &meters[from], to - from, meters[i].key_id,
					 err);
			next_ms = ms < next_ms ? ms : next_ms;
		}
	}
	return next_ms > LOOK_MIN_MS ? next_ms : LOOK_MIN_MS;
}

static void look_job(void *arg)
{
	struct core *core = arg;
	struct err err = ERR_INIT;
	int64_t next_ms = look_at_all(core, &err);

	if (err.message[0])
		log_error("credit cannot be looked at", "error=\"%s\"", err.message);
	core->credit_boottime_ms = clock_boottime_ms() + next_ms;
	core->credit_looking = false;
}

void credit_look(struct core *core)
{
	bool changed;

	if (!core->recovered || core->credit_looking)
		return;
	changed = atomic_exchange(&core->credit_changed, false);
	if (!changed && clock_boottime_ms() < core->credit_boottime_ms)
		return;
	core->credit_looking = true;
	core_job(core, look_job, core, 0);
}

void credit_changed(struct core *core)
{
	core->credit_changed = true;
}
