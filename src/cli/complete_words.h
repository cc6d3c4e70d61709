/*
 * What a completion script may offer for ids and names, asked of the server at the moment. It is
 * silent and quick: somebody has pressed a key and waits.
 */
#pragma once

#include "cli/cli.h"

/* The first word of main's, for the scripts alone: in no help. */
#define COMPLETE_WORDS_OPTION "--complete"

/* Words as the scripts ask for them: "sandboxes"; NULL: there is nothing to ask for. */
const char *complete_words_of(enum cli_complete complete);
/* Prints them, a line each; nothing when the server does not answer. Exit code. */
int complete_words(const char *what);
