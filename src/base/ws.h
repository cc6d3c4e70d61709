/*
 * WebSocket frames (RFC 6455) as pure functions over memory: no sockets, no clock. Shared by the
 * server, which takes masked frames and sends plain ones, and by the command line, where it is the
 * other way round.
 *
 * Binary messages are handed out in pieces as they come, whatever their length and however they are
 * cut into frames: for who reads a stream of bytes their borders mean nothing, and nothing has to
 * be held for them. Text messages are short and wanted whole: they are gathered up to a cap.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define WS_HEAD_MAX    14u /* bytes before a frame's payload */
#define WS_CONTROL_MAX 125u
#define WS_MASK_LEN    4u

enum ws_opcode {
	WS_CONTINUATION = 0,
	WS_TEXT = 1,
	WS_BINARY = 2,
	WS_CLOSE = 8,
	WS_PING = 9,
	WS_PONG = 10,
};

/* Why a connection is closed (RFC 6455, 7.4.1). Ours begin at 4000. */
enum ws_code {
	WS_CODE_NORMAL = 1000,
	WS_CODE_GOING_AWAY = 1001,
	WS_CODE_PROTOCOL = 1002,
	WS_CODE_NO_STATUS = 1005, /* a close without a code; never sent */
	WS_CODE_NOT_UTF8 = 1007,
	WS_CODE_TOO_BIG = 1009,
	WS_CODE_INTERNAL = 1011,
	WS_CODE_TRY_LATER = 1013,
};

/* ---- reading ---- */

enum ws_event {
	WS_EV_MORE,   /* all was used: feed more */
	WS_EV_BINARY, /* decoder->piece: the next bytes of a binary message, within what was fed */
	WS_EV_TEXT,   /* decoder->text: a whole message, valid UTF-8 */
	WS_EV_PING,   /* decoder->control, to be sent back as a pong */
	WS_EV_PONG,
	WS_EV_CLOSE, /* decoder->code; nothing after it is looked at */
	WS_EV_BAD,   /* decoder->code and decoder->why: close with it; nothing more is looked at */
};

struct ws_decoder {
	bool from_client; /* frames must be masked; else they must not be */
	size_t text_max;

	uint8_t head[WS_HEAD_MAX];
	size_t head_len;
	bool in_payload; /* of the frame whose head was read */
	bool fin;
	uint8_t opcode;
	uint8_t mask[WS_MASK_LEN];
	uint64_t left, taken; /* of the payload */
	uint8_t message;      /* what the message under way is: WS_TEXT, WS_BINARY; 0: none is */
	bool over;

	uint8_t *piece;
	size_t piece_len;
	struct buf text;
	uint8_t control[WS_CONTROL_MAX];
	size_t control_len;
	uint16_t code;
	const char *why;
};

void ws_decoder_init(struct ws_decoder *d, bool from_client, size_t text_max);
void ws_decoder_clear(struct ws_decoder *d);
/* The next event of data, which is unmasked in place. *ret_used: what was read of it. Call until
 * WS_EV_MORE. */
enum ws_event ws_next(struct ws_decoder *d, uint8_t *data, size_t len, size_t *ret_used);

/* ---- writing: whole messages of one frame, appended; mask NULL: none (a server's) ---- */

void ws_put_frame(struct buf *out, enum ws_opcode opcode, const void *data, size_t len,
		  const uint8_t mask[WS_MASK_LEN]);
/* The reason is cut to what fits. */
void ws_put_close(struct buf *out, uint16_t code, const char *reason,
		  const uint8_t mask[WS_MASK_LEN]);
/* Masks or unmasks; offset is the place of data within the payload. */
void ws_mask(uint8_t *data, size_t len, const uint8_t mask[WS_MASK_LEN], uint64_t offset);

/* ---- the handshake (ws_handshake.c) ---- */

#define WS_KEY_SIZE    25 /* of Sec-WebSocket-Key: base64 of 16 bytes */
#define WS_ACCEPT_SIZE 29

void ws_key_make(char ret_key[WS_KEY_SIZE]);
bool ws_key_valid(const char *key);
/* What a server answers to a key. */
void ws_accept_make(const char *key, char ret_accept[WS_ACCEPT_SIZE]);
/* Whether the comma-separated list has the token, whatever its case. list may be NULL. */
bool ws_list_has(const char *list, const char *token);
