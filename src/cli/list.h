/*
 * Lists of things that the server has, all shown alike: a table, ids alone with --quiet, and where
 * there is nothing a word on what makes one.
 */
#pragma once

#include <jansson.h>

#include "cli/cli.h"
#include "cli/table.h"

struct list_view {
	const struct table_column *columns;
	size_t n_columns;
	const char *id; /* the member that --quiet prints */
	/* The row or rows of one item. */
	void (*add)(struct table *table, const json_t *item);
	const char *none; /* said on stderr when there is nothing; NULL: an empty table */
};

/* Prints an array. CLI_OK or an exit code, reported. */
int list_print(const struct cli *cli, const json_t *items, const struct list_view *view);
/* Asks for a list that has one page, and prints it; with --json the answer as it came. */
int list_show(struct cli *cli, const char *path, const struct list_view *view);

/* A column for how long ago a time (RFC 3339) was, and one for bytes; NULL: not known. */
void list_add_age(struct table *table, const char *time);
void list_add_bytes(struct table *table, int64_t bytes);
