/*
 * Forking: many children from one moment of a source.
 *
 *   1 reserve    one transaction: quota, credit and rows (creating) of all children
 *   2 take       the source's state into STATE/forks/<name>; it stands still meanwhile, if it runs.
 *                The memory of one that runs is not written down: it goes from a buffer into the
 *                children
 *   3 start      each child, in parallel: links to the saved files, a copy of the disk, its VM, its
 *                identity
 *   4 publish    one transaction: the rows of all children are running
 *   5 forget     STATE/forks/<name>, and each child's links
 *
 * All children or none: where one cannot be started, the others are taken back, and since their
 * rows become running in one transaction, a daemon that dies leaves either all as creating, which
 * its next start undoes, or all running, which it adopts. It also removes the directory.
 */
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/abort_point.h"
#include "core/internal.h"
#include "core/metrics_internal.h"
#include "snapshot/delta.h"
#include "snapshot/parallel.h"

#define MINUTE_MS     60000LL
#define START_AT_ONCE 8

DEFINE_CLEANUP(DIR *, closedirp, closedir);

struct fork_child {
	struct sandbox_row row;
	struct sandbox *sb;
	int result;
	struct err err;
};

struct fork {
	struct core *core;
	const struct principal *who;
	const struct core_fork_request *req;
	json_t *labels; /* of the children, with what the key's scope adds; NULL: the source's */
	struct sandbox *source;
	struct sandbox_row source_row;
	char *dir;
	struct delta_capture *capture; /* the source's memory, unless it is in dir */
	struct fork_child children[FORK_COUNT_MAX];
	size_t n;
	atomic_size_t next; /* child to start */
};

static void fork_clear(struct fork *f)
{
	for (size_t i = 0; i < ARRAY_SIZE(f->children); i++) {
		sandbox_row_clear(&f->children[i].row);
		sandbox_unref(f->children[i].sb);
	}
	sandbox_row_clear(&f->source_row);
	json_decref(f->labels);
	sandbox_unref(f->source);
	delta_capture_free(f->capture);
	if (f->dir)
		tree_remove(f->dir);
	free(f->dir);
}

void core_fork_result_clear(struct core_fork_result *result)
{
	for (size_t i = 0; i < result->n; i++)
		sandbox_info_clear(&result->children[i]);
	result->n = 0;
}

/* ---- checking ---- */

static int check_request(const struct core *core, const struct core_fork_request *req,
			 struct err *err)
{
	_cleanup_free_ char *longest = NULL;
	int r = 0;

	if (req->count < 1 || req->count > FORK_COUNT_MAX)
		return err_set(err, -EINVAL, "count %u is not from 1 to %d", req->count,
			       FORK_COUNT_MAX);
	if (req->timeout_minutes > core->limits.timeout_minutes_max)
		return err_set(err, -EINVAL, "timeout_minutes %u is not from 1 to %lld",
			       req->timeout_minutes, (long long)core->limits.timeout_minutes_max);
	if (req->name) {
		longest = xasprintf("%s-%u", req->name, req->count);
		r = check_name(longest, err);
	}
	if (r == 0 && req->labels)
		r = check_labels(&core->limits, req->labels, err);
	if (r == 0)
		r = reserve_check_isolation(core, err);
	return r < 0 ? r : reserve_check_disk(core, err);
}

/* ---- 1: reserving ---- */

static int64_t asked_lifetime_ms(const struct fork *f)
{
	int64_t min_ms = f->core->limits.resume_minutes_min * MINUTE_MS;
	int64_t left_ms;

	if (f->req->timeout_minutes)
		return f->req->timeout_minutes * MINUTE_MS;
	if (sandbox_status(f->source) != SANDBOX_PAUSED)
		return f->source->expires_boottime_ms - clock_boottime_ms();
	left_ms = f->source_row.remaining_ms;
	return left_ms > min_ms ? left_ms : min_ms;
}

/* What was not asked for is within what the key may give. */
static int64_t lifetime_ms(const struct fork *f)
{
	const int64_t ms = asked_lifetime_ms(f);
	const int64_t max_ms = key_scope_lifetime_minutes_max(f->who->scope) * MINUTE_MS;

	return max_ms > 0 && ms > max_ms ? max_ms : ms;
}

static void fill_child(const struct fork *f, size_t i, struct sandbox_row *row)
{
	const struct sandbox_row *from = &f->source_row;
	_cleanup_buf_ struct buf labels = BUF_INIT;

	reserve_fill(f->core, f->who, row);
	row->generation = from->generation + 1; /* its processes see that it is another run */
	row->expires_unix_ms = row->created_unix_ms + lifetime_ms(f);
	if (f->req->name)
		snprintf(row->name, sizeof(row->name), "%.60s-%zu", f->req->name, i + 1);
	str_copy(row->size, sizeof(row->size), from->size);
	row->milli_vcpus = from->milli_vcpus;
	row->memory_mb = from->memory_mb;
	row->disk_gb = from->disk_gb;
	str_copy(row->image, sizeof(row->image), from->image);
	str_copy(row->image_digest, sizeof(row->image_digest), from->image_digest);
	str_copy(row->template_key, sizeof(row->template_key), from->template_key);
	str_copy(row->guest_address, sizeof(row->guest_address), from->guest_address);
	str_copy(row->parent_id, sizeof(row->parent_id), from->id);
	row->pause_on_timeout = from->pause_on_timeout;
	row->idle_pause_minutes = from->idle_pause_minutes;
	row->image_config = xstrdup(from->image_config);
	row->egress = xstrdup(from->egress); /* never a looser one */
	if (f->labels)
		json_write(f->labels, &labels);
	row->labels = labels.len ? buf_take(&labels) : xstrdup(from->labels);
}

/* The source's size is known only now. */
static int authorize(struct fork *f, struct err *err)
{
	int r = authorize_making(f->who, err);

	if (r == 0)
		r = authorize_size(f->who, f->source_row.size, err);
	if (r == 0 && f->req->timeout_minutes)
		r = authorize_lifetime(f->who, f->req->timeout_minutes, err);
	if (r < 0 || !f->req->labels)
		return r;
	f->labels = authorize_add_labels(f->who, f->req->labels);
	r = authorize_labels(f->who, f->labels, err);
	return r < 0 ? r : check_labels(&f->core->limits, f->labels, err);
}

static int make_objects(struct fork *f, struct err *err)
{
	int r = 0;

	while (f->n < f->req->count && f->n < ARRAY_SIZE(f->children)) {
		struct fork_child *child = &f->children[f->n];

		fill_child(f, f->n, &child->row);
		r = reserve_object(f->core, &child->row, &child->sb, err);
		if (r < 0)
			break;
		f->n++;
	}
	return r;
}

/* The objects are in the table before their rows can be found. */
static int write_rows(struct fork *f, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(f->core->db, &txn, err);

	if (r == 0)
		r = reserve_quota(f->core, &txn, f->who->account_id, f->req->count, err);
	for (size_t i = 0; r == 0 && i < f->n; i++) {
		r = reserve_row(f->core, &txn, &f->children[i].row, err);
		if (r == 0)
			r = networks_inherit(&txn, &f->children[i].row, f->source->id, err);
	}
	if (r < 0)
		return r;
	for (size_t i = 0; i < f->n; i++)
		reserve_publish(f->children[i].sb, &f->children[i].row);
	return db_commit(&txn, err);
}

static int reserve(struct fork *f, struct err *err)
{
	int r = make_objects(f, err);

	if (r == 0)
		r = write_rows(f, err);
	if (r == 0)
		return 0;
	while (f->n > 0)
		reserve_withdraw(f->children[--f->n].sb);
	return r;
}

/* ---- 2: taking ---- */

static int make_dir(struct fork *f, struct err *err)
{
	char random[17];
	int r;

	rand_hex(random, sizeof(random) - 1);
	f->dir = xasprintf("%s/forks/%s", f->core->state_dir, random);
	r = dir_make(f->dir, 0700);
	return r < 0 ? err_set(err, r, "make the directory '%s': %s", f->dir, strerror(-r)) : 0;
}

static int reserve_and_take(struct fork *f, int64_t *ret_held_ms, struct err *err)
{
	enum sandbox_status status = sandbox_status(f->source);
	int r;

	if ((status != SANDBOX_RUNNING && status != SANDBOX_PAUSED) ||
	    sandbox_end_wanted(f->source))
		return err_code(err, -EBUSY, "sandbox_not_running",
				"sandbox '%s' is neither running nor paused but %s", f->source->id,
				sandbox_status_name(status));
	r = sandbox_load_row(f->source, &f->source_row, err);
	if (r == 0)
		r = authorize(f, err);
	if (r == 0)
		r = reserve(f, err);
	abort_point("fork.reserved");
	if (r == 0)
		r = make_dir(f, err);
	if (r == 0)
		r = saved_take(f->source, &f->source_row, f->dir, false, &f->capture, ret_held_ms,
			       err);
	abort_point("fork.taken");
	return r;
}

/* ---- 3: starting ---- */

static int start_child(struct fork *f, struct fork_child *child, struct err *err)
{
	_cleanup_free_ char *disk = xasprintf("%s/" SAVED_DISK, f->dir);
	struct sandbox *sb = child->sb;
	struct saved_start saved;
	int r = dir_make(sb->pause_dir, 0700);

	if (r < 0)
		return err_set(err, r, "make the directory '%s': %s", sb->pause_dir, strerror(-r));
	r = saved_link(f->dir, sb->pause_dir, !f->capture, err);
	if (r == 0)
		r = start_copy_disk(disk, sb->disk_path, err);
	if (r == 0 && sandbox_end_wanted(sb))
		r = err_code(err, -ECANCELED, "sandbox_ended",
			     "sandbox '%s' was destroyed while it was being made", sb->id);
	if (r < 0)
		return r;
	saved_start_init(&saved, sb, &child->row, child->row.generation);
	saved.from.capture = f->capture;
	r = start_sandbox(sb, &saved.from, err);
	saved_start_clear(&saved);
	abort_point("fork.started");
	return r;
}

static void start_some(void *arg)
{
	struct fork *f = arg;

	for (;;) {
		size_t i = f->next++;
		struct fork_child *child;

		if (i >= f->n)
			return;
		child = &f->children[i];
		pthread_mutex_lock(&child->sb->op_lock);
		child->result = start_child(f, child, &child->err);
		pthread_mutex_unlock(&child->sb->op_lock);
	}
}

static int start_children(struct fork *f, struct err *err)
{
	parallel_run(f->n < START_AT_ONCE ? (unsigned int)f->n : START_AT_ONCE, start_some, f);
	delta_capture_free(STEAL(f->capture));
	for (size_t i = 0; i < f->n; i++) {
		if (f->children[i].result < 0) {
			if (err)
				*err = f->children[i].err;
			return err_wrap(err, f->children[i].result, "child %zu of %zu", i + 1,
					f->n);
		}
	}
	return 0;
}

/* ---- 4: publishing ---- */

static void lock_children(struct fork *f)
{
	for (size_t i = 0; i < f->n; i++)
		pthread_mutex_lock(&f->children[i].sb->op_lock);
}

static void unlock_children(struct fork *f)
{
	for (size_t i = 0; i < f->n; i++)
		pthread_mutex_unlock(&f->children[i].sb->op_lock);
}

static int publish_children(struct fork *f, struct err *err)
{
	struct sandbox *all[FORK_COUNT_MAX];
	int r;

	for (size_t i = 0; i < f->n; i++)
		all[i] = f->children[i].sb;
	lock_children(f);
	r = start_publish(all, f->n, f->children[0].row.generation, f->source, err);
	abort_point("fork.published");
	for (size_t i = 0; r == 0 && i < f->n; i++)
		tree_remove(all[i]->pause_dir);
	unlock_children(f);
	return r;
}

static void take_back(struct fork *f, const struct err *why)
{
	_cleanup_free_ char *text =
		xasprintf("the fork that it was made by failed: %.200s", why->message);

	for (size_t i = 0; i < f->n; i++) {
		struct sandbox *sb = f->children[i].sb;
		struct err err = ERR_INIT;
		int r;

		pthread_mutex_lock(&sb->op_lock);
		r = sandbox_finish(sb, SANDBOX_FAILED, "start_failed", text, &err);
		pthread_mutex_unlock(&sb->op_lock);
		if (r < 0)
			sandbox_finish_later(sb, END_RETRY_MS);
	}
}

/* ---- the operation ---- */

static void name_failure(struct err *err)
{
	const char *const kept[] = { "scope_denied",
				     "disk_full",
				     "quota_reached",
				     "no_credit",
				     "spend_cap_reached",
				     "limit_reached",
				     "network_unavailable",
				     "sandbox_not_running",
				     "isolation_unavailable",
				     "invalid_argument",
				     "snapshot_damaged",
				     "snapshot_incomplete",
				     "snapshot_version_mismatch",
				     "agent_gone",
				     "agent_timeout" };

	failure_name(err, "start_failed", kept, ARRAY_SIZE(kept));
}

static int fork_source(struct fork *f, struct core_fork_result *result, struct err *err)
{
	int r;

	pthread_mutex_lock(&f->source->op_lock);
	r = reserve_and_take(f, &result->source_held_ms, err);
	pthread_mutex_unlock(&f->source->op_lock);
	if (r == 0)
		r = start_children(f, err);
	if (r == 0)
		r = publish_children(f, err);
	if (r < 0) {
		err->num = r;
		name_failure(err);
		log_warn("sandbox not forked", "sandbox=%s account=%s code=%s error=\"%s\"",
			 f->source->id, f->who->account_id, err_code_of(err), err->message);
		failure_hide_host(f->core, err, "fork the sandbox");
		take_back(f, err);
		return r;
	}
	for (result->n = 0; result->n < f->n; result->n++) {
		r = load_info(f->core, f->children[result->n].sb->id, f->who->account_id,
			      &result->children[result->n], err);
		if (r < 0)
			return r;
	}
	return 0;
}

int core_fork(struct core *core, const struct principal *who, const char *id,
	      const struct core_fork_request *req, struct core_fork_result *ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	_cleanup_(fork_clear) struct fork f = { .core = core, .who = who, .req = req };
	struct core_fork_result result = { 0 };
	int64_t began = clock_boottime_ms();
	struct err own = ERR_INIT;
	int r;

	if (!work)
		return -ESHUTDOWN;
	r = check_request(core, req, err);
	if (r < 0)
		return r;
	f.source = table_find(core, id, who->account_id);
	if (!f.source)
		return sandbox_find_running(core, who, id, &f.source, err);
	sandbox_touch(f.source);
	r = fork_source(&f, &result, &own);
	metrics_step(core, METRICS_FORK, r, began * 1000);
	if (r < 0) {
		core_fork_result_clear(&result);
		if (err)
			*err = own;
		return r;
	}
	log_info("sandbox forked",
		 "sandbox=%s account=%s children=%zu held_ms=%lld duration_ms=%lld", id,
		 who->account_id, result.n, (long long)result.source_held_ms,
		 (long long)(clock_boottime_ms() - began));
	*ret = result;
	return 0;
}

void forks_recover(struct core *core)
{
	_cleanup_free_ char *path = xasprintf("%s/forks", core->state_dir);
	_cleanup_(closedirp) DIR *dir = opendir(path);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		_cleanup_free_ char *one = xasprintf("%s/%s", path, entry->d_name);

		if (strlen(entry->d_name) == 16 && strspn(entry->d_name, "0123456789abcdef") == 16)
			tree_remove(one);
	}
}
