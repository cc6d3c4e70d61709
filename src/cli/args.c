/* Command lines against the table of commands. See args.h for the grammar. */
#include "cli/args.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "cli/suggest.h"
#include "cli/units.h"

struct parser {
	const char *const *argv;
	size_t argc, at;
	struct cli_args *args;
	struct err *err;
	bool options_ended;
};

void cli_args_clear(struct cli_args *args)
{
	free(args->given);
	free(args->operands);
	*args = (struct cli_args){ 0 };
}

/* ---- which command ---- */

static bool is_group(const char *word)
{
	size_t n, len = strlen(word);
	const struct cli_command *const *commands = cli_commands(&n);

	for (size_t i = 0; i < n; i++)
		if (strncmp(commands[i]->name, word, len) == 0 && commands[i]->name[len] == ' ')
			return true;
	return false;
}

static const struct cli_command *find_command(const char *group, const char *word)
{
	_cleanup_free_ char *name = group ? xasprintf("%s %s", group, word) : xstrdup(word);
	size_t n;
	const struct cli_command *const *commands = cli_commands(&n);

	for (size_t i = 0; i < n; i++)
		if (str_eq(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static int unknown_command(struct parser *p, const char *group, const char *word)
{
	_cleanup_free_ char *name = group ? xasprintf("%s %s", group, word) : xstrdup(word);
	const char *near = suggest_command(name);

	err_code(p->err, -EINVAL, "usage", "there is no command '%s'", name);
	if (near)
		err_hint(p->err, "did you mean `skerry %s`? `skerry help` lists them all", near);
	else
		err_hint(p->err, "`skerry help` lists the commands");
	return -EINVAL;
}

/* ---- options ---- */

static const struct cli_option *find_in(const struct cli_option *options, size_t n,
					const char *name, size_t len, char letter)
{
	for (size_t i = 0; i < n; i++) {
		if (letter ? options[i].letter == letter
			   : strlen(options[i].name) == len &&
				     strncmp(options[i].name, name, len) == 0)
			return &options[i];
	}
	return NULL;
}

/* By name (letter '\0') or by letter: the command's own first, then the common ones. */
static const struct cli_option *find_option(const struct cli_command *command, const char *name,
					    size_t len, char letter)
{
	const struct cli_option *found = NULL, *common;
	size_t n;

	if (command)
		found = find_in(command->options, command->n_options, name, len, letter);
	common = cli_common_options(&n);
	return found ? found : find_in(common, n, name, len, letter);
}

static int unknown_option(struct parser *p, const char *shown, size_t len)
{
	const char *command = p->args->command ? p->args->command->name : NULL;
	const char *near = suggest_option(p->args->command, shown, len);

	err_code(p->err, -EINVAL, "usage", "there is no option '%.*s'%s%s", (int)len, shown,
		 command ? " of skerry " : "", command ? command : "");
	if (near)
		err_hint(p->err, "did you mean --%s?", near);
	else
		err_hint(p->err, "`skerry %s%s--help` lists the options", command ? command : "",
			 command ? " " : "");
	return -EINVAL;
}

static int check_choice(struct parser *p, const char *what, const char *const *choices,
			const char *text)
{
	struct suggestion nearest = suggest_begin(text);
	_cleanup_buf_ struct buf list = BUF_INIT;

	for (size_t i = 0; choices[i]; i++) {
		if (str_eq(choices[i], text))
			return 0;
		suggest_consider(&nearest, choices[i]);
		buf_printf(&list, "%s%s", i ? ", " : "", choices[i]);
	}
	err_code(p->err, -EINVAL, "usage", "%s cannot be '%s'", what, text);
	if (nearest.word)
		err_hint(p->err, "did you mean '%s'? it is one of: %s", nearest.word,
			 buf_str(&list));
	else
		err_hint(p->err, "it is one of: %s", buf_str(&list));
	return -EINVAL;
}

static int read_integer(struct parser *p, const struct cli_option *option, const char *text,
			int64_t *ret)
{
	int64_t value;
	int r = str_to_i64(text, &value);

	if (r == 0 && value >= option->min && value <= option->max) {
		*ret = value;
		return 0;
	}
	return err_code(p->err, -EINVAL, "usage",
			"--%s is '%s', not a whole number from %lld to %lld", option->name, text,
			(long long)option->min, (long long)option->max);
}

static int read_duration(struct parser *p, const struct cli_option *option, const char *text,
			 int64_t *ret)
{
	int64_t ms;
	int r = duration_parse(text, &ms);

	if (r < 0) {
		err_code(p->err, -EINVAL, "usage", "--%s is '%s', not a duration", option->name,
			 text);
		err_hint(p->err, "write a number and a unit: %s",
			 option->type == CLI_MINUTES ? "15m, 2h" : "500ms, 30s, 15m, 2h");
		return -EINVAL;
	}
	if (option->type == CLI_MINUTES && ms % 60000 != 0)
		return err_code(p->err, -EINVAL, "usage",
				"--%s is '%s', not a whole number of minutes", option->name, text);
	*ret = option->type == CLI_MINUTES ? ms / 60000 : ms;
	return 0;
}

static int read_value(struct parser *p, const struct cli_option *option, const char *text,
		      int64_t *ret)
{
	_cleanup_free_ char *shown = xasprintf("--%s", option->name);
	const char *equals;
	char *end;

	if (option->choices)
		return check_choice(p, shown, option->choices, text);
	switch (option->type) {
	case CLI_INTEGER:
		return read_integer(p, option, text, ret);
	case CLI_MINUTES:
	case CLI_MILLIS:
		return read_duration(p, option, text, ret);
	case CLI_NUMBER:
		if (text[0] < '0' || text[0] > '9' || (strtod(text, &end), *end != '\0'))
			return err_code(p->err, -EINVAL, "usage", "--%s is '%s', not a number",
					option->name, text);
		return 0;
	case CLI_PAIR:
		equals = strchr(text, '=');
		if (!equals || equals == text)
			return err_code(p->err, -EINVAL, "usage", "--%s is '%s', not %s",
					option->name, text, option->metavar);
		return 0;
	case CLI_FLAG:
	case CLI_TEXT:
		return 0;
	}
	return -EINVAL;
}

static int add_given(struct parser *p, const struct cli_option *option, const char *text)
{
	struct cli_args *args = p->args;
	int64_t number = 0;
	int r;

	if (text) {
		r = read_value(p, option, text, &number);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; !option->repeat && text && i < args->n_given; i++)
		if (args->given[i].option == option)
			return err_code(p->err, -EINVAL, "usage", "--%s is given twice",
					option->name);
	args->given = xrealloc(args->given, (args->n_given + 1) * sizeof(*args->given));
	args->given[args->n_given++] = (struct cli_given){ option, text, number };
	return 0;
}

/* The value that follows as its own word. A word that begins with '-' may be one: `--env A=-1`. */
static int take_value(struct parser *p, const struct cli_option *option, const char **ret)
{
	if (p->at + 1 >= p->argc) {
		err_code(p->err, -EINVAL, "usage", "--%s needs a value", option->name);
		err_hint(p->err, "--%s %s", option->name, option->metavar);
		return -EINVAL;
	}
	*ret = p->argv[++p->at];
	return 0;
}

static int long_option(struct parser *p, const char *word)
{
	const char *name = word + 2, *equals = strchr(name, '=');
	size_t len = equals ? (size_t)(equals - name) : strlen(name);
	const struct cli_option *option = find_option(p->args->command, name, len, '\0');
	const char *text = equals ? equals + 1 : NULL;
	int r;

	if (!option)
		return unknown_option(p, word, len + 2);
	if (option->type == CLI_FLAG && equals)
		return err_code(p->err, -EINVAL, "usage", "--%s takes no value", option->name);
	if (option->type != CLI_FLAG && !equals) {
		r = take_value(p, option, &text);
		if (r < 0)
			return r;
	}
	return add_given(p, option, text);
}

/* "-q", "-qa", "-n VALUE", "-nVALUE". */
static int short_options(struct parser *p, const char *word)
{
	for (const char *at = word + 1; *at; at++) {
		const struct cli_option *option = find_option(p->args->command, NULL, 0, *at);
		const char shown[3] = { '-', *at, '\0' };
		const char *text;
		int r;

		if (!option)
			return unknown_option(p, shown, 2);
		if (option->type == CLI_FLAG) {
			r = add_given(p, option, NULL);
			if (r < 0)
				return r;
			continue;
		}
		text = at + 1;
		r = *text ? 0 : take_value(p, option, &text);
		return r < 0 ? r : add_given(p, option, text);
	}
	return 0;
}

/* ---- operands ---- */

static int check_operands(struct parser *p)
{
	const struct cli_command *command = p->args->command;
	size_t n = p->args->n_operands;

	if (cli_args_has(p->args, "help"))
		return 0;
	for (size_t i = n; i < command->n_operands; i++) {
		if (command->operands[i].optional)
			continue;
		err_code(p->err, -EINVAL, "usage", "skerry %s needs %s", command->name,
			 command->operands[i].name);
		err_hint(p->err, "%s: %s", command->operands[i].name, command->operands[i].help);
		return -EINVAL;
	}
	for (size_t i = 0; i < n; i++) {
		const struct cli_operand *operand;

		operand = &command->operands[i < command->n_operands ? i : command->n_operands - 1];
		if (operand->choices) {
			int r = check_choice(p, operand->name, operand->choices,
					     p->args->operands[i]);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

static bool accepts_operand(const struct cli_args *args)
{
	const struct cli_command *command = args->command;

	if (args->n_operands < command->n_operands)
		return true;
	return command->n_operands > 0 && command->operands[command->n_operands - 1].repeat;
}

/* A word that is neither an option nor its value. Returns 1 when the rest begins here. */
static int word_operand(struct parser *p, const char *word)
{
	struct cli_args *args = p->args;

	if (!accepts_operand(args)) {
		if (args->command->takes_rest)
			return 1;
		err_code(p->err, -EINVAL, "usage", "skerry %s does not take '%s'",
			 args->command->name, word);
		err_hint(p->err, "`skerry %s --help` shows what it takes", args->command->name);
		return -EINVAL;
	}
	args->operands = xrealloc(args->operands, (args->n_operands + 1) * sizeof(*args->operands));
	args->operands[args->n_operands++] = word;
	return 0;
}

/* "image --help" is "help image". */
static int group_help(struct parser *p, const char *group)
{
	p->at++;
	p->args->command = find_command(NULL, "help");
	return word_operand(p, group);
}

static int needs_command(struct parser *p, const char *group)
{
	_cleanup_buf_ struct buf list = BUF_INIT;
	const struct cli_command *const *commands;
	size_t n, len = strlen(group);

	commands = cli_commands(&n);
	for (size_t i = 0; i < n; i++) {
		const char *name = commands[i]->name;

		if (strncmp(name, group, len) == 0 && name[len] == ' ')
			buf_printf(&list, "%s%s", list.len ? ", " : "", name + len + 1);
	}
	err_code(p->err, -EINVAL, "usage", "skerry %s needs a command: %s", group, buf_str(&list));
	err_hint(p->err, "`skerry help %s` shows what they do", group);
	return -EINVAL;
}

static int word_command(struct parser *p, const char *word)
{
	const char *next = p->at + 1 < p->argc ? p->argv[p->at + 1] : NULL;
	const char *group = NULL;

	/* "mcp" is a command, and "mcp config" another */
	p->args->command = next ? find_command(word, next) : NULL;
	if (p->args->command) {
		p->at++;
		return 0;
	}
	p->args->command = find_command(NULL, word);
	if (!p->args->command && is_group(word)) {
		group = word;
		if (next && (str_eq(next, "--help") || str_eq(next, "-h")))
			return group_help(p, word);
		if (!next || next[0] == '-')
			return needs_command(p, word);
		word = p->argv[++p->at];
		p->args->command = find_command(group, word);
	}
	return p->args->command ? 0 : unknown_command(p, group, word);
}

static void take_rest(struct parser *p)
{
	p->args->rest = p->argv + p->at;
	p->args->n_rest = p->argc - p->at;
	p->at = p->argc;
}

static int parse_word(struct parser *p, const char *word)
{
	int r;

	if (!p->options_ended && str_eq(word, "--")) {
		p->options_ended = true;
		if (p->args->command && p->args->command->takes_rest) {
			p->at++;
			take_rest(p);
		}
		return 0;
	}
	if (!p->options_ended && str_starts(word, "--"))
		return long_option(p, word);
	if (!p->options_ended && word[0] == '-' && word[1])
		return short_options(p, word);
	if (!p->args->command)
		return word_command(p, word);
	r = word_operand(p, word);
	if (r == 1) {
		take_rest(p);
		r = 0;
	}
	return r;
}

int cli_args_parse(int argc, const char *const *argv, struct cli_args *ret, struct err *err)
{
	struct parser p = { .argv = argv, .argc = (size_t)argc, .at = 1, .args = ret, .err = err };

	*ret = (struct cli_args){ 0 };
	for (; p.at < p.argc; p.at++) {
		int r = parse_word(&p, p.argv[p.at]);

		if (r < 0)
			return r;
	}
	return ret->command ? check_operands(&p) : 0;
}

/* ---- asking ---- */

static const struct cli_given *last_given(const struct cli_args *args, const char *option)
{
	for (size_t i = args->n_given; i > 0; i--)
		if (str_eq(args->given[i - 1].option->name, option))
			return &args->given[i - 1];
	return NULL;
}

bool cli_args_has(const struct cli_args *args, const char *option)
{
	return last_given(args, option) != NULL;
}

const char *cli_args_text(const struct cli_args *args, const char *option, const char *fallback)
{
	const struct cli_given *given = last_given(args, option);

	return given && given->text ? given->text : fallback;
}

int64_t cli_args_number(const struct cli_args *args, const char *option, int64_t fallback)
{
	const struct cli_given *given = last_given(args, option);

	return given ? given->number : fallback;
}
