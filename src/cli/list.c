/* Lists of what the server has. See list.h. */
#include "cli/list.h"

#include <stdio.h>

#include "base/clock.h"
#include "cli/session.h"
#include "cli/units.h"

static int print_ids(const json_t *items, const char *id)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	const json_t *item;
	size_t i;

	json_array_foreach(items, i, item) {
		text_append_safe(&out, json_get_str(item, id, ""));
		buf_append_char(&out, '\n');
	}
	return out.len > 0 ? output_write(out.data, out.len) : CLI_OK;
}

int list_print(const struct cli *cli, const json_t *items, const struct list_view *view)
{
	struct table table;
	const json_t *item;
	size_t i;
	int code = CLI_OK;

	if (cli->quiet)
		return print_ids(items, view->id);
	table_init(&table, view->columns, view->n_columns);
	json_array_foreach(items, i, item) {
		view->add(&table, item);
	}
	if (table.n_cells > 0 || !view->none)
		code = output_table(&table);
	else
		fprintf(stderr, "%s\n", view->none);
	table_clear(&table);
	return code;
}

int list_show(struct cli *cli, const char *path, const struct list_view *view)
{
	_cleanup_buf_ struct buf raw = BUF_INIT;
	_cleanup_json_ json_t *answer = NULL;
	const struct client_spec spec = { .method = "GET", .path = path };
	int code = session_json(cli, &spec, NULL, &answer, &raw);

	if (code != CLI_OK)
		return code;
	return cli->json ? session_print_raw(&raw)
			 : list_print(cli, json_object_get(answer, "items"), view);
}

void list_add_age(struct table *table, const char *time)
{
	char text[UNITS_TEXT_SIZE];
	int64_t unix_ms;

	table_add(table, time && time_parse(time, &unix_ms) == 0
				 ? duration_short(clock_unix_ms() - unix_ms, text)
				 : NULL);
}

void list_add_bytes(struct table *table, int64_t bytes)
{
	char text[UNITS_TEXT_SIZE];

	table_add(table, bytes_text(bytes, text));
}
