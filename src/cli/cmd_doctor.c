/*
 * skerry doctor: from here to a sandbox, what works and what does not, with what to do about it.
 *
 * A server that answers checks itself and its machine. Where none does, and it would be on this
 * machine, the machine is checked from here with the same checks: that is how one is made ready.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/list.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/units.h"
#include "host/check.h"

#define PORT_DEFAULT	  7171
#define FREE_DISK_MB	  2048 /* as skerryd has it by default */
#define DETAIL_COLUMN	  24
#define DOCTOR_TIMEOUT_MS 60000

static const char *const qemu_paths[] = {
	"/usr/bin/qemu-system-x86_64",
	"/usr/bin/qemu-system-x86_64-microvm",
	NULL,
};

static const struct cli_option options[] = {
	{ .name = "local",
	  .letter = 'l',
	  .type = CLI_FLAG,
	  .help = "check this machine alone, whether or not a server answers" },
	{ .name = "state-dir",
	  .type = CLI_TEXT,
	  .metavar = "DIR",
	  .complete = CLI_COMPLETE_DIRECTORY,
	  .help = "where the state would be (default: " CLI_STATE_DIR
		  "); with --local, or without a "
		  "server" },
};

static const struct cli_example examples[] = {
	{ "can this machine run sandboxes?", "skerry doctor" },
	{ "what is wrong, for programs",
	  "skerry doctor --json | jq '.checks[] | select(.ok | not)'" },
};

/* ---- what is looked at ---- */

static void add(json_t *checks, const char *name, enum host_level level, const char *detail,
		const char *fix)
{
	struct host_check check = { .name = name, .level = level, .fix = fix };

	str_copy(check.detail, sizeof(check.detail), detail);
	host_check_add(checks, &check);
}

static void check_this_machine(const struct cli_args *args, bool server_answers, json_t *checks)
{
	const struct host_spec spec = {
		.state_dir = cli_args_text(args, "state-dir", CLI_STATE_DIR),
		.free_disk_mb_min = FREE_DISK_MB,
		.qemu = qemu_paths,
		.port = server_answers ? 0 : PORT_DEFAULT,
		.probe_kvm = true,
		.descriptors_wanted = HOST_DESCRIPTORS_WANTED,
	};
	struct progress progress;

	progress_begin(&progress, "looking at this machine", false);
	progress_tick(&progress);
	host_checks(&spec, checks);
	progress_end(&progress);
}

/* A key that may not ask is a finding like others. Returns whether the server has answered. */
static bool take_answer(const struct client_response *response, json_t *checks, json_t **ret)
{
	_cleanup_json_ json_t *body = NULL;
	const char *detail;

	(void)json_parse(buf_str(&response->body), response->body.len, &body, NULL);
	if (response->status == 200 && json_is_array(json_object_get(body, "checks"))) {
		*ret = STEAL(body);
		return true;
	}
	detail = json_get_str(body, "detail", "its answer is none of skerryd's");
	if (response->status == 401)
		add(checks, "key", HOST_MISSING, detail,
		    "set SKERRY_API_KEY to a key of this server");
	else if (response->status == 403)
		add(checks, "key", HOST_ADVICE, detail,
		    "doctor needs a key of an administrator, to see the server's machine");
	else
		add(checks, "answer", HOST_MISSING, detail, "look at the log of skerryd");
	return response->status / 100 == 4;
}

/* The server's report in *ret, where it gives one. */
static bool ask_server(struct cli *cli, json_t *checks, json_t **ret)
{
	const struct client_spec spec = {
		.method = "GET",
		.path = "/v1/doctor",
		.timeout_ms = DOCTOR_TIMEOUT_MS,
	};
	_cleanup_response_ struct client_response response = CLIENT_RESPONSE_INIT;
	struct progress progress;
	struct err err = ERR_INIT;
	int r;

	progress_begin(&progress, "asking the server", cli->quiet);
	r = client_call(cli->client, &spec, progress_tick, &progress, &response, &err);
	progress_end(&progress);
	if (r < 0) {
		add(checks, "server", HOST_MISSING, err.message, err.hint);
		return false;
	}
	add(checks, "server", HOST_OK, cli->url, NULL);
	return take_answer(&response, checks, ret);
}

/* {"checks": …} and what else the server says. */
static json_t *examine(struct cli *cli, const struct cli_args *args)
{
	const bool local = cli_args_has(args, "local");
	_cleanup_json_ json_t *checks = json_array(), *report = NULL;
	bool answers = false;

	if (!local)
		answers = ask_server(cli, checks, &report);
	if (report) {
		add(checks, "key", HOST_OK, cli->key_source ? cli->key_source : "none is needed",
		    NULL);
		json_array_extend(checks, json_object_get(report, "checks"));
	} else {
		report = json_object();
		if (local || client_url_is_loopback(cli->url))
			check_this_machine(args, local || answers, checks);
	}
	json_put(report, "checks", STEAL(checks));
	return STEAL(report);
}

/* ---- showing it ---- */

static void append_check(struct buf *out, const json_t *check)
{
	static const struct {
		const char *level, *word;
		enum style style;
	} levels[] = {
		{ "ok", "ok", STYLE_GREEN },
		{ "advice", "note", STYLE_YELLOW },
		{ "missing", "FAIL", STYLE_RED },
	};
	const char *level =
		json_get_str(check, "level", json_get_bool(check, "ok", false) ? "ok" : "missing");
	const char *fix = json_get_str(check, "fix", NULL);
	size_t at = 0, line;

	while (at + 1 < ARRAY_SIZE(levels) && !str_eq(levels[at].level, level))
		at++;
	buf_printf(out, "%s%-4s%s ", style_on(stdout, levels[at].style), levels[at].word,
		   style_off(stdout));
	line = out->len - strlen("FAIL ");
	text_append_safe(out, json_get_str(check, "name", "?"));
	while (out->len - line < DETAIL_COLUMN)
		buf_append_char(out, ' ');
	text_append_safe(out, json_get_str(check, "detail", ""));
	buf_append_char(out, '\n');
	if (at == 0 || !fix || !*fix)
		return;
	buf_printf(out, "     %s", style_on(stdout, STYLE_BOLD));
	text_append_safe(out, fix);
	buf_printf(out, "%s\n", style_off(stdout));
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
	struct table table;
	size_t i;

	if (!space)
		return CLI_OK; /* no server has answered */
	table_init(&table, columns, ARRAY_SIZE(columns));
	json_array_foreach(json_object_get(space, "items"), i, item) {
		table_add(&table, json_get_str(item, "name", "?"));
		snprintf(files, sizeof(files), "%lld", (long long)json_get_int(item, "files", 0));
		table_add(&table, files);
		add_bytes(&table, json_object_get(item, "apparent_bytes"));
		add_bytes(&table, json_object_get(item, "allocated_bytes"));
		add_bytes(&table, json_object_get(item, "shared_bytes"));
	}
	printf("\n");
	output_table(&table);
	table_clear(&table);
	printf("%s of %s are free on its file system\n",
	       bytes_text(json_get_int(fs, "free_bytes", 0), free_text),
	       bytes_text(json_get_int(fs, "size_bytes", 0), size_text));
	return CLI_OK;
}

static int print_report(const struct cli *cli, const json_t *report)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	const json_t *check;
	size_t i;
	int code;

	if (cli->json) {
		json_write(report, &out);
		return session_print_raw(&out);
	}
	json_array_foreach(json_object_get(report, "checks"), i, check) {
		if (!cli->quiet || !json_get_bool(check, "ok", false))
			append_check(&out, check);
	}
	code = out.len > 0 ? output_write(out.data, out.len) : CLI_OK;
	return code == CLI_OK && !cli->quiet ? print_space(json_object_get(report, "space")) : code;
}

static int run(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *report = examine(cli, args);
	int code = print_report(cli, report);
	const json_t *check;
	size_t i;

	json_array_foreach(json_object_get(report, "checks"), i, check) {
		if (code == CLI_OK && !json_get_bool(check, "ok", false))
			code = str_eq(json_get_str(check, "name", ""), "key") ? CLI_DENIED
									      : CLI_FAILED;
	}
	return code;
}

const struct cli_command cli_command_doctor = {
	.name = "doctor",
	.summary = "check the server and its machine",
	.detail =
		"Exits with 1 when something that is needed is missing, and says what to do; what "
		"works but could be better is a note. Where no server answers, this machine is "
		"checked for whether it could be one.\n\n"
		"At the end it shows what the server's state takes: what its files claim, what "
		"they "
		"hold, and how much of that they share with others, which deleting one of them "
		"does "
		"not free.",
	.options = options,
	.n_options = ARRAY_SIZE(options),
	.examples = examples,
	.n_examples = ARRAY_SIZE(examples),
	.run = run,
};
