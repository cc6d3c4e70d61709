/*
 * The log. A line is built in a fixed buffer on the stack and leaves by one write(2), so that lines
 * of several threads do not mix and that running out of memory can still be logged. What does not
 * fit is cut and marked with "...".
 */
#include "base/log.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"

#define LINE_SIZE 8192
#define CUT_MARK  "...\n"

#define REQUEST_ID_MAX 64

static const struct {
	const char *name;
	int syslog_priority;
} levels[] = {
	[LOG_LVL_DEBUG] = { "debug", 7 },
	[LOG_LVL_INFO] = { "info", 6 },
	[LOG_LVL_WARN] = { "warn", 4 },
	[LOG_LVL_ERROR] = { "error", 3 },
};

static enum log_level min_level = LOG_LVL_INFO;
static bool to_journal;
/* Of the request that a thread works for. */
static _Thread_local char request_id[REQUEST_ID_MAX + 1];

/* systemd sets JOURNAL_STREAM to "device:inode" of the stream it made; it is inherited, so it says
 * something about our stderr only where that is the same file. */
static bool stderr_is_journal(void)
{
	const char *value = getenv("JOURNAL_STREAM");
	char ours[48];
	struct stat st;

	if (!value || fstat(STDERR_FILENO, &st) < 0)
		return false;
	snprintf(ours, sizeof(ours), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	return str_eq(value, ours);
}

void log_init(enum log_level level)
{
	min_level = level;
	to_journal = stderr_is_journal();
}

int log_level_parse(const char *name, enum log_level *ret_level)
{
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		if (str_eq(name, levels[i].name)) {
			*ret_level = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* Replaces C0 controls, DEL and C1 controls in UTF-8 (U+0080 to U+009F: terminals obey them). */
static void replace_controls(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < 0x20 || c == 0x7f)
			text[i] = '?';
		else if (c == 0xc2 && i + 1 < len && (unsigned char)text[i + 1] < 0xa0)
			text[i] = text[i + 1] = '?';
	}
}

struct line {
	char text[LINE_SIZE + sizeof(CUT_MARK)];
	size_t used; /* at most LINE_SIZE - 1, the rest is for the mark */
};

static void line_vprintf(struct line *line, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

static void line_vprintf(struct line *line, const char *fmt, va_list ap)
{
	size_t room = LINE_SIZE - line->used;
	int len = vsnprintf(line->text + line->used, room, fmt, ap);

	if (len > 0)
		line->used += (size_t)len < room ? (size_t)len : room - 1;
}

static void line_printf(struct line *line, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void line_printf(struct line *line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line_vprintf(line, fmt, ap);
	va_end(ap);
}

static void line_end(struct line *line)
{
	replace_controls(line->text, line->used);
	if (line->used == LINE_SIZE - 1) {
		line->used = utf8_whole_prefix(line->text, line->used);
		memcpy(line->text + line->used, CUT_MARK, sizeof(CUT_MARK) - 1);
		line->used += sizeof(CUT_MARK) - 1;
	} else {
		line->text[line->used++] = '\n';
	}
}

void log_write(enum log_level level, const char *message, const char *fields, ...)
{
	int saved_errno = errno;
	struct line line;
	ssize_t n;

	if (level < min_level)
		return;
	line.used = 0;
	if (to_journal) {
		line_printf(&line, "<%d>%s", levels[level].syslog_priority, message);
	} else {
		char now[CLOCK_RFC3339_SIZE];

		line_printf(&line, "%s %s %s", clock_rfc3339(clock_unix_ms(), now),
			    levels[level].name, message);
	}
	if (fields) {
		size_t before = line.used;
		va_list ap;

		line_printf(&line, " ");
		va_start(ap, fields);
		line_vprintf(&line, fields, ap);
		va_end(ap);
		if (line.used == before + 1) /* there were none after all */
			line.used = before;
	}
	if (request_id[0])
		line_printf(&line, " request=%s", request_id);
	line_end(&line);
	do {
		n = write(STDERR_FILENO, line.text, line.used);
	} while (n < 0 && errno == EINTR);
	errno = saved_errno;
}

void log_request_begin(const char *id)
{
	str_copy(request_id, sizeof(request_id), id);
}

void log_request_end(void)
{
	request_id[0] = '\0';
}
