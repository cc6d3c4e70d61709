/*
 * Clocks. Deadlines and durations use CLOCK_BOOTTIME (monotonic, counts suspend); wall-clock time
 * is only for showing and storing.
 */
#pragma once

#include <stdint.h>

int64_t clock_boottime_ms(void);
int64_t clock_boottime_us(void);
int64_t clock_unix_ms(void);

#define CLOCK_RFC3339_SIZE 32
/* "2026-11-30T04:01:00.123Z"; returns out. */
const char *clock_rfc3339(int64_t unix_ms, char out[CLOCK_RFC3339_SIZE]);
/* The same text back, in exactly that form: -EINVAL for any other. */
int clock_parse_rfc3339(const char *text, int64_t *ret_unix_ms);

/* Milliseconds from now to the deadline, clamped to 0 … INT_MAX, for poll(2). */
int clock_remaining_ms(int64_t deadline_boottime_ms);

/* The kernel's random boot id, 36 characters and NUL; 0 or -errno. */
int clock_boot_id(char out[37]);
