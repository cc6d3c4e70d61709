/*
 * HTTP/1 requests on their way to a server, checked one by one. Pure.
 *
 * A connection may carry many requests, and each may name another host: so each head is read, what
 * leaves room for two readings is refused, and what goes on to the server is written anew from what
 * was understood. Between heads stands exactly the body that the head announced. All requests of a
 * connection must be for the host of the first one.
 *
 * Only a WebSocket takes a connection out of HTTP, and only when the server has agreed (101);
 * offers of anything else (HTTP/2 in clear text) are left out of the request, so that the server
 * stays with HTTP/1.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "net/hostname.h"

#define HTTP_HEAD_MAX	 32768 /* bytes of request line and headers */
#define HTTP_HEADERS_MAX 128
#define HTTP_TRAILER_MAX 8192 /* bytes behind the last chunk, and of a chunk's size line */

enum http_fault {
	HTTP_OK,
	HTTP_MALFORMED, /* no HTTP/1.0 or 1.1, or one that can be read in two ways */
	HTTP_TOO_LONG,
	HTTP_NO_HOST,
	HTTP_BAD_HOST, /* an address or something that is no host name; or target and Host differ */
	HTTP_TWO_HOSTS,
	HTTP_CONNECT,
	HTTP_HOST_CHANGED,
};
const char *http_fault_text(enum http_fault value); /* lower case, no full stop */

struct http_head {
	size_t len; /* of the head, with its empty line */
	char host[HOSTNAME_MAX + 1];
	uint16_t host_port; /* as Host has it; 0: it has none */
	bool websocket;	    /* asks for one, and could get it */
	bool chunked;
	int64_t content_length; /* 0 where there is none */
};

/* 0, -EAGAIN while the head is not complete, or -EACCES with *ret_fault. */
int http_head_parse(const char *data, size_t len, struct http_head *ret,
		    enum http_fault *ret_fault);

/* The same head for the server: line by line, Host in its canonical spelling, and no Upgrade unless
 * wanted. data is what was parsed. */
void http_head_write(const char *data, const struct http_head *head, bool keep_upgrade,
		     struct buf *out);

enum http_state {
	HTTP_IN_HEAD,
	HTTP_IN_BODY,
	HTTP_IN_CHUNK_SIZE,
	HTTP_IN_CHUNK,
	HTTP_BEHIND_CHUNK,
	HTTP_IN_TRAILER,
	HTTP_WAITS_FOR_UPGRADE, /* takes nothing until http_filter_upgraded */
	HTTP_RAW,
};

struct http_filter {
	enum http_state state;
	enum http_fault fault;
	char host[HOSTNAME_MAX + 1]; /* of the first request; empty before */
	size_t requests;
	uint64_t left;	 /* bytes of body or chunk to come */
	struct buf line; /* of the head, size line or trailer so far */
};

void http_filter_init(struct http_filter *filter);
void http_filter_clear(struct http_filter *filter);

/* Takes bytes of the client and appends to out what may go to the server; *ret_used says how many
 * were taken. 0, or -EACCES with filter->fault set, once and for all. */
int http_filter_feed(struct http_filter *filter, const char *data, size_t len, size_t *ret_used,
		     struct buf *out);
/* In HTTP_WAITS_FOR_UPGRADE: the server has answered, with 101 or with something else. */
void http_filter_upgraded(struct http_filter *filter, bool yes);
/* Whether the client may end here: between two requests, or in a connection that was upgraded. */
bool http_filter_may_end(const struct http_filter *filter);
