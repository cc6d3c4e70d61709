/* skerry limits, skerry prices: the sizes, limits, defaults and rates in force on the server. */
#include <stdio.h>

#include "base/str.h"
#include "cli/list.h"
#include "cli/session.h"
#include "cli/units.h"

#define HOUR_S 3600
#define DAY_S  86400

static void add_shape(struct table *table, const json_t *size)
{
	char text[UNITS_TEXT_SIZE];

	table_add(table, json_get_str(size, "name", NULL));
	snprintf(text, sizeof(text), "%g", json_number_value(json_object_get(size, "vcpus")));
	table_add(table, text);
	list_add_bytes(table, json_get_int(size, "memory_mb", 0) << 20);
	list_add_bytes(table, json_get_int(size, "disk_gb", 0) << 30);
}

/* ---- limits ---- */

static const struct cli_example limits_examples[] = {
	{ "what is allowed here", "skerry limits" },
	{ "one of them, for scripts", "skerry limits --json | jq .sandboxes_per_account" },
};

static int print_sizes(const json_t *limits)
{
	static const struct table_column columns[] = {
		{ "SIZE", 0 }, { "VCPUS", 0 }, { "MEMORY", 0 }, { "DISK", 0 }
	};
	struct table table;
	const json_t *size;
	size_t i;
	int code;

	table_init(&table, columns, ARRAY_SIZE(columns));
	json_array_foreach(json_object_get(limits, "sizes"), i, size) {
		add_shape(&table, size);
	}
	code = output_table(&table);
	table_clear(&table);
	return code;
}

static int print_limits(const json_t *limits)
{
	static const struct table_column columns[] = { { "LIMIT", 0 }, { "VALUE", 8 } };
	struct table table;
	const char *name;
	const json_t *value;
	char number[24];
	int code;

	table_init(&table, columns, ARRAY_SIZE(columns));
	json_object_foreach((json_t *)(uintptr_t)limits, name, value) {
		if (json_is_array(value))
			continue;
		snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
		table_add(&table, name);
		table_add(&table, json_is_integer(value) ? number : json_string_value(value));
	}
	code = output_table(&table);
	table_clear(&table);
	return code;
}

static int run_limits(struct cli *cli, const struct cli_args *args)
{
	static const struct client_spec spec = { .method = "GET", .path = "/v1/limits" };
	_cleanup_buf_ struct buf raw = BUF_INIT;
	_cleanup_json_ json_t *limits = NULL;
	int code = session_json(cli, &spec, NULL, &limits, &raw);

	(void)args;
	if (code != CLI_OK)
		return code;
	if (cli->json)
		return session_print_raw(&raw);
	code = print_sizes(limits);
	printf("\n");
	return code == CLI_OK ? print_limits(limits) : code;
}

/* ---- prices ---- */

static const struct cli_example prices_examples[] = {
	{ "what an hour of each size costs", "skerry prices" },
};

static void add_price(struct table *table, const json_t *size)
{
	int64_t rate = json_get_int(size, "microcredits_per_second", 0);
	char text[UNITS_TEXT_SIZE];

	add_shape(table, size);
	table_add(table, credits_text(rate * HOUR_S, text));
	table_add(table, credits_text(rate * DAY_S, text));
}

static int run_prices(struct cli *cli, const struct cli_args *args)
{
	static const struct table_column columns[] = {
		{ "SIZE", 0 }, { "VCPUS", 0 },	 { "MEMORY", 0 },
		{ "DISK", 0 }, { "AN HOUR", 0 }, { "A DAY", 0 },
	};
	static const struct list_view view = {
		.columns = columns,
		.n_columns = ARRAY_SIZE(columns),
		.id = "name",
		.add = add_price,
	};
	static const struct client_spec spec = { .method = "GET", .path = "/v1/prices" };
	_cleanup_buf_ struct buf raw = BUF_INIT;
	_cleanup_json_ json_t *prices = NULL;
	int code = session_json(cli, &spec, NULL, &prices, &raw);

	(void)args;
	if (code != CLI_OK)
		return code;
	if (cli->json)
		return session_print_raw(&raw);
	code = list_print(cli, json_object_get(prices, "sizes"), &view);
	if (code == CLI_OK && !cli->quiet)
		fprintf(stderr, "credits, while it runs; paused time is free\n");
	return code;
}

const struct cli_command cli_command_limits = {
	.name = "limits",
	.summary = "show the sizes, limits and defaults of the server",
	.detail = "skerryd.conf(5) says what each of them means.",
	.examples = limits_examples,
	.n_examples = ARRAY_SIZE(limits_examples),
	.run = run_limits,
};

const struct cli_command cli_command_prices = {
	.name = "prices",
	.summary = "show what running sandboxes cost, by size",
	.examples = prices_examples,
	.n_examples = ARRAY_SIZE(prices_examples),
	.run = run_prices,
};
