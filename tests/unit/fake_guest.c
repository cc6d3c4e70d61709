/* A guest played by a thread. See fake_guest.h. */
#include "fake_guest.h"

#include <string.h>
#include <sys/socket.h>

void peer_flush(struct peer *p)
{
	/* The channel may be closed on us at any time. */
	for (size_t sent = 0; sent < p->out.len;) {
		ssize_t n = send(p->fd, p->out.data + sent, p->out.len - sent, MSG_NOSIGNAL);

		if (n < 0)
			break;
		sent += (size_t)n;
	}
	buf_reset(&p->out);
}

/* The next event that the host causes; FRAME_NEED_MORE: it hung up. */
enum frame_event peer_next(struct peer *p)
{
	char chunk[4096];

	for (;;) {
		enum frame_event event = frame_next(&p->in);
		ssize_t n;

		if (event != FRAME_NEED_MORE)
			return event;
		n = recv(p->fd, chunk, sizeof(chunk), 0);
		if (n <= 0)
			return FRAME_NEED_MORE;
		frame_feed(&p->in, chunk, (size_t)n);
	}
}

/* Waits for a frame of a type; false when the host hung up. */
bool peer_expect(struct peer *p, uint8_t type)
{
	enum frame_event event;

	while ((event = peer_next(p)) != FRAME_NEED_MORE)
		if (event == FRAME_FRAME && p->in.header.type == type)
			return true;
	return false;
}

void peer_put_ack(struct peer *p, uint32_t applied)
{
	size_t frame = frame_begin(&p->out, PROTO_HELLO_ACK, 0, 0);

	frame_put_u32(&p->out, PROTO_VERSION);
	frame_put_u64(&p->out, 3);
	frame_put_u64(&p->out, 12345);
	frame_put_u32(&p->out, applied);
	frame_put_u64(&p->out, 500000);
	frame_put_string(&p->out, "9.9", 3);
	frame_put_string(&p->out, "6.1.0\n-test", 11);
	frame_put_string(&p->out, "Test OS", 7);
	frame_end(&p->out, frame);
}

void peer_accept(struct peer *p)
{
	p->fd = accept4(p->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(p->fd >= 0);
	frame_decoder_reset(&p->in);
}

/* Accepts and greets like a good guest. */
void peer_greet(struct peer *p)
{
	struct frame_slice s;

	peer_accept(p);
	assert_int_equal(peer_next(p), FRAME_MARKER);
	assert_int_equal(peer_next(p), FRAME_FRAME);
	assert_int_equal(p->in.header.type, PROTO_HELLO);
	p->hello_flags = p->in.header.flags;
	frame_get_bytes(&p->in.payload, 4 + 8 + 8 + PROTO_ENTROPY_LEN);
	s = frame_get_string(&p->in.payload, 63);
	snprintf(p->hostname, sizeof(p->hostname), "%.*s", (int)s.len, s.data);
	frame_get_string(&p->in.payload, 32);
	assert_true(frame_done(&p->in.payload));
	/* Old bytes of another session before the marker. */
	buf_append_str(&p->out, "left over from before ");
	frame_put_marker(&p->out, (const uint8_t *)"another nonce!!!");
	peer_put_ack(p, 0);
	frame_put_marker(&p->out, p->in.nonce);
	peer_put_ack(p, PROTO_APPLIED_ALL);
	peer_flush(p);
}

void *peer_thread(void *arg)
{
	struct peer *p = arg;

	p->script(p);
	if (p->fd >= 0)
		close(p->fd);
	return NULL;
}

/* ---- what it says about a handle ---- */

void peer_put_started(struct peer *p, uint32_t handle)
{
	size_t frame = frame_begin(&p->out, PROTO_STARTED, 0, handle);

	frame_put_u32(&p->out, 77);
	frame_end(&p->out, frame);
}

void peer_put_data(struct peer *p, uint32_t handle, uint64_t offset, size_t len)
{
	size_t frame = frame_begin(&p->out, PROTO_DATA, 0, handle);

	frame_put_u8(&p->out, PROTO_STDOUT);
	frame_put_u64(&p->out, offset);
	for (size_t i = 0; i < len; i++)
		frame_put_u8(&p->out, 'd');
	frame_end(&p->out, frame);
}

void peer_put_position(struct peer *p, uint8_t type, uint32_t handle, uint64_t offset)
{
	size_t frame = frame_begin(&p->out, type, 0, handle);

	frame_put_u8(&p->out, PROTO_STDOUT);
	frame_put_u64(&p->out, offset);
	frame_end(&p->out, frame);
}

void peer_put_exit(struct peer *p, uint32_t handle)
{
	size_t frame = frame_begin(&p->out, PROTO_EXIT, 0, handle);

	frame_put_u32(&p->out, UINT32_MAX);
	frame_put_u32(&p->out, 9);
	frame_put_u32(&p->out, PROTO_EXIT_TIMED_OUT);
	frame_put_u64(&p->out, 250);
	frame_put_u64(&p->out, 8);
	frame_put_u64(&p->out, 0);
	frame_end(&p->out, frame);
}

/* Answers pings and takes everything else until the host hangs up. */
void peer_be_quiet(struct peer *p)
{
	while (peer_expect(p, PROTO_PING)) {
		uint64_t token = frame_get_u64(&p->in.payload);
		size_t frame = frame_begin(&p->out, PROTO_PONG, 0, 0);

		frame_put_u64(&p->out, token);
		frame_end(&p->out, frame);
		peer_flush(p);
	}
}

void peer_put_gap(struct peer *p, uint32_t handle, uint64_t from, uint64_t to)
{
	size_t frame = frame_begin(&p->out, PROTO_GAP, 0, handle);

	frame_put_u8(&p->out, PROTO_STDOUT);
	frame_put_u64(&p->out, from);
	frame_put_u64(&p->out, to);
	frame_end(&p->out, frame);
}
