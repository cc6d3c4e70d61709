/*
 * WebSocket frames. See ws.h.
 *
 * The decoder is a machine over bytes: the head is gathered one byte at a time until it is as long
 * as its own first bytes say; the payload is unmasked where it lies and handed on. So it does not
 * matter where the network cuts the stream, and nothing is kept but a head, a control frame and one
 * short text.
 */
#include "base/ws.h"

#include <string.h>

#include "base/str.h"

#define HEAD_FIN     0x80u
#define HEAD_RSV     0x70u
#define HEAD_OPCODE  0x0fu
#define HEAD_MASKED  0x80u
#define HEAD_LENGTH  0x7fu
#define LENGTH_16    126u
#define LENGTH_64    127u
#define SHORT_MAX    125u
#define CODE_OWN_MIN 3000u
#define CODE_MAX     4999u

void ws_decoder_init(struct ws_decoder *d, bool from_client, size_t text_max)
{
	*d = (struct ws_decoder){ .from_client = from_client, .text_max = text_max };
}

void ws_decoder_clear(struct ws_decoder *d)
{
	buf_clear(&d->text);
}

void ws_mask(uint8_t *data, size_t len, const uint8_t mask[WS_MASK_LEN], uint64_t offset)
{
	uint8_t turned[WS_MASK_LEN];

	for (size_t i = 0; i < WS_MASK_LEN; i++)
		turned[i] = mask[(offset + i) % WS_MASK_LEN];
	for (size_t i = 0; i < len; i++)
		data[i] = (uint8_t)(data[i] ^ turned[i % WS_MASK_LEN]);
}

/* ---- reading ---- */

static enum ws_event bad(struct ws_decoder *d, uint16_t code, const char *why)
{
	d->over = true;
	d->code = code;
	d->why = why;
	return WS_EV_BAD;
}

static bool is_control(uint8_t opcode)
{
	return opcode >= WS_CLOSE;
}

/* How long the head is, as far as its bytes say. */
static size_t head_need(const struct ws_decoder *d)
{
	size_t need = 2;

	if (d->head_len < need)
		return need;
	if ((d->head[1] & HEAD_LENGTH) == LENGTH_16)
		need += 2;
	else if ((d->head[1] & HEAD_LENGTH) == LENGTH_64)
		need += 8;
	return need + (d->head[1] & HEAD_MASKED ? WS_MASK_LEN : 0);
}

/* The length that the head says; *ret_size: the bytes it takes behind the first two. */
static uint64_t head_length(const struct ws_decoder *d, size_t *ret_size)
{
	uint64_t length = d->head[1] & HEAD_LENGTH;

	*ret_size = length == LENGTH_16 ? 2 : length == LENGTH_64 ? 8 : 0;
	if (*ret_size > 0)
		length = 0;
	for (size_t i = 0; i < *ret_size; i++)
		length = length << 8 | d->head[2 + i];
	return length;
}

/* What may follow what: messages are not mixed, control frames come between their frames. */
static enum ws_event begin_message(struct ws_decoder *d)
{
	switch (d->opcode) {
	case WS_CONTINUATION:
		return d->message ? WS_EV_MORE
				  : bad(d, WS_CODE_PROTOCOL, "a continuation of no message");
	case WS_TEXT:
	case WS_BINARY:
		if (d->message)
			return bad(d, WS_CODE_PROTOCOL, "a message within a message");
		d->message = d->opcode;
		buf_reset(&d->text);
		return WS_EV_MORE;
	case WS_CLOSE:
	case WS_PING:
	case WS_PONG:
		if (!d->fin || d->left > WS_CONTROL_MAX)
			return bad(d, WS_CODE_PROTOCOL, "a control frame that is cut or too long");
		d->control_len = 0;
		return WS_EV_MORE;
	default:
		return bad(d, WS_CODE_PROTOCOL, "an unknown opcode");
	}
}

static enum ws_event begin_frame(struct ws_decoder *d)
{
	bool masked = d->head[1] & HEAD_MASKED;
	size_t size;

	d->fin = d->head[0] & HEAD_FIN;
	d->opcode = d->head[0] & HEAD_OPCODE;
	d->left = head_length(d, &size);
	d->taken = 0;
	d->in_payload = true;
	if (d->head[0] & HEAD_RSV)
		return bad(d, WS_CODE_PROTOCOL, "a reserved bit without an extension");
	if (masked != d->from_client)
		return bad(d, WS_CODE_PROTOCOL,
			   masked ? "a masked frame of a server" : "an unmasked frame of a client");
	if ((size == 2 && d->left <= SHORT_MAX) || (size == 8 && d->left <= UINT16_MAX) ||
	    d->left > INT64_MAX)
		return bad(d, WS_CODE_PROTOCOL, "a length that is not written as it must be");
	if (masked)
		memcpy(d->mask, d->head + 2 + size, WS_MASK_LEN);
	return begin_message(d);
}

static bool code_is_valid(uint16_t code)
{
	return (code >= WS_CODE_NORMAL && code <= 1003) ||
	       (code >= WS_CODE_NOT_UTF8 && code <= 1014) ||
	       (code >= CODE_OWN_MIN && code <= CODE_MAX);
}

static enum ws_event take_close(struct ws_decoder *d)
{
	d->code = WS_CODE_NO_STATUS;
	if (d->control_len == 1)
		return bad(d, WS_CODE_PROTOCOL, "a close with half a code");
	if (d->control_len >= 2) {
		d->code = (uint16_t)(d->control[0] << 8 | d->control[1]);
		if (!code_is_valid(d->code))
			return bad(d, WS_CODE_PROTOCOL, "a close with a code that is not one");
		if (!utf8_valid(d->control + 2, d->control_len - 2))
			return bad(d, WS_CODE_NOT_UTF8, "a close with a reason that is no UTF-8");
	}
	d->over = true;
	return WS_EV_CLOSE;
}

static enum ws_event end_control(struct ws_decoder *d)
{
	return d->opcode == WS_CLOSE  ? take_close(d)
	       : d->opcode == WS_PING ? WS_EV_PING
				      : WS_EV_PONG;
}

static enum ws_event end_text(struct ws_decoder *d)
{
	if (!utf8_valid(buf_str(&d->text), d->text.len))
		return bad(d, WS_CODE_NOT_UTF8, "a text that is no UTF-8");
	return WS_EV_TEXT;
}

/* The next len bytes of the payload, which are the frame's. */
static enum ws_event take_payload(struct ws_decoder *d, uint8_t *data, size_t len)
{
	bool whole, text = !is_control(d->opcode) && d->message == WS_TEXT;

	if (d->from_client)
		ws_mask(data, len, d->mask, d->taken);
	d->taken += len;
	d->left -= len;
	whole = d->left == 0;
	if (whole) {
		d->in_payload = false;
		d->head_len = 0;
	}
	if (is_control(d->opcode)) {
		memcpy(d->control + d->control_len, data, len);
		d->control_len += len;
		return whole ? end_control(d) : WS_EV_MORE;
	}
	if (whole && d->fin)
		d->message = 0;
	if (!text) {
		d->piece = data;
		d->piece_len = len;
		return len > 0 ? WS_EV_BINARY : WS_EV_MORE;
	}
	if (d->text.len + len > d->text_max)
		return bad(d, WS_CODE_TOO_BIG, "a text that is too long");
	buf_append(&d->text, data, len);
	return whole && d->fin ? end_text(d) : WS_EV_MORE;
}

enum ws_event ws_next(struct ws_decoder *d, uint8_t *data, size_t len, size_t *ret_used)
{
	enum ws_event event = WS_EV_MORE;
	size_t used = 0;

	while (!d->over && event == WS_EV_MORE) {
		size_t rest = len - used;
		size_t n = d->left < rest ? (size_t)d->left : rest;

		if (d->in_payload && (n > 0 || d->left == 0)) {
			event = take_payload(d, data + used, n);
			used += n;
		} else if (rest == 0) {
			break;
		} else {
			d->head[d->head_len++] = data[used++];
			if (d->head_len == head_need(d))
				event = begin_frame(d);
		}
	}
	*ret_used = d->over && event == WS_EV_MORE ? len : used;
	return event;
}

/* ---- writing ---- */

static void put_head(struct buf *out, enum ws_opcode opcode, uint64_t len, bool masked)
{
	uint8_t head[WS_HEAD_MAX];
	size_t n = 2, size = len <= SHORT_MAX ? 0 : len <= UINT16_MAX ? 2 : 8;

	head[0] = (uint8_t)(HEAD_FIN | opcode);
	head[1] = (uint8_t)(size == 0 ? len : size == 2 ? LENGTH_16 : LENGTH_64);
	head[1] = (uint8_t)(head[1] | (masked ? HEAD_MASKED : 0));
	for (size_t i = size; i > 0; i--)
		head[n++] = (uint8_t)(len >> (8 * (i - 1)));
	buf_append(out, head, n);
}

void ws_put_frame(struct buf *out, enum ws_opcode opcode, const void *data, size_t len,
		  const uint8_t mask[WS_MASK_LEN])
{
	put_head(out, opcode, len, mask != NULL);
	if (mask)
		buf_append(out, mask, WS_MASK_LEN);
	buf_append(out, data, len);
	if (mask)
		ws_mask((uint8_t *)out->data + out->len - len, len, mask, 0);
}

void ws_put_close(struct buf *out, uint16_t code, const char *reason,
		  const uint8_t mask[WS_MASK_LEN])
{
	char payload[WS_CONTROL_MAX + 1] = { (char)(code >> 8), (char)(code & 0xff) };

	str_copy(payload + 2, sizeof(payload) - 2, reason);
	ws_put_frame(out, WS_CLOSE, payload, 2 + strlen(payload + 2), mask);
}
