/*
 * A terminal in a sandbox, on ours: keys go in, output comes out, sizes follow, and a connection
 * that is lost is taken up again where it broke.
 */
#pragma once

#include <stdbool.h>

#include "cli/cli.h"

struct shell_config {
	const struct cli *cli;
	const char *sandbox;	  /* as the user named it, for messages */
	const char *sandbox_path; /* "/v1/sandboxes/<id>" */
	const char *terminal_id;  /* join this one; NULL: open one */
	/* of a new one, or NULL */
	const char *command, *user, *cwd;
};

/* Until the command there ends (its exit code), or the user leaves (0); stdin must be a terminal.
 */
int shell_run(const struct shell_config *config);

bool terminal_id_valid(const char *id);
