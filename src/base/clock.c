/* Clocks: thin wrappers over clock_gettime(2), which cannot fail for these clocks. */
#include "base/clock.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"

/* 0000-01-01 and 9999-12-31T23:59:59.999Z: what four digits of a year can show. */
#define RFC3339_MIN_MS (-62167219200000LL)
#define RFC3339_MAX_MS 253402300799999LL

static int64_t clock_us(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int64_t clock_boottime_ms(void)
{
	return clock_us(CLOCK_BOOTTIME) / 1000;
}

int64_t clock_boottime_us(void)
{
	return clock_us(CLOCK_BOOTTIME);
}

int64_t clock_unix_ms(void)
{
	return clock_us(CLOCK_REALTIME) / 1000;
}

const char *clock_rfc3339(int64_t unix_ms, char out[CLOCK_RFC3339_SIZE])
{
	int64_t seconds, millis;
	struct tm tm;
	time_t t;
	size_t n;

	if (unix_ms < RFC3339_MIN_MS)
		unix_ms = RFC3339_MIN_MS;
	if (unix_ms > RFC3339_MAX_MS)
		unix_ms = RFC3339_MAX_MS;
	seconds = unix_ms / 1000;
	millis = unix_ms % 1000;
	if (millis < 0) {
		seconds--;
		millis += 1000;
	}
	t = (time_t)seconds;
	gmtime_r(&t, &tm);
	/* glibc's %Y does not pad; a year below 1000 is nobody's, but must still parse. */
	n = (size_t)snprintf(out, CLOCK_RFC3339_SIZE, "%04u",
			     (unsigned)(tm.tm_year + 1900) % 10000u);
	n += strftime(out + n, CLOCK_RFC3339_SIZE - n, "-%m-%dT%H:%M:%S", &tm);
	snprintf(out + n, CLOCK_RFC3339_SIZE - n, ".%03uZ", (unsigned)millis % 1000u);
	return out;
}

static int number_of(const char *digits, size_t n)
{
	int value = 0;

	for (size_t i = 0; i < n; i++)
		value = value * 10 + (digits[i] - '0');
	return value;
}

int clock_parse_rfc3339(const char *text, int64_t *ret_unix_ms)
{
	static const char form[] = "0000-00-00T00:00:00.000Z";
	char again[CLOCK_RFC3339_SIZE];
	struct tm tm = { 0 };
	int64_t unix_ms;

	if (strlen(text) != sizeof(form) - 1)
		return -EINVAL;
	for (size_t i = 0; form[i]; i++) {
		if (form[i] != '0' ? text[i] != form[i] : text[i] < '0' || text[i] > '9')
			return -EINVAL;
	}
	tm.tm_year = number_of(text, 4) - 1900;
	tm.tm_mon = number_of(text + 5, 2) - 1;
	tm.tm_mday = number_of(text + 8, 2);
	tm.tm_hour = number_of(text + 11, 2);
	tm.tm_min = number_of(text + 14, 2);
	tm.tm_sec = number_of(text + 17, 2);
	unix_ms = (int64_t)timegm(&tm) * 1000 + number_of(text + 20, 3);
	/* timegm makes another day of the 31st of February. */
	if (strcmp(clock_rfc3339(unix_ms, again), text) != 0)
		return -EINVAL;
	*ret_unix_ms = unix_ms;
	return 0;
}

int clock_remaining_ms(int64_t deadline_boottime_ms)
{
	int64_t now = clock_boottime_ms();

	if (deadline_boottime_ms <= now)
		return 0;
	return deadline_boottime_ms - now > INT_MAX ? INT_MAX : (int)(deadline_boottime_ms - now);
}

int clock_boot_id(char out[37])
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	int r = file_read("/proc/sys/kernel/random/boot_id", 64, &text);

	if (r < 0)
		return r;
	if (text.len < 36)
		return -EBADMSG;
	memcpy(out, text.data, 36);
	out[36] = '\0';
	return 0;
}
