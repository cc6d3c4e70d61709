/*
 * A command in a sandbox, live: its output comes as it is written, our stdin goes in, Ctrl-C
 * reaches it, and a lost connection is taken up again where it broke.
 */
#pragma once

#include <stdbool.h>

#include "base/json.h"
#include "cli/cli.h"

struct exec_live_config {
	struct cli *cli;
	const char *sandbox;	  /* as the user named it, for messages */
	const char *sandbox_path; /* "/v1/sandboxes/<id>" */
	const json_t *request;	  /* body of POST …/exec; NULL: take up exec_id */
	const char *exec_id;
	bool input; /* our stdin is the command's */
};

/* Returns the command's exit code, or one of ours with a message on stderr. */
int exec_live(const struct exec_live_config *config);

/* The exit code of a finished command from its result, as a shell would have it. */
int exec_exit_code(const json_t *result);
