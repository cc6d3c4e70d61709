/*
 * WebSockets to the server. See ws_client.h.
 *
 * The handshake waits, because there is nothing else to do before it is done (a paused sandbox is
 * resumed by it, which takes a while). Afterwards nothing here waits: bytes are read as far as
 * events are asked for, so that a caller who cannot take output holds the server back.
 */
#include "cli/ws_client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/rand.h"
#include "base/str.h"
#include "base/version.h"
#include "cli/wire.h"
#include "cli/ws_answer.h"

#define ANSWER_WITHIN_MS 120000 /* a sandbox may have to be resumed */
#define REFUSAL_MAX	 (64u * 1024)
#define TEXT_MAX	 (64u * 1024)
#define READ_BYTES	 (32u * 1024)

struct ws_client {
	struct wire *wire;
	struct ws_decoder decoder;
	struct buf in;
	size_t in_used;
	struct buf out;
	bool over;
};

void ws_client_free(struct ws_client *ws)
{
	if (!ws)
		return;
	wire_close(ws->wire);
	ws_decoder_clear(&ws->decoder);
	buf_clear(&ws->in);
	buf_clear(&ws->out);
	free(ws);
}

int ws_client_fd(const struct ws_client *ws)
{
	return wire_fd(ws->wire);
}

size_t ws_client_queued(const struct ws_client *ws)
{
	return ws->out.len;
}

/* ---- the handshake ---- */

static void put_request(struct ws_client *ws, const struct cli *cli, const char *path,
			const char *key)
{
	buf_printf(&ws->out,
		   "GET %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: skerry/" SKERRY_VERSION
		   "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
		   "Sec-WebSocket-Key: %s\r\n",
		   wire_prefix(ws->wire), path, wire_host(ws->wire), key);
	if (cli->key)
		buf_printf(&ws->out, "Authorization: Bearer %s\r\n", cli->key);
	buf_append_str(&ws->out, "\r\n");
}

/* One read; false at the end. */
static bool read_more(struct ws_client *ws)
{
	ssize_t n;

	buf_reserve(&ws->in, READ_BYTES);
	n = wire_read(ws->wire, ws->in.data + ws->in.len, READ_BYTES);
	if (n > 0)
		ws->in.len += (size_t)n;
	return n > 0 || n == -EAGAIN;
}

static bool answer_is_whole(const struct ws_client *ws, const struct ws_answer *answer,
			    size_t head_len)
{
	uint64_t body = ws->in.len - head_len;

	return answer->status == 101 || body >= REFUSAL_MAX ||
	       (answer->content_length >= 0 && body >= (uint64_t)answer->content_length);
}

/* Reads until the answer is whole (a refusal with its body). The length of its head, or negative.
 */
static ssize_t read_answer(struct ws_client *ws, int abort_fd, struct ws_answer *ret)
{
	int64_t deadline = clock_boottime_ms() + ANSWER_WITHIN_MS;

	for (;;) {
		struct pollfd fds[2] = { { .fd = wire_fd(ws->wire), .events = POLLIN },
					 { .fd = abort_fd, .events = POLLIN } };
		size_t had = ws->in.len;
		bool open = ws_client_flush(ws) && read_more(ws);
		ssize_t n = ws_answer_parse(buf_str(&ws->in), ws->in.len, ret);

		if (n < 0 || (n > 0 && (!open || answer_is_whole(ws, ret, (size_t)n))))
			return n;
		if (!open)
			return -ECONNRESET;
		if (ws->in.len > had)
			continue;
		if (ws->out.len > 0)
			fds[0].events |= POLLOUT;
		if (poll(fds, 2, clock_remaining_ms(deadline)) == 0)
			return -ETIMEDOUT;
		if (fds[1].revents)
			return -EINTR;
	}
}

static int handshake(struct ws_client *ws, const struct cli *cli, const char *path, int abort_fd,
		     struct client_response *refusal, struct err *err)
{
	char key[WS_KEY_SIZE], accept[WS_ACCEPT_SIZE];
	struct ws_answer answer;
	ssize_t n;

	ws_key_make(key);
	ws_accept_make(key, accept);
	put_request(ws, cli, path, key);
	n = read_answer(ws, abort_fd, &answer);
	if (n == -EINTR)
		return -EINTR;
	if (n == -ETIMEDOUT)
		return err_code(err, -ETIMEDOUT, "timeout", "%s did not answer in time", cli->url);
	if (n == -ECONNRESET)
		return err_code(err, -ECONNRESET, "connection_lost",
				"the connection to %s was lost", cli->url);
	if (n < 0 || (answer.status == 101 && (!answer.upgrades || !str_eq(answer.accept, accept))))
		return err_code(err, -EBADMSG, "bad_answer",
				"what answers at %s is no skerryd, or something stands before it "
				"that does not pass WebSockets on",
				cli->url);
	buf_drop_front(&ws->in, (size_t)n);
	if (answer.status == 101)
		return 0;
	refusal->status = answer.status;
	str_copy(refusal->content_type, sizeof(refusal->content_type), answer.content_type);
	buf_append(&refusal->body, ws->in.data, ws->in.len);
	return -EPROTO;
}

int ws_client_open(const struct cli *cli, const char *path, int abort_fd, struct ws_client **ret,
		   struct client_response *refusal, struct err *err)
{
	struct ws_client *ws = xcalloc(1, sizeof(*ws));
	int r;

	ws_decoder_init(&ws->decoder, false, TEXT_MAX);
	r = wire_open(cli->url, getenv("SKERRY_CA_FILE"), &ws->wire, err);
	if (r == 0)
		r = handshake(ws, cli, path, abort_fd, refusal, err);
	if (r == 0)
		*ret = ws;
	else
		ws_client_free(ws);
	return r;
}

/* ---- messages ---- */

void ws_client_send(struct ws_client *ws, enum ws_opcode opcode, const void *data, size_t len)
{
	uint8_t mask[WS_MASK_LEN];

	rand_bytes(mask, sizeof(mask));
	ws_put_frame(&ws->out, opcode, data, len, mask);
}

bool ws_client_flush(struct ws_client *ws)
{
	while (ws->out.len > 0) {
		ssize_t n = wire_write(ws->wire, ws->out.data, ws->out.len);

		if (n == -EAGAIN)
			return true;
		if (n < 0)
			return false;
		buf_drop_front(&ws->out, (size_t)n);
	}
	return true;
}

static enum ws_event next_of_buffer(struct ws_client *ws)
{
	enum ws_event event;
	size_t used;

	if (ws->in.len == 0)
		return WS_EV_MORE;
	event = ws_next(&ws->decoder, (uint8_t *)ws->in.data + ws->in_used,
			ws->in.len - ws->in_used, &used);
	ws->in_used += used;
	if (event == WS_EV_MORE) {
		buf_reset(&ws->in);
		ws->in_used = 0;
	} else if (event == WS_EV_PING) {
		ws_client_send(ws, WS_PONG, ws->decoder.control, ws->decoder.control_len);
	} else if (event == WS_EV_CLOSE) {
		ws_client_send(ws, WS_CLOSE, ws->decoder.control,
			       ws->decoder.control_len < 2 ? 0 : 2);
	}
	return event;
}

enum ws_event ws_client_next(struct ws_client *ws, bool *ret_over)
{
	enum ws_event event;

	for (;;) {
		event = next_of_buffer(ws);
		if (event != WS_EV_MORE || ws->over)
			break;
		ws->over = !read_more(ws);
		if (ws->in.len == 0)
			break;
	}
	*ret_over = event == WS_EV_MORE && ws->over;
	return event;
}

const struct ws_decoder *ws_client_event(const struct ws_client *ws)
{
	return &ws->decoder;
}
