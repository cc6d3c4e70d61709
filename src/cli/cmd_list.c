/* skerry ls and skerry get: which sandboxes there are, and everything about one. */
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/list.h"
#include "cli/session.h"
#include "cli/units.h"

#define PAGE_LIMIT   200
#define DEFAULT_ROWS 10000

static const char *const status_choices[] = {
	"creating",   "running",   "pausing", "paused", "resuming",
	"destroying", "destroyed", "failed",  "all",	NULL,
};

static const struct cli_option ls_options[] = {
	{ .name = "all",
	  .letter = 'a',
	  .type = CLI_FLAG,
	  .help = "also those that ended in the last days, with the reason" },
	{ .name = "status",
	  .type = CLI_TEXT,
	  .metavar = "STATUS",
	  .choices = status_choices,
	  .help = "only those in this state" },
	{ .name = "image",
	  .type = CLI_TEXT,
	  .metavar = "IMAGE",
	  .complete = CLI_COMPLETE_IMAGE,
	  .help = "only those of this image" },
	{ .name = "label",
	  .letter = 'l',
	  .type = CLI_TEXT,
	  .metavar = "KEY[=VALUE]",
	  .help = "only those with this label" },
	{ .name = "limit",
	  .type = CLI_INTEGER,
	  .metavar = "N",
	  .min = 1,
	  .max = DEFAULT_ROWS,
	  .help = "at most this many, newest first; with --json: of one page" },
	{ .name = "cursor",
	  .type = CLI_TEXT,
	  .metavar = "CURSOR",
	  .help = "begin after a page: its next_cursor, as --json prints it" },
};

static const struct cli_example ls_examples[] = {
	{ "what is alive", "skerry ls" },
	{ "by label, ids only", "skerry ls --quiet --label job=42" },
	{ "with those that ended, and why", "skerry ls --all" },
	{ "for programs", "skerry ls --json | jq -r '.items[].id'" },
};

static void add_parameter(struct buf *path, const char *name, const char *value)
{
	if (!value)
		return;
	buf_printf(path, "&%s=", name);
	client_escape(path, value);
}

static void list_path(const struct cli_args *args, int64_t limit, struct buf *path)
{
	buf_printf(path, "/v1/sandboxes?limit=%lld", (long long)limit);
	add_parameter(path, "status",
		      cli_args_text(args, "status", cli_args_has(args, "all") ? "all" : NULL));
	add_parameter(path, "image", cli_args_text(args, "image", NULL));
	add_parameter(path, "label", cli_args_text(args, "label", NULL));
	add_parameter(path, "cursor", cli_args_text(args, "cursor", NULL));
}

/* LEFT: the time to its end, or why it has ended. */
static void add_left(struct table *table, const json_t *sandbox, int64_t now_ms)
{
	const char *reason = json_get_str(sandbox, "reason", NULL);
	const char *expires_at = json_get_str(sandbox, "expires_at", NULL);
	char text[UNITS_TEXT_SIZE];
	int64_t expires_ms;

	if (reason && *reason)
		table_add(table, reason);
	else
		table_add(table, expires_at && time_parse(expires_at, &expires_ms) == 0
					 ? duration_short(expires_ms - now_ms, text)
					 : NULL);
}

static void add_row(struct table *table, const json_t *sandbox)
{
	int64_t now_ms = clock_unix_ms();

	table_add(table, json_get_str(sandbox, "id", NULL));
	table_add(table, json_get_str(sandbox, "name", NULL));
	table_add(table, json_get_str(sandbox, "status", NULL));
	table_add(table, json_get_str(sandbox, "size", NULL));
	table_add(table, json_get_str(sandbox, "image", NULL));
	list_add_age(table, json_get_str(sandbox, "created_at", NULL));
	add_left(table, sandbox, now_ms);
}

static int list_json(struct cli *cli, const struct cli_args *args)
{
	_cleanup_buf_ struct buf path = BUF_INIT, raw = BUF_INIT;
	_cleanup_json_ json_t *page = NULL;
	struct client_spec spec = { .method = "GET" };
	int64_t limit = cli_args_number(args, "limit", PAGE_LIMIT);
	int code;

	list_path(args, limit < PAGE_LIMIT ? limit : PAGE_LIMIT, &path);
	spec.path = buf_str(&path);
	code = session_json(cli, &spec, NULL, &page, &raw);
	return code == CLI_OK ? session_print_raw(&raw) : code;
}

static int run_ls(struct cli *cli, const struct cli_args *args)
{
	static const struct table_column columns[] = {
		{ "ID", 0 },	{ "NAME", 6 }, { "STATUS", 0 }, { "SIZE", 0 },
		{ "IMAGE", 6 }, { "AGE", 0 },  { "LEFT", 0 },
	};
	static const struct list_view view = {
		.columns = columns,
		.n_columns = ARRAY_SIZE(columns),
		.id = "id",
		.add = add_row,
		.none = "no sandboxes; `skerry create` makes one",
	};
	const int64_t limit = cli_args_number(args, "limit", DEFAULT_ROWS);
	_cleanup_json_ json_t *items = json_array();
	_cleanup_buf_ struct buf path = BUF_INIT;
	int code;

	if (cli->json)
		return list_json(cli, args);
	list_path(args, limit < PAGE_LIMIT ? limit : PAGE_LIMIT, &path);
	code = session_pages(cli, buf_str(&path), (size_t)limit, items);
	return code == CLI_OK ? list_print(cli, items, &view) : code;
}

/* ---- get ---- */

static const struct cli_operand get_operands[] = { CLI_SANDBOX_OPERAND };

static const struct cli_example get_examples[] = {
	{ "everything about one sandbox", "skerry get sbx_1f2e3d4c" },
	{ "one field, for scripts", "skerry get sbx_1f2e3d4c --json | jq -r .expires_at" },
};

/* A value as text: strings as they are, empty things as "-", others as JSON. */
static void append_value(struct buf *out, const json_t *value)
{
	if (json_is_string(value) && json_string_length(value) > 0) {
		text_append_safe(out, json_string_value(value));
	} else if (json_is_null(value) || json_is_string(value) ||
		   (json_is_object(value) && json_object_size(value) == 0) ||
		   (json_is_array(value) && json_array_size(value) == 0)) {
		buf_append_char(out, '-');
	} else {
		_cleanup_buf_ struct buf text = BUF_INIT;

		json_write(value, &text);
		text_append_safe(out, buf_str(&text));
	}
}

static void print_fields(const json_t *object)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)object, key, value) {
		buf_append_str(&out, style_on(stdout, STYLE_BOLD));
		text_append_safe(&out, key);
		buf_append_str(&out, style_off(stdout));
		for (unsigned int n = text_width(key); n < 16; n++)
			buf_append_char(&out, ' ');
		/* Everything and nothing must not look the same. */
		if (str_eq(key, "egress") && json_is_null(value))
			buf_append_str(&out, "open");
		else if (str_eq(key, "egress") && json_array_size(value) == 0)
			buf_append_str(&out, "none");
		else
			append_value(&out, value);
		buf_append_char(&out, '\n');
	}
	fputs(buf_str(&out), stdout);
}

static int run_get(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *sandbox = NULL;
	int code = session_ask(cli, args->operands[0], "GET", "", NULL, &sandbox);

	if (!sandbox)
		return code;
	if (cli->quiet)
		printf("%s\n", json_get_str(sandbox, "id", ""));
	else
		print_fields(sandbox);
	return CLI_OK;
}

const struct cli_command cli_command_ls = {
	.name = "ls",
	.summary = "list sandboxes",
	.options = ls_options,
	.n_options = ARRAY_SIZE(ls_options),
	.examples = ls_examples,
	.n_examples = ARRAY_SIZE(ls_examples),
	.run = run_ls,
};

const struct cli_command cli_command_get = {
	.name = "get",
	.summary = "show everything about one sandbox",
	.detail = "One that has ended is shown for some days, with the reason of its end.",
	.operands = get_operands,
	.n_operands = ARRAY_SIZE(get_operands),
	.examples = get_examples,
	.n_examples = ARRAY_SIZE(get_examples),
	.run = run_get,
};
