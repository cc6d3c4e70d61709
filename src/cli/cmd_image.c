/* skerry image: what sandboxes start from. Importing, and building a directory, is in
 * cmd_image_import.c. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "cli/image_make.h"
#include "cli/table.h"
#include "cli/units.h"

/* ---- build ---- */

static const struct cli_operand build_operands[] = {
	{ .name = "RECIPE|DIRECTORY",
	  .help = "a recipe of the server (base, dev), or a directory with a Dockerfile (./app)",
	  .complete = CLI_COMPLETE_IMAGE },
};

static const struct cli_option build_options[] = {
	{ .name = "rebuild",
	  .type = CLI_FLAG,
	  .help = "also when the recipe has not changed; in place of the directory's last image" },
	{ .name = "name",
	  .type = CLI_TEXT,
	  .metavar = "NAME",
	  .help = "how the image of a directory is called (default: as the directory)" },
	{ .name = "file",
	  .letter = 'f',
	  .type = CLI_TEXT,
	  .metavar = "FILE",
	  .help = "the Dockerfile (default: Dockerfile or Containerfile in the directory)" },
};

static const struct cli_example build_examples[] = {
	{ "the default image", "skerry image build base" },
	{ "again, with the newest packages", "skerry image build dev --rebuild" },
	{ "a Dockerfile", "skerry image build ./app --name app" },
};

static int run_build(struct cli *cli, const struct cli_args *args)
{
	json_t *body;

	if (image_is_directory(args->operands[0]))
		return image_build_directory(cli, args);
	if (cli_args_has(args, "name") || cli_args_has(args, "file"))
		return report_usage(
			"--name and --file are of a directory that is built",
			"a directory has a slash or is a dot: skerry image build ./app");
	body = json_object();
	json_put_str(body, "name", args->operands[0]);
	if (cli_args_has(args, "rebuild"))
		json_put(body, "rebuild", json_true());
	return image_make(cli, "/v1/images", body, "building");
}

/* ---- ls ---- */

static const struct cli_example ls_examples[] = {
	{ "what there is", "skerry image ls" },
};

static void add_image(struct table *table, const json_t *image, bool quiet)
{
	char age[UNITS_TEXT_SIZE], size[UNITS_TEXT_SIZE], disk[UNITS_TEXT_SIZE], digest[20];
	int64_t created_ms;

	table_add(table, json_get_str(image, "name", NULL));
	if (quiet)
		return;
	str_copy(digest, sizeof(digest), json_get_str(image, "digest", ""));
	table_add(table, digest);
	table_add(table, bytes_text(json_get_int(image, "size_bytes", 0), size));
	table_add(table, bytes_text(json_get_int(image, "allocated_bytes", 0), disk));
	table_add(table, time_parse(json_get_str(image, "created_at", ""), &created_ms) == 0
				 ? duration_short(clock_unix_ms() - created_ms, age)
				 : NULL);
	table_add(table, json_get_str(image, "source", NULL));
}

static int run_ls(struct cli *cli, const struct cli_args *args)
{
	static const struct table_column columns[] = {
		{ "NAME", 8 }, { "DIGEST", 0 }, { "SIZE", 0 },
		{ "DISK", 0 }, { "AGE", 0 },	{ "SOURCE", 12 },
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
	.summary = "build an image from a recipe or a Dockerfile",
	.detail =
		"A recipe takes minutes the first time and nothing when it has not changed. A "
		"directory is built here, by buildah (isolation chroot unless $BUILDAH_ISOLATION "
		"says otherwise), and imported by the server of this machine. Needs an admin key.",
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
	.detail = "Refused while sandboxes of the image are alive or snapshots are kept. Needs an "
		  "admin key.",
	.operands = rm_operands,
	.n_operands = ARRAY_SIZE(rm_operands),
	.examples = rm_examples,
	.n_examples = ARRAY_SIZE(rm_examples),
	.run = run_rm,
};
