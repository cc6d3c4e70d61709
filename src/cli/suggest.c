/*
 * Nearest words by optimal string alignment distance. A suggestion is made only when fewer than
 * half of the characters of what was typed would have to change.
 */
#include "cli/suggest.h"

#include <string.h>

#include "base/str.h"

#define WORD_MAX 63
#define FAR	 100

static unsigned int min3(unsigned int a, unsigned int b, unsigned int c)
{
	unsigned int ab = a < b ? a : b;

	return ab < c ? ab : c;
}

unsigned int suggest_distance(const char *a, const char *b)
{
	unsigned int rows[3][WORD_MAX + 1];
	size_t a_len = strlen(a), b_len = strlen(b);

	if (a_len > WORD_MAX || b_len > WORD_MAX)
		return FAR;
	for (size_t j = 0; j <= b_len; j++)
		rows[0][j] = (unsigned int)j;
	for (size_t i = 1; i <= a_len; i++) {
		unsigned int *row = rows[i % 3], *above = rows[(i + 2) % 3],
			     *above2 = rows[(i + 1) % 3];

		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= b_len; j++) {
			unsigned int differ = a[i - 1] != b[j - 1];

			row[j] = min3(above[j] + 1, row[j - 1] + 1, above[j - 1] + differ);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    above2[j - 2] + 1 < row[j])
				row[j] = above2[j - 2] + 1;
		}
	}
	return rows[a_len % 3][b_len];
}

struct suggestion suggest_begin(const char *typed)
{
	return (struct suggestion){ .typed = typed, .distance = FAR };
}

void suggest_consider(struct suggestion *nearest, const char *word)
{
	unsigned int distance = suggest_distance(nearest->typed, word);

	if (distance < nearest->distance && distance * 2 < strlen(nearest->typed)) {
		nearest->distance = distance;
		nearest->word = word;
	}
}

/* What the same is called elsewhere. */
static const struct {
	const char *typed, *command;
} synonyms[] = {
	{ "list", "ls" },	{ "ps", "ls" },		{ "delete", "rm" },
	{ "destroy", "rm" },	{ "remove", "rm" },	{ "kill", "rm" },
	{ "terminate", "rm" },	{ "run", "exec" },	{ "ssh", "shell" },
	{ "attach", "shell" },	{ "console", "shell" }, { "terminal", "shell" },
	{ "start", "create" },	{ "new", "create" },	{ "launch", "create" },
	{ "spawn", "create" },	{ "inspect", "get" },	{ "show", "get" },
	{ "describe", "get" },	{ "info", "get" },	{ "stop", "pause" },
	{ "suspend", "pause" }, { "clone", "fork" },	{ "copy", "cp" },
	{ "scp", "cp" },	{ "upload", "cp" },	{ "download", "cp" },
	{ "top", "stats" },	{ "log", "events" },	{ "logs", "events" },
	{ "renew", "extend" },	{ "setup", "init" },	{ "check", "doctor" },
	{ "credits", "usage" }, { "port", "expose" },	{ "preview", "expose" },
};

const char *suggest_command(const char *name)
{
	struct suggestion nearest = suggest_begin(name);
	size_t n;
	const struct cli_command *const *commands = cli_commands(&n);

	for (size_t i = 0; i < ARRAY_SIZE(synonyms); i++)
		if (str_eq(synonyms[i].typed, name))
			return synonyms[i].command;
	for (size_t i = 0; i < n; i++)
		suggest_consider(&nearest, commands[i]->name);
	return nearest.word;
}

const char *suggest_option(const struct cli_command *command, const char *shown, size_t len)
{
	char typed[WORD_MAX + 1] = "";
	struct suggestion nearest = suggest_begin(typed);
	const struct cli_option *common;
	size_t n;

	if (len < 3 || len - 2 > WORD_MAX)
		return NULL;
	memcpy(typed, shown + 2, len - 2);
	for (size_t i = 0; command && i < command->n_options; i++)
		suggest_consider(&nearest, command->options[i].name);
	common = cli_common_options(&n);
	for (size_t i = 0; i < n; i++)
		suggest_consider(&nearest, common[i].name);
	return nearest.word;
}
