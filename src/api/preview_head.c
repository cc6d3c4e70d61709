/* Reading the head of an answer: a status line, headers, an empty line; and what they say about the
 * body. */
#include "api/preview_head.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

#define STATUS_MAX_DIGITS 3

/* ---- pieces ---- */

bool preview_span_is(const char *span, size_t len, const char *text)
{
	return strlen(text) == len && strncasecmp(span, text, len) == 0;
}

bool preview_header_is(const struct preview_header *header, const char *name)
{
	return preview_span_is(header->name, header->name_len, name);
}

bool preview_is_token(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
		      (c && strchr("!#$%&'*+-.^_`|~", c))))
			return false;
	}
	return len > 0;
}

bool preview_is_value(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

static void trim(const char **text, size_t *len)
{
	while (*len > 0 && (**text == ' ' || **text == '\t')) {
		(*text)++;
		(*len)--;
	}
	while (*len > 0 && ((*text)[*len - 1] == ' ' || (*text)[*len - 1] == '\t'))
		(*len)--;
}

bool preview_list_has(const char *list, size_t len, const char *token, size_t token_len)
{
	while (len > 0) {
		const char *comma = memchr(list, ',', len);
		size_t piece = comma ? (size_t)(comma - list) : len;
		const char *text = list;
		size_t text_len = piece;

		trim(&text, &text_len);
		if (text_len == token_len && strncasecmp(text, token, token_len) == 0)
			return true;
		piece += comma != NULL;
		list += piece;
		len -= piece;
	}
	return false;
}

bool preview_is_hop_by_hop(const char *name, size_t len)
{
	static const char *const names[] = { "connection",
					     "keep-alive",
					     "proxy-authenticate",
					     "proxy-authentication-info",
					     "proxy-authorization",
					     "proxy-connection",
					     "te",
					     "trailer",
					     "transfer-encoding",
					     "upgrade",
					     "http2-settings" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (preview_span_is(name, len, names[i]))
			return true;
	}
	return false;
}

/* ---- lines ---- */

/* The line at *at, without its end; false when data ends within it. */
static bool next_line(const char *data, size_t len, size_t *at, const char **ret_line,
		      size_t *ret_len)
{
	const char *end = memchr(data + *at, '\n', len - *at);

	if (!end)
		return false;
	*ret_line = data + *at;
	*ret_len = (size_t)(end - *ret_line);
	*at += *ret_len + 1;
	if (*ret_len > 0 && (*ret_line)[*ret_len - 1] == '\r')
		(*ret_len)--;
	return true;
}

static const char *parse_status_line(const char *line, size_t len, struct preview_head *head,
				     bool *ret_http_1_0)
{
	static const char start[] = "HTTP/1.";
	const size_t at = sizeof(start) - 1;

	if (len < at + 2 + STATUS_MAX_DIGITS || memcmp(line, start, at) != 0 ||
	    (line[at] != '0' && line[at] != '1') || line[at + 1] != ' ')
		return "its answer does not begin with HTTP/1.1 and a status";
	for (size_t i = 0; i < STATUS_MAX_DIGITS; i++) {
		char c = line[at + 2 + i];

		if (c < '0' || c > '9')
			return "the status of its answer is not a number";
		head->status = head->status * 10 + (unsigned int)(c - '0');
	}
	if (head->status < 100 || head->status > 599)
		return "the status of its answer is not between 100 and 599";
	if (len > at + 2 + STATUS_MAX_DIGITS && line[at + 2 + STATUS_MAX_DIGITS] != ' ')
		return "the status of its answer has more than three digits";
	if (!preview_is_value(line, len))
		return "the status line of its answer has control bytes";
	*ret_http_1_0 = line[at] == '0';
	return NULL;
}

static const char *parse_header(const char *line, size_t len, struct preview_head *head)
{
	const char *colon = memchr(line, ':', len);
	struct preview_header *header;

	if (!colon || !preview_is_token(line, (size_t)(colon - line)))
		return "a header of its answer has no name, or one that is not a token";
	if (head->n_headers == PREVIEW_HEADERS_MAX)
		return "its answer has more than 100 headers";
	header = &head->headers[head->n_headers++];
	header->name = line;
	header->name_len = (size_t)(colon - line);
	header->value = colon + 1;
	header->value_len = len - header->name_len - 1;
	trim(&header->value, &header->value_len);
	if (!preview_is_value(header->value, header->value_len))
		return "a header of its answer has control bytes";
	return NULL;
}

/* ---- what the headers say about the body ---- */

static bool parse_length(const struct preview_header *header, uint64_t *ret)
{
	uint64_t value = 0;

	/* 18 digits: below 2^63, and more than anybody sends */
	if (header->value_len < 1 || header->value_len > 18)
		return false;
	for (size_t i = 0; i < header->value_len; i++) {
		if (header->value[i] < '0' || header->value[i] > '9')
			return false;
		value = value * 10 + (uint64_t)(header->value[i] - '0');
	}
	*ret = value;
	return true;
}

static const char *find_framing(struct preview_head *head, bool http_1_0, bool *ret_chunked)
{
	size_t n_lengths = 0, n_encodings = 0;

	for (size_t i = 0; i < head->n_headers; i++) {
		const struct preview_header *header = &head->headers[i];

		if (preview_header_is(header, "Content-Length")) {
			n_lengths++;
			if (!parse_length(header, &head->length))
				return "the Content-Length of its answer is not a number";
		} else if (preview_header_is(header, "Transfer-Encoding")) {
			n_encodings++;
			if (!preview_span_is(header->value, header->value_len, "chunked"))
				return "the Transfer-Encoding of its answer is not chunked";
		}
	}
	if (n_lengths > 1 || n_encodings > 1 || (n_lengths && n_encodings))
		return "its answer says twice how long it is";
	if (n_encodings && http_1_0)
		return "its answer is HTTP/1.0 and has a Transfer-Encoding";
	head->has_length = n_lengths > 0;
	*ret_chunked = n_encodings > 0;
	return NULL;
}

static enum preview_body_kind body_kind(const struct preview_head *head, bool head_request,
					bool chunked)
{
	if (head_request || head->status < 200 || head->status == 204 || head->status == 304)
		return PREVIEW_BODY_NONE;
	if (chunked)
		return PREVIEW_BODY_CHUNKED;
	return head->has_length ? PREVIEW_BODY_LENGTH : PREVIEW_BODY_UNTIL_CLOSE;
}

ssize_t preview_head_parse(const char *data, size_t len, bool head_request,
			   struct preview_head *ret, const char **ret_reason)
{
	struct preview_head head = { 0 };
	bool http_1_0 = false, chunked = false, first = true;
	const char *line = NULL, *reason = NULL;
	size_t at = 0, line_len = 0;
	size_t looked_at = len < PREVIEW_HEAD_MAX_BYTES ? len : PREVIEW_HEAD_MAX_BYTES;

	while (!reason && next_line(data, looked_at, &at, &line, &line_len)) {
		if (!first && line_len == 0) {
			reason = find_framing(&head, http_1_0, &chunked);
			if (reason)
				break;
			head.body = body_kind(&head, head_request, chunked);
			*ret = head;
			return (ssize_t)at;
		}
		reason = first ? parse_status_line(line, line_len, &head, &http_1_0)
			       : parse_header(line, line_len, &head);
		first = false;
	}
	if (!reason && len >= PREVIEW_HEAD_MAX_BYTES)
		reason = "the headers of its answer are larger than 16 KiB";
	if (!reason)
		return 0;
	*ret_reason = reason;
	return -EBADMSG;
}
