/*
 * The terminal of the core without machines: one, "term_00000000000000aa", whose shell writes back
 * what it is given, a few bytes at a time; it ends with code 7 when it is given the byte 04 (^D).
 *
 *	command "spew"   begins with FAKE_TERMINAL_SPEW bytes of output
 *	command "none"   cannot be started
 *	command "over"   has ended before anybody looks
 */
#pragma once

#include "core/terminal.h"

#define FAKE_TERMINAL_ID   "term_00000000000000aa"
#define FAKE_TERMINAL_SPEW (8u << 20)

/* Loop's thread. The sandbox ends, is paused or goes on. */
void fake_terminal_end(void);
void fake_terminal_pause(bool paused);
int fake_terminals_viewed(void); /* viewers that were not closed */
