/*
 * skerry: the command line of a Skerry server.
 *
 * Start to end: parse argv against the table, show help if that is asked, find server and key, run
 * the command, flush. Everything a command says on stdout is its result.
 */
#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "base/version.h"
#include "cli/args.h"
#include "cli/complete_words.h"
#include "cli/help.h"
#include "cli/session.h"

static int show_help(const struct cli_command *command)
{
	struct help_style style = { style_on(stdout, STYLE_BOLD), style_off(stdout) };
	_cleanup_buf_ struct buf out = BUF_INIT;

	if (command)
		help_command(command, &style, &out);
	else
		help_overview(&style, &out);
	return output_write(buf_str(&out), out.len);
}

/* The build makes skerry(1) with `skerry --troff`, which is not for people and so in no table. */
static int show_troff(void)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	help_troff(&out);
	return output_write(buf_str(&out), out.len);
}

static int show_version(void)
{
	static const char line[] = "skerry " SKERRY_VERSION "\n";

	return output_write(line, sizeof(line) - 1);
}

static int run(const struct cli_args *args)
{
	struct cli cli = { .json = cli_args_has(args, "json"),
			   .quiet = cli_args_has(args, "quiet") };
	int code = session_open(&cli, args);

	if (code == CLI_OK)
		code = args->command->run(&cli, args);
	session_close(&cli);
	return code;
}

/* stdout may have been full or closed all along. */
static int flush(int code)
{
	if (fflush(stdout) == 0 || errno == EPIPE)
		return code;
	report_note("the output cannot be written: %s", strerror(errno));
	return code == CLI_OK ? CLI_FAILED : code;
}

int main(int argc, char **argv)
{
	struct err err = ERR_INIT;
	struct cli_args args;
	int code;

	signal(SIGPIPE, SIG_IGN);
	if (argc == 2 && str_eq(argv[1], "--troff"))
		return show_troff();
	if (argc == 3 && str_eq(argv[1], COMPLETE_WORDS_OPTION))
		return complete_words(argv[2]);
	if (argc == 2 && str_eq(argv[1], "--version"))
		return show_version();
	code = cli_args_parse(argc, (const char *const *)argv, &args, &err);
	if (cli_args_has(&args, "color"))
		setenv(STYLE_VARIABLE, cli_args_text(&args, "color", ""), 1);
	if (code < 0) {
		code = report_err(&err);
	} else if (cli_args_has(&args, "help")) {
		code = show_help(args.command);
	} else if (!args.command) {
		(void)show_help(NULL);
		code = CLI_USAGE;
	} else {
		code = run(&args);
	}
	cli_args_clear(&args);
	return flush(code);
}
