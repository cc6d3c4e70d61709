/*
 * WebSocket frames of a peer that keeps to nothing. The first byte says from which side they come
 * and where the stream is cut: however it is cut, the same is heard.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/ws.h"

#define TEXT_MAX 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Everything that was heard, one after the other; pieces of binary messages joined. */
static void listen_to(struct buf *heard, bool from_client, const uint8_t *data, size_t size,
		      size_t step)
{
	_cleanup_buf_ struct buf copy = BUF_INIT;
	struct ws_decoder d;

	ws_decoder_init(&d, from_client, TEXT_MAX);
	buf_append(&copy, data, size);
	for (size_t at = 0; at < size; at += step) {
		uint8_t *piece = (uint8_t *)copy.data + at;
		size_t left = size - at < step ? size - at : step, used;
		enum ws_event event;

		do {
			event = ws_next(&d, piece, left, &used);
			assert(used <= left);
			piece += used;
			left -= used;
			if (event == WS_EV_BINARY)
				buf_append(heard, d.piece, d.piece_len);
			else if (event != WS_EV_MORE)
				buf_printf(heard, "\n%d ", (int)event);
			if (event == WS_EV_TEXT)
				buf_append(heard, buf_str(&d.text), d.text.len);
			else if (event == WS_EV_PING || event == WS_EV_PONG)
				buf_append(heard, d.control, d.control_len);
			else if (event == WS_EV_CLOSE || event == WS_EV_BAD)
				buf_printf(heard, "%u", d.code);
			assert(d.text.len <= TEXT_MAX && d.control_len <= WS_CONTROL_MAX);
			assert((event == WS_EV_BAD) == (d.why && d.over && event != WS_EV_MORE));
		} while (event != WS_EV_MORE);
		assert(left == 0);
	}
	ws_decoder_clear(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_buf_ struct buf whole = BUF_INIT, cut = BUF_INIT;
	bool from_client;

	if (size == 0)
		return 0;
	from_client = data[0] & 1;
	listen_to(&whole, from_client, data + 1, size - 1, size);
	listen_to(&cut, from_client, data + 1, size - 1, (size_t)(data[0] >> 1) + 1);
	assert(whole.len == cut.len);
	assert(memcmp(buf_str(&whole), buf_str(&cut), whole.len) == 0);
	return 0;
}
