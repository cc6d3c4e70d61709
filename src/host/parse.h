/* What the kernel's and others' texts say. Pure. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* "6.18.5-amd64", "QEMU emulator version 7.2.22 (Debian …)": the first number with a dot in it, as
 * major and minor. -EINVAL when there is none. */
int host_parse_version(const char *text, int *ret_major, int *ret_minor);
/* Whether a list of words (between blanks and line breaks) has this one. */
bool host_has_word(const char *text, const char *word);
/* The number of kB behind "NAME:" in /proc/meminfo; -1 when there is none. */
int64_t host_parse_meminfo(const char *text, const char *name);
