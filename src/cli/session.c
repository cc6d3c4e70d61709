/* Where the server and the key are, and requests with their failures reported. */
#include "cli/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/str.h"
#include "cli/suggest.h"

#define KEY_FILE_MAX	  4096
#define LOST_ANSWER_TRIES 3

/* ---- server and key ---- */

static char *trimmed(const char *text)
{
	size_t len = strlen(text);

	while (len > 0 && strchr(" \t\r\n", text[len - 1]))
		len--;
	return xstrndup(text, len);
}

/* The admin key of a server on this machine. It is offered to loopback addresses only: anywhere
 * else it would be handed to a stranger. */
static void key_from_file(struct cli *cli)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	if (!client_url_is_loopback(cli->url) ||
	    file_read(CLI_DEFAULT_KEY_FILE, KEY_FILE_MAX, &text) < 0)
		return;
	cli->key = trimmed(buf_str(&text));
	cli->key_source = CLI_DEFAULT_KEY_FILE;
}

static void find_key(struct cli *cli)
{
	const char *key = getenv("SKERRY_API_KEY");

	if (key && *key) {
		cli->key = trimmed(key);
		cli->key_source = "SKERRY_API_KEY";
	} else {
		key_from_file(cli);
	}
}

static void find_url(struct cli *cli, const struct cli_args *args)
{
	const char *url = cli_args_text(args, "url", NULL);
	size_t len;

	if (!url)
		url = getenv("SKERRY_URL");
	if (!url || !*url)
		url = CLI_DEFAULT_URL;
	len = strlen(url);
	while (len > 0 && url[len - 1] == '/')
		len--;
	cli->url = xstrndup(url, len);
}

int session_open(struct cli *cli, const struct cli_args *args)
{
	struct client_config config = { 0 };
	struct err err = ERR_INIT;

	find_url(cli, args);
	find_key(cli);
	config.url = cli->url;
	config.key = cli->key;
	config.ca_file = getenv("SKERRY_CA_FILE");
	if (client_new(&config, &cli->client, &err) < 0)
		return report_err(&err);
	if (cli->key && str_starts(cli->url, "http:") && !client_url_is_loopback(cli->url))
		report_note("the key travels in the clear to %s: use https", cli->url);
	return CLI_OK;
}

void session_close(struct cli *cli)
{
	client_free(cli->client);
	cli->client = NULL;
	if (cli->key)
		explicit_bzero(cli->key, strlen(cli->key));
	free(cli->key);
	free(cli->url);
	cli->key = cli->url = NULL;
}

/* ---- requests ---- */

/* A request may be sent again when its answer was lost on the way and doing it twice does no harm.
 */
static bool may_repeat(const struct client_spec *spec, const struct err *err)
{
	bool harmless = spec->idempotency_key || str_eq(spec->method, "GET") ||
			str_eq(spec->method, "DELETE");

	return harmless && str_eq(err->code, "connection_lost");
}

int session_call(struct cli *cli, const struct client_spec *spec, struct progress *progress,
		 struct client_response *ret)
{
	struct err err = ERR_INIT;
	int r = -EIO;

	for (int i = 0; i < LOST_ANSWER_TRIES; i++) {
		client_response_clear(ret);
		r = client_call(cli->client, spec, progress ? progress_tick : NULL, progress, ret,
				&err);
		if (r == 0 || !may_repeat(spec, &err))
			break;
		usleep(200000);
	}
	if (progress)
		progress_end(progress);
	if (r < 0)
		return report_err(&err);
	return ret->status / 100 == 2 ? CLI_OK : report_response(ret);
}

int session_json(struct cli *cli, const struct client_spec *spec, struct progress *progress,
		 json_t **ret, struct buf *raw)
{
	_cleanup_response_ struct client_response response = CLIENT_RESPONSE_INIT;
	struct err err = ERR_INIT;
	int code = session_call(cli, spec, progress, &response);

	if (code != CLI_OK)
		return code;
	if (json_parse(buf_str(&response.body), response.body.len, ret, &err) < 0) {
		err_wrap(&err, err.num, "the answer of %s is not understood", cli->url);
		return report_err(&err);
	}
	if (raw) {
		*raw = response.body;
		response.body = BUF_INIT;
	}
	return CLI_OK;
}

int session_pages(struct cli *cli, const char *path, size_t max, json_t *items)
{
	_cleanup_free_ char *cursor = NULL;
	int code;

	do {
		_cleanup_buf_ struct buf page_path = BUF_INIT;
		_cleanup_json_ json_t *page = NULL;
		struct client_spec spec = { .method = "GET" };
		const char *next;

		buf_append_str(&page_path, path);
		if (cursor) {
			buf_append_str(&page_path, "&cursor=");
			client_escape(&page_path, cursor);
		}
		spec.path = buf_str(&page_path);
		code = session_json(cli, &spec, NULL, &page, NULL);
		if (code != CLI_OK)
			return code;
		json_array_extend(items, json_object_get(page, "items"));
		free(cursor);
		next = json_get_str(page, "next_cursor", NULL);
		cursor = next ? xstrdup(next) : NULL;
	} while (cursor && json_array_size(items) < max);
	while (json_array_size(items) > max)
		json_array_remove(items, json_array_size(items) - 1);
	return CLI_OK;
}

int session_print_raw(const struct buf *raw)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	buf_append(&out, buf_str(raw), raw->len);
	if (out.len == 0 || out.data[out.len - 1] != '\n')
		buf_append_char(&out, '\n');
	return output_write(buf_str(&out), out.len);
}

int session_delete_each(struct cli *cli, const struct cli_args *args, const char *collection)
{
	int worst = CLI_OK;

	for (size_t i = 0; i < args->n_operands; i++) {
		_cleanup_buf_ struct buf path = BUF_INIT, raw = BUF_INIT;
		_cleanup_json_ json_t *answer = NULL;
		struct client_spec spec = { .method = "DELETE" };
		int code;

		buf_append_str(&path, collection);
		client_escape(&path, args->operands[i]);
		spec.path = buf_str(&path);
		code = session_json(cli, &spec, NULL, &answer, &raw);
		if (code == CLI_OK && cli->json)
			code = session_print_raw(&raw);
		else if (code == CLI_OK)
			printf("%s\n", args->operands[i]);
		if (worst == CLI_OK)
			worst = code;
	}
	return worst;
}

/* ---- sandboxes by name ---- */

/* The nearest of their names to one that none has; NULL: none is near. */
static const char *nearest_name(const json_t *sandboxes, const char *typed)
{
	struct suggestion nearest = suggest_begin(typed);
	const json_t *item;
	size_t i;

	json_array_foreach(sandboxes, i, item) {
		suggest_consider(&nearest, json_get_str(item, "name", ""));
	}
	return nearest.word;
}

static int report_name(const json_t *sandboxes, const char *name, size_t found)
{
	const char *near = found ? NULL : nearest_name(sandboxes, name);
	struct err err = ERR_INIT;

	if (found > 1)
		err_set(&err, -EEXIST, "more than one sandbox is named '%s'", name);
	else
		err_set(&err, -ENOENT, "there is no living sandbox named '%s'", name);
	if (near)
		err_hint(&err, "did you mean '%s'? `skerry ls` shows ids and names", near);
	else
		err_hint(&err, "`skerry ls` shows ids and names");
	report_err(&err);
	return found > 1 ? CLI_USAGE : CLI_NOT_FOUND;
}

static int find_by_name(struct cli *cli, const char *name, struct buf *id)
{
	_cleanup_json_ json_t *sandboxes = json_array();
	const json_t *item;
	size_t found = 0, i;
	int code = session_pages(cli, "/v1/sandboxes?limit=200", SIZE_MAX, sandboxes);

	if (code != CLI_OK)
		return code;
	json_array_foreach(sandboxes, i, item) {
		if (!str_eq(json_get_str(item, "name", NULL), name))
			continue;
		if (++found == 1)
			buf_append_str(id, json_get_str(item, "id", ""));
	}
	return found == 1 ? CLI_OK : report_name(sandboxes, name, found);
}

int session_sandbox_path(struct cli *cli, const char *id_or_name, struct buf *path)
{
	_cleanup_buf_ struct buf id = BUF_INIT;
	int code = CLI_OK;

	if (str_starts(id_or_name, "sbx_"))
		buf_append_str(&id, id_or_name);
	else
		code = find_by_name(cli, id_or_name, &id);
	if (code == CLI_OK) {
		buf_append_str(path, "/v1/sandboxes/");
		client_escape(path, buf_str(&id));
	}
	return code;
}

int session_ask_for(struct cli *cli, const char *id_or_name, const struct session_call_spec *call,
		    json_t **ret)
{
	_cleanup_buf_ struct buf path = BUF_INIT, raw = BUF_INIT;
	_cleanup_json_ json_t *owned = call->body, *answer = NULL;
	struct client_spec spec = {
		.method = call->method,
		.body = owned,
		.timeout_ms = call->timeout_ms,
	};
	struct progress progress;
	int code = session_sandbox_path(cli, id_or_name, &path);

	*ret = NULL;
	if (code != CLI_OK)
		return code;
	buf_append_str(&path, call->part);
	spec.path = buf_str(&path);
	progress_begin(&progress, call->progress, cli->quiet);
	code = session_json(cli, &spec, &progress, &answer, &raw);
	if (code != CLI_OK)
		return code;
	if (cli->json)
		return session_print_raw(&raw);
	*ret = STEAL(answer);
	return CLI_OK;
}

int session_ask(struct cli *cli, const char *id_or_name, const char *method, const char *part,
		json_t *body, json_t **ret)
{
	const struct session_call_spec call = { .method = method, .part = part, .body = body };

	return session_ask_for(cli, id_or_name, &call, ret);
}
