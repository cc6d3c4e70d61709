/* skerry egress: what a sandbox may reach, and what it was denied. */
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/session.h"
#include "cli/table.h"
#include "cli/units.h"

#define WORD_OPEN "open"
#define WORD_NONE "none"

int cli_rules(const char *const *words, size_t n, json_t **ret)
{
	json_t *rules = json_array();

	for (size_t i = 0; i < n; i++) {
		if (n == 1 && str_eq(words[i], WORD_NONE))
			break;
		if (n == 1 && str_eq(words[i], WORD_OPEN)) {
			json_decref(rules);
			rules = json_null();
			break;
		}
		if (str_eq(words[i], WORD_OPEN) || str_eq(words[i], WORD_NONE)) {
			struct err err = ERR_INIT;

			json_decref(rules);
			err_code(&err, -1, "usage", "'%s' stands alone, not beside other rules",
				 words[i]);
			return report_err(&err);
		}
		json_array_append_new(rules, json_string(words[i]));
	}
	*ret = rules;
	return CLI_OK;
}

static void print_rules(const json_t *answer)
{
	const json_t *rules = json_object_get(answer, "rules"), *rule;
	size_t i;

	if (!json_is_array(rules))
		printf(WORD_OPEN "\n");
	else if (json_array_size(rules) == 0)
		printf(WORD_NONE "\n");
	json_array_foreach(rules, i, rule) {
		printf("%s\n", json_string_value(rule));
	}
}

/* Takes body. */
static int change(struct cli *cli, const struct cli_args *args, const char *method, json_t *body)
{
	_cleanup_json_ json_t *answer = NULL;
	int code = session_ask(cli, args->operands[0], method, "/egress", body, &answer);

	if (answer && !cli->quiet)
		print_rules(answer);
	return code;
}

/* ---- show, set, add, rm ---- */

static const struct cli_operand show_operands[] = { CLI_SANDBOX_OPERAND };

static const struct cli_operand rules_operands[] = {
	CLI_SANDBOX_OPERAND,
	{ .name = "RULE", .help = "rules", .repeat = true },
};

static const struct cli_operand set_operands[] = {
	CLI_SANDBOX_OPERAND,
	{ .name = "RULE", .help = "rules, or one of: open, none", .repeat = true },
};

static const struct cli_example show_examples[] = {
	{ "open, none, or its rules", "skerry egress show build" },
};

static const struct cli_example set_examples[] = {
	{ "one site, and all below another",
	  "skerry egress set build pypi.org:443 '*.pythonhosted.org:443'" },
	{ "nothing", "skerry egress set build none" },
	{ "the internet", "skerry egress set build open" },
};

static const struct cli_example add_examples[] = {
	{ "one more", "skerry egress add build udp://203.0.113.7:123" },
};

static const struct cli_example rm_examples[] = {
	{ "one less; what it carried is cut", "skerry egress rm build pypi.org:443" },
};

static int run_show(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	int code = session_ask(cli, args->operands[0], "GET", "/egress", NULL, &answer);

	if (answer)
		print_rules(answer);
	return code;
}

static int run_set(struct cli *cli, const struct cli_args *args)
{
	json_t *body, *rules = NULL;
	int code = cli_rules(args->operands + 1, args->n_operands - 1, &rules);

	if (code != CLI_OK)
		return code;
	body = json_object();
	json_put(body, "rules", rules);
	return change(cli, args, "PUT", body);
}

static int run_change(struct cli *cli, const struct cli_args *args, const char *what)
{
	json_t *body = json_object(), *rules = json_array();

	for (size_t i = 1; i < args->n_operands; i++)
		json_array_append_new(rules, json_string(args->operands[i]));
	json_put(body, what, rules);
	return change(cli, args, "POST", body);
}

static int run_add(struct cli *cli, const struct cli_args *args)
{
	return run_change(cli, args, "add");
}

static int run_rm(struct cli *cli, const struct cli_args *args)
{
	return run_change(cli, args, "remove");
}

/* ---- denials ---- */

static const struct cli_example denials_examples[] = {
	{ "what was denied, and which rule would allow it", "skerry egress denials build" },
	{ "allow all of it", "skerry egress add build $(skerry egress denials --quiet build)" },
};

static void add_denial(struct table *table, const json_t *denial)
{
	const char *protocol = json_get_str(denial, "protocol", NULL);
	const char *host = json_get_str(denial, "host", NULL);
	int64_t port = json_get_int(denial, "port", 0), at_ms;
	_cleanup_buf_ struct buf target = BUF_INIT;
	char text[UNITS_TEXT_SIZE], count[24];

	buf_append_str(&target, host ? host : json_get_str(denial, "address", "?"));
	if (port)
		buf_printf(&target, ":%lld", (long long)port);
	snprintf(count, sizeof(count), "%lld", (long long)json_get_int(denial, "count", 1));
	table_add(table, time_parse(json_get_str(denial, "at", ""), &at_ms) == 0
				 ? duration_short(clock_unix_ms() - at_ms, text)
				 : NULL);
	table_add(table, buf_str(&target));
	table_add(table, protocol);
	table_add(table, count);
	table_add(table, json_get_str(denial, "rule", NULL));
	table_add(table, json_get_str(denial, "reason", NULL));
}

/* Each rule once, for a command line. */
static void print_missing_rules(const json_t *items)
{
	const json_t *item, *before;
	size_t i, k;

	json_array_foreach(items, i, item) {
		const char *rule = json_get_str(item, "rule", NULL);
		bool seen = !rule;

		json_array_foreach(items, k, before) {
			if (k < i && str_eq(json_get_str(before, "rule", NULL), rule))
				seen = true;
		}
		if (!seen)
			printf("%s\n", rule);
	}
}

static void print_denials(const json_t *answer)
{
	static const struct table_column columns[] = {
		{ "AGO", 0 },	{ "TARGET", 12 }, { "PROTOCOL", 0 },
		{ "COUNT", 0 }, { "RULE", 8 },	  { "WHY", 12 },
	};
	const json_t *items = json_object_get(answer, "items"), *item;
	int64_t unreported = json_get_int(answer, "unreported", 0);
	struct table table;
	size_t i;

	if (json_array_size(items) == 0) {
		fprintf(stderr, "nothing was denied\n");
		return;
	}
	table_init(&table, columns, ARRAY_SIZE(columns));
	json_array_foreach(items, i, item) {
		add_denial(&table, item);
	}
	output_table(&table);
	table_clear(&table);
	if (unreported > 0)
		fprintf(stderr, "and %lld packets that came too fast to be listed\n",
			(long long)unreported);
}

static int run_denials(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	int code = session_ask(cli, args->operands[0], "GET", "/egress/denials", NULL, &answer);

	if (answer && cli->quiet)
		print_missing_rules(json_object_get(answer, "items"));
	else if (answer)
		print_denials(answer);
	return code;
}

/* ---- rows ---- */

#define RULES_DETAIL                                                                               \
	"A rule is a host name, *.NAME for all names below it, an IP address or a range "          \
	"(203.0.113.0/24), each with :PORT or for all ports, and with udp:// or tcp:// in front "  \
	"or "                                                                                      \
	"for both. What no rule allows is denied. Changes apply to the next packet, also of "      \
	"connections that are open."

const struct cli_command cli_command_egress_show = {
	.name = "egress show",
	.summary = "show what a sandbox may reach",
	.operands = show_operands,
	.n_operands = ARRAY_SIZE(show_operands),
	.examples = show_examples,
	.n_examples = ARRAY_SIZE(show_examples),
	.run = run_show,
};

const struct cli_command cli_command_egress_set = {
	.name = "egress set",
	.summary = "set what a sandbox may reach",
	.detail = RULES_DETAIL,
	.operands = set_operands,
	.n_operands = ARRAY_SIZE(set_operands),
	.examples = set_examples,
	.n_examples = ARRAY_SIZE(set_examples),
	.run = run_set,
};

const struct cli_command cli_command_egress_add = {
	.name = "egress add",
	.summary = "add rules to what a sandbox may reach",
	.operands = rules_operands,
	.n_operands = ARRAY_SIZE(rules_operands),
	.examples = add_examples,
	.n_examples = ARRAY_SIZE(add_examples),
	.run = run_add,
};

const struct cli_command cli_command_egress_rm = {
	.name = "egress rm",
	.summary = "take rules out of what a sandbox may reach",
	.operands = rules_operands,
	.n_operands = ARRAY_SIZE(rules_operands),
	.examples = rm_examples,
	.n_examples = ARRAY_SIZE(rm_examples),
	.run = run_rm,
};

const struct cli_command cli_command_egress_denials = {
	.name = "egress denials",
	.summary = "list what a sandbox tried to reach and was denied",
	.detail = "With --quiet it prints only the rules that would allow it.",
	.operands = show_operands,
	.n_operands = ARRAY_SIZE(show_operands),
	.examples = denials_examples,
	.n_examples = ARRAY_SIZE(denials_examples),
	.run = run_denials,
};
