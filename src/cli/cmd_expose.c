/* skerry expose: a URL for a port of a sandbox. */
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/units.h"

#define MINUTE_MS 60000

static const struct cli_operand expose_operands[] = {
	CLI_SANDBOX_OPERAND,
	{ .name = "PORT", .help = "where a server in the sandbox listens, on 0.0.0.0" },
};

static const struct cli_option expose_options[] = {
	{ .name = "ttl",
	  .type = CLI_TEXT,
	  .metavar = "TIME",
	  .help = "how long the URL works: 15m, 2h (default: what the server says, an hour)" },
};

static const struct cli_example expose_examples[] = {
	{ "look at what is served on port 8000", "skerry expose build 8000" },
	{ "open it in a browser", "xdg-open \"$(skerry expose build 8000 --ttl 2h)\"" },
};

static int usage_error(const char *what, const char *text, const char *wanted)
{
	struct err err = ERR_INIT;

	err_code(&err, -1, "usage", "%s is '%s', not %s", what, text, wanted);
	return report_err(&err);
}

static int read_body(const struct cli_args *args, json_t *body)
{
	const char *ttl = cli_args_text(args, "ttl", NULL);
	int64_t port, ms;

	if (str_to_i64(args->operands[1], &port) < 0 || port < 1 || port > 65535)
		return usage_error("PORT", args->operands[1], "a number from 1 to 65535");
	json_put_int(body, "port", port);
	if (!ttl)
		return CLI_OK;
	if (duration_parse(ttl, &ms) < 0 || ms <= 0 || ms % MINUTE_MS != 0)
		return usage_error("--ttl", ttl, "a duration of whole minutes, such as 15m or 2h");
	json_put_int(body, "ttl_minutes", ms / MINUTE_MS);
	return CLI_OK;
}

static int run_expose(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *body = json_object(), *answer = NULL;
	char left[UNITS_TEXT_SIZE];
	int64_t expires_ms = 0;
	int code = read_body(args, body);

	if (code == CLI_OK)
		code = session_ask(cli, args->operands[0], "POST", "/expose", STEAL(body), &answer);
	if (!answer)
		return code;
	printf("%s\n", json_get_str(answer, "url", ""));
	fflush(stdout);
	if (!cli->quiet && time_parse(json_get_str(answer, "expires_at", ""), &expires_ms) == 0)
		fprintf(stderr, "works for %s, for whoever has it\n",
			duration_text(expires_ms - clock_unix_ms(), left));
	return CLI_OK;
}

const struct cli_command cli_command_expose = {
	.name = "expose",
	.summary = "print a URL for a port of a sandbox",
	.detail =
		"Whoever has the URL reaches the HTTP server that listens on the port, WebSockets "
		"and server-sent events included, until it expires. A paused sandbox is resumed "
		"by the first request. Nothing else of the sandbox is opened.",
	.operands = expose_operands,
	.n_operands = ARRAY_SIZE(expose_operands),
	.options = expose_options,
	.n_options = ARRAY_SIZE(expose_options),
	.examples = expose_examples,
	.n_examples = ARRAY_SIZE(expose_examples),
	.run = run_expose,
};
