/*
 * The core as a whole: opening and closing, the work that closing waits for, and the housekeeping
 * that a timer starts.
 */
#include "core/core.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/audit_internal.h"
#include "core/internal.h"
#include "core/metrics_internal.h"
#include "core/stats.h"

#define JOB_RETRY_MS	      100
#define HOUSEKEEPING_FIRST_MS (60 * 1000)
#define HOUSEKEEPING_MS	      (60 * 60 * 1000)
#define DAY_MS		      (24 * 60 * 60 * 1000LL)

/* ---- work under way ---- */

struct core *core_enter(struct core *core, struct err *err)
{
	bool stopping;

	pthread_mutex_lock(&core->work_lock);
	stopping = core->stopping;
	if (!stopping)
		core->n_work++;
	pthread_mutex_unlock(&core->work_lock);
	if (!stopping)
		return core;
	err_code(err, -ESHUTDOWN, "shutting_down", "the daemon is shutting down");
	err_hint(err, "sandboxes live on; try again when it is back");
	return NULL;
}

bool core_is_stopping(struct core *core)
{
	bool stopping;

	pthread_mutex_lock(&core->work_lock);
	stopping = core->stopping;
	pthread_mutex_unlock(&core->work_lock);
	return stopping;
}

void core_leave(struct core *core)
{
	pthread_mutex_lock(&core->work_lock);
	core->n_work--;
	if (core->n_work == 0)
		pthread_cond_broadcast(&core->work_done);
	pthread_mutex_unlock(&core->work_lock);
}

struct job {
	struct core *core;
	pool_fn fn;
	void *arg;
	int64_t due_boottime_ms;
	struct loop_timer *timer;
};

static void run_job(void *arg)
{
	struct job *job = arg;

	job->fn(job->arg);
	core_leave(job->core);
	free(job);
}

static void submit_job(void *arg)
{
	struct job *job = arg;

	loop_timer_remove(STEAL(job->timer));
	if (pool_submit(job->core->pool, run_job, job) < 0)
		job->timer = loop_timer_add(job->core->loop, clock_boottime_ms() + JOB_RETRY_MS,
					    submit_job, job);
}

static void schedule_job(void *arg)
{
	struct job *job = arg;

	job->timer = loop_timer_add(job->core->loop, job->due_boottime_ms, submit_job, job);
}

void core_job(struct core *core, pool_fn fn, void *arg, int64_t delay_ms)
{
	struct job *job = xcalloc(1, sizeof(*job));

	*job = (struct job){ .core = core, .fn = fn, .arg = arg };
	job->due_boottime_ms = clock_boottime_ms() + delay_ms;
	pthread_mutex_lock(&core->work_lock);
	core->n_work++;
	pthread_mutex_unlock(&core->work_lock);
	if (delay_ms == 0 && pool_submit(core->pool, run_job, job) == 0)
		return;
	loop_post(core->loop, schedule_job, job);
}

/* ---- housekeeping ---- */

static int delete_old_rows(struct core *core, int64_t *ret_n, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t now = clock_unix_ms();
	int r = db_begin_write(core->db, &txn, err);

	if (r == 0)
		r = sandboxes_delete_ended_before(&txn, now - core->limits.tombstone_days * DAY_MS,
						  ret_n, err);
	if (r == 0)
		r = idempotency_delete_expired(&txn, now, err);
	if (r == 0)
		r = events_delete_before(&txn, now - core->limits.events_days * DAY_MS, err);
	if (r == 0)
		r = keys_forget_old(&txn, now, err);
	return r < 0 ? r : db_commit(&txn, err);
}

static void keep_house(void *arg)
{
	struct err err = ERR_INIT;
	int64_t n = 0;

	if (delete_old_rows(arg, &n, &err) < 0)
		log_warn("old rows cannot be deleted", "error=\"%s\"", err.message);
	else if (n > 0)
		log_info("old tombstones deleted", "count=%lld", (long long)n);
	paused_expire(arg);
	templates_collect(arg);
	audit_keep_house(arg);
}

static void on_housekeeping(void *arg)
{
	struct core *core = arg;

	loop_timer_set(core->housekeeping, clock_boottime_ms() + HOUSEKEEPING_MS);
	core_job(core, keep_house, core, 0);
}

static void start_housekeeping(void *arg)
{
	struct core *core = arg;

	core->housekeeping = loop_timer_add(core->loop, clock_boottime_ms() + HOUSEKEEPING_FIRST_MS,
					    on_housekeeping, core);
	idle_watch_start(core);
	stall_watch_start(core);
}

/* ---- opening ---- */

static int lock_state_dir(struct core *core, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/lock", core->state_dir);
	_cleanup_buf_ struct buf pid = BUF_INIT;
	char text[32];
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0)
		return err_set(err, -errno, "open '%s': %s", path, strerror(errno));
	core->lock_fd = fd;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK)
			return err_set(err, -errno, "lock '%s': %s", path, strerror(errno));
		file_read(path, sizeof(text), &pid);
		err_code(err, -EBUSY, "state_dir_locked",
			 "another daemon (process %s) uses the state directory '%s'",
			 pid.len ? pid.data : "unknown", core->state_dir);
		err_hint(err, "stop that daemon or choose another --state-dir");
		return -EBUSY;
	}
	snprintf(text, sizeof(text), "%d", (int)getpid());
	if (ftruncate(fd, 0) < 0 || pwrite(fd, text, strlen(text), 0) < 0)
		return err_set(err, -errno, "write '%s': %s", path, strerror(errno));
	return 0;
}

static int make_dirs(struct core *core, struct err *err)
{
	const char *const names[] = { "", "/sandboxes", "/templates", "/forks", "/snapshots" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		_cleanup_free_ char *path = xasprintf("%s%s", core->state_dir, names[i]);
		int r = dir_make(path, 0700);

		if (r < 0)
			return err_set(err, r, "make the directory '%s': %s", path, strerror(-r));
	}
	return 0;
}

static int init_node_id(struct core *core, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	char random[17];
	int r = db_begin_write(core->db, &txn, err);

	if (r < 0)
		return r;
	r = meta_get(&txn, "node_id", core->node_id, sizeof(core->node_id), err);
	if (r != -ENOENT)
		return r;
	if (err)
		*err = ERR_INIT;
	rand_hex(random, sizeof(random) - 1);
	snprintf(core->node_id, sizeof(core->node_id), "node_%s", random);
	r = meta_set(&txn, "node_id", core->node_id, err);
	return r < 0 ? r : db_commit(&txn, err);
}

static int open_state(struct core *core, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/skerry.db", core->state_dir);
	int r = make_dirs(core, err);

	if (r == 0)
		r = lock_state_dir(core, err);
	if (r == 0)
		r = db_open(path, &core->db, err);
	if (r == 0)
		r = init_node_id(core, err);
	if (r == 0)
		r = identity_init(core, err);
	if (r == 0)
		r = core_audit_open(core, err);
	if (r == 0)
		r = preview_key_init(core, err);
	if (r == 0)
		r = core_events_open(core, err);
	return r;
}

static void cond_init_monotonic(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

/* Also of a core that was never fully opened. */
static void destroy(struct core *core)
{
	core_net_close(core);
	core_events_close(core);
	core_audit_close(core);
	templates_free(core);
	db_close(core->db);
	if (core->lock_fd >= 0)
		close(core->lock_fd);
	rate_clear(&core->rate);
	key_passes_clear(&core->passes);
	metrics_free(core->metrics);
	stats_close(core);
	pthread_mutex_destroy(&core->table_lock);
	pthread_rwlock_destroy(&core->images_lock);
	pthread_rwlock_destroy(&core->snapshots_lock);
	pthread_mutex_destroy(&core->templates_lock);
	pthread_cond_destroy(&core->templates_changed);
	pthread_mutex_destroy(&core->work_lock);
	pthread_cond_destroy(&core->work_done);
	pthread_mutex_destroy(&core->net_lock);
	free(core->state_dir);
	free(core);
}

int core_new(const struct core_config *config, struct core **ret, struct err *err)
{
	struct core *core;
	int r = core_limits_check(&config->limits, err);

	if (r < 0)
		return r;
	core = xcalloc(1, sizeof(*core));
	core->state_dir = xstrdup(config->state_dir);
	core->limits = config->limits;
	core->driver = config->driver;
	core->images = config->images;
	core->loop = config->loop;
	core->pool = config->pool;
	core->lock_fd = -1;
	core->metrics = metrics_new();
	stats_open(core);
	rate_init(&core->rate, config->limits.requests_per_second);
	key_passes_init(&core->passes);
	core->operation_scope = config->operation_scope;
	pthread_mutex_init(&core->table_lock, NULL);
	pthread_rwlock_init(&core->images_lock, NULL);
	pthread_rwlock_init(&core->snapshots_lock, NULL);
	pthread_mutex_init(&core->templates_lock, NULL);
	cond_init_monotonic(&core->templates_changed);
	pthread_mutex_init(&core->work_lock, NULL);
	cond_init_monotonic(&core->work_done);
	pthread_mutex_init(&core->net_lock, NULL);
	r = open_state(core, err);
	if (r == 0)
		r = core_net_open(core, config->network, err);
	if (r < 0) {
		destroy(core);
		return r;
	}
	standby_init(core);
	loop_call(core->loop, start_housekeeping, core);
	*ret = core;
	return 0;
}

const struct core_limits *core_limits(const struct core *core)
{
	return &core->limits;
}

/* ---- closing ---- */

static void stop_on_loop(void *arg)
{
	struct core *core = arg;
	struct err why = ERR_INIT;

	loop_timer_remove(STEAL(core->housekeeping));
	idle_watch_stop(core);
	stall_watch_stop(core);
	err_code(&why, -ESHUTDOWN, "shutting_down", "the daemon is shutting down");
	err_hint(&why, "the command goes on; pick it up by its exec id when the daemon is back");
	exec_calls_end(core, &why);
}

/* Work still under way after the grace is bounded by deadlines of its own; freeing what it uses is
 * not an option, so it is waited for in any case. */
static void wait_for_work(struct core *core, int64_t grace_ms)
{
	struct timespec until;
	bool said = false;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += grace_ms / 1000 + 1;
	pthread_mutex_lock(&core->work_lock);
	while (core->n_work > 0) {
		if (said)
			pthread_cond_wait(&core->work_done, &core->work_lock);
		else if (pthread_cond_timedwait(&core->work_done, &core->work_lock, &until) ==
			 ETIMEDOUT) {
			log_warn("still waiting for operations to end", "count=%zu", core->n_work);
			said = true;
		}
	}
	pthread_mutex_unlock(&core->work_lock);
}

void core_stop_work(struct core *core, int64_t grace_ms)
{
	pthread_mutex_lock(&core->work_lock);
	core->stopping = true;
	pthread_mutex_unlock(&core->work_lock);
	loop_call(core->loop, stop_on_loop, core);
	wait_for_work(core, grace_ms);
}

/* Lets go of a sandbox that lives on. */
static void let_go(struct sandbox *sb)
{
	struct err why = ERR_INIT;

	err_code(&why, -ESHUTDOWN, "shutting_down", "the daemon is shutting down");
	err_hint(&why, "the command goes on; pick it up by its exec id when the daemon is back");
	pthread_mutex_lock(&sb->op_lock);
	sandbox_cut_off(sb, &why);
	sandbox_net_let_go(sb);
	if (sb->has_vm)
		vmm_release(&sb->vm);
	sb->has_vm = false;
	pthread_mutex_unlock(&sb->op_lock);
	table_remove(sb);
}

void core_free(struct core *core, int64_t grace_ms)
{
	struct sandbox **all;
	size_t n;

	if (!core)
		return;
	core_stop_work(core, grace_ms);
	standby_free(core);
	all = table_all(core, &n);
	for (size_t i = 0; i < n; i++) {
		let_go(all[i]);
		sandbox_unref(all[i]);
	}
	free(all);
	/* What cutting off has set in motion (a job of a VM that ended just now) ends first. */
	wait_for_work(core, grace_ms);
	destroy(core);
}
