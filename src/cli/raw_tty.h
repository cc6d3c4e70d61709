/*
 * Our own terminal, handed over key by key: nothing is echoed or interpreted here. However skerry
 * ends, the terminal is put back as it was: by raw_tty_leave, and by a handler when a signal ends
 * the program that is not waited for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* stdin. 0 or -errno. Once a program. */
int raw_tty_enter(void);
/* Fine when it was not entered, or left already. */
void raw_tty_leave(void);
bool raw_tty_is_on(void);

/* Of the terminal on stdin; false when it does not say. */
bool tty_size(uint32_t *ret_cols, uint32_t *ret_rows);
