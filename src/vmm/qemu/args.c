#include "vmm/qemu/args.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/buf.h"

void args_clear(struct args *args)
{
	for (size_t i = 0; i < args->n; i++)
		free(args->v[i]);
	free(args->v);
	*args = ARGS_INIT;
}

static void push(struct args *args, char *string)
{
	args->v = xrealloc(args->v, (args->n + 2) * sizeof(*args->v));
	args->v[args->n++] = string;
	args->v[args->n] = NULL;
}

static void push_formatted(struct args *args, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

static void push_formatted(struct args *args, const char *fmt, va_list ap)
{
	struct buf text = BUF_INIT;

	buf_vprintf(&text, fmt, ap);
	push(args, buf_take(&text));
}

void args_add(struct args *args, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	push_formatted(args, fmt, ap);
	va_end(ap);
}

void args_option(struct args *args, const char *option, const char *fmt, ...)
{
	va_list ap;

	push(args, xstrdup(option));
	va_start(ap, fmt);
	push_formatted(args, fmt, ap);
	va_end(ap);
}
