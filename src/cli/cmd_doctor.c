/* skerry doctor: from here to a sandbox, what works and what does not, with what to do about it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/units.h"

static const struct cli_example examples[] = {
	{ "can this machine run sandboxes?", "skerry doctor" },
};

static void print_check(bool ok, const char *name, const char *detail, const char *fix)
{
	_cleanup_buf_ struct buf line = BUF_INIT;

	printf("%s%s%s ", style_on(stdout, ok ? STYLE_GREEN : STYLE_RED), ok ? "ok  " : "FAIL",
	       style_off(stdout));
	text_append_safe(&line, name);
	for (unsigned int n = text_width(buf_str(&line)); n < 18; n++)
		buf_append_char(&line, ' ');
	buf_append_char(&line, ' ');
	text_append_safe(&line, detail);
	printf("%s\n", buf_str(&line));
	if (!ok && fix && *fix) {
		buf_reset(&line);
		text_append_safe(&line, fix);
		printf("     %s%s%s\n", style_on(stdout, STYLE_BOLD), buf_str(&line),
		       style_off(stdout));
	}
}

/* Asks the server; what fails is a check like the others. */
static int ask(struct cli *cli, json_t **ret, struct buf *raw)
{
	struct client_spec spec = { .method = "GET", .path = "/v1/doctor" };
	_cleanup_response_ struct client_response response = CLIENT_RESPONSE_INIT;
	_cleanup_json_ json_t *problem = NULL;
	struct err err = ERR_INIT;

	if (client_call(cli->client, &spec, NULL, NULL, &response, &err) < 0) {
		print_check(false, "server", err.message, err.hint);
		return CLI_FAILED;
	}
	print_check(true, "server", cli->url, NULL);
	if (response.status == 401 || response.status == 403) {
		(void)json_parse(buf_str(&response.body), response.body.len, &problem, NULL);
		print_check(false, "key",
			    json_get_str(problem, "detail", "the key is not accepted"),
			    "set SKERRY_API_KEY to a key of this server");
		return CLI_DENIED;
	}
	if (response.status != 200)
		return report_response(&response);
	if (json_parse(buf_str(&response.body), response.body.len, ret, &err) < 0)
		return report_err(&err);
	*raw = response.body;
	response.body = BUF_INIT;
	return CLI_OK;
}

static void add_bytes(struct table *table, const json_t *value)
{
	char text[UNITS_TEXT_SIZE];

	table_add(table, json_is_integer(value) ? bytes_text(json_integer_value(value), text)
						: "not known");
}

/* "allocated" counts what is shared with each that has it. */
static int print_space(const json_t *space)
{
	static const struct table_column columns[] = {
		{ .title = "STATE" },	  { .title = "FILES" },	 { .title = "APPARENT" },
		{ .title = "ALLOCATED" }, { .title = "SHARED" },
	};
	const json_t *fs = json_object_get(space, "file_system"), *item;
	char free_text[UNITS_TEXT_SIZE], size_text[UNITS_TEXT_SIZE], files[24];
	_cleanup_buf_ struct buf out = BUF_INIT;
	struct table table;
	size_t i;

	if (!space)
		return CLI_OK; /* an older server */
	table_init(&table, columns, ARRAY_SIZE(columns));
	json_array_foreach(json_object_get(space, "items"), i, item) {
		table_add(&table, json_get_str(item, "name", "?"));
		snprintf(files, sizeof(files), "%lld", (long long)json_get_int(item, "files", 0));
		table_add(&table, files);
		add_bytes(&table, json_object_get(item, "apparent_bytes"));
		add_bytes(&table, json_object_get(item, "allocated_bytes"));
		add_bytes(&table, json_object_get(item, "shared_bytes"));
	}
	buf_append_char(&out, '\n');
	table_write(&table, output_width(), &out);
	table_clear(&table);
	buf_printf(&out, "%s of %s are free on its file system\n",
		   bytes_text(json_get_int(fs, "free_bytes", 0), free_text),
		   bytes_text(json_get_int(fs, "size_bytes", 0), size_text));
	return output_write(out.data, out.len);
}

static int run_json(struct cli *cli)
{
	struct client_spec spec = { .method = "GET", .path = "/v1/doctor" };
	_cleanup_buf_ struct buf raw = BUF_INIT;
	_cleanup_json_ json_t *answer = NULL;
	int code = session_json(cli, &spec, NULL, &answer, &raw);

	return code == CLI_OK ? session_print_raw(&raw) : code;
}

static int run(struct cli *cli, const struct cli_args *args)
{
	_cleanup_buf_ struct buf raw = BUF_INIT;
	_cleanup_json_ json_t *answer = NULL;
	const json_t *check;
	size_t i;
	int code;

	(void)args;
	if (cli->json)
		return run_json(cli);
	code = ask(cli, &answer, &raw);
	if (code != CLI_OK)
		return code;
	print_check(true, "key", cli->key_source ? cli->key_source : "none is needed", NULL);
	json_array_foreach(json_object_get(answer, "checks"), i, check) {
		bool ok = json_get_bool(check, "ok", false);

		print_check(ok, json_get_str(check, "name", "?"), json_get_str(check, "detail", ""),
			    json_get_str(check, "fix", NULL));
		if (!ok)
			code = CLI_FAILED;
	}
	if (print_space(json_object_get(answer, "space")) != CLI_OK)
		code = CLI_FAILED;
	return code;
}

const struct cli_command cli_command_doctor = {
	.name = "doctor",
	.summary = "check the server and its machine",
	.detail =
		"Exits with 1 when something is wrong, and says what to do. At the end it shows "
		"what the server's state takes: what its files claim, what they hold, and how much "
		"of that they share with others, which deleting one of them does not free.",
	.examples = examples,
	.n_examples = ARRAY_SIZE(examples),
	.run = run,
};
