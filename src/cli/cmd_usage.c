/* skerry usage, skerry account grant: what sandboxes cost, and credit for it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rand.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/units.h"

#define EXPORT_PAGE 1000
#define HOUR_S	    3600

static const struct cli_option usage_options[] = {
	{ .name = "days",
	  .type = CLI_INTEGER,
	  .metavar = "N",
	  .min = 1,
	  .max = 366,
	  .help = "so many of the newest days that have charges (default: 30)" },
	{ .name = "limit",
	  .type = CLI_INTEGER,
	  .metavar = "N",
	  .min = 1,
	  .max = 200,
	  .help = "so many keys, and sandboxes, of those charged last (default: 50)" },
	{ .name = "account",
	  .type = CLI_TEXT,
	  .metavar = "ID",
	  .complete = CLI_COMPLETE_ACCOUNT,
	  .help = "of this account instead of your own: administrators" },
	{ .name = "export",
	  .type = CLI_FLAG,
	  .help = "every grant and every charge instead, one JSON object a line" },
};

static const struct cli_example usage_examples[] = {
	{ "what is left, and when it ends", "skerry usage" },
	{ "all that was ever charged, for programs", "skerry usage --export >ledger.jsonl" },
};

/* ---- figures ---- */

static void add_credits(struct table *table, int64_t micro)
{
	char text[UNITS_TEXT_SIZE];

	table_add(table, credits_text(micro, text));
}

static void add_running(struct table *table, const json_t *item)
{
	double seconds = json_number_value(json_object_get(item, "running_seconds"));
	char text[UNITS_TEXT_SIZE];

	table_add(table, duration_text((int64_t)(seconds * 1000), text));
}

/* ---- usage ---- */

static void print_line(const char *what, const char *value)
{
	printf("%-12s %s\n", what, value);
}

static void print_end(const json_t *usage)
{
	int64_t seconds = json_get_int(usage, "seconds_to_zero", 0);
	char text[UNITS_TEXT_SIZE];

	if (!json_is_integer(json_object_get(usage, "seconds_to_zero")))
		return;
	printf("%-12s in %s, %s\n", "ends", duration_text(seconds * 1000, text),
	       json_get_str(usage, "zero_at", "-"));
}

static void print_balance(const json_t *usage)
{
	int64_t rate = json_get_int(usage, "microcredits_per_second", 0);
	char text[UNITS_TEXT_SIZE], rest[UNITS_TEXT_SIZE];

	print_line("account", json_get_str(usage, "account_id", "-"));
	printf("%-12s %s credits%s\n", "balance",
	       credits_text(json_get_int(usage, "balance_microcredits", 0), text),
	       json_get_bool(usage, "unlimited", false) ? ", not limited" : "");
	printf("%-12s %s credits, with what runs and is kept aside taken off\n", "available",
	       credits_text(json_get_int(usage, "available_microcredits", 0), text));
	printf("%-12s %s credits of %s granted\n", "charged",
	       credits_text(json_get_int(usage, "charged_microcredits", 0), text),
	       credits_text(json_get_int(usage, "granted_microcredits", 0), rest));
	printf("%-12s %lld running, %s credits an hour\n", "rate",
	       (long long)json_get_int(usage, "running", 0), credits_text(rate * HOUR_S, text));
	print_end(usage);
}

/* second: a name beside the first column, or NULL. */
static void print_totals(const json_t *items, const char *title, const char *name,
			 const char *second_title, const char *second)
{
	const struct table_column columns[] = {
		{ title, 0 }, { "CREDITS", 0 }, { "RUNNING", 0 }, { second_title, 8 }
	};
	struct table table;
	const json_t *item;
	size_t i;

	if (json_array_size(items) == 0)
		return;
	table_init(&table, columns, second ? 4 : 3);
	json_array_foreach(items, i, item) {
		table_add(&table, json_get_str(item, name, NULL));
		add_credits(&table, json_get_int(item, "microcredits", 0));
		add_running(&table, item);
		if (second)
			table_add(&table, json_get_str(item, second, NULL));
	}
	printf("\n");
	output_table(&table);
	table_clear(&table);
}

static void append_account(struct buf *path, const struct cli_args *args)
{
	const char *account = cli_args_text(args, "account", NULL);

	if (!account)
		return;
	buf_append_str(path, "&account_id=");
	client_escape(path, account);
}

static int print_usage(struct cli *cli, const struct cli_args *args)
{
	_cleanup_buf_ struct buf path = BUF_INIT, raw = BUF_INIT;
	_cleanup_json_ json_t *usage = NULL;
	struct client_spec spec = { .method = "GET" };
	int code;

	buf_printf(&path, "/v1/usage?days=%lld&limit=%lld",
		   (long long)cli_args_number(args, "days", 30),
		   (long long)cli_args_number(args, "limit", 50));
	append_account(&path, args);
	spec.path = buf_str(&path);
	code = session_json(cli, &spec, NULL, &usage, &raw);
	if (code != CLI_OK)
		return code;
	if (cli->json)
		return session_print_raw(&raw);
	print_balance(usage);
	if (cli->quiet)
		return CLI_OK;
	print_totals(json_object_get(usage, "by_day"), "DAY", "day", "", NULL);
	print_totals(json_object_get(usage, "by_key"), "KEY", "key_id", "LABEL", "label");
	print_totals(json_object_get(usage, "by_sandbox"), "SANDBOX", "sandbox_id", "NAME", "name");
	return CLI_OK;
}

/* ---- export ---- */

static int print_entries(const json_t *items)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	const json_t *item;
	size_t i;

	json_array_foreach(items, i, item) {
		json_write(item, &out);
		buf_append_char(&out, '\n');
	}
	return out.len ? output_write(out.data, out.len) : CLI_OK;
}

static int export_page(struct cli *cli, const struct cli_args *args, int64_t *cursor, bool *more)
{
	_cleanup_buf_ struct buf path = BUF_INIT;
	_cleanup_json_ json_t *page = NULL;
	struct client_spec spec = { .method = "GET" };
	const char *next;
	int code;

	buf_printf(&path, "/v1/ledger?cursor=%lld&limit=%d", (long long)*cursor, EXPORT_PAGE);
	append_account(&path, args);
	spec.path = buf_str(&path);
	code = session_json(cli, &spec, NULL, &page, NULL);
	if (code != CLI_OK)
		return code;
	next = json_get_str(page, "next_cursor", NULL);
	*more = next && str_to_i64(next, cursor) == 0;
	return print_entries(json_object_get(page, "items"));
}

static int run_usage(struct cli *cli, const struct cli_args *args)
{
	int64_t cursor = 0;
	bool more = true;
	int code = CLI_OK;

	if (!cli_args_has(args, "export"))
		return print_usage(cli, args);
	while (code == CLI_OK && more)
		code = export_page(cli, args, &cursor, &more);
	return code;
}

/* ---- grants ---- */

static const struct cli_operand grant_operands[] = {
	{ .name = "ACCOUNT", .help = "its id", .complete = CLI_COMPLETE_ACCOUNT },
	{ .name = "CREDITS", .help = "how many, also a fraction" },
};

static const struct cli_option grant_options[] = {
	{ .name = "reference",
	  .type = CLI_TEXT,
	  .metavar = "TEXT",
	  .help = "the same reference is the same grant: sent again, it grants nothing more" },
	{ .name = "note", .type = CLI_TEXT, .metavar = "TEXT", .help = "for people" },
};

static const struct cli_example grant_examples[] = {
	{ "for an invoice, once",
	  "skerry account grant acc_0123456789abcdef 100 --reference invoice-17" },
};

/* libcurl may send again what it sent on a connection that turns out to be closed. */
static void put_reference(json_t *body, const char *given)
{
	char random[33], made[40];

	rand_hex(random, sizeof(random) - 1);
	snprintf(made, sizeof(made), "cli-%s", random);
	json_put_str(body, "reference", given ? given : made);
}

static int run_grant(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *body = json_object(), *answer = NULL;
	_cleanup_buf_ struct buf path = BUF_INIT, raw = BUF_INIT;
	struct client_spec spec = { .method = "POST", .body = body };
	char text[UNITS_TEXT_SIZE], *rest;
	double credits = strtod(args->operands[1], &rest);
	int code;

	if (rest == args->operands[1] || *rest || !(credits > 0))
		return report_usage("CREDITS is not a number above zero", NULL);
	json_put(body, "credits", json_real(credits));
	put_reference(body, cli_args_text(args, "reference", NULL));
	if (cli_args_has(args, "note"))
		json_put_str(body, "note", cli_args_text(args, "note", NULL));
	buf_append_str(&path, "/v1/accounts/");
	client_escape(&path, args->operands[0]);
	buf_append_str(&path, "/grants");
	spec.path = buf_str(&path);
	code = session_json(cli, &spec, NULL, &answer, &raw);
	if (code != CLI_OK)
		return code;
	if (cli->json)
		return session_print_raw(&raw);
	if (cli->quiet)
		printf("%lld\n", (long long)json_get_int(answer, "id", 0));
	else
		printf("%s credits granted, entry %lld\n",
		       credits_text(json_get_int(answer, "microcredits", 0), text),
		       (long long)json_get_int(answer, "id", 0));
	return CLI_OK;
}

/* ---- rows ---- */

const struct cli_command cli_command_usage = {
	.name = "usage",
	.summary = "show what sandboxes cost, and what credit is left",
	.detail = "Balance, the rate of what runs now and when the credit ends at that rate; what "
		  "was "
		  "spent by day, by key and by sandbox. With --export, the ledger itself.",
	.options = usage_options,
	.n_options = ARRAY_SIZE(usage_options),
	.examples = usage_examples,
	.n_examples = ARRAY_SIZE(usage_examples),
	.run = run_usage,
};

const struct cli_command cli_command_account_grant = {
	.name = "account grant",
	.summary = "give credits to an account",
	.detail =
		"For administrators. What was paused for want of credit is resumed by whatever is "
		"asked of it next.",
	.operands = grant_operands,
	.n_operands = ARRAY_SIZE(grant_operands),
	.options = grant_options,
	.n_options = ARRAY_SIZE(grant_options),
	.examples = grant_examples,
	.n_examples = ARRAY_SIZE(grant_examples),
	.run = run_grant,
};
