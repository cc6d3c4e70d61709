/* Tables for people. Widths count code points: names in wide scripts may be off by their width. */
#include "cli/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/str.h"

#define GAP	    2
#define COLUMNS_MAX 16

void table_init(struct table *table, const struct table_column *columns, size_t n_columns)
{
	assert(n_columns > 0 && n_columns <= COLUMNS_MAX);
	*table = (struct table){ .columns = columns, .n_columns = n_columns };
}

void table_clear(struct table *table)
{
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i]);
	free(table->cells);
	table->cells = NULL;
	table->n_cells = 0;
}

void text_append_safe(struct buf *out, const char *text)
{
	size_t len = strlen(text);

	while (len > 0) {
		const unsigned char *c = (const unsigned char *)text;
		int n = utf8_next(text, len);
		bool control =
			c[0] < 0x20 || c[0] == 0x7f || (n == 2 && c[0] == 0xc2 && c[1] < 0xa0);

		if (n <= 0 || control)
			buf_append_char(out, '?');
		else
			buf_append(out, text, (size_t)n);
		n = n > 0 ? n : 1;
		text += n;
		len -= (size_t)n;
	}
}

unsigned int text_width(const char *text)
{
	unsigned int width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

void table_add(struct table *table, const char *cell)
{
	struct buf safe = BUF_INIT;

	text_append_safe(&safe, cell && *cell ? cell : "-");
	table->cells = xrealloc(table->cells, (table->n_cells + 1) * sizeof(*table->cells));
	table->cells[table->n_cells++] = buf_take(&safe);
}

static void natural_widths(const struct table *table, unsigned int *widths)
{
	assert(table->n_columns > 0);
	for (size_t c = 0; c < table->n_columns; c++)
		widths[c] = text_width(table->columns[c].title);
	for (size_t i = 0; i < table->n_cells; i++) {
		unsigned int width = text_width(table->cells[i]);

		if (width > widths[i % table->n_columns])
			widths[i % table->n_columns] = width;
	}
}

/* Takes one character at a time from the widest column that may still give one. */
static void shrink(const struct table *table, unsigned int *widths, unsigned int limit)
{
	unsigned int total = (unsigned int)(table->n_columns - 1) * GAP;

	for (size_t c = 0; c < table->n_columns; c++)
		total += widths[c];
	while (total > limit) {
		size_t widest = table->n_columns;

		for (size_t c = 0; c < table->n_columns; c++) {
			if (table->columns[c].min_width == 0 ||
			    widths[c] <= table->columns[c].min_width)
				continue;
			if (widest == table->n_columns || widths[c] > widths[widest])
				widest = c;
		}
		if (widest == table->n_columns)
			return;
		widths[widest]--;
		total--;
	}
}

void text_append_cut(struct buf *out, const char *text, unsigned int width)
{
	size_t bytes = 0;

	if (text_width(text) <= width) {
		buf_append_str(out, text);
		return;
	}
	for (unsigned int n = 0; n + 1 < width; n++) {
		int len = utf8_next(text + bytes, strlen(text + bytes));

		bytes += len > 0 ? (size_t)len : 1;
	}
	buf_append(out, text, bytes);
	buf_append_str(out, "…");
}

static void write_cell(const char *cell, unsigned int width, bool last, struct buf *out)
{
	unsigned int shown = text_width(cell);

	text_append_cut(out, cell, width);
	for (unsigned int n = shown < width ? shown : width; !last && n < width + GAP; n++)
		buf_append_char(out, ' ');
}

void table_write(const struct table *table, unsigned int width, struct buf *out)
{
	unsigned int widths[COLUMNS_MAX];
	size_t n = table->n_columns;

	assert(n > 0 && n <= COLUMNS_MAX);
	natural_widths(table, widths);
	if (width > 0)
		shrink(table, widths, width);
	for (size_t c = 0; c < n; c++)
		write_cell(table->columns[c].title, widths[c], c + 1 == n, out);
	buf_append_char(out, '\n');
	for (size_t i = 0; i < table->n_cells; i++) {
		write_cell(table->cells[i], widths[i % n], i % n + 1 == n, out);
		if (i % n + 1 == n)
			buf_append_char(out, '\n');
	}
}
