/*
 * The escape of `skerry shell`: at the beginning of a line, a tilde and a letter are for skerry and
 * not for the terminal in the sandbox. Pure.
 *
 *	~.   leave      ~^Z  suspend skerry      ~?  help      ~~  a tilde
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum escape_action { ESCAPE_NONE, ESCAPE_LEAVE, ESCAPE_SUSPEND, ESCAPE_HELP };

struct escape {
	bool in_line; /* something else than the end of a line came last */
	bool tilde;   /* one at the beginning of a line waits for what follows */
};

/* Appends to out what is for the terminal. Stops behind an escape; *ret_used says where. */
enum escape_action escape_filter(struct escape *escape, const char *data, size_t len,
				 size_t *ret_used, struct buf *out);
