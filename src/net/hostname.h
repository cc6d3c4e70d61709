/*
 * Host names as rules, DNS questions, TLS and HTTP write them, brought to one spelling: lower case,
 * ASCII (international names as A-labels), no trailing dot. Whatever cannot be written that way is
 * refused here, so that everything behind compares with strcmp(3).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HOSTNAME_MAX	   253 /* bytes, without a trailing dot */
#define HOSTNAME_LABEL_MAX 63

/* Checks and canonicalises an ASCII name; one trailing dot is dropped. 0 or -EINVAL, then *ret_why
 * (if not NULL) is a static phrase that continues "the name …". out is written only on success. */
int hostname_canon(const char *text, size_t len, char out[HOSTNAME_MAX + 1], const char **ret_why);

/* As above, and UTF-8 is taken too: converted as IDNA2008 with UTS 46 (lookup). */
int hostname_canon_idna(const char *text, size_t len, char out[HOSTNAME_MAX + 1],
			const char **ret_why);

/* Whether the last label looks like a number ("1.2.3.4", "1", "0x7f.1", "a.0"): such a text is an
 * address, or a misspelt one, never a name. */
bool hostname_ends_in_number(const char *text, size_t len);

/* Whether name is below domain ("a.example.com" and "example.com"); not when they are equal. Both
 * canonical. */
bool hostname_below(const char *name, const char *domain);
