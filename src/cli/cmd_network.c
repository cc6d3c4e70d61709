/* skerry network: private networks, in which sandboxes reach each other. */
#include <string.h>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/list.h"
#include "cli/session.h"

#define NETWORKS "/v1/networks/"

static void network_path(const char *name, struct buf *path)
{
	buf_append_str(path, NETWORKS);
	client_escape(path, name);
}

/* ---- create, rm ---- */

static const struct cli_operand create_operands[] = {
	{ .name = "NAME", .help = "how the network is called: a-z, 0-9 and -" },
};

static const struct cli_example create_examples[] = {
	{ "a network, and one in it that others reach as db.team.internal",
	  "skerry network create team && skerry create --name db --network team" },
};

static int run_create(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *body = json_object(), *answer = NULL;
	_cleanup_buf_ struct buf raw = BUF_INIT;
	struct client_spec spec = { .method = "POST", .path = "/v1/networks", .body = body };
	int code;

	json_put_str(body, "name", args->operands[0]);
	code = session_json(cli, &spec, NULL, &answer, &raw);
	if (code != CLI_OK)
		return code;
	if (cli->json)
		return session_print_raw(&raw);
	printf("%s\n", json_get_str(answer, "name", ""));
	return CLI_OK;
}

static const struct cli_operand rm_operands[] = {
	{ .name = "NAME", .help = "networks", .repeat = true, .complete = CLI_COMPLETE_NETWORK },
};

static const struct cli_example rm_examples[] = {
	{ "one that has no members any more", "skerry network rm team" },
};

static int run_rm(struct cli *cli, const struct cli_args *args)
{
	return session_delete_each(cli, args, NETWORKS);
}

/* ---- ls ---- */

static const struct cli_example ls_examples[] = {
	{ "which there are, and who is in them", "skerry network ls" },
};

static void add_network(struct table *table, const json_t *network)
{
	const json_t *members = json_object_get(network, "members"), *member;
	const char *name = json_get_str(network, "name", NULL);
	size_t i;

	if (json_array_size(members) == 0) {
		table_add(table, name);
		for (int k = 0; k < 3; k++)
			table_add(table, NULL);
	}
	json_array_foreach(members, i, member) {
		table_add(table, name);
		table_add(table, json_get_str(member, "id", NULL));
		table_add(table, json_get_str(member, "host", NULL));
		table_add(table, json_get_str(member, "address", NULL));
	}
}

static int run_ls(struct cli *cli, const struct cli_args *args)
{
	static const struct table_column columns[] = {
		{ "NETWORK", 6 },
		{ "SANDBOX", 0 },
		{ "HOST NAME", 10 },
		{ "ADDRESS", 0 },
	};
	static const struct list_view view = {
		.columns = columns,
		.n_columns = ARRAY_SIZE(columns),
		.id = "name",
		.add = add_network,
		.none = "no networks; `skerry network create` makes one",
	};

	(void)args;
	return list_show(cli, "/v1/networks", &view);
}

/* ---- join, leave ---- */

static const struct cli_operand member_operands[] = {
	{ .name = "NETWORK", .help = "its name", .complete = CLI_COMPLETE_NETWORK },
	CLI_SANDBOX_OPERAND,
};

static const struct cli_option join_options[] = {
	{ .name = "as",
	  .type = CLI_TEXT,
	  .metavar = "NAME",
	  .help = "its name there (default: the sandbox's name, or its id)" },
};

static const struct cli_example join_examples[] = {
	{ "the others reach it as db.team.internal",
	  "skerry network join team sbx_1f2e3d4c --as db" },
};

static const struct cli_example leave_examples[] = {
	{ "the next packet is denied", "skerry network leave team db" },
};

static int member_path(struct cli *cli, const struct cli_args *args, struct buf *path)
{
	_cleanup_buf_ struct buf sandbox = BUF_INIT;
	int code = session_sandbox_path(cli, args->operands[1], &sandbox);

	if (code != CLI_OK)
		return code;
	network_path(args->operands[0], path);
	buf_append_str(path, "/members");
	buf_append_str(path, strrchr(buf_str(&sandbox), '/'));
	return CLI_OK;
}

static int call_member(struct cli *cli, const struct cli_args *args, const char *method,
		       json_t *body, json_t **ret, bool *ret_printed)
{
	_cleanup_buf_ struct buf path = BUF_INIT, raw = BUF_INIT;
	_cleanup_json_ json_t *owned = body;
	struct client_spec spec = { .method = method, .body = owned };
	int code = member_path(cli, args, &path);

	if (code != CLI_OK)
		return code;
	spec.path = buf_str(&path);
	code = session_json(cli, &spec, NULL, ret, &raw);
	*ret_printed = code == CLI_OK && cli->json;
	return *ret_printed ? session_print_raw(&raw) : code;
}

static int run_join(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	json_t *body = json_object();
	bool printed = false;
	int code;

	if (cli_args_has(args, "as"))
		json_put_str(body, "as", cli_args_text(args, "as", NULL));
	code = call_member(cli, args, "PUT", body, &answer, &printed);
	if (code == CLI_OK && !printed)
		printf("%s\n", json_get_str(answer, "host", ""));
	return code;
}

static int run_leave(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	bool printed = false;
	int code = call_member(cli, args, "DELETE", NULL, &answer, &printed);

	if (code == CLI_OK && !printed)
		printf("%s\n", json_get_str(answer, "id", ""));
	return code;
}

/* ---- rows ---- */

const struct cli_command cli_command_network_create = {
	.name = "network create",
	.summary = "make a private network",
	.detail = "Its members reach each other on every port, as NAME.NETWORK.internal and by "
		  "address, whatever their egress rules say. Nobody else reaches them.",
	.operands = create_operands,
	.n_operands = ARRAY_SIZE(create_operands),
	.examples = create_examples,
	.n_examples = ARRAY_SIZE(create_examples),
	.run = run_create,
};

const struct cli_command cli_command_network_ls = {
	.name = "network ls",
	.summary = "list private networks and their members",
	.examples = ls_examples,
	.n_examples = ARRAY_SIZE(ls_examples),
	.run = run_ls,
};

const struct cli_command cli_command_network_rm = {
	.name = "network rm",
	.summary = "remove private networks that have no members",
	.operands = rm_operands,
	.n_operands = ARRAY_SIZE(rm_operands),
	.examples = rm_examples,
	.n_examples = ARRAY_SIZE(rm_examples),
	.run = run_rm,
};

const struct cli_command cli_command_network_join = {
	.name = "network join",
	.summary = "make a sandbox a member of a private network",
	.operands = member_operands,
	.n_operands = ARRAY_SIZE(member_operands),
	.options = join_options,
	.n_options = ARRAY_SIZE(join_options),
	.examples = join_examples,
	.n_examples = ARRAY_SIZE(join_examples),
	.run = run_join,
};

const struct cli_command cli_command_network_leave = {
	.name = "network leave",
	.summary = "take a sandbox out of a private network",
	.operands = member_operands,
	.n_operands = ARRAY_SIZE(member_operands),
	.examples = leave_examples,
	.n_examples = ARRAY_SIZE(leave_examples),
	.run = run_leave,
};
