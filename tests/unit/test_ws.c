/* WebSocket frames: the examples of RFC 6455, what is refused, and streams cut anywhere. */
#include "unit.h"

#include <string.h>

#include "base/str.h"
#include "base/ws.h"

#define TEXT_MAX 1024

static const uint8_t mask_of_rfc[WS_MASK_LEN] = { 0x37, 0xfa, 0x21, 0x3d };

/* What came of a stream, as one line: "text:Hello binary:3 close:1000". */
struct heard {
	struct buf line;
	struct buf bytes;
	uint64_t pieces;
};

static void hear(struct heard *h, const struct ws_decoder *d, enum ws_event event)
{
	switch (event) {
	case WS_EV_BINARY:
		h->pieces++;
		buf_append(&h->bytes, d->piece, d->piece_len);
		break;
	case WS_EV_TEXT:
		buf_printf(&h->line, "text:%s ", buf_str(&d->text));
		break;
	case WS_EV_PING:
		buf_printf(&h->line, "ping:%.*s ", (int)d->control_len, (const char *)d->control);
		break;
	case WS_EV_PONG:
		buf_printf(&h->line, "pong:%.*s ", (int)d->control_len, (const char *)d->control);
		break;
	case WS_EV_CLOSE:
		buf_printf(&h->line, "close:%u ", d->code);
		break;
	case WS_EV_BAD:
		assert_non_null(d->why);
		buf_printf(&h->line, "bad:%u ", d->code);
		break;
	case WS_EV_MORE:
		break;
	}
}

/* Feeds it in pieces of step bytes. */
static void listen_to(struct heard *h, bool from_client, const void *data, size_t len, size_t step)
{
	_cleanup_buf_ struct buf copy = BUF_INIT;
	struct ws_decoder d;

	*h = (struct heard){ 0 };
	ws_decoder_init(&d, from_client, TEXT_MAX);
	buf_append(&copy, data, len);
	for (size_t at = 0; at < len; at += step) {
		uint8_t *piece = (uint8_t *)copy.data + at;
		size_t left = len - at < step ? len - at : step, used;
		enum ws_event event;

		do {
			event = ws_next(&d, piece, left, &used);
			assert_true(used <= left);
			hear(h, &d, event);
			piece += used;
			left -= used;
		} while (event != WS_EV_MORE);
		assert_int_equal(left, 0);
	}
	ws_decoder_clear(&d);
}

static void heard_clear(struct heard *h)
{
	buf_clear(&h->line);
	buf_clear(&h->bytes);
}

static void expect(bool from_client, const void *data, size_t len, const char *line)
{
	for (size_t step = 1; step <= len; step++) {
		struct heard h;

		listen_to(&h, from_client, data, len, step);
		assert_string_equal(buf_str(&h.line), line);
		heard_clear(&h);
	}
}

#define EXPECT(from_client, bytes, line) expect(from_client, bytes, sizeof(bytes) - 1, line)

/* RFC 6455, 5.7 */
static void test_examples(void **state)
{
	EXPECT(false, "\x81\x05\x48\x65\x6c\x6c\x6f", "text:Hello ");
	EXPECT(true, "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", "text:Hello ");
	EXPECT(false, "\x01\x03\x48\x65\x6c\x80\x02\x6c\x6f", "text:Hello ");
	EXPECT(false, "\x89\x05\x48\x65\x6c\x6c\x6f", "ping:Hello ");
	EXPECT(true, "\x8a\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", "pong:Hello ");
}

static void test_control_between_fragments(void **state)
{
	EXPECT(false, "\x01\x03Hel\x89\x01!\x00\x01l\x8a\x00\x80\x01o", "ping:! pong: text:Hello ");
}

static void test_close(void **state)
{
	EXPECT(false, "\x88\x00\x81\x01x", "close:1005 ");
	EXPECT(false, "\x88\x02\x03\xe8", "close:1000 ");
	EXPECT(false,
	       "\x88\x05\x0f\xa1"
	       "abc",
	       "close:4001 ");
	EXPECT(false, "\x88\x01\x03", "bad:1002 ");
	EXPECT(false, "\x88\x02\x03\xed", "bad:1002 "); /* 1005 is never sent */
	EXPECT(false, "\x88\x02\x00\x01", "bad:1002 ");
	EXPECT(false, "\x88\x02\x13\x88", "bad:1002 "); /* 5000 */
	EXPECT(false, "\x88\x03\x03\xe8\xff", "bad:1007 ");
}

static void test_refused(void **state)
{
	EXPECT(false, "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58", "bad:1002 "); /* masked */
	EXPECT(true, "\x81\x05\x48\x65\x6c\x6c\x6f", "bad:1002 ");		    /* not masked */
	EXPECT(false, "\xc1\x01x", "bad:1002 "); /* reserved bit */
	EXPECT(false, "\x83\x01x", "bad:1002 "); /* unknown opcode */
	EXPECT(false, "\x8b\x01x", "bad:1002 ");
	EXPECT(false, "\x80\x01x", "bad:1002 ");	  /* continues nothing */
	EXPECT(false, "\x01\x01x\x81\x01y", "bad:1002 "); /* a message within a message */
	EXPECT(false, "\x09\x01x", "bad:1002 ");	  /* a ping in pieces */
	EXPECT(false, "\x89\x7e\x00\x7e", "bad:1002 ");	  /* a long ping */
	EXPECT(false, "\x82\x7e\x00\x7d", "bad:1002 ");	  /* not the shortest length */
	EXPECT(false, "\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff", "bad:1002 ");
	EXPECT(false, "\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00", "bad:1002 ");
	EXPECT(false, "\x81\x02\xc3\x28", "bad:1007 ");
	/* A character may be cut by fragments, but not by the message's end. */
	EXPECT(false, "\x01\x01\xc3\x80\x01\xa9", "text:\xc3\xa9 ");
	EXPECT(false, "\x81\x01\xc3", "bad:1007 ");
}

static void test_text_has_a_cap(void **state)
{
	static uint8_t frame[4 + TEXT_MAX + 1] = { 0x81, 0x7e, TEXT_MAX >> 8, TEXT_MAX & 0xff };
	struct heard h;

	memset(frame + 4, 'x', TEXT_MAX + 1);
	listen_to(&h, false, frame, 4 + TEXT_MAX, 100);
	assert_int_equal(h.line.len, strlen("text:") + TEXT_MAX + 1);
	heard_clear(&h);
	frame[3]++;
	listen_to(&h, false, frame, sizeof(frame), 100);
	assert_string_equal(buf_str(&h.line), "bad:1009 ");
	heard_clear(&h);
}

/* Every length around where the head changes, masked and plain, there and back. */
static void test_lengths(void **state)
{
	static const size_t lengths[] = { 0, 1, 125, 126, 127, 65535, 65536, 70000 };

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		for (int masked = 0; masked < 2; masked++) {
			_cleanup_buf_ struct buf frame = BUF_INIT, bytes = BUF_INIT;
			struct heard h;

			for (size_t k = 0; k < lengths[i]; k++)
				buf_append_char(&bytes, (char)(k * 7));
			ws_put_frame(&frame, WS_BINARY, bytes.data, bytes.len,
				     masked ? mask_of_rfc : NULL);
			assert_int_equal(frame.len, lengths[i] + 2 +
							    (lengths[i] > 65535 ? 8u
							     : lengths[i] > 125 ? 2u
										: 0u) +
							    (masked ? WS_MASK_LEN : 0));
			listen_to(&h, masked, frame.data, frame.len, 997);
			assert_int_equal(h.bytes.len, bytes.len);
			assert_memory_equal(buf_str(&h.bytes), buf_str(&bytes), bytes.len);
			assert_int_equal(h.line.len, 0);
			heard_clear(&h);
		}
	}
}

/* Handed out as it comes: the end of a message of 4 GiB is not waited for. */
static void test_binary_is_not_gathered(void **state)
{
	static const uint8_t head[] = { 0x82, 0x7f, 0, 0, 0, 1, 0, 0, 0, 0, 'a', 'b', 'c' };
	struct heard h;

	listen_to(&h, false, head, sizeof(head), sizeof(head));
	assert_int_equal(h.pieces, 1);
	assert_memory_equal(h.bytes.data, "abc", 3);
	heard_clear(&h);
}

static void test_put_close(void **state)
{
	_cleanup_buf_ struct buf frame = BUF_INIT;
	char reason[300];

	memset(reason, 'r', sizeof(reason) - 1);
	reason[sizeof(reason) - 1] = '\0';
	ws_put_close(&frame, 4001, reason, NULL);
	assert_int_equal(frame.len, 2 + WS_CONTROL_MAX);
	expect(false, frame.data, frame.len, "close:4001 ");
	buf_reset(&frame);
	ws_put_close(&frame, WS_CODE_NORMAL, "", mask_of_rfc);
	expect(true, frame.data, frame.len, "close:1000 ");
}

/* RFC 6455, 1.3 */
static void test_handshake(void **state)
{
	char key[WS_KEY_SIZE], other[WS_KEY_SIZE], accept[WS_ACCEPT_SIZE];

	ws_accept_make("dGhlIHNhbXBsZSBub25jZQ==", accept);
	assert_string_equal(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
	ws_key_make(key);
	ws_key_make(other);
	assert_true(ws_key_valid(key));
	assert_string_not_equal(key, other);
	assert_true(ws_key_valid("dGhlIHNhbXBsZSBub25jZQ=="));
	assert_false(ws_key_valid(""));
	assert_false(ws_key_valid("dGhlIHNhbXBsZSBub25jZQ"));
	assert_false(ws_key_valid("dGhlIHNhbXBsZSBub25jZSEhISEh"));
	assert_false(ws_key_valid("c2hvcnQ="));
}

static void test_lists(void **state)
{
	assert_true(ws_list_has("keep-alive, Upgrade", "upgrade"));
	assert_true(ws_list_has(",, a ,\tb", "B"));
	assert_false(ws_list_has("upgraded", "upgrade"));
	assert_false(ws_list_has("", "upgrade"));
	assert_false(ws_list_has(NULL, "upgrade"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_examples),
		cmocka_unit_test(test_control_between_fragments),
		cmocka_unit_test(test_close),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_text_has_a_cap),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_binary_is_not_gathered),
		cmocka_unit_test(test_put_close),
		cmocka_unit_test(test_handshake),
		cmocka_unit_test(test_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
