/* Sandbox objects: references, the table, status. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "core/internal.h"
#include "core/stats.h"

static void cond_init_monotonic(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

struct sandbox *sandbox_new(struct core *core, const char *id, const char *account_id)
{
	struct sandbox *sb = xcalloc(1, sizeof(*sb));

	sb->core = core;
	atomic_init(&sb->refs, 1);
	str_copy(sb->id, sizeof(sb->id), id);
	str_copy(sb->account_id, sizeof(sb->account_id), account_id);
	sb->dir = xasprintf("%s/sandboxes/%s", core->state_dir, id);
	sb->run_dir = xasprintf("%s/run", sb->dir);
	sb->disk_path = xasprintf("%s/disk", sb->dir);
	sb->agent_path = xasprintf("%s/%s", sb->run_dir, VMM_AGENT_SOCKET_NAME);
	sb->pause_dir = xasprintf("%s/pause", sb->dir);
	sb->spent_dir = xasprintf("%s/spent", sb->dir);
	sb->held_path = xasprintf("%s/held", sb->dir);
	atomic_init(&sb->used_boottime_ms, clock_boottime_ms());
	sb->vm = VMM_VM_INIT;
	sandbox_net_init(&sb->net, (size_t)core->limits.egress_denials_kept);
	pthread_mutex_init(&sb->op_lock, NULL);
	pthread_mutex_init(&sb->state_lock, NULL);
	cond_init_monotonic(&sb->state_changed);
	sb->status = SANDBOX_CREATING;
	return sb;
}

struct sandbox *sandbox_ref(struct sandbox *sb)
{
	atomic_fetch_add(&sb->refs, 1);
	return sb;
}

void sandbox_unref(struct sandbox *sb)
{
	if (!sb || atomic_fetch_sub(&sb->refs, 1) != 1)
		return;
	pthread_cond_destroy(&sb->state_changed);
	pthread_mutex_destroy(&sb->state_lock);
	pthread_mutex_destroy(&sb->op_lock);
	free(sb->dir);
	free(sb->run_dir);
	free(sb->disk_path);
	free(sb->agent_path);
	free(sb->pause_dir);
	free(sb->spent_dir);
	free(sb->held_path);
	sandbox_net_clear(&sb->net);
	exec_defaults_clear(&sb->defaults);
	stats_free(sb->stats);
	free(sb);
}

/* ---- the table ---- */

static size_t bucket_of(const char *id)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (; *id; id++)
		hash = (hash ^ (unsigned char)*id) * 16777619u;
	return hash % TABLE_BUCKETS;
}

void table_add(struct sandbox *sb)
{
	struct core *core = sb->core;
	size_t bucket = bucket_of(sb->id);

	sandbox_ref(sb);
	pthread_mutex_lock(&core->table_lock);
	sb->table_next = core->table[bucket];
	core->table[bucket] = sb;
	pthread_mutex_unlock(&core->table_lock);
}

void table_remove(struct sandbox *sb)
{
	struct core *core = sb->core;
	struct sandbox **p;
	bool found = false;

	pthread_mutex_lock(&core->table_lock);
	for (p = &core->table[bucket_of(sb->id)]; *p; p = &(*p)->table_next) {
		if (*p == sb) {
			*p = sb->table_next;
			found = true;
			break;
		}
	}
	pthread_mutex_unlock(&core->table_lock);
	if (found)
		sandbox_unref(sb);
}

struct sandbox *table_find(struct core *core, const char *id, const char *account_id)
{
	struct sandbox *sb;

	pthread_mutex_lock(&core->table_lock);
	for (sb = core->table[bucket_of(id)]; sb; sb = sb->table_next) {
		if (str_eq(sb->id, id) && (!account_id || str_eq(sb->account_id, account_id))) {
			sandbox_ref(sb);
			break;
		}
	}
	pthread_mutex_unlock(&core->table_lock);
	return sb;
}

struct sandbox **table_all(struct core *core, size_t *ret_n)
{
	struct sandbox **all = NULL;
	size_t n = 0;

	pthread_mutex_lock(&core->table_lock);
	for (size_t i = 0; i < TABLE_BUCKETS; i++) {
		for (struct sandbox *sb = core->table[i]; sb; sb = sb->table_next) {
			all = xrealloc(all, (n + 1) * sizeof(struct sandbox *));
			all[n++] = sandbox_ref(sb);
		}
	}
	pthread_mutex_unlock(&core->table_lock);
	*ret_n = n;
	return all;
}

/* ---- status ---- */

enum sandbox_status sandbox_status(struct sandbox *sb)
{
	enum sandbox_status status;

	pthread_mutex_lock(&sb->state_lock);
	status = sb->status;
	pthread_mutex_unlock(&sb->state_lock);
	return status;
}

int sandbox_set_status(struct sandbox *sb, enum sandbox_status to)
{
	enum sandbox_status from;
	bool allowed;

	pthread_mutex_lock(&sb->state_lock);
	from = sb->status;
	allowed = sandbox_move_allowed(from, to);
	if (allowed) {
		sb->status = to;
		pthread_cond_broadcast(&sb->state_changed);
	}
	pthread_mutex_unlock(&sb->state_lock);
	if (allowed)
		return 0;
	log_error("illegal move of a sandbox refused", "sandbox=%s from=%s to=%s", sb->id,
		  sandbox_status_name(from), sandbox_status_name(to));
	return -EPROTO;
}

bool sandbox_end_wanted(struct sandbox *sb)
{
	bool wanted;

	pthread_mutex_lock(&sb->state_lock);
	wanted = sb->end_wanted;
	pthread_mutex_unlock(&sb->state_lock);
	return wanted;
}

void sandbox_want_end(struct sandbox *sb)
{
	pthread_mutex_lock(&sb->state_lock);
	sb->end_wanted = true;
	pthread_cond_broadcast(&sb->state_changed);
	pthread_mutex_unlock(&sb->state_lock);
}

typedef bool (*status_predicate)(enum sandbox_status status);

static bool is_created(enum sandbox_status status)
{
	return status != SANDBOX_CREATING;
}

static bool wait_status(struct sandbox *sb, status_predicate reached, int64_t deadline_boottime_ms)
{
	struct timespec until;
	bool done;
	int remaining_ms = clock_remaining_ms(deadline_boottime_ms);

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += remaining_ms / 1000;
	until.tv_nsec += (long)(remaining_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	pthread_mutex_lock(&sb->state_lock);
	while (!reached(sb->status)) {
		if (pthread_cond_timedwait(&sb->state_changed, &sb->state_lock, &until) ==
		    ETIMEDOUT)
			break;
	}
	done = reached(sb->status);
	pthread_mutex_unlock(&sb->state_lock);
	return done;
}

bool sandbox_wait_created(struct sandbox *sb, int64_t deadline_boottime_ms)
{
	return wait_status(sb, is_created, deadline_boottime_ms);
}

bool sandbox_wait_ended(struct sandbox *sb, int64_t deadline_boottime_ms)
{
	return wait_status(sb, sandbox_status_ended, deadline_boottime_ms);
}

static int not_running(const char *id, const struct sandbox_info *info, struct err *err)
{
	if (sandbox_status_ended(info->status)) {
		err_code(err, -ESHUTDOWN, "sandbox_ended", "sandbox '%s' has ended (%s): %s", id,
			 info->reason, info->reason_text);
		err_hint(err, "create a new sandbox");
		return -ESHUTDOWN;
	}
	err_code(err, -EBUSY, "sandbox_not_running", "sandbox '%s' is not running but %s", id,
		 sandbox_status_name(info->status));
	if (info->status == SANDBOX_CREATING)
		err_hint(err, "wait until its status is running");
	else if (info->status == SANDBOX_PAUSING)
		err_hint(err, "wait until its status is paused; the same request resumes it then");
	return -EBUSY;
}

void sandbox_touch(struct sandbox *sb)
{
	sb->used_boottime_ms = clock_boottime_ms();
}

/* Of many who ask, one resumes, and the others find it running when it is their turn. */
static int make_running(struct sandbox *sb, struct err *err)
{
	int r = 0;

	pthread_mutex_lock(&sb->op_lock);
	if ((sandbox_status(sb) == SANDBOX_PAUSED || sandbox_status(sb) == SANDBOX_RESUMING) &&
	    !sandbox_end_wanted(sb))
		r = sandbox_resume(sb, err);
	pthread_mutex_unlock(&sb->op_lock);
	return sandbox_end_wanted(sb) ? 0 : r;
}

static bool is_pausable(enum sandbox_status status)
{
	return status == SANDBOX_PAUSING || status == SANDBOX_PAUSED || status == SANDBOX_RESUMING;
}

int sandbox_find_running(struct core *core, const struct principal *who, const char *id,
			 struct sandbox **ret, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(core, id, who->account_id);
	struct sandbox_info info = { 0 };
	int r;

	if (sb)
		sandbox_touch(sb);
	if (sb && is_pausable(sandbox_status(sb))) {
		r = make_running(sb, err);
		if (r < 0)
			return r;
	}
	if (sb && sandbox_status(sb) == SANDBOX_RUNNING && !sandbox_end_wanted(sb)) {
		*ret = STEAL(sb);
		return 0;
	}
	r = load_info(core, id, who->account_id, &info, err);
	if (r < 0)
		return r;
	/* The row moves before the object does. */
	if (info.status == SANDBOX_RUNNING)
		info.status = sb ? SANDBOX_DESTROYING : SANDBOX_CREATING;
	r = not_running(id, &info, err);
	sandbox_info_clear(&info);
	return r;
}
