/*
 * A guest in the hands of an attacker: the real one, linked with one function of its own in
 * between, until it is given a name that begins with "evil-". From then on what follows that in its
 * name says what it does in place of the agent, with the port to the host all to itself.
 *
 * It greets like a good guest (but for the deeds of greeting), takes every new channel, and does
 * its deed to whatever command it is asked to run or to look at, or operation on files to do. So a
 * template made by it is a good one, and a daemon can have good and evil sandboxes beside each
 * other.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/rand.h"
#include "base/str.h"
#include "guest/guest.h"
#include "proto/file.h"

#define NAME_PREFIX "evil-"

/* By the linker: the one of requests.c, and the one that is called in its place. */
bool __real_session_handle(struct session *s, const struct proto_header *header,
			   struct frame_reader *payload);
bool __wrap_session_handle(struct session *s, const struct proto_header *header,
			   struct frame_reader *payload);

struct evil {
	int port;
	struct frame_decoder in;
	const struct deed *deed;
	uint64_t epoch; /* as the host said, as it wants it back */
};

/* The deeds: at the greeting, or to a command. */
struct deed {
	const char *name;
	void (*greet)(struct evil *evil, const uint8_t nonce[PROTO_NONCE_LEN]);
	void (*command)(struct evil *evil, uint32_t handle);
};

/* ---- the port ---- */

/* False when the host has hung up. */
static bool say(struct evil *evil, const void *data, size_t len)
{
	const char *at = data;

	while (len > 0) {
		ssize_t n = write(evil->port, at, len);

		struct pollfd p = { .fd = evil->port, .events = POLLOUT };

		if (n > 0) {
			at += n;
			len -= (size_t)n;
		} else if (poll(&p, 1, 1000) > 0 && (p.revents & POLLHUP)) {
			return false;
		}
	}
	return true;
}

static bool send_out(struct evil *evil, struct buf *out)
{
	bool there = say(evil, out->data, out->len);

	buf_clear(out);
	return there;
}

static bool send_frame(struct evil *evil, uint8_t type, uint32_t handle, const void *payload,
		       size_t len)
{
	struct buf out = BUF_INIT;
	size_t frame = frame_begin(&out, type, 0, handle);

	frame_put_bytes(&out, payload, len);
	frame_end(&out, frame);
	return send_out(evil, &out);
}

static bool send_started(struct evil *evil, uint32_t handle)
{
	const uint32_t pid = 1;

	return send_frame(evil, PROTO_STARTED, handle, &pid, sizeof(pid));
}

static bool send_data(struct evil *evil, uint32_t handle, uint64_t offset, size_t len)
{
	static const char junk[PROTO_DATA_MAX];
	struct buf out = BUF_INIT;
	size_t frame = frame_begin(&out, PROTO_DATA, 0, handle);

	frame_put_u8(&out, PROTO_STDOUT);
	frame_put_u64(&out, offset);
	frame_put_bytes(&out, junk, len);
	frame_end(&out, frame);
	return send_out(evil, &out);
}

static bool send_exit(struct evil *evil, uint32_t handle, uint64_t duration_ms, uint64_t total)
{
	struct buf out = BUF_INIT;
	size_t frame = frame_begin(&out, PROTO_EXIT, 0, handle);

	frame_put_u32(&out, 0); /* exit code */
	frame_put_u32(&out, 0); /* signal */
	frame_put_u32(&out, UINT32_MAX);
	frame_put_u64(&out, duration_ms);
	frame_put_u64(&out, total);
	frame_put_u64(&out, total);
	frame_end(&out, frame);
	return send_out(evil, &out);
}

static void put_ack(struct buf *out, uint64_t epoch, uint32_t applied, size_t text_len)
{
	size_t frame = frame_begin(out, PROTO_HELLO_ACK, 0, 0);
	struct buf text = BUF_INIT;

	for (size_t i = 0; i < text_len; i++)
		buf_append_char(&text, (char)i);
	frame_put_u32(out, PROTO_VERSION);
	frame_put_u64(out, epoch);
	frame_put_u64(out, 0);
	frame_put_u32(out, applied);
	frame_put_u64(out, UINT64_MAX);
	for (int i = 0; i < 3; i++)
		frame_put_string(out, text.data, text.len);
	frame_end(out, frame);
	buf_clear(&text);
}

static void greet_well(struct evil *evil, const uint8_t nonce[PROTO_NONCE_LEN])
{
	struct buf out = BUF_INIT;

	frame_put_marker(&out, nonce);
	put_ack(&out, evil->epoch, PROTO_APPLIED_ALL, 5);
	send_out(evil, &out);
}

/* ---- deeds at the greeting ---- */

static void greet_not(struct evil *evil, const uint8_t nonce[PROTO_NONCE_LEN])
{
}

static void greet_with_noise(struct evil *evil, const uint8_t nonce[PROTO_NONCE_LEN])
{
	char noise[4096];

	do
		rand_bytes(noise, sizeof(noise));
	while (say(evil, noise, sizeof(noise)));
}

/* The host is not who it was told to be. */
static void greet_with_a_lie(struct evil *evil, const uint8_t nonce[PROTO_NONCE_LEN])
{
	struct buf out = BUF_INIT;

	frame_put_marker(&out, nonce);
	put_ack(&out, evil->epoch, 0, 5);
	send_out(evil, &out);
}

static void greet_at_length(struct evil *evil, const uint8_t nonce[PROTO_NONCE_LEN])
{
	struct buf out = BUF_INIT;

	frame_put_marker(&out, nonce);
	put_ack(&out, evil->epoch, PROTO_APPLIED_ALL, 20000);
	send_out(evil, &out);
}

static void greet_for_ever(struct evil *evil, const uint8_t nonce[PROTO_NONCE_LEN])
{
	const uint8_t another[PROTO_NONCE_LEN] = { 0 };
	struct buf out = BUF_INIT;

	do
		frame_put_marker(&out, another);
	while (send_out(evil, &out));
}

/* ---- deeds to commands ---- */

static void say_nothing(struct evil *evil, uint32_t handle)
{
}

static void start_and_say_nothing(struct evil *evil, uint32_t handle)
{
	send_started(evil, handle);
}

/* A frame that claims to be as long as a length can be. */
static void claim_a_length(struct evil *evil, uint32_t handle)
{
	const struct proto_header header = {
		.magic = PROTO_MAGIC,
		.version = PROTO_VERSION,
		.type = PROTO_DATA,
		.handle = handle,
		.length = UINT32_MAX,
	};
	static const char zeros[1024 * 1024];

	if (say(evil, &header, sizeof(header)))
		say(evil, zeros, sizeof(zeros));
}

static void use_foreign_handles(struct evil *evil, uint32_t handle)
{
	const uint32_t foreign[] = { 0, handle + 1, handle ^ 0x400, 1, UINT32_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(foreign); i++)
		if (!send_started(evil, foreign[i]) || !send_data(evil, foreign[i], 0, 100) ||
		    !send_exit(evil, foreign[i], 0, 0))
			return;
}

static void flood(struct evil *evil, uint32_t handle)
{
	uint64_t offset = 0;

	if (!send_started(evil, handle))
		return;
	while (send_data(evil, handle, offset, PROTO_DATA_MAX))
		offset += PROTO_DATA_MAX;
}

static void flood_with_pongs(struct evil *evil, uint32_t handle)
{
	const uint64_t token = 1;

	while (send_frame(evil, PROTO_PONG, 0, &token, sizeof(token)))
		;
}

static void make_noise(struct evil *evil, uint32_t handle)
{
	if (send_started(evil, handle))
		greet_with_noise(evil, NULL);
}

static void begin_anew(struct evil *evil, uint32_t handle)
{
	const uint8_t nonce[PROTO_NONCE_LEN] = { 1 };

	if (send_started(evil, handle))
		greet_well(evil, nonce);
}

/* It ran for longer than the world is old. */
static void boast(struct evil *evil, uint32_t handle)
{
	if (send_started(evil, handle))
		send_exit(evil, handle, INT64_MAX, 0);
}

/* It has written more than there is, of which nothing comes. */
static void promise(struct evil *evil, uint32_t handle)
{
	if (send_started(evil, handle))
		send_exit(evil, handle, 0, INT64_MAX);
}

static void count_beyond(struct evil *evil, uint32_t handle)
{
	if (send_started(evil, handle))
		send_exit(evil, handle, UINT64_MAX, UINT64_MAX);
}

static void fail_in_a_foreign_tongue(struct evil *evil, uint32_t handle)
{
	char noise[4096];
	struct buf out = BUF_INIT;
	size_t frame = frame_begin(&out, PROTO_FAILED, 0, handle);

	memset(noise, 0xff, sizeof(noise));
	frame_put_u32(&out, UINT32_MAX);
	frame_put_string(&out, noise, sizeof(noise));
	frame_end(&out, frame);
	send_out(evil, &out);
}

static void start_and_read_nothing(struct evil *evil, uint32_t handle)
{
	send_started(evil, handle);
	for (;;)
		pause();
}

static void lose_the_stream(struct evil *evil, uint32_t handle)
{
	send_frame(evil, PROTO_LOST, 0, NULL, 0);
}

/* ---- to operations on files ---- */

static bool send_bytes(struct evil *evil, uint32_t handle, int stream, uint64_t offset,
		       const struct buf *bytes)
{
	struct buf out = BUF_INIT;
	size_t frame = frame_begin(&out, PROTO_DATA, 0, handle);

	frame_put_u8(&out, (uint8_t)stream);
	frame_put_u64(&out, offset);
	frame_put_bytes(&out, bytes->data, bytes->len);
	frame_end(&out, frame);
	return send_out(evil, &out);
}

/* Begins as a good guest does, with a file of this size. */
static uint64_t tell_of_a_file(struct evil *evil, uint32_t handle, uint64_t size)
{
	const struct file_record record = {
		.kind = FILE_RECORD_ENTRY,
		.entry = { .type = FILE_REGULAR,
			   .size = size,
			   .mtime_ns = INT64_MAX,
			   .user = { "a\r\nX-Evil: 1", 12 },
			   .group = { "\xff", 1 } },
	};
	struct buf bytes = BUF_INIT;
	uint64_t len;

	file_record_put(&bytes, &record);
	len = bytes.len;
	send_started(evil, handle);
	send_bytes(evil, handle, PROTO_STDOUT, 0, &bytes);
	buf_clear(&bytes);
	return len;
}

static void send_more_of_a_file(struct evil *evil, uint32_t handle)
{
	send_data(evil, handle, tell_of_a_file(evil, handle, 5), 100);
}

static void send_less_of_a_file(struct evil *evil, uint32_t handle)
{
	uint64_t len = tell_of_a_file(evil, handle, 1000);

	send_data(evil, handle, len, 10);
	send_exit(evil, handle, 0, len + 10);
}

static void send_half_a_record(struct evil *evil, uint32_t handle)
{
	struct buf bytes = BUF_INIT;

	frame_put_u32(&bytes, UINT32_MAX);
	send_started(evil, handle);
	send_bytes(evil, handle, PROTO_STDOUT, 0, &bytes);
	buf_clear(&bytes);
}

static void fail_without_words(struct evil *evil, uint32_t handle)
{
	struct buf bytes = BUF_INIT;

	frame_put_u32(&bytes, UINT32_MAX);
	frame_put_string(&bytes, "\x1b[2J\xff", 5);
	send_started(evil, handle);
	send_bytes(evil, handle, PROTO_STDERR, 0, &bytes);
	send_exit(evil, handle, 0, 0);
	buf_clear(&bytes);
}

static void end_without_an_answer(struct evil *evil, uint32_t handle)
{
	send_started(evil, handle);
	send_exit(evil, handle, 0, 0);
}

static const struct deed deeds[] = {
	{ "silence", .greet = greet_not },
	{ "noise", .greet = greet_with_noise },
	{ "lie", .greet = greet_with_a_lie },
	{ "length", .greet = greet_at_length },
	{ "markers", .greet = greet_for_ever },
	{ "mute", .command = say_nothing },
	{ "started", .command = start_and_say_nothing },
	{ "deaf", .command = start_and_read_nothing },
	{ "claim", .command = claim_a_length },
	{ "handles", .command = use_foreign_handles },
	{ "flood", .command = flood },
	{ "pongs", .command = flood_with_pongs },
	{ "garbage", .command = make_noise },
	{ "anew", .command = begin_anew },
	{ "boast", .command = boast },
	{ "promise", .command = promise },
	{ "beyond", .command = count_beyond },
	{ "tongue", .command = fail_in_a_foreign_tongue },
	{ "lost", .command = lose_the_stream },
	{ "more", .command = send_more_of_a_file },
	{ "less", .command = send_less_of_a_file },
	{ "record", .command = send_half_a_record },
	{ "error", .command = fail_without_words },
	{ "answer", .command = end_without_an_answer },
};

/* ---- in the agent's place ---- */

static void on_frame(struct evil *evil)
{
	const struct proto_header *header = &evil->in.header;
	struct frame_reader payload = evil->in.payload;

	if (header->type == PROTO_HELLO) {
		frame_get_u32(&payload);
		evil->epoch = frame_get_u64(&payload);
		if (evil->deed->greet)
			evil->deed->greet(evil, evil->in.nonce);
		else
			greet_well(evil, evil->in.nonce);
	} else if (header->type == PROTO_PING) {
		struct frame_slice token = frame_get_rest(&payload);

		send_frame(evil, PROTO_PONG, 0, token.data, token.len);
	} else if (header->type == PROTO_EXEC || header->type == PROTO_ATTACH ||
		   header->type == PROTO_FILE) {
		if (evil->deed->command)
			evil->deed->command(evil, header->handle);
	}
}

static void serve(struct evil *evil)
{
	char chunk[4096];
	enum frame_event event;

	for (;;) {
		struct pollfd p = { .fd = evil->port, .events = POLLIN };
		ssize_t n = read(evil->port, chunk, sizeof(chunk));

		if (n == 0) /* nobody there, of which poll would not stop telling */
			usleep(10000);
		if (n == 0)
			frame_decoder_reset(&evil->in);
		if (n < 0)
			poll(&p, 1, -1);
		if (n <= 0)
			continue;
		frame_feed(&evil->in, chunk, (size_t)n);
		while ((event = frame_next(&evil->in)) != FRAME_NEED_MORE)
			if (event == FRAME_FRAME)
				on_frame(evil);
	}
}

static const struct deed *deed_of(const struct proto_header *header, struct frame_reader payload)
{
	struct frame_slice name;

	if (header->type != PROTO_HELLO || !(header->flags & PROTO_HELLO_IDENTITY))
		return NULL;
	frame_get_u32(&payload);
	frame_get_u64(&payload);
	frame_get_u64(&payload);
	frame_get_bytes(&payload, PROTO_ENTROPY_LEN);
	name = frame_get_string(&payload, 64);
	for (size_t i = 0; i < ARRAY_SIZE(deeds); i++) {
		size_t len = strlen(NAME_PREFIX) + strlen(deeds[i].name);

		if (name.len == len && memcmp(name.data, NAME_PREFIX, strlen(NAME_PREFIX)) == 0 &&
		    memcmp(name.data + strlen(NAME_PREFIX), deeds[i].name, strlen(deeds[i].name)) ==
			    0)
			return &deeds[i];
	}
	return NULL;
}

bool __wrap_session_handle(struct session *s, const struct proto_header *header,
			   struct frame_reader *payload)
{
	struct channel *channel = &s->guest->channel;
	struct evil evil = { .port = channel->port.fd, .deed = deed_of(header, *payload) };

	if (!evil.deed)
		return __real_session_handle(s, header, payload);
	/* What the agent has queued by now is the answer to the marker: dropped, as greeting is
	 * ours. */
	evil.in = channel->in;
	on_frame(&evil);
	serve(&evil);
	return false;
}
