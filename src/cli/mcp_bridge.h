/*
 * MCP over stdio for clients that cannot send headers: each line on stdin is a message, posted to
 * the server; what comes back is a line on stdout.
 */
#pragma once

#include "cli/client.h"

struct mcp_bridge_config {
	struct client *client;
	const char *url;  /* for messages */
	const char *path; /* "/mcp", perhaps with a query */
};

/* Until stdin ends. Returns an exit code. */
int mcp_bridge_run(const struct mcp_bridge_config *config);
