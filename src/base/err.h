/*
 * Errors that a person or an agent will read.
 *
 * Functions that can fail return 0 or a negative errno. Where the reason matters to a reader they
 * also take a `struct err *` (on the caller's stack, may be NULL) as the last parameter and fill it
 * with: the errno, a stable machine-readable code, a message (what failed and why) and a hint (what
 * to do next). This is not for our own bugs: those are asserts.
 *
 * Messages: lower case, what failed first, the subject quoted, no full stop.
 */
#pragma once

#include <stddef.h>

struct err {
	int num;	   /* negative errno, 0 when unset */
	const char *code;  /* stable name, static storage ("not_found"); NULL: derived from num */
	char message[768]; /* what failed and why */
	char hint[384];	   /* what to do next; may be empty */
};

#define ERR_INIT ((struct err){ 0 })

/* Sets errno and message; returns num, so that `return err_set(err, -ENOENT, …)` reads well.
 * err may be NULL. num must be negative. */
int err_set(struct err *err, int num, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* As err_set, with a stable code (a string literal). */
int err_code(struct err *err, int num, const char *code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Sets what to do next. Returns nothing: without an err there is no number that it could return. */
void err_hint(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Puts "<fmt>: " before the message on the way up; code and hint stay. Returns num, which is
 * err->num where err is set. */
int err_wrap(struct err *err, int num, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#ifdef __clang_analyzer__
/* clang's analyzer looks at one file at a time: it is told here that an error is never a success.
 */
static inline int err_is_negative(int num)
{
	if (num >= 0)
		__builtin_unreachable();
	return num;
}
#define err_set(...)  err_is_negative(err_set(__VA_ARGS__))
#define err_code(...) err_is_negative(err_code(__VA_ARGS__))
#define err_wrap(...) err_is_negative(err_wrap(__VA_ARGS__))
#endif

/* The stable code: err->code, or one derived from err->num ("not_found" for ENOENT, "disk_full" for
 * ENOSPC, "invalid_argument" for EINVAL, "conflict" for EEXIST, "timeout" for ETIMEDOUT,
 * "forbidden" for EACCES and EPERM, "busy" for EAGAIN and EBUSY, else "internal"). */
const char *err_code_of(const struct err *err);
