/*
 * Encoding and decoding of guest_proto.h: pure functions over memory, no I/O, used by both sides
 * and fuzzed. Integers are little-endian on the wire whatever the machine.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "skerry/guest_proto.h"

/* ---- writing: appends to a buffer ---- */

/* Starts a frame; its length is filled in by frame_end. Returns the position to pass to frame_end.
 */
size_t frame_begin(struct buf *out, uint8_t type, uint16_t flags, uint32_t handle);
void frame_end(struct buf *out, size_t begin);
void frame_put_u8(struct buf *out, uint8_t v);
void frame_put_u32(struct buf *out, uint32_t v);
void frame_put_u64(struct buf *out, uint64_t v);
void frame_put_bytes(struct buf *out, const void *data, size_t len);  /* raw, no length */
void frame_put_string(struct buf *out, const void *data, size_t len); /* u32 length, bytes */

/* A marker and its nonce. */
void frame_put_marker(struct buf *out, const uint8_t nonce[PROTO_NONCE_LEN]);

/* ---- reading a payload: a cursor that goes bad once and stays bad ---- */

struct frame_reader {
	const uint8_t *data;
	size_t left;
	bool bad;
};

struct frame_slice {
	const char *data; /* borrowed from the payload; not NUL-terminated */
	size_t len;
};

uint8_t frame_get_u8(struct frame_reader *r);
uint32_t frame_get_u32(struct frame_reader *r);
uint64_t frame_get_u64(struct frame_reader *r);
struct frame_slice frame_get_bytes(struct frame_reader *r, size_t len);
struct frame_slice frame_get_string(struct frame_reader *r, size_t max_len);
struct frame_slice frame_get_rest(struct frame_reader *r);
/* True when everything was read, exactly and without going bad. */
bool frame_done(const struct frame_reader *r);

/* ---- the stream: marker search and frame cutting ---- */

enum frame_event {
	FRAME_NEED_MORE, /* feed more bytes */
	FRAME_MARKER,	 /* a marker was seen; nonce is in decoder->nonce */
	FRAME_FRAME,	 /* a whole frame: decoder->header, decoder->payload */
	FRAME_LOST,	 /* bad magic, version, length or checksum: the decoder now searches for a
			    marker, beginning within the bad frame */
};

struct frame_decoder {
	struct buf in;	 /* never more than max_payload + a header + a read beyond consumed */
	size_t consumed; /* bytes of in that earlier events used; dropped by frame_feed */
	uint32_t max_payload;
	bool searching; /* dropping bytes until a marker */
	uint8_t nonce[PROTO_NONCE_LEN];
	struct proto_header header;  /* of the current frame, in host order */
	struct frame_reader payload; /* valid until the next call of frame_next or frame_feed */
};

/* Starts in search of a marker. */
void frame_decoder_init(struct frame_decoder *d, uint32_t max_payload);
void frame_decoder_clear(struct frame_decoder *d);
/* Back to searching, dropping what is buffered (the port was hung up). */
void frame_decoder_reset(struct frame_decoder *d);
/* Searches for the next marker from here on (the one just seen was not ours). */
void frame_decoder_search(struct frame_decoder *d);
void frame_feed(struct frame_decoder *d, const void *data, size_t len);
/* The next event. Call until FRAME_NEED_MORE. In frame mode a marker is recognised where a header
 * is expected. */
enum frame_event frame_next(struct frame_decoder *d);
