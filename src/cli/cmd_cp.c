/* skerry cp: files and directories between this machine and a sandbox. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/cp_local.h"
#include "cli/cp_names.h"
#include "cli/session.h"
#include "cli/units.h"

#define SILENCE_MS 300000 /* a large file is flushed to the sandbox's disk before the answer */

static const struct cli_operand operands[] = {
	{ .name = "FROM",
	  .help = "a file or directory here, SANDBOX:PATH, or - for standard input",
	  .complete = CLI_COMPLETE_COPY },
	{ .name = "TO",
	  .help = "SANDBOX:PATH, a file or directory here, or - for standard output",
	  .complete = CLI_COMPLETE_COPY },
};

static const struct cli_option options[] = {
	{ .name = "recursive",
	  .letter = 'r',
	  .type = CLI_FLAG,
	  .help = "copy directories with all that is in them" },
	{ .name = "user",
	  .letter = 'u',
	  .type = CLI_TEXT,
	  .metavar = "USER",
	  .help = "do it as this user of the sandbox (default: sandbox)" },
	{ .name = "parents",
	  .type = CLI_FLAG,
	  .help = "make directories that are missing in the sandbox" },
};

static const struct cli_example examples[] = {
	{ "into the home directory", "skerry cp data.csv build:" },
	{ "and back, under another name", "skerry cp build:out/result.json latest.json" },
	{ "a directory", "skerry cp -r src build:/srv/app" },
	{ "through a pipe", "tar -C site -cz . | skerry cp - build:site.tgz" },
	{ "to look at it", "skerry cp build:/etc/os-release -" },
};

struct copy {
	struct cli *cli;
	const char *user;
	bool recursive, parents;
	struct cp_end from, to;
	struct buf base; /* path of the sandbox's resource */
	struct cp_source source;
	struct cp_sink sink;
	struct progress progress;
	uint64_t done;
	int64_t total;	/* -1: not known */
	int mode;	/* of a file that comes; -1 */
	struct err err; /* why a callback has ended the request */
};

/* ---- addresses ---- */

static void add(struct buf *path, const char *name, const char *value)
{
	buf_printf(path, "%s%s=", strchr(buf_str(path), '?') ? "&" : "?", name);
	client_escape(path, value);
}

static void address(const struct copy *c, const char *part, const char *path, struct buf *out)
{
	buf_append(out, buf_str(&c->base), c->base.len);
	buf_append_str(out, part);
	add(out, "path", *path ? path : ".");
	if (c->user)
		add(out, "user", c->user);
}

/* Whether a path of the sandbox is a directory: *ret. CLI_OK or an exit code, reported. */
static int is_directory(struct copy *c, const char *path, bool *ret)
{
	_cleanup_response_ struct client_response response = CLIENT_RESPONSE_INIT;
	_cleanup_buf_ struct buf target = BUF_INIT;
	_cleanup_json_ json_t *problem = NULL;
	struct client_spec spec = { .method = "GET" };
	struct err err = ERR_INIT;
	const char *code;

	*ret = !*path;
	if (!*path)
		return CLI_OK;
	address(c, "/files/list", path, &target);
	add(&target, "limit", "1");
	spec.path = buf_str(&target);
	if (client_call(c->cli->client, &spec, NULL, NULL, &response, &err) < 0)
		return report_err(&err);
	*ret = response.status / 100 == 2;
	if (*ret)
		return CLI_OK;
	(void)json_parse(buf_str(&response.body), response.body.len, &problem, NULL);
	code = json_get_str(problem, "code", "");
	/* One that may not be listed, or is none, is left to the copy itself. */
	if (str_eq(code, "not_a_directory") || str_eq(code, "file_not_found") ||
	    str_eq(code, "permission_denied"))
		return CLI_OK;
	return report_response(&response);
}

/* ---- moving bytes ---- */

static void show(struct copy *c, size_t more)
{
	char done[UNITS_TEXT_SIZE], total[UNITS_TEXT_SIZE];

	c->done += more;
	if (!c->progress.what)
		return;
	bytes_text((int64_t)c->done, done);
	if (c->total > 0) {
		c->progress.percent = (int)(c->done * 100 / (uint64_t)c->total);
		snprintf(c->progress.line, sizeof(c->progress.line), "%s of %s", done,
			 bytes_text(c->total, total));
	} else {
		str_copy(c->progress.line, sizeof(c->progress.line), done);
	}
}

static ssize_t on_read(void *arg, void *out, size_t max)
{
	struct copy *c = arg;
	ssize_t n = cp_source_read(&c->source, out, max, &c->err);

	if (n > 0)
		show(c, (size_t)n);
	return n;
}

static int on_bytes(void *arg, const struct client_response *response, const void *bytes,
		    size_t len)
{
	struct copy *c = arg;

	if (c->done == 0) {
		c->total = response->length;
		c->mode = *response->header ? (int)strtol(response->header, NULL, 8) : -1;
	}
	show(c, len);
	return cp_sink_write(&c->sink, bytes, len, &c->err);
}

/* An answer that is not 2xx. */
static int report_refusal(const struct copy *c, const struct client_response *response)
{
	_cleanup_json_ json_t *problem = NULL;
	struct err err = ERR_INIT;

	(void)json_parse(buf_str(&response->body), response->body.len, &problem, NULL);
	if (c->recursive || !c->from.sandbox ||
	    !str_eq(json_get_str(problem, "code", ""), "is_a_directory"))
		return report_response(response);
	err_code(&err, -EISDIR, "usage", "'%s:%s' is a directory", c->from.sandbox, c->from.path);
	err_hint(&err, "copy it with all that is in it: -r");
	return report_err(&err);
}

/* Never sent again by itself: part of it may have been taken. */
static int transfer(struct copy *c, struct client_spec *spec, struct client_response *response)
{
	struct err err = ERR_INIT;
	int r;

	spec->timeout_ms = -1;
	spec->silence_ms = SILENCE_MS;
	spec->arg = c;
	progress_begin(&c->progress, spec->read ? "sending" : "receiving",
		       c->cli->quiet || !isatty(STDERR_FILENO));
	r = client_call(c->cli->client, spec, progress_tick, &c->progress, response, &err);
	progress_end(&c->progress);
	if (c->err.num < 0)
		return report_err(&c->err);
	if (r < 0) {
		err_hint(&err, spec->read ? "what was there is unchanged, unless the answer alone "
					    "was lost: copy it again"
					  : "nothing was written here: copy it again");
		return report_err(&err);
	}
	return response->status / 100 == 2 ? CLI_OK : report_refusal(c, response);
}

/* ---- to a sandbox ---- */

/* Where it is to be: below a directory that is there, under its own name. */
static int target_of(struct copy *c, struct buf *out)
{
	_cleanup_buf_ struct buf name = BUF_INIT;
	const char *path = c->to.path;
	size_t len = strlen(path);
	bool below;
	int code = is_directory(c, path, &below);

	if (code != CLI_OK)
		return code;
	cp_base_name(c->from.path, &name);
	if (str_eq(c->from.path, "-")) {
		struct err err = ERR_INIT;

		if (!below && *path) {
			buf_append_str(out, path);
			return CLI_OK;
		}
		err_code(&err, -EINVAL, "usage", "'%s:%s' is a directory", c->to.sandbox, path);
		err_hint(&err, "what comes from standard input has no name: give it one");
		return report_err(&err);
	}
	below |= len > 0 && path[len - 1] == '/';
	if (below && name.len > 0)
		cp_join(path, buf_str(&name), out);
	else
		buf_append_str(out, *path ? path : ".");
	return CLI_OK;
}

static int send_it(struct copy *c)
{
	_cleanup_response_ struct client_response response = CLIENT_RESPONSE_INIT;
	_cleanup_buf_ struct buf path = BUF_INIT, target = BUF_INIT;
	struct client_spec spec = { .method = "PUT", .read = on_read };
	bool is_tree;
	int code;

	if (cp_source_open(c->from.path, c->recursive, &c->source, &c->err) < 0)
		return report_err(&c->err);
	is_tree = c->source.dir_fd >= 0;
	code = target_of(c, &target);
	if (code != CLI_OK)
		return code;
	address(c, is_tree ? "/tree" : "/files", buf_str(&target), &path);
	if (is_tree || c->parents)
		add(&path, "parents", "true");
	if (!is_tree && c->source.mode >= 0) {
		char mode[16];

		snprintf(mode, sizeof(mode), "%04o", (unsigned int)c->source.mode);
		add(&path, "mode", mode);
	}
	spec.path = buf_str(&path);
	spec.read_length = c->total = c->source.length;
	code = transfer(c, &spec, &response);
	if (code == CLI_OK && c->cli->json)
		return session_print_raw(&response.body);
	return code;
}

/* ---- from a sandbox ---- */

static int receive_it(struct copy *c)
{
	_cleanup_response_ struct client_response response = CLIENT_RESPONSE_INIT;
	_cleanup_buf_ struct buf path = BUF_INIT, name = BUF_INIT;
	struct client_spec spec = { .method = "GET", .bytes = on_bytes };
	bool is_tree = false;
	int code, r;

	if (c->recursive) {
		code = is_directory(c, c->from.path, &is_tree);
		if (code != CLI_OK)
			return code;
	}
	cp_base_name(c->from.path, &name);
	r = is_tree ? cp_sink_tree(c->to.path, buf_str(&name), &c->sink, &c->err)
		    : cp_sink_file(c->to.path, buf_str(&name), &c->sink, &c->err);
	if (r < 0)
		return report_err(&c->err);
	address(c, is_tree ? "/tree" : "/files", c->from.path, &path);
	spec.path = buf_str(&path);
	spec.want_header = is_tree ? NULL : "X-File-Mode";
	code = transfer(c, &spec, &response);
	if (code != CLI_OK)
		return code;
	if (c->done == 0 && *response.header) /* an empty file has no bytes to tell of it */
		c->mode = (int)strtol(response.header, NULL, 8);
	if (cp_sink_finish(&c->sink, c->mode, &c->err) < 0)
		return report_err(&c->err);
	if (c->cli->json && !str_eq(c->to.path, "-")) {
		_cleanup_json_ json_t *json = json_object();
		_cleanup_buf_ struct buf text = BUF_INIT;

		json_put_str(json, "path", c->to.path);
		json_put_int(json, "bytes", (json_int_t)c->done);
		json_write(json, &text);
		return session_print_raw(&text);
	}
	return CLI_OK;
}

static int run_cp(struct cli *cli, const struct cli_args *args)
{
	struct copy c = {
		.cli = cli,
		.user = cli_args_text(args, "user", NULL),
		.recursive = cli_args_has(args, "recursive"),
		.parents = cli_args_has(args, "parents"),
		.source = { .fd = -1, .dir_fd = -1, .pack_fd = -1 },
		.sink = CP_SINK_INIT,
		.total = -1,
		.mode = -1,
	};
	int code;

	signal(SIGPIPE, SIG_IGN);
	cp_end_parse(args->operands[0], &c.from);
	cp_end_parse(args->operands[1], &c.to);
	code = cp_ends_check(&c.from, &c.to, &c.err) < 0 ? report_err(&c.err) : CLI_OK;
	if (code == CLI_OK)
		code = session_sandbox_path(cli, c.from.sandbox ? c.from.sandbox : c.to.sandbox,
					    &c.base);
	if (code == CLI_OK)
		code = c.from.sandbox ? receive_it(&c) : send_it(&c);
	cp_source_close(&c.source);
	cp_sink_close(&c.sink);
	cp_end_clear(&c.from);
	cp_end_clear(&c.to);
	buf_clear(&c.base);
	return code;
}

const struct cli_command cli_command_cp = {
	.name = "cp",
	.summary = "copy files into a sandbox and out of it",
	.detail =
		"One end is SANDBOX:PATH, the other is here. Relative paths in a sandbox begin in "
		"the home directory of the user, and so does none at all. Into a directory that is "
		"there, a copy goes under its own name. A file takes its place when it is whole, "
		"and in a sandbox when it is on its disk; its mode comes along. A paused sandbox "
		"is "
		"resumed. Of a directory, files, directories and symbolic links are copied.",
	.operands = operands,
	.n_operands = ARRAY_SIZE(operands),
	.options = options,
	.n_options = ARRAY_SIZE(options),
	.examples = examples,
	.n_examples = ARRAY_SIZE(examples),
	.run = run_cp,
};
