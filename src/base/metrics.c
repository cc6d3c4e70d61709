#include "base/metrics.h"

#include <inttypes.h>

#include "base/str.h"

static const int64_t bounds_us[METRICS_BUCKETS] = {
	250,	500,	1000,	2500,	 5000,	  10000,   25000,    50000,
	100000, 250000, 500000, 1000000, 2500000, 5000000, 15000000, 60000000,
};

void metrics_observe(struct metrics_histogram *histogram, int64_t us)
{
	size_t i = 0;

	if (us < 0)
		us = 0;
	while (i < METRICS_BUCKETS && us > bounds_us[i])
		i++;
	atomic_fetch_add_explicit(&histogram->buckets[i], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&histogram->sum_us, (uint64_t)us, memory_order_relaxed);
}

uint64_t metrics_observed(const struct metrics_histogram *histogram)
{
	uint64_t n = 0;

	for (size_t i = 0; i <= METRICS_BUCKETS; i++)
		n += histogram->buckets[i];
	return n;
}

/* ---- text ---- */

/* Help has no quotes to escape, label values have. */
static void append_escaped(struct buf *out, const char *text, bool quotes)
{
	for (; *text; text++) {
		if (*text == '\n')
			buf_append_str(out, "\\n");
		else if (*text == '\\' || (quotes && *text == '"'))
			buf_printf(out, "\\%c", *text);
		else
			buf_append_char(out, *text);
	}
}

static void append_label(struct buf *out, const char *label, const char *value)
{
	buf_printf(out, "%s=\"", label);
	append_escaped(out, value, true);
	buf_append_char(out, '"');
}

static void append_name(struct buf *out, const char *name, const char *label, const char *value)
{
	buf_append_str(out, name);
	if (!label)
		return;
	buf_append_char(out, '{');
	append_label(out, label, value);
	buf_append_char(out, '}');
}

void metrics_family(struct buf *out, const char *name, enum metrics_type type, const char *help)
{
	static const char *const types[] = { "counter", "gauge", "histogram" };

	buf_printf(out, "# HELP %s ", name);
	append_escaped(out, help, false);
	buf_printf(out, "\n# TYPE %s %s\n", name, types[type]);
}

void metrics_int(struct buf *out, const char *name, const char *label, const char *value,
		 int64_t number)
{
	append_name(out, name, label, value);
	buf_printf(out, " %" PRId64 "\n", number);
}

void metrics_real(struct buf *out, const char *name, const char *label, const char *value,
		  double number)
{
	append_name(out, name, label, value);
	buf_printf(out, " %.6f\n", number);
}

void metrics_int2(struct buf *out, const char *name, const char *label, const char *value,
		  const char *label2, const char *value2, int64_t number)
{
	buf_printf(out, "%s{", name);
	append_label(out, label, value);
	buf_append_char(out, ',');
	append_label(out, label2, value2);
	buf_printf(out, "} %" PRId64 "\n", number);
}

static void append_bucket(struct buf *out, const char *name, const char *label, const char *value,
			  const char *bound, uint64_t n)
{
	buf_printf(out, "%s_bucket{", name);
	if (label) {
		append_label(out, label, value);
		buf_append_char(out, ',');
	}
	buf_printf(out, "le=\"%s\"} %" PRIu64 "\n", bound, n);
}

/* Read once: buckets, sum and count shall be of one moment, as far as counting goes on beside. */
void metrics_histogram(struct buf *out, const char *name, const char *label, const char *value,
		       const struct metrics_histogram *histogram)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	const double sum = (double)histogram->sum_us / 1e6;
	uint64_t n = 0;

	for (size_t i = 0; i < METRICS_BUCKETS; i++) {
		char bound[24];

		n += histogram->buckets[i];
		snprintf(bound, sizeof(bound), "%g", (double)bounds_us[i] / 1e6);
		append_bucket(out, name, label, value, bound, n);
	}
	n += histogram->buckets[METRICS_BUCKETS];
	append_bucket(out, name, label, value, "+Inf", n);
	buf_printf(&text, "%s_sum", name);
	metrics_real(out, buf_str(&text), label, value, sum);
	buf_reset(&text);
	buf_printf(&text, "%s_count", name);
	metrics_int(out, buf_str(&text), label, value, (int64_t)n);
}

void metrics_single(struct buf *out, const char *name, enum metrics_type type, const char *help,
		    int64_t number)
{
	metrics_family(out, name, type, help);
	metrics_int(out, name, NULL, NULL, number);
}
