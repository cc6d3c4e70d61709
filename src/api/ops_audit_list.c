/* Operations on the audit, in pages, and on what sandboxes take. As streams: rest_audit.c. */
#include "api/ops_audit_list.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "api/ops_internal.h"
#include "base/json.h"
#include "core/stats.h"

struct core_audit_filter audit_filter_of(const struct op_call *call)
{
	return (struct core_audit_filter){
		.account_id = json_get_str(call->args, "account_id", NULL),
		.key_id = json_get_str(call->args, "key_id", NULL),
		.sandbox_id = json_get_str(call->args, "sandbox_id", NULL),
		.operation = json_get_str(call->args, "operation", NULL),
		.request_id = json_get_str(call->args, "request_id", NULL),
		.result = json_get_str(call->args, "result", NULL),
	};
}

json_t *audit_record_json(const struct core_audit_record *record)
{
	json_t *json = NULL;

	if (json_parse(record->line, strlen(record->line), &json, NULL) == 0)
		return json;
	json = json_object(); /* somebody has changed it */
	json_put_int(json, "seq", record->seq);
	json_put(json, "damaged", json_true());
	return json;
}

static json_t *page_json(const struct core_audit_page *page, bool newest)
{
	json_t *json = json_object(), *items = json_array();
	char cursor[24];

	for (size_t i = 0; i < page->n; i++)
		json_array_append_new(items, audit_record_json(&page->items[i]));
	snprintf(cursor, sizeof(cursor), "%" PRId64, page->cursor);
	json_put(json, "items", items);
	json_put_str(json, "next_cursor", page->more && !newest ? cursor : NULL);
	json_put(json, "earlier",
		 page->more && newest ? json_integer(page->items[0].seq) : json_null());
	json_put_int(json, "cursor", page->cursor);
	return json;
}

int op_list_audit(struct op_call *call, struct err *err)
{
	const struct core_audit_filter filter = audit_filter_of(call);
	const struct core_audit_range range = {
		.after = json_get_int(call->args, "cursor", 0),
		.before = json_get_int(call->args, "before", 0),
		.newest = json_get_bool(call->args, "newest", false),
		.limit = (uint32_t)json_get_int(call->args, "limit", 100),
	};
	struct core_audit_page page = { 0 };
	int rc = core_audit_list(call->core, &call->who, &filter, &range, &page, err);

	if (rc < 0)
		return rc;
	call->result = page_json(&page, range.newest);
	core_audit_page_clear(&page);
	return 0;
}

int op_verify_audit(struct op_call *call, struct err *err)
{
	struct core_audit_verdict verdict;
	int rc = core_audit_verify(call->core, &verdict, err);

	if (rc < 0)
		return rc;
	call->result = json_object();
	json_put(call->result, "ok", json_boolean(!verdict.broken_at));
	json_put_int(call->result, "first", verdict.first);
	json_put_int(call->result, "last", verdict.last);
	json_put_str(call->result, "head", verdict.head[0] ? verdict.head : NULL);
	json_put(call->result, "broken_at",
		 verdict.broken_at ? json_integer(verdict.broken_at) : json_null());
	json_put_str(call->result, "problem", verdict.problem[0] ? verdict.problem : NULL);
	return 0;
}

/* ---- what a sandbox takes ---- */

static json_t *rounded(double number, double scale)
{
	return json_real(round(number * scale) / scale);
}

int op_get_stats(struct op_call *call, struct err *err)
{
	const char *id = json_get_str(call->args, "id", "");
	struct core_stats stats;
	json_t *samples = NULL;
	int rc = core_stats_get(call->core, &call->who, id, &stats, err);

	if (rc < 0)
		return rc;
	samples = json_array();
	for (size_t i = 0; i < stats.n; i++) {
		json_t *sample = json_object();

		json_put_time(sample, "at", stats.samples[i].at_unix_ms);
		json_put(sample, "cpu_percent", rounded(stats.samples[i].cpu_percent, 10));
		json_put_int(sample, "memory_bytes", (int64_t)stats.samples[i].memory_bytes);
		json_array_append_new(samples, sample);
	}
	call->result = json_object();
	json_put_str(call->result, "id", id);
	json_put(call->result, "vcpus", rounded(stats.milli_vcpus / 1000.0, 1000));
	json_put_int(call->result, "memory_mb", stats.memory_mb);
	json_put_int(call->result, "interval_ms", STATS_EVERY_MS);
	json_put(call->result, "cpu_seconds", rounded((double)stats.cpu_ms / 1000, 1000));
	json_put(call->result, "samples", samples);
	return 0;
}
