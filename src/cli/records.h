/*
 * Records that the server numbers and keeps, newest last: events, and the audit. Read in pages, or
 * followed as they come; shown as a line each, or as the JSON that they are.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/buf.h"
#include "cli/args.h"
#include "cli/cli.h"

struct records {
	const char *route;  /* "/v1/events" */
	const char *number; /* the member that numbers them: "id" */
	const char *plural; /* "events" */
	const char *type;   /* of those in a stream; NULL: each has its own */
	/* What a person reads of one, with a line break. */
	void (*append_line)(struct buf *out, const json_t *record);
};

/* Adds "&name=value" to a filter; value NULL: nothing. */
void records_filter(struct buf *filter, const char *name, const char *value);
/* Adds the sandbox that the first operand names, where there is one. CLI_OK or an exit code,
 * reported. */
int records_filter_sandbox(struct cli *cli, const struct cli_args *args, struct buf *filter);

/* All that follows since, or, where that is negative, the newest limit of them. */
int records_list(struct cli *cli, const struct records *records, const struct buf *filter,
		 int64_t since, int64_t limit);
/* What comes from now on, or since; does not return as long as that goes well. */
int records_follow(struct cli *cli, const struct records *records, const struct buf *filter,
		   int64_t since);

/* For lines: "  name=value" of each member. Words are as they are; what has blanks, and what is no
 * text, is JSON. quiet: without what is null or false. */
void records_append_members(struct buf *out, const json_t *members, bool quiet);
