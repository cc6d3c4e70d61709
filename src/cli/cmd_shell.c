/* skerry shell: a terminal in a sandbox. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/quote.h"
#include "cli/session.h"
#include "cli/shell.h"
#include "cli/table.h"
#include "cli/units.h"

static const struct cli_operand operands[] = { CLI_SANDBOX_OPERAND };

static const struct cli_option options[] = {
	{ .name = "attach",
	  .letter = 'a',
	  .type = CLI_TEXT,
	  .metavar = "TERMINAL",
	  .help = "take up a terminal that is open, from whoever looks at it" },
	{ .name = "list",
	  .letter = 'l',
	  .type = CLI_FLAG,
	  .help = "list the terminals that are open" },
	{ .name = "end",
	  .type = CLI_TEXT,
	  .metavar = "TERMINAL",
	  .help = "end a terminal and everything that runs in it" },
	{ .name = "user",
	  .letter = 'u',
	  .type = CLI_TEXT,
	  .metavar = "USER",
	  .help = "user of a new one: sandbox (default), root" },
	{ .name = "cwd",
	  .letter = 'C',
	  .type = CLI_TEXT,
	  .metavar = "DIR",
	  .help = "directory of a new one (default: the user's home)" },
};

static const struct cli_example examples[] = {
	{ "a shell", "skerry shell build" },
	{ "another program, as root", "skerry shell build --user root -- top" },
	{ "take up what was left with ~.",
	  "skerry shell build --list; skerry shell build --attach term_5c1e90a4d2b7f386" },
};

static int check(const struct cli_args *args)
{
	const char *attach = cli_args_text(args, "attach", NULL);
	const char *end = cli_args_text(args, "end", NULL);
	const char *id = attach ? attach : end;
	bool is_new = cli_args_has(args, "user") || cli_args_has(args, "cwd") || args->n_rest;

	if ((attach != NULL) + (end != NULL) + cli_args_has(args, "list") > 1)
		return report_usage("--attach, --list and --end exclude each other", NULL);
	if ((id || cli_args_has(args, "list")) && is_new)
		return report_usage("--user, --cwd and a command are for a new terminal", NULL);
	if (id && !terminal_id_valid(id))
		return report_usage("this is not the id of a terminal",
				    "`skerry shell SANDBOX --list` says which there are");
	return CLI_OK;
}

/* ---- --list, --end ---- */

static void add_terminal(struct table *table, const json_t *terminal)
{
	_cleanup_free_ char *size =
		xasprintf("%lldx%lld", (long long)json_get_int(terminal, "cols", 0),
			  (long long)json_get_int(terminal, "rows", 0));
	char text[UNITS_TEXT_SIZE];
	int64_t created_ms;

	table_add(table, json_get_str(terminal, "terminal_id", NULL));
	table_add(table, size);
	table_add(table, json_get_bool(terminal, "busy", false) ? "busy" : "at its prompt");
	table_add(table, json_get_bool(terminal, "attached", false) ? "somebody" : "nobody");
	table_add(table, time_parse(json_get_str(terminal, "created_at", ""), &created_ms) == 0
				 ? duration_short(clock_unix_ms() - created_ms, text)
				 : NULL);
}

static int list(struct cli *cli, const char *sandbox)
{
	static const struct table_column columns[] = {
		{ "TERMINAL", 0 }, { "SIZE", 0 }, { "STATE", 0 }, { "SEEN BY", 0 }, { "AGE", 0 },
	};
	_cleanup_buf_ struct buf out = BUF_INIT;
	_cleanup_json_ json_t *answer = NULL;
	const json_t *items, *item;
	struct table table;
	size_t i;
	int code = session_ask(cli, sandbox, "GET", "/terminals", NULL, 0, &answer);

	if (!answer)
		return code;
	items = json_object_get(answer, "items");
	table_init(&table, columns, ARRAY_SIZE(columns));
	json_array_foreach(items, i, item) {
		if (cli->quiet)
			printf("%s\n", json_get_str(item, "terminal_id", ""));
		else
			add_terminal(&table, item);
	}
	if (!cli->quiet && json_array_size(items) > 0) {
		table_write(&table, output_width(), &out);
		fputs(buf_str(&out), stdout);
	} else if (!cli->quiet) {
		fprintf(stderr, "no terminals; `skerry shell` opens one\n");
	}
	table_clear(&table);
	return CLI_OK;
}

static int end(struct cli *cli, const char *sandbox, const char *terminal_id)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *part = xasprintf("/terminals/%s", terminal_id);

	return session_ask(cli, sandbox, "DELETE", part, NULL, 0, &answer);
}

/* ---- a terminal ---- */

static int run(struct cli *cli, const struct cli_args *args)
{
	_cleanup_buf_ struct buf path = BUF_INIT, command = BUF_INIT;
	struct shell_config shell = { .cli = cli, .sandbox = args->operands[0] };
	int code = check(args);

	if (code == CLI_OK && !cli_args_has(args, "list") && !cli_args_has(args, "end") &&
	    !isatty(STDIN_FILENO))
		code = report_usage("stdin is not a terminal",
				    "`skerry exec SANDBOX -- COMMAND` is for pipes and scripts");
	if (code == CLI_OK && cli_args_has(args, "list"))
		return list(cli, args->operands[0]);
	if (code == CLI_OK && cli_args_has(args, "end"))
		return end(cli, args->operands[0], cli_args_text(args, "end", ""));
	if (code == CLI_OK)
		code = session_sandbox_path(cli, args->operands[0], &path);
	if (code != CLI_OK)
		return code;
	if (args->n_rest) {
		shell_command(args->rest, args->n_rest, &command);
		shell.command = buf_str(&command);
	}
	shell.sandbox_path = buf_str(&path);
	shell.terminal_id = cli_args_text(args, "attach", NULL);
	shell.user = cli_args_text(args, "user", NULL);
	shell.cwd = cli_args_text(args, "cwd", NULL);
	return shell_run(&shell);
}

const struct cli_command cli_command_shell = {
	.name = "shell",
	.summary = "open a terminal in a sandbox",
	.detail =
		"Keys, sizes and colours are those of your terminal, and the exit code is that of "
		"the shell there, or of the command. A paused sandbox is resumed.\n\n"
		"A terminal outlives who looks at it: a connection that is lost is taken up again "
		"where it broke, for a minute; after that, and after ~. at the beginning of a "
		"line, the terminal goes on until --attach takes it up or --end ends it. One at a "
		"time looks at it: whoever attaches takes over. ~? shows what else the tilde does.",
	.operands = operands,
	.n_operands = ARRAY_SIZE(operands),
	.options = options,
	.n_options = ARRAY_SIZE(options),
	.examples = examples,
	.n_examples = ARRAY_SIZE(examples),
	.takes_rest = true,
	.run = run,
};
