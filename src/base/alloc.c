/* Allocation that cannot fail. The line before abort() is written without allocating. */
#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static void *check(void *p)
{
	if (!p) {
		log_error("out of memory", "%s", "");
		abort();
	}
	return p;
}

/* malloc(0) may return NULL, which would read as a failure. */
static size_t at_least_one(size_t size)
{
	return size ? size : 1;
}

void *xmalloc(size_t size)
{
	return check(malloc(at_least_one(size)));
}

void *xcalloc(size_t n, size_t size)
{
	return check(calloc(at_least_one(n), at_least_one(size)));
}

void *xrealloc(void *p, size_t size)
{
	return check(realloc(p, at_least_one(size)));
}

char *xstrdup(const char *s)
{
	return check(strdup(s));
}

char *xstrndup(const char *s, size_t n)
{
	return check(strndup(s, n));
}

char *xasprintf(const char *fmt, ...)
{
	char *text = NULL;
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vasprintf(&text, fmt, ap);
	va_end(ap);
	return check(len < 0 ? NULL : text);
}
