/*
 * What a sandbox tried to reach and was not let: the newest of it, bounded, so that an agent learns
 * why something failed and which rule would allow it. Repetitions of one thing count as one entry.
 *
 * Not thread-safe; knows no sandbox. Times are Unix milliseconds.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

/* How many of them the result of a command shows. */
#define DENIALS_SHOWN 8

struct denial {
	const char *host;   /* NULL: not known */
	uint32_t address;   /* host byte order; 0: not known */
	uint16_t port;	    /* 0: none */
	uint8_t protocol;   /* as in the IPv4 header; 0: not known */
	const char *reason; /* one clause */
	const char *rule;   /* that would allow it; NULL: none would */
};

struct denials {
	struct denial_entry *list; /* by their newest occurrence, oldest first */
	size_t n, max;
	uint64_t seq;	     /* of the newest occurrence; the first is 1 */
	uint64_t unreported; /* that came too fast to be told apart */
};

void denials_init(struct denials *denials, size_t max);
void denials_clear(struct denials *denials);
void denials_add(struct denials *denials, const struct denial *denial, int64_t now_unix_ms);

/* One as an object for people and programs; owned by the caller. */
json_t *denial_json(const struct denial *denial);
/* All, newest first, in the same way, with times and counts; owned by the caller. */
json_t *denials_json(const struct denials *denials);
/* Those that occurred after `after` and up to `upto`, the newest DENIALS_SHOWN of them, in short;
 * NULL when there are none. */
json_t *denials_short_json(const struct denials *denials, uint64_t after, uint64_t upto);
