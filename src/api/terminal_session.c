/*
 * One viewer of one terminal: a WebSocket on one side, the core's terminal on the other.
 *
 *	OPENING     the core looks for the terminal, or starts it: errors are answers like any other
 *	UPGRADING   it is there, the client is being told (101)
 *	TALKING     bytes both ways
 *	LEAVING     it is over, or the client goes
 *
 * Everything but the start is on the loop's thread. Output is asked of the core for as much as the
 * socket has taken (WINDOW_BYTES at most wait for it), and input is read from the socket as the
 * core takes it. What the core says before the start was run, or before the socket is there, is
 * kept: it is little, because there is no credit for output before.
 */
#include "api/terminal.h"

#include <errno.h>
#include <string.h>

#include "api/auth.h"
#include "api/ops_exec.h"
#include "api/problem.h"
#include "api/ws_conn.h"
#include "base/alloc.h"
#include "base/json.h"
#include "base/str.h"
#include "base/ws.h"

#define WINDOW_BYTES (256u * 1024)
#define CREDIT_STEP  (32u * 1024) /* given back in one */

struct terminal_session {
	struct rest_call *rc;
	struct loop *loop;
	char accept[WS_ACCEPT_SIZE];
	bool with_protocol;
	enum { OPENING, UPGRADING, TALKING, LEAVING } state;
	bool started; /* the worker is done with it */
	bool gone;    /* the client left before */
	struct core_terminal *terminal;
	struct ws_conn *conn;
	size_t drained; /* not given back as credit yet */

	bool ready, over; /* what the core has said before it could be passed on */
	bool paused;
	json_t *ready_message;
	bool has_result;
	struct core_exec_result result;
	struct err why;
};

static void session_free(struct terminal_session *s)
{
	core_terminal_close(s->terminal);
	json_decref(s->ready_message);
	rest_call_free(s->rc);
	free(s);
}

/* ---- messages to the client ---- */

static void send_message(struct terminal_session *s, const json_t *message)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	json_write(message, &text);
	ws_conn_text(s->conn, text.data, text.len);
}

static json_t *message_new(const char *type)
{
	json_t *json = json_object();

	json_put_str(json, "type", type);
	return json;
}

static void send_error(struct terminal_session *s, const struct err *err)
{
	_cleanup_json_ json_t *json = message_new("error");

	json_put_str(json, "code", err_code_of(err));
	json_put_str(json, "detail", err->message);
	if (err->hint[0])
		json_put_str(json, "hint", err->hint);
	send_message(s, json);
}

static void send_exit(struct terminal_session *s)
{
	_cleanup_json_ json_t *json = message_new("exit");

	json_put_int(json, "exit_code", s->result.exit_code);
	exec_put_signal(json, s->result.signal);
	json_put(json, "out_of_memory", json_boolean(s->result.out_of_memory));
	json_put_int(json, "output_bytes", (int64_t)s->result.stdout_bytes);
	json_put_int(json, "duration_ms", s->result.duration_ms);
	send_message(s, json);
}

/* The terminal, or this viewer's part in it, is over: says so and closes. */
static void finish(struct terminal_session *s)
{
	const char *code = err_code_of(&s->why);

	s->state = LEAVING;
	if (s->has_result) {
		send_exit(s);
		ws_conn_close(s->conn, WS_CODE_NORMAL, "the terminal has ended");
		return;
	}
	send_error(s, &s->why);
	ws_conn_close(s->conn,
		      str_eq(code, "terminal_taken_over") ? TERMINAL_CODE_TAKEN_OVER
		      : str_eq(code, "sandbox_ended")	  ? TERMINAL_CODE_OVER
		      : str_eq(code, "invalid_key")	  ? TERMINAL_CODE_KEY
							  : TERMINAL_CODE_ERROR,
		      code);
}

static void send_paused(struct terminal_session *s)
{
	_cleanup_json_ json_t *json = message_new(s->paused ? "paused" : "resumed");

	send_message(s, json);
}

/* ---- what the client says ---- */

static int bad_message(struct err *err, const char *what)
{
	err_code(err, -EINVAL, "invalid_argument", "%s", what);
	err_hint(err, "text messages are like {\"type\":\"resize\",\"cols\":80,\"rows\":24}; bytes "
		      "for the terminal go as binary messages");
	return -EINVAL;
}

static bool is_size(int64_t n)
{
	return n >= 1 && n <= CORE_TERMINAL_SIZE_MAX;
}

static int take_message(struct terminal_session *s, const char *text, size_t len, struct err *err)
{
	_cleanup_json_ json_t *json = NULL;
	int64_t cols, rows;

	if (json_parse(text, len, &json, err) < 0 || !json_is_object(json))
		return bad_message(err, "a text message is not a JSON object");
	if (!str_eq(json_get_str(json, "type", ""), "resize"))
		return bad_message(err, "the type of a text message is not \"resize\"");
	cols = json_get_int(json, "cols", 0);
	rows = json_get_int(json, "rows", 0);
	if (!is_size(cols) || !is_size(rows))
		return bad_message(err, "cols and rows of a resize must be from 1 to 4096");
	core_terminal_resize(s->terminal, (uint32_t)cols, (uint32_t)rows);
	return 0;
}

static void on_text(void *arg, const char *text, size_t len)
{
	struct terminal_session *s = arg;
	struct err err = ERR_INIT;

	if (s->state == TALKING && take_message(s, text, len, &err) < 0)
		send_error(s, &err);
}

static size_t on_binary(void *arg, const void *data, size_t len)
{
	struct terminal_session *s = arg;

	return s->state == TALKING ? core_terminal_input(s->terminal, data, len) : len;
}

static void on_drained(void *arg, size_t bytes)
{
	struct terminal_session *s = arg;

	s->drained += bytes;
	if (s->drained < CREDIT_STEP || s->state != TALKING)
		return;
	core_terminal_credit(s->terminal, s->drained);
	s->drained = 0;
}

static void end_upgrade(struct terminal_session *s)
{
	ws_conn_free(STEAL(s->conn));
	http_upgrade_end(s->rc->req);
	session_free(s);
}

static void on_closed(void *arg)
{
	end_upgrade(arg);
}

static const struct ws_conn_events conn_events = {
	.binary = on_binary,
	.text = on_text,
	.drained = on_drained,
	.closed = on_closed,
};

/* ---- from a request to a WebSocket ---- */

static void on_upgraded(void *arg, int fd, const void *data, size_t len)
{
	struct terminal_session *s = arg;

	s->conn = ws_conn_new(s->loop, fd, data, len, &conn_events, s);
	if (!s->conn) {
		end_upgrade(s);
		return;
	}
	s->state = TALKING;
	send_message(s, s->ready_message);
	if (s->over) {
		finish(s);
		return;
	}
	if (s->paused)
		send_paused(s);
	core_terminal_credit(s->terminal, WINDOW_BYTES);
}

static void upgrade(struct terminal_session *s)
{
	const struct http_extra_header headers[] = {
		{ "Upgrade", "websocket" },
		{ "Sec-WebSocket-Accept", s->accept },
		{ "Sec-WebSocket-Protocol", TERMINAL_PROTOCOL },
	};

	s->state = UPGRADING;
	s->rc->call.result = json_copy(s->ready_message);
	op_call_leave(&s->rc->call, NULL, NULL, NULL);
	http_upgrade(s->rc->req, headers, s->with_protocol ? 3 : 2, on_upgraded, s);
}

static void refuse(struct terminal_session *s, const struct err *err)
{
	op_call_leave(&s->rc->call, err, NULL, NULL);
	problem_respond(s->rc->req, err);
	session_free(s);
}

/* What has happened so far, once the worker is done. */
static void go_on(struct terminal_session *s)
{
	if (!s->started || s->state != OPENING)
		return;
	if (s->gone) {
		struct err err = ERR_INIT;

		err_code(&err, -ECANCELED, "cancelled", "the client went away");
		refuse(s, &err);
	} else if (s->ready) {
		upgrade(s);
	} else if (s->over) {
		refuse(s, &s->why);
	}
}

static void on_gone(void *arg)
{
	struct terminal_session *s = arg;

	if (s->state == UPGRADING) {
		end_upgrade(s);
	} else if (s->state == TALKING && auth_has_ended(s->rc->req, &s->why)) {
		finish(s);
	} else if (s->state != OPENING) {
		ws_conn_close(s->conn, WS_CODE_GOING_AWAY, "the server is ending");
		s->state = LEAVING;
	} else {
		s->gone = true;
		go_on(s);
	}
}

/* ---- what the core says ---- */

static void on_ready(void *arg, const struct core_terminal_state *state)
{
	struct terminal_session *s = arg;

	s->ready = true;
	s->ready_message = message_new("ready");
	json_put_str(s->ready_message, "terminal_id", state->terminal_id);
	json_put(s->ready_message, "new", json_boolean(state->is_new));
	json_put_int(s->ready_message, "offset", (int64_t)state->offset);
	json_put_int(s->ready_message, "output_bytes", (int64_t)state->output_bytes);
	json_put_int(s->ready_message, "input_bytes", (int64_t)state->input_bytes);
	go_on(s);
}

static void on_data(void *arg, const void *data, size_t len)
{
	struct terminal_session *s = arg;

	if (s->state == TALKING)
		ws_conn_binary(s->conn, data, len);
}

static void on_gap(void *arg, uint64_t from, uint64_t to)
{
	struct terminal_session *s = arg;
	_cleanup_json_ json_t *json = message_new("gap");

	json_put_int(json, "from", (int64_t)from);
	json_put_int(json, "to", (int64_t)to);
	if (s->state == TALKING)
		send_message(s, json);
}

static void on_room(void *arg)
{
	struct terminal_session *s = arg;

	if (s->state == TALKING)
		ws_conn_resume(s->conn);
}

static void on_paused(void *arg, bool paused)
{
	struct terminal_session *s = arg;

	s->paused = paused;
	if (s->state == TALKING)
		send_paused(s);
}

static void on_ended(void *arg, const struct core_exec_result *result, const struct err *err)
{
	struct terminal_session *s = arg;

	s->over = true;
	if (result) {
		s->has_result = true;
		s->result = *result;
	} else {
		s->why = *err;
	}
	if (s->state == TALKING)
		finish(s);
	else
		go_on(s);
}

static const struct core_terminal_sink sink = {
	.ready = on_ready,
	.data = on_data,
	.gap = on_gap,
	.room = on_room,
	.paused = on_paused,
	.ended = on_ended,
};

/* ---- the start ---- */

static void start(void *arg)
{
	struct terminal_session *s = arg;

	s->started = true;
	go_on(s);
}

static struct core_terminal_request read_request(const json_t *args)
{
	return (struct core_terminal_request){
		.terminal_id = json_get_str(args, "terminal_id", NULL),
		.has_offset = json_object_get(args, "from_offset") != NULL,
		.from_offset = (uint64_t)json_get_int(args, "from_offset", 0),
		.cols = (uint32_t)json_get_int(args, "cols", 0),
		.rows = (uint32_t)json_get_int(args, "rows", 0),
		.command = json_get_str(args, "command", NULL),
		.user = json_get_str(args, "user", NULL),
		.cwd = json_get_str(args, "cwd", NULL),
		.term = json_get_str(args, "term", NULL),
	};
}

void terminal_session_run(struct rest_call *rc, struct loop *loop, const char *accept,
			  bool with_protocol)
{
	struct terminal_session *s = xcalloc(1, sizeof(*s));
	const struct op_call *call = &rc->call;
	const struct core_terminal_request req = read_request(call->args);
	struct err err = ERR_INIT;

	s->rc = rc;
	s->loop = loop;
	s->with_protocol = with_protocol;
	str_copy(s->accept, sizeof(s->accept), accept);
	http_on_disconnect(rc->req, on_gone, s);
	if (core_terminal_open(call->core, &call->who, json_get_str(call->args, "id", ""), &req,
			       &sink, s, &s->terminal, &err) < 0) {
		s->over = true;
		s->why = err;
	}
	loop_post(loop, start, s);
}
