/*
 * The stream of requests of one connection. Heads, chunk sizes and trailers are collected in
 * filter->line until they are whole; bodies pass as they come. Extensions of chunks and trailers
 * are left out, as any intermediary may do.
 */
#include "net/proxy_http.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

#define CHUNK_DIGITS_MAX 15

void http_filter_init(struct http_filter *filter)
{
	*filter = (struct http_filter){ 0 };
}

void http_filter_clear(struct http_filter *filter)
{
	buf_clear(&filter->line);
}

static int fail(struct http_filter *filter, enum http_fault fault)
{
	filter->fault = fault;
	return -EACCES;
}

static void request_ends(struct http_filter *filter)
{
	filter->state = HTTP_IN_HEAD;
}

static enum http_state state_behind_head(const struct http_head *head, bool upgrade)
{
	if (upgrade)
		return HTTP_WAITS_FOR_UPGRADE;
	if (head->chunked)
		return HTTP_IN_CHUNK_SIZE;
	return head->content_length > 0 ? HTTP_IN_BODY : HTTP_IN_HEAD;
}

static size_t take_until_line_end(struct http_filter *filter, const char *data, size_t len)
{
	const char *newline = memchr(data, '\n', len);
	size_t n = newline ? (size_t)(newline - data) + 1 : len;

	buf_append(&filter->line, data, n);
	return n;
}

static bool line_ends_with(const struct http_filter *filter, const char *text)
{
	size_t n = strlen(text), len = filter->line.len;

	return len >= n && memcmp(filter->line.data + len - n, text, n) == 0;
}

static int feed_head(struct http_filter *filter, const char *data, size_t len, size_t *used,
		     struct buf *out)
{
	size_t n = take_until_line_end(filter, data, len);
	struct http_head head;
	bool upgrade;

	*used += n;
	/* The first bytes are looked at at once, to refuse what is no HTTP; then only a whole head
	 * is, as looking at every byte would be quadratic. */
	if (!line_ends_with(filter, "\r\n\r\n") && filter->line.len > n &&
	    filter->line.len <= HTTP_HEAD_MAX)
		return 0;
	switch (http_head_parse(filter->line.data, filter->line.len, &head, &filter->fault)) {
	case 0:
		break;
	case -EAGAIN:
		return 0;
	default:
		return -EACCES;
	}
	if (filter->requests > 0 && !str_eq(filter->host, head.host))
		return fail(filter, HTTP_HOST_CHANGED);
	upgrade = head.websocket && filter->requests == 0;
	http_head_write(filter->line.data, &head, upgrade, out);
	str_copy(filter->host, sizeof(filter->host), head.host);
	filter->requests++;
	filter->left = (uint64_t)head.content_length;
	filter->state = state_behind_head(&head, upgrade);
	buf_reset(&filter->line);
	return 0;
}

/* Body and chunk data. */
static void feed_counted(struct http_filter *filter, const char *data, size_t len, size_t *used,
			 struct buf *out)
{
	size_t n = filter->left < len ? (size_t)filter->left : len;

	buf_append(out, data, n);
	*used += n;
	filter->left -= n;
	if (filter->left > 0)
		return;
	if (filter->state == HTTP_IN_BODY)
		request_ends(filter);
	else
		filter->state = HTTP_BEHIND_CHUNK;
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "1a3f" or "1a3f;extension", with its CR LF; -1 when it is neither. */
static int64_t chunk_size(const char *line, size_t len)
{
	int64_t value = 0;
	size_t i = 0;

	if (len < 3 || line[len - 2] != '\r')
		return -1;
	len -= 2;
	for (; i < len && hex_digit(line[i]) >= 0; i++) {
		if (i == CHUNK_DIGITS_MAX)
			return -1;
		value = value * 16 + hex_digit(line[i]);
	}
	if (i == 0 || (i < len && line[i] != ';'))
		return -1;
	for (; i < len; i++) {
		if ((unsigned char)line[i] < ' ' && line[i] != '\t')
			return -1;
	}
	return value;
}

static int end_chunk_size(struct http_filter *filter, struct buf *out)
{
	int64_t size = chunk_size(filter->line.data, filter->line.len);

	if (size < 0)
		return fail(filter, HTTP_MALFORMED);
	filter->left = (uint64_t)size;
	filter->state = size > 0 ? HTTP_IN_CHUNK : HTTP_IN_TRAILER;
	buf_reset(&filter->line);
	if (size > 0)
		buf_printf(out, "%llx\r\n", (unsigned long long)size);
	return 0;
}

static int end_chunk(struct http_filter *filter, struct buf *out)
{
	if (!str_eq(buf_str(&filter->line), "\r\n"))
		return fail(filter, HTTP_MALFORMED);
	buf_append_str(out, "\r\n");
	buf_reset(&filter->line);
	filter->state = HTTP_IN_CHUNK_SIZE;
	return 0;
}

/* Trailers are counted together, so that there is an end to them. */
static int end_trailer(struct http_filter *filter, struct buf *out)
{
	size_t len = filter->line.len;

	if (len < 2 || filter->line.data[len - 2] != '\r')
		return fail(filter, HTTP_MALFORMED);
	if (len > 2 && !line_ends_with(filter, "\r\n\r\n"))
		return 0;
	buf_append_str(out, "0\r\n\r\n");
	buf_reset(&filter->line);
	request_ends(filter);
	return 0;
}

static int feed_line(struct http_filter *filter, const char *data, size_t len, size_t *used,
		     struct buf *out)
{
	*used += take_until_line_end(filter, data, len);
	if (filter->line.len > HTTP_TRAILER_MAX)
		return fail(filter, HTTP_TOO_LONG);
	if (memchr(filter->line.data, '\0', filter->line.len))
		return fail(filter, HTTP_MALFORMED);
	if (!line_ends_with(filter, "\n"))
		return 0;
	if (filter->state == HTTP_IN_CHUNK_SIZE)
		return end_chunk_size(filter, out);
	if (filter->state == HTTP_BEHIND_CHUNK)
		return end_chunk(filter, out);
	return end_trailer(filter, out);
}

int http_filter_feed(struct http_filter *filter, const char *data, size_t len, size_t *ret_used,
		     struct buf *out)
{
	size_t used = 0;
	int r = 0;

	if (filter->fault != HTTP_OK)
		return -EACCES;
	while (used < len && r == 0 && filter->state != HTTP_WAITS_FOR_UPGRADE) {
		switch (filter->state) {
		case HTTP_IN_HEAD:
			r = feed_head(filter, data + used, len - used, &used, out);
			break;
		case HTTP_IN_BODY:
		case HTTP_IN_CHUNK:
			feed_counted(filter, data + used, len - used, &used, out);
			break;
		case HTTP_RAW:
			buf_append(out, data + used, len - used);
			used = len;
			break;
		default:
			r = feed_line(filter, data + used, len - used, &used, out);
			break;
		}
	}
	*ret_used = used;
	return r;
}

void http_filter_upgraded(struct http_filter *filter, bool yes)
{
	filter->state = yes ? HTTP_RAW : HTTP_IN_HEAD;
}

bool http_filter_may_end(const struct http_filter *filter)
{
	return filter->state == HTTP_RAW ||
	       (filter->state == HTTP_IN_HEAD && filter->line.len == 0);
}
