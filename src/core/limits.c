/*
 * The limits as one table: name, place in the structure, default and bounds. The configuration
 * file, the checks and the JSON are all made from it.
 */
#include "core/limits.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/json.h"
#include "base/str.h"
#include "net/rules.h"

#define KIB	  1024LL
#define MIB	  (1024 * KIB)
#define GIB	  (1024 * MIB)
#define MINUTE_MS 60000LL

struct number_limit {
	const char *name;
	size_t offset;
	int64_t initial, min, max;
};

#define LIMIT(member, initial, min, max)                                                           \
	{                                                                                          \
#member, offsetof(struct core_limits, member), initial, min, max                   \
	}

static const struct number_limit numbers[] = {
	LIMIT(vcpus_min_milli, 250, 10, 8000),
	LIMIT(vcpus_max_milli, 8000, 10, 8000),
	LIMIT(memory_mb_min, 256, 128, 1024 * 1024),
	LIMIT(memory_mb_max, 16384, 128, 1024 * 1024),
	LIMIT(disk_gb_min, 10, 1, 16384),
	LIMIT(disk_gb_max, 60, 1, 16384),
	LIMIT(timeout_minutes_default, 15, 1, 525600),
	LIMIT(timeout_minutes_max, 1440, 1, 525600),
	LIMIT(sandboxes_per_account, 20, 0, 100000),
	LIMIT(keys_per_account, 1000, 1, 100000),
	LIMIT(accounts_max, 10000, 1, 1000000),
	LIMIT(key_overlap_seconds_max, 7 * 86400, 0, 365 * 86400),
	LIMIT(labels_max, 32, 0, 1024),
	LIMIT(label_bytes_max, 256, 1, 4096),
	LIMIT(exec_timeout_ms_default, 120000, 1, 525600 * MINUTE_MS),
	LIMIT(exec_running_max, 64, 1, 200),
	LIMIT(exec_log_bytes, 64 * MIB, 64 * KIB, 4 * GIB),
	LIMIT(terminals_per_sandbox, 16, 1, 200),
	LIMIT(terminal_log_bytes, 4 * MIB, 256 * KIB, 4 * GIB),
	LIMIT(terminal_replay_bytes, 128 * KIB, 0, 64 * MIB),
	LIMIT(output_bytes_rest, MIB, 1024, 256 * MIB),
	LIMIT(output_bytes_mcp, 10 * KIB, 1024, 256 * MIB),
	LIMIT(output_bytes_max, 16 * MIB, 1024, 256 * MIB),
	LIMIT(mcp_exec_wait_ms, 45000, 0, 60 * MINUTE_MS),
	LIMIT(request_body_bytes, MIB, 4 * KIB, 64 * MIB),
	LIMIT(requests_per_second, 0, 0, 1000000),
	LIMIT(session_minutes, 720, 1, 525600),
	LIMIT(stream_heartbeat_ms, 15000, 100, 10 * MINUTE_MS),
	LIMIT(tombstone_days, 7, 0, 36500),
	LIMIT(events_days, 7, 1, 36500),
	LIMIT(events_per_account, 100000, 1000, 100000000),
	LIMIT(event_followers_per_account, 2000, 1, 1000000),
	LIMIT(starting_credits, 500, 0, 1000000000),
	LIMIT(credit_hold_seconds, 60, 10, 3600),
	LIMIT(charge_interval_seconds, 60, 1, 3600),
	LIMIT(out_of_credit_grace_seconds, 60, 0, 3600),
	LIMIT(audit_days, 0, 0, 36500),
	LIMIT(idempotency_hours, 24, 1, 24 * 365),
	LIMIT(create_deadline_ms, 60000, 1000, 60 * MINUTE_MS),
	LIMIT(template_deadline_ms, 5 * MINUTE_MS, 10000, 60 * MINUTE_MS),
	LIMIT(image_build_deadline_ms, 30 * MINUTE_MS, 10000, 24 * 60 * MINUTE_MS),
	LIMIT(image_mb_max, 16384, 1, 1024 * 1024),
	LIMIT(image_entries_max, 1000000, 1, 100000000),
	LIMIT(http_connections_max, 10000, 8, 1000000),
	LIMIT(http_header_timeout_ms, 10000, 100, 10 * MINUTE_MS),
	LIMIT(workers, 32, 2, 1024),
	LIMIT(worker_queue_max, 1024, 1, 1000000),
	LIMIT(snapshots_per_account, 20, 0, 100000),
	LIMIT(networks_per_account, 20, 0, 100000),
	LIMIT(network_slots_ready, 8, 0, 1024),
	LIMIT(egress_rules_max, RULES_MAX_DEFAULT, 0, POLICY_RULES_MAX),
	LIMIT(egress_denials_kept, 128, 1, 4096),
	LIMIT(paused_per_account, 100, 0, 100000),
	LIMIT(paused_days, 30, 1, 36500),
	LIMIT(compress_paused_after_minutes, 60, 0, 525600),
	LIMIT(resume_minutes_min, 5, 1, 1440),
	LIMIT(standby_per_template, 0, 0, 1000),
	LIMIT(standby_free_memory_mb_min, 2048, 0, 1024 * 1024 * 1024),
	LIMIT(host_free_disk_mb_min, 2048, 0, 1024 * 1024 * 1024),
	LIMIT(preview_ttl_minutes_default, 60, 1, 525600),
	LIMIT(preview_ttl_minutes_max, 1440, 1, 525600),
	LIMIT(preview_connections_per_sandbox, 64, 1, 10000),
	LIMIT(preview_connect_timeout_ms, 5000, 100, 10 * MINUTE_MS),
	LIMIT(preview_answer_timeout_ms, 5 * MINUTE_MS, 1000, 24 * 60 * MINUTE_MS),
	LIMIT(file_bytes_max, GIB, KIB, 1024 * GIB),
	LIMIT(transfers_per_sandbox, 32, 1, 128),
	LIMIT(files_silence_ms, 2 * MINUTE_MS, 1000, 60 * MINUTE_MS),
	LIMIT(sandbox_uid_base, 2000000, 100000, 2000000000),
	LIMIT(sandbox_uid_count, 1000000, 1024, 100000000),
};

struct text_limit {
	const char *name;
	size_t offset, size;
	const char *initial;
};

#define TEXT(member, initial)                                                                      \
	{                                                                                          \
#member, offsetof(struct core_limits, member),                                     \
			sizeof(((struct core_limits *)NULL)->member), initial                      \
	}

static const struct text_limit texts[] = {
	TEXT(default_size, "small"),
	TEXT(default_image, "base"),
	TEXT(require_isolation, "any"),
};

static const struct core_size sizes[] = {
	{ "tiny", 250, 512, 10 },    { "small", 1000, 1024, 10 },   { "medium", 2000, 4096, 20 },
	{ "large", 4000, 8192, 40 }, { "xlarge", 8000, 16384, 60 },
};
static_assert(ARRAY_SIZE(sizes) <= CORE_SIZES_MAX, "the sizes fit");

static int64_t *number_at(struct core_limits *limits, const struct number_limit *number)
{
	return (int64_t *)((char *)limits + number->offset);
}

static int64_t number_of(const struct core_limits *limits, const struct number_limit *number)
{
	return *(const int64_t *)((const char *)limits + number->offset);
}

void core_limits_init(struct core_limits *limits)
{
	*limits = (struct core_limits){ 0 };
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		*number_at(limits, &numbers[i]) = numbers[i].initial;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		str_copy((char *)limits + texts[i].offset, texts[i].size, texts[i].initial);
	memcpy(limits->sizes, sizes, sizeof(sizes));
	limits->n_sizes = ARRAY_SIZE(sizes);
	core_prices_init(&limits->prices);
}

const struct core_size *core_limits_size(const struct core_limits *limits, const char *name)
{
	for (size_t i = 0; i < limits->n_sizes; i++) {
		if (str_eq(limits->sizes[i].name, name))
			return &limits->sizes[i];
	}
	return NULL;
}

/* ---- setting ---- */

static int set_number(struct core_limits *limits, const struct number_limit *number,
		      const char *value, struct err *err)
{
	int64_t n;

	if (str_to_i64(value, &n) < 0 || n < number->min || n > number->max)
		return err_set(err, -EINVAL,
			       "limit '%s': '%s' is not a whole number from %lld to %lld",
			       number->name, value, (long long)number->min, (long long)number->max);
	*number_at(limits, number) = n;
	return 0;
}

static int set_text(struct core_limits *limits, const struct text_limit *text, const char *value,
		    struct err *err)
{
	if (str_eq(text->name, "require_isolation") && !str_eq(value, "any") &&
	    !str_eq(value, "kvm"))
		return err_set(err, -EINVAL, "limit '%s': '%s' is neither 'any' nor 'kvm'",
			       text->name, value);
	if (!*value || strlen(value) >= text->size)
		return err_set(err, -EINVAL,
			       "limit '%s': '%s' is not a name of 1 to %zu characters", text->name,
			       value, text->size - 1);
	str_copy((char *)limits + text->offset, text->size, value);
	return 0;
}

/* "0.25 512 10": vCPUs with at most three decimals, MiB, GiB. */
static bool parse_size(const char *value, struct core_size *size)
{
	char *rest;
	double vcpus = strtod(value, &rest);
	unsigned long memory_mb = strtoul(rest, &rest, 10);
	unsigned long disk_gb = strtoul(rest, &rest, 10);

	/* What strtod does not understand reads as 0, and what strtoul does not as well. */
	if (*rest || !(vcpus > 0 && vcpus <= 1024) || memory_mb < 1 || memory_mb > UINT32_MAX ||
	    disk_gb < 1 || disk_gb > UINT32_MAX)
		return false;
	size->milli_vcpus = (uint32_t)(vcpus * 1000 + 0.5);
	size->memory_mb = (uint32_t)memory_mb;
	size->disk_gb = (uint32_t)disk_gb;
	return true;
}

static bool size_name_valid(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && len < sizeof(sizes[0].name) && !str_eq(name, "custom") &&
	       strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

static int set_size(struct core_limits *limits, const char *name, const char *value,
		    struct err *err)
{
	struct core_size *size = (struct core_size *)core_limits_size(limits, name);
	struct core_size parsed = { 0 };

	if (!size_name_valid(name))
		return err_set(err, -EINVAL, "size '%s': names are 1 to 15 of a-z, 0-9 and '-'",
			       name);
	str_copy(parsed.name, sizeof(parsed.name), name);
	if (!parse_size(value, &parsed))
		return err_set(err, -EINVAL, "size '%s': '%s' is not 'VCPUS MEMORY_MB DISK_GB'",
			       name, value);
	if (!size && limits->n_sizes == CORE_SIZES_MAX)
		return err_set(err, -EINVAL, "size '%s': there can be %d sizes", name,
			       CORE_SIZES_MAX);
	if (!size)
		size = &limits->sizes[limits->n_sizes++];
	*size = parsed;
	return 0;
}

int core_limits_set(struct core_limits *limits, const char *name, const char *value,
		    struct err *err)
{
	if (str_starts(name, "size."))
		return set_size(limits, name + 5, value, err);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		if (str_eq(numbers[i].name, name))
			return set_number(limits, &numbers[i], value, err);
	}
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (str_eq(texts[i].name, name))
			return set_text(limits, &texts[i], value, err);
	}
	return err_set(err, -ENOENT, "no limit '%s'", name);
}

static int check_order(const char *low_name, int64_t low, const char *high_name, int64_t high,
		       struct err *err)
{
	if (low <= high)
		return 0;
	return err_set(err, -EINVAL, "limit '%s' (%lld) is above '%s' (%lld)", low_name,
		       (long long)low, high_name, (long long)high);
}

int core_limits_check(const struct core_limits *l, struct err *err)
{
#define IN_ORDER(low, high) check_order(#low, l->low, #high, l->high, err)
	if (IN_ORDER(vcpus_min_milli, vcpus_max_milli) < 0 ||
	    IN_ORDER(memory_mb_min, memory_mb_max) < 0 || IN_ORDER(disk_gb_min, disk_gb_max) < 0 ||
	    IN_ORDER(timeout_minutes_default, timeout_minutes_max) < 0 ||
	    IN_ORDER(preview_ttl_minutes_default, preview_ttl_minutes_max) < 0 ||
	    IN_ORDER(output_bytes_rest, output_bytes_max) < 0 ||
	    IN_ORDER(output_bytes_mcp, output_bytes_max) < 0)
		return -EINVAL;
#undef IN_ORDER
	if (!core_limits_size(l, l->default_size))
		return err_set(err, -EINVAL, "limit 'default_size': there is no size '%s'",
			       l->default_size);
	for (size_t i = 0; i < l->n_sizes; i++) {
		const struct core_size *s = &l->sizes[i];

		if (s->milli_vcpus < l->vcpus_min_milli || s->milli_vcpus > l->vcpus_max_milli ||
		    s->memory_mb < l->memory_mb_min || s->memory_mb > l->memory_mb_max ||
		    s->disk_gb < l->disk_gb_min || s->disk_gb > l->disk_gb_max)
			return err_set(
				err, -EINVAL,
				"size '%s' is outside the limits of vcpus, memory_mb or disk_gb",
				s->name);
	}
	return core_prices_check(l, err);
}

/* ---- showing ---- */

json_t *core_limits_json(const struct core_limits *limits)
{
	json_t *all = json_object();
	json_t *list = json_array();

	for (size_t i = 0; i < limits->n_sizes; i++) {
		const struct core_size *s = &limits->sizes[i];
		json_t *size = json_object();

		json_put_str(size, "name", s->name);
		json_put(size, "vcpus", json_real(s->milli_vcpus / 1000.0));
		json_put_int(size, "memory_mb", s->memory_mb);
		json_put_int(size, "disk_gb", s->disk_gb);
		json_array_append_new(list, size);
	}
	json_put(all, "sizes", list);
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		json_put_str(all, texts[i].name, (const char *)limits + texts[i].offset);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		json_put_int(all, numbers[i].name, number_of(limits, &numbers[i]));
	return all;
}
