/*
 * The head of an answer of a guest's server, read strictly. The guest is hostile: what two readers
 * could read differently is refused, and everything has a cap. Pure: bytes in, spans of them out.
 *
 * Refused: anything but HTTP/1.0 and HTTP/1.1, names that are no tokens, control bytes in values,
 * folded lines, Content-Length twice or with anything but digits, Transfer-Encoding together with
 * Content-Length, twice, in HTTP/1.0, or of another value than chunked. A line may end with LF
 * alone: every answer is framed anew for the client, and the guest's connection is not used again.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PREVIEW_HEAD_MAX_BYTES (16u * 1024)
#define PREVIEW_HEADERS_MAX    100

struct preview_header { /* spans of the text that was parsed */
	const char *name;
	size_t name_len;
	const char *value;
	size_t value_len;
};

enum preview_body_kind {
	PREVIEW_BODY_NONE,
	PREVIEW_BODY_LENGTH,
	PREVIEW_BODY_CHUNKED,
	PREVIEW_BODY_UNTIL_CLOSE,
};

struct preview_head {
	unsigned int status;
	struct preview_header headers[PREVIEW_HEADERS_MAX];
	size_t n_headers;
	enum preview_body_kind body;
	bool has_length;
	uint64_t length; /* with has_length; also where there is no body (HEAD, 304) */
};

/* The answer to a request whose method was HEAD has no body. Returns the bytes of the head, 0 when
 * data ends within it, -EBADMSG with the reason (static text) otherwise. */
ssize_t preview_head_parse(const char *data, size_t len, bool head_request,
			   struct preview_head *ret, const char **ret_reason);

/* Compares with a C string, ignoring case. */
bool preview_header_is(const struct preview_header *header, const char *name);
bool preview_span_is(const char *span, size_t len, const char *text);
/* Whether a comma-separated list of tokens has this one, ignoring case. */
bool preview_list_has(const char *list, size_t len, const char *token, size_t token_len);
bool preview_is_token(const char *text, size_t len);
/* Printable bytes, blanks and tabs, and anything above ASCII. */
bool preview_is_value(const char *text, size_t len);
/* Headers that are about one connection; those that Connection names come on top. */
bool preview_is_hop_by_hop(const char *name, size_t len);
