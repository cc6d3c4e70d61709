/*
 * What the guest's console and the VMM's stderr said last: a ring of fixed size, and the reading of
 * it at the exit. The bytes are hostile: a guest can claim a panic, which then is what its own
 * record says.
 */
#pragma once

#include <stddef.h>

#define CONSOLE_SIZE (64u * 1024u)

struct console {
	char ring[CONSOLE_SIZE];
	size_t total; /* bytes ever appended */
};

enum console_verdict { CONSOLE_QUIET, CONSOLE_PANIC, CONSOLE_OUT_OF_MEMORY };

void console_append(struct console *console, const void *data, size_t len);
/* The kept bytes in order; out has CONSOLE_SIZE bytes. Returns their number. */
size_t console_copy(const struct console *console, char *out);

/* Looks for the kernel's last words. ret_sentence (may be cut) gets the panic's own line, or where
 * there was no panic the last line that says anything; "" when there is none. */
enum console_verdict console_read(const struct console *console, char *ret_sentence, size_t size);
