/* The chunked coding as a table of states, one byte at a time between the chunks' data. */
#include "api/preview_body.h"

#include <errno.h>
#include <string.h>

#define CHUNK_DIGITS_MAX 15 /* below 2^60 */
#define EXTRA_BYTES_MAX	 8192

void preview_body_init(struct preview_body *body, const struct preview_head *head)
{
	*body = (struct preview_body){ .kind = head->body };
	if (head->body == PREVIEW_BODY_LENGTH)
		body->left = head->length;
}

bool preview_body_ended(const struct preview_body *body)
{
	switch (body->kind) {
	case PREVIEW_BODY_NONE:
		return true;
	case PREVIEW_BODY_LENGTH:
		return body->left == 0;
	case PREVIEW_BODY_CHUNKED:
		return body->state == CHUNK_ENDED;
	case PREVIEW_BODY_UNTIL_CLOSE:
		break;
	}
	return false;
}

bool preview_body_may_close(const struct preview_body *body)
{
	return body->kind == PREVIEW_BODY_UNTIL_CLOSE || preview_body_ended(body);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static void size_is_known(struct preview_body *body)
{
	body->digits = 0;
	body->line_bytes = 0;
	body->state = body->left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
}

static int in_size(struct preview_body *body, char c)
{
	int digit = hex_digit(c);

	if (digit >= 0) {
		body->left = body->left * 16 + (unsigned int)digit;
		return ++body->digits > CHUNK_DIGITS_MAX ? -EBADMSG : 0;
	}
	if (body->digits == 0)
		return -EBADMSG;
	if (c == '\n')
		size_is_known(body);
	else if (c == '\r')
		body->state = CHUNK_SIZE_LF;
	else if (c == ';' || c == ' ' || c == '\t')
		body->state = CHUNK_EXTENSION;
	else
		return -EBADMSG;
	return 0;
}

static int in_extension(struct preview_body *body, char c)
{
	if (c == '\n')
		size_is_known(body);
	else if (c == '\r')
		body->state = CHUNK_SIZE_LF;
	else if (++body->extra_bytes > EXTRA_BYTES_MAX)
		return -EBADMSG;
	return 0;
}

static int in_trailer(struct preview_body *body, char c)
{
	if (c == '\n' && body->line_bytes == 0)
		body->state = CHUNK_ENDED;
	else if (c == '\n')
		body->line_bytes = 0;
	else if (c != '\r')
		body->line_bytes++;
	return ++body->extra_bytes > EXTRA_BYTES_MAX ? -EBADMSG : 0;
}

/* A byte that is not of a chunk's data. */
static int between(struct preview_body *body, char c)
{
	switch (body->state) {
	case CHUNK_SIZE:
		return in_size(body, c);
	case CHUNK_EXTENSION:
		return in_extension(body, c);
	case CHUNK_SIZE_LF:
		if (c != '\n')
			return -EBADMSG;
		size_is_known(body);
		return 0;
	case CHUNK_DATA_END:
		if (c == '\r')
			body->state = CHUNK_DATA_LF;
		else if (c == '\n')
			body->state = CHUNK_SIZE;
		else
			return -EBADMSG;
		return 0;
	case CHUNK_DATA_LF:
		body->state = CHUNK_SIZE;
		return c == '\n' ? 0 : -EBADMSG;
	case CHUNK_TRAILER:
		return in_trailer(body, c);
	case CHUNK_DATA:
	case CHUNK_ENDED:
		break;
	}
	return -EBADMSG;
}

static size_t take_data(struct preview_body *body, size_t len)
{
	size_t n = body->left < len ? (size_t)body->left : len;

	body->left -= n;
	if (body->left == 0 && body->kind == PREVIEW_BODY_CHUNKED)
		body->state = CHUNK_DATA_END;
	return n;
}

static ssize_t next_chunked(struct preview_body *body, const char *data, size_t len,
			    const char **ret_data, size_t *ret_len)
{
	size_t at = 0;

	while (at < len && body->state != CHUNK_ENDED && body->state != CHUNK_DATA) {
		if (between(body, data[at++]) < 0)
			return -EBADMSG;
	}
	if (at < len && body->state == CHUNK_DATA) {
		*ret_data = data + at;
		*ret_len = take_data(body, len - at);
		at += *ret_len;
	}
	return (ssize_t)at;
}

ssize_t preview_body_next(struct preview_body *body, const char *data, size_t len,
			  const char **ret_data, size_t *ret_len)
{
	*ret_data = data;
	*ret_len = 0;
	switch (body->kind) {
	case PREVIEW_BODY_NONE:
		break;
	case PREVIEW_BODY_LENGTH:
		*ret_len = take_data(body, len);
		return (ssize_t)*ret_len;
	case PREVIEW_BODY_CHUNKED:
		return next_chunked(body, data, len, ret_data, ret_len);
	case PREVIEW_BODY_UNTIL_CLOSE:
		*ret_len = len;
		return (ssize_t)len;
	}
	return -EBADMSG;
}
