/* The part of the operations table on events. Included by ops_table.c alone. */
#pragma once

#include "api/ops_table_words.h"

#define EVENT_TYPES_TEXT_MAX 1024

static const struct op_arg events_args[] = {
	{ .name = "cursor",
	  .type = ARG_INTEGER,
	  .min = 0,
	  .max = INT64_MAX,
	  .description = "Id of an event: what follows it. 0: from the oldest that is kept on, the "
			 "default for pages; streams begin with what happens from now on" },
	{ .name = "sandbox_id",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = 64,
	  .description = "Of this sandbox alone" },
	{ .name = "type",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = EVENT_TYPES_TEXT_MAX,
	  .description = "Of these types alone: names with commas between" },
	{ .name = "newest",
	  .type = ARG_BOOLEAN,
	  .default_json = "false",
	  .description = "A page of the newest, instead of what follows a cursor" },
	{ .name = "limit",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .max = 1000,
	  .default_json = "100",
	  .description = "Events of a page" },
};

static const struct op_result_field events_results[] = {
	{ "items", "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}",
	  "Oldest first: id, at, type, sandbox_id, data", false, false },
	{ "next_cursor", STRING_OR_NULL, "null when there is no more for now", false, false },
	{ "cursor", INTEGER, "Where to go on, now or later", false, false },
	{ "gap", "{\"type\":[\"object\",\"null\"]}",
	  "Ids from and to of events after the cursor that are not kept any more", false, false },
};
