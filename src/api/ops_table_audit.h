/* The part of the operations table on the audit and on figures. Included by ops_table.c alone. */
#pragma once

#include "api/ops_table_words.h"

#define AUDIT_TEXT_ARG(arg_name, text)                                                             \
	{                                                                                          \
		.name = arg_name, .type = ARG_STRING, .min = 1, .max = 64, .description = text     \
	}
#define AUDIT_FILTER_ARGS                                                                          \
	AUDIT_TEXT_ARG("sandbox_id", "On this sandbox alone"),                                     \
		AUDIT_TEXT_ARG("key_id", "By this key alone"),                                     \
		AUDIT_TEXT_ARG("account_id", "Of this account alone; for administrators, who see " \
					     "all"),                                               \
		AUDIT_TEXT_ARG("operation", "Of this operation alone: its name in this document"), \
		AUDIT_TEXT_ARG("request_id", "Of this request alone"),                             \
		AUDIT_TEXT_ARG("result", "With this result alone: ok, or the code of an error")

static const struct op_arg audit_args[] = {
	AUDIT_FILTER_ARGS,
	{ .name = "cursor",
	  .type = ARG_INTEGER,
	  .min = 0,
	  .max = INT64_MAX,
	  .description = "Number of a record: what follows it. Default: pages begin with the first "
			 "one, streams with what happens from now on" },
	{ .name = "before",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .max = INT64_MAX - 1,
	  .description = "Number of a record: only what comes before it" },
	{ .name = "newest",
	  .type = ARG_BOOLEAN,
	  .default_json = "false",
	  .description = "A page of the newest, instead of what follows a cursor" },
	{ .name = "limit",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .max = 1000,
	  .default_json = "100",
	  .description = "Records of a page" },
};

static const struct op_result_field audit_results[] = {
	{ "items", "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}",
	  "Oldest first: seq, prev, at, account_id, key_id, surface, peer, request_id, operation, "
	  "sandbox_id, args, result, duration_ms, outcome, hash",
	  false, false },
	{ "next_cursor", STRING_OR_NULL, "null when there is no more for now", false, false },
	{ "earlier", INTEGER_OR_NULL,
	  "Of newest: what to give as before to see what came before; null when nothing did", false,
	  false },
	{ "cursor", INTEGER, "Where to go on, now or later", false, false },
};

static const struct op_arg audit_export_args[] = {
	{ .name = "cursor",
	  .type = ARG_INTEGER,
	  .min = 0,
	  .max = INT64_MAX,
	  .default_json = "0",
	  .description = "Number of a record: what follows it" },
};

static const struct op_result_field audit_verify_results[] = {
	{ "ok", BOOLEAN, "No record was changed, put in, moved or taken out", false, false },
	{ "first", INTEGER, "Number of the first record that was checked; 0: there are none", false,
	  false },
	{ "last", INTEGER, "Of the last one that is whole", false, false },
	{ "head", STRING_OR_NULL, "Its hash", false, false },
	{ "broken_at", INTEGER_OR_NULL, "Number of the first record that is not what it was", false,
	  false },
	{ "problem", STRING_OR_NULL, "What is wrong with it", false, false },
};

static const struct op_result_field stats_results[] = {
	{ "id", STRING, "", false, false },
	{ "vcpus", "{\"type\":\"number\"}", "CPUs that it may keep busy", false, false },
	{ "memory_mb", INTEGER, "Memory that it has", false, false },
	{ "interval_ms", INTEGER, "Between two samples", false, false },
	{ "cpu_seconds", "{\"type\":\"number\"}", "CPU time of the run under way, in all", false,
	  false },
	{ "samples", "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}",
	  "Oldest first, of the last minutes in which it ran: at, cpu_percent (of one CPU), "
	  "memory_bytes (that its machine has written)",
	  false, false },
};
