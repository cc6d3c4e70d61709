/* Options and pieces that rows of several commands share. */
#pragma once

#include "cli/cli.h"

#define CLI_SANDBOX_OPERAND                                                                        \
	{                                                                                          \
		.name = "SANDBOX", .help = "its id, or the name it was created with",              \
		.complete = CLI_COMPLETE_SANDBOX,                                                  \
	}
