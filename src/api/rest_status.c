/*
 * How the server does: /readyz for whoever sends it work, /metrics for Prometheus.
 *
 * Figures are about all accounts. So they are for administrators (with a key that may do nothing
 * else, best), unless the configuration gives them to anybody.
 */
#include "api/rest_internal.h"

#include <errno.h>

#include "api/auth.h"
#include "api/problem.h"
#include "base/json.h"
#include "base/metrics.h"
#include "base/process.h"
#include "base/str.h"
#include "core/metrics.h"
#include "core/ready.h"

/* ---- /readyz ---- */

static void answer_ready(const struct rest_status *status, struct http_request *req)
{
	_cleanup_json_ json_t *json = json_object();
	json_t *checks = NULL;
	struct buf body = BUF_INIT;
	const bool ready = core_is_ready(status->core, &checks);

	json_put_str(json, "status", ready ? "ready" : "not_ready");
	json_put(json, "checks", checks);
	json_write(json, &body);
	http_respond(req, ready ? 200 : 503, "application/json", &body, NULL, 0);
}

/* ---- /metrics ---- */

static void write_http(struct http_server *server, struct buf *out)
{
	static const char *const classes[] = { "none", "1xx", "2xx", "3xx", "4xx", "5xx" };
	struct http_counts counts;

	http_server_counts(server, &counts);
	metrics_family(out, "skerry_http_requests_total", METRICS_COUNTER,
		       "Requests that have ended, by the class of their status.");
	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		metrics_int(out, "skerry_http_requests_total", "status", classes[i],
			    (int64_t)counts.requests[i]);
	metrics_single(out, "skerry_http_incomplete_total", METRICS_COUNTER,
		       "Requests whose client left before the answer was complete.",
		       (int64_t)counts.incomplete);
	metrics_family(out, "skerry_http_seconds", METRICS_HISTOGRAM,
		       "How long requests took, but for streams.");
	metrics_histogram(out, "skerry_http_seconds", NULL, NULL, http_server_seconds(server));
	metrics_single(out, "skerry_http_connections", METRICS_GAUGE,
		       "Connections of clients that are open.", (int64_t)counts.connections);
	metrics_single(out, "skerry_http_requests_under_way", METRICS_GAUGE,
		       "Requests that are being worked on or waited for, streams among them.",
		       (int64_t)counts.under_way);
	metrics_single(out, "skerry_http_streams", METRICS_GAUGE,
		       "Answers that come in pieces, events among them, and are not over.",
		       (int64_t)counts.streams);
}

/* By the names that Prometheus' own libraries have for them. */
static void write_process(struct buf *out)
{
	struct process_usage usage;

	if (process_usage(&usage) < 0)
		return;
	metrics_family(out, "process_cpu_seconds_total", METRICS_COUNTER,
		       "CPU time of the daemon.");
	metrics_real(out, "process_cpu_seconds_total", NULL, NULL, usage.cpu_seconds);
	metrics_single(out, "process_resident_memory_bytes", METRICS_GAUGE, "Memory of the daemon.",
		       (int64_t)usage.resident_bytes);
	metrics_single(out, "process_open_fds", METRICS_GAUGE, "Descriptors that it has open.",
		       usage.open_fds);
	metrics_single(out, "process_max_fds", METRICS_GAUGE, "How many it may.", usage.max_fds);
	metrics_single(out, "process_threads", METRICS_GAUGE, "Its threads.", usage.threads);
	metrics_family(out, "process_start_time_seconds", METRICS_GAUGE,
		       "When it began, since the epoch.");
	metrics_real(out, "process_start_time_seconds", NULL, NULL, usage.start_unix_seconds);
}

static void answer_metrics(const struct rest_status *status, struct http_request *req)
{
	struct buf body = BUF_INIT;

	core_metrics_write(status->core, &body);
	write_http(http_server_of(req), &body);
	write_process(&body);
	http_respond(req, 200, METRICS_CONTENT_TYPE, &body, NULL, 0);
}

static int check_reader(const struct rest_status *status, const struct http_request *req,
			struct err *err)
{
	static const struct core_action action = { .scope = "admin", .operation = "metrics" };
	_cleanup_principal_ struct principal who = { 0 };
	int rc;

	if (status->metrics_open)
		return 0;
	rc = auth_check_key(status->core, req, &who, err);
	return rc < 0 ? rc : core_authorize(status->core, &who, &action, err);
}

bool rest_status_handle(const struct rest_status *status, struct http_request *req)
{
	const char *path = http_path(req);
	struct err err = ERR_INIT;

	if (str_eq(path, "/readyz"))
		answer_ready(status, req);
	else if (!str_eq(path, "/metrics"))
		return false;
	else if (check_reader(status, req, &err) < 0)
		problem_respond(req, &err);
	else
		answer_metrics(status, req);
	return true;
}
