/*
 * Frames: encoding, payload cursor and the stream decoder. See frame.h and guest_proto.h.
 *
 * Theory of operation of the decoder. Bytes are appended to d->in by frame_feed; frame_next looks
 * at d->in from d->consumed on and moves d->consumed past what it used. Nothing is moved in memory
 * until the next frame_feed, so that many small frames in one read cost one memmove, not one each,
 * and the payload of the current frame stays where it is.
 *
 * The decoder is in one of two modes. Searching: everything is dropped up to a marker. Frame mode:
 * a header or a marker is expected; anything else is FRAME_LOST and back to searching. A frame
 * whose checksum is wrong was completed by bytes that do not belong to it, a marker perhaps among
 * them: therefore the search begins inside the bad frame and not behind it.
 */
#include "proto/frame.h"

#include <assert.h>
#include <string.h>

#define HEADER_LEN   sizeof(struct proto_header)
#define CHECKED_FROM 4u	 /* the checksum begins behind the magic */
#define CHECKED_TO   16u /* and covers the header up to the checksum itself */

static_assert(sizeof(PROTO_MARKER) == PROTO_MARKER_LEN + 1, "marker length");

static void store_u32(uint8_t *out, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		out[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t load_u32(const uint8_t *in)
{
	return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 |
	       (uint32_t)in[3] << 24;
}

static uint64_t load_u64(const uint8_t *in)
{
	return (uint64_t)load_u32(in) | (uint64_t)load_u32(in + 4) << 32;
}

/*
 * One multiplication for eight bytes: it runs in an emulated guest for every byte of output, where
 * a table-driven CRC is several times slower. It is no defence against an adversary (who can
 * compute it too), only against frames that were cut off and completed by something else.
 */
static uint64_t checksum_add(uint64_t h, const uint8_t *data, size_t len)
{
	const uint64_t prime = 0x9e3779b97f4a7c15u;

	for (; len >= 8; data += 8, len -= 8) {
		h = (h ^ load_u64(data)) * prime;
		h ^= h >> 32;
	}
	for (; len > 0; data++, len--) {
		h = (h ^ *data) * prime;
		h ^= h >> 32;
	}
	return h;
}

static uint32_t checksum(const uint8_t *frame, size_t payload_len)
{
	uint64_t h = checksum_add(PROTO_MAGIC, frame + CHECKED_FROM, CHECKED_TO - CHECKED_FROM);

	return (uint32_t)checksum_add(h, frame + HEADER_LEN, payload_len);
}

/* ---- writing ---- */

size_t frame_begin(struct buf *out, uint8_t type, uint16_t flags, uint32_t handle)
{
	size_t begin = out->len;

	frame_put_u32(out, PROTO_MAGIC);
	frame_put_u8(out, PROTO_VERSION);
	frame_put_u8(out, type);
	frame_put_u8(out, (uint8_t)flags);
	frame_put_u8(out, (uint8_t)(flags >> 8));
	frame_put_u32(out, handle);
	frame_put_u32(out, 0); /* length and checksum: frame_end */
	frame_put_u32(out, 0);
	return begin;
}

void frame_end(struct buf *out, size_t begin)
{
	uint8_t *frame = (uint8_t *)out->data + begin;
	size_t payload_len;

	assert(out->len >= begin + HEADER_LEN);
	payload_len = out->len - begin - HEADER_LEN;
	assert(payload_len <= PROTO_TO_GUEST_MAX);
	store_u32(frame + 12, (uint32_t)payload_len);
	store_u32(frame + 16, checksum(frame, payload_len));
}

void frame_put_u8(struct buf *out, uint8_t v)
{
	buf_append(out, &v, sizeof(v));
}

void frame_put_u32(struct buf *out, uint32_t v)
{
	uint8_t raw[4];

	store_u32(raw, v);
	buf_append(out, raw, sizeof(raw));
}

void frame_put_u64(struct buf *out, uint64_t v)
{
	frame_put_u32(out, (uint32_t)v);
	frame_put_u32(out, (uint32_t)(v >> 32));
}

void frame_put_bytes(struct buf *out, const void *data, size_t len)
{
	buf_append(out, data, len);
}

void frame_put_string(struct buf *out, const void *data, size_t len)
{
	assert(len <= PROTO_TO_GUEST_MAX);
	frame_put_u32(out, (uint32_t)len);
	buf_append(out, data, len);
}

void frame_put_marker(struct buf *out, const uint8_t nonce[PROTO_NONCE_LEN])
{
	buf_append(out, PROTO_MARKER, PROTO_MARKER_LEN);
	buf_append(out, nonce, PROTO_NONCE_LEN);
}

/* ---- reading a payload ---- */

/* The next len bytes, or NULL once the reader is bad. */
static const uint8_t *take(struct frame_reader *r, size_t len)
{
	const uint8_t *at = r->data;

	if (r->bad || len > r->left) {
		r->bad = true;
		return NULL;
	}
	r->data += len;
	r->left -= len;
	return at;
}

uint8_t frame_get_u8(struct frame_reader *r)
{
	const uint8_t *at = take(r, 1);

	return at ? *at : 0;
}

uint32_t frame_get_u32(struct frame_reader *r)
{
	const uint8_t *at = take(r, 4);

	return at ? load_u32(at) : 0;
}

uint64_t frame_get_u64(struct frame_reader *r)
{
	const uint8_t *at = take(r, 8);

	return at ? load_u64(at) : 0;
}

struct frame_slice frame_get_bytes(struct frame_reader *r, size_t len)
{
	const uint8_t *at = take(r, len);

	return at ? (struct frame_slice){ .data = (const char *)at, .len = len }
		  : (struct frame_slice){ .data = "", .len = 0 };
}

struct frame_slice frame_get_string(struct frame_reader *r, size_t max_len)
{
	uint32_t len = frame_get_u32(r);

	if (len > max_len)
		r->bad = true;
	return frame_get_bytes(r, len);
}

struct frame_slice frame_get_rest(struct frame_reader *r)
{
	return frame_get_bytes(r, r->left);
}

bool frame_done(const struct frame_reader *r)
{
	return !r->bad && r->left == 0;
}

/* ---- the stream ---- */

void frame_decoder_init(struct frame_decoder *d, uint32_t max_payload)
{
	*d = (struct frame_decoder){ .in = BUF_INIT,
				     .max_payload = max_payload,
				     .searching = true };
}

void frame_decoder_clear(struct frame_decoder *d)
{
	buf_clear(&d->in);
}

void frame_decoder_reset(struct frame_decoder *d)
{
	buf_reset(&d->in);
	d->consumed = 0;
	d->searching = true;
}

void frame_decoder_search(struct frame_decoder *d)
{
	d->searching = true;
}

void frame_feed(struct frame_decoder *d, const void *data, size_t len)
{
	if (d->consumed > 0) {
		buf_drop_front(&d->in, d->consumed);
		d->consumed = 0;
	}
	buf_append(&d->in, data, len);
}

/* A marker stands at the current position, as far as the bytes go. */
static enum frame_event take_marker(struct frame_decoder *d)
{
	if (d->in.len - d->consumed < PROTO_MARKER_LEN + PROTO_NONCE_LEN)
		return FRAME_NEED_MORE;
	memcpy(d->nonce, d->in.data + d->consumed + PROTO_MARKER_LEN, PROTO_NONCE_LEN);
	d->consumed += PROTO_MARKER_LEN + PROTO_NONCE_LEN;
	d->searching = false;
	return FRAME_MARKER;
}

static enum frame_event search_marker(struct frame_decoder *d)
{
	size_t left = d->in.len - d->consumed;
	const char *at, *found;

	if (left < PROTO_MARKER_LEN)
		return FRAME_NEED_MORE;
	at = d->in.data + d->consumed;
	found = memmem(at, left, PROTO_MARKER, PROTO_MARKER_LEN);
	if (!found) {
		/* The end may hold the beginning of a marker. */
		d->consumed = d->in.len - (PROTO_MARKER_LEN - 1);
		return FRAME_NEED_MORE;
	}
	d->consumed += (size_t)(found - at);
	return take_marker(d);
}

static enum frame_event lost(struct frame_decoder *d)
{
	d->consumed++;
	d->searching = true;
	return FRAME_LOST;
}

enum frame_event frame_next(struct frame_decoder *d)
{
	size_t left = d->in.len - d->consumed;
	const uint8_t *at;

	if (d->searching)
		return search_marker(d);
	if (left < sizeof(d->header.magic))
		return FRAME_NEED_MORE;
	at = (const uint8_t *)d->in.data + d->consumed;
	if (load_u32(at) != PROTO_MAGIC) {
		size_t compare = left < PROTO_MARKER_LEN ? left : PROTO_MARKER_LEN;

		return memcmp(at, PROTO_MARKER, compare) == 0 ? take_marker(d) : lost(d);
	}
	if (left < HEADER_LEN)
		return FRAME_NEED_MORE;
	d->header = (struct proto_header){
		.magic = PROTO_MAGIC,
		.version = at[4],
		.type = at[5],
		.flags = (uint16_t)(at[6] | at[7] << 8),
		.handle = load_u32(at + 8),
		.length = load_u32(at + 12),
		.checksum = load_u32(at + 16),
	};
	if (d->header.version != PROTO_VERSION || d->header.length > d->max_payload)
		return lost(d);
	if (left < HEADER_LEN + d->header.length)
		return FRAME_NEED_MORE;
	if (checksum(at, d->header.length) != d->header.checksum)
		return lost(d);
	d->payload = (struct frame_reader){ .data = at + HEADER_LEN, .left = d->header.length };
	d->consumed += HEADER_LEN + d->header.length;
	return FRAME_FRAME;
}
