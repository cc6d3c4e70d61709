/*
 * Small helpers over jansson (its own library: base_json). Values returned by get functions are
 * borrowed from the object.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

static inline void cleanup_jsonp(json_t **j)
{
	json_decref(*j);
}
#define _cleanup_json_ _cleanup_(cleanup_jsonp)

/* Strict parse (duplicate keys refused, depth bounded by jansson): -EINVAL with line, column and
 * reason in err. NUL escapes are accepted (JSON_ALLOW_NUL) so that callers can name the field that
 * has one. */
int json_parse(const char *text, size_t len, json_t **ret, struct err *err);

/* Compact text; appended to out. */
void json_write(const json_t *value, struct buf *out);
/* The same of a string alone, which must be valid UTF-8 and is not copied for it. */
void json_write_string(const char *text, size_t len, struct buf *out);

const char *json_get_str(const json_t *obj, const char *key, const char *fallback);
int64_t json_get_int(const json_t *obj, const char *key, int64_t fallback);
bool json_get_bool(const json_t *obj, const char *key, bool fallback);

/* Sets key to value, dropping the caller's reference; aborts when out of memory. */
void json_put(json_t *obj, const char *key, json_t *value);
void json_put_str(json_t *obj, const char *key, const char *value); /* NULL becomes null */
void json_put_int(json_t *obj, const char *key, int64_t value);
void json_put_time(json_t *obj, const char *key, int64_t unix_ms); /* RFC 3339; 0 becomes null */

/* A JSON string of len bytes of output of a command: valid UTF-8 is kept, invalid bytes become
 * U+FFFD each. NULs are kept. */
json_t *json_from_bytes(const void *data, size_t len);
