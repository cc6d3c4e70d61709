/*
 * What a guest can send: the stream decoder and the parser of every payload the host reads.
 *
 * The first byte of the input chooses how the rest is used, because no fuzzer guesses a checksum:
 * as a raw stream in pieces; as frames that are encoded properly first; as one payload of any type.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/message.h"
#include "proto/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Touches every byte that the parser says there is. */
static void use(struct frame_slice s)
{
	volatile unsigned char sum = 0;

	for (size_t i = 0; i < s.len; i++)
		sum = (unsigned char)(sum + (unsigned char)s.data[i]);
}

static void parse(const struct proto_header *header, struct frame_reader payload)
{
	struct agent_message m;

	if (agent_message_parse(header, payload, &m) < 0)
		return;
	assert(m.type == header->type && m.handle == header->handle);
	if (m.type == PROTO_HELLO_ACK) {
		use(m.hello_ack.agent_version);
		use(m.hello_ack.kernel_release);
		use(m.hello_ack.os_name);
	} else if (m.type == PROTO_FAILED) {
		use(m.failed.message);
	} else if (m.type == PROTO_DATA) {
		assert(m.data.bytes.len > 0 && m.data.bytes.len <= PROTO_DATA_MAX);
		use(m.data.bytes);
	} else if (m.type == PROTO_TERMINALS) {
		struct frame_reader entries = {
			.data = (const uint8_t *)m.terminals.entries.data,
			.left = m.terminals.entries.len,
		};
		struct agent_terminal one;

		for (uint32_t i = 0; i < m.terminals.n; i++)
			agent_message_terminal(&entries, &one);
		assert(frame_done(&entries));
	} else if (m.type == PROTO_EXECS) {
		struct frame_reader entries = {
			.data = (const uint8_t *)m.execs.entries.data,
			.left = m.execs.entries.len,
		};
		struct agent_exec_info one;

		for (uint32_t i = 0; i < m.execs.n; i++)
			agent_message_exec(&entries, &one);
		assert(frame_done(&entries));
	} else if (m.type == PROTO_GAP) {
		assert(m.gap.from < m.gap.to);
	}
}

/* Takes what the decoder gives; the number of frames. */
static size_t drain(struct frame_decoder *d)
{
	enum frame_event event;
	size_t n = 0;

	while ((event = frame_next(d)) != FRAME_NEED_MORE) {
		assert(d->consumed <= d->in.len);
		if (event == FRAME_FRAME) {
			assert(d->header.length <= d->max_payload);
			parse(&d->header, d->payload);
			n++;
		}
	}
	assert(d->in.len - d->consumed < d->max_payload + sizeof(struct proto_header));
	return n;
}

/* Pieces of 1 to 256 bytes: the length of each stands before it. */
static void feed_raw(const uint8_t *data, size_t size)
{
	struct frame_decoder d;

	frame_decoder_init(&d, PROTO_TO_HOST_MAX);
	while (size > 0) {
		size_t piece = (size_t)data[0] + 1;

		data++;
		size--;
		if (piece > size)
			piece = size;
		frame_feed(&d, data, piece);
		drain(&d);
		data += piece;
		size -= piece;
	}
	frame_decoder_clear(&d);
}

/* Frames of a type byte, a handle byte, a length byte and so much payload: all must come through.
 */
static void feed_encoded(const uint8_t *data, size_t size)
{
	static const uint8_t nonce[PROTO_NONCE_LEN];
	struct buf stream = BUF_INIT;
	struct frame_decoder d;
	size_t n = 0;

	frame_put_marker(&stream, nonce);
	while (size >= 3) {
		size_t frame = frame_begin(&stream, data[0], 0, data[1]);
		size_t len = data[2] < size - 3 ? data[2] : size - 3;

		frame_put_bytes(&stream, data + 3, len);
		frame_end(&stream, frame);
		data += 3 + len;
		size -= 3 + len;
		n++;
	}
	frame_decoder_init(&d, PROTO_TO_HOST_MAX);
	frame_feed(&d, stream.data, stream.len);
	n -= drain(&d);
	assert(n == 0);
	frame_decoder_clear(&d);
	buf_clear(&stream);
}

static void parse_payload(const uint8_t *data, size_t size)
{
	struct proto_header header = { .magic = PROTO_MAGIC, .version = PROTO_VERSION };

	if (size == 0)
		return;
	header.type = data[0];
	header.length = (uint32_t)(size - 1);
	parse(&header, (struct frame_reader){ .data = data + 1, .left = size - 1 });
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	switch (data[0] % 3) {
	case 0:
		feed_raw(data + 1, size - 1);
		break;
	case 1:
		feed_encoded(data + 1, size - 1);
		break;
	default:
		parse_payload(data + 1, size - 1);
	}
	return 0;
}
