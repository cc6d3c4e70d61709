/*
 * Completion scripts. Each is a table in the shell's own words plus a short, fixed piece that reads
 * it; bash and zsh read the same table. Ids and names are asked of the server at the moment
 * (complete_words.h).
 */
#include "cli/completion.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "cli/cli.h"
#include "cli/complete_words.h"
#include "cli/quote.h"

/* The command that prints what there is at the moment; false: nothing is to be asked. */
static bool append_source(enum cli_complete complete, struct buf *out)
{
	const char *what = complete_words_of(complete);

	if (what)
		buf_printf(out, "skerry " COMPLETE_WORDS_OPTION " %s 2>/dev/null", what);
	return what != NULL;
}

static void append_choices(const char *const *choices, struct buf *out)
{
	for (size_t i = 0; choices && choices[i]; i++)
		buf_printf(out, "%s%s", i ? " " : "", choices[i]);
}

/* Calls fn for the command's own options and then the common ones. */
static void each_option(const struct cli_command *command,
			void (*fn)(const struct cli_command *command,
				   const struct cli_option *option, struct buf *out),
			struct buf *out)
{
	const struct cli_option *common;
	size_t n;

	for (size_t i = 0; i < command->n_options; i++)
		fn(command, &command->options[i], out);
	common = cli_common_options(&n);
	for (size_t i = 0; i < n; i++)
		fn(command, &common[i], out);
}

/* The first word of every command, each once. */
static void append_first_words(struct buf *out)
{
	const struct cli_command *const *commands;
	size_t n;
	const char *last = "";
	size_t last_len = 0;

	commands = cli_commands(&n);
	for (size_t i = 0; i < n; i++) {
		size_t len = strcspn(commands[i]->name, " ");

		if (len == last_len && strncmp(commands[i]->name, last, len) == 0)
			continue;
		buf_printf(out, "%s%.*s", i ? " " : "", (int)len, commands[i]->name);
		last = commands[i]->name;
		last_len = len;
	}
}

/* ---- bash and zsh (through bashcompinit) ---- */

static void bash_option_name(const struct cli_command *command, const struct cli_option *option,
			     struct buf *out)
{
	(void)command;
	buf_printf(out, " --%s", option->name);
	if (option->letter)
		buf_printf(out, " -%c", option->letter);
}

static void bash_source(enum cli_complete complete, struct buf *out)
{
	_cleanup_buf_ struct buf source = BUF_INIT;

	if (append_source(complete, &source))
		buf_printf(out, "$(%s) ", buf_str(&source));
}

/* One case of what follows an option. */
static void bash_option_value(const struct cli_command *command, const struct cli_option *option,
			      struct buf *out)
{
	if (option->type == CLI_FLAG)
		return;
	buf_printf(out, "\t'%s --%s'", command->name, option->name);
	if (option->letter)
		buf_printf(out, "|'%s -%c'", command->name, option->letter);
	buf_append_str(out, ") list=\"");
	bash_source(option->complete, out);
	append_choices(option->choices, out);
	buf_append_str(out, "\"; value=1 ;;\n");
}

/* "image" is followed by "build ls rm"; "mcp", a command of its own, by "config" too. */
static void append_group(const char *group, size_t len, struct buf *out)
{
	const struct cli_command *const *commands;
	size_t n;

	commands = cli_commands(&n);
	for (size_t i = 0; i < n; i++) {
		const char *name = commands[i]->name;

		if (strncmp(name, group, len) == 0 && name[len] == ' ')
			buf_printf(out, "%s ", name + len + 1);
	}
}

static void bash_operands(const struct cli_command *command, struct buf *out)
{
	buf_printf(out, "\t'%s') list=\"", command->name);
	append_group(command->name, strlen(command->name), out);
	for (size_t i = 0; i < command->n_operands; i++) {
		const struct cli_operand *operand = &command->operands[i];

		if (i == 0 || operand->complete != operand[-1].complete)
			bash_source(operand->complete, out);
		if (operand->complete == CLI_COMPLETE_COMMAND)
			append_first_words(out);
		append_choices(operand->choices, out);
	}
	buf_append_str(out, "\" options=\"");
	each_option(command, bash_option_name, out);
	buf_append_str(out, "\" ;;\n");
}

/* Cases for the groups; what is a command too has come before, and the first case counts. */
static void bash_groups(struct buf *out)
{
	const struct cli_command *const *commands;
	size_t n;

	commands = cli_commands(&n);
	for (size_t i = 0; i < n; i++) {
		size_t len = strcspn(commands[i]->name, " ");

		if (!commands[i]->name[len] ||
		    (i > 0 && strncmp(commands[i]->name, commands[i - 1]->name, len + 1) == 0))
			continue;
		buf_printf(out, "\t'%.*s') list=\"", (int)len, commands[i]->name);
		append_group(commands[i]->name, len, out);
		buf_append_str(out, "\" options=\"--help\" ;;\n");
	}
}

static const char bash_head[] =
	"# bash completion of skerry; load it with: source <(skerry completion bash)\n"
	"_skerry()\n"
	"{\n"
	"\tlocal cur=\"${COMP_WORDS[COMP_CWORD]}\" prev=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
	"\tlocal command=\"\" word list=\"\" options=\"\" value=\"\" i\n"
	"\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
	"\t\tword=\"${COMP_WORDS[i]}\"\n"
	"\t\t[[ \"$word\" == -- ]] && return\n"
	"\t\t[[ \"$word\" == -* ]] && continue\n"
	"\t\tcase \"$command\" in\n";

static const char bash_middle[] = "\t\t'') command=\"$word\" ;;\n"
				  "\t\tesac\n"
				  "\tdone\n"
				  "\tcase \"$command $prev\" in\n";

static const char bash_tail[] =
	"\tesac\n"
	"\tif [[ -z \"$value\" && \"$cur\" == -* ]]; then list=\"$options\"; fi\n"
	"\tmapfile -t COMPREPLY < <(compgen -W \"$list\" -- \"$cur\")\n"
	"}\n"
	"complete -o default -F _skerry skerry\n";

/* Sourced after compinit, or found as _skerry in $fpath, which makes its text the function's. */
static const char zsh_head[] =
	"#compdef skerry\n"
	"# zsh completion of skerry; load it after compinit with: source <(skerry completion zsh)\n"
	"_skerry()\n"
	"{\n"
	"\temulate -L zsh\n"
	"\tlocal cur=\"${words[CURRENT]}\" prev=\"${words[CURRENT-1]}\"\n"
	"\tlocal command=\"\" word list=\"\" options=\"\" value=\"\" i\n"
	"\tfor ((i = 2; i < CURRENT; i++)); do\n"
	"\t\tword=\"${words[i]}\"\n"
	"\t\t[[ \"$word\" == -- ]] && { _files; return }\n"
	"\t\t[[ \"$word\" == -* ]] && continue\n"
	"\t\tcase \"$command\" in\n";

static const char zsh_tail[] =
	"\tesac\n"
	"\tif [[ -z \"$value\" && \"$cur\" == -* ]]; then list=\"$options\"; fi\n"
	"\tif [[ -n \"$list\" ]]; then compadd -- ${=list}; else _files; fi\n"
	"}\n"
	"if [[ \"${funcstack[1]}\" == _skerry ]]; then\n"
	"\t_skerry \"$@\"\n"
	"elif (( ${+functions[compdef]} )); then\n"
	"\tcompdef _skerry skerry\n"
	"fi\n";

static void bash_group_words(struct buf *out)
{
	const struct cli_command *const *commands;
	size_t n;

	commands = cli_commands(&n);
	for (size_t i = 0; i < n; i++) {
		size_t len = strcspn(commands[i]->name, " ");

		if (commands[i]->name[len] &&
		    (i == 0 || strncmp(commands[i]->name, commands[i - 1]->name, len + 1) != 0))
			buf_printf(out, "\t\t%.*s) command=\"$command $word\" ;;\n", (int)len,
				   commands[i]->name);
	}
}

static void bash(const char *head, const char *tail, struct buf *out)
{
	const struct cli_command *const *commands;
	const struct cli_option *common;
	size_t n, n_common;

	buf_append_str(out, head);
	bash_group_words(out);
	buf_append_str(out, bash_middle);
	commands = cli_commands(&n);
	for (size_t i = 0; i < n; i++)
		each_option(commands[i], bash_option_value, out);
	buf_append_str(out, "\tesac\n\tif [[ -z \"$value\" ]]; then case \"$command\" in\n"
			    "\t'') list=\"");
	append_first_words(out);
	buf_append_str(out, "\" options=\"");
	common = cli_common_options(&n_common);
	for (size_t i = 0; i < n_common; i++)
		bash_option_name(NULL, &common[i], out);
	buf_append_str(out, "\" ;;\n");
	for (size_t i = 0; i < n; i++)
		bash_operands(commands[i], out);
	bash_groups(out);
	buf_append_str(out, "\tesac; fi\n");
	buf_append_str(out, tail + strlen("\tesac\n"));
}

/* ---- fish ---- */

static void fish_condition(const struct cli_command *command, struct buf *out)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	const char *space = strchr(command->name, ' ');

	if (space)
		buf_printf(&text,
			   "__fish_seen_subcommand_from %.*s; and __fish_seen_subcommand_from %s",
			   (int)(space - command->name), command->name, space + 1);
	else
		buf_printf(&text, "__fish_seen_subcommand_from %s", command->name);
	buf_append_str(out, "complete -c skerry -n ");
	shell_quote(buf_str(&text), out);
}

static void fish_words(const char *const *choices, enum cli_complete complete, struct buf *out)
{
	_cleanup_buf_ struct buf words = BUF_INIT, source = BUF_INIT;

	if (append_source(complete, &source))
		buf_printf(&words, "(%s)", buf_str(&source));
	if (complete == CLI_COMPLETE_COMMAND)
		append_first_words(&words);
	append_choices(choices, &words);
	if (words.len == 0)
		return;
	buf_append_str(out, " -a ");
	shell_quote(buf_str(&words), out);
}

static void fish_option(const struct cli_command *command, const struct cli_option *option,
			struct buf *out)
{
	fish_condition(command, out);
	buf_printf(out, " -l %s", option->name);
	if (option->letter)
		buf_printf(out, " -s %c", option->letter);
	if (option->type != CLI_FLAG)
		buf_append_str(out, " -x");
	fish_words(option->choices, option->complete, out);
	buf_append_str(out, " -d ");
	shell_quote(option->help, out);
	buf_append_char(out, '\n');
}

static void fish_command(const struct cli_command *command, struct buf *out)
{
	const char *space = strchr(command->name, ' ');
	_cleanup_buf_ struct buf group = BUF_INIT;

	if (space) {
		buf_append(&group, command->name, (size_t)(space - command->name));
		buf_printf(out, "complete -c skerry -n __fish_use_subcommand -a %s\n",
			   buf_str(&group));
		buf_printf(out, "complete -c skerry -n '__fish_seen_subcommand_from %s' -a %s -d ",
			   buf_str(&group), space + 1);
	} else {
		buf_printf(out, "complete -c skerry -n __fish_use_subcommand -a %s -d ",
			   command->name);
	}
	shell_quote(command->summary, out);
	buf_append_char(out, '\n');
	for (size_t i = 0; i < command->n_operands; i++) {
		const struct cli_operand *operand = &command->operands[i];

		if (operand->complete == CLI_COMPLETE_NONE && !operand->choices)
			continue;
		fish_condition(command, out);
		fish_words(operand->choices, operand->complete, out);
		buf_append_char(out, '\n');
	}
	each_option(command, fish_option, out);
}

static void fish(struct buf *out)
{
	const struct cli_command *const *commands;
	size_t n;

	buf_append_str(
		out, "# fish completion of skerry; load it with: skerry completion fish | source\n"
		     "complete -c skerry -f\n");
	commands = cli_commands(&n);
	for (size_t i = 0; i < n; i++)
		fish_command(commands[i], out);
}

int completion_script(const char *shell, struct buf *out)
{
	if (str_eq(shell, "bash")) {
		bash(bash_head, bash_tail, out);
	} else if (str_eq(shell, "zsh")) {
		bash(zsh_head, zsh_tail, out);
	} else if (str_eq(shell, "fish")) {
		fish(out);
	} else {
		return -EINVAL;
	}
	return 0;
}
