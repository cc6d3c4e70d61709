/* Command lines for a POSIX shell. Pure. */
#pragma once

#include <stddef.h>

#include "base/buf.h"

/* Appends word so that a shell reads exactly it: plain where that is safe, else in single quotes.
 */
void shell_quote(const char *word, struct buf *out);

/* What `skerry exec … -- WORDS` means: one word is shell text as it is; several are a program and
 * its arguments, each quoted. */
void shell_command(const char *const *words, size_t n, struct buf *out);
