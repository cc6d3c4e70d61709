/*
 * Resuming.
 *
 *   1 reserve    quota, and the row is resuming
 *   2 check      the saved state is whole, and for this host's VMM and template
 *   3 start      the VM on the template's memory, filled with the difference, over the disk
 *   4 identity   fresh entropy, clock, the next generation; then its commands go on
 *   5 publish    the row is running, with a new deadline
 *   6 forget     DIR/pause goes
 *
 * A failure before 5 ends the VM and leaves the sandbox paused, to be tried again. That is no
 * danger to its disk: before the commands are let go on (4) the guest has nothing to write, because
 * its file system was written out with its commands frozen.
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
#include "snapshot/manifest.h"

#define MINUTE_MS 60000LL

static int write_resuming(struct sandbox *sb, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(sb->core->db, &txn, err);

	if (r == 0)
		r = reserve_quota(sb->core, &txn, sb->account_id, 1, err);
	if (r == 0)
		r = sandboxes_move(&txn, sb->id, "paused", "resuming", err);
	return r < 0 ? r : db_commit(&txn, err);
}

static void write_paused_again(struct sandbox *sb)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct err err = ERR_INIT;
	int r = db_begin_write(sb->core->db, &txn, &err);

	if (r == 0)
		r = sandboxes_move(&txn, sb->id, "resuming", "paused", &err);
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
	r = start_sandbox(sb, &saved.from, err);
	abort_point("resume.started");
	if (r == 0)
		r = start_publish(sb, &saved.from, err);
	saved_start_clear(&saved);
	return r;
}

static void name_failure(struct err *err)
{
	const char *const kept[] = { "disk_full",
				     "quota_reached",
				     "sandbox_ended",
				     "snapshot_damaged",
				     "snapshot_incomplete",
				     "snapshot_not_found",
				     "snapshot_version_mismatch" };
	const char *code = err_code_of(err);

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++) {
		if (str_eq(code, kept[i]))
			return;
	}
	err->code = "resume_failed";
}

static int resume_paused(struct sandbox *sb, struct err *err)
{
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	int64_t began = clock_boottime_ms();
	int r = sandbox_load_row(sb, &row, err);

	if (r == 0)
		r = write_resuming(sb, err);
	if (r < 0)
		return r;
	sandbox_set_status(sb, SANDBOX_RESUMING);
	abort_point("resume.intent");
	r = start(sb, &row, err);
	if (r < 0) {
		undo(sb);
		return r;
	}
	abort_point("resume.done");
	tree_remove(sb->pause_dir);
	log_info("sandbox resumed", "sandbox=%s account=%s generation=%llu duration_ms=%lld",
		 sb->id, sb->account_id, (unsigned long long)row.generation + 1,
		 (long long)(clock_boottime_ms() - began));
	return 0;
}

int sandbox_resume(struct sandbox *sb, struct err *err)
{
	struct err own = ERR_INIT;
	int r;

	if (sandbox_status(sb) == SANDBOX_RUNNING)
		return 0;
	r = resume_paused(sb, &own);
	if (r == 0)
		return 0;
	own.num = r;
	name_failure(&own);
	log_warn("sandbox not resumed", "sandbox=%s account=%s code=%s error=\"%s\"", sb->id,
		 sb->account_id, err_code_of(&own), own.message);
	if (err)
		*err = own;
	return r;
}

int sandbox_resume_finish(struct sandbox *sb, struct err *err)
{
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	struct saved_start saved;
	int r = sandbox_load_row(sb, &row, err);

	if (r < 0)
		return r;
	if (!sb->has_vm) {
		undo(sb);
		return 0;
	}
	saved_start_init(&saved, sb, &row, row.generation + 1);
	r = start_hand_over(sb, &saved.from, err);
	if (r == 0)
		r = start_publish(sb, &saved.from, err);
	saved_start_clear(&saved);
	if (r < 0)
		undo(sb);
	else
		tree_remove(sb->pause_dir);
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
