/* skerry pause, resume, fork and snapshot: the state of sandboxes. */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/list.h"
#include "cli/session.h"
#include "cli/units.h"

/* Saving a large memory to a slow disk, and starting many children, take their time. */
#define STATE_TIMEOUT_MS (10 * 60 * 1000)

/* ---- pause and resume ---- */

static const struct cli_operand some_operands[] = {
	{ .name = "SANDBOX",
	  .help = "ids or names",
	  .repeat = true,
	  .complete = CLI_COMPLETE_SANDBOX },
};

static const struct cli_example pause_examples[] = {
	{ "keep it for tomorrow, with all that runs in it", "skerry pause build" },
};

static const struct cli_example resume_examples[] = {
	{ "go on", "skerry resume build" },
};

static int post_one(struct cli *cli, const char *id_or_name, const char *what)
{
	_cleanup_json_ json_t *answer = NULL;
	const struct session_call_spec call = {
		.method = "POST",
		.part = what,
		.timeout_ms = STATE_TIMEOUT_MS,
		.progress = str_eq(what, "/pause") ? "saving it" : "restoring it",
	};
	int code = session_ask_for(cli, id_or_name, &call, &answer);

	if (answer)
		printf("%s\n", json_get_str(answer, "id", id_or_name));
	return code;
}

static int post_all(struct cli *cli, const struct cli_args *args, const char *what)
{
	int worst = CLI_OK;

	for (size_t i = 0; i < args->n_operands; i++) {
		int code = post_one(cli, args->operands[i], what);

		if (worst == CLI_OK)
			worst = code;
	}
	return worst;
}

static int run_pause(struct cli *cli, const struct cli_args *args)
{
	return post_all(cli, args, "/pause");
}

static int run_resume(struct cli *cli, const struct cli_args *args)
{
	return post_all(cli, args, "/resume");
}

/* ---- fork ---- */

static const struct cli_operand fork_operands[] = { CLI_SANDBOX_OPERAND };

static const struct cli_option fork_options[] = {
	{ .name = "count",
	  .letter = 'c',
	  .type = CLI_INTEGER,
	  .metavar = "N",
	  .min = 1,
	  .max = 16,
	  .help = "how many children (default: 1)" },
	{ .name = "name",
	  .letter = 'n',
	  .type = CLI_TEXT,
	  .metavar = "NAME",
	  .help = "they are called NAME-1, NAME-2, …" },
	{ .name = "timeout",
	  .letter = 't',
	  .type = CLI_MINUTES,
	  .metavar = "TIME",
	  .help = "their lifetime (default: what the source has left)" },
	{ .name = "label",
	  .letter = 'l',
	  .type = CLI_PAIR,
	  .metavar = "KEY=VALUE",
	  .repeat = true,
	  .help = "labels in place of the source's; may be repeated" },
};

static const struct cli_example fork_examples[] = {
	{ "four ways to go on from here", "skerry fork build --count 4 --name try" },
};

static json_t *fork_request(const struct cli_args *args)
{
	json_t *body = json_object();

	json_put_int(body, "count", cli_args_number(args, "count", 1));
	if (cli_args_has(args, "name"))
		json_put_str(body, "name", cli_args_text(args, "name", NULL));
	if (cli_args_has(args, "timeout"))
		json_put_int(body, "timeout_minutes", cli_args_number(args, "timeout", 0));
	if (cli_args_has(args, "label"))
		json_put(body, "labels", cli_labels(args));
	return body;
}

static int run_fork(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	const json_t *child;
	size_t i;
	const struct session_call_spec call = {
		.method = "POST",
		.part = "/fork",
		.body = fork_request(args),
		.timeout_ms = STATE_TIMEOUT_MS,
		.progress = "copying it",
	};
	int code = session_ask_for(cli, args->operands[0], &call, &answer);

	json_array_foreach(json_object_get(answer, "sandboxes"), i, child) {
		printf("%s\n", json_get_str(child, "id", ""));
	}
	return code;
}

/* ---- snapshot create, ls, rm ---- */

static const struct cli_operand snapshot_create_operands[] = {
	CLI_SANDBOX_OPERAND,
	{ .name = "NAME", .help = "how the snapshot is called: a-z, 0-9 and -" },
};

static const struct cli_example snapshot_create_examples[] = {
	{ "prepare once, start from there often",
	  "skerry snapshot create build ready && skerry create --snapshot ready" },
};

static int run_snapshot_create(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	const struct session_call_spec call = {
		.method = "POST",
		.part = "/snapshots",
		.body = json_object(),
		.timeout_ms = STATE_TIMEOUT_MS,
		.progress = "saving its state",
	};
	char size[UNITS_TEXT_SIZE];
	int code;

	json_put_str(call.body, "name", args->operands[1]);
	code = session_ask_for(cli, args->operands[0], &call, &answer);
	if (!answer)
		return code;
	printf("%s\n", json_get_str(answer, "name", ""));
	if (!cli->quiet)
		fprintf(stderr, "%s on the server's disk\n",
			bytes_text(json_get_int(answer, "size_bytes", 0), size));
	return CLI_OK;
}

static void add_snapshot(struct table *table, const json_t *snapshot)
{
	table_add(table, json_get_str(snapshot, "name", NULL));
	table_add(table, json_get_str(snapshot, "source_id", NULL));
	table_add(table, json_get_str(snapshot, "size", NULL));
	table_add(table, json_get_str(snapshot, "image", NULL));
	list_add_bytes(table, json_get_int(snapshot, "size_bytes", 0));
	list_add_age(table, json_get_str(snapshot, "created_at", NULL));
}

static const struct cli_example snapshot_ls_examples[] = {
	{ "which there are, and how much room they take", "skerry snapshot ls" },
};

static int run_snapshot_ls(struct cli *cli, const struct cli_args *args)
{
	static const struct table_column columns[] = {
		{ "NAME", 6 },	{ "SOURCE", 0 }, { "SIZE", 0 },
		{ "IMAGE", 6 }, { "DISK", 0 },	 { "AGE", 0 },
	};
	static const struct list_view view = {
		.columns = columns,
		.n_columns = ARRAY_SIZE(columns),
		.id = "name",
		.add = add_snapshot,
		.none = "no snapshots; `skerry snapshot create` makes one",
	};

	(void)args;
	return list_show(cli, "/v1/snapshots", &view);
}

static const struct cli_operand snapshot_rm_operands[] = {
	{ .name = "NAME", .help = "snapshots", .repeat = true, .complete = CLI_COMPLETE_SNAPSHOT },
};

static const struct cli_example snapshot_rm_examples[] = {
	{ "one that is not needed any more", "skerry snapshot rm ready" },
};

static int run_snapshot_rm(struct cli *cli, const struct cli_args *args)
{
	return session_delete_each(cli, args, "/v1/snapshots/");
}

const struct cli_command cli_command_pause = {
	.name = "pause",
	.summary = "save sandboxes as they run, and stop their clocks",
	.detail = "Memory, processes and disk are kept on the server's disk until the sandbox is "
		  "resumed, which the next use of it does by itself.",
	.operands = some_operands,
	.n_operands = ARRAY_SIZE(some_operands),
	.examples = pause_examples,
	.n_examples = ARRAY_SIZE(pause_examples),
	.run = run_pause,
};

const struct cli_command cli_command_resume = {
	.name = "resume",
	.summary = "let paused sandboxes go on",
	.operands = some_operands,
	.n_operands = ARRAY_SIZE(some_operands),
	.examples = resume_examples,
	.n_examples = ARRAY_SIZE(resume_examples),
	.run = run_resume,
};

const struct cli_command cli_command_fork = {
	.name = "fork",
	.summary = "copy a sandbox as it runs, and print the ids of the copies",
	.detail = "Each copy has the processes, the memory and the disk of the source, and is its "
		  "own from then on. Programs that draw random numbers from a state of their own "
		  "draw the same ones in each copy, unless they are seeded anew.",
	.operands = fork_operands,
	.n_operands = ARRAY_SIZE(fork_operands),
	.options = fork_options,
	.n_options = ARRAY_SIZE(fork_options),
	.examples = fork_examples,
	.n_examples = ARRAY_SIZE(fork_examples),
	.run = run_fork,
};

const struct cli_command cli_command_snapshot_create = {
	.name = "snapshot create",
	.summary = "keep the state of a sandbox under a name",
	.detail = "The sandbox goes on. `skerry create --snapshot NAME` starts others from it.",
	.operands = snapshot_create_operands,
	.n_operands = ARRAY_SIZE(snapshot_create_operands),
	.examples = snapshot_create_examples,
	.n_examples = ARRAY_SIZE(snapshot_create_examples),
	.run = run_snapshot_create,
};

const struct cli_command cli_command_snapshot_ls = {
	.name = "snapshot ls",
	.summary = "list snapshots",
	.examples = snapshot_ls_examples,
	.n_examples = ARRAY_SIZE(snapshot_ls_examples),
	.run = run_snapshot_ls,
};

const struct cli_command cli_command_snapshot_rm = {
	.name = "snapshot rm",
	.summary = "delete snapshots; sandboxes made from them stay",
	.operands = snapshot_rm_operands,
	.n_operands = ARRAY_SIZE(snapshot_rm_operands),
	.examples = snapshot_rm_examples,
	.n_examples = ARRAY_SIZE(snapshot_rm_examples),
	.run = run_snapshot_rm,
};
