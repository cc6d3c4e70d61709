/*
 * skerry events: what happened, as a list or as it happens.
 *
 * A stream that breaks is taken up again where it was: each event's id is where to go on from, and
 * the server keeps them for days. So nothing is shown twice and nothing is missed, also over a
 * restart of the server.
 */
#include <string.h>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/records.h"
#include "cli/session.h"
#include "cli/table.h"

#define PAGE_LIMIT     1000
#define NEWEST_DEFAULT 50

static const struct cli_operand events_operands[] = {
	{ .name = "SANDBOX",
	  .help = "its id, or the name it was created with; default: all",
	  .optional = true,
	  .complete = CLI_COMPLETE_SANDBOX },
};

static const struct cli_option events_options[] = {
	{ .name = "follow",
	  .letter = 'f',
	  .type = CLI_FLAG,
	  .help = "go on with what happens from now on, or since the cursor" },
	{ .name = "since",
	  .type = CLI_INTEGER,
	  .metavar = "CURSOR",
	  .min = 0,
	  .max = INT64_MAX,
	  .help = "all that follows the event with this id; 0: all that is kept" },
	{ .name = "type",
	  .letter = 't',
	  .type = CLI_TEXT,
	  .metavar = "TYPE[,TYPE]",
	  .help = "only of these types" },
	{ .name = "limit",
	  .type = CLI_INTEGER,
	  .metavar = "N",
	  .min = 1,
	  .max = PAGE_LIMIT,
	  .help = "without --follow and --since: how many of the newest (default: 50)" },
};

static const struct cli_example events_examples[] = {
	{ "the newest", "skerry events" },
	{ "how commands in a sandbox end, as they do",
	  "skerry events --follow --type exec_ended build" },
	{ "all that is kept, for programs", "skerry events --since 0 --json | jq -r .type" },
};

static void append_line(struct buf *out, const json_t *event)
{
	_cleanup_buf_ struct buf head = BUF_INIT;

	buf_printf(&head, "%s  %-17s  %-16s", json_get_str(event, "at", "-"),
		   json_get_str(event, "type", "-"), json_get_str(event, "sandbox_id", "-"));
	text_append_safe(out, buf_str(&head));
	records_append_members(out, json_object_get(event, "data"), true);
	buf_append_char(out, '\n');
}

static int run_events(struct cli *cli, const struct cli_args *args)
{
	static const struct records events = {
		.route = "/v1/events",
		.number = "id",
		.plural = "events",
		.append_line = append_line,
	};
	const int64_t since = cli_args_number(args, "since", -1);
	_cleanup_buf_ struct buf filter = BUF_INIT;
	int code = records_filter_sandbox(cli, args, &filter);

	if (code != CLI_OK)
		return code;
	records_filter(&filter, "type", cli_args_text(args, "type", NULL));
	if (cli_args_has(args, "follow"))
		return records_follow(cli, &events, &filter, since);
	return records_list(cli, &events, &filter, since,
			    cli_args_number(args, "limit", NEWEST_DEFAULT));
}

const struct cli_command cli_command_events = {
	.name = "events",
	.summary = "show what happened, or follow it as it happens",
	.detail = "One line for each event: when, its type, the sandbox, and what its type has to "
		  "say; with --json one object. A stream that breaks is taken up again where it "
		  "was.",
	.operands = events_operands,
	.n_operands = ARRAY_SIZE(events_operands),
	.options = events_options,
	.n_options = ARRAY_SIZE(events_options),
	.examples = events_examples,
	.n_examples = ARRAY_SIZE(events_examples),
	.run = run_events,
};
