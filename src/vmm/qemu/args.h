/* A growing argument vector that owns its strings; always NULL-terminated. */
#pragma once

#include <stddef.h>

struct args {
	char **v;
	size_t n;
};
#define ARGS_INIT ((struct args){ 0 })

void args_clear(struct args *args);
void args_add(struct args *args, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Adds an option and its value. */
void args_option(struct args *args, const char *option, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
