/* "Did you mean": the nearest known word to one that is not known. Pure. */
#pragma once

#include "cli/cli.h"

/* The nearest of the words that are considered, one after the other. */
struct suggestion {
	const char *typed;
	const char *word; /* borrowed; NULL: none is near */
	unsigned int distance;
};
struct suggestion suggest_begin(const char *typed);
void suggest_consider(struct suggestion *nearest, const char *word);

/* Borrowed from the table; NULL when nothing is near. Words that other programs have for it count
 * as near ("list", "delete", "ssh"). */
const char *suggest_command(const char *name);
/* shown is the option as written ("--timout"), of len bytes; command may be NULL. */
const char *suggest_option(const struct cli_command *command, const char *shown, size_t len);
/* Changes of one character (insert, remove, replace, swap of two neighbours) between a and b; words
 * longer than 63 bytes are "far" (100). */
unsigned int suggest_distance(const char *a, const char *b);
