/*
 * The HTTP server and the REST surface on a core without machines (fake_core.h), and a client that
 * speaks to them over raw sockets. One at a time, in rest_rig.
 */
#pragma once

#include <stdbool.h>

#include "api/http.h"
#include "api/rest.h"
#include "base/buf.h"
#include "fake_core.h"
#include "loop/loop.h"
#include "loop/pool.h"

#define BODY_MAX	  4096
#define HEADER_TIMEOUT_MS 1500
#define PATIENCE_MS	  30000 /* for what comes at once, on a busy machine */

#define HOST  "Host: 127.0.0.1\r\n"
#define KEY   "Authorization: Bearer " FAKE_KEY "\r\n"
#define CLOSE "Connection: close\r\n"
#define JSON  "Content-Type: application/json\r\n"

struct rest_rig {
	struct loop *loop;
	struct pool *pool;
	struct core *core;
	struct rest *rest;
	struct http_server *http;
};
extern struct rest_rig rest_rig;

/* For cmocka's groups. */
int rest_rig_start(void **state);
int rest_rig_stop(void **state);

int rest_dial(void);
void rest_send(int fd, const char *text);
/* Reads until `until` was seen (NULL: until the end of the connection). false: time was up. */
bool rest_read_until(int fd, struct buf *out, const char *until, int timeout_ms);
/* One request on a connection of its own; the whole answer. */
void rest_exchange(const char *request, struct buf *out);
/* The same, with the key, of a body of JSON, and of none. */
void rest_post(const char *path, const char *headers, const char *body, struct buf *out);
void rest_get(const char *method, const char *path, struct buf *answer);
int rest_status_of(const struct buf *answer);
/* part NULL: only the status. */
void rest_assert_answer(const struct buf *answer, int status, const char *part);
