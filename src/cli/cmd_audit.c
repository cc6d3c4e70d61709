/*
 * skerry audit: who did what, as a list, as it happens, as a file to keep, and whether all of it is
 * as it was written.
 *
 * A file is checked here, without the server: with it, by whoever keeps the file, shows what the
 * server cannot show of itself.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/chain.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/records.h"
#include "cli/session.h"
#include "cli/table.h"

#define PAGE_LIMIT     1000
#define NEWEST_DEFAULT 50
#define LINE_MAX_BYTES (1u << 20)

#define FILTER_OPTIONS                                                                             \
	{ .name = "key",                                                                           \
	  .type = CLI_TEXT,                                                                        \
	  .metavar = "KEY_ID",                                                                     \
	  .complete = CLI_COMPLETE_KEY,                                                            \
	  .help = "only by this key: its id, not its text" },                                      \
		{ .name = "account",                                                               \
		  .type = CLI_TEXT,                                                                \
		  .metavar = "ACCOUNT_ID",                                                         \
		  .complete = CLI_COMPLETE_ACCOUNT,                                                \
		  .help = "only of this account; administrators see all" },                        \
		{ .name = "operation",                                                             \
		  .type = CLI_TEXT,                                                                \
		  .metavar = "NAME",                                                               \
		  .help = "only this operation: exec, create_sandbox and so on" },                 \
		{ .name = "request",                                                               \
		  .type = CLI_TEXT,                                                                \
		  .metavar = "REQUEST_ID",                                                         \
		  .help = "only of this request" },                                                \
	{                                                                                          \
		.name = "result", .type = CLI_TEXT, .metavar = "CODE",                             \
		.help = "only with this result: ok, or the code of an error"                       \
	}

static const struct cli_operand sandbox_operand[] = {
	{ .name = "SANDBOX",
	  .help = "its id; default: all",
	  .optional = true,
	  .complete = CLI_COMPLETE_SANDBOX },
};

static void append_line(struct buf *out, const json_t *record)
{
	_cleanup_buf_ struct buf head = BUF_INIT;

	buf_printf(&head, "%6" PRId64 "  %s  %-20s  %-16s  %-16s  %s",
		   json_get_int(record, "seq", 0), json_get_str(record, "at", "-"),
		   json_get_str(record, "key_id", "-"), json_get_str(record, "operation", "-"),
		   json_get_str(record, "sandbox_id", "-"), json_get_str(record, "result", "-"));
	text_append_safe(out, buf_str(&head));
	records_append_members(out, json_object_get(record, "args"), false);
	records_append_members(out, json_object_get(record, "outcome"), false);
	buf_append_char(out, '\n');
}

static const struct records audit = {
	.route = "/v1/audit",
	.number = "seq",
	.plural = "records",
	.type = "record",
	.append_line = append_line,
};

static int read_filter(struct cli *cli, const struct cli_args *args, struct buf *filter)
{
	static const char *const names[][2] = {
		{ "key_id", "key" },	      { "account_id", "account" },
		{ "operation", "operation" }, { "request_id", "request" },
		{ "result", "result" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		records_filter(filter, names[i][0], cli_args_text(args, names[i][1], NULL));
	return records_filter_sandbox(cli, args, filter);
}

/* ---- ls ---- */

static const struct cli_option ls_options[] = {
	FILTER_OPTIONS,
	{ .name = "since",
	  .type = CLI_INTEGER,
	  .metavar = "N",
	  .min = 0,
	  .max = INT64_MAX,
	  .help = "all that follows record N; 0: all that is kept" },
	{ .name = "before",
	  .type = CLI_INTEGER,
	  .metavar = "N",
	  .min = 1,
	  .max = INT64_MAX - 1,
	  .help = "only what comes before record N" },
	{ .name = "limit",
	  .type = CLI_INTEGER,
	  .metavar = "N",
	  .min = 1,
	  .max = PAGE_LIMIT,
	  .help = "without --since: how many of the newest (default: 50)" },
};

static const struct cli_example ls_examples[] = {
	{ "the newest", "skerry audit ls" },
	{ "what was refused", "skerry audit ls --result scope_denied" },
	{ "every command in a sandbox, for programs",
	  "skerry audit ls --since 0 --operation exec --json sbx_0123456789ab | jq -r "
	  ".args.command" },
};

static int run_ls(struct cli *cli, const struct cli_args *args)
{
	_cleanup_buf_ struct buf filter = BUF_INIT;
	const int64_t before = cli_args_number(args, "before", 0);
	int code = read_filter(cli, args, &filter);

	if (code != CLI_OK)
		return code;
	if (before)
		buf_printf(&filter, "&before=%" PRId64, before);
	return records_list(cli, &audit, &filter, cli_args_number(args, "since", -1),
			    cli_args_number(args, "limit", NEWEST_DEFAULT));
}

/* ---- follow ---- */

static const struct cli_option follow_options[] = {
	FILTER_OPTIONS,
	{ .name = "since",
	  .type = CLI_INTEGER,
	  .metavar = "N",
	  .min = 0,
	  .max = INT64_MAX,
	  .help = "begin with what follows record N; default: with what comes from now on" },
};

static const struct cli_example follow_examples[] = {
	{ "what agents do, as they do it", "skerry audit follow" },
	{ "a copy elsewhere, which goes on where it was",
	  "skerry audit follow --json --since 1042 >>audit.jsonl" },
};

static int run_follow(struct cli *cli, const struct cli_args *args)
{
	_cleanup_buf_ struct buf filter = BUF_INIT;
	int code = read_filter(cli, args, &filter);

	return code == CLI_OK
		       ? records_follow(cli, &audit, &filter, cli_args_number(args, "since", -1))
		       : code;
}

/* ---- export ---- */

static const struct cli_option export_options[] = {
	{ .name = "since",
	  .type = CLI_INTEGER,
	  .metavar = "N",
	  .min = 0,
	  .max = INT64_MAX,
	  .help = "only what follows record N" },
};

static const struct cli_example export_examples[] = {
	{ "all of it, in a file, and whether that is whole",
	  "skerry audit export >audit.jsonl && skerry audit verify audit.jsonl" },
};

static int write_bytes(void *arg, const struct client_response *response, const void *bytes,
		       size_t len)
{
	return output_write(bytes, len) == CLI_OK ? 0 : -EPIPE;
}

static int run_export(struct cli *cli, const struct cli_args *args)
{
	_cleanup_response_ struct client_response response = CLIENT_RESPONSE_INIT;
	_cleanup_buf_ struct buf path = BUF_INIT;
	struct client_spec spec = { .method = "GET", .timeout_ms = -1, .bytes = write_bytes };

	buf_printf(&path, "/v1/audit/export?cursor=%" PRId64, cli_args_number(args, "since", 0));
	spec.path = buf_str(&path);
	return session_call(cli, &spec, NULL, &response);
}

/* ---- verify ---- */

static const struct cli_operand verify_operands[] = {
	{ .name = "FILE",
	  .help = "an export, checked here; -: standard input; default: the server checks its own",
	  .optional = true },
};

static const struct cli_option verify_options[] = {
	{ .name = "head",
	  .type = CLI_TEXT,
	  .metavar = "HASH",
	  .help = "the hash that the last record must have, as the server's log told it" },
};

static const struct cli_example verify_examples[] = {
	{ "what the server has", "skerry audit verify" },
	{ "an export, far from the server", "skerry audit verify audit.jsonl" },
};

static int report_verdict(const struct cli *cli, const struct chain *chain, const char *problem)
{
	_cleanup_buf_ struct buf out = BUF_INIT;
	_cleanup_json_ json_t *json = NULL;

	if (cli->json) {
		json = json_object();
		json_put(json, "ok", json_boolean(!problem));
		json_put_int(json, "first", chain->first);
		json_put_int(json, "last", chain->last);
		json_put_str(json, "head", chain->head[0] ? chain->head : NULL);
		json_put_str(json, "problem", problem);
		json_write(json, &out);
		buf_append_char(&out, '\n');
	} else if (problem) {
		report_note("the audit is not what it was: %s", problem);
	} else if (chain->first == 0) {
		buf_append_str(&out, "there are no records\n");
	} else {
		buf_printf(&out, "records %" PRId64 " to %" PRId64 " are whole\nhead %s\n",
			   chain->first, chain->last, chain->head);
	}
	if (out.len > 0 && output_write(out.data, out.len) != CLI_OK)
		return CLI_FAILED;
	if (!problem && !cli->json && chain->first > 1)
		report_note("the first one is %" PRId64
			    ": what was before it was not there to be checked",
			    chain->first);
	return problem ? CLI_FAILED : CLI_OK;
}

static const char *check_head(const struct cli_args *args, const char *head)
{
	const char *wanted = cli_args_text(args, "head", NULL);

	if (!wanted || str_eq(wanted, head))
		return NULL;
	return "the last record has not the hash that was given: something is missing behind it, "
	       "or "
	       "all was written anew";
}

static int verify_server(struct cli *cli, const struct cli_args *args)
{
	struct client_spec spec = { .method = "GET", .path = "/v1/audit/verify", .timeout_ms = -1 };
	_cleanup_json_ json_t *answer = NULL;
	struct chain chain = { 0 };
	const char *problem;
	int code = session_json(cli, &spec, NULL, &answer, NULL);

	if (code != CLI_OK)
		return code;
	chain.first = json_get_int(answer, "first", 0);
	chain.last = json_get_int(answer, "last", 0);
	str_copy(chain.head, sizeof(chain.head), json_get_str(answer, "head", ""));
	problem = json_get_bool(answer, "ok", false)
			  ? check_head(args, chain.head)
			  : json_get_str(answer, "problem", "the server does not say why");
	return report_verdict(cli, &chain, problem);
}

/* Line by line. 0, -EBADMSG with why, or -errno. */
static int check_lines(FILE *file, struct chain *chain, struct err *err)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	ssize_t n;

	while ((n = getline(&line, &size, file)) > 0) {
		int r;

		if (line[n - 1] == '\n')
			n--;
		if (n > (ssize_t)LINE_MAX_BYTES)
			return err_code(err, -EBADMSG, "audit_broken",
					"what follows record %" PRId64 " is no record",
					chain->last);
		r = chain_take(chain, line, (size_t)n, err);
		if (r < 0)
			return r;
	}
	return ferror(file) ? err_set(err, -errno, "cannot be read: %s", strerror(errno)) : 0;
}

static int verify_file(struct cli *cli, const struct cli_args *args)
{
	const char *path = args->operands[0];
	const bool is_stdin = str_eq(path, "-");
	FILE *file = is_stdin ? stdin : fopen(path, "re");
	struct chain chain = { 0 };
	struct err err = ERR_INIT;
	const char *problem = NULL;
	int r;

	if (!file) {
		err_set(&err, -errno, "open '%s': %s", path, strerror(errno));
		return report_err(&err);
	}
	r = check_lines(file, &chain, &err);
	if (!is_stdin)
		fclose(file);
	if (r < 0 && r != -EBADMSG) {
		err_wrap(&err, r, "'%s'", path);
		return report_err(&err);
	}
	if (r < 0)
		problem = err.message;
	else if (chain.first == 1 && !str_eq(chain.before, chain_no_hash))
		problem = "record 1 is not the first one of a chain";
	else
		problem = check_head(args, chain.head);
	return report_verdict(cli, &chain, problem);
}

static int run_verify(struct cli *cli, const struct cli_args *args)
{
	return args->n_operands > 0 ? verify_file(cli, args) : verify_server(cli, args);
}

/* ---- rows ---- */

const struct cli_command cli_command_audit_ls = {
	.name = "audit ls",
	.summary = "list who did what, and with what result",
	.detail =
		"One line for each operation that changed or ran something, or was refused: its "
		"number, when, the key, the operation, the sandbox, the result, and what was asked "
		"for and came of it; with --json one object. docs/audit.md has more.",
	.operands = sandbox_operand,
	.n_operands = ARRAY_SIZE(sandbox_operand),
	.options = ls_options,
	.n_options = ARRAY_SIZE(ls_options),
	.examples = ls_examples,
	.n_examples = ARRAY_SIZE(ls_examples),
	.run = run_ls,
};

const struct cli_command cli_command_audit_follow = {
	.name = "audit follow",
	.summary = "show what is done, as it is done",
	.detail = "As audit ls. A stream that breaks is taken up again where it was.",
	.operands = sandbox_operand,
	.n_operands = ARRAY_SIZE(sandbox_operand),
	.options = follow_options,
	.n_options = ARRAY_SIZE(follow_options),
	.examples = follow_examples,
	.n_examples = ARRAY_SIZE(follow_examples),
	.run = run_follow,
};

const struct cli_command cli_command_audit_export = {
	.name = "audit export",
	.summary = "write all of the audit, as lines of JSON",
	.detail = "The lines are those that the hashes were made of: audit verify checks them "
		  "without the server. For administrators.",
	.options = export_options,
	.n_options = ARRAY_SIZE(export_options),
	.examples = export_examples,
	.n_examples = ARRAY_SIZE(export_examples),
	.run = run_export,
};

const struct cli_command cli_command_audit_verify = {
	.name = "audit verify",
	.summary = "check that no record was changed, added, moved or taken out",
	.detail = "Names the first record that is not what it was, and ends with 1 then. What is "
		  "missing at the end of a file shows only with --head.",
	.operands = verify_operands,
	.n_operands = ARRAY_SIZE(verify_operands),
	.options = verify_options,
	.n_options = ARRAY_SIZE(verify_options),
	.examples = verify_examples,
	.n_examples = ARRAY_SIZE(verify_examples),
	.run = run_verify,
};
