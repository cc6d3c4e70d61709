/*
 * The sampler. A machine is a process of the host; the kernel says what it takes. Which process it
 * is, is asked once a run, when no operation has the sandbox; afterwards pid and start time tell.
 */
#include "core/stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/str.h"
#include "core/internal.h"

#define PROC_TEXT_MAX 8192

struct core_stats_watch {
	pthread_mutex_t lock; /* of all stats; leaf */
	atomic_bool busy;
	_Atomic int64_t due_boottime_ms;
	struct stats_sum sum;
};

/* One worker at a time looks; what others read is under the watch's lock. */
struct sandbox_stats {
	pid_t pid; /* 0: not known */
	uint64_t start_ticks;
	uint64_t cpu_ticks; /* at the last look */
	int64_t at_boottime_us;

	struct core_stats_sample ring[STATS_SAMPLES];
	size_t first, n;
	int64_t cpu_ms;
};

void stats_free(struct sandbox_stats *stats)
{
	free(stats);
}

void stats_open(struct core *core)
{
	core->stats = xcalloc(1, sizeof(*core->stats));
	pthread_mutex_init(&core->stats->lock, NULL);
}

void stats_close(struct core *core)
{
	if (!core->stats)
		return;
	pthread_mutex_destroy(&core->stats->lock);
	free(core->stats);
	core->stats = NULL;
}

/* ---- /proc ---- */

static uint64_t read_memory(pid_t pid)
{
	static const char field[] = "\nRssAnon:";
	_cleanup_buf_ struct buf text = BUF_INIT;
	char path[64];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	at = file_read(path, PROC_TEXT_MAX, &text) == 0 ? strstr(buf_str(&text), field) : NULL;
	return at ? strtoull(at + sizeof(field) - 1, NULL, 10) * 1024 : 0;
}

/* ---- one sandbox ---- */

/* Which process; not while an operation has the sandbox. */
static void find_process(struct sandbox *sb, struct sandbox_stats *stats)
{
	_cleanup_close_ int pidfd = -1;
	struct process_stat seen;
	pid_t pid = 0;
	int r = -ESRCH;

	if (pthread_mutex_trylock(&sb->op_lock) != 0)
		return;
	if (sb->has_vm)
		r = vmm_process(sb->core->driver, &sb->vm, &pid, &pidfd, NULL);
	pthread_mutex_unlock(&sb->op_lock);
	if (r < 0 || process_stat(pid, &seen) < 0)
		return;
	stats->cpu_ticks = seen.cpu_ticks;
	stats->start_ticks = seen.start_ticks;
	stats->pid = pid;
	stats->at_boottime_us = clock_boottime_us();
}

/* Lock held. */
static void add_sample(struct sandbox_stats *stats, const struct core_stats_sample *sample)
{
	stats->ring[(stats->first + stats->n) % STATS_SAMPLES] = *sample;
	if (stats->n < STATS_SAMPLES)
		stats->n++;
	else
		stats->first = (stats->first + 1) % STATS_SAMPLES;
}

static void sample(struct sandbox *sb, struct stats_sum *sum)
{
	struct core_stats_watch *watch = sb->core->stats;
	struct sandbox_stats *stats = sb->stats;
	const double ticks_s = (double)sysconf(_SC_CLK_TCK);
	struct core_stats_sample new = { .at_unix_ms = clock_unix_ms() };
	struct process_stat seen;
	int64_t now_us;

	if (stats->pid == 0)
		find_process(sb, stats);
	if (stats->pid == 0)
		return;
	now_us = clock_boottime_us();
	if (process_stat(stats->pid, &seen) < 0 || seen.start_ticks != stats->start_ticks) {
		stats->pid = 0;
		return;
	}
	if (now_us > stats->at_boottime_us)
		new.cpu_percent = (double)(seen.cpu_ticks - stats->cpu_ticks) / ticks_s * 1e8 /
				  (double)(now_us - stats->at_boottime_us);
	new.memory_bytes = read_memory(stats->pid);
	stats->cpu_ticks = seen.cpu_ticks;
	stats->at_boottime_us = now_us;
	sum->cpu_percent += new.cpu_percent;
	sum->memory_bytes += new.memory_bytes;
	pthread_mutex_lock(&watch->lock);
	stats->cpu_ms = (int64_t)((double)seen.cpu_ticks * 1000 / ticks_s);
	add_sample(stats, &new);
	pthread_mutex_unlock(&watch->lock);
}

/* ---- all of them ---- */

static void sample_all(void *arg)
{
	struct core *core = arg;
	struct core_stats_watch *watch = core->stats;
	struct stats_sum sum = { 0 };
	size_t n;
	struct sandbox **all = table_all(core, &n);

	for (size_t i = 0; i < n; i++) {
		if (sandbox_status(all[i]) == SANDBOX_RUNNING && !core_is_stopping(core)) {
			pthread_mutex_lock(&watch->lock);
			if (!all[i]->stats)
				all[i]->stats = xcalloc(1, sizeof(*all[i]->stats));
			pthread_mutex_unlock(&watch->lock);
			sample(all[i], &sum);
		}
		sandbox_unref(all[i]);
	}
	free(all);
	pthread_mutex_lock(&watch->lock);
	watch->sum = sum;
	pthread_mutex_unlock(&watch->lock);
	watch->busy = false;
}

void stats_look(struct core *core)
{
	struct core_stats_watch *watch = core->stats;
	const int64_t now = clock_boottime_ms();

	if (!core->recovered || now < watch->due_boottime_ms || atomic_exchange(&watch->busy, true))
		return;
	watch->due_boottime_ms = now + STATS_EVERY_MS;
	core_job(core, sample_all, core, 0);
}

void stats_sum(struct core *core, struct stats_sum *ret)
{
	pthread_mutex_lock(&core->stats->lock);
	*ret = core->stats->sum;
	pthread_mutex_unlock(&core->stats->lock);
}

static void copy_samples(const struct sandbox_stats *stats, struct core_stats *ret)
{
	ret->n = stats->n;
	ret->cpu_ms = stats->cpu_ms;
	for (size_t i = 0; i < stats->n; i++)
		ret->samples[i] = stats->ring[(stats->first + i) % STATS_SAMPLES];
}

int core_stats_get(struct core *core, const struct principal *who, const char *id,
		   struct core_stats *ret, struct err *err)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	struct sandbox_info info = { 0 };
	int r = load_info(core, id, who->account_id, &info, err);

	if (r < 0)
		return r;
	*ret = (struct core_stats){ .milli_vcpus = info.milli_vcpus, .memory_mb = info.memory_mb };
	sandbox_info_clear(&info);
	sb = table_find(core, id, who->account_id);
	if (!sb)
		return 0;
	pthread_mutex_lock(&core->stats->lock);
	if (sb->stats)
		copy_samples(sb->stats, ret);
	pthread_mutex_unlock(&core->stats->lock);
	return 0;
}
