/* skerry completion, version and help: the program about itself. None needs a server.
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
#include "cli/table.h"

#define VERSION_TIMEOUT_MS 3000

static const char *const shell_choices[] = { "bash", "zsh", "fish", NULL };

static const struct cli_operand completion_operands[] = {
	{ .name = "SHELL", .help = "bash, zsh or fish", .choices = shell_choices },
};

static const struct cli_example completion_examples[] = {
	{ "in ~/.bashrc", "source <(skerry completion bash)" },
	{ "in ~/.zshrc, after compinit", "source <(skerry completion zsh)" },
	{ "for every user of fish",
	  "skerry completion fish > /usr/share/fish/vendor_completions.d/skerry.fish" },
};

static int print_json(const json_t *json)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	json_write(json, &out);
	return session_print_raw(&out);
}

static int run_completion(struct cli *cli, const struct cli_args *args)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	_cleanup_json_ json_t *json = NULL;

	(void)completion_script(args->operands[0], &out);
	if (!cli->json)
		return output_write(buf_str(&out), out.len);
	json = json_object();
	json_put_str(json, "shell", args->operands[0]);
	json_put_str(json, "script", buf_str(&out));
	return print_json(json);
}

/* ---- version ---- */

static const struct cli_example version_examples[] = {
	{ "of this program and of the server", "skerry version" },
	{ "of this program alone", "skerry --version" },
};

static const struct cli_option version_options[] = {
	{ .name = "client", .type = CLI_FLAG, .help = "of this program alone" },
};

/* The server's, as its description of itself has it: no key is needed for that. */
static int ask_version(struct cli *cli, json_t **ret, struct err *err)
{
	const struct client_spec spec = {
		.method = "GET",
		.path = "/openapi.json",
		.timeout_ms = VERSION_TIMEOUT_MS,
	};
	_cleanup_response_ struct client_response response = CLIENT_RESPONSE_INIT;
	_cleanup_json_ json_t *answer = NULL;
	const char *version;
	int r = client_call(cli->client, &spec, NULL, NULL, &response, err);

	if (r < 0)
		return r;
	(void)json_parse(buf_str(&response.body), response.body.len, &answer, NULL);
	version = json_get_str(json_object_get(answer, "info"), "version", NULL);
	if (response.status != 200 || !version)
		return err_set(err, -EBADMSG, "%s is no Skerry server", cli->url);
	*ret = json_string(version);
	return 0;
}

static int print_versions(const struct cli *cli, json_t *server)
{
	_cleanup_json_ json_t *both = NULL;
	_cleanup_buf_ struct buf out = BUF_INIT;

	if (cli->json) {
		both = json_object();
		json_put_str(both, "version", SKERRY_VERSION);
		json_put(both, "server_version", server ? json_incref(server) : json_null());
		return print_json(both);
	}
	buf_append_str(&out, "skerry " SKERRY_VERSION "\n");
	if (server) {
		buf_append_str(&out, "skerryd ");
		text_append_safe(&out, json_string_value(server));
		buf_printf(&out, " at %s\n", cli->url);
	}
	return output_write(out.data, out.len);
}

/* That no server answers is said, and is no failure: what was asked for is there. */
static int run_version(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *server = NULL;
	struct err err = ERR_INIT;
	int code;

	if (!cli_args_has(args, "client"))
		(void)ask_version(cli, &server, &err);
	code = print_versions(cli, server);
	if (err.num < 0 && !cli->quiet)
		report_note("%s", err.message);
	return code;
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

static int report_no_help(const char *name)
{
	const char *near = suggest_command(name);
	struct err err = ERR_INIT;

	err_code(&err, -EINVAL, "usage", "there is no command '%s'", name);
	err_hint(&err, near ? "did you mean `skerry help %s`?" : "`skerry help` lists them all",
		 near ? near : "");
	return report_err(&err);
}

static int run_help(struct cli *cli, const struct cli_args *args)
{
	struct help_style style = { style_on(stdout, STYLE_BOLD), style_off(stdout) };
	_cleanup_buf_ struct buf name = BUF_INIT, out = BUF_INIT;
	_cleanup_json_ json_t *json = NULL;

	for (size_t i = 0; i < args->n_operands; i++)
		buf_printf(&name, "%s%s", i ? " " : "", args->operands[i]);
	if (cli->json) {
		json = help_json(buf_str(&name));
		return json ? print_json(json) : report_no_help(buf_str(&name));
	}
	if (name.len == 0)
		help_overview(&style, &out);
	else if (append_matching(buf_str(&name), &style, &out) == 0)
		return report_no_help(buf_str(&name));
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
	.summary = "print the versions of this program and of the server",
	.options = version_options,
	.n_options = ARRAY_SIZE(version_options),
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
