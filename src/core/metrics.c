/*
 * Counting, and the text of all figures. See metrics.h.
 *
 * What is counted here is counted where it happens, without a lock but for operations, whose names
 * are the surfaces'. What can be looked at (how many sandboxes are in which state, memory, disk) is
 * looked at when somebody asks.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/version.h"
#include "core/audit.h"
#include "core/exec_view.h"
#include "core/internal.h"
#include "host/check.h"
#include "core/metrics_internal.h"
#include "core/stats.h"
#include "store/ledger.h"

#define OPERATIONS_MAX 160
#define RESULTS_MAX    24 /* of one operation; further ones count as "other" */

struct operation {
	const char *name;
	struct metrics_histogram seconds;
	struct {
		const char *code;
		uint64_t n;
	} results[RESULTS_MAX];
	size_t n_results;
};

struct core_metrics {
	struct {
		struct metrics_histogram seconds;
		_Atomic uint64_t failures;
	} steps[METRICS_STEPS];
	_Atomic uint64_t counts[METRICS_COUNTS];
	_Atomic uint64_t events[EVENT_TYPES];

	pthread_mutex_t lock;
	struct operation operations[OPERATIONS_MAX];
	size_t n_operations;
};

struct core_metrics *metrics_new(void)
{
	struct core_metrics *metrics = xcalloc(1, sizeof(*metrics));

	pthread_mutex_init(&metrics->lock, NULL);
	return metrics;
}

void metrics_free(struct core_metrics *metrics)
{
	if (!metrics)
		return;
	pthread_mutex_destroy(&metrics->lock);
	free(metrics);
}

/* ---- counting ---- */

void metrics_step(struct core *core, enum metrics_step step, int r, int64_t since_boottime_us)
{
	if (r < 0)
		core->metrics->steps[step].failures++;
	else
		metrics_observe(&core->metrics->steps[step].seconds,
				clock_boottime_us() - since_boottime_us);
}

void metrics_count(struct core *core, enum metrics_count what, uint64_t n)
{
	core->metrics->counts[what] += n;
}

void metrics_event(struct core *core, enum event_type type)
{
	core->metrics->events[type]++;
}

/* Lock held. */
static struct operation *operation_of(struct core_metrics *metrics, const char *name)
{
	struct operation *operation;

	for (size_t i = 0; i < metrics->n_operations; i++) {
		if (str_eq(metrics->operations[i].name, name))
			return &metrics->operations[i];
	}
	if (metrics->n_operations == OPERATIONS_MAX)
		return NULL;
	operation = &metrics->operations[metrics->n_operations++];
	operation->name = name;
	return operation;
}

/* Lock held. Codes are static text of ours. */
static void count_result(struct operation *operation, const char *code)
{
	size_t i = 0;

	while (i < operation->n_results && !str_eq(operation->results[i].code, code))
		i++;
	if (i == operation->n_results) {
		if (i == RESULTS_MAX)
			i--; /* the last one is for all others */
		else
			operation->n_results++;
		operation->results[i].code = i == RESULTS_MAX - 1 ? "other" : code;
	}
	operation->results[i].n++;
}

void core_metrics_operation(struct core *core, const char *name, const char *result, int64_t us)
{
	struct core_metrics *metrics = core->metrics;
	struct operation *operation;

	pthread_mutex_lock(&metrics->lock);
	operation = operation_of(metrics, name);
	if (operation) {
		count_result(operation, result);
		if (us >= 0)
			metrics_observe(&operation->seconds, us);
	}
	pthread_mutex_unlock(&metrics->lock);
}

/* ---- what was counted, as text ---- */

static void write_operations(struct core_metrics *metrics, struct buf *out)
{
	pthread_mutex_lock(&metrics->lock);
	metrics_family(out, "skerry_operations_total", METRICS_COUNTER,
		       "Operations that have ended, on all surfaces, by result: ok, or the code of "
		       "the error.");
	for (size_t i = 0; i < metrics->n_operations; i++) {
		const struct operation *operation = &metrics->operations[i];

		for (size_t j = 0; j < operation->n_results; j++)
			metrics_int2(out, "skerry_operations_total", "operation", operation->name,
				     "result", operation->results[j].code,
				     (int64_t)operation->results[j].n);
	}
	metrics_family(out, "skerry_operation_seconds", METRICS_HISTOGRAM,
		       "How long operations took, until their answer could be given.");
	for (size_t i = 0; i < metrics->n_operations; i++)
		metrics_histogram(out, "skerry_operation_seconds", "operation",
				  metrics->operations[i].name, &metrics->operations[i].seconds);
	pthread_mutex_unlock(&metrics->lock);
}

static void write_steps(struct core_metrics *metrics, struct buf *out)
{
	static const char *const names[METRICS_STEPS] = {
		[METRICS_CREATE] = "create",   [METRICS_CREATE_STANDBY] = "create_standby",
		[METRICS_PAUSE] = "pause",     [METRICS_RESUME] = "resume",
		[METRICS_FORK] = "fork",       [METRICS_SNAPSHOT] = "snapshot",
		[METRICS_DESTROY] = "destroy", [METRICS_COMMAND_START] = "command_start",
	};

	metrics_family(out, "skerry_lifecycle_seconds", METRICS_HISTOGRAM,
		       "How long sandboxes took from one state to the next, and commands to be "
		       "started, whoever asked for it.");
	for (size_t i = 0; i < METRICS_STEPS; i++)
		metrics_histogram(out, "skerry_lifecycle_seconds", "step", names[i],
				  &metrics->steps[i].seconds);
	metrics_family(out, "skerry_lifecycle_failures_total", METRICS_COUNTER,
		       "Steps that have failed.");
	for (size_t i = 0; i < METRICS_STEPS; i++)
		metrics_int(out, "skerry_lifecycle_failures_total", "step", names[i],
			    (int64_t)metrics->steps[i].failures);
	metrics_family(out, "skerry_events_total", METRICS_COUNTER,
		       "What happened, by the types of docs/events.md.");
	for (size_t i = 0; i < EVENT_TYPES; i++)
		metrics_int(out, "skerry_events_total", "type", event_type_names[i],
			    (int64_t)metrics->events[i]);
}

static void write_counts(struct core_metrics *metrics, struct buf *out)
{
	static const struct {
		const char *name, *help;
	} counts[METRICS_COUNTS] = {
		[METRICS_DENIALS] = { "skerry_egress_denials_total",
				      "What sandboxes tried to reach and were denied." },
		[METRICS_BAD_KEYS] = { "skerry_bad_keys_total",
				       "Requests with a key that is not valid." },
		[METRICS_RATE_LIMITED] = { "skerry_rate_limited_total",
					   "Requests refused because their key had asked too "
					   "often." },
	};

	for (size_t i = 0; i < METRICS_COUNTS; i++)
		metrics_single(out, counts[i].name, METRICS_COUNTER, counts[i].help,
			       (int64_t)metrics->counts[i]);
}

/* ---- what can be looked at ---- */

struct look {
	struct core *core;
	int64_t sandboxes[SANDBOX_FAILED + 1];
	int64_t memory_mb;
	/* loop's thread */
	int64_t commands, previews, transfers;
};

static void look_on_loop(void *arg)
{
	struct look *look = arg;
	size_t n;
	struct sandbox **all = table_all(look->core, &n);

	for (size_t i = 0; i < n; i++) {
		look->commands += (int64_t)exec_views_running(all[i]);
		look->previews += (int64_t)all[i]->n_previews;
		look->transfers += (int64_t)all[i]->n_transfers;
		sandbox_unref(all[i]);
	}
	free(all);
}

static bool has_memory(enum sandbox_status status)
{
	return status == SANDBOX_CREATING || status == SANDBOX_RUNNING ||
	       status == SANDBOX_PAUSING || status == SANDBOX_RESUMING;
}

static void look_at_all(struct look *look)
{
	size_t n;
	struct sandbox **all = table_all(look->core, &n);

	for (size_t i = 0; i < n; i++) {
		enum sandbox_status status = sandbox_status(all[i]);

		look->sandboxes[status]++;
		if (has_memory(status))
			look->memory_mb += all[i]->memory_mb;
		sandbox_unref(all[i]);
	}
	free(all);
	loop_call(look->core->loop, look_on_loop, look);
}

static void write_sandboxes(struct core *core, struct buf *out)
{
	struct look look = { .core = core };
	struct stats_sum sum;

	look_at_all(&look);
	stats_sum(core, &sum);
	metrics_family(out, "skerry_sandboxes", METRICS_GAUGE, "Sandboxes by state.");
	for (int status = 0; status <= SANDBOX_DESTROYING; status++)
		metrics_int(out, "skerry_sandboxes", "status",
			    sandbox_status_name((enum sandbox_status)status),
			    look.sandboxes[status]);
	metrics_single(out, "skerry_sandbox_memory_promised_bytes", METRICS_GAUGE,
		       "Memory that running sandboxes may take.", look.memory_mb << 20);
	metrics_single(out, "skerry_sandbox_memory_bytes", METRICS_GAUGE,
		       "Memory that machines of running sandboxes have written, at the last look.",
		       (int64_t)sum.memory_bytes);
	metrics_family(out, "skerry_sandbox_cpus", METRICS_GAUGE,
		       "CPUs that running sandboxes keep busy, at the last look.");
	metrics_real(out, "skerry_sandbox_cpus", NULL, NULL, sum.cpu_percent / 100.0);
	metrics_single(out, "skerry_commands", METRICS_GAUGE, "Commands that run.", look.commands);
	metrics_single(out, "skerry_preview_connections", METRICS_GAUGE,
		       "Connections to previews that are open.", look.previews);
	metrics_single(out, "skerry_transfers", METRICS_GAUGE,
		       "Operations on files that are under way.", look.transfers);
	metrics_single(out, "skerry_standby", METRICS_GAUGE, "Sandboxes that stand ready.",
		       (int64_t)standby_count(core));
	metrics_single(out, "skerry_standby_wanted", METRICS_GAUGE,
		       "Sandboxes that should stand ready (limit standby_per_template).",
		       core->limits.standby_per_template);
}

/* With its log. */
static int64_t database_bytes(const struct core *core, const char *name)
{
	const char *const suffixes[] = { "", "-wal" };
	int64_t bytes = 0;

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		_cleanup_free_ char *path =
			xasprintf("%s/%s%s", core->state_dir, name, suffixes[i]);
		struct stat st;

		if (stat(path, &st) == 0)
			bytes += st.st_size;
	}
	return bytes;
}

static void write_audit(struct core *core, struct buf *out)
{
	struct core_audit_counts counts;
	struct err why;

	core_audit_counts(core, &counts);
	metrics_single(out, "skerry_audit_records_total", METRICS_COUNTER,
		       "Records that were added to the audit.", (int64_t)counts.records);
	metrics_single(out, "skerry_audit_commits_total", METRICS_COUNTER,
		       "Transactions in which the audit was written.", (int64_t)counts.commits);
	metrics_single(out, "skerry_audit_failures_total", METRICS_COUNTER,
		       "Attempts to write the audit that have failed.", (int64_t)counts.failures);
	metrics_single(out, "skerry_audit_waiting", METRICS_GAUGE,
		       "Entries that wait to be written.", (int64_t)counts.waiting);
	metrics_single(out, "skerry_audit_failing", METRICS_GAUGE,
		       "1 while the audit cannot be written, and changes are refused.",
		       core_audit_is_failing(core, &why));
	metrics_single(out, "skerry_audit_head", METRICS_GAUGE, "Number of the newest record.",
		       counts.last_seq);
	metrics_family(out, "skerry_database_bytes", METRICS_GAUGE, "Size of the databases.");
	metrics_int(out, "skerry_database_bytes", "database", "skerry",
		    database_bytes(core, "skerry.db"));
	metrics_int(out, "skerry_database_bytes", "database", "audit",
		    database_bytes(core, "audit.db"));
}

static void write_ledger(struct core *core, struct buf *out)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct wallets_sum sum;

	if (db_begin_read(core->db, &txn, NULL) < 0 || wallets_sum(&txn, &sum, NULL) < 0)
		return;
	metrics_single(out, "skerry_accounts", METRICS_GAUGE, "Accounts.", sum.accounts);
	metrics_single(out, "skerry_accounts_without_credit", METRICS_GAUGE,
		       "Accounts whose credit is used up: theirs is paused, and nothing is made.",
		       sum.empty);
	metrics_family(out, "skerry_credits_granted_total", METRICS_COUNTER,
		       "Credits that accounts were given.");
	metrics_real(out, "skerry_credits_granted_total", NULL, NULL, (double)sum.granted / 1e6);
	metrics_family(out, "skerry_credits_charged_total", METRICS_COUNTER,
		       "Credits that running time has cost.");
	metrics_real(out, "skerry_credits_charged_total", NULL, NULL, (double)sum.charged / 1e6);
}

static void write_host(struct core *core, struct buf *out)
{
	struct statvfs fs;

	metrics_single(out, "skerry_host_memory_available_bytes", METRICS_GAUGE,
		       "Memory that the host could give without swapping.",
		       host_available_mb() << 20);
	if (statvfs(core->state_dir, &fs) < 0)
		return;
	metrics_single(out, "skerry_state_disk_bytes", METRICS_GAUGE,
		       "Size of the file system of the state directory.",
		       (int64_t)(fs.f_blocks * fs.f_frsize));
	metrics_single(out, "skerry_state_disk_free_bytes", METRICS_GAUGE,
		       "What is free of it; below host_free_disk_mb_min nothing is created.",
		       (int64_t)(fs.f_bavail * fs.f_frsize));
	metrics_family(out, "skerry_limit", METRICS_GAUGE, "Limits in force, by their names.");
	metrics_int(out, "skerry_limit", "name", "host_free_disk_mb_min",
		    core->limits.host_free_disk_mb_min);
	metrics_int(out, "skerry_limit", "name", "requests_per_second",
		    core->limits.requests_per_second);
	metrics_int(out, "skerry_limit", "name", "sandboxes_per_account",
		    core->limits.sandboxes_per_account);
}

void core_metrics_write(struct core *core, struct buf *out)
{
	metrics_family(out, "skerry_build_info", METRICS_GAUGE, "The version that runs.");
	metrics_int(out, "skerry_build_info", "version", SKERRY_VERSION, 1);
	write_sandboxes(core, out);
	write_steps(core->metrics, out);
	write_operations(core->metrics, out);
	write_counts(core->metrics, out);
	write_audit(core, out);
	write_ledger(core, out);
	write_host(core, out);
}
