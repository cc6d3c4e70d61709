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
