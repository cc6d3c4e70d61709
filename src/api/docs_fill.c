/*
 * Filling pages in: one pass over the text. Comments within fenced code are text like any other.
 */
#include "api/docs_fill.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"

#define OPENING	     "<!--"
#define CLOSING	     "-->"
#define END_MARK     "<!-- / -->"
#define NAME_MAX_LEN 64

struct page {
	const char *at, *end;
	const struct core_limits *limits;
	json_t *values; /* of the limits, by name */
	enum docs_form form;
	struct buf *out;
};

/* ---- values as people write them ---- */

struct unit {
	int64_t factor;
	const char *name;
};

/* In the largest unit that makes a whole number of it. */
static void put_in_units(struct buf *out, int64_t value, const struct unit *units, size_t n)
{
	size_t i = n - 1, len;

	while (i > 0 && (value == 0 || value % units[i].factor != 0))
		i--;
	value /= units[i].factor;
	len = strlen(units[i].name);
	if (value == 1 && len > 3 && units[i].name[len - 1] == 's')
		len--; /* "1 day", "1 byte" */
	buf_printf(out, "%lld %.*s", (long long)value, (int)len, units[i].name);
}

/* Whether one of the words of a name ("output_bytes_max") is this one. */
static bool has_word(const char *name, const char *word)
{
	const size_t len = strlen(word);

	for (const char *at = name; (at = strstr(at, word)); at++) {
		if ((at == name || at[-1] == '_') && (at[len] == '_' || at[len] == '\0'))
			return true;
	}
	return false;
}

static void put_number(struct buf *out, const char *name, int64_t value)
{
	static const struct unit ms[] = {
		{ 1, "ms" }, { 1000, "s" }, { 60000, "min" }, { 3600000, "h" }
	};
	static const struct unit seconds[] = {
		{ 1, "s" }, { 60, "min" }, { 3600, "h" }, { 86400, "days" }
	};
	static const struct unit minutes[] = { { 1, "min" }, { 60, "h" } };
	static const struct unit hours[] = { { 1, "h" } };
	static const struct unit days[] = { { 1, "days" } };
	static const struct unit bytes[] = {
		{ 1, "bytes" }, { 1 << 10, "KiB" }, { 1 << 20, "MiB" }, { 1 << 30, "GiB" }
	};
	static const struct unit mb[] = { { 1, "MiB" }, { 1 << 10, "GiB" } };
	static const struct unit gb[] = { { 1, "GiB" } };
	static const struct {
		const char *word;
		const struct unit *units;
		size_t n;
	} families[] = {
		{ "ms", ms, ARRAY_SIZE(ms) },
		{ "seconds", seconds, ARRAY_SIZE(seconds) },
		{ "minutes", minutes, ARRAY_SIZE(minutes) },
		{ "hours", hours, ARRAY_SIZE(hours) },
		{ "days", days, ARRAY_SIZE(days) },
		{ "bytes", bytes, ARRAY_SIZE(bytes) },
		{ "mb", mb, ARRAY_SIZE(mb) },
		{ "gb", gb, ARRAY_SIZE(gb) },
	};

	if (has_word(name, "milli")) {
		buf_printf(out, "%g", (double)value / 1000);
		return;
	}
	/* "requests_per_second" is a number, and no time. */
	for (size_t i = 0; i < ARRAY_SIZE(families); i++) {
		if (has_word(name, families[i].word)) {
			put_in_units(out, value, families[i].units, families[i].n);
			return;
		}
	}
	buf_printf(out, "%lld", (long long)value);
}

static int put_limit(struct page *page, const char *name, struct buf *out, struct err *err)
{
	const json_t *value = json_object_get(page->values, name);

	if (json_is_integer(value))
		put_number(out, name, json_integer_value(value));
	else if (json_is_string(value))
		buf_append_str(out, json_string_value(value));
	else
		return err_set(err, -EINVAL, "there is no limit '%s'", name);
	return 0;
}

/* ---- tables ---- */

static void put_sizes(const struct core_limits *limits, struct buf *out)
{
	buf_append_str(out, "| size | vCPUs | memory | disk |\n|---|---|---|---|\n");
	for (size_t i = 0; i < limits->n_sizes; i++) {
		const struct core_size *size = &limits->sizes[i];

		buf_printf(out, "| `%s` | %g | ", size->name, (double)size->milli_vcpus / 1000);
		put_number(out, "mb", size->memory_mb);
		buf_printf(out, " | %u GiB |\n", size->disk_gb);
	}
}

static void put_prices(const struct core_limits *limits, struct buf *out)
{
	const struct core_prices *prices = &limits->prices;
	const double per_hour = 3600.0 / (double)MICROCREDITS;

	buf_append_str(out, "| running | micro-credits a second | credits an hour |\n"
			    "|---|---|---|\n");
	for (size_t i = 0; i < limits->n_sizes; i++) {
		const struct core_size *size = &limits->sizes[i];
		const int64_t rate = core_price(prices, size->name, size->milli_vcpus,
						size->memory_mb, size->disk_gb);

		buf_printf(out, "| `%s` | %lld | %g |\n", size->name, (long long)rate,
			   (double)rate * per_hour);
	}
	buf_printf(out, "| any other shape: each vCPU | %lld | %g |\n", (long long)prices->vcpu,
		   (double)prices->vcpu * per_hour);
	buf_printf(out, "| … and each GiB of memory | %lld | %g |\n", (long long)prices->memory_gb,
		   (double)prices->memory_gb * per_hour);
	buf_printf(out, "| … and each GiB of disk | %lld | %g |\n", (long long)prices->disk_gb,
		   (double)prices->disk_gb * per_hour);
	buf_append_str(out, "| paused | 0 | 0 |\n");
}

static int put_table(struct page *page, const char *name, struct buf *out, struct err *err)
{
	static const struct {
		const char *name;
		void (*put)(const struct core_limits *limits, struct buf *out);
	} tables[] = {
		{ "sizes", put_sizes },
		{ "prices", put_prices },
		{ "operations", docs_reference },
	};

	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		if (str_eq(tables[i].name, name)) {
			tables[i].put(page->limits, out);
			return 0;
		}
	}
	return err_set(err, -EINVAL, "there is no table '%s'", name);
}

/* ---- comments ---- */

static const char *find(const struct page *page, const char *from, const char *what)
{
	return memmem(from, (size_t)(page->end - from), what, strlen(what));
}

/* A mark, its value and its end. opening: behind its comment; name is "limit:…" or "table:…". */
static int fill_mark(struct page *page, const char *opening, const char *name, struct err *err)
{
	const bool is_table = str_starts(name, "table:");
	const bool source = page->form == DOCS_SOURCE;
	const char *closing = find(page, opening, END_MARK);
	int rc;

	if (!closing)
		return err_set(err, -EINVAL, "the mark '%s' is not closed by '%s'", name, END_MARK);
	if (source)
		buf_append(page->out, page->at, (size_t)(opening - page->at));
	if (source && is_table)
		buf_append_char(page->out, '\n');
	rc = is_table ? put_table(page, name + strlen("table:"), page->out, err)
		      : put_limit(page, name + strlen("limit:"), page->out, err);
	if (rc < 0)
		return rc;
	if (source)
		buf_append_str(page->out, END_MARK);
	page->at = closing + strlen(END_MARK);
	if (!source && is_table && page->at < page->end && *page->at == '\n')
		page->at++; /* the table ends its last line itself */
	return 0;
}

/* One that says something to those who write pages; with its line, where it has one of its own. */
static void skip_comment(struct page *page, const char *closed, bool line_start)
{
	if (page->form == DOCS_SOURCE)
		buf_append(page->out, page->at, (size_t)(closed - page->at));
	else if (line_start && closed < page->end && *closed == '\n')
		closed++;
	page->at = closed;
}

/* at is on a comment. */
static int take_comment(struct page *page, bool line_start, struct err *err)
{
	const char *inner = page->at + strlen(OPENING);
	const char *closed = find(page, inner, CLOSING);
	char name[NAME_MAX_LEN + 1];
	size_t len;

	if (!closed)
		return err_set(err, -EINVAL, "a comment is not closed");
	while (inner < closed && *inner == ' ')
		inner++;
	for (len = 0; inner + len < closed && len < NAME_MAX_LEN && inner[len] != ' '; len++)
		name[len] = inner[len];
	name[len] = '\0';
	closed += strlen(CLOSING);
	if (str_starts(name, "limit:") || str_starts(name, "table:"))
		return fill_mark(page, closed, name, err);
	if (str_eq(name, "/"))
		return err_set(err, -EINVAL, "'%s' closes no mark", END_MARK);
	skip_comment(page, closed, line_start);
	return 0;
}

static bool starts(const char *at, const char *end, const char *prefix)
{
	return (size_t)(end - at) >= strlen(prefix) && memcmp(at, prefix, strlen(prefix)) == 0;
}

static bool is_fence(const struct page *page)
{
	const char *at = page->at;

	while (at < page->end && *at == ' ')
		at++;
	return starts(at, page->end, "```");
}

static int fill(struct page *page, struct err *err)
{
	bool in_code = false, line_start = true;

	while (page->at < page->end) {
		if (line_start && is_fence(page))
			in_code = !in_code;
		if (!in_code && starts(page->at, page->end, OPENING)) {
			int rc = take_comment(page, line_start, err);

			if (rc < 0)
				return rc;
			line_start = page->at[-1] == '\n';
			continue;
		}
		line_start = *page->at == '\n';
		buf_append_char(page->out, *page->at++);
	}
	return 0;
}

int docs_fill(const char *text, size_t len, const struct core_limits *limits, enum docs_form form,
	      struct buf *out, struct err *err)
{
	_cleanup_json_ json_t *values = core_limits_json(limits);
	struct page page = {
		.at = text,
		.end = text + len,
		.limits = limits,
		.values = values,
		.form = form,
		.out = out,
	};

	return fill(&page, err);
}
