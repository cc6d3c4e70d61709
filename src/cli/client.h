/*
 * The HTTP side: requests to one skerryd, several at once on the caller's thread (libcurl's multi
 * interface). JSON or bytes go out, JSON, server-sent events or bytes come in. It knows no routes.
 *
 * Never follows redirects (they would carry the key elsewhere), never uses a proxy for a loopback
 * address, and reads at most CLIENT_BODY_MAX bytes of an answer.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"

#define CLIENT_BODY_MAX (64u << 20)

struct client;
struct client_request; /* one request under way */

struct client_config {
	const char *url;     /* http:// or https://, without a trailing slash */
	const char *key;     /* NULL: no Authorization header */
	const char *ca_file; /* certificates to trust instead of the system's; NULL: the system's */
};

struct client_response {
	long status; /* 0: none came */
	char content_type[64];
	char header[128]; /* the value of the spec's want_header; "" */
	int64_t length;	  /* as announced; -1: it was not */
	struct buf body;  /* stays empty when the answer was streamed */
};

#define CLIENT_RESPONSE_INIT ((struct client_response){ 0 })
void client_response_clear(struct client_response *response);
#define _cleanup_response_ _cleanup_(client_response_clear)

int client_new(const struct client_config *config, struct client **ret, struct err *err);
void client_free(struct client *client);

/* True when the URL's host is this machine's own: "localhost", 127.0.0.0/8 or ::1. Pure. */
bool client_url_is_loopback(const char *url);
/* Appends text with everything but unreserved characters percent-encoded. Pure. */
void client_escape(struct buf *out, const char *text);

/* What every connection to a server has in common, set on one of libcurl's easy handles: where it
 * goes, HTTP/1.1 alone, no proxy for this machine, whom to trust. */
void client_set_up(void *easy, const char *url, const char *ca_file);
/* Why there is no answer of the server, from libcurl's code; returns err's number. */
int client_explain(const char *url, int curl_code, struct err *err);

struct client_spec {
	const char *method;
	const char *path;	     /* "/v1/…", already encoded */
	const json_t *body;	     /* borrowed during the call; NULL: none */
	const char *idempotency_key; /* or NULL */
	bool accept_events;	     /* Accept: text/event-stream before JSON */
	int64_t timeout_ms;	     /* 0: a default (two minutes); negative: none */
	const char *const *headers;  /* more of them, "Name: value", NULL-terminated; NULL: none */
	const char *user_agent;	     /* NULL: a default */
	bool once;	    /* on a connection of its own: libcurl repeats what it sent on one that
			       turns out to be closed */
	int64_t silence_ms; /* a stream without a byte for so long counts as lost; 0: never */

	/* A body of bytes instead of JSON: up to max of them, 0 at its end, or a negative number
	 * that ends the request. May wait. */
	ssize_t (*read)(void *arg, void *out, size_t max);
	int64_t read_length;	 /* -1: not known beforehand */
	const char *want_header; /* of a 2xx answer; NULL: none */
	/* Bytes of a 2xx answer of any type as they come; the response (but for its body) is known.
	 * A negative return ends the request. NULL: it is collected. */
	int (*bytes)(void *arg, const struct client_response *response, const void *bytes,
		     size_t len);
	/* Bytes of a 2xx text/event-stream as they come; a negative return ends the request. NULL:
	 * such an answer is collected like any other. */
	int (*events)(void *arg, const void *bytes, size_t len);
	/* Once, from client_poll. err is NULL when an answer came (of any status). Codes of err:
	 * "unreachable" (nothing was sent), "connection_lost", "timeout", "tls_failed",
	 * "too_large", "stopped" (a callback asked for the end). The response is the callee's to
	 * take from or leave. */
	void (*done)(void *arg, struct client_response *response, const struct err *err);
	void *arg;
};

int client_start(struct client *client, const struct client_spec *spec, struct client_request **ret,
		 struct err *err);
/* Ends a request without calling done. Not from within a callback. NULL is fine. */
void client_cancel(struct client *client, struct client_request *request);
/* Waits until something moves, a descriptor of fds (its revents are set) is ready, or timeout_ms,
 * then runs callbacks. */
int client_poll(struct client *client, struct pollfd *fds, unsigned int n_fds, int timeout_ms,
		struct err *err);

/* One request, start to end. tick (may be NULL) is called about ten times a second while it waits.
 */
int client_call(struct client *client, const struct client_spec *spec, void (*tick)(void *arg),
		void *tick_arg, struct client_response *ret, struct err *err);
