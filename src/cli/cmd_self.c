/* skerry completion, version and help: the program about itself. None needs a server but version.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/version.h"
#include "cli/completion.h"
#include "cli/help.h"
#include "cli/session.h"
#include "cli/suggest.h"

static const char *const shell_choices[] = { "bash", "zsh", "fish", NULL };

static const struct cli_operand completion_operands[] = {
	{ .name = "SHELL", .help = "bash, zsh or fish", .choices = shell_choices },
};

static const struct cli_example completion_examples[] = {
	{ "in ~/.bashrc", "source <(skerry completion bash)" },
	{ "for every user of fish",
	  "skerry completion fish > /usr/share/fish/vendor_completions.d/skerry.fish" },
};

static int run_completion(struct cli *cli, const struct cli_args *args)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	(void)cli;
	(void)completion_script(args->operands[0], &out);
	return output_write(buf_str(&out), out.len);
}

/* ---- version ---- */

static const struct cli_example version_examples[] = {
	{ "the version of this program", "skerry version" },
};

static int run_version(struct cli *cli, const struct cli_args *args)
{
	(void)args;
	if (cli->json)
		printf("{\"version\":\"%s\"}\n", SKERRY_VERSION);
	else
		printf("skerry %s\n", SKERRY_VERSION);
	return CLI_OK;
}

/* ---- help ---- */

static const struct cli_operand help_operands[] = {
	{ .name = "COMMAND",
	  .help = "a command, or a group of commands",
	  .optional = true,
	  .repeat = true,
	  .complete = CLI_COMPLETE_COMMAND },
};

static const struct cli_example help_examples[] = {
	{ "all commands", "skerry help" },
	{ "one command", "skerry help exec" },
};

/* Help of the command of this name, or of every command of this group. Returns how many. */
static size_t append_matching(const char *name, const struct help_style *style, struct buf *out)
{
	const struct cli_command *const *commands;
	size_t n, len = strlen(name), found = 0;

	commands = cli_commands(&n);
	for (size_t i = 0; i < n; i++) {
		char after;

		if (strncmp(commands[i]->name, name, len) != 0)
			continue;
		after = commands[i]->name[len];
		if (after != '\0' && after != ' ')
			continue;
		if (found++)
			buf_append_str(out, "\n\n");
		help_command(commands[i], style, out);
	}
	return found;
}

static int run_help(struct cli *cli, const struct cli_args *args)
{
	struct help_style style = { style_on(stdout, STYLE_BOLD), style_off(stdout) };
	_cleanup_buf_ struct buf name = BUF_INIT, out = BUF_INIT;
	struct err err = ERR_INIT;
	const char *near;

	(void)cli;
	for (size_t i = 0; i < args->n_operands; i++)
		buf_printf(&name, "%s%s", i ? " " : "", args->operands[i]);
	if (name.len == 0) {
		help_overview(&style, &out);
	} else if (append_matching(buf_str(&name), &style, &out) == 0) {
		near = suggest_command(buf_str(&name));
		err_code(&err, -EINVAL, "usage", "there is no command '%s'", buf_str(&name));
		err_hint(&err,
			 near ? "did you mean `skerry help %s`?" : "`skerry help` lists them all",
			 near ? near : "");
		return report_err(&err);
	}
	return output_write(buf_str(&out), out.len);
}

const struct cli_command cli_command_completion = {
	.name = "completion",
	.summary = "print a completion script for a shell",
	.operands = completion_operands,
	.n_operands = ARRAY_SIZE(completion_operands),
	.examples = completion_examples,
	.n_examples = ARRAY_SIZE(completion_examples),
	.run = run_completion,
};

const struct cli_command cli_command_version = {
	.name = "version",
	.summary = "print the version",
	.examples = version_examples,
	.n_examples = ARRAY_SIZE(version_examples),
	.run = run_version,
};

const struct cli_command cli_command_help = {
	.name = "help",
	.summary = "show the help of a command",
	.operands = help_operands,
	.n_operands = ARRAY_SIZE(help_operands),
	.examples = help_examples,
	.n_examples = ARRAY_SIZE(help_examples),
	.run = run_help,
};
