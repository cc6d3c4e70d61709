/* What people see. Text that came from the server is made harmless before it reaches the terminal.
 */
#include "cli/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "cli/units.h"

#define PROGRESS_DELAY_MS  1000
#define PROGRESS_EVERY_MS  100
#define PROGRESS_WIDTH_MAX 200

static bool shows_style(FILE *stream)
{
	const char *when = getenv(STYLE_VARIABLE);
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	if (when && (str_eq(when, "always") || str_eq(when, "never")))
		return str_eq(when, "always");
	return isatty(fileno(stream)) && !(no && *no) && !(term && str_eq(term, "dumb"));
}

const char *style_on(FILE *stream, enum style style)
{
	static const char *const codes[] = {
		[STYLE_PLAIN] = "",	    [STYLE_BOLD] = "\033[1m",	 [STYLE_DIM] = "\033[2m",
		[STYLE_GREEN] = "\033[32m", [STYLE_YELLOW] = "\033[33m", [STYLE_RED] = "\033[31m",
	};

	return shows_style(stream) ? codes[style] : "";
}

const char *style_off(FILE *stream)
{
	return shows_style(stream) ? "\033[0m" : "";
}

static unsigned int terminal_width(int fd)
{
	struct winsize size = { 0 };

	return isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

unsigned int output_width(void)
{
	return terminal_width(STDOUT_FILENO);
}

int output_write(const void *data, size_t len)
{
	int r;

	fflush(stdout);
	r = fd_write_all(STDOUT_FILENO, data, len);
	if (r == 0)
		return CLI_OK;
	if (r != -EPIPE)
		report_note("the output cannot be written: %s", strerror(-r));
	return CLI_FAILED;
}

int output_table(const struct table *table)
{
	_cleanup_buf_ struct buf text = BUF_INIT, out = BUF_INIT;
	size_t title;

	table_write(table, output_width(), &text);
	title = strcspn(buf_str(&text), "\n");
	buf_printf(&out, "%s%.*s%s%s", style_on(stdout, STYLE_BOLD), (int)title, buf_str(&text),
		   style_off(stdout), buf_str(&text) + title);
	return output_write(buf_str(&out), out.len);
}

/* ---- failures ---- */

void report_note(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%sskerry:%s ", style_on(stderr, STYLE_BOLD), style_off(stderr));
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static void report(const char *message, const char *hint)
{
	_cleanup_buf_ struct buf safe = BUF_INIT;

	text_append_safe(&safe, message);
	fprintf(stderr, "%sskerry:%s %s\n", style_on(stderr, STYLE_RED), style_off(stderr),
		buf_str(&safe));
	if (!hint || !*hint)
		return;
	buf_reset(&safe);
	text_append_safe(&safe, hint);
	fprintf(stderr, "%shint:%s %s\n", style_on(stderr, STYLE_BOLD), style_off(stderr),
		buf_str(&safe));
}

int report_err(const struct err *err)
{
	report(err->message, err->hint);
	return str_eq(err->code, "usage") ? CLI_USAGE : CLI_FAILED;
}

int report_usage(const char *message, const char *hint)
{
	struct err err = ERR_INIT;

	err_code(&err, -EINVAL, "usage", "%s", message);
	if (hint)
		err_hint(&err, "%s", hint);
	return report_err(&err);
}

static bool is_limit(long status, const char *code)
{
	static const char *const codes[] = {
		"quota_reached", "limit_reached",  "exec_limit",
		"files_limit",	 "terminal_limit", "preview_limit",
		"disk_full",	 "no_credit",	   "spend_cap_reached",
	};

	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		if (str_eq(code, codes[i]))
			return true;
	return status == 402 || status == 413 || status == 429 || status == 507;
}

static int exit_code_of(long status, const char *code)
{
	if (is_limit(status, code))
		return CLI_LIMIT;
	switch (status) {
	case 400:
	case 422:
		return CLI_USAGE;
	case 401:
	case 403:
		return CLI_DENIED;
	case 404:
	case 410:
		return CLI_NOT_FOUND;
	default:
		return CLI_FAILED;
	}
}

static const char *hint_for_status(long status)
{
	switch (status) {
	case 401:
		return "set SKERRY_API_KEY; the first key is in the file admin.key of the server's "
		       "state "
		       "directory";
	case 502:
	case 504:
		return "a proxy in front of the server answered: look at its log";
	default:
		return NULL;
	}
}

int report_response(const struct client_response *response)
{
	_cleanup_json_ json_t *body = NULL;
	_cleanup_buf_ struct buf message = BUF_INIT;
	const char *detail, *title, *hint, *code;

	(void)json_parse(buf_str(&response->body), response->body.len, &body, NULL);
	detail = json_get_str(body, "detail", NULL);
	title = json_get_str(body, "title", NULL);
	code = json_get_str(body, "code", "");
	hint = json_get_str(body, "hint", hint_for_status(response->status));
	if (detail || title)
		buf_append_str(&message, detail ? detail : title);
	else
		buf_printf(&message, "the server answered with status %ld", response->status);
	report(buf_str(&message), hint);
	return exit_code_of(response->status, code);
}

/* ---- progress ---- */

void progress_begin(struct progress *progress, const char *what, bool quiet)
{
	*progress = (struct progress){
		.what = quiet || !isatty(STDERR_FILENO) ? NULL : what,
		.since_ms = clock_boottime_ms(),
		.percent = -1,
	};
}

/* One that is longer than the terminal is wide would not be overwritten but scroll. */
static void draw(struct progress *progress, int64_t now_ms)
{
	static const char frames[] = "|/-\\";
	char elapsed[UNITS_TEXT_SIZE], percent[16] = "", line[512];
	const unsigned int width = terminal_width(STDERR_FILENO);
	_cleanup_buf_ struct buf shown = BUF_INIT;

	if (progress->percent >= 0)
		snprintf(percent, sizeof(percent), " %3d %%", progress->percent);
	duration_text(now_ms - progress->since_ms, elapsed);
	snprintf(line, sizeof(line), "%c %s%s  %s%s%s", frames[(now_ms / PROGRESS_EVERY_MS) % 4],
		 progress->what, percent, elapsed, progress->line[0] ? "  " : "", progress->line);
	text_append_cut(&shown, line, width > 1 ? width - 1 : PROGRESS_WIDTH_MAX);
	fprintf(stderr, "\r\033[K%s", buf_str(&shown));
	fflush(stderr);
	progress->shown_ms = now_ms;
}

void progress_tick(void *arg)
{
	struct progress *progress = arg;
	int64_t now_ms = clock_boottime_ms();

	if (!progress->what || now_ms - progress->since_ms < PROGRESS_DELAY_MS)
		return;
	if (progress->shown_ms == 0 || now_ms - progress->shown_ms >= PROGRESS_EVERY_MS)
		draw(progress, now_ms);
}

void progress_set(struct progress *progress, int percent, const char *line)
{
	_cleanup_buf_ struct buf safe = BUF_INIT;

	text_append_safe(&safe, line ? line : "");
	if (percent == progress->percent && str_eq(progress->line, buf_str(&safe)))
		return;
	progress->percent = percent;
	str_copy(progress->line, sizeof(progress->line), buf_str(&safe));
	if (progress->what)
		draw(progress, clock_boottime_ms());
}

void progress_end(struct progress *progress)
{
	if (progress->what && progress->shown_ms)
		fputs("\r\033[K", stderr);
	progress->what = NULL;
}
