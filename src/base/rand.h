/* Random bytes and names from the kernel (getrandom); aborts if the kernel has none to give. */
#pragma once

#include <stddef.h>

void rand_bytes(void *out, size_t len);
/* n lower-case hex digits and a NUL; out has n + 1 bytes. */
void rand_hex(char *out, size_t n);
/* n characters of [A-Za-z0-9], unbiased, and a NUL; out has n + 1 bytes. */
void rand_alnum(char *out, size_t n);
