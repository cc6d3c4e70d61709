/*
 * Telling the service manager how the daemon is (sd_notify's protocol, without its library).
 * Nothing happens where none has asked.
 */
#pragma once

#include <stdint.h>

#include "loop/loop.h"

/* "READY=1", "STOPPING=1", "STATUS=…"; several with line breaks between them. Any thread. */
void notify_manager(const char *state);

/* How long the manager bears to hear nothing of this process; 0: for ever. */
int64_t notify_watchdog_us(void);

/* Tells it from the loop, by a timer, that the loop goes round; a loop that hangs is silent, and
 * the manager starts the daemon anew. NULL where it does not want to know. Both on the loop's
 * thread. */
struct watchdog;
struct watchdog *watchdog_new(struct loop *loop);
void watchdog_free(struct watchdog *watchdog); /* NULL is fine */
