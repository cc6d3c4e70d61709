/*
 * Server-sent events, after the "event stream interpretation" of the HTML standard: lines end with
 * LF, CR LF or CR; a blank line dispatches; "data" lines are joined by LF; comments, ids and retry
 * times are ignored (offsets are in the data).
 */
#include "cli/sse.h"

#include <errno.h>
#include <string.h>

void sse_init(struct sse *sse, sse_event_fn event, void *arg)
{
	*sse = (struct sse){ .event = event, .arg = arg, .max = SSE_EVENT_MAX };
}

void sse_clear(struct sse *sse)
{
	buf_clear(&sse->line);
	buf_clear(&sse->name);
	buf_clear(&sse->data);
}

void sse_reset(struct sse *sse)
{
	buf_reset(&sse->line);
	buf_reset(&sse->name);
	buf_reset(&sse->data);
	sse->has_data = sse->skip_newline = sse->begun = false;
}

static int dispatch(struct sse *sse)
{
	int r = 0;

	if (sse->has_data)
		r = sse->event(sse->arg, sse->name.len ? buf_str(&sse->name) : "message",
			       buf_str(&sse->data), sse->data.len);
	buf_reset(&sse->name);
	buf_reset(&sse->data);
	sse->has_data = false;
	return r;
}

static bool field_is(const char *line, size_t name_len, const char *name)
{
	return strlen(name) == name_len && memcmp(line, name, name_len) == 0;
}

static int end_line(struct sse *sse)
{
	const char *line = buf_str(&sse->line), *colon, *value;
	size_t len = sse->line.len, name_len, value_len;

	if (len == 0)
		return dispatch(sse);
	colon = memchr(line, ':', len);
	name_len = colon ? (size_t)(colon - line) : len;
	value = colon ? colon + 1 : line + len;
	value_len = (size_t)(line + len - value);
	if (value_len > 0 && *value == ' ') {
		value++;
		value_len--;
	}
	if (field_is(line, name_len, "event")) {
		buf_reset(&sse->name);
		buf_append(&sse->name, value, value_len);
	} else if (field_is(line, name_len, "data")) {
		if (sse->data.len + value_len + 1 > sse->max)
			return -EMSGSIZE;
		if (sse->has_data)
			buf_append_char(&sse->data, '\n');
		buf_append(&sse->data, value, value_len);
		sse->has_data = true;
	}
	return 0;
}

static int finish_line(struct sse *sse)
{
	int r;

	if (!sse->begun && sse->line.len >= 3 && memcmp(sse->line.data, "\xef\xbb\xbf", 3) == 0)
		buf_drop_front(&sse->line, 3);
	sse->begun = true;
	r = end_line(sse);
	buf_reset(&sse->line);
	return r;
}

static size_t until_line_end(const char *bytes, size_t len)
{
	size_t n = 0;

	while (n < len && bytes[n] != '\n' && bytes[n] != '\r')
		n++;
	return n;
}

int sse_feed(struct sse *sse, const void *bytes, size_t len)
{
	const char *at = bytes, *end = at + len;

	while (at < end) {
		size_t n;
		int r;

		if (sse->skip_newline) {
			sse->skip_newline = false;
			if (*at == '\n') {
				at++;
				continue;
			}
		}
		n = until_line_end(at, (size_t)(end - at));
		if (sse->line.len + n > sse->max)
			return -EMSGSIZE;
		buf_append(&sse->line, at, n);
		at += n;
		if (at == end)
			break;
		sse->skip_newline = *at == '\r';
		at++;
		r = finish_line(sse);
		if (r < 0)
			return r;
	}
	return 0;
}
