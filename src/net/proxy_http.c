/* Reading and rewriting request heads (RFC 9112), stricter than servers do. */
#include "net/proxy_http.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

struct span {
	const char *at;
	size_t len;
};

struct header {
	struct span name, value;
};

static int fault(enum http_fault *ret, enum http_fault value)
{
	*ret = value;
	return -EACCES;
}

static bool span_is(struct span s, const char *text)
{
	return s.len == strlen(text) && strncasecmp(s.at, text, s.len) == 0;
}

static bool span_starts(struct span s, const char *text)
{
	return s.len >= strlen(text) && strncasecmp(s.at, text, strlen(text)) == 0;
}

/* RFC 9110, section 5.6.2. */
static bool is_token_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(struct span s)
{
	for (size_t i = 0; i < s.len; i++) {
		if (!is_token_char(s.at[i]))
			return false;
	}
	return s.len > 0;
}

/* Bytes that may stand in a target (no blank) or, with blanks, in a value. */
static bool is_text(struct span s, bool blanks)
{
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.at[i];

		if (c == ' ' || c == '\t') {
			if (!blanks)
				return false;
		} else if (c < ' ' || c == 0x7f) {
			return false;
		}
	}
	return true;
}

static struct span trim(struct span s)
{
	while (s.len > 0 && (s.at[0] == ' ' || s.at[0] == '\t')) {
		s.at++;
		s.len--;
	}
	while (s.len > 0 && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* Cuts the next line off, without its CR LF. A lone CR or LF stays in it, and is refused by
 * is_text; that the head ends in CR LF CR LF is known. */
static struct span next_line(struct span *rest)
{
	const char *end = memmem(rest->at, rest->len, "\r\n", 2);
	struct span line = { rest->at, (size_t)(end - rest->at) };

	rest->at += line.len + 2;
	rest->len -= line.len + 2;
	return line;
}

/* Cuts off what is before the first separator; all, where there is none. */
static struct span cut(struct span *rest, char separator)
{
	const char *at = memchr(rest->at, separator, rest->len);
	struct span head = { rest->at, at ? (size_t)(at - rest->at) : rest->len };
	size_t taken = head.len + (at ? 1 : 0);

	rest->at += taken;
	rest->len -= taken;
	return head;
}

static int parse_decimal(struct span s, int64_t max, int64_t *ret)
{
	int64_t value = 0;

	for (size_t i = 0; i < s.len; i++) {
		int digit = s.at[i] - '0';

		if (digit < 0 || digit > 9 || value > (max - digit) / 10)
			return -EINVAL;
		value = value * 10 + digit;
	}
	if (s.len == 0)
		return -EINVAL;
	*ret = value;
	return 0;
}

/* "name" or "name:port". */
static int parse_authority(struct span s, char name[HOSTNAME_MAX + 1], uint16_t *ret_port)
{
	const char *colon = memchr(s.at, ':', s.len);
	int64_t port = 0;

	if (colon) {
		struct span digits = { colon + 1, s.len - (size_t)(colon + 1 - s.at) };

		if (parse_decimal(digits, UINT16_MAX, &port) < 0 || port == 0)
			return -EINVAL;
		s.len = (size_t)(colon - s.at);
	}
	*ret_port = (uint16_t)port;
	return hostname_canon(s.at, s.len, name, NULL);
}

/* The host of an absolute target goes into `absolute`, which is empty for the other forms. */
static int parse_target(struct span method, struct span target, char absolute[HOSTNAME_MAX + 1],
			enum http_fault *ret)
{
	struct span rest, authority;
	uint16_t port;

	absolute[0] = '\0';
	if (span_is(method, "CONNECT"))
		return fault(ret, HTTP_CONNECT);
	if (target.len == 0 || !is_text(target, false))
		return fault(ret, HTTP_MALFORMED);
	if (target.at[0] == '/' || (span_is(target, "*") && span_is(method, "OPTIONS")))
		return 0;
	if (!span_starts(target, "http://"))
		return fault(ret, HTTP_MALFORMED);
	rest = (struct span){ target.at + 7, target.len - 7 };
	authority = (struct span){ rest.at, 0 };
	while (authority.len < rest.len && !strchr("/?#", rest.at[authority.len]))
		authority.len++;
	if (parse_authority(authority, absolute, &port) < 0)
		return fault(ret, HTTP_BAD_HOST);
	return 0;
}

static int parse_request_line(struct span line, char absolute[HOSTNAME_MAX + 1], bool *ret_is_get,
			      bool *ret_is_11, enum http_fault *ret)
{
	struct span method = cut(&line, ' ');
	struct span target = cut(&line, ' ');

	if (!is_token(method))
		return fault(ret, HTTP_MALFORMED);
	*ret_is_11 = line.len == 8 && memcmp(line.at, "HTTP/1.1", 8) == 0;
	if (!*ret_is_11 && !(line.len == 8 && memcmp(line.at, "HTTP/1.0", 8) == 0))
		return fault(ret, HTTP_MALFORMED);
	*ret_is_get = method.len == 3 && memcmp(method.at, "GET", 3) == 0;
	return parse_target(method, target, absolute, ret);
}

static int split_header(struct span line, struct header *ret)
{
	if (!memchr(line.at, ':', line.len))
		return -EINVAL;
	ret->name = cut(&line, ':');
	ret->value = trim(line);
	return is_token(ret->name) && is_text(ret->value, true) ? 0 : -EINVAL;
}

/* How often the headers that decide something were there. */
struct seen {
	unsigned host, length, encoding, upgrade;
};

static int take_header(const struct header *header, struct http_head *head, struct seen *seen,
		       enum http_fault *ret)
{
	if (span_is(header->name, "Host")) {
		if (seen->host++)
			return fault(ret, HTTP_TWO_HOSTS);
		if (header->value.len == 0)
			return fault(ret, HTTP_NO_HOST);
		if (parse_authority(header->value, head->host, &head->host_port) < 0)
			return fault(ret, HTTP_BAD_HOST);
	} else if (span_is(header->name, "Content-Length")) {
		if (seen->length++ ||
		    parse_decimal(header->value, INT64_MAX, &head->content_length) < 0)
			return fault(ret, HTTP_MALFORMED);
	} else if (span_is(header->name, "Transfer-Encoding")) {
		if (seen->encoding++ || !span_is(header->value, "chunked"))
			return fault(ret, HTTP_MALFORMED);
		head->chunked = true;
	} else if (span_is(header->name, "Upgrade")) {
		head->websocket = seen->upgrade++ == 0 && span_is(header->value, "websocket");
	}
	return 0;
}

/* Where the head ends, 0 when it does not yet. */
static size_t head_length(const char *data, size_t len)
{
	const char *end = memmem(data, len, "\r\n\r\n", 4);

	return end ? (size_t)(end - data) + 4 : 0;
}

int http_head_parse(const char *data, size_t len, struct http_head *ret, enum http_fault *ret_fault)
{
	struct http_head head = { .len = head_length(data, len) };
	char absolute[HOSTNAME_MAX + 1];
	struct seen seen = { 0 };
	struct span rest, line;
	bool is_get, is_11;

	*ret_fault = HTTP_OK;
	if ((head.len ? head.len : len) > HTTP_HEAD_MAX)
		return fault(ret_fault, HTTP_TOO_LONG);
	if (len > 0 && !is_token_char(data[0]))
		return fault(ret_fault, HTTP_MALFORMED); /* TLS, say: more of it would not help */
	if (head.len == 0)
		return -EAGAIN;
	rest = (struct span){ data, head.len };
	if (parse_request_line(next_line(&rest), absolute, &is_get, &is_11, ret_fault) < 0)
		return -EACCES;
	for (int n = 0; (line = next_line(&rest)).len > 0; n++) {
		struct header header;

		if (n == HTTP_HEADERS_MAX)
			return fault(ret_fault, HTTP_TOO_LONG);
		if (split_header(line, &header) < 0)
			return fault(ret_fault, HTTP_MALFORMED);
		if (take_header(&header, &head, &seen, ret_fault) < 0)
			return -EACCES;
	}
	if (!seen.host)
		return fault(ret_fault, HTTP_NO_HOST);
	if (absolute[0] && !str_eq(absolute, head.host))
		return fault(ret_fault, HTTP_BAD_HOST);
	if (seen.encoding && (seen.length || !is_11))
		return fault(ret_fault, HTTP_MALFORMED);
	head.websocket =
		head.websocket && is_get && is_11 && !head.chunked && head.content_length == 0;
	*ret = head;
	return 0;
}

void http_head_write(const char *data, const struct http_head *head, bool keep_upgrade,
		     struct buf *out)
{
	struct span rest = { data, head->len }, line = next_line(&rest);

	buf_append(out, line.at, line.len);
	buf_append_str(out, "\r\n");
	while ((line = next_line(&rest)).len > 0) {
		struct header header;

		if (split_header(line, &header) < 0)
			continue; /* none is left that could not be split */
		if (!keep_upgrade &&
		    (span_is(header.name, "Upgrade") || span_is(header.name, "HTTP2-Settings")))
			continue;
		if (span_is(header.name, "Host")) {
			buf_printf(out, "Host: %s", head->host);
			if (head->host_port)
				buf_printf(out, ":%u", (unsigned)head->host_port);
		} else {
			buf_append(out, header.name.at, header.name.len);
			buf_append_str(out, ": ");
			buf_append(out, header.value.at, header.value.len);
		}
		buf_append_str(out, "\r\n");
	}
	buf_append_str(out, "\r\n");
}

const char *http_fault_text(enum http_fault value)
{
	static const char *const texts[] = {
		[HTTP_OK] = "no fault",
		[HTTP_MALFORMED] = "what was sent is no plain HTTP/1 request",
		[HTTP_TOO_LONG] = "the head of the HTTP request is too long",
		[HTTP_NO_HOST] = "the HTTP request has no Host",
		[HTTP_BAD_HOST] =
			"the HTTP request's Host is no host name, or not that of its target",
		[HTTP_TWO_HOSTS] = "the HTTP request has more than one Host",
		[HTTP_CONNECT] = "the HTTP request asks for a tunnel (CONNECT)",
		[HTTP_HOST_CHANGED] = "a later HTTP request of the connection is for another Host",
	};

	return texts[value];
}
