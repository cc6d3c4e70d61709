/*
 * The body of a guest's answer, taken out of its framing piece by piece, with nothing kept but
 * where one is. Pure. Trailers are read and dropped.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "api/preview_head.h"

struct preview_body {
	enum preview_body_kind kind;
	uint64_t left; /* of the body, or of the chunk */
	enum {
		CHUNK_SIZE,
		CHUNK_EXTENSION,
		CHUNK_SIZE_LF,
		CHUNK_DATA,
		CHUNK_DATA_END,
		CHUNK_DATA_LF,
		CHUNK_TRAILER,
		CHUNK_ENDED,
	} state;
	unsigned int digits;	  /* of the chunk's size */
	unsigned int extra_bytes; /* of extensions and trailers so far */
	unsigned int line_bytes;  /* of the trailer's line so far */
};

void preview_body_init(struct preview_body *body, const struct preview_head *head);
/* Looks at data (len > 0), until it meets bytes of the body: *ret_data and *ret_len are these
 * (none: length 0). Returns how much of data was used, or -EBADMSG. Not after the end. */
ssize_t preview_body_next(struct preview_body *body, const char *data, size_t len,
			  const char **ret_data, size_t *ret_len);
bool preview_body_ended(const struct preview_body *body);
/* The guest's connection has ended: was the body whole? */
bool preview_body_may_close(const struct preview_body *body);
