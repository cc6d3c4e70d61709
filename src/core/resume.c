/*
 * Resuming.
 *
 *   1 reserve    quota, credit, a slot of the network, and the row is resuming
 *   2 check      the saved state is whole, and for this host's VMM and template
 *   3 start      the VM on the template's memory, filled with the difference, over the disk; its
 *                commands are frozen
 *   4 spend      DIR/pause becomes DIR/spent, durably
 *   5 identity   fresh entropy, clock, the next generation; then its commands go on
 *   6 publish    the row is running, with a new deadline
 *   7 forget     DIR/spent goes
 *
 * A failure before 4 ends the VM and leaves the sandbox paused, to be tried again. That is no
 * danger to its disk: before the commands are let go on (5) the guest has nothing to write, because
 * its file system was written out with its commands frozen.
 *
 * From 4 on the guest may have written, so that disk and saved memory do not belong together any
 * more: there is no way back to what was saved. It is the running sandbox then, even if nobody can
 * speak to it yet: it stays resuming, and 5 and 6 are tried again by the next request and every few
 * seconds, until they work, its lifetime ends, or its VM does: then it has ended, as its record
 * says.
 *
 * Of many who want it resumed one does it, holding op_lock; the others find it running.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "core/abort_point.h"
#include "core/internal.h"
#include "core/metrics_internal.h"
#include "snapshot/manifest.h"
#include "store/egress.h"

#define MINUTE_MS 60000LL

static int write_resuming(struct sandbox *sb, struct sandbox_row *row, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = sandbox_net_take(sb, row, err);

	if (r == 0)
		r = db_begin_write(sb->core->db, &txn, err);
	if (r == 0)
		r = reserve_quota(sb->core, &txn, sb->account_id, 1, err);
	if (r == 0)
		r = sandboxes_move(&txn, sb->id, "paused", "resuming", err);
	if (r == 0)
		r = meter_reserve(sb->core, &txn, row, row->generation + 1, err);
	if (r == 0 && row->has_slot)
		r = slot_set_row(&txn, sb->id, row->slot, err);
	if (r == 0)
		r = db_commit(&txn, err);
	if (r < 0)
		sandbox_net_release(sb);
	return r;
}

static void write_paused_again(struct sandbox *sb)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct err err = ERR_INIT;
	int r = db_begin_write(sb->core->db, &txn, &err);

	if (r == 0)
		r = sandboxes_move(&txn, sb->id, "resuming", "paused", &err);
	if (r == 0)
		r = meter_withdraw(&txn, sb->id, &err);
	if (r == 0)
		r = sandbox_net_settle(sb, &txn, &err);
	if (r == 0)
		r = db_commit(&txn, &err);
	if (r < 0 && r != -ESTALE)
		log_error("a resume that failed cannot be taken back in the database",
			  "sandbox=%s error=\"%s\"", sb->id, err.message);
}

static void undo(struct sandbox *sb)
{
	struct err err = ERR_INIT;

	sandbox_detach(sb);
	if (sandbox_end_vm(sb, "resume_failed", &err) < 0)
		log_error("the VM of a resume that failed does not end", "sandbox=%s error=\"%s\"",
			  sb->id, err.message);
	tree_remove(sb->run_dir);
	write_paused_again(sb);
	sandbox_net_release(sb);
	sandbox_set_status(sb, SANDBOX_PAUSED);
}

/* One that was paused at its deadline would have nothing left to do anything with. */
static void set_deadline(struct sandbox *sb, const struct sandbox_row *row)
{
	int64_t min_ms = sb->core->limits.resume_minutes_min * MINUTE_MS;
	int64_t remaining_ms = row->remaining_ms > min_ms ? row->remaining_ms : min_ms;

	sb->expires_boottime_ms = clock_boottime_ms() + remaining_ms;
	sb->expires_unix_ms = clock_unix_ms() + remaining_ms;
}

static int start(struct sandbox *sb, const struct sandbox_row *row, struct err *err)
{
	struct saved_start saved;
	struct manifest manifest;
	char id[65];
	int r;

	saved_pause_id(row, id);
	r = saved_check(sb->core, sb->pause_dir, id, row->template_key, &manifest, err);
	if (r < 0)
		return r;
	tree_remove(sb->run_dir);
	set_deadline(sb, row);
	saved_start_init(&saved, sb, row, row->generation + 1);
	r = start_vm(sb, &saved.from, err);
	saved_start_clear(&saved);
	abort_point("resume.started");
	return r;
}

/* ---- 4: no way back ---- */

bool sandbox_resume_is_spent(const struct sandbox *sb)
{
	return access(sb->spent_dir, F_OK) == 0 && access(sb->pause_dir, F_OK) < 0;
}

static int spend(struct sandbox *sb, struct err *err)
{
	int r;

	tree_remove(sb->spent_dir); /* what an earlier resume could not remove */
	if (rename(sb->pause_dir, sb->spent_dir) < 0)
		return err_set(err, -errno, "rename '%s': %s", sb->pause_dir, strerror(errno));
	r = dir_fsync(sb->dir);
	if (r < 0) {
		rename(sb->spent_dir, sb->pause_dir);
		return err_set(err, r, "sync '%s': %s", sb->dir, strerror(-r));
	}
	abort_point("resume.spent");
	return 0;
}

/* ---- 5 to 7: may be called again ---- */

static int go_on(struct sandbox *sb, const struct sandbox_row *row, struct err *err)
{
	const struct start_from from = { .row = row, .generation = row->generation + 1 };
	int r = start_hand_over(sb, &from, err);

	abort_point("resume.identity");
	if (r == 0)
		r = start_publish(&sb, 1, from.generation, NULL, err);
	if (r < 0)
		return r;
	abort_point("resume.published");
	tree_remove(sb->spent_dir);
	return 0;
}

static int end_if_it_must(struct sandbox *sb, struct err *err)
{
	if (!sandbox_vm_has_ended(sb, 0) && clock_boottime_ms() < sb->expires_boottime_ms)
		return 0;
	sandbox_set_status(sb, SANDBOX_DESTROYING);
	if (sandbox_finish(sb, SANDBOX_DESTROYED, "expired",
			   "its lifetime ended before its agent answered after a resume", err) < 0)
		sandbox_finish_later(sb, END_RETRY_MS);
	return err_code(err, -ESHUTDOWN, "sandbox_ended",
			"sandbox '%s' has ended while it was being resumed", sb->id);
}

static void finish_later(struct sandbox *sb, int64_t delay_ms);

static int finish(struct sandbox *sb, struct err *err)
{
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	int r = end_if_it_must(sb, err);

	if (r == 0)
		r = sandbox_load_row(sb, &row, err);
	if (r == 0)
		r = go_on(sb, &row, err);
	if (r < 0 && sandbox_status(sb) == SANDBOX_RESUMING)
		finish_later(sb, END_RETRY_MS);
	return r;
}

static void finish_job(void *arg)
{
	_cleanup_sandbox_ struct sandbox *sb = arg;
	struct err err = ERR_INIT;

	sb->finish_asked = false;
	pthread_mutex_lock(&sb->op_lock);
	if (sandbox_status(sb) == SANDBOX_RESUMING && !sandbox_end_wanted(sb) &&
	    finish(sb, &err) < 0)
		log_error("a resume cannot be finished yet", "sandbox=%s error=\"%s\"", sb->id,
			  err.message);
	pthread_mutex_unlock(&sb->op_lock);
}

/* One job a sandbox, however many requests have tried. */
static void finish_later(struct sandbox *sb, int64_t delay_ms)
{
	struct core *core = core_enter(sb->core, NULL);

	if (!core)
		return;
	if (!atomic_exchange(&sb->finish_asked, true))
		core_job(core, finish_job, sandbox_ref(sb), delay_ms);
	core_leave(core);
}

void sandbox_resume_recover(struct sandbox *sb)
{
	if (sandbox_resume_is_spent(sb))
		finish_later(sb, 0);
	else
		undo(sb);
}

/* ---- the operation ---- */

static void name_failure(struct err *err)
{
	const char *const kept[] = { "disk_full",
				     "limit_reached",
				     "network_unavailable",
				     "quota_reached",
				     "no_credit",
				     "spend_cap_reached",
				     "sandbox_ended",
				     "snapshot_damaged",
				     "snapshot_incomplete",
				     "snapshot_not_found",
				     "snapshot_version_mismatch" };

	failure_name(err, "resume_failed", kept, ARRAY_SIZE(kept));
}

static int resume_paused(struct sandbox *sb, struct err *err)
{
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	int64_t began = clock_boottime_ms();
	int r = sandbox_load_row(sb, &row, err);

	if (r == 0)
		r = write_resuming(sb, &row, err);
	if (r < 0)
		return r;
	sandbox_set_status(sb, SANDBOX_RESUMING);
	abort_point("resume.intent");
	r = start(sb, &row, err);
	if (r == 0)
		r = spend(sb, err);
	if (r < 0 && !sandbox_resume_is_spent(sb))
		undo(sb);
	else if (r == 0)
		r = go_on(sb, &row, err);
	if (r < 0 && sandbox_status(sb) == SANDBOX_RESUMING)
		finish_later(sb, END_RETRY_MS);
	if (r < 0)
		return r;
	log_info("sandbox resumed", "sandbox=%s account=%s generation=%llu duration_ms=%lld",
		 sb->id, sb->account_id, (unsigned long long)row.generation + 1,
		 (long long)(clock_boottime_ms() - began));
	return 0;
}

int sandbox_resume(struct sandbox *sb, struct err *err)
{
	const int64_t began_us = clock_boottime_us();
	struct err own = ERR_INIT;
	int r;

	if (sandbox_status(sb) == SANDBOX_RUNNING)
		return 0;
	if (sandbox_status(sb) == SANDBOX_RESUMING)
		r = finish(sb, &own);
	else
		r = resume_paused(sb, &own);
	metrics_step(sb->core, METRICS_RESUME, r, began_us);
	if (r == 0)
		return 0;
	own.num = r;
	name_failure(&own);
	log_warn("sandbox not resumed", "sandbox=%s account=%s code=%s error=\"%s\"", sb->id,
		 sb->account_id, err_code_of(&own), own.message);
	failure_hide_host(sb->core, &own, "resume the sandbox");
	if (err)
		*err = own;
	return r;
}

int core_resume(struct core *core, const struct principal *who, const char *id,
		struct sandbox_info *ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = sandbox_find_running(core, who, id, &sb, err);
	return r < 0 ? r : load_info(core, id, who->account_id, ret, err);
}
