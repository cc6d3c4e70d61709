/*
 * skerry stats: what sandboxes take of their host.
 *
 * The server looks every few seconds and remembers some minutes; here the newest of it is a row,
 * and with --watch the table is shown again and again, on a terminal in its place.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/str.h"
#include "cli/list.h"
#include "cli/session.h"
#include "cli/units.h"

#define LIST_RUNNING	  "/v1/sandboxes?status=running&limit=200"
#define INTERVAL_MS_MIN	  1000
#define INTERVAL_MS_GUESS 5000
#define CLEAR_SCREEN	  "\033[H\033[2J"

static const struct cli_operand operands[] = {
	{ .name = "SANDBOX",
	  .help = "ids or names; default: all that run",
	  .optional = true,
	  .repeat = true,
	  .complete = CLI_COMPLETE_SANDBOX },
};

static const struct cli_option options[] = {
	{ .name = "watch",
	  .letter = 'w',
	  .type = CLI_FLAG,
	  .help = "show it again whenever the server has looked, until Ctrl-C" },
};

static const struct cli_example examples[] = {
	{ "who is busy", "skerry stats" },
	{ "and goes on being it", "skerry stats --watch" },
	{ "the last minutes of one, for programs",
	  "skerry stats build --json | jq '.samples[].cpu_percent'" },
};

struct stats {
	struct cli *cli;
	json_t *paths; /* what is asked for, "/v1/sandboxes/…" */
	json_t *names; /* id to name, where it is known */
	int64_t interval_ms;
};

/* ---- which ---- */

static int name_given(struct stats *s, const struct cli_args *args)
{
	for (size_t i = 0; i < args->n_operands; i++) {
		_cleanup_buf_ struct buf path = BUF_INIT;
		int code = session_sandbox_path(s->cli, args->operands[i], &path);

		if (code != CLI_OK)
			return code;
		if (!str_starts(args->operands[i], "sbx_"))
			json_put_str(s->names, strrchr(buf_str(&path), '/') + 1, args->operands[i]);
		json_array_append_new(s->paths, json_string(buf_str(&path)));
	}
	return CLI_OK;
}

static int name_running(struct stats *s)
{
	_cleanup_json_ json_t *items = json_array();
	const json_t *item;
	size_t i;
	int code = session_pages(s->cli, LIST_RUNNING, SIZE_MAX, items);

	json_array_clear(s->paths);
	json_array_foreach(items, i, item) {
		const char *id = json_get_str(item, "id", "");
		_cleanup_buf_ struct buf path = BUF_INIT;

		buf_append_str(&path, "/v1/sandboxes/");
		client_escape(&path, id);
		json_array_append_new(s->paths, json_string(buf_str(&path)));
		json_put_str(s->names, id, json_get_str(item, "name", ""));
	}
	return code;
}

/* ---- what they take ---- */

static void add_row(struct table *table, const json_t *stats)
{
	const json_t *samples = json_object_get(stats, "samples");
	const size_t n = json_array_size(samples);
	const json_t *last = n ? json_array_get(samples, n - 1) : NULL;
	double cpu_s = json_number_value(json_object_get(stats, "cpu_seconds"));
	char text[UNITS_TEXT_SIZE];

	table_add(table, json_get_str(stats, "id", NULL));
	table_add(table, json_get_str(stats, "name", NULL));
	snprintf(text, sizeof(text), "%.0f %%",
		 json_number_value(json_object_get(last, "cpu_percent")));
	table_add(table, last ? text : NULL);
	snprintf(text, sizeof(text), "%g", json_number_value(json_object_get(stats, "vcpus")));
	table_add(table, text);
	table_add(table, duration_text((int64_t)(cpu_s * 1000), text));
	table_add(table, last ? bytes_text(json_get_int(last, "memory_bytes", 0), text) : NULL);
	list_add_bytes(table, json_get_int(stats, "memory_mb", 0) << 20);
}

/* Appends the answer about one to rows, or prints it with --json. */
static int ask_one(struct stats *s, const char *sandbox_path, json_t *rows)
{
	_cleanup_free_ char *path = xasprintf("%s/stats", sandbox_path);
	const struct client_spec spec = { .method = "GET", .path = path };
	_cleanup_json_ json_t *stats = NULL;
	_cleanup_buf_ struct buf raw = BUF_INIT;
	int code = session_json(s->cli, &spec, NULL, &stats, &raw);

	if (code != CLI_OK)
		return code;
	s->interval_ms = json_get_int(stats, "interval_ms", INTERVAL_MS_GUESS);
	if (s->cli->json)
		return session_print_raw(&raw);
	json_put_str(stats, "name", json_get_str(s->names, json_get_str(stats, "id", ""), NULL));
	json_array_append_new(rows, STEAL(stats));
	return CLI_OK;
}

static int show_all(struct stats *s, bool in_place)
{
	static const struct table_column columns[] = {
		{ "SANDBOX", 0 },  { "NAME", 6 },   { "CPU", 0 }, { "VCPUS", 0 },
		{ "CPU TIME", 0 }, { "MEMORY", 0 }, { "OF", 0 },
	};
	static const struct list_view view = {
		.columns = columns,
		.n_columns = ARRAY_SIZE(columns),
		.id = "id",
		.add = add_row,
		.none = "no sandbox is running; `skerry create` makes one",
	};
	_cleanup_json_ json_t *rows = json_array();
	const json_t *path;
	int worst = CLI_OK;
	size_t i;

	json_array_foreach(s->paths, i, path) {
		int code = ask_one(s, json_string_value(path), rows);

		worst = worst == CLI_OK ? code : worst;
	}
	if (in_place)
		printf(CLEAR_SCREEN);
	if (!s->cli->json && (worst == CLI_OK || json_array_size(rows) > 0)) {
		int code = list_print(s->cli, rows, &view);

		worst = worst == CLI_OK ? code : worst;
	}
	return worst;
}

static int wait_for_next(const struct stats *s)
{
	const int64_t ms = s->interval_ms > INTERVAL_MS_MIN ? s->interval_ms : INTERVAL_MS_MIN;

	fflush(stdout);
	return usleep((useconds_t)ms * 1000) == 0 ? CLI_OK : CLI_FAILED;
}

static int run(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *paths = json_array(), *names = json_object();
	struct stats s = {
		.cli = cli,
		.paths = paths,
		.names = names,
		.interval_ms = INTERVAL_MS_GUESS,
	};
	const bool watch = cli_args_has(args, "watch");
	const bool in_place = watch && !cli->json && isatty(STDOUT_FILENO);
	int code = name_given(&s, args);

	do {
		if (code == CLI_OK && args->n_operands == 0)
			code = name_running(&s);
		if (code == CLI_OK)
			code = show_all(&s, in_place);
		if (code == CLI_OK && watch)
			code = wait_for_next(&s);
	} while (code == CLI_OK && watch);
	return code;
}

const struct cli_command cli_command_stats = {
	.name = "stats",
	.summary = "show the CPU and memory that sandboxes take",
	.detail =
		"CPU is of the last seconds, of one CPU; VCPUS is how many it may keep busy. "
		"MEMORY is what its machine has written, of what it has. With --json one object a "
		"line for each, with all samples of the last minutes.",
	.operands = operands,
	.n_operands = ARRAY_SIZE(operands),
	.options = options,
	.n_options = ARRAY_SIZE(options),
	.examples = examples,
	.n_examples = ARRAY_SIZE(examples),
	.run = run,
};
