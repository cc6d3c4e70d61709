/* Streams that are taken up again where they were. See follow.h. */
#include "cli/follow.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "cli/backoff.h"
#include "cli/session.h"
#include "cli/sse.h"

#define STREAM_SILENCE_MS 60000 /* the server sends a heartbeat every 15 s */

struct follow {
	struct cli *cli;
	const struct cli_follow *what;
	struct sse sse;
	struct client_request *request;
	int64_t cursor; /* negative: none yet */
	bool connected; /* once */
	bool done;
	int code;
	int64_t connect_at_ms;
	struct backoff backoff;
};

static void end(struct follow *f, int code)
{
	f->done = true;
	f->code = code;
}

static int on_event(void *arg, const char *name, const char *text, size_t len)
{
	_cleanup_json_ json_t *data = NULL;
	struct follow *f = arg;

	if (json_parse(text, len, &data, NULL) < 0)
		return -EBADMSG;
	if (str_eq(name, "ready")) {
		f->cursor = json_get_int(data, "cursor", f->cursor);
		return 0;
	}
	f->cursor = json_get_int(data, str_eq(name, "gap") ? "to" : f->what->number, f->cursor);
	if (f->what->take(f->what->arg, name, data) != CLI_OK)
		return -EPIPE;
	fflush(stdout);
	return 0;
}

static int on_bytes(void *arg, const void *bytes, size_t len)
{
	struct follow *f = arg;

	f->connected = true;
	backoff_reset(&f->backoff);
	return sse_feed(&f->sse, bytes, len);
}

static void again_later(struct follow *f)
{
	f->connect_at_ms = clock_boottime_ms() + backoff_ms(&f->backoff);
}

static void on_done(void *arg, struct client_response *response, const struct err *err)
{
	struct follow *f = arg;

	f->request = NULL;
	if (err && str_eq(err->code, "stopped")) /* stdout is gone, or these are no events */
		end(f, CLI_FAILED);
	else if (err && !f->connected)
		end(f, report_err(err));
	else if (!err && response->status / 100 != 2 && (response->status < 500 || !f->connected))
		end(f, report_response(response));
	else
		again_later(f);
}

static void connect_stream(struct follow *f)
{
	_cleanup_buf_ struct buf path = BUF_INIT;
	struct client_spec spec = {
		.method = "GET",
		.accept_events = true,
		.silence_ms = STREAM_SILENCE_MS,
		.timeout_ms = -1,
		.events = on_bytes,
		.done = on_done,
		.arg = f,
	};
	struct err err = ERR_INIT;

	sse_reset(&f->sse);
	buf_printf(&path, "%s?", f->what->route);
	if (f->cursor >= 0)
		buf_printf(&path, "cursor=%lld", (long long)f->cursor);
	else
		buf_append_str(&path, "limit=1"); /* streams have no pages: any value will do */
	buf_append_str(&path, f->what->filter);
	spec.path = buf_str(&path);
	if (client_start(f->cli->client, &spec, &f->request, &err) < 0)
		end(f, report_err(&err));
}

int cli_follow(struct cli *cli, const struct cli_follow *what)
{
	struct follow f = { .cli = cli, .what = what, .cursor = what->cursor };

	sse_init(&f.sse, on_event, &f);
	while (!f.done) {
		struct err err = ERR_INIT;
		int timeout_ms = 1000;

		if (!f.request && clock_boottime_ms() >= f.connect_at_ms)
			connect_stream(&f);
		if (!f.request)
			timeout_ms = clock_remaining_ms(f.connect_at_ms);
		if (!f.done && client_poll(cli->client, NULL, 0, timeout_ms, &err) < 0)
			end(&f, report_err(&err));
	}
	client_cancel(cli->client, f.request);
	sse_clear(&f.sse);
	return f.code;
}
