/* Durations, times and sizes as people write and read them. */
#include "cli/units.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/str.h"

#define SECOND_MS	INT64_C(1000)
#define MINUTE_MS	(60 * SECOND_MS)
#define HOUR_MS		(60 * MINUTE_MS)
#define DAY_MS		(24 * HOUR_MS)
#define MICROCREDITS	INT64_C(1000000)
#define DURATION_MAX_MS (366 * DAY_MS)

static const struct unit {
	const char *name;
	int64_t ms;
} units[] = {
	{ "d", DAY_MS }, { "h", HOUR_MS }, { "m", MINUTE_MS }, { "s", SECOND_MS }, { "ms", 1 },
};

/* The unit that the text begins with: the longest name that fits, ended by a digit or the end. */
static const struct unit *find_unit(const char *text, size_t *ret_index)
{
	size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyz");

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (strlen(units[i].name) == len && strncmp(units[i].name, text, len) == 0) {
			*ret_index = i;
			return &units[i];
		}
	}
	return NULL;
}

int duration_parse(const char *text, int64_t *ret_ms)
{
	int64_t total = 0;
	size_t next_allowed = 0;

	if (!*text)
		return -EINVAL;
	while (*text) {
		const struct unit *unit;
		int64_t number = 0;
		size_t index, digits = strspn(text, "0123456789");

		if (digits == 0)
			return -EINVAL;
		if (digits > 15)
			return -ERANGE;
		for (size_t i = 0; i < digits; i++)
			number = number * 10 + (text[i] - '0');
		unit = find_unit(text + digits, &index);
		if (!unit || index < next_allowed)
			return -EINVAL;
		next_allowed = index + 1;
		if (number > DURATION_MAX_MS / unit->ms)
			return -ERANGE;
		total += number * unit->ms;
		text += digits + strlen(unit->name);
	}
	if (total > DURATION_MAX_MS)
		return -ERANGE;
	*ret_ms = total;
	return 0;
}

const char *duration_text(int64_t ms, char out[UNITS_TEXT_SIZE])
{
	size_t i = 0;
	int64_t more;

	if (ms < 0)
		ms = 0;
	while (i < 3 && ms < units[i].ms)
		i++;
	if (i == 3 && ms < 10 * SECOND_MS)
		snprintf(out, UNITS_TEXT_SIZE, "%lld.%lld s", (long long)(ms / SECOND_MS),
			 (long long)(ms % SECOND_MS / 100));
	else if (i == 3)
		snprintf(out, UNITS_TEXT_SIZE, "%lld s", (long long)(ms / SECOND_MS));
	if (i == 3)
		return out;
	more = ms % units[i].ms / units[i + 1].ms;
	if (more)
		snprintf(out, UNITS_TEXT_SIZE, "%lld%s %lld%s", (long long)(ms / units[i].ms),
			 units[i].name, (long long)more, units[i + 1].name);
	else
		snprintf(out, UNITS_TEXT_SIZE, "%lld%s", (long long)(ms / units[i].ms),
			 units[i].name);
	return out;
}

const char *duration_short(int64_t ms, char out[UNITS_TEXT_SIZE])
{
	size_t i = 0;

	if (ms < 0)
		ms = 0;
	while (i < 3 && ms < units[i].ms)
		i++;
	snprintf(out, UNITS_TEXT_SIZE, "%lld%s", (long long)(ms / units[i].ms), units[i].name);
	return out;
}

int time_parse(const char *text, int64_t *ret_unix_ms)
{
	struct tm tm = { 0 };
	const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
	int64_t fraction_ms = 0, scale = 100;

	if (!rest)
		return -EINVAL;
	if (*rest == '.') {
		for (rest++; *rest >= '0' && *rest <= '9'; rest++, scale /= 10)
			fraction_ms += (*rest - '0') * scale;
	}
	if (strcmp(rest, "Z") != 0)
		return -EINVAL;
	*ret_unix_ms = (int64_t)timegm(&tm) * SECOND_MS + fraction_ms;
	return 0;
}

const char *bytes_text(int64_t bytes, char out[UNITS_TEXT_SIZE])
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes;
	size_t i = 0;

	while (value >= 1024 && i + 1 < ARRAY_SIZE(names)) {
		value /= 1024;
		i++;
	}
	snprintf(out, UNITS_TEXT_SIZE, i == 0 ? "%.0f %s" : "%.1f %s", value, names[i]);
	return out;
}

const char *credits_text(int64_t microcredits, char out[UNITS_TEXT_SIZE])
{
	const bool small = microcredits > -MICROCREDITS && microcredits < MICROCREDITS;

	snprintf(out, UNITS_TEXT_SIZE, small ? "%.6f" : "%.2f",
		 (double)microcredits / (double)MICROCREDITS);
	return out;
}
