/* Texts made from the table of commands. Pure: they are appended to a buffer. */
#pragma once

#include <jansson.h>

#include "base/buf.h"
#include "cli/cli.h"

struct help_style {
	const char *bold, *off; /* escape sequences or "" */
};

void help_overview(const struct help_style *style, struct buf *out);
void help_command(const struct cli_command *command, const struct help_style *style,
		  struct buf *out);
/* "skerry exec [OPTIONS] SANDBOX [--] COMMAND…" */
void help_synopsis(const struct cli_command *command, struct buf *out);
/* The COMMANDS section of skerry(1) in man(7) macros. */
void help_troff(struct buf *out);
/* The same as JSON, of the command or group of this name, or of all (""); owned. NULL: there is
 * none.
 */
json_t *help_json(const char *name);
