/* skerry extend and skerry rm: more time, or none. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/units.h"

/* ---- extend ---- */

static const struct cli_operand extend_operands[] = {
	CLI_SANDBOX_OPERAND,
	{ .name = "TIME", .help = "how much longer it shall live: 15m, 2h" },
};

static const struct cli_example extend_examples[] = {
	{ "half an hour more", "skerry extend sbx_1f2e3d4c 30m" },
};

static int read_minutes(const char *text, int64_t *ret_minutes)
{
	struct err err = ERR_INIT;
	int64_t ms;

	if (duration_parse(text, &ms) == 0 && ms > 0 && ms % 60000 == 0) {
		*ret_minutes = ms / 60000;
		return CLI_OK;
	}
	err_code(&err, -1, "usage", "TIME is '%s', not a duration of whole minutes", text);
	err_hint(&err, "write a number and a unit: 15m, 2h");
	return report_err(&err);
}

static int run_extend(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *body = json_object(), *answer = NULL;
	char left[UNITS_TEXT_SIZE];
	int64_t minutes = 0, expires_ms = 0;
	int code = read_minutes(args->operands[1], &minutes);

	if (code != CLI_OK)
		return code;
	json_put_int(body, "additional_minutes", minutes);
	code = session_ask(cli, args->operands[0], "POST", "/extend", STEAL(body), &answer);
	if (!answer)
		return code;
	if (cli->quiet) {
		printf("%s\n", json_get_str(answer, "id", ""));
		return CLI_OK;
	}
	(void)time_parse(json_get_str(answer, "expires_at", ""), &expires_ms);
	printf("%s lives until %s (%s from now)\n", json_get_str(answer, "id", ""),
	       json_get_str(answer, "expires_at", "?"),
	       duration_text(expires_ms - clock_unix_ms(), left));
	return CLI_OK;
}

/* ---- rm ---- */

static const struct cli_operand rm_operands[] = {
	{ .name = "SANDBOX",
	  .help = "ids or names",
	  .optional = true,
	  .repeat = true,
	  .complete = CLI_COMPLETE_SANDBOX },
};

static const struct cli_option rm_options[] = {
	{ .name = "all",
	  .letter = 'a',
	  .type = CLI_FLAG,
	  .help = "every living sandbox of the account; asks first" },
	{ .name = "yes", .letter = 'y', .type = CLI_FLAG, .help = "do not ask" },
};

static const struct cli_example rm_examples[] = {
	{ "one, or several", "skerry rm sbx_1f2e3d4c build" },
	{ "everything, without being asked", "skerry rm --all --yes" },
};

static int remove_one(struct cli *cli, const char *id_or_name)
{
	_cleanup_json_ json_t *answer = NULL;
	int code = session_ask(cli, id_or_name, "DELETE", "", NULL, &answer);

	if (answer)
		printf("%s\n", json_get_str(answer, "id", id_or_name));
	return code;
}

/* The ids of one page of living sandboxes; a loop of pages would race with those being removed. */
static int living(struct cli *cli, json_t **ret)
{
	struct client_spec spec = { .method = "GET", .path = "/v1/sandboxes?limit=200" };

	return session_json(cli, &spec, NULL, ret, NULL);
}

static int confirm(size_t n)
{
	struct err err = ERR_INIT;
	char answer[16] = "";

	if (!isatty(STDIN_FILENO)) {
		err_code(&err, -1, "usage", "this would destroy %zu sandboxes", n);
		err_hint(&err, "add --yes if that is what you want");
		return report_err(&err);
	}
	fprintf(stderr, "destroy %zu sandbox%s? [y/N] ", n, n == 1 ? "" : "es");
	fflush(stderr);
	if (fgets(answer, sizeof(answer), stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
		return CLI_OK;
	fprintf(stderr, "nothing was done\n");
	return CLI_FAILED;
}

static int remove_all(struct cli *cli, bool yes)
{
	int worst = CLI_OK;

	for (bool first = true;; first = false) {
		_cleanup_json_ json_t *page = NULL;
		const json_t *items, *item;
		int code = living(cli, &page);
		size_t i;

		if (code != CLI_OK)
			return code;
		items = json_object_get(page, "items");
		if (json_array_size(items) == 0 || worst != CLI_OK)
			return worst;
		code = first && !yes ? confirm(json_array_size(items)) : CLI_OK;
		if (code != CLI_OK)
			return code;
		json_array_foreach(items, i, item) {
			code = remove_one(cli, json_get_str(item, "id", ""));
			if (worst == CLI_OK)
				worst = code;
		}
		/* A last page needs no second look, which would also find those still going down.
		 */
		if (json_is_null(json_object_get(page, "next_cursor")))
			return worst;
	}
}

static int run_rm(struct cli *cli, const struct cli_args *args)
{
	bool all = cli_args_has(args, "all");
	struct err err = ERR_INIT;
	int worst = CLI_OK;

	if (all == (args->n_operands > 0)) {
		err_code(&err, -1, "usage",
			 all ? "--all and names of sandboxes exclude each other"
			     : "skerry rm needs SANDBOX, or --all");
		return report_err(&err);
	}
	if (all)
		return remove_all(cli, cli_args_has(args, "yes"));
	for (size_t i = 0; i < args->n_operands; i++) {
		int code = remove_one(cli, args->operands[i]);

		if (worst == CLI_OK)
			worst = code;
	}
	return worst;
}

const struct cli_command cli_command_extend = {
	.name = "extend",
	.summary = "give a sandbox more time",
	.operands = extend_operands,
	.n_operands = ARRAY_SIZE(extend_operands),
	.examples = extend_examples,
	.n_examples = ARRAY_SIZE(extend_examples),
	.run = run_extend,
};

const struct cli_command cli_command_rm = {
	.name = "rm",
	.summary = "destroy sandboxes",
	.detail = "Prints the id of each. Destroying one that has ended already is no failure. All "
		  "are "
		  "tried; the exit code is that of the first failure.",
	.operands = rm_operands,
	.n_operands = ARRAY_SIZE(rm_operands),
	.options = rm_options,
	.n_options = ARRAY_SIZE(rm_options),
	.examples = rm_examples,
	.n_examples = ARRAY_SIZE(rm_examples),
	.run = run_rm,
};
