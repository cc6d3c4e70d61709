/* skerry image: what sandboxes start from. Building streams its progress. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "cli/session.h"
#include "cli/sse.h"
#include "cli/table.h"
#include "cli/units.h"

#define BUILD_SILENCE_MS 300000

/* ---- build ---- */

static const struct cli_operand build_operands[] = {
	{ .name = "NAME",
	  .help = "a recipe of the server: base, dev",
	  .complete = CLI_COMPLETE_IMAGE },
};

static const struct cli_option build_options[] = {
	{ .name = "rebuild",
	  .type = CLI_FLAG,
	  .help = "build also when the recipe has not changed since the last time" },
};

static const struct cli_example build_examples[] = {
	{ "the default image", "skerry image build base" },
	{ "again, with the newest packages", "skerry image build dev --rebuild" },
};

struct build {
	struct cli *cli;
	struct sse sse;
	struct progress progress;
	json_t *image;
	json_t *problem;
};

static int on_event(void *arg, const char *name, const char *data, size_t len)
{
	struct build *build = arg;
	_cleanup_json_ json_t *event = NULL;

	if (json_parse(data, len, &event, NULL) < 0)
		return -EBADMSG;
	if (str_eq(name, "progress")) {
		progress_set(&build->progress, (int)json_get_int(event, "percent", -1),
			     json_get_str(event, "message", ""));
	} else if (str_eq(name, "result")) {
		json_decref(build->image);
		build->image = json_incref(event);
	} else if (str_eq(name, "error")) {
		json_decref(build->problem);
		build->problem = json_incref(event);
	}
	return 0;
}

static int on_bytes(void *arg, const void *bytes, size_t len)
{
	struct build *build = arg;

	return sse_feed(&build->sse, bytes, len);
}

static int report_problem(const json_t *problem)
{
	_cleanup_response_ struct client_response response = CLIENT_RESPONSE_INIT;

	response.status = json_get_int(problem, "status", 500);
	json_write(problem, &response.body);
	return report_response(&response);
}

static void print_built(const struct build *build)
{
	char size[UNITS_TEXT_SIZE], took[UNITS_TEXT_SIZE];

	if (build->cli->json || build->cli->quiet)
		return;
	fprintf(stderr, "%s: %s, %s\n", json_get_str(build->image, "name", "?"),
		bytes_text(json_get_int(build->image, "size_bytes", 0), size),
		duration_text(clock_boottime_ms() - build->progress.since_ms, took));
}

/* The answer: an event stream that ended, or JSON from a server that does not stream. */
static int finish_build(struct build *build, const struct client_response *response)
{
	struct err err = ERR_INIT;

	if (response->status / 100 != 2)
		return report_response(response);
	if (build->problem)
		return report_problem(build->problem);
	if (!build->image)
		(void)json_parse(buf_str(&response->body), response->body.len, &build->image, NULL);
	if (!json_is_object(build->image)) {
		err_set(&err, -EIO, "the stream ended before the image was built");
		err_hint(&err, "the build may go on: `skerry image ls` shows when it is there");
		return report_err(&err);
	}
	print_built(build);
	if (build->cli->json) {
		_cleanup_buf_ struct buf raw = BUF_INIT;

		json_write(build->image, &raw);
		return session_print_raw(&raw);
	}
	printf("%s\n", json_get_str(build->image, "name", ""));
	return CLI_OK;
}

static int run_build(struct cli *cli, const struct cli_args *args)
{
	_cleanup_response_ struct client_response response = CLIENT_RESPONSE_INIT;
	_cleanup_json_ json_t *body = json_object();
	struct build build = { .cli = cli };
	struct client_spec spec = {
		.method = "POST",
		.path = "/v1/images",
		.body = body,
		.accept_events = true,
		.timeout_ms = -1,
		.silence_ms = BUILD_SILENCE_MS,
		.events = on_bytes,
		.arg = &build,
	};
	struct err err = ERR_INIT;
	int code;

	json_put_str(body, "name", args->operands[0]);
	if (cli_args_has(args, "rebuild"))
		json_put(body, "rebuild", json_true());
	sse_init(&build.sse, on_event, &build);
	progress_begin(&build.progress, "building", cli->quiet);
	code = client_call(cli->client, &spec, progress_tick, &build.progress, &response, &err);
	progress_end(&build.progress);
	code = code < 0 ? report_err(&err) : finish_build(&build, &response);
	sse_clear(&build.sse);
	json_decref(build.image);
	json_decref(build.problem);
	return code;
}

/* ---- ls ---- */

static const struct cli_example ls_examples[] = {
	{ "what there is", "skerry image ls" },
};

static void add_image(struct table *table, const json_t *image, bool quiet)
{
	char age[UNITS_TEXT_SIZE], size[UNITS_TEXT_SIZE], digest[20];
	int64_t created_ms;

	table_add(table, json_get_str(image, "name", NULL));
	if (quiet)
		return;
	str_copy(digest, sizeof(digest), json_get_str(image, "digest", ""));
	table_add(table, digest);
	table_add(table, bytes_text(json_get_int(image, "size_bytes", 0), size));
	table_add(table, time_parse(json_get_str(image, "created_at", ""), &created_ms) == 0
				 ? duration_short(clock_unix_ms() - created_ms, age)
				 : NULL);
}

static int run_ls(struct cli *cli, const struct cli_args *args)
{
	static const struct table_column columns[] = {
		{ "NAME", 8 },
		{ "DIGEST", 0 },
		{ "SIZE", 0 },
		{ "AGE", 0 },
	};
	struct client_spec spec = { .method = "GET", .path = "/v1/images" };
	_cleanup_buf_ struct buf raw = BUF_INIT, out = BUF_INIT;
	_cleanup_json_ json_t *answer = NULL;
	const json_t *items, *item;
	struct table table;
	size_t i;
	int code = session_json(cli, &spec, NULL, &answer, &raw);

	(void)args;
	if (code != CLI_OK)
		return code;
	if (cli->json)
		return session_print_raw(&raw);
	items = json_object_get(answer, "items");
	table_init(&table, columns, cli->quiet ? 1 : ARRAY_SIZE(columns));
	json_array_foreach(items, i, item)
		add_image(&table, item, cli->quiet);
	for (i = 0; cli->quiet && i < table.n_cells; i++)
		printf("%s\n", table.cells[i]);
	if (!cli->quiet && json_array_size(items) == 0)
		fprintf(stderr, "no images; `skerry image build base` makes the default one\n");
	else if (!cli->quiet)
		table_write(&table, output_width(), &out);
	fputs(buf_str(&out), stdout);
	table_clear(&table);
	return CLI_OK;
}

/* ---- rm ---- */

static const struct cli_operand rm_operands[] = {
	{ .name = "NAME", .help = "images", .repeat = true, .complete = CLI_COMPLETE_IMAGE },
};

static const struct cli_example rm_examples[] = {
	{ "an image that nothing uses", "skerry image rm dev" },
};

static int run_rm(struct cli *cli, const struct cli_args *args)
{
	return session_delete_each(cli, args, "/v1/images/");
}

const struct cli_command cli_command_image_build = {
	.name = "image build",
	.summary = "build an image from a recipe of the server",
	.detail = "Takes minutes the first time and nothing when the recipe has not changed. Needs "
		  "an "
		  "admin key.",
	.operands = build_operands,
	.n_operands = ARRAY_SIZE(build_operands),
	.options = build_options,
	.n_options = ARRAY_SIZE(build_options),
	.examples = build_examples,
	.n_examples = ARRAY_SIZE(build_examples),
	.run = run_build,
};

const struct cli_command cli_command_image_ls = {
	.name = "image ls",
	.summary = "list images",
	.examples = ls_examples,
	.n_examples = ARRAY_SIZE(ls_examples),
	.run = run_ls,
};

const struct cli_command cli_command_image_rm = {
	.name = "image rm",
	.summary = "remove images",
	.detail = "Refused while sandboxes of the image are alive. Needs an admin key.",
	.operands = rm_operands,
	.n_operands = ARRAY_SIZE(rm_operands),
	.examples = rm_examples,
	.n_examples = ARRAY_SIZE(rm_examples),
	.run = run_rm,
};
