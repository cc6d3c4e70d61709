/*
 * What running sandboxes take of the host: CPU time and memory of their machines, looked at every
 * STATS_EVERY_MS, the newest STATS_SAMPLES of it kept in memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/core.h"

#define STATS_EVERY_MS 5000
#define STATS_SAMPLES  60

struct core_stats_sample {
	int64_t at_unix_ms;
	double cpu_percent;    /* of one CPU, since the sample before */
	uint64_t memory_bytes; /* that the machine has written: what nobody shares with it */
};

struct core_stats {
	struct core_stats_sample samples[STATS_SAMPLES]; /* oldest first */
	size_t n;
	int64_t cpu_ms; /* of this run, in all */
	uint32_t milli_vcpus;
	uint32_t memory_mb;
};

/* Any thread. Of one that does not run: what was seen before, as long as the daemon lives.
 * "not_found". */
int core_stats_get(struct core *core, const struct principal *who, const char *id,
		   struct core_stats *ret, struct err *err);

/* ---- for the core ---- */

struct sandbox;
struct sandbox_stats;
void stats_free(struct sandbox_stats *stats);

void stats_open(struct core *core);
void stats_close(struct core *core);
/* Loop's thread, every second: when it is time, looks at all of them, on a worker. */
void stats_look(struct core *core);

struct stats_sum {
	double cpu_percent;
	uint64_t memory_bytes;
};
/* Any thread. Of all that ran at the last look. */
void stats_sum(struct core *core, struct stats_sum *ret);
