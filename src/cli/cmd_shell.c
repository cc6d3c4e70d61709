/* skerry shell: a terminal in a sandbox. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/list.h"
#include "cli/quote.h"
#include "cli/session.h"
#include "cli/shell.h"

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

	table_add(table, json_get_str(terminal, "terminal_id", NULL));
	table_add(table, size);
	table_add(table, json_get_bool(terminal, "busy", false) ? "busy" : "at its prompt");
	table_add(table, json_get_bool(terminal, "attached", false) ? "somebody" : "nobody");
	list_add_age(table, json_get_str(terminal, "created_at", NULL));
}

static int list(struct cli *cli, const char *sandbox)
{
	static const struct table_column columns[] = {
		{ "TERMINAL", 0 }, { "SIZE", 0 }, { "STATE", 0 }, { "SEEN BY", 0 }, { "AGE", 0 },
	};
	static const struct list_view view = {
		.columns = columns,
		.n_columns = ARRAY_SIZE(columns),
		.id = "terminal_id",
		.add = add_terminal,
		.none = "no terminals; `skerry shell` opens one",
	};
	_cleanup_json_ json_t *answer = NULL;
	int code = session_ask(cli, sandbox, "GET", "/terminals", NULL, &answer);

	return answer ? list_print(cli, json_object_get(answer, "items"), &view) : code;
}

static int end(struct cli *cli, const char *sandbox, const char *terminal_id)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *part = xasprintf("/terminals/%s", terminal_id);

	return session_ask(cli, sandbox, "DELETE", part, NULL, &answer);
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
