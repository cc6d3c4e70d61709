/*
 * Theory of operation
 *
 * One thread, one loop around client_poll. Up to three requests are under way: the event stream, at
 * most one chunk of input, at most one signal. Signals of our own arrive through a signalfd, so
 * that they are handled between callbacks and also while stdout is blocked.
 *
 *   stream   POST …/exec; when it breaks after `started`: GET …/exec/<exec_id> from the offsets
 * reached, again and again with growing pauses until RECONNECT_FOR_MS have passed input    stdin is
 * read only when the last chunk was accepted: the server answers when the guest has room, which is
 * the flow control signals  the first SIGINT or SIGTERM is passed to the command, the second leaves
 * it running; the command is also ended when the reader of our stdout went away
 */
#include "cli/backoff.h"
#include "cli/exec_live.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "cli/exec_output.h"
#include "cli/session.h"
#include "cli/sse.h"
#include "cli/table.h"

#define INPUT_CHUNK	  (128u << 10)
#define WRITE_CHUNK	  4096u /* what a pipe or terminal that polls writable takes without blocking */
#define RECONNECT_FOR_MS  60000
#define RETRY_INPUT_MS	  50
#define STREAM_SILENCE_MS 60000 /* the server sends a heartbeat every 15 s */
#define SIGNAL_TIMEOUT_MS 10000

struct live {
	const struct exec_live_config *config;
	struct client *client;
	struct sse sse;
	struct exec_output output;
	int signal_fd;

	struct client_request *stream;
	int64_t lost_since_ms; /* 0: connected */
	int64_t connect_at_ms; /* when to try again, while stream is NULL */
	struct backoff backoff;

	struct client_request *input;
	bool input_done;	   /* nothing more to send, or nobody who takes it */
	bool input_eof;		   /* stdin has ended: the chunk under way is the last */
	int64_t input_retry_at_ms; /* 0: no chunk waits */
	json_t *input_chunk;	   /* the one under way, kept to be sent again */

	struct client_request *signal;
	const char *pending_signal;
	unsigned int interrupts;
	bool detach;
	bool stdout_gone;

	bool done;
	int code;
};

static void end(struct live *l, int code)
{
	l->done = true;
	l->code = code;
}

/* ---- our own signals ---- */

static void read_signals(struct live *l)
{
	struct signalfd_siginfo info;

	while (read(l->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		l->pending_signal = info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT";
		if (++l->interrupts > 1)
			l->detach = true;
	}
}

static int open_signals(void)
{
	sigset_t set;

	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* ---- output ---- */

/* Waits for room on fd, but not past a second Ctrl-C: a pager that does not read must not hold us.
 */
static int wait_writable(struct live *l, int fd)
{
	struct pollfd fds[2] = { { .fd = fd, .events = POLLOUT },
				 { .fd = l->signal_fd, .events = POLLIN } };

	while (!l->detach) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return -errno;
		if (fds[1].revents)
			read_signals(l);
		if (fds[0].revents)
			return 0;
	}
	return -ECANCELED;
}

static int write_stream(struct live *l, int fd, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n;
		int r = wait_writable(l, fd);

		if (r < 0)
			return r;
		n = write(fd, data, len < WRITE_CHUNK ? len : WRITE_CHUNK);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n > 0) {
			data += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

static int on_output(void *arg, enum exec_stream stream, const void *data, size_t len)
{
	struct live *l = arg;
	int r;

	if (stream == EXEC_STDOUT && l->stdout_gone)
		return 0;
	r = write_stream(l, stream == EXEC_STDOUT ? STDOUT_FILENO : STDERR_FILENO, data, len);
	if (r == -EPIPE && stream == EXEC_STDOUT) {
		l->stdout_gone = true;
		l->pending_signal = "SIGTERM";
		return 0;
	}
	if (r == -EPIPE)
		return 0; /* nobody reads our stderr: what it would have said is not missed */
	if (r < 0 && r != -ECANCELED)
		report_note("the output cannot be written: %s", strerror(-r));
	return r;
}

static void on_gap(void *arg, enum exec_stream stream, uint64_t missing)
{
	(void)arg;
	report_note("%llu bytes of %s are no longer kept by the sandbox",
		    (unsigned long long)missing, stream == EXEC_STDOUT ? "stdout" : "stderr");
}

static int on_event(void *arg, const char *name, const char *data, size_t len)
{
	struct live *l = arg;

	return exec_output_event(&l->output, name, data, len);
}

static int on_bytes(void *arg, const void *bytes, size_t len)
{
	struct live *l = arg;
	int r;

	l->lost_since_ms = 0;
	r = sse_feed(&l->sse, bytes, len);
	if (r == -EBADMSG || r == -EMSGSIZE)
		report_note("the server's events are not understood");
	return r;
}

/* ---- the end of a command ---- */

int exec_exit_code(const json_t *result)
{
	int64_t code = json_get_int(result, "exit_code", -1);
	int64_t number = json_get_int(result, "signal", 0);

	if (json_get_bool(result, "timed_out", false))
		return 124;
	if (code < 0 && number > 0)
		code = 128 + number;
	return code >= 0 && code <= 255 ? (int)code : CLI_FAILED;
}

/* Of a command that failed: what it did not reach may be why. */
static void explain_denials(const struct live *l)
{
	const json_t *denied = json_object_get(l->output.result, "egress_denied"), *one;
	size_t i;

	json_array_foreach(denied, i, one) {
		const char *rule = json_get_str(one, "rule", NULL);
		_cleanup_buf_ struct buf line = BUF_INIT;

		text_append_safe(&line, json_get_str(one, "target", "?"));
		buf_append_str(&line, " was not reached: ");
		text_append_safe(&line, json_get_str(one, "reason", ""));
		if (rule) {
			buf_printf(&line, "; `skerry egress add %s ", l->config->sandbox);
			text_append_safe(&line, rule);
			buf_append_str(&line, "` allows it");
		}
		report_note("%s", buf_str(&line));
	}
}

static void explain_end(const struct live *l)
{
	if (l->config->cli->quiet)
		return;
	if (exec_exit_code(l->output.result) != 0)
		explain_denials(l);
	if (json_get_bool(l->output.result, "timed_out", false))
		report_note("the command was ended at its timeout, after %lld ms",
			    (long long)json_get_int(l->output.result, "duration_ms", 0));
	else if (json_get_bool(l->output.result, "out_of_memory", false))
		report_note("the command was ended because the sandbox ran out of memory");
}

static void end_with_problem(struct live *l)
{
	struct client_response response = { .status = json_get_int(l->output.problem, "status",
								   500) };

	json_write(l->output.problem, &response.body);
	end(l, report_response(&response));
	client_response_clear(&response);
}

static void say_how_to_take_up(const struct live *l)
{
	report_note("the command goes on; take it up with: skerry exec %s --attach %s",
		    l->config->sandbox, l->output.exec_id);
}

/* ---- the event stream ---- */

static void lost(struct live *l, const char *why)
{
	int64_t now_ms = clock_boottime_ms();

	if (l->lost_since_ms == 0) {
		l->lost_since_ms = now_ms;
		backoff_reset(&l->backoff);
	}
	if (now_ms - l->lost_since_ms > RECONNECT_FOR_MS) {
		report_note("%s", why);
		say_how_to_take_up(l);
		end(l, CLI_FAILED);
		return;
	}
	l->connect_at_ms = now_ms + backoff_ms(&l->backoff);
}

/* A stream that ended. Whatever can be told of the command comes first. */
static void on_stream_done(void *arg, struct client_response *response, const struct err *err)
{
	struct live *l = arg;

	l->stream = NULL;
	if (l->detach)
		return;
	if (l->output.result) {
		explain_end(l);
		end(l, l->stdout_gone ? 128 + SIGPIPE : exec_exit_code(l->output.result));
	} else if (l->output.problem) {
		end_with_problem(l);
	} else if (!err && response->status / 100 != 2 &&
		   !(l->lost_since_ms && response->status >= 500)) {
		end(l, report_response(response));
	} else if (err && str_eq(err->code, "stopped")) {
		end(l, CLI_FAILED);
	} else if (!l->output.exec_id[0]) {
		if (err && str_eq(err->code, "unreachable"))
			end(l, report_err(err));
		else {
			report_note(
				"%s before the command's start was confirmed; it may be running",
				err ? err->message : "the stream ended");
			end(l, CLI_FAILED);
		}
	} else {
		lost(l, err ? err->message : "the stream ended too early");
	}
}

static void connect_stream(struct live *l)
{
	const struct exec_live_config *config = l->config;
	_cleanup_buf_ struct buf path = BUF_INIT;
	struct client_spec spec = {
		.accept_events = true,
		.silence_ms = STREAM_SILENCE_MS,
		.timeout_ms = -1,
		.events = on_bytes,
		.done = on_stream_done,
		.arg = l,
	};
	struct err err = ERR_INIT;

	sse_reset(&l->sse);
	buf_printf(&path, "%s/exec", config->sandbox_path);
	if (l->output.exec_id[0]) {
		buf_printf(&path, "/%s?from_offset=%llu&from_stderr_offset=%llu", l->output.exec_id,
			   (unsigned long long)l->output.next[EXEC_STDOUT],
			   (unsigned long long)l->output.next[EXEC_STDERR]);
		spec.method = "GET";
	} else {
		spec.method = "POST";
		spec.body = config->request;
	}
	spec.path = buf_str(&path);
	if (client_start(l->client, &spec, &l->stream, &err) < 0)
		end(l, report_err(&err));
}

/* ---- input ---- */

static void drop_chunk(struct live *l)
{
	json_decref(l->input_chunk);
	l->input_chunk = NULL;
}

static void on_input_done(void *arg, struct client_response *response, const struct err *err)
{
	struct live *l = arg;
	bool again = err ? str_eq(err->code, "unreachable") : response->status == 503;

	l->input = NULL;
	if (again) {
		l->input_retry_at_ms = clock_boottime_ms() + RETRY_INPUT_MS;
		return;
	}
	drop_chunk(l);
	if (err)
		report_note("input was lost: %s", err->message);
	/* 404 and 409: the command has ended or has closed its stdin. What happened is told by its
	 * end. */
	else if (response->status / 100 != 2 && response->status != 404 && response->status != 409)
		(void)report_response(response);
	if (err || response->status / 100 != 2 || l->input_eof)
		l->input_done = true;
}

static void send_chunk(struct live *l)
{
	_cleanup_buf_ struct buf path = BUF_INIT;
	struct client_spec spec = { .method = "POST",
				    .body = l->input_chunk,
				    .timeout_ms = -1,
				    .done = on_input_done,
				    .arg = l };
	struct err err = ERR_INIT;

	buf_printf(&path, "%s/exec/%s/input", l->config->sandbox_path, l->output.exec_id);
	spec.path = buf_str(&path);
	l->input_retry_at_ms = 0;
	if (client_start(l->client, &spec, &l->input, &err) < 0)
		end(l, report_err(&err));
}

static void read_stdin(struct live *l)
{
	static char bytes[INPUT_CHUNK];
	_cleanup_buf_ struct buf text = BUF_INIT;
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	l->input_eof = n <= 0;
	l->input_chunk = json_object();
	if (l->input_eof) {
		json_put(l->input_chunk, "close", json_true());
	} else {
		base64_encode(bytes, (size_t)n, &text);
		json_put_str(l->input_chunk, "data_base64", buf_str(&text));
	}
	send_chunk(l);
}

static bool wants_stdin(const struct live *l)
{
	return !l->input_done && !l->input_eof && !l->input_chunk && l->output.exec_id[0] &&
	       !l->output.result && l->lost_since_ms == 0;
}

/* ---- signals to the command ---- */

static void on_signal_done(void *arg, struct client_response *response, const struct err *err)
{
	struct live *l = arg;

	l->signal = NULL;
	if (err)
		report_note("the signal was not delivered: %s", err->message);
	else if (response->status / 100 != 2 && response->status != 404 && response->status != 409)
		(void)report_response(response);
}

static void send_signal(struct live *l)
{
	_cleanup_json_ json_t *body = json_object();
	_cleanup_buf_ struct buf path = BUF_INIT;
	struct client_spec spec = { .method = "POST",
				    .body = body,
				    .timeout_ms = SIGNAL_TIMEOUT_MS,
				    .done = on_signal_done,
				    .arg = l };
	struct err err = ERR_INIT;

	json_put_str(body, "signal", l->pending_signal);
	l->pending_signal = NULL;
	buf_printf(&path, "%s/exec/%s/signal", l->config->sandbox_path, l->output.exec_id);
	spec.path = buf_str(&path);
	if (client_start(l->client, &spec, &l->signal, &err) < 0)
		(void)report_err(&err);
	else if (l->interrupts && isatty(STDERR_FILENO) && !l->config->cli->quiet)
		report_note("passed to the command; again to leave it running");
}

static void act_on_signals(struct live *l)
{
	if (!l->pending_signal && !l->detach)
		return;
	if (!l->output.exec_id[0]) {
		report_note("interrupted before the command's start was confirmed");
		end(l, 128 + SIGINT);
	} else if (l->detach) {
		say_how_to_take_up(l);
		end(l, 128 + SIGINT);
	} else if (!l->signal) {
		send_signal(l);
	}
}

/* ---- the loop ---- */

static int poll_timeout(const struct live *l)
{
	int64_t at_ms = 0;

	if (!l->stream)
		at_ms = l->connect_at_ms;
	if (l->input_retry_at_ms && (at_ms == 0 || l->input_retry_at_ms < at_ms))
		at_ms = l->input_retry_at_ms;
	return at_ms ? clock_remaining_ms(at_ms) : 1000;
}

static void step(struct live *l)
{
	struct pollfd fds[2] = { { .fd = l->signal_fd, .events = POLLIN },
				 { .fd = STDIN_FILENO, .events = POLLIN } };
	bool reads = wants_stdin(l);
	struct err err = ERR_INIT;

	if (client_poll(l->client, fds, reads ? 2 : 1, poll_timeout(l), &err) < 0) {
		end(l, report_err(&err));
		return;
	}
	if (fds[0].revents)
		read_signals(l);
	act_on_signals(l);
	if (l->done)
		return;
	if (reads && fds[1].revents && wants_stdin(l))
		read_stdin(l);
	if (l->input_retry_at_ms && clock_boottime_ms() >= l->input_retry_at_ms)
		send_chunk(l);
	if (!l->stream && clock_boottime_ms() >= l->connect_at_ms)
		connect_stream(l);
}

int exec_live(const struct exec_live_config *config)
{
	struct live l = { .config = config,
			  .client = config->cli->client,
			  .input_done = !config->input };

	l.signal_fd = open_signals();
	if (l.signal_fd < 0) {
		report_note("signals cannot be received: %s", strerror(errno));
		return CLI_FAILED;
	}
	sse_init(&l.sse, on_event, &l);
	l.output.write = on_output;
	l.output.gap = on_gap;
	l.output.arg = &l;
	if (config->exec_id)
		str_copy(l.output.exec_id, sizeof(l.output.exec_id), config->exec_id);
	connect_stream(&l);
	while (!l.done)
		step(&l);
	client_cancel(l.client, l.stream);
	client_cancel(l.client, l.input);
	client_cancel(l.client, l.signal);
	drop_chunk(&l);
	exec_output_clear(&l.output);
	sse_clear(&l.sse);
	close(l.signal_fd);
	return l.code;
}
