/*
 * One connection to the server as a stream of bytes, for what is no request and answer: libcurl
 * finds the host, speaks TLS and goes through proxies; the rest is the caller's.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/err.h"

struct wire;

/* Connects, within a few seconds. Codes of err: "unreachable", "tls_failed", "connection_lost". */
int wire_open(const char *url, const char *ca_file, struct wire **ret, struct err *err);
void wire_close(struct wire *wire); /* NULL is fine */
int wire_fd(const struct wire *wire);
/* For the Host header, and what the URL's path puts before every path. */
const char *wire_host(const struct wire *wire);
const char *wire_prefix(const struct wire *wire);
/* Neither blocks: bytes, 0 at the end (read), -EAGAIN, or -ECONNRESET. Read until -EAGAIN before
 * waiting: TLS may hold more than the descriptor shows. */
ssize_t wire_read(struct wire *wire, void *out, size_t len);
ssize_t wire_write(struct wire *wire, const void *data, size_t len);
