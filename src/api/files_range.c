/* Range, If-None-Match, and dates of HTTP. See files_range.h. */
#include "api/files_range.h"

#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/str.h"

static const struct file_range whole = { .kind = FILE_RANGE_NONE };

/* Digits at *at; false when there are none, or too many for a number. */
static bool number_at(const char **at, uint64_t *ret)
{
	uint64_t n = 0;
	const char *begin = *at;

	for (; **at >= '0' && **at <= '9'; (*at)++) {
		if (*at - begin >= 18)
			return false;
		n = n * 10 + (uint64_t)(**at - '0');
	}
	*ret = n;
	return *at > begin;
}

struct file_range range_parse(const char *value)
{
	struct file_range range = { 0 };
	bool has_first, has_last;

	if (!value || strncasecmp(value, "bytes=", 6) != 0)
		return whole;
	value += 6;
	has_first = number_at(&value, &range.first);
	if (*value++ != '-')
		return whole;
	has_last = number_at(&value, &range.last);
	if (*value || (!has_first && !has_last) ||
	    (has_first && has_last && range.last < range.first))
		return whole;
	range.kind = !has_first ? FILE_RANGE_SUFFIX : has_last ? FILE_RANGE_SPAN : FILE_RANGE_FROM;
	if (!has_first)
		range.first = range.last;
	return range;
}

bool etag_matches(const char *value, const char *etag)
{
	size_t len = strlen(etag);

	while (value && *value) {
		value += strspn(value, ", \t");
		if (*value == '*')
			return true;
		if (str_starts(value, "W/"))
			value += 2;
		if (strncmp(value, etag, len) == 0 &&
		    (value[len] == '\0' || strchr(", \t", value[len])))
			return true;
		value += *value == '"' ? 1 : 0;
		value += strcspn(value, *value ? "," : "");
	}
	return false;
}

void http_date(int64_t unix_s, char out[HTTP_DATE_SIZE])
{
	time_t t = (time_t)unix_s;
	struct tm tm;

	if (!gmtime_r(&t, &tm) ||
	    strftime(out, HTTP_DATE_SIZE, "%a, %d %b %Y %H:%M:%S GMT", &tm) == 0)
		str_copy(out, HTTP_DATE_SIZE, "Thu, 01 Jan 1970 00:00:00 GMT");
}
