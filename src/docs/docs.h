/*
 * The pages of docs/, put into the program when it is built, as they are in the repository. The
 * first is llms.txt, the index; the others are in its order. api/docs.c fills in what this server
 * has and serves them. Data alone; made by ./embed.
 */
#pragma once

#include <stddef.h>

struct docs_page {
	const char *name; /* "llms.txt", "egress.md" */
	const char *text; /* not terminated */
	size_t len;
};

extern const struct docs_page docs_pages[];
extern const size_t n_docs_pages;
