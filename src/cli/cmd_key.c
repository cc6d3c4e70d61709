/*
 * skerry key, skerry account: who may do what. The text of a key is all that goes to standard
 * output when one is made, so that it can be put where it belongs; what there is to say about it
 * goes to standard error.
 */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/list.h"
#include "cli/session.h"
#include "cli/units.h"

#define KEYS	 "/v1/keys"
#define ACCOUNTS "/v1/accounts"

#define ACCOUNT_OPTION                                                                             \
	{                                                                                          \
		.name = "account", .type = CLI_TEXT, .metavar = "ID",                              \
		.complete = CLI_COMPLETE_ACCOUNT,                                                  \
		.help = "of this account instead of your own: administrators"                      \
	}

/* What a path is followed by. */
static void append_account(struct buf *path, const struct cli_args *args, char separator)
{
	const char *account = cli_args_text(args, "account", NULL);

	if (!account)
		return;
	buf_printf(path, "%caccount_id=", separator);
	client_escape(path, account);
}

/* ---- create ---- */

static const struct cli_operand create_operands[] = {
	{ .name = "LABEL", .help = "what the key is for", .optional = true },
};

static const struct cli_option create_options[] = {
	{ .name = "allow",
	  .type = CLI_TEXT,
	  .metavar = "SCOPE[,SCOPE]",
	  .repeat = true,
	  .help = "only this: exec, files, sandbox:read …, or an operation such as exec_wait; "
		  "may be repeated" },
	{ .name = "sandbox",
	  .type = CLI_TEXT,
	  .metavar = "ID",
	  .repeat = true,
	  .complete = CLI_COMPLETE_SANDBOX,
	  .help = "only this sandbox; may be repeated" },
	{ .name = "label",
	  .letter = 'l',
	  .type = CLI_PAIR,
	  .metavar = "KEY=VALUE",
	  .repeat = true,
	  .help = "only sandboxes with this label, which those that it makes get; may be "
		  "repeated" },
	{ .name = "size",
	  .type = CLI_TEXT,
	  .metavar = "SIZE",
	  .repeat = true,
	  .help = "only sandboxes of this size can it make; may be repeated" },
	{ .name = "lifetime-max",
	  .type = CLI_MINUTES,
	  .metavar = "DURATION",
	  .help = "the longest lifetime that it can give a sandbox" },
	{ .name = "no-loosen", .type = CLI_FLAG, .help = "it can only tighten egress" },
	{ .name = "no-root", .type = CLI_FLAG, .help = "it does nothing as root, sudo included" },
	{ .name = "spend-max",
	  .type = CLI_INTEGER,
	  .metavar = "CREDITS",
	  .max = 1000000000,
	  .help = "what all that it makes may cost together" },
	{ .name = "ttl",
	  .type = CLI_MINUTES,
	  .metavar = "DURATION",
	  .help = "it expires then (default: with the key that makes it)" },
	{ .name = "admin", .type = CLI_FLAG, .help = "it administers the server" },
	ACCOUNT_OPTION,
};

static const struct cli_example create_examples[] = {
	{ "for an agent that works in one sandbox, and nowhere else",
	  "skerry key create agent-7 --allow exec,files --sandbox sbx_1f2e3d4c --ttl 8h" },
	{ "for an agent that makes its own, small and short",
	  "skerry key create agent-8 --label agent=8 --size tiny --lifetime-max 1h --no-loosen" },
};

/* "exec,files" and "--allow exec --allow files" are the same. */
static void add_names(json_t *list, const char *text)
{
	for (const char *end; *text; text = end + (*end == ',')) {
		end = text + strcspn(text, ",");
		if (end > text)
			json_array_append_new(list, json_stringn(text, (size_t)(end - text)));
	}
}

static void put_names(json_t *scopes, const char *field, const struct cli_args *args,
		      const char *option)
{
	json_t *list = json_array();

	for (size_t i = 0; i < args->n_given; i++) {
		if (str_eq(args->given[i].option->name, option))
			add_names(list, args->given[i].text);
	}
	if (cli_args_has(args, option))
		json_put(scopes, field, json_incref(list));
	json_decref(list);
}

static json_t *scopes_of(const struct cli_args *args)
{
	json_t *scopes = json_object();

	put_names(scopes, "operations", args, "allow");
	put_names(scopes, "sandboxes", args, "sandbox");
	put_names(scopes, "sizes", args, "size");
	if (cli_args_has(args, "label"))
		json_put(scopes, "labels", cli_labels(args));
	if (cli_args_has(args, "lifetime-max"))
		json_put_int(scopes, "lifetime_minutes_max",
			     cli_args_number(args, "lifetime-max", 0));
	if (cli_args_has(args, "no-loosen"))
		json_put(scopes, "egress_loosen", json_false());
	if (cli_args_has(args, "no-root"))
		json_put(scopes, "root", json_false());
	if (cli_args_has(args, "spend-max"))
		json_put_int(scopes, "spend_credits_max", cli_args_number(args, "spend-max", 0));
	return scopes;
}

static int print_made(const struct cli *cli, const json_t *key, const char *what)
{
	if (!cli->quiet)
		fprintf(stderr, "%s %s; this is the only time that its text is shown:\n",
			json_get_str(key, "id", ""), what);
	printf("%s\n", json_get_str(key, "key", ""));
	return CLI_OK;
}

static int run_create(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *body = json_object(), *answer = NULL;
	_cleanup_buf_ struct buf raw = BUF_INIT;
	struct client_spec spec = { .method = "POST", .path = KEYS, .body = body };
	json_t *scopes = scopes_of(args);
	int code;

	if (args->n_operands > 0)
		json_put_str(body, "label", args->operands[0]);
	if (json_object_size(scopes) > 0)
		json_put(body, "scopes", json_incref(scopes));
	json_decref(scopes);
	if (cli_args_has(args, "ttl"))
		json_put_int(body, "ttl_minutes", cli_args_number(args, "ttl", 0));
	if (cli_args_has(args, "admin"))
		json_put(body, "admin", json_true());
	if (cli_args_has(args, "account"))
		json_put_str(body, "account_id", cli_args_text(args, "account", NULL));
	code = session_json(cli, &spec, NULL, &answer, &raw);
	if (code != CLI_OK)
		return code;
	return cli->json ? session_print_raw(&raw) : print_made(cli, answer, "made");
}

/* ---- ls ---- */

static const struct cli_option ls_options[] = {
	{ .name = "all", .letter = 'a', .type = CLI_FLAG, .help = "revoked and expired ones too" },
	ACCOUNT_OPTION,
};

static const struct cli_example ls_examples[] = {
	{ "which there are, and what they may", "skerry key ls" },
};

static void append_list(struct buf *out, const char *name, const json_t *list)
{
	const json_t *item;
	size_t i;

	if (!json_is_array(list))
		return;
	buf_printf(out, "%s%s=", out->len ? " " : "", name);
	json_array_foreach(list, i, item)
		buf_printf(out, "%s%s", i ? "," : "", json_string_value(item));
	if (json_array_size(list) == 0)
		buf_append_str(out, "nothing");
}

static void append_rest(struct buf *out, const json_t *scopes)
{
	const char *key;
	json_t *value;

	json_object_foreach(json_object_get(scopes, "labels"), key, value)
		buf_printf(out, "%slabel=%s:%s", out->len ? " " : "", key,
			   json_string_value(value));
	json_object_foreach((json_t *)(uintptr_t)scopes, key, value) {
		if (json_is_integer(value))
			buf_printf(out, "%s%s=%lld", out->len ? " " : "", key,
				   (long long)json_integer_value(value));
		else if (json_is_false(value))
			buf_printf(out, "%sno-%s", out->len ? " " : "",
				   str_eq(key, "root") ? "root" : "loosen");
	}
}

static void add_scopes(struct table *table, const json_t *key)
{
	const json_t *scopes = json_object_get(key, "scopes");
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (json_get_bool(key, "admin", false))
		buf_append_str(&text, "admin");
	append_list(&text, "allow", json_object_get(scopes, "operations"));
	append_list(&text, "sandbox", json_object_get(scopes, "sandboxes"));
	append_list(&text, "size", json_object_get(scopes, "sizes"));
	append_rest(&text, scopes);
	table_add(table, text.len ? buf_str(&text) : "everything");
}

static void add_key(struct table *table, const json_t *key)
{
	const char *expires = json_get_str(key, "expires_at", NULL);
	char left[UNITS_TEXT_SIZE];
	int64_t at;

	table_add(table, json_get_str(key, "id", NULL));
	table_add(table, json_get_str(key, "prefix", NULL));
	table_add(table, json_get_str(key, "label", NULL));
	table_add(table, json_get_bool(key, "current", false) ? "this one"
							      : json_get_str(key, "status", NULL));
	if (expires && time_parse(expires, &at) == 0 && at > clock_unix_ms())
		table_add(table, duration_short(at - clock_unix_ms(), left));
	else
		table_add(table, expires);
	add_scopes(table, key);
}

static int print_keys(const struct cli *cli, const json_t *items)
{
	static const struct table_column columns[] = {
		{ "KEY", 0 },	 { "BEGINS", 0 }, { "LABEL", 8 },
		{ "STATUS", 0 }, { "LEFT", 0 },	  { "MAY", 12 },
	};
	static const struct list_view view = {
		.columns = columns,
		.n_columns = ARRAY_SIZE(columns),
		.id = "id",
		.add = add_key,
	};

	return list_print(cli, items, &view);
}

static int print_json_items(json_t *items)
{
	_cleanup_json_ json_t *all = json_object();
	_cleanup_buf_ struct buf text = BUF_INIT;

	json_put(all, "items", json_incref(items));
	json_put_str(all, "next_cursor", NULL);
	json_write(all, &text);
	return session_print_raw(&text);
}

static int run_ls(struct cli *cli, const struct cli_args *args)
{
	_cleanup_buf_ struct buf path = BUF_INIT;
	_cleanup_json_ json_t *items = json_array();
	int code;

	buf_printf(&path, KEYS "?limit=200&status=%s", cli_args_has(args, "all") ? "all" : "valid");
	append_account(&path, args, '&');
	code = session_pages(cli, buf_str(&path), SIZE_MAX, items);
	if (code != CLI_OK)
		return code;
	if (cli->json)
		return print_json_items(items);
	return print_keys(cli, items);
}

/* ---- rotate, rm ---- */

static const struct cli_operand key_operands[] = {
	{ .name = "KEY", .help = "its id", .complete = CLI_COMPLETE_KEY },
};

static const struct cli_operand keys_operands[] = {
	{ .name = "KEY", .help = "ids", .repeat = true, .complete = CLI_COMPLETE_KEY },
};

static const struct cli_option rotate_options[] = {
	{ .name = "overlap",
	  .type = CLI_MILLIS,
	  .metavar = "DURATION",
	  .help = "the old text is good for that long (default: no longer)" },
	ACCOUNT_OPTION,
};

static const struct cli_option rm_options[] = { ACCOUNT_OPTION };

static const struct cli_example rotate_examples[] = {
	{ "with time to put the new text everywhere",
	  "skerry key rotate key_0123456789abcdef --overlap 1h" },
};

static const struct cli_example rm_examples[] = {
	{ "what is open with it ends within a second", "skerry key rm key_0123456789abcdef" },
};

static int run_rotate(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *body = json_object(), *answer = NULL;
	_cleanup_buf_ struct buf path = BUF_INIT, raw = BUF_INIT;
	struct client_spec spec = { .method = "POST", .body = body };
	int code;

	buf_append_str(&path, KEYS "/");
	client_escape(&path, args->operands[0]);
	buf_append_str(&path, "/rotate");
	spec.path = buf_str(&path);
	json_put_int(body, "overlap_seconds", (cli_args_number(args, "overlap", 0) + 999) / 1000);
	if (cli_args_has(args, "account"))
		json_put_str(body, "account_id", cli_args_text(args, "account", NULL));
	code = session_json(cli, &spec, NULL, &answer, &raw);
	if (code != CLI_OK)
		return code;
	return cli->json ? session_print_raw(&raw) : print_made(cli, answer, "has another text");
}

static int remove_one(struct cli *cli, const struct cli_args *args, const char *id)
{
	_cleanup_buf_ struct buf path = BUF_INIT, raw = BUF_INIT;
	_cleanup_json_ json_t *answer = NULL;
	struct client_spec spec = { .method = "DELETE" };
	int code;

	buf_append_str(&path, KEYS "/");
	client_escape(&path, id);
	append_account(&path, args, '?');
	spec.path = buf_str(&path);
	code = session_json(cli, &spec, NULL, &answer, &raw);
	if (code == CLI_OK && cli->json)
		return session_print_raw(&raw);
	if (code == CLI_OK)
		printf("%s\n", id);
	return code;
}

static int run_rm(struct cli *cli, const struct cli_args *args)
{
	int worst = CLI_OK;

	for (size_t i = 0; i < args->n_operands; i++) {
		int code = remove_one(cli, args, args->operands[i]);

		worst = worst == CLI_OK ? code : worst;
	}
	return worst;
}

/* ---- accounts ---- */

static const struct cli_operand account_operands[] = {
	{ .name = "NAME", .help = "of its own: a-z, 0-9 and -" },
};

static const struct cli_option account_options[] = {
	{ .name = "admin", .type = CLI_FLAG, .help = "it administers the server" },
};

static const struct cli_example account_examples[] = {
	{ "an account, and a sandbox in it",
	  "export SKERRY_API_KEY=$(skerry account create team-a) && skerry create" },
};

static const struct cli_example accounts_examples[] = {
	{ "which there are", "skerry account ls" },
};

static int run_account_create(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *body = json_object(), *answer = NULL;
	_cleanup_buf_ struct buf raw = BUF_INIT;
	struct client_spec spec = { .method = "POST", .path = ACCOUNTS, .body = body };
	int code;

	json_put_str(body, "name", args->operands[0]);
	if (cli_args_has(args, "admin"))
		json_put(body, "admin", json_true());
	code = session_json(cli, &spec, NULL, &answer, &raw);
	if (code != CLI_OK)
		return code;
	if (cli->json)
		return session_print_raw(&raw);
	if (!cli->quiet)
		fprintf(stderr, "%s made, with a first key\n", json_get_str(answer, "id", ""));
	return print_made(cli, json_object_get(answer, "key"), "may do everything in it");
}

static void add_account(struct table *table, const json_t *account)
{
	table_add(table, json_get_str(account, "id", NULL));
	table_add(table, json_get_str(account, "name", NULL));
	table_add(table, json_get_bool(account, "admin", false) ? "yes" : NULL);
	table_add(table, json_get_str(account, "created_at", NULL));
}

static int print_accounts(const struct cli *cli, const json_t *items)
{
	static const struct table_column columns[] = {
		{ "ACCOUNT", 0 }, { "NAME", 8 }, { "ADMIN", 0 }, { "CREATED", 0 }
	};
	static const struct list_view view = {
		.columns = columns,
		.n_columns = ARRAY_SIZE(columns),
		.id = "id",
		.add = add_account,
	};

	return list_print(cli, items, &view);
}

static int run_account_ls(struct cli *cli, const struct cli_args *args)
{
	_cleanup_json_ json_t *items = json_array();
	int code = session_pages(cli, ACCOUNTS "?limit=200", SIZE_MAX, items);

	(void)args;
	if (code != CLI_OK)
		return code;
	if (cli->json)
		return print_json_items(items);
	return print_accounts(cli, items);
}

/* ---- rows ---- */

const struct cli_command cli_command_key_create = {
	.name = "key create",
	.summary = "make a key, for all or for just what somebody should do",
	.detail =
		"Prints the text of the key, which is shown this once. What is not narrowed is as "
		"of the key that makes it; a key makes none that may do more than itself.",
	.operands = create_operands,
	.n_operands = ARRAY_SIZE(create_operands),
	.options = create_options,
	.n_options = ARRAY_SIZE(create_options),
	.examples = create_examples,
	.n_examples = ARRAY_SIZE(create_examples),
	.run = run_create,
};

const struct cli_command cli_command_key_ls = {
	.name = "key ls",
	.summary = "list keys, and what they may",
	.options = ls_options,
	.n_options = ARRAY_SIZE(ls_options),
	.examples = ls_examples,
	.n_examples = ARRAY_SIZE(ls_examples),
	.run = run_ls,
};

const struct cli_command cli_command_key_rotate = {
	.name = "key rotate",
	.summary = "give a key another text",
	.detail =
		"Everything else of it stays. What is open with the old text ends when that does.",
	.operands = key_operands,
	.n_operands = ARRAY_SIZE(key_operands),
	.options = rotate_options,
	.n_options = ARRAY_SIZE(rotate_options),
	.examples = rotate_examples,
	.n_examples = ARRAY_SIZE(rotate_examples),
	.run = run_rotate,
};

const struct cli_command cli_command_key_rm = {
	.name = "key rm",
	.summary = "revoke keys",
	.detail = "They open nothing any more, and what is open with them ends within a second. "
		  "Sandboxes and their commands go on.",
	.operands = keys_operands,
	.n_operands = ARRAY_SIZE(keys_operands),
	.options = rm_options,
	.n_options = ARRAY_SIZE(rm_options),
	.examples = rm_examples,
	.n_examples = ARRAY_SIZE(rm_examples),
	.run = run_rm,
};

const struct cli_command cli_command_account_create = {
	.name = "account create",
	.summary = "make an account, with a first key",
	.detail = "For administrators. Prints the text of the key, which is shown this once.",
	.operands = account_operands,
	.n_operands = ARRAY_SIZE(account_operands),
	.options = account_options,
	.n_options = ARRAY_SIZE(account_options),
	.examples = account_examples,
	.n_examples = ARRAY_SIZE(account_examples),
	.run = run_account_create,
};

const struct cli_command cli_command_account_ls = {
	.name = "account ls",
	.summary = "list accounts",
	.detail = "For administrators.",
	.examples = accounts_examples,
	.n_examples = ARRAY_SIZE(accounts_examples),
	.run = run_account_ls,
};
