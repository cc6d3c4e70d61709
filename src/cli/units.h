/* Durations, times and sizes as people write and read them. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* "500ms", "90s", "15m", "2h", "1d", also joined from large to small: "1h30m". Units are required.
 * -EINVAL, or -ERANGE above 366 days. */
int duration_parse(const char *text, int64_t *ret_ms);

#define UNITS_TEXT_SIZE 48
/* The two largest units that matter: "1.2 s", "45 s", "14m 59s", "2h"; returns out. */
const char *duration_text(int64_t ms, char out[UNITS_TEXT_SIZE]);
/* The largest unit alone, for columns: "45s", "14m", "2h", "3d". */
const char *duration_short(int64_t ms, char out[UNITS_TEXT_SIZE]);

/* RFC 3339 in UTC, with or without a fraction, to milliseconds since the epoch; -EINVAL. */
int time_parse(const char *text, int64_t *ret_unix_ms);

/* "512 B", "4.0 MiB", "1.2 GiB"; returns out. */
const char *bytes_text(int64_t bytes, char out[UNITS_TEXT_SIZE]);

/* Micro-credits as credits: "1234.50", rounded to cents; what is below one to the micro-credit:
 * "0.000280". Returns out. */
const char *credits_text(int64_t microcredits, char out[UNITS_TEXT_SIZE]);
