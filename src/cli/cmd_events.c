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
#include "cli/follow.h"
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

/* ---- one event ---- */

/* Words as they are; what has blanks, and what is no text, as JSON. */
static void append_value(struct buf *out, const json_t *value)
{
	const char *text = json_string_value(value);
	_cleanup_buf_ struct buf json = BUF_INIT;

	if (text && *text && !strpbrk(text, " \t\r\n\"")) {
		text_append_safe(out, text);
		return;
	}
	json_write(value, &json);
	text_append_safe(out, buf_str(&json));
}

static void append_line(struct buf *out, const json_t *event)
{
	const json_t *data = json_object_get(event, "data"), *value;
	const char *at = json_get_str(event, "at", "-"), *key;
	_cleanup_buf_ struct buf head = BUF_INIT;

	text_append_safe(out, at);
	buf_printf(&head, "  %-17s  %-16s", json_get_str(event, "type", "-"),
		   json_get_str(event, "sandbox_id", "-"));
	text_append_safe(out, buf_str(&head));
	json_object_foreach((json_t *)(uintptr_t)data, key, value) {
		if (json_is_null(value) || json_is_false(value))
			continue;
		buf_append_str(out, "  ");
		text_append_safe(out, key);
		buf_append_char(out, '=');
		append_value(out, value);
	}
	buf_append_char(out, '\n');
}

static int print_event(const struct cli *cli, const json_t *event)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	if (cli->json) {
		json_write(event, &out);
		buf_append_char(&out, '\n');
	} else if (cli->quiet) {
		buf_printf(&out, "%lld\n", (long long)json_get_int(event, "id", 0));
	} else {
		append_line(&out, event);
	}
	return output_write(buf_str(&out), out.len);
}

static void note_gap(const json_t *gap)
{
	if (json_is_object(gap))
		report_note("events %lld to %lld are not kept any more",
			    (long long)json_get_int(gap, "from", 0),
			    (long long)json_get_int(gap, "to", 0));
}

/* ---- what is asked ---- */

/* As parameters that follow others: "&sandbox_id=…&type=…". */
static int read_filter(struct cli *cli, const struct cli_args *args, struct buf *filter)
{
	static const char collection[] = "/v1/sandboxes/";
	const char *type = cli_args_text(args, "type", NULL);

	if (args->n_operands > 0) {
		_cleanup_buf_ struct buf path = BUF_INIT;
		int code = session_sandbox_path(cli, args->operands[0], &path);

		if (code != CLI_OK)
			return code;
		buf_printf(filter, "&sandbox_id=%s", buf_str(&path) + strlen(collection));
	}
	if (type) {
		buf_append_str(filter, "&type=");
		client_escape(filter, type);
	}
	return CLI_OK;
}

/* ---- pages ---- */

static int print_page(struct cli *cli, const char *path, int64_t *cursor, bool *more)
{
	struct client_spec spec = { .method = "GET", .path = path };
	_cleanup_json_ json_t *page = NULL;
	const json_t *event;
	size_t i;
	int code = session_json(cli, &spec, NULL, &page, NULL);

	if (code != CLI_OK)
		return code;
	note_gap(json_object_get(page, "gap"));
	json_array_foreach(json_object_get(page, "items"), i, event) {
		code = print_event(cli, event);
		if (code != CLI_OK)
			return code;
	}
	*cursor = json_get_int(page, "cursor", *cursor);
	*more = json_is_string(json_object_get(page, "next_cursor"));
	return CLI_OK;
}

static int print_pages(struct cli *cli, const struct cli_args *args, const struct buf *filter)
{
	int64_t cursor = cli_args_number(args, "since", -1);
	bool newest = cursor < 0, more = true;
	int code = CLI_OK;

	while (code == CLI_OK && more) {
		_cleanup_buf_ struct buf path = BUF_INIT;

		if (newest)
			buf_printf(&path, "/v1/events?newest=true&limit=%lld%s",
				   (long long)cli_args_number(args, "limit", NEWEST_DEFAULT),
				   buf_str(filter));
		else
			buf_printf(&path, "/v1/events?cursor=%lld&limit=%d%s", (long long)cursor,
				   PAGE_LIMIT, buf_str(filter));
		code = print_page(cli, buf_str(&path), &cursor, &more);
		more &= !newest;
	}
	return code;
}

/* ---- following ---- */

static int take_event(void *arg, const char *name, const json_t *data)
{
	if (!str_eq(name, "gap"))
		return print_event(arg, data);
	note_gap(data);
	return CLI_OK;
}

static int follow(struct cli *cli, const struct cli_args *args, const struct buf *filter)
{
	const struct cli_follow what = {
		.route = "/v1/events",
		.filter = buf_str(filter),
		.number = "id",
		.cursor = cli_args_number(args, "since", -1),
		.take = take_event,
		.arg = cli,
	};

	return cli_follow(cli, &what);
}

static int run_events(struct cli *cli, const struct cli_args *args)
{
	_cleanup_buf_ struct buf filter = BUF_INIT;
	int code = read_filter(cli, args, &filter);

	if (code != CLI_OK)
		return code;
	return cli_args_has(args, "follow") ? follow(cli, args, &filter)
					    : print_pages(cli, args, &filter);
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
