/*
 * Pausing.
 *
 *   1 intent     the row is pausing, with the lifetime that is left
 *   2 hold       commands frozen, file system written out, CPUs stopped (saved.c)
 *   3 save       devices and memory into a draft of DIR/pause
 *   4 seal       the draft becomes DIR/pause: from here on the state is kept, whatever happens
 *   5 end        the VM, its warden, its cgroups; the channel before, without its views
 *   6 done       the row is paused, the run is charged to its end; its slot is given back
 *
 * A failure up to 4 takes it all back: the sandbox goes on, unharmed. After 4 there is no way back
 * but a resume; what fails then is tried again. The disk stays where it is: it is the sandbox's
 * own, and nobody writes to it until it is resumed.
 *
 * One that is paused because its lifetime ends must not run on while pausing it fails. Until its
 * commands are held (2) it may run for PAUSE_GRACE_MS after its deadline and no longer, which its
 * warden sees to; where they cannot be held by then, it is destroyed (idle.c). Once held it does
 * not run again: what fails is tried from 3 on, for ten minutes, while it stands still.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
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
#include "snapshot/seal.h"

#define STILL_MAX_MS (10 * 60 * 1000) /* one whose lifetime is over is held that long */
#define PAUSE_RESERVE_MB                                                                           \
	16 /* what creating keeps free is there for this, but for the database's part */

int sandbox_load_row(struct sandbox *sb, struct sandbox_row *ret, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_read(sb->core->db, &txn, err);

	return r < 0 ? r : sandboxes_get(&txn, sb->id, NULL, ret, err);
}

/* ---- 1: the intent ---- */

static int check_paused_quota(struct core *core, struct db_txn *txn, const char *account_id,
			      struct err *err)
{
	int64_t limit = core->limits.paused_per_account;
	int64_t n;
	int r = sandboxes_count_paused(txn, account_id, &n, err);

	if (r < 0 || n < limit)
		return r;
	err_code(err, -EDQUOT, "quota_reached", "%lld sandboxes are paused, the limit is %lld",
		 (long long)n, (long long)limit);
	err_hint(err, "destroy a paused one that is not needed any more, then try again");
	return -EDQUOT;
}

static int write_pausing(struct sandbox *sb, int64_t remaining_ms, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(sb->core->db, &txn, err);

	/* What is paused for want of credit is not lost for want of quota. */
	if (r == 0 && !sb->unpaid)
		r = check_paused_quota(sb->core, &txn, sb->account_id, err);
	if (r == 0)
		r = sandboxes_set_pausing(&txn, sb->id, remaining_ms, err);
	if (r == 0)
		r = event_pausing(&txn, sb, remaining_ms, err);
	return r < 0 ? r : db_commit(&txn, err);
}

/* ---- 2 to 4 ---- */

static int save(struct sandbox *sb, const struct sandbox_row *row, struct err *err)
{
	_cleanup_(snapshot_draft_clear) struct snapshot_draft draft = SNAPSHOT_DRAFT_INIT;
	struct manifest manifest;
	char id[65];
	int r;

	saved_pause_id(row, id);
	r = saved_describe(sb->core, row, id, "pause", &manifest, err);
	if (r == 0)
		r = snapshot_draft(sb->pause_dir, &draft, err);
	if (r == 0)
		r = sandbox_hold(sb, err);
	if (r == 0)
		r = saved_write(sb, row, draft.path, true, PAUSE_RESERVE_MB << 20, err);
	if (r == 0)
		r = snapshot_draft_add(&draft, SAVED_DEVICES, SNAPSHOT_HASH_CONTENT, &manifest,
				       err);
	if (r == 0)
		r = snapshot_draft_add(&draft, SAVED_MEMORY, SNAPSHOT_HASH_DELTA, &manifest, err);
	if (r == 0 && sandbox_end_wanted(sb))
		r = err_code(err, -ECANCELED, "sandbox_ended", "sandbox '%s' is being destroyed",
			     sb->id);
	if (r == 0)
		r = snapshot_seal(&draft, &manifest, err);
	abort_point("pause.sealed");
	return r;
}

/* ---- 5 and 6 ---- */

/* Of a pause that a daemon's death cut short the end came late: it stood still since it was sealed.
 */
static void end_at_seal(const struct sandbox *sb, struct run_end *end)
{
	_cleanup_free_ char *path = xasprintf("%s/" MANIFEST_NAME, sb->pause_dir);
	int64_t sealed, ago_ms;
	struct stat st;

	if (stat(path, &st) < 0)
		return;
	ago_ms = clock_unix_ms() - st.st_mtim.tv_sec * 1000LL - st.st_mtim.tv_nsec / 1000000;
	sealed = clock_boottime_ms() - ago_ms;
	if (!end->boottime_ms || sealed < end->boottime_ms)
		end->boottime_ms = sealed;
}

static struct run_end end_of_run(const struct sandbox *sb)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", sb->run_dir, VMM_RECORD_NAME);
	struct record record = { 0 };
	struct run_end end;

	record_read(path, &record, NULL);
	end = meter_end_of(sb, &record);
	if (!sb->core->recovered)
		end_at_seal(sb, &end);
	end.unix_ms = clock_unix_ms();
	return end;
}

static int write_paused(struct sandbox *sb, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	const struct run_end end = end_of_run(sb);
	int r = db_begin_write(sb->core->db, &txn, err);

	if (r == 0)
		r = meter_end(&txn, sb, &end, err);
	if (r == 0)
		r = sandboxes_set_paused(&txn, sb->id, clock_unix_ms(), err);
	if (r == 0)
		r = event_paused(&txn, sb, err);
	if (r == 0)
		r = sandbox_net_settle(sb, &txn, err);
	return r < 0 ? r : db_commit(&txn, err);
}

int sandbox_pause_finish(struct sandbox *sb, struct err *err)
{
	bool told;
	int r;

	sandbox_detach(sb);
	r = sandbox_end_vm(sb, "paused", err);
	abort_point("pause.ended");
	if (r == 0)
		r = write_paused(sb, err);
	told = r == 0;
	if (r < 0 && r != -ESTALE)
		return r;
	abort_point("pause.done");
	sb->held = sb->patient = false;
	sandbox_net_release(sb);
	unlink(sb->held_path);
	if (told) /* else its end is wanted by now, and comes: it is charged by its record */
		tree_remove(sb->run_dir);
	sandbox_set_status(sb, SANDBOX_PAUSED);
	return 0;
}

static void finish_job(void *arg)
{
	_cleanup_sandbox_ struct sandbox *sb = arg;
	struct err err = ERR_INIT;
	struct core *core;
	int r = 0;

	pthread_mutex_lock(&sb->op_lock);
	if (sandbox_status(sb) == SANDBOX_PAUSING && !sandbox_end_wanted(sb))
		r = sandbox_pause_finish(sb, &err);
	pthread_mutex_unlock(&sb->op_lock);
	core = r < 0 ? core_enter(sb->core, NULL) : NULL;
	if (!core)
		return;
	log_error("a pause cannot be finished yet", "sandbox=%s error=\"%s\"", sb->id, err.message);
	core_job(core, finish_job, sandbox_ref(sb), END_RETRY_MS);
	core_leave(core);
}

/* ---- back ---- */

static void write_running_again(struct sandbox *sb)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct err err = ERR_INIT;
	int r = db_begin_write(sb->core->db, &txn, &err);

	if (r == 0)
		r = sandboxes_set_not_pausing(&txn, sb->id, &err);
	if (r == 0)
		r = event_not_pausing(&txn, sb, &err);
	if (r == 0)
		r = db_commit(&txn, &err);
	if (r < 0 && r != -ESTALE)
		log_error("a pause that failed cannot be taken back in the database",
			  "sandbox=%s error=\"%s\"", sb->id, err.message);
}

static void try_again_later(struct sandbox *sb);

void sandbox_pause_undo(struct sandbox *sb)
{
	tree_remove(sb->pause_dir);
	sandbox_let_go(sb);
	if (sb->held && sb->has_vm && !sandbox_vm_has_ended(sb, 0)) {
		try_again_later(sb); /* it is overdue, and goes on standing still */
		return;
	}
	sandbox_end_patience(sb);
	write_running_again(sb);
	sandbox_set_status(sb, SANDBOX_RUNNING);
	/* Its end may have come meanwhile, and was passed over because it was being paused. */
	if (sandbox_vm_has_ended(sb, 0))
		sandbox_finish_later(sb, 0);
}

void sandbox_pause_give_up(struct sandbox *sb, const char *why)
{
	_cleanup_free_ char *text =
		xasprintf("its lifetime ended and it could not be paused: %.180s", why);
	struct err err = ERR_INIT;

	sandbox_set_status(sb, SANDBOX_DESTROYING);
	if (sandbox_finish(sb, SANDBOX_DESTROYED, "expired", text, &err) < 0)
		sandbox_finish_later(sb, END_RETRY_MS);
}

static int save_and_finish(struct sandbox *sb, struct err *err)
{
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	int r = sandbox_load_row(sb, &row, err);

	if (r == 0 && access(sb->pause_dir, F_OK) < 0)
		r = save(sb, &row, err);
	return r < 0 ? r : sandbox_pause_finish(sb, err);
}

static void again_job(void *arg)
{
	_cleanup_sandbox_ struct sandbox *sb = arg;
	struct err err = ERR_INIT;

	pthread_mutex_lock(&sb->op_lock);
	if (sandbox_status(sb) == SANDBOX_PAUSING && !sandbox_end_wanted(sb) &&
	    save_and_finish(sb, &err) < 0) {
		log_error("a sandbox whose lifetime is over cannot be paused yet",
			  "sandbox=%s error=\"%s\"", sb->id, err.message);
		if (sandbox_vm_has_ended(sb, 0))
			sandbox_pause_undo(sb);
		else if (clock_boottime_ms() - sb->expires_boottime_ms > STILL_MAX_MS)
			sandbox_pause_give_up(sb, err.message);
		else
			try_again_later(sb);
	}
	pthread_mutex_unlock(&sb->op_lock);
}

static void try_again_later(struct sandbox *sb)
{
	struct core *core = core_enter(sb->core, NULL);

	if (!core)
		return;
	core_job(core, again_job, sandbox_ref(sb), END_RETRY_MS);
	core_leave(core);
}

static void name_failure(struct err *err)
{
	const char *const kept[] = { "disk_full",	   "quota_reached", "sandbox_ended",
				     "agent_gone",	   "agent_timeout", "agent_unresponsive",
				     "snapshot_incomplete" };

	failure_name(err, "pause_failed", kept, ARRAY_SIZE(kept));
}

/* ---- the operation ---- */

static int pause_running(struct sandbox *sb, const struct sandbox_row *row, struct err *err)
{
	int64_t began = clock_boottime_ms();
	int64_t remaining_ms = sb->expires_boottime_ms - began;
	int r;

	if (remaining_ms < 0)
		remaining_ms = 0;
	r = write_pausing(sb, remaining_ms, err);
	if (r < 0)
		return r;
	sandbox_set_status(sb, SANDBOX_PAUSING);
	abort_point("pause.intent");
	tree_remove(sb->pause_dir); /* what an earlier resume could not remove */
	r = save(sb, row, err);
	if (r < 0) {
		sandbox_pause_undo(sb);
		return r;
	}
	r = sandbox_pause_finish(sb, err);
	if (r < 0) {
		core_job(sb->core, finish_job, sandbox_ref(sb), END_RETRY_MS);
		return r;
	}
	log_info("sandbox paused", "sandbox=%s account=%s duration_ms=%lld", sb->id, sb->account_id,
		 (long long)(clock_boottime_ms() - began));
	return 0;
}

int sandbox_pause(struct sandbox *sb, struct err *err)
{
	_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };
	const int64_t began_us = clock_boottime_us();
	struct err own = ERR_INIT;
	int r = sandbox_load_row(sb, &row, &own);

	if (r == 0)
		r = pause_running(sb, &row, &own);
	metrics_step(sb->core, METRICS_PAUSE, r, began_us);
	if (r == 0)
		return 0;
	own.num = r;
	name_failure(&own);
	log_warn("sandbox not paused", "sandbox=%s account=%s code=%s error=\"%s\"", sb->id,
		 sb->account_id, err_code_of(&own), own.message);
	failure_hide_host(sb->core, &own, "pause the sandbox");
	if (err)
		*err = own;
	return r;
}

static int pause_locked(struct sandbox *sb, struct err *err)
{
	enum sandbox_status status = sandbox_status(sb);

	if (status == SANDBOX_PAUSED)
		return 0;
	if (status == SANDBOX_RUNNING && !sandbox_end_wanted(sb))
		return sandbox_pause(sb, err);
	return err_code(err, -EBUSY, "sandbox_not_running", "sandbox '%s' is not running but %s",
			sb->id, sandbox_status_name(status));
}

int core_pause(struct core *core, const struct principal *who, const char *id,
	       struct sandbox_info *ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	int r;

	if (!work)
		return -ESHUTDOWN;
	sb = table_find(core, id, who->account_id);
	if (!sb) /* never was, or has ended: the same words as for everything else */
		return sandbox_find_running(core, who, id, &sb, err);
	pthread_mutex_lock(&sb->op_lock);
	r = pause_locked(sb, err);
	pthread_mutex_unlock(&sb->op_lock);
	return r < 0 ? r : load_info(core, id, who->account_id, ret, err);
}
