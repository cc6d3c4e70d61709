/* --help and the manual page, made from the table of commands. */
#include "cli/help.h"

#include <string.h>

#include "base/str.h"
#include "cli/table.h"

#define WRAP	       78
#define OPTION_COLUMN  28
#define COMMAND_COLUMN 19

/* ---- pieces ---- */

static void pad(struct buf *out, size_t from, size_t to)
{
	for (; from < to; from++)
		buf_append_char(out, ' ');
}

/* Words of text, wrapped, each further line indented. column is where the first line stands. */
static void wrap(struct buf *out, const char *text, size_t column, size_t indent)
{
	bool first = true;

	while (*text) {
		size_t len = strcspn(text, " \n");
		size_t width = 0;

		for (size_t i = 0; i < len; i++)
			width += ((unsigned char)text[i] & 0xc0) != 0x80;
		if (!first && column + 1 + width > WRAP) {
			buf_append_char(out, '\n');
			pad(out, 0, indent);
			column = indent;
		} else if (!first) {
			buf_append_char(out, ' ');
			column++;
		}
		buf_append(out, text, len);
		column += width;
		first = false;
		text += len;
		if (strncmp(text, "\n\n", 2) == 0) {
			buf_append_str(out, "\n\n");
			column = 0;
			first = true;
		}
		text += strspn(text, " \n");
	}
	buf_append_char(out, '\n');
}

static void option_term(const struct cli_option *option, struct buf *out)
{
	if (option->letter)
		buf_printf(out, "-%c, ", option->letter);
	buf_printf(out, "--%s", option->name);
	if (option->metavar)
		buf_printf(out, " %s", option->metavar);
}

static void section(const char *title, const struct help_style *style, struct buf *out)
{
	buf_printf(out, "\n%s%s%s\n", style->bold, title, style->off);
}

static void row(const char *term, const char *help, size_t help_column, struct buf *out)
{
	size_t width = text_width(term);

	buf_append_str(out, "  ");
	buf_append_str(out, term);
	if (2 + width + 2 > help_column) {
		buf_append_char(out, '\n');
		pad(out, 0, help_column);
	} else {
		pad(out, 2 + width, help_column);
	}
	wrap(out, help, help_column, help_column);
}

static void options_section(const char *title, const struct cli_option *options, size_t n,
			    const struct help_style *style, struct buf *out)
{
	if (n == 0)
		return;
	section(title, style, out);
	for (size_t i = 0; i < n; i++) {
		_cleanup_buf_ struct buf term = BUF_INIT;

		option_term(&options[i], &term);
		row(buf_str(&term), options[i].help, OPTION_COLUMN, out);
	}
}

/* ---- --help ---- */

void help_synopsis(const struct cli_command *command, struct buf *out)
{
	buf_printf(out, "skerry %s [OPTIONS]", command->name);
	for (size_t i = 0; i < command->n_operands; i++) {
		const struct cli_operand *operand = &command->operands[i];

		buf_printf(out, operand->optional ? " [%s%s]" : " %s%s", operand->name,
			   operand->repeat ? "…" : "");
	}
	if (command->takes_rest)
		buf_append_str(out, " [--] COMMAND…");
}

void help_command(const struct cli_command *command, const struct help_style *style,
		  struct buf *out)
{
	const struct cli_option *common;
	size_t n_common;

	help_synopsis(command, out);
	buf_printf(out, "\n\n%s\n", command->summary);
	if (command->detail) {
		buf_append_char(out, '\n');
		wrap(out, command->detail, 0, 0);
	}
	if (command->n_operands)
		section("Arguments", style, out);
	for (size_t i = 0; i < command->n_operands; i++)
		row(command->operands[i].name, command->operands[i].help, OPTION_COLUMN, out);
	options_section("Options", command->options, command->n_options, style, out);
	common = cli_common_options(&n_common);
	options_section("Common options", common, n_common, style, out);
	section("Examples", style, out);
	for (size_t i = 0; i < command->n_examples; i++)
		buf_printf(out, "  # %s\n  %s\n", command->examples[i].what,
			   command->examples[i].command);
}

void help_overview(const struct help_style *style, struct buf *out)
{
	const struct cli_option *common;
	const struct cli_command *const *commands;
	size_t n, n_common;

	buf_append_str(out, "skerry COMMAND [OPTIONS] [ARGUMENTS]\n\n"
			    "Linux microVMs for agents, from the command line.\n");
	section("Commands", style, out);
	commands = cli_commands(&n);
	for (size_t i = 0; i < n; i++)
		row(commands[i]->name, commands[i]->summary, COMMAND_COLUMN, out);
	common = cli_common_options(&n_common);
	options_section("Common options", common, n_common, style, out);
	section("Environment", style, out);
	row("SKERRY_URL", "the server (default: " CLI_DEFAULT_URL ")", COMMAND_COLUMN, out);
	row("SKERRY_API_KEY",
	    "the key (default, for a server on this machine: the one in " CLI_DEFAULT_KEY_FILE
	    ", where it may be read)",
	    COMMAND_COLUMN, out);
	row("SKERRY_CA_FILE", "certificates to trust instead of the system's", COMMAND_COLUMN, out);
	row("NO_COLOR", "no colours, unless SKERRY_COLOR or --color says so", COMMAND_COLUMN, out);
	section("Exit codes", style, out);
	row("0 1 2", "ok, failed, usage", COMMAND_COLUMN, out);
	row("3 4 5", "not found, denied, a limit reached", COMMAND_COLUMN, out);
	row("exec", "the command's own", COMMAND_COLUMN, out);
	section("Examples", style, out);
	buf_append_str(out, "  id=$(skerry create)\n"
			    "  skerry exec $id -- uname -a\n"
			    "  skerry rm $id\n"
			    "  skerry help exec\n");
}

/* ---- man(7) ---- */

/* Text that troff takes literally. */
static void troff_text(const char *text, struct buf *out)
{
	bool line_start = true;

	for (; *text; text++) {
		if (line_start && (*text == '.' || *text == '\''))
			buf_append_str(out, "\\&");
		line_start = *text == '\n';
		if (*text == '\\')
			buf_append_str(out, "\\e");
		else if (*text == '-')
			buf_append_str(out, "\\-");
		else if (*text == '\'')
			buf_append_str(out, "\\(aq");
		else if (*text == '`')
			buf_append_str(out, "\\(ga");
		else if (strncmp(text, "…", strlen("…")) == 0) {
			buf_append_str(out, "...");
			text += strlen("…") - 1;
		} else {
			buf_append_char(out, *text);
		}
	}
}

static void troff_paragraph(const char *text, struct buf *out)
{
	_cleanup_buf_ struct buf paragraph = BUF_INIT;
	const char *gap;

	while ((gap = strstr(text, "\n\n")) != NULL) {
		buf_reset(&paragraph);
		buf_append(&paragraph, text, (size_t)(gap - text));
		troff_text(buf_str(&paragraph), out);
		buf_append_str(out, "\n.PP\n");
		text = gap + 2;
	}
	troff_text(text, out);
	buf_append_char(out, '\n');
}

static void troff_option(const struct cli_option *option, struct buf *out)
{
	_cleanup_buf_ struct buf term = BUF_INIT;

	if (option->letter)
		buf_printf(&term, "-%c, ", option->letter);
	buf_printf(&term, "--%s", option->name);
	buf_append_str(out, ".TP\n\\fB");
	troff_text(buf_str(&term), out);
	buf_append_str(out, "\\fR");
	if (option->metavar)
		buf_printf(out, " \\fI%s\\fR", option->metavar);
	buf_append_char(out, '\n');
	troff_paragraph(option->help, out);
}

static void troff_command(const struct cli_command *command, struct buf *out)
{
	_cleanup_buf_ struct buf synopsis = BUF_INIT;

	help_synopsis(command, &synopsis);
	buf_append_str(out, ".SS \"");
	troff_text(buf_str(&synopsis), out);
	buf_append_str(out, "\"\n");
	troff_paragraph(command->summary, out);
	if (command->detail) {
		buf_append_str(out, ".PP\n");
		troff_paragraph(command->detail, out);
	}
	for (size_t i = 0; i < command->n_operands; i++) {
		buf_printf(out, ".TP\n\\fI%s\\fR\n", command->operands[i].name);
		troff_paragraph(command->operands[i].help, out);
	}
	for (size_t i = 0; i < command->n_options; i++)
		troff_option(&command->options[i], out);
	buf_append_str(out, ".PP\nExamples:\n.PP\n.RS 4\n.nf\n");
	for (size_t i = 0; i < command->n_examples; i++) {
		buf_append_str(out, "# ");
		troff_text(command->examples[i].what, out);
		buf_append_char(out, '\n');
		troff_text(command->examples[i].command, out);
		buf_append_char(out, '\n');
	}
	buf_append_str(out, ".fi\n.RE\n");
}

void help_troff(struct buf *out)
{
	const struct cli_command *const *commands;
	const struct cli_option *common;
	size_t n;

	buf_append_str(out, ".SH \"COMMON OPTIONS\"\n");
	common = cli_common_options(&n);
	for (size_t i = 0; i < n; i++)
		troff_option(&common[i], out);
	buf_append_str(out, ".SH COMMANDS\n");
	commands = cli_commands(&n);
	for (size_t i = 0; i < n; i++)
		troff_command(commands[i], out);
}
