/* Frames: what is written is read, however the stream is cut, and nothing else is taken for a
 * frame. */
#include "unit.h"

#include <string.h>

#include "proto/frame.h"

#define MAX 1024u

static const uint8_t nonce[PROTO_NONCE_LEN] = "0123456789abcde";

/* Two frames of a session, a marker before them. */
static void write_session(struct buf *out)
{
	size_t frame;

	frame_put_marker(out, nonce);
	frame = frame_begin(out, PROTO_DATA, 0x1234, 0xdeadbeef);
	frame_put_u8(out, 7);
	frame_put_u32(out, 0x01020304);
	frame_put_u64(out, 0x1122334455667788);
	frame_put_string(out, "a\0b", 3);
	frame_put_bytes(out, "rest", 4);
	frame_end(out, frame);
	frame_end(out, frame_begin(out, PROTO_PING, 0, 1));
}

static void assert_first_frame(struct frame_decoder *d)
{
	struct frame_reader *r = &d->payload;
	struct frame_slice s;

	assert_int_equal(d->header.type, PROTO_DATA);
	assert_int_equal(d->header.flags, 0x1234);
	assert_int_equal(d->header.handle, 0xdeadbeef);
	assert_int_equal(frame_get_u8(r), 7);
	assert_int_equal(frame_get_u32(r), 0x01020304);
	assert_true(frame_get_u64(r) == 0x1122334455667788);
	s = frame_get_string(r, 3);
	assert_int_equal(s.len, 3);
	assert_memory_equal(s.data, "a\0b", 3);
	s = frame_get_rest(r);
	assert_int_equal(s.len, 4);
	assert_memory_equal(s.data, "rest", 4);
	assert_true(frame_done(r));
}

/* Takes the events of write_session's stream, fed in two parts. */
static void decode_split(const struct buf *stream, size_t at)
{
	struct frame_decoder d;
	const size_t parts[] = { at, stream->len - at };
	const char *data = stream->data;
	int events = 0;

	frame_decoder_init(&d, MAX);
	for (int i = 0; i < 2; i++) {
		enum frame_event event;

		frame_feed(&d, data, parts[i]);
		data += parts[i];
		while ((event = frame_next(&d)) != FRAME_NEED_MORE) {
			switch (events++) {
			case 0:
				assert_int_equal(event, FRAME_MARKER);
				assert_memory_equal(d.nonce, nonce, sizeof(nonce));
				break;
			case 1:
				assert_int_equal(event, FRAME_FRAME);
				assert_first_frame(&d);
				break;
			default:
				assert_int_equal(event, FRAME_FRAME);
				assert_int_equal(d.header.type, PROTO_PING);
				assert_int_equal(d.header.length, 0);
			}
		}
	}
	assert_int_equal(events, 3);
	frame_decoder_clear(&d);
}

static void test_split_at_every_byte(void **state)
{
	_cleanup_buf_ struct buf stream = BUF_INIT;

	write_session(&stream);
	for (size_t at = 0; at <= stream.len; at++)
		decode_split(&stream, at);
}

static void test_byte_by_byte(void **state)
{
	_cleanup_buf_ struct buf stream = BUF_INIT;
	struct frame_decoder d;
	int events = 0;

	write_session(&stream);
	frame_decoder_init(&d, MAX);
	for (size_t i = 0; i < stream.len; i++) {
		frame_feed(&d, stream.data + i, 1);
		while (frame_next(&d) != FRAME_NEED_MORE)
			events++;
	}
	assert_int_equal(events, 3);
	frame_decoder_clear(&d);
}

static void test_garbage_before_the_marker(void **state)
{
	_cleanup_buf_ struct buf stream = BUF_INIT;
	struct frame_decoder d;
	size_t frame;

	/* Beginnings of markers and whole frames included: they belong to another session. */
	buf_append(&stream, PROTO_MARKER, PROTO_MARKER_LEN - 1);
	frame = frame_begin(&stream, PROTO_PING, 0, 0);
	frame_end(&stream, frame);
	for (int i = 0; i < 100000; i++)
		buf_append_char(&stream, (char)(i * 31));
	frame_decoder_init(&d, MAX);
	frame_feed(&d, stream.data, stream.len);
	assert_int_equal(frame_next(&d), FRAME_NEED_MORE);
	/* Nothing but a possible beginning of a marker is kept. */
	assert_true(d.in.len - d.consumed < PROTO_MARKER_LEN);
	buf_reset(&stream);
	write_session(&stream);
	frame_feed(&d, stream.data, stream.len);
	assert_int_equal(frame_next(&d), FRAME_MARKER);
	assert_int_equal(frame_next(&d), FRAME_FRAME);
	assert_first_frame(&d);
	frame_decoder_clear(&d);
}

/* A decoder in frame mode, with `broken` fed to it. */
static void feed_after_marker(struct frame_decoder *d, const struct buf *broken)
{
	_cleanup_buf_ struct buf stream = BUF_INIT;

	frame_decoder_init(d, MAX);
	frame_put_marker(&stream, nonce);
	buf_append(&stream, broken->data, broken->len);
	frame_feed(d, stream.data, stream.len);
	assert_int_equal(frame_next(d), FRAME_MARKER);
}

static void assert_lost_then_found(struct frame_decoder *d)
{
	_cleanup_buf_ struct buf stream = BUF_INIT;

	assert_int_equal(frame_next(d), FRAME_LOST);
	assert_int_equal(frame_next(d), FRAME_NEED_MORE);
	write_session(&stream);
	frame_feed(d, stream.data, stream.len);
	assert_int_equal(frame_next(d), FRAME_MARKER);
	assert_int_equal(frame_next(d), FRAME_FRAME);
	assert_first_frame(d);
	frame_decoder_clear(d);
}

static void test_oversized_length(void **state)
{
	_cleanup_buf_ struct buf broken = BUF_INIT;
	struct frame_decoder d;
	size_t frame = frame_begin(&broken, PROTO_DATA, 0, 1);

	/* Refused by its header already, before the payload is there. */
	frame_end(&broken, frame);
	memcpy(broken.data + 12, "\xff\xff\xff\xff", 4);
	feed_after_marker(&d, &broken);
	assert_lost_then_found(&d);
}

static void test_just_over_the_limit(void **state)
{
	for (uint32_t len = MAX; len <= MAX + 1; len++) {
		_cleanup_buf_ struct buf b = BUF_INIT;
		struct frame_decoder d;
		size_t frame = frame_begin(&b, PROTO_DATA, 0, 1);

		for (uint32_t i = 0; i < len; i++)
			frame_put_u8(&b, 'x');
		frame_end(&b, frame);
		feed_after_marker(&d, &b);
		assert_int_equal(frame_next(&d), len == MAX ? FRAME_FRAME : FRAME_LOST);
		frame_decoder_clear(&d);
	}
}

/* Every bit of a frame counts. */
static void test_every_flipped_bit_is_noticed(void **state)
{
	_cleanup_buf_ struct buf good = BUF_INIT;
	size_t frame = frame_begin(&good, PROTO_DATA, 1, 2);

	frame_put_string(&good, "payload of some length", 22);
	frame_end(&good, frame);
	for (size_t bit = 0; bit < good.len * 8; bit++) {
		struct frame_decoder d;
		char padding[MAX] = { 0 };

		good.data[bit / 8] ^= (char)(1 << bit % 8);
		feed_after_marker(&d, &good);
		frame_feed(&d, padding, sizeof(padding));
		assert_int_equal(frame_next(&d), FRAME_LOST);
		frame_decoder_clear(&d);
		good.data[bit / 8] ^= (char)(1 << bit % 8);
	}
}

/* What a new session's marker does to a frame that was cut off: it completes it. The frame must not
 * count, and the marker inside must not be missed. */
static void test_marker_completes_a_half_frame(void **state)
{
	_cleanup_buf_ struct buf half = BUF_INIT;
	_cleanup_buf_ struct buf next = BUF_INIT;
	size_t frame = frame_begin(&half, PROTO_INPUT, 0, 1);
	struct frame_decoder d;

	for (int i = 0; i < 200; i++)
		frame_put_u8(&half, 'x');
	frame_end(&half, frame);
	half.len -= 90;
	feed_after_marker(&d, &half);
	assert_int_equal(frame_next(&d), FRAME_NEED_MORE);
	write_session(&next);
	assert_true(next.len > 90);
	frame_feed(&d, next.data, next.len);
	assert_int_equal(frame_next(&d), FRAME_LOST);
	assert_int_equal(frame_next(&d), FRAME_MARKER);
	assert_int_equal(frame_next(&d), FRAME_FRAME);
	assert_first_frame(&d);
	frame_decoder_clear(&d);
}

static void test_marker_where_a_header_is_expected(void **state)
{
	_cleanup_buf_ struct buf stream = BUF_INIT;
	struct frame_decoder d;

	write_session(&stream);
	write_session(&stream);
	frame_decoder_init(&d, MAX);
	frame_feed(&d, stream.data, stream.len);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(frame_next(&d), FRAME_MARKER);
		assert_int_equal(frame_next(&d), FRAME_FRAME);
		assert_int_equal(frame_next(&d), FRAME_FRAME);
	}
	assert_int_equal(frame_next(&d), FRAME_NEED_MORE);
	frame_decoder_clear(&d);
}

static void test_marker_inside_a_payload_is_data(void **state)
{
	_cleanup_buf_ struct buf stream = BUF_INIT;
	size_t frame = frame_begin(&stream, PROTO_DATA, 0, 1);
	struct frame_decoder d;
	struct frame_slice s;

	frame_put_marker(&stream, nonce);
	frame_end(&stream, frame);
	feed_after_marker(&d, &stream);
	assert_int_equal(frame_next(&d), FRAME_FRAME);
	s = frame_get_rest(&d.payload);
	assert_int_equal(s.len, PROTO_MARKER_LEN + PROTO_NONCE_LEN);
	assert_int_equal(frame_next(&d), FRAME_NEED_MORE);
	frame_decoder_clear(&d);
}

static void test_reset_and_search(void **state)
{
	_cleanup_buf_ struct buf stream = BUF_INIT;
	struct frame_decoder d;

	write_session(&stream);
	frame_decoder_init(&d, MAX);
	frame_feed(&d, stream.data, stream.len);
	assert_int_equal(frame_next(&d), FRAME_MARKER);
	frame_decoder_search(&d); /* not ours: its frames are skipped */
	assert_int_equal(frame_next(&d), FRAME_NEED_MORE);
	frame_feed(&d, stream.data, stream.len - 3);
	frame_decoder_reset(&d); /* hung up */
	frame_feed(&d, stream.data, stream.len);
	assert_int_equal(frame_next(&d), FRAME_MARKER);
	assert_int_equal(frame_next(&d), FRAME_FRAME);
	assert_first_frame(&d);
	frame_decoder_clear(&d);
}

static void test_reader_goes_bad_once(void **state)
{
	const uint8_t data[] = { 5, 0, 0, 0, 'a', 'b' };
	struct frame_reader r = { .data = data, .left = sizeof(data) };

	assert_int_equal(frame_get_string(&r, 100).len, 0); /* says five, has two */
	assert_true(r.bad);
	assert_int_equal(frame_get_u8(&r), 0);
	assert_int_equal(frame_get_rest(&r).len, 0);
	assert_false(frame_done(&r));
	r = (struct frame_reader){ .data = data, .left = sizeof(data) };
	assert_int_equal(frame_get_string(&r, 4).len, 0); /* longer than allowed */
	assert_true(r.bad);
	r = (struct frame_reader){ .data = data, .left = 3 };
	assert_int_equal(frame_get_u32(&r), 0);
	assert_true(r.bad);
	r = (struct frame_reader){ .data = data, .left = 2 };
	frame_get_u8(&r);
	assert_false(frame_done(&r)); /* something is left */
	frame_get_u8(&r);
	assert_true(frame_done(&r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split_at_every_byte),
		cmocka_unit_test(test_byte_by_byte),
		cmocka_unit_test(test_garbage_before_the_marker),
		cmocka_unit_test(test_oversized_length),
		cmocka_unit_test(test_just_over_the_limit),
		cmocka_unit_test(test_every_flipped_bit_is_noticed),
		cmocka_unit_test(test_marker_completes_a_half_frame),
		cmocka_unit_test(test_marker_where_a_header_is_expected),
		cmocka_unit_test(test_marker_inside_a_payload_is_data),
		cmocka_unit_test(test_reset_and_search),
		cmocka_unit_test(test_reader_goes_bad_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
