/* See image_make.h. */
#include "cli/image_make.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "cli/sse.h"
#include "cli/table.h"
#include "cli/units.h"

#define SILENCE_MS 300000

struct making {
	struct cli *cli;
	struct sse sse;
	struct progress progress;
	json_t *image;
	json_t *problem;
};

static int on_event(void *arg, const char *name, const char *data, size_t len)
{
	struct making *making = arg;
	_cleanup_json_ json_t *event = NULL;

	if (json_parse(data, len, &event, NULL) < 0)
		return -EBADMSG;
	if (str_eq(name, "progress")) {
		progress_set(&making->progress, (int)json_get_int(event, "percent", -1),
			     json_get_str(event, "message", ""));
	} else if (str_eq(name, "result")) {
		json_decref(making->image);
		making->image = json_incref(event);
	} else if (str_eq(name, "error")) {
		json_decref(making->problem);
		making->problem = json_incref(event);
	}
	return 0;
}

static int on_bytes(void *arg, const void *bytes, size_t len)
{
	struct making *making = arg;

	return sse_feed(&making->sse, bytes, len);
}

static int report_problem(const json_t *problem)
{
	_cleanup_response_ struct client_response response = CLIENT_RESPONSE_INIT;

	response.status = json_get_int(problem, "status", 500);
	json_write(problem, &response.body);
	return report_response(&response);
}

/* What is not as the image wants it is said in any case. */
static void print_warnings(const json_t *image)
{
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(image, "warnings"), i, one) {
		_cleanup_buf_ struct buf text = BUF_INIT;

		text_append_safe(&text, json_is_string(one) ? json_string_value(one) : "?");
		report_note("warning: %s", text.data);
	}
}

static void print_made(const struct making *making)
{
	char size[UNITS_TEXT_SIZE], disk[UNITS_TEXT_SIZE], took[UNITS_TEXT_SIZE];
	const char *digest = json_get_str(making->image, "source_digest", NULL);

	print_warnings(making->image);
	if (making->cli->json || making->cli->quiet)
		return;
	fprintf(stderr, "%s: %s, %s on disk, %s\n", json_get_str(making->image, "name", "?"),
		bytes_text(json_get_int(making->image, "size_bytes", 0), size),
		bytes_text(json_get_int(making->image, "allocated_bytes", 0), disk),
		duration_text(clock_boottime_ms() - making->progress.since_ms, took));
	if (digest)
		fprintf(stderr, "source: %s\n", digest);
}

/* The answer: an event stream that ended, or JSON from a server that does not stream. */
static int finish(struct making *making, const struct client_response *response)
{
	struct err err = ERR_INIT;

	if (response->status / 100 != 2)
		return report_response(response);
	if (making->problem)
		return report_problem(making->problem);
	if (!making->image)
		(void)json_parse(buf_str(&response->body), response->body.len, &making->image,
				 NULL);
	if (!json_is_object(making->image)) {
		err_set(&err, -EIO, "the stream ended before the image was there");
		err_hint(&err, "the server may go on: `skerry image ls` shows when it is there");
		return report_err(&err);
	}
	print_made(making);
	if (making->cli->json) {
		_cleanup_buf_ struct buf raw = BUF_INIT;

		json_write(making->image, &raw);
		return session_print_raw(&raw);
	}
	printf("%s\n", json_get_str(making->image, "name", ""));
	return CLI_OK;
}

int image_make(struct cli *cli, const char *path, json_t *body, const char *what)
{
	_cleanup_response_ struct client_response response = CLIENT_RESPONSE_INIT;
	struct making making = { .cli = cli };
	struct client_spec spec = {
		.method = "POST",
		.path = path,
		.body = body,
		.accept_events = true,
		.timeout_ms = -1,
		.silence_ms = SILENCE_MS,
		.events = on_bytes,
		.arg = &making,
	};
	struct err err = ERR_INIT;
	int code;

	sse_init(&making.sse, on_event, &making);
	progress_begin(&making.progress, what, cli->quiet);
	code = client_call(cli->client, &spec, progress_tick, &making.progress, &response, &err);
	progress_end(&making.progress);
	code = code < 0 ? report_err(&err) : finish(&making, &response);
	sse_clear(&making.sse);
	json_decref(making.image);
	json_decref(making.problem);
	json_decref(body);
	return code;
}
