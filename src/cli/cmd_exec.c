/* skerry exec: runs a command in a sandbox as if it ran here. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/exec_live.h"
#include "cli/exec_output.h"
#include "cli/list.h"
#include "cli/quote.h"
#include "cli/session.h"
#include "cli/units.h"

#define JSON_STDIN_MAX (700u << 10) /* leaves room for base64 in a request of 1 MiB */

static const struct cli_operand operands[] = { CLI_SANDBOX_OPERAND };

static const struct cli_option options[] = {
	{ .name = "cwd",
	  .letter = 'C',
	  .type = CLI_TEXT,
	  .metavar = "DIR",
	  .help = "directory to run in (default: the user's home)" },
	{ .name = "env",
	  .letter = 'e',
	  .type = CLI_PAIR,
	  .metavar = "KEY=VALUE",
	  .repeat = true,
	  .help = "variable for this command; may be repeated, is never logged" },
	{ .name = "user",
	  .letter = 'u',
	  .type = CLI_TEXT,
	  .metavar = "USER",
	  .help = "user to run as: sandbox (default), root" },
	{ .name = "timeout",
	  .letter = 't',
	  .type = CLI_MILLIS,
	  .metavar = "TIME",
	  .help = "end the command and all it started after this time: 30s, 10m (default: 2m)" },
	{ .name = "timeout-ms",
	  .type = CLI_INTEGER,
	  .metavar = "N",
	  .min = 1,
	  .max = INT64_C(1) << 40,
	  .help = "the same in milliseconds" },
	{ .name = "interactive",
	  .letter = 'i',
	  .type = CLI_FLAG,
	  .help = "pass our stdin on also when it is a terminal" },
	{ .name = "no-stdin",
	  .letter = 'n',
	  .type = CLI_FLAG,
	  .help = "give the command an empty stdin and leave ours alone" },
	{ .name = "background",
	  .letter = 'b',
	  .type = CLI_FLAG,
	  .help = "start it, print its exec id and return" },
	{ .name = "attach",
	  .type = CLI_TEXT,
	  .metavar = "EXEC_ID",
	  .help = "take up a command that is running or has ended, from its first byte" },
	{ .name = "signal",
	  .letter = 's',
	  .type = CLI_TEXT,
	  .metavar = "NAME",
	  .help = "with --attach: send it and all it started this signal (TERM, INT, KILL, …) "
		  "instead" },
	{ .name = "list",
	  .letter = 'l',
	  .type = CLI_FLAG,
	  .help = "list the commands that run in the sandbox, and those that have ended" },
};

static const struct cli_example examples[] = {
	{ "a line of shell: one argument is shell text",
	  "skerry exec sbx_1f2e3d4c 'cd /tmp && ls | wc -l'" },
	{ "a program and its arguments, quoted as they are",
	  "skerry exec sbx_1f2e3d4c -- python3 -c 'print(\"hello\")'" },
	{ "files in and out", "tar c src | skerry exec build -- tar x -C /home/sandbox" },
	{ "as root, elsewhere, with a limit",
	  "skerry exec build --user root --cwd / --timeout 10m -- apt-get update" },
	{ "start now, look later",
	  "id=$(skerry exec build --background -- make); skerry exec build --attach $id" },
	{ "what runs there, and an end to one of it",
	  "skerry exec build --list; skerry exec build --attach $id --signal TERM" },
};

static int check(const struct cli_args *args)
{
	bool attach = cli_args_has(args, "attach"), list = cli_args_has(args, "list");

	if (list && (attach || args->n_rest))
		return report_usage("--list excludes --attach and a command", NULL);
	if (list)
		return CLI_OK;
	if (cli_args_has(args, "signal") && !attach)
		return report_usage("--signal needs --attach: which command is meant?",
				    "`skerry exec SANDBOX --list` says which there are");
	if (attach && !exec_id_valid(cli_args_text(args, "attach", "")))
		return report_usage("--attach is not an exec id",
				    "`skerry exec SANDBOX --list` says which there are");
	if (attach && args->n_rest)
		return report_usage("--attach takes up a command that runs: it takes no other",
				    NULL);
	if (!attach && args->n_rest == 0)
		return report_usage("skerry exec needs a command",
				    "skerry exec SANDBOX -- COMMAND ARGUMENTS…");
	if (cli_args_has(args, "timeout") && cli_args_has(args, "timeout-ms"))
		return report_usage("--timeout and --timeout-ms exclude each other", NULL);
	if (cli_args_has(args, "interactive") &&
	    (cli_args_has(args, "no-stdin") || cli_args_has(args, "background")))
		return report_usage("--interactive excludes --no-stdin and --background", NULL);
	return CLI_OK;
}

static json_t *env_of(const struct cli_args *args)
{
	json_t *env = json_object();

	for (size_t i = 0; i < args->n_given; i++) {
		const struct cli_given *given = &args->given[i];
		_cleanup_free_ char *key = NULL;
		const char *equals;

		if (!str_eq(given->option->name, "env"))
			continue;
		equals = strchr(given->text, '=');
		key = xstrndup(given->text, (size_t)(equals - given->text));
		json_put_str(env, key, equals + 1);
	}
	return env;
}

static json_t *request_of(const struct cli_args *args)
{
	_cleanup_buf_ struct buf command = BUF_INIT;
	json_t *body = json_object();
	int64_t timeout_ms =
		cli_args_number(args, "timeout", cli_args_number(args, "timeout-ms", 0));

	shell_command(args->rest, args->n_rest, &command);
	json_put_str(body, "command", buf_str(&command));
	if (cli_args_has(args, "cwd"))
		json_put_str(body, "cwd", cli_args_text(args, "cwd", NULL));
	if (cli_args_has(args, "user"))
		json_put_str(body, "user", cli_args_text(args, "user", NULL));
	if (cli_args_has(args, "env"))
		json_put(body, "env", env_of(args));
	if (timeout_ms > 0)
		json_put_int(body, "timeout_ms", timeout_ms);
	return body;
}

/* Whether our stdin is the command's: not a terminal unless asked for, not /dev/null, not closed.
 */
static bool passes_stdin(const struct cli_args *args)
{
	struct stat st;

	if (cli_args_has(args, "no-stdin") || cli_args_has(args, "attach") ||
	    cli_args_has(args, "background") || fstat(STDIN_FILENO, &st) < 0)
		return false;
	if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3))
		return false;
	return cli_args_has(args, "interactive") || !isatty(STDIN_FILENO);
}

/* With --json the whole of stdin goes into the request. */
static int inline_stdin(json_t *body)
{
	_cleanup_buf_ struct buf bytes = BUF_INIT, text = BUF_INIT;

	buf_reserve(&bytes, JSON_STDIN_MAX + 1);
	for (;;) {
		ssize_t n =
			read(STDIN_FILENO, bytes.data + bytes.len, JSON_STDIN_MAX + 1 - bytes.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		bytes.len += (size_t)n;
		if (bytes.len > JSON_STDIN_MAX)
			return report_usage("stdin is too long for --json: at most 700 KiB",
					    "without --json it is streamed, whatever its length");
	}
	base64_encode(bytes.data, bytes.len, &text);
	json_put_str(body, "stdin_base64", buf_str(&text));
	return CLI_OK;
}

/* One request, one answer: --json and --background. */
static int run_plain(struct cli *cli, const struct cli_args *args, const struct buf *sandbox_path,
		     json_t *body)
{
	_cleanup_buf_ struct buf path = BUF_INIT, raw = BUF_INIT;
	_cleanup_json_ json_t *result = NULL;
	struct client_spec spec = { .method = "POST", .body = body, .timeout_ms = -1 };
	bool background = cli_args_has(args, "background");
	int code = CLI_OK;

	if (background)
		json_put(body, "background", json_true());
	else if (passes_stdin(args))
		code = inline_stdin(body);
	if (code != CLI_OK)
		return code;
	buf_printf(&path, "%s/exec", buf_str(sandbox_path));
	spec.path = buf_str(&path);
	code = session_json(cli, &spec, NULL, &result, &raw);
	if (code != CLI_OK)
		return code;
	if (cli->json)
		code = session_print_raw(&raw);
	else
		printf("%s\n", json_get_str(result, "exec_id", ""));
	return code != CLI_OK || background ? code : exec_exit_code(result);
}

/* --attach with --json: what there is of it now. */
static int run_look(struct cli *cli, const struct buf *sandbox_path, const char *exec_id)
{
	_cleanup_buf_ struct buf path = BUF_INIT, raw = BUF_INIT;
	_cleanup_json_ json_t *result = NULL;
	struct client_spec spec = { .method = "GET" };
	int code;

	buf_printf(&path, "%s/exec/%s", buf_str(sandbox_path), exec_id);
	spec.path = buf_str(&path);
	code = session_json(cli, &spec, NULL, &result, &raw);
	if (code == CLI_OK)
		code = session_print_raw(&raw);
	if (code != CLI_OK || json_get_bool(result, "running", false))
		return code;
	return exec_exit_code(result);
}

/* ---- --list, --signal ---- */

/* "running", "exit 0", "SIGKILL", "timed out". */
static void add_state(struct table *table, const json_t *exec)
{
	char text[32];

	if (json_get_bool(exec, "running", false)) {
		table_add(table, "running");
	} else if (json_get_bool(exec, "timed_out", false)) {
		table_add(table, "timed out");
	} else if (json_is_string(json_object_get(exec, "signal"))) {
		table_add(table, json_get_str(exec, "signal", NULL));
	} else {
		snprintf(text, sizeof(text), "exit %lld",
			 (long long)json_get_int(exec, "exit_code", -1));
		table_add(table, text);
	}
}

static void add_exec(struct table *table, const json_t *exec)
{
	char took[UNITS_TEXT_SIZE];

	table_add(table, json_get_str(exec, "exec_id", NULL));
	add_state(table, exec);
	list_add_age(table, json_get_str(exec, "started_at", NULL));
	table_add(table, duration_text(json_get_int(exec, "duration_ms", 0), took));
	table_add(table, json_get_str(exec, "command", NULL));
}

static int run_list(struct cli *cli, const char *sandbox)
{
	static const struct table_column columns[] = {
		{ "EXEC", 0 }, { "STATE", 0 }, { "AGE", 0 }, { "TOOK", 0 }, { "COMMAND", 12 },
	};
	static const struct list_view view = {
		.columns = columns,
		.n_columns = ARRAY_SIZE(columns),
		.id = "exec_id",
		.add = add_exec,
		.none = "no commands; `skerry exec SANDBOX -- COMMAND` runs one",
	};
	_cleanup_json_ json_t *answer = NULL;
	int code = session_ask(cli, sandbox, "GET", "/exec", NULL, &answer);

	return answer ? list_print(cli, json_object_get(answer, "items"), &view) : code;
}

/* "term" and "TERM" are SIGTERM. */
static void signal_name(const char *text, struct buf *out)
{
	if (strncasecmp(text, "SIG", 3) != 0)
		buf_append_str(out, "SIG");
	for (; *text; text++)
		buf_append_char(out, (char)toupper((unsigned char)*text));
}

static int run_signal(struct cli *cli, const struct cli_args *args)
{
	const char *exec_id = cli_args_text(args, "attach", "");
	_cleanup_free_ char *part = xasprintf("/exec/%s/signal", exec_id);
	_cleanup_buf_ struct buf name = BUF_INIT;
	_cleanup_json_ json_t *body = json_object(), *answer = NULL;
	int code;

	signal_name(cli_args_text(args, "signal", ""), &name);
	json_put_str(body, "signal", buf_str(&name));
	code = session_ask(cli, args->operands[0], "POST", part, STEAL(body), &answer);
	if (answer)
		printf("%s\n", json_get_str(answer, "exec_id", exec_id));
	return code;
}

static int run(struct cli *cli, const struct cli_args *args)
{
	_cleanup_buf_ struct buf path = BUF_INIT;
	_cleanup_json_ json_t *body = NULL;
	struct exec_live_config live = { .cli = cli, .sandbox = args->operands[0] };
	int code = check(args);

	if (code == CLI_OK && cli_args_has(args, "list"))
		return run_list(cli, args->operands[0]);
	if (code == CLI_OK && cli_args_has(args, "signal"))
		return run_signal(cli, args);
	if (code == CLI_OK)
		code = session_sandbox_path(cli, args->operands[0], &path);
	if (code != CLI_OK)
		return code;
	live.exec_id = cli_args_text(args, "attach", NULL);
	if (live.exec_id && cli->json)
		return run_look(cli, &path, live.exec_id);
	if (!live.exec_id) {
		body = request_of(args);
		if (cli->json || cli_args_has(args, "background"))
			return run_plain(cli, args, &path, body);
		live.input = passes_stdin(args);
		if (live.input)
			json_put(body, "stdin_open", json_true());
	}
	live.request = body;
	live.sandbox_path = buf_str(&path);
	return exec_live(&live);
}

const struct cli_command cli_command_exec = {
	.name = "exec",
	.summary = "run a command in a sandbox",
	.detail =
		"Output comes as it is written, stdout and stderr apart and byte for byte; stdin "
		"goes "
		"in unless it is a terminal. The exit code is the command's own: 128 and the "
		"signal "
		"when a signal ended it, 124 at its timeout. A failure of skerry itself says so on "
		"stderr, in a line that begins with `skerry:`.\n\n"
		"Ctrl-C is passed to the command; a second one leaves it running. When the "
		"connection "
		"is lost it is taken up again where it broke.",
	.operands = operands,
	.n_operands = ARRAY_SIZE(operands),
	.options = options,
	.n_options = ARRAY_SIZE(options),
	.examples = examples,
	.n_examples = ARRAY_SIZE(examples),
	.takes_rest = true,
	.run = run,
};
