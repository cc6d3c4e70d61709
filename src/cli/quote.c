/* Command lines for a POSIX shell. */
#include "cli/quote.h"

#include <string.h>

#define SAFE "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+,"

void shell_quote(const char *word, struct buf *out)
{
	if (*word && word[strspn(word, SAFE)] == '\0') {
		buf_append_str(out, word);
		return;
	}
	buf_append_char(out, '\'');
	for (; *word; word++) {
		if (*word == '\'')
			buf_append_str(out, "'\\''");
		else
			buf_append_char(out, *word);
	}
	buf_append_char(out, '\'');
}

void shell_command(const char *const *words, size_t n, struct buf *out)
{
	if (n == 1) {
		buf_append_str(out, words[0]);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (i)
			buf_append_char(out, ' ');
		shell_quote(words[i], out);
	}
}
