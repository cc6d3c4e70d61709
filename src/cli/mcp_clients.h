/* What to paste where, so that an MCP client finds a server. Pure. */
#pragma once

#include "base/buf.h"

struct mcp_client {
	const char *name;	   /* as --client takes it */
	const char *place;	   /* where the text belongs */
	const char *key_reference; /* the client's own way to name the key without showing it */
	const char *config;
};

/* Borrowed; NULL when it is not known. */
const struct mcp_client *mcp_client_find(const char *name);
/* Appends the configuration for the server at url. key NULL: it is named, not shown. */
void mcp_client_config(const struct mcp_client *client, const char *url, const char *key,
		       struct buf *out);
