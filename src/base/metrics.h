/*
 * Figures for Prometheus: histograms of durations, and the text format (version 0.0.4) that they
 * are read in. Counters and gauges are plain numbers of whoever counts; here they get their words.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/buf.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* ---- durations ---- */

/* From a quarter of a millisecond to a minute; one more for the rest. */
#define METRICS_BUCKETS 16

struct metrics_histogram {
	_Atomic uint64_t buckets[METRICS_BUCKETS + 1];
	_Atomic uint64_t sum_us;
};

/* Any thread. */
void metrics_observe(struct metrics_histogram *histogram, int64_t us);
uint64_t metrics_observed(const struct metrics_histogram *histogram);

/* ---- text ---- */

enum metrics_type { METRICS_COUNTER, METRICS_GAUGE, METRICS_HISTOGRAM };

/* Before the samples of a name: what it is. */
void metrics_family(struct buf *out, const char *name, enum metrics_type type, const char *help);
/* One sample. label and value: NULL for none. */
void metrics_int(struct buf *out, const char *name, const char *label, const char *value,
		 int64_t number);
void metrics_real(struct buf *out, const char *name, const char *label, const char *value,
		  double number);
/* With two labels. */
void metrics_int2(struct buf *out, const char *name, const char *label, const char *value,
		  const char *label2, const char *value2, int64_t number);
/* All lines of one; the name without _bucket and so on, in seconds. */
void metrics_histogram(struct buf *out, const char *name, const char *label, const char *value,
		       const struct metrics_histogram *histogram);
/* A family of one number without labels. */
void metrics_single(struct buf *out, const char *name, enum metrics_type type, const char *help,
		    int64_t number);
