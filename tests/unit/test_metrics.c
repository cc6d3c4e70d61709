/* Figures as Prometheus reads them: buckets that only grow, escapes, histograms that add up. */
#include "unit.h"

#include <string.h>

#include "base/metrics.h"

static void assert_text(const struct buf *text, const char *expected)
{
	assert_string_equal(buf_str(text), expected);
}

static void test_families(void **state)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	metrics_single(&out, "a_total", METRICS_COUNTER, "What \"a\" is,\nwith \\ in it.", 3);
	metrics_family(&out, "b", METRICS_GAUGE, "B.");
	metrics_int(&out, "b", "label", "quo\"te\\ \n", -2);
	metrics_int2(&out, "b", "one", "1", "two", "2", 5);
	metrics_real(&out, "b", NULL, NULL, 0.25);
	assert_text(&out, "# HELP a_total What \"a\" is,\\nwith \\\\ in it.\n"
			  "# TYPE a_total counter\n"
			  "a_total 3\n"
			  "# HELP b B.\n"
			  "# TYPE b gauge\n"
			  "b{label=\"quo\\\"te\\\\ \\n\"} -2\n"
			  "b{one=\"1\",two=\"2\"} 5\n"
			  "b 0.250000\n");
}

static void test_histogram(void **state)
{
	static struct metrics_histogram histogram;
	_cleanup_buf_ struct buf out = BUF_INIT;

	metrics_observe(&histogram, 250);	       /* on a bound: within */
	metrics_observe(&histogram, 251);	       /* over it */
	metrics_observe(&histogram, -5);	       /* a clock that jumps */
	metrics_observe(&histogram, 3600 * 1000000LL); /* an hour */
	assert_int_equal(metrics_observed(&histogram), 4);
	metrics_histogram(&out, "s", "step", "x", &histogram);
	assert_non_null(strstr(out.data, "s_bucket{step=\"x\",le=\"0.00025\"} 2\n"));
	assert_non_null(strstr(out.data, "s_bucket{step=\"x\",le=\"0.0005\"} 3\n"));
	assert_non_null(strstr(out.data, "s_bucket{step=\"x\",le=\"60\"} 3\n"));
	assert_non_null(strstr(out.data, "s_bucket{step=\"x\",le=\"+Inf\"} 4\n"));
	assert_non_null(strstr(out.data, "s_sum{step=\"x\"} 3600.000501\n"));
	assert_non_null(strstr(out.data, "s_count{step=\"x\"} 4\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_families),
		cmocka_unit_test(test_histogram),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
