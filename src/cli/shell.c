/*
 * Theory of operation
 *
 * One thread around poll: the connection, our stdin, our stdout while something waits for it, and
 * our signals through signalfds. Two counters make a lost connection harmless:
 *
 *   output   offset is that of the next byte that we have not seen; a new connection begins there
 *   input    keys wait in a buffer that begins at an absolute offset and is kept a while after it
 *            was sent; the server says with `ready` how much the terminal was given, and what it
 *            was not given is sent again
 *
 * Our terminal is raw from `ready` on, so that Ctrl-C is a key like any other. Output is written in
 * small pieces when stdout takes it, and read from the connection only then: a terminal that stands
 * still holds the program in the sandbox back.
 */
#include "cli/backoff.h"
#include "cli/shell.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/escape.h"
#include "cli/output.h"
#include "cli/raw_tty.h"
#include "cli/table.h"
#include "cli/ws_client.h"

#define WRITE_CHUNK	  4096u /* what a terminal that polls writable takes */
#define READ_KEYS	  16384u
#define SEND_CHUNK	  16384u
#define SEND_QUEUE_MAX	  65536u
#define INPUT_WAITING_MAX 65536u     /* typed while there is no connection */
#define INPUT_KEPT	  (1u << 20) /* after it was sent, in case that it got lost */
#define RECONNECT_FOR_MS  60000
#define SILENCE_MS	  90000 /* the server pings every 20 s */
#define CODE_ERROR	  4000
#define CODE_OVER	  4002

struct shell {
	const struct shell_config *config;
	int leave_fd, size_fd; /* signals: to end, and that our terminal has changed */
	struct ws_client *ws;
	bool ready;
	char terminal_id[32];
	uint64_t offset;
	int64_t heard_ms;

	struct buf output; /* for stdout */

	struct escape escape;
	struct buf input; /* from the absolute offset input_base on */
	uint64_t input_base, input_sent;
	bool input_known; /* the server has said once where input stands */

	int64_t lost_since_ms, connect_at_ms; /* lost_since_ms 0: connected */
	struct backoff backoff;
	bool told_lost;
	struct err error;  /* what the server has said last, */
	bool error_passes; /* and whether it is worth another try */

	bool leave, done, ended;
	int code;
};

bool terminal_id_valid(const char *id)
{
	size_t len = strlen(id);

	return str_starts(id, "term_") && len > 5 &&
	       len < sizeof(((struct shell *)NULL)->terminal_id) &&
	       strspn(id + 5, "0123456789abcdef") == len - 5;
}

static void finish(struct shell *s, int code)
{
	s->done = true;
	s->code = code;
}

/* Our terminal is ours again, before the program there has ended: the cursor is anywhere. */
static void break_off(void)
{
	if (raw_tty_is_on())
		fputs("\r\n", stderr);
	raw_tty_leave();
}

/* A line of our own between those of the sandbox. */
static void tell(const char *text)
{
	fprintf(stderr, raw_tty_is_on() ? "\r\nskerry: %s\r\n" : "skerry: %s\n", text);
}

static void tell_how_to_take_up(const struct shell *s)
{
	_cleanup_free_ char *text =
		xasprintf("the terminal goes on; take it up with: skerry shell %s --attach %s",
			  s->config->sandbox, s->terminal_id);

	if (!s->config->cli->quiet && s->terminal_id[0])
		tell(text);
}

static bool read_signals(int fd)
{
	struct signalfd_siginfo info;
	bool any = false;

	while (read(fd, &info, sizeof(info)) == sizeof(info))
		any = true;
	return any;
}

/* ---- connecting ---- */

static void put_parameter(struct buf *path, const char *name, const char *value)
{
	if (!value)
		return;
	buf_printf(path, "%c%s=", strchr(buf_str(path), '?') ? '&' : '?', name);
	client_escape(path, value);
}

static void put_number(struct buf *path, const char *name, uint64_t value)
{
	_cleanup_free_ char *text = xasprintf("%llu", (unsigned long long)value);

	put_parameter(path, name, text);
}

/* $TERM where it is a name that the server takes. */
static const char *own_term(void)
{
	const char *term = getenv("TERM");
	size_t len = term ? strlen(term) : 0;

	return len > 0 && len <= 64 &&
			       strspn(term, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
					    "0123456789._+-") == len
		       ? term
		       : NULL;
}

static void put_path(const struct shell *s, struct buf *path)
{
	uint32_t cols, rows;

	buf_printf(path, "%s/terminal", s->config->sandbox_path);
	if (s->terminal_id[0]) {
		put_parameter(path, "terminal_id", s->terminal_id);
		if (s->input_known)
			put_number(path, "from_offset", s->offset);
	} else {
		put_parameter(path, "command", s->config->command);
		put_parameter(path, "user", s->config->user);
		put_parameter(path, "cwd", s->config->cwd);
		put_parameter(path, "term", own_term());
	}
	if (tty_size(&cols, &rows)) {
		put_number(path, "cols", cols);
		put_number(path, "rows", rows);
	}
}

static void lost(struct shell *s)
{
	int64_t now_ms = clock_boottime_ms();

	ws_client_free(STEAL(s->ws));
	s->ready = false;
	if (s->lost_since_ms == 0) {
		s->lost_since_ms = now_ms;
		backoff_reset(&s->backoff);
	} else if (!s->told_lost && now_ms - s->lost_since_ms > 1000 && !s->config->cli->quiet) {
		tell("the connection was lost and is tried again; ~. leaves");
		s->told_lost = true;
	}
	if (now_ms - s->lost_since_ms > RECONNECT_FOR_MS) {
		break_off();
		tell("there is no connection to the server");
		tell_how_to_take_up(s);
		finish(s, CLI_FAILED);
		return;
	}
	s->connect_at_ms = now_ms + backoff_ms(&s->backoff);
}

/* The server said no. Some of that passes. */
static void refused(struct shell *s, const struct client_response *response)
{
	bool passes = response->status >= 500 || response->status == 409 || response->status == 429;

	if (s->lost_since_ms && passes) {
		lost(s);
		return;
	}
	break_off();
	finish(s, report_response(response));
}

static void connect_now(struct shell *s)
{
	_cleanup_response_ struct client_response refusal = CLIENT_RESPONSE_INIT;
	_cleanup_buf_ struct buf path = BUF_INIT;
	struct err err = ERR_INIT;
	int r;

	put_path(s, &path);
	r = ws_client_open(s->config->cli, buf_str(&path), s->leave_fd, &s->ws, &refusal, &err);
	s->heard_ms = clock_boottime_ms();
	if (r == -EINTR)
		s->leave = read_signals(s->leave_fd);
	if (r == 0 || r == -EINTR)
		return;
	if (r == -EPROTO && refusal.status) {
		refused(s, &refusal);
	} else if (s->lost_since_ms && !str_eq(err.code, "tls_failed")) {
		lost(s);
	} else {
		break_off();
		finish(s, report_err(&err));
	}
}

/* ---- what the server says ---- */

/* What the terminal was given, of what we have sent: the rest again. */
static void settle_input(struct shell *s, uint64_t given)
{
	uint64_t end = s->input_base + s->input.len;

	if (!s->input_known) {
		s->input_base = given;
	} else if (given > end || given < s->input_base) {
		if (given < s->input_base)
			tell("some of the input was lost with the connection");
		s->input_base = given;
		buf_reset(&s->input);
	}
	s->input_known = true;
	s->input_sent = given;
}

static void on_ready(struct shell *s, const json_t *message)
{
	const char *id = json_get_str(message, "terminal_id", "");

	if (!terminal_id_valid(id) || raw_tty_enter() < 0) {
		tell("the server's answer is not understood");
		finish(s, CLI_FAILED);
		return;
	}
	str_copy(s->terminal_id, sizeof(s->terminal_id), id);
	s->offset = (uint64_t)json_get_int(message, "offset", 0);
	settle_input(s, (uint64_t)json_get_int(message, "input_bytes", 0));
	if (s->told_lost)
		tell("the connection is there again");
	s->ready = true;
	s->told_lost = false;
	s->lost_since_ms = 0;
}

static void on_exit_message(struct shell *s, const json_t *message)
{
	int64_t code = json_get_int(message, "exit_code", CLI_FAILED);

	s->ended = true;
	s->code = code >= 0 && code <= 255 ? (int)code : CLI_FAILED;
}

static void take_error(struct shell *s, const json_t *message)
{
	_cleanup_buf_ struct buf detail = BUF_INIT, hint = BUF_INIT;
	const char *code = json_get_str(message, "code", "");

	s->error_passes = str_starts(code, "agent_");
	text_append_safe(&detail, json_get_str(message, "detail", ""));
	text_append_safe(&hint, json_get_str(message, "hint", ""));
	err_code(&s->error, -EIO, "server", "%s", buf_str(&detail));
	err_hint(&s->error, "%s", buf_str(&hint));
}

static void on_message(struct shell *s, const char *text, size_t len)
{
	_cleanup_json_ json_t *message = NULL;
	const char *type;

	if (json_parse(text, len, &message, NULL) < 0 || !json_is_object(message))
		return;
	type = json_get_str(message, "type", "");
	if (str_eq(type, "ready")) {
		on_ready(s, message);
	} else if (str_eq(type, "exit")) {
		on_exit_message(s, message);
	} else if (str_eq(type, "gap")) {
		s->offset = (uint64_t)json_get_int(message, "to", (int64_t)s->offset);
		tell("some of the output is no longer kept by the sandbox");
	} else if (str_eq(type, "paused") && !s->config->cli->quiet) {
		tell("the sandbox was paused; a key resumes it");
	} else if (str_eq(type, "error")) {
		take_error(s, message);
	}
}

/* Closed by the server. What it said before says why. */
static void on_close(struct shell *s, uint16_t code)
{
	ws_client_flush(s->ws);
	if (s->ended)
		return; /* once everything was written */
	if (code == WS_CODE_GOING_AWAY || code == WS_CODE_NO_STATUS || code == WS_CODE_INTERNAL ||
	    (code == CODE_ERROR && s->error_passes)) {
		lost(s);
		return;
	}
	if (!s->error.num)
		err_code(&s->error, -EPROTO, "server", "the server closed the connection (%u)",
			 code);
	break_off();
	if (code != CODE_OVER)
		tell_how_to_take_up(s);
	finish(s, report_err(&s->error));
}

static void take_events(struct shell *s)
{
	while (s->ws && !s->done && !s->ended && s->output.len < WRITE_CHUNK) {
		bool over;
		enum ws_event event = ws_client_next(s->ws, &over);
		const struct ws_decoder *d = ws_client_event(s->ws);

		if (event == WS_EV_MORE && over)
			lost(s);
		if (event == WS_EV_MORE)
			return;
		s->heard_ms = clock_boottime_ms();
		if (event == WS_EV_BINARY) {
			buf_append(&s->output, d->piece, d->piece_len);
			s->offset += d->piece_len;
		} else if (event == WS_EV_TEXT) {
			on_message(s, buf_str(&d->text), d->text.len);
		} else if (event == WS_EV_CLOSE) {
			on_close(s, d->code);
		} else if (event == WS_EV_BAD) {
			lost(s);
		}
	}
}

/* ---- our terminal ---- */

static void write_output(struct shell *s)
{
	size_t len = s->output.len < WRITE_CHUNK ? s->output.len : WRITE_CHUNK;
	ssize_t n = write(STDOUT_FILENO, s->output.data, len);

	if (n > 0) {
		buf_drop_front(&s->output, (size_t)n);
	} else if (n < 0 && errno != EAGAIN && errno != EINTR) {
		s->leave = true; /* nobody looks at us any more */
		buf_reset(&s->output);
	}
}

static void help(const struct shell *s)
{
	tell("at the beginning of a line:  ~.  leave (the terminal goes on)   ~^Z  suspend skerry  "
	     " "
	     "~~  a tilde");
	tell_how_to_take_up(s);
}

static void send_size(struct shell *s)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	uint32_t cols, rows;

	if (!s->ready || !tty_size(&cols, &rows))
		return;
	buf_printf(&text, "{\"type\":\"resize\",\"cols\":%u,\"rows\":%u}", cols, rows);
	ws_client_send(s->ws, WS_TEXT, text.data, text.len);
}

static void suspend(struct shell *s)
{
	raw_tty_leave();
	raise(SIGSTOP);
	if (raw_tty_enter() < 0)
		s->leave = true;
	send_size(s);
}

static void read_keys(struct shell *s)
{
	char keys[READ_KEYS];
	ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
	size_t at = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		s->leave = true;
	while (n > 0 && at < (size_t)n && !s->leave) {
		size_t used;
		enum escape_action action =
			escape_filter(&s->escape, keys + at, (size_t)n - at, &used, &s->input);

		at += used;
		if (action == ESCAPE_LEAVE)
			s->leave = true;
		else if (action == ESCAPE_SUSPEND)
			suspend(s);
		else if (action == ESCAPE_HELP)
			help(s);
	}
}

static void send_input(struct shell *s)
{
	while (s->ready && ws_client_queued(s->ws) < SEND_QUEUE_MAX) {
		size_t at = (size_t)(s->input_sent - s->input_base);
		size_t n = s->input.len - at;

		n = n < SEND_CHUNK ? n : SEND_CHUNK;
		if (n == 0)
			break;
		ws_client_send(s->ws, WS_BINARY, s->input.data + at, n);
		s->input_sent += n;
	}
	if (s->input_sent - s->input_base > 2 * INPUT_KEPT) {
		size_t old = (size_t)(s->input_sent - s->input_base) - INPUT_KEPT;

		buf_drop_front(&s->input, old);
		s->input_base += old;
	}
}

static int open_signals(const int *numbers, size_t n)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < n; i++)
		sigaddset(&set, numbers[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* ---- the loop ---- */

static bool wants_keys(const struct shell *s)
{
	return raw_tty_is_on() && !s->ended &&
	       s->input_base + s->input.len - s->input_sent < INPUT_WAITING_MAX;
}

static int poll_timeout(const struct shell *s)
{
	return s->ws ? 1000 : clock_remaining_ms(s->connect_at_ms);
}

static void wait_for_something(struct shell *s)
{
	struct pollfd fds[5] = {
		{ .fd = s->leave_fd, .events = POLLIN },
		{ .fd = wants_keys(s) ? STDIN_FILENO : -1, .events = POLLIN },
		{ .fd = s->output.len > 0 ? STDOUT_FILENO : -1, .events = POLLOUT },
		{ .fd = s->ws ? ws_client_fd(s->ws) : -1 },
		{ .fd = s->size_fd, .events = POLLIN },
	};

	if (s->ws && s->output.len < WRITE_CHUNK && !s->ended)
		fds[3].events |= POLLIN;
	if (s->ws && ws_client_queued(s->ws) > 0)
		fds[3].events |= POLLOUT;
	if (fds[3].events == 0)
		fds[3].fd = -1; /* a hang-up would be told again and again */
	poll(fds, ARRAY_SIZE(fds), poll_timeout(s));
	s->leave |= fds[0].revents && read_signals(s->leave_fd);
	if (fds[4].revents && read_signals(s->size_fd))
		send_size(s);
	if (fds[1].revents)
		read_keys(s);
	if (fds[2].revents)
		write_output(s);
}

static void step(struct shell *s)
{
	int64_t now_ms = clock_boottime_ms();

	if (!s->ws && now_ms >= s->connect_at_ms)
		connect_now(s);
	if (s->done)
		return;
	take_events(s);
	send_input(s);
	if (s->ws && (!ws_client_flush(s->ws) || now_ms - s->heard_ms > SILENCE_MS) && !s->ended)
		lost(s);
	if (s->ended && s->output.len == 0)
		s->done = true;
	if (!s->done)
		wait_for_something(s);
	if (s->leave && !s->done) {
		break_off();
		tell_how_to_take_up(s);
		finish(s, CLI_OK);
	}
}

int shell_run(const struct shell_config *config)
{
	static const int leave[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM };
	static const int size[] = { SIGWINCH, SIGCONT };
	struct shell s = { .config = config };

	signal(SIGPIPE, SIG_IGN);
	signal(SIGTTOU, SIG_IGN); /* the terminal is put back also by one in the background */
	if (config->terminal_id)
		str_copy(s.terminal_id, sizeof(s.terminal_id), config->terminal_id);
	s.leave_fd = open_signals(leave, ARRAY_SIZE(leave));
	s.size_fd = open_signals(size, ARRAY_SIZE(size));
	if (s.leave_fd < 0 || s.size_fd < 0) {
		report_note("signals cannot be received: %s", strerror(errno));
		return CLI_FAILED;
	}
	while (!s.done)
		step(&s);
	raw_tty_leave();
	ws_client_free(s.ws);
	buf_clear(&s.output);
	buf_clear(&s.input);
	close(s.leave_fd);
	close(s.size_fd);
	return s.code;
}
