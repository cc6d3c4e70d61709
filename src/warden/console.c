#include "warden/console.h"

#include <stdbool.h>
#include <string.h>

#include "base/str.h"

#define PANIC "Kernel panic - not syncing"

/* What the kernel says after PANIC when memory was the reason: panic_on_oom, and nothing left to
 * kill (mm/oom_kill.c, Linux 6.1). */
static const char *const memory_panics[] = { "Out of memory", "System is deadlocked on memory" };

void console_append(struct console *console, const void *data, size_t len)
{
	const char *p = data;

	if (len > CONSOLE_SIZE) {
		console->total += len - CONSOLE_SIZE;
		p += len - CONSOLE_SIZE;
		len = CONSOLE_SIZE;
	}
	while (len > 0) {
		size_t at = console->total % CONSOLE_SIZE;
		size_t n = len < CONSOLE_SIZE - at ? len : CONSOLE_SIZE - at;

		memcpy(console->ring + at, p, n);
		console->total += n;
		p += n;
		len -= n;
	}
}

size_t console_copy(const struct console *console, char *out)
{
	size_t at = console->total % CONSOLE_SIZE;

	if (console->total < CONSOLE_SIZE) {
		memcpy(out, console->ring, console->total);
		return console->total;
	}
	memcpy(out, console->ring + at, CONSOLE_SIZE - at);
	memcpy(out + CONSOLE_SIZE - at, console->ring, at);
	return CONSOLE_SIZE;
}

static bool is_blank(char c)
{
	return c <= ' ' || c == 0x7f;
}

/* The line around text[at], without surrounding blanks, control bytes replaced, cut to size. */
static void copy_line(const char *text, size_t len, size_t at, char *out, size_t size)
{
	size_t from = at, to = at, n = 0;

	while (from > 0 && text[from - 1] != '\n')
		from--;
	while (to < len && text[to] != '\n')
		to++;
	while (from < to && is_blank(text[from]))
		from++;
	while (to > from && is_blank(text[to - 1]))
		to--;
	for (; from < to && n + 1 < size; from++)
		out[n++] = text[from] >= ' ' && text[from] <= '~' ? text[from] : '?';
	out[n] = '\0';
}

static const char *find_last(const char *text, size_t len, const char *word)
{
	const char *last = NULL;
	const char *p = text;

	while ((p = memmem(p, len - (size_t)(p - text), word, strlen(word))))
		last = p++;
	return last;
}

enum console_verdict console_read(const struct console *console, char *ret_sentence, size_t size)
{
	char text[CONSOLE_SIZE];
	size_t len = console_copy(console, text);
	const char *panic = find_last(text, len, PANIC);

	ret_sentence[0] = '\0';
	if (!panic) {
		while (len > 0 && is_blank(text[len - 1]))
			len--;
		if (len > 0)
			copy_line(text, len, len - 1, ret_sentence, size);
		return CONSOLE_QUIET;
	}
	copy_line(text, len, (size_t)(panic - text), ret_sentence, size);
	for (size_t i = 0; i < ARRAY_SIZE(memory_panics); i++)
		if (strstr(ret_sentence, memory_panics[i]))
			return CONSOLE_OUT_OF_MEMORY;
	return CONSOLE_PANIC;
}
