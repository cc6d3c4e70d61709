/* Options and pieces that rows of several commands share. */
#pragma once

#include <jansson.h>

#include "cli/args.h"
#include "cli/cli.h"

#define CLI_SANDBOX_OPERAND                                                                        \
	{                                                                                          \
		.name = "SANDBOX", .help = "its id, or the name it was created with",              \
		.complete = CLI_COMPLETE_SANDBOX,                                                  \
	}

/* The --label options as an object; owned. */
json_t *cli_labels(const struct cli_args *args);
/* Egress rules as they are written: "open" is null, "none" the empty list, each alone. CLI_OK and
 * an owned value, or an exit code, reported. */
int cli_rules(const char *const *words, size_t n, json_t **ret);
