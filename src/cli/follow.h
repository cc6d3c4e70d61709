/*
 * A stream of what happens (server-sent events with numbers), followed for as long as the caller
 * likes: one that breaks is taken up again where it was, also over a restart of the server.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "cli/cli.h"

struct cli_follow {
	const char *route;  /* "/v1/events" */
	const char *filter; /* further parameters, each after a '&'; "" */
	const char *number; /* the member of each that says where to go on: "id" */
	int64_t cursor;	    /* negative: from now on */
	/* One of them; name is its type, "gap" among them. Not CLI_OK: that is the end. */
	int (*take)(void *arg, const char *name, const json_t *data);
	void *arg;
};

/* Returns when it cannot go on: an exit code, reported. */
int cli_follow(struct cli *cli, const struct cli_follow *what);
