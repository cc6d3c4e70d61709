#include "host/parse.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

#define VERSION_MAX 100000

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A number of a version; what does not end soon is none. */
static int take_number(const char **text)
{
	int value = 0;

	for (; is_digit(**text); ++*text) {
		if (value > VERSION_MAX)
			return -1;
		value = value * 10 + (**text - '0');
	}
	return value;
}

int host_parse_version(const char *text, int *ret_major, int *ret_minor)
{
	while (*text) {
		const char *at = text + strcspn(text, "0123456789");
		int major, minor;

		if (!*at)
			break;
		major = take_number(&at);
		if (major >= 0 && at[0] == '.' && is_digit(at[1])) {
			at++;
			minor = take_number(&at);
			if (minor >= 0) {
				*ret_major = major;
				*ret_minor = minor;
				return 0;
			}
		}
		text = at + strspn(at, "0123456789");
	}
	return -EINVAL;
}

bool host_has_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += len) {
		bool begins = at == text || strchr(" \n\t", at[-1]);

		if (begins && (!at[len] || strchr(" \n\t", at[len])))
			return true;
	}
	return false;
}

int64_t host_parse_meminfo(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (strncmp(line, name, len) == 0 && line[len] == ':')
			return strtoll(line + len + 1, NULL, 10);
	}
	return -1;
}
