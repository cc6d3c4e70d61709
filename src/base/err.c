/*
 * Filling and wrapping struct err. Text is formatted into a local first, because callers may pass
 * parts of the same err as arguments ("%s", err->message).
 */
#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* What the header makes of them for the analyzer. */
#undef err_set
#undef err_code
#undef err_wrap

/* vsnprintf that never leaves half a UTF-8 character at the cut. */
static void format_text(char *out, size_t out_size, const char *fmt, va_list ap)
	__attribute__((format(printf, 3, 0)));

static void format_text(char *out, size_t out_size, const char *fmt, va_list ap)
{
	int len = vsnprintf(out, out_size, fmt, ap);

	if (len < 0)
		out[0] = '\0';
	else if ((size_t)len >= out_size)
		out[utf8_whole_prefix(out, out_size - 1)] = '\0';
}

static void set_message(struct err *err, int num, const char *code, const char *message)
{
	err->num = num;
	err->code = code;
	str_copy(err->message, sizeof(err->message), message);
	err->hint[0] = '\0';
}

int err_set(struct err *err, int num, const char *fmt, ...)
{
	assert(num < 0);
	if (err) {
		char message[sizeof(err->message)];
		va_list ap;

		va_start(ap, fmt);
		format_text(message, sizeof(message), fmt, ap);
		va_end(ap);
		set_message(err, num, NULL, message);
	}
	return num;
}

int err_code(struct err *err, int num, const char *code, const char *fmt, ...)
{
	assert(num < 0);
	if (err) {
		char message[sizeof(err->message)];
		va_list ap;

		va_start(ap, fmt);
		format_text(message, sizeof(message), fmt, ap);
		va_end(ap);
		set_message(err, num, code, message);
	}
	return num;
}

void err_hint(struct err *err, const char *fmt, ...)
{
	char hint[sizeof(err->hint)];
	va_list ap;

	if (!err)
		return;
	va_start(ap, fmt);
	format_text(hint, sizeof(hint), fmt, ap);
	va_end(ap);
	str_copy(err->hint, sizeof(err->hint), hint);
}

int err_wrap(struct err *err, int num, const char *fmt, ...)
{
	char prefix[sizeof(err->message)];
	char inner[sizeof(err->message)];
	size_t used, room;
	va_list ap;

	assert(num < 0);
	if (!err)
		return num;
	if (err->num == 0)
		err->num = num;
	if (err->message[0])
		str_copy(inner, sizeof(inner), err->message);
	else
		str_copy(inner, sizeof(inner), strerrordesc_np(-err->num) ?: "unknown error");

	va_start(ap, fmt);
	format_text(prefix, sizeof(prefix), fmt, ap);
	va_end(ap);

	str_copy(err->message, sizeof(err->message), prefix);
	used = strlen(err->message);
	room = sizeof(err->message) - used;
	if (room > 2) {
		memcpy(err->message + used, ": ", 3);
		str_copy(err->message + used + 2, room - 2, inner);
	}
	return err->num;
}

const char *err_code_of(const struct err *err)
{
	if (err->code)
		return err->code;
	switch (-err->num) {
	case ENOENT:
		return "not_found";
	case ENOSPC:
		return "disk_full";
	case EINVAL:
		return "invalid_argument";
	case EEXIST:
		return "conflict";
	case ETIMEDOUT:
		return "timeout";
	case EACCES:
	case EPERM:
		return "forbidden";
	case EAGAIN:
	case EBUSY:
		return "busy";
	default:
		return "internal";
	}
}
