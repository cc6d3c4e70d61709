/* Numbered records of the server. See records.h. */
#include "cli/records.h"

#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "cli/follow.h"
#include "cli/session.h"
#include "cli/table.h"

#define PAGE_LIMIT 1000

/* ---- one ---- */

static void append_value(struct buf *out, const json_t *value)
{
	const char *text = json_string_value(value);
	_cleanup_buf_ struct buf json = BUF_INIT;

	if (text && *text && !strpbrk(text, " \t\r\n\"")) {
		text_append_safe(out, text);
		return;
	}
	json_write(value, &json);
	text_append_safe(out, buf_str(&json));
}

void records_append_members(struct buf *out, const json_t *members, bool quiet)
{
	const json_t *value;
	const char *name;

	json_object_foreach((json_t *)(uintptr_t)members, name, value) {
		if (quiet && (json_is_null(value) || json_is_false(value)))
			continue;
		buf_append_str(out, "  ");
		text_append_safe(out, name);
		buf_append_char(out, '=');
		append_value(out, value);
	}
}

static int print_one(const struct cli *cli, const struct records *records, const json_t *record)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	if (cli->json) {
		json_write(record, &out);
		buf_append_char(&out, '\n');
	} else if (cli->quiet) {
		buf_printf(&out, "%" PRId64 "\n", json_get_int(record, records->number, 0));
	} else {
		records->append_line(&out, record);
	}
	return output_write(buf_str(&out), out.len);
}

static void note_gap(const struct records *records, const json_t *gap)
{
	if (json_is_object(gap))
		report_note("%s %" PRId64 " to %" PRId64 " are not kept any more", records->plural,
			    json_get_int(gap, "from", 0), json_get_int(gap, "to", 0));
}

/* ---- what is asked for ---- */

void records_filter(struct buf *filter, const char *name, const char *value)
{
	if (!value)
		return;
	buf_printf(filter, "&%s=", name);
	client_escape(filter, value);
}

int records_filter_sandbox(struct cli *cli, const struct cli_args *args, struct buf *filter)
{
	_cleanup_buf_ struct buf path = BUF_INIT;
	int code;

	if (args->n_operands == 0)
		return CLI_OK;
	code = session_sandbox_path(cli, args->operands[0], &path);
	if (code == CLI_OK)
		buf_printf(filter, "&sandbox_id=%s", strrchr(buf_str(&path), '/') + 1);
	return code;
}

/* ---- pages ---- */

static int print_page(struct cli *cli, const struct records *records, const char *path,
		      int64_t *cursor, bool *more)
{
	const struct client_spec spec = { .method = "GET", .path = path };
	_cleanup_json_ json_t *page = NULL;
	const json_t *record;
	size_t i;
	int code = session_json(cli, &spec, NULL, &page, NULL);

	if (code != CLI_OK)
		return code;
	note_gap(records, json_object_get(page, "gap"));
	json_array_foreach(json_object_get(page, "items"), i, record) {
		code = print_one(cli, records, record);
		if (code != CLI_OK)
			return code;
	}
	*cursor = json_get_int(page, "cursor", *cursor);
	*more = json_is_string(json_object_get(page, "next_cursor"));
	return CLI_OK;
}

int records_list(struct cli *cli, const struct records *records, const struct buf *filter,
		 int64_t since, int64_t limit)
{
	const bool newest = since < 0;
	bool more = true;
	int code = CLI_OK;

	while (code == CLI_OK && more) {
		_cleanup_buf_ struct buf path = BUF_INIT;

		if (newest)
			buf_printf(&path, "%s?newest=true&limit=%" PRId64 "%s", records->route,
				   limit, buf_str(filter));
		else
			buf_printf(&path, "%s?cursor=%" PRId64 "&limit=%d%s", records->route, since,
				   PAGE_LIMIT, buf_str(filter));
		code = print_page(cli, records, buf_str(&path), &since, &more);
		more &= !newest;
	}
	return code;
}

/* ---- following ---- */

struct following {
	struct cli *cli;
	const struct records *records;
};

static int take(void *arg, const char *name, const json_t *data)
{
	const struct following *f = arg;

	if (str_eq(name, "gap")) {
		note_gap(f->records, data);
		return CLI_OK;
	}
	if (f->records->type && !str_eq(name, f->records->type))
		return CLI_OK;
	return print_one(f->cli, f->records, data);
}

int records_follow(struct cli *cli, const struct records *records, const struct buf *filter,
		   int64_t since)
{
	struct following f = { cli, records };
	const struct cli_follow what = {
		.route = records->route,
		.filter = buf_str(filter),
		.number = records->number,
		.cursor = since,
		.take = take,
		.arg = &f,
	};

	return cli_follow(cli, &what);
}
