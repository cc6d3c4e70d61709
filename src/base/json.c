/* Helpers over jansson. Values that cannot be made mean no memory: abort, as everywhere in base. */
#include "base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

static void check(bool ok, const char *what)
{
	if (!ok) {
		log_error("json value cannot be made", "step=%s", what);
		abort();
	}
}

int json_parse(const char *text, size_t len, json_t **ret, struct err *err)
{
	const size_t flags = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY;
	json_error_t reason;
	json_t *value = json_loadb(text, len, flags, &reason);

	if (!value)
		return err_set(err, -EINVAL, "json is not valid at line %d, column %d: %s",
			       reason.line, reason.column, reason.text);
	*ret = value;
	return 0;
}

const char *json_get_str(const json_t *obj, const char *key, const char *fallback)
{
	const json_t *value = json_object_get(obj, key);

	return json_is_string(value) ? json_string_value(value) : fallback;
}

int64_t json_get_int(const json_t *obj, const char *key, int64_t fallback)
{
	const json_t *value = json_object_get(obj, key);

	return json_is_integer(value) ? json_integer_value(value) : fallback;
}

bool json_get_bool(const json_t *obj, const char *key, bool fallback)
{
	const json_t *value = json_object_get(obj, key);

	return json_is_boolean(value) ? json_is_true(value) : fallback;
}

void json_put(json_t *obj, const char *key, json_t *value)
{
	check(json_object_set_new(obj, key, value) == 0, key);
}

void json_put_str(json_t *obj, const char *key, const char *value)
{
	json_put(obj, key, value ? json_from_bytes(value, strlen(value)) : json_null());
}

void json_put_int(json_t *obj, const char *key, int64_t value)
{
	json_put(obj, key, json_integer(value));
}

void json_put_time(json_t *obj, const char *key, int64_t unix_ms)
{
	char text[CLOCK_RFC3339_SIZE];

	json_put_str(obj, key, unix_ms ? clock_rfc3339(unix_ms, text) : NULL);
}

/* Copies data with U+FFFD in place of every byte that is not part of a valid character. */
static void append_sanitised(struct buf *out, const uint8_t *data, size_t len)
{
	while (len > 0) {
		int n = utf8_next(data, len);

		if (n > 0) {
			buf_append(out, data, (size_t)n);
		} else {
			buf_append_str(out, "\xef\xbf\xbd");
			n = 1;
		}
		data += n;
		len -= (size_t)n;
	}
}

json_t *json_from_bytes(const void *data, size_t len)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	json_t *value;

	if (utf8_valid(data, len)) {
		value = json_stringn_nocheck(len ? data : "", len);
	} else {
		append_sanitised(&text, data, len);
		value = json_stringn_nocheck(buf_str(&text), text.len);
	}
	check(value != NULL, "string");
	return value;
}
