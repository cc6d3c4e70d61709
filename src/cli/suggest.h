/* "Did you mean": the nearest known word to one that is not known. Pure. */
#pragma once

#include "cli/cli.h"

/* Borrowed from the table; NULL when nothing is near. */
const char *suggest_command(const char *name);
/* shown is the option as written ("--timout"), of len bytes; command may be NULL. */
const char *suggest_option(const struct cli_command *command, const char *shown, size_t len);
/* Changes of one character (insert, remove, replace, swap of two neighbours) between a and b; words
 * longer than 63 bytes are "far" (100). */
unsigned int suggest_distance(const char *a, const char *b);
