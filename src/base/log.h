/*
 * Structured, levelled logging to stderr, one line a failure or event. When stderr is the journal
 * (JOURNAL_STREAM is set and matches) lines carry the <N> priority prefix and no time; otherwise
 * `2026-11-30T04:01:00.123Z level message key=value …`. Keys, env, stdin and output of commands are
 * never logged. Thread-safe; a line is written by one write(2).
 */
#pragma once

#include <stdarg.h>

enum log_level { LOG_LVL_DEBUG, LOG_LVL_INFO, LOG_LVL_WARN, LOG_LVL_ERROR };

void log_init(enum log_level level); /* call once in main(); default level is info */
/* debug|info|warn|error, else -EINVAL */
int log_level_parse(const char *name, enum log_level *ret_level);

/* fields is a printf format of `key=value` pairs that follow the message, or NULL; e.g.
 * log_info("sandbox created", "sandbox=%s duration_ms=%lld", id, ms). Control characters in the
 * finished line are replaced, so that no value can forge a second line; use fields="%s" with an
 * empty string where there are none. */
void log_write(enum log_level level, const char *message, const char *fields, ...)
	__attribute__((format(printf, 3, 4)));

#define log_debug(message, ...) log_write(LOG_LVL_DEBUG, message, __VA_ARGS__)
#define log_info(message, ...)	log_write(LOG_LVL_INFO, message, __VA_ARGS__)
#define log_warn(message, ...)	log_write(LOG_LVL_WARN, message, __VA_ARGS__)
#define log_error(message, ...) log_write(LOG_LVL_ERROR, message, __VA_ARGS__)

/* What this thread logs until log_request_end is about a request: its id (copied, at most 64
 * characters; "": none) goes into every line. */
void log_request_begin(const char *id);
void log_request_end(void);
