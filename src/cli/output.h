/*
 * What people see: results on stdout, everything else on stderr. Colours and the progress line only
 * where that stream is a terminal, so that what is piped or logged is plain text.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "cli/client.h"

enum style { STYLE_PLAIN, STYLE_BOLD, STYLE_DIM, STYLE_GREEN, STYLE_YELLOW, STYLE_RED };

/* Whether a stream is coloured: what SKERRY_COLOR says (always, never; --color sets it for this
 * program), else a terminal is, unless NO_COLOR is set or it is a dumb one. */
#define STYLE_VARIABLE "SKERRY_COLOR"
/* Escape sequences, or "" where the stream shows none. */
const char *style_on(FILE *stream, enum style style);
const char *style_off(FILE *stream);

/* Columns of the terminal on stdout; 0 when stdout is none. */
unsigned int output_width(void);

/* Everything to stdout; CLI_OK, or CLI_FAILED with a message when it cannot be written. */
int output_write(const void *data, size_t len);

struct table;
/* A table to stdout, its titles bold, cut to the terminal where there is one; as output_write. */
int output_table(const struct table *table);

/* "skerry: …" and "hint: …" on stderr; returns the exit code that fits. */
int report_err(const struct err *err);
/* The same of a command line that cannot be; hint may be NULL. */
int report_usage(const char *message, const char *hint);
/* The same from an answer that is not 2xx: problem details (RFC 9457) where it has them. */
int report_response(const struct client_response *response);
/* "skerry: …" on stderr. */
void report_note(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* ---- progress of long work: one moving line on stderr, where that is a terminal ---- */

struct progress {
	const char *what; /* borrowed; NULL: nothing is shown */
	int64_t since_ms;
	int64_t shown_ms; /* when the line was last drawn; 0: never */
	int percent;	  /* -1: unknown */
	char line[256];	  /* newest step */
};

/* Shows nothing before delay_ms have passed. quiet: never. */
void progress_begin(struct progress *progress, const char *what, bool quiet);
/* Draws again when it is time; arg is a struct progress (for client_call). */
void progress_tick(void *arg);
void progress_set(struct progress *progress, int percent, const char *line);
/* Removes the moving line. */
void progress_end(struct progress *progress);
