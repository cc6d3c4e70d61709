/*
 * The hash chain of the audit: lines of JSON, each naming the hash of the one before it.
 *
 *	{"seq":17,"prev":"<hash of 16>",…,"hash":"<hash of 17>"}
 *
 * The hash of a line is SHA-256 over its text without the last member: from the first brace to the
 * comma before "hash", and a closing brace. So a line that was changed has not its own hash any
 * more, and one that was taken out, put in or moved is not the one that its neighbour names. The
 * first line of all names a hash of zeros.
 *
 * Pure: the server writes with it, and the command line checks with it what it was given, which may
 * be anything. Not for the guest.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define CHAIN_HASH_SIZE 65 /* in hex */

extern const char chain_no_hash[CHAIN_HASH_SIZE]; /* zeros: what the first line names */

/* Of a line without its hash: `{"seq":…}`. */
void chain_hash(const char *body, size_t len, char out[CHAIN_HASH_SIZE]);
/* The whole line, without a newline, of such a body and its hash. */
void chain_line(struct buf *out, const char *body, size_t len, const char *hash);

/* What was checked so far. */
struct chain {
	int64_t n;     /* lines */
	int64_t first; /* the number of the first one; 0: there was none */
	int64_t last;
	char before[CHAIN_HASH_SIZE]; /* what the first one names */
	char head[CHAIN_HASH_SIZE];   /* of the last one */
};

/* The next line, without its newline. The first one may be any of a chain; whether it should be the
 * first of all is for the caller to say. -EBADMSG: it is not the one that belongs here, and why;
 * nothing was taken then. */
int chain_take(struct chain *chain, const char *text, size_t len, struct err *err);
