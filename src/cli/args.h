/*
 * Command lines against the table: which command is meant, its options (values checked by type) and
 * operands. Pure: prints nothing and reads nothing but argv.
 *
 * Options may stand before and after operands, as `--name VALUE`, `--name=VALUE`, `-n VALUE` or
 * `-nVALUE`; flags with a letter may be joined. `--` ends the options. A command with takes_rest
 * has its own command line at the end: it begins after `--` or at the first word past the operands,
 * and nothing in it is read as an option of ours.
 */
#pragma once

#include "base/err.h"
#include "cli/cli.h"

struct cli_given {
	const struct cli_option *option;
	const char *text; /* NULL for flags; borrowed from argv */
	int64_t number;	  /* CLI_INTEGER, CLI_MINUTES (minutes), CLI_MILLIS (milliseconds) */
};

struct cli_args {
	const struct cli_command *command; /* NULL: none was named (only common options) */
	struct cli_given *given;
	size_t n_given;
	const char **operands;
	size_t n_operands;
	const char *const *rest;
	size_t n_rest;
};

void cli_args_clear(struct cli_args *args);

/* Parses argv[1 … argc-1]; err (code "usage") names the word that is wrong and, in its hint, what
 * is allowed. ret is filled on failure too where the command was recognised, so that the caller can
 * point at its help; clear it in every case. --help makes missing operands acceptable. */
int cli_args_parse(int argc, const char *const *argv, struct cli_args *ret, struct err *err);

bool cli_args_has(const struct cli_args *args, const char *option);
/* The last one given; fallback when there is none. */
const char *cli_args_text(const struct cli_args *args, const char *option, const char *fallback);
int64_t cli_args_number(const struct cli_args *args, const char *option, int64_t fallback);
