/*
 * A parser for server-sent events (text/event-stream), fed with bytes as they come, split anywhere.
 * Pure: no I/O. Memory is bounded by the largest event, whatever the server sends.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define SSE_EVENT_MAX (8u << 20)

/* name is "message" when the event had none. Both end with a NUL that is not counted; valid during
 * the call. Returns 0, or a negative value that ends the parsing and is handed to the feeder. */
typedef int (*sse_event_fn)(void *arg, const char *name, const char *data, size_t len);

struct sse {
	sse_event_fn event;
	void *arg;
	struct buf line;
	struct buf name;
	struct buf data;
	size_t max; /* bytes of a line, and of an event; SSE_EVENT_MAX at first */
	bool has_data;
	bool skip_newline; /* the last byte was a CR: a following LF belongs to it */
	bool begun;	   /* the byte order mark has been looked for */
};

void sse_init(struct sse *sse, sse_event_fn event, void *arg);
void sse_clear(struct sse *sse);
/* Forgets what is half read, for a new connection. */
void sse_reset(struct sse *sse);
/* 0, -EMSGSIZE (line or event over its bound), or what the callback returned. */
int sse_feed(struct sse *sse, const void *bytes, size_t len);
