/*
 * Tables for people: columns as wide as they need to be, shortened to the terminal where there is
 * one. Pure: lays out into a buffer. Cells come from the server and are made harmless here: control
 * characters cannot reach the terminal.
 */
#pragma once

#include <stddef.h>

#include "base/buf.h"

struct table_column {
	const char *title;
	unsigned int min_width; /* how far it may be shortened; 0: never */
};

struct table {
	const struct table_column *columns;
	size_t n_columns;
	char **cells; /* row by row, owned */
	size_t n_cells;
};

void table_init(struct table *table, const struct table_column *columns, size_t n_columns);
void table_clear(struct table *table);
/* Copies one cell; rows fill from left to right. NULL and "" are shown as "-". */
void table_add(struct table *table, const char *cell);
/* width 0: no limit. The titles come first; the last column is not padded. */
void table_write(const struct table *table, unsigned int width, struct buf *out);

/* Appends text with control characters (C0, DEL, C1) and invalid UTF-8 replaced by '?'. */
void text_append_safe(struct buf *out, const char *text);
/* Appends at most width (above 0) characters of text: what is longer ends with an ellipsis. */
void text_append_cut(struct buf *out, const char *text, unsigned int width);
/* Characters (code points) of UTF-8 text. */
unsigned int text_width(const char *text);
