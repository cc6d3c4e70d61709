/* See fake_audit.h. Answers wait for nothing: then is called at once. */
#include "fake_audit.h"

#include <errno.h>
#include <pthread.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "core/audit.h"
#include "core/metrics.h"
#include "core/ready.h"
#include "core/stats.h"

struct core_audit_entry {
	json_t *record;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static json_t *records;
static size_t begun;
static bool failing;

void fake_audit_reset(void)
{
	pthread_mutex_lock(&lock);
	json_decref(records);
	records = json_array();
	begun = 0;
	failing = false;
	pthread_mutex_unlock(&lock);
}

void fake_audit_fail(bool fails)
{
	failing = fails;
}

size_t fake_audit_begun(void)
{
	return begun;
}

const json_t *fake_audit_records(void)
{
	return records;
}

int core_audit_begin(struct core *core, const struct principal *who,
		     const struct core_audit_call *call, bool wait, struct core_audit_entry **ret,
		     struct err *err)
{
	json_t *record;

	if (failing && !call->ends) {
		json_decref(call->args);
		return err_code(err, -ENOSPC, "disk_full", "the audit cannot be written");
	}
	record = json_object();
	json_put_str(record, "operation", call->operation);
	json_put_str(record, "surface", call->surface);
	json_put_str(record, "request_id", call->request_id);
	json_put_str(record, "key_id", who->key_id);
	json_put_str(record, "sandbox_id", call->sandbox_id);
	json_put(record, "args", call->args ? call->args : json_object());
	*ret = xcalloc(1, sizeof(**ret));
	(*ret)->record = record;
	pthread_mutex_lock(&lock);
	begun++;
	pthread_mutex_unlock(&lock);
	return 0;
}

void core_audit_end(struct core *core, struct core_audit_entry *entry,
		    const struct core_audit_end *end, void (*then)(void *arg), void *arg)
{
	if (end->sandbox_id)
		json_put_str(entry->record, "sandbox_id", end->sandbox_id);
	json_put_str(entry->record, "result", end->result);
	json_put(entry->record, "outcome", end->outcome ? end->outcome : json_object());
	pthread_mutex_lock(&lock);
	if (!records)
		records = json_array();
	json_array_append_new(records, entry->record);
	pthread_mutex_unlock(&lock);
	free(entry);
	if (then)
		then(arg);
}

void core_audit_end_wait(struct core *core, struct core_audit_entry *entry,
			 const struct core_audit_end *end)
{
	core_audit_end(core, entry, end, NULL, NULL);
}

/* ---- reading: there is one record ---- */

static const char line[] = "{\"seq\":1,\"prev\":\"\",\"operation\":\"exec\",\"hash\":\"\"}";

void core_audit_page_clear(struct core_audit_page *page)
{
	free(page->items);
}

int core_audit_list(struct core *core, const struct principal *who,
		    const struct core_audit_filter *filter, const struct core_audit_range *range,
		    struct core_audit_page *ret, struct err *err)
{
	*ret = (struct core_audit_page){ .n = 1, .cursor = 1 };
	ret->items = xcalloc(1, sizeof(*ret->items));
	ret->items[0] = (struct core_audit_record){ 1, line };
	return 0;
}

int core_audit_follow(struct core *core, const struct principal *who,
		      const struct core_audit_filter *filter, int64_t cursor,
		      const struct core_audit_sink *sink, void *arg, int64_t *ret_cursor,
		      struct core_audit_follower **ret, struct err *err)
{
	return err_code(err, -EAGAIN, "limit_reached", "nobody follows this one");
}

void core_audit_resume(struct core_audit_follower *follower)
{
}

void core_audit_close_follower(struct core_audit_follower *follower)
{
}

int core_audit_verify(struct core *core, struct core_audit_verdict *ret, struct err *err)
{
	*ret = (struct core_audit_verdict){ .first = 1, .last = 1, .head = "ab" };
	return 0;
}

/* ---- figures ---- */

void core_metrics_operation(struct core *core, const char *name, const char *result, int64_t us)
{
}

void core_metrics_write(struct core *core, struct buf *out)
{
	buf_append_str(out, "skerry_fake 1\n");
}

bool core_is_ready(struct core *core, json_t **ret_checks)
{
	*ret_checks = json_array();
	return !failing;
}

int core_stats_get(struct core *core, const struct principal *who, const char *id,
		   struct core_stats *ret, struct err *err)
{
	if (!str_eq(id, "sbx_aa"))
		return err_code(err, -ENOENT, "not_found", "sandbox \"%.64s\" was not found", id);
	*ret = (struct core_stats){ .n = 1, .milli_vcpus = 1000, .memory_mb = 1024 };
	ret->samples[0] = (struct core_stats_sample){ 1000, 12.34, 5 << 20 };
	return 0;
}
