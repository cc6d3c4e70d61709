/*
 * Metering: what ran, from the moment its agent had answered to the one that its warden's record
 * names, as charges in the ledger. See credit.h.
 *
 * A run under way is charged every charge_interval_seconds. That a VM is alive is looked at after
 * the time was taken, so that nothing is charged that turns out not to have run.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/abort_point.h"
#include "core/internal.h"
#include "store/intervals.h"

#define CHARGED_AT_ONCE 64 /* in one transaction */

/* ---- reserving ---- */

int meter_reserve(struct core *core, struct db_txn *txn, const struct sandbox_row *row,
		  uint64_t generation, struct err *err)
{
	struct meter_row meter = {
		.generation = generation,
		.rate = core_price(&core->limits.prices, row->size, row->milli_vcpus,
				   row->memory_mb, row->disk_gb),
	};
	int r;

	str_copy(meter.sandbox_id, sizeof(meter.sandbox_id), row->id);
	str_copy(meter.account_id, sizeof(meter.account_id), row->account_id);
	str_copy(meter.key_id, sizeof(meter.key_id), row->key_id);
	meter.hold = ledger_cost(meter.rate, core->limits.credit_hold_seconds * 1000);
	r = credit_check(txn, row->account_id, row->key_id, meter.rate, meter.hold, err);
	return r < 0 ? r : meters_insert(txn, &meter, err);
}

int meter_withdraw(struct db_txn *txn, const char *sandbox_id, struct err *err)
{
	return meters_delete(txn, sandbox_id, err);
}

/* ---- beginning ---- */

/* Where the clock was set back since the last run, this one begins where that one ended. */
static int start_of_run(struct db_txn *txn, const char *sandbox_id, int64_t *ret_unix_ms,
			struct err *err)
{
	_cleanup_free_ struct interval_row *rows = NULL;
	int64_t now = clock_unix_ms();
	size_t n = 0;
	int r = intervals_list(txn, sandbox_id, &rows, &n, err);

	if (r < 0)
		return r;
	*ret_unix_ms = n > 0 && rows[n - 1].ended_unix_ms > now ? rows[n - 1].ended_unix_ms : now;
	return 0;
}

int meter_begin(struct db_txn *txn, struct sandbox *sb, uint64_t generation, struct err *err)
{
	int64_t boottime_ms = clock_boottime_ms(), unix_ms;
	int r = start_of_run(txn, sb->id, &unix_ms, err);

	if (r == 0)
		r = meters_begin(txn, sb->id, generation, unix_ms, boottime_ms, err);
	return r < 0 ? r : intervals_begin(txn, sb->id, generation, unix_ms, err);
}

/* ---- charging ---- */

static int charge_part(struct db_txn *txn, struct meter_row *meter, int64_t to_unix_ms,
		       struct err *err)
{
	struct ledger_entry entry = {
		.at_unix_ms = clock_unix_ms(),
		.amount =
			ledger_cost(meter->rate, to_unix_ms - meter->run_unix_ms) - meter->charged,
		.generation = meter->generation,
		.rate = meter->rate,
		.run_unix_ms = meter->run_unix_ms,
		.from_unix_ms = meter->charged_unix_ms,
		.to_unix_ms = to_unix_ms,
	};
	int r;

	str_copy(entry.account_id, sizeof(entry.account_id), meter->account_id);
	str_copy(entry.sandbox_id, sizeof(entry.sandbox_id), meter->sandbox_id);
	str_copy(entry.key_id, sizeof(entry.key_id), meter->key_id);
	r = ledger_append(txn, &entry, err);
	if (r < 0)
		return r;
	meter->charged += entry.amount;
	meter->charged_unix_ms = to_unix_ms;
	return 0;
}

/* A charge is of one day, so that the sums by day are exact. */
static int charge_to(struct db_txn *txn, struct meter_row *meter, int64_t to_unix_ms,
		     struct err *err)
{
	int r = 0;

	while (r == 0 && meter->charged_unix_ms < to_unix_ms) {
		int64_t day_end = ledger_next_day(meter->charged_unix_ms);

		r = charge_part(txn, meter, day_end < to_unix_ms ? day_end : to_unix_ms, err);
	}
	return r;
}

static int64_t unix_of_run(const struct meter_row *meter, int64_t boottime_ms)
{
	return meter->run_unix_ms + boottime_ms - meter->run_boottime_ms;
}

/* ---- ending ---- */

struct run_end meter_end_of(const struct sandbox *sb, const struct record *record)
{
	int64_t end =
		record->cause != RECORD_RUNNING ? record->exit_boottime_ms : clock_boottime_ms();

	/* Nobody saw it: neither its warden nor, being dead, the daemon. */
	if (record->cause == RECORD_RUNNING && !record->frozen && !sb->core->recovered)
		return (struct run_end){ 0 };
	if (record->frozen && record->frozen_boottime_ms < end)
		end = record->frozen_boottime_ms;
	if (sb->expires_boottime_ms && sb->expires_boottime_ms < end)
		end = sb->expires_boottime_ms;
	return (struct run_end){ .boottime_ms = end };
}

int meter_end(struct db_txn *txn, struct sandbox *sb, const struct run_end *end, struct err *err)
{
	struct meter_row meter;
	struct err none = ERR_INIT;
	int64_t to_unix_ms;
	int r = meters_get(txn, sb->id, &meter, &none);

	if (r == -ENOENT) /* it did not run, or began before there were meters */
		return intervals_end(txn, sb->id, end->unix_ms, err);
	if (r < 0) {
		if (err)
			*err = none;
		return r;
	}
	if (!meter.run_unix_ms)
		return meters_delete(txn, sb->id, err);
	to_unix_ms = meter.charged_unix_ms;
	if (end->boottime_ms && unix_of_run(&meter, end->boottime_ms) > to_unix_ms)
		to_unix_ms = unix_of_run(&meter, end->boottime_ms);
	r = charge_to(txn, &meter, to_unix_ms, err);
	if (r == 0)
		r = meters_delete(txn, sb->id, err);
	return r < 0 ? r : intervals_end(txn, sb->id, to_unix_ms, err);
}

/* ---- what runs ---- */

struct alive {
	char sandbox_id[SANDBOX_ID_SIZE];
	uint64_t generation;
	int64_t boottime_ms; /* until then it has run */
};

/* Whoever holds op_lock is about to change what is asked here. */
static bool is_alive(struct core *core, const struct meter_row *meter, struct alive *ret)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(core, meter->sandbox_id, NULL);
	int64_t now = clock_boottime_ms();
	bool alive;

	if (!sb || pthread_mutex_trylock(&sb->op_lock) != 0)
		return false;
	alive = sandbox_status(sb) == SANDBOX_RUNNING && sb->has_vm && !sb->held &&
		!sandbox_vm_has_ended(sb, 0);
	if (now > sb->expires_boottime_ms)
		now = sb->expires_boottime_ms;
	pthread_mutex_unlock(&sb->op_lock);
	*ret = (struct alive){ .generation = meter->generation, .boottime_ms = now };
	str_copy(ret->sandbox_id, sizeof(ret->sandbox_id), meter->sandbox_id);
	return alive;
}

/* It can have ended since it was looked at, and be charged to its end. */
static int charge_alive(struct db_txn *txn, const struct alive *alive, struct err *err)
{
	struct meter_row meter;
	struct err none = ERR_INIT;
	int r = meters_get(txn, alive->sandbox_id, &meter, &none);

	if (r == -ENOENT ||
	    (r == 0 && (meter.generation != alive->generation || !meter.run_unix_ms)))
		return 0;
	if (r < 0) {
		if (err)
			*err = none;
		return r;
	}
	r = charge_to(txn, &meter, unix_of_run(&meter, alive->boottime_ms), err);
	return r < 0 ? r
		     : meters_advance(txn, meter.sandbox_id, meter.charged_unix_ms, meter.charged,
				      err);
}

static int charge_some(struct core *core, const struct alive *alive, size_t n, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(core->db, &txn, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = charge_alive(&txn, &alive[i], err);
	return r < 0 ? r : db_commit(&txn, err);
}

static int list_meters(struct core *core, struct meter_row **ret, size_t *ret_n, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_read(core->db, &txn, err);

	return r < 0 ? r : meters_list(&txn, NULL, ret, ret_n, err);
}

int meters_charge(struct core *core, struct err *err)
{
	_cleanup_free_ struct meter_row *meters = NULL;
	struct alive alive[CHARGED_AT_ONCE];
	size_t n_meters = 0, n = 0;
	int r = list_meters(core, &meters, &n_meters, err);

	for (size_t i = 0; r == 0 && i < n_meters; i++) {
		if (meters[i].run_unix_ms && is_alive(core, &meters[i], &alive[n]))
			n++;
		if (n == CHARGED_AT_ONCE || (n > 0 && i + 1 == n_meters)) {
			r = charge_some(core, alive, n, err);
			abort_point("meters.charged");
			n = 0;
		}
	}
	return r;
}

static void charge_job(void *arg)
{
	struct core *core = arg;
	struct err err = ERR_INIT;

	if (meters_charge(core, &err) < 0)
		log_error("what runs cannot be charged yet", "error=\"%s\"", err.message);
	core->charging = false;
}

void meters_look(struct core *core)
{
	int64_t now = clock_boottime_ms();

	if (!core->recovered || core->charging || now < core->charge_boottime_ms)
		return;
	core->charging = true;
	core->charge_boottime_ms = now + core->limits.charge_interval_seconds * 1000;
	core_job(core, charge_job, core, 0);
}
