/* What the files of the core count with. Any thread; cheap. */
#pragma once

#include "base/metrics.h"
#include "core/events.h"
#include "core/metrics.h"

/* Sandboxes on their way from one state to the next, whoever has sent them. */
enum metrics_step {
	METRICS_CREATE,		/* restored, or booted */
	METRICS_CREATE_STANDBY, /* of one that stood ready */
	METRICS_PAUSE,
	METRICS_RESUME,
	METRICS_FORK,
	METRICS_SNAPSHOT,
	METRICS_DESTROY,
	METRICS_COMMAND_START, /* from the request to the guest's word that it runs */
	METRICS_STEPS,
};

enum metrics_count {
	METRICS_DENIALS,      /* packets and connections that sandboxes were denied */
	METRICS_BAD_KEYS,     /* requests with a key that is none */
	METRICS_RATE_LIMITED, /* requests of keys that asked too often */
	METRICS_COUNTS,
};

struct core_metrics;
struct core_metrics *metrics_new(void);
void metrics_free(struct core_metrics *metrics);

/* r: what it returned; since_boottime_us: when it began. */
void metrics_step(struct core *core, enum metrics_step step, int r, int64_t since_boottime_us);
void metrics_count(struct core *core, enum metrics_count what, uint64_t n);
void metrics_event(struct core *core, enum event_type type);
