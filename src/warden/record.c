/*
 * The record file: one line an event, `event key=value …`, appended and fsynced. Values are numbers
 * and words; the exit's detail is last on its line and is the only one that may hold blanks.
 */
#include "warden/record.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/str.h"

#define RECORD_LINE_MAX 1024

static const char *const cause_names[] = {
	[RECORD_RUNNING] = "running",
	[RECORD_EXPIRED] = "expired",
	[RECORD_ENDED] = "ended",
	[RECORD_GUEST_OFF] = "guest_off",
	[RECORD_GUEST_PANIC] = "guest_panic",
	[RECORD_GUEST_OOM] = "guest_out_of_memory",
	[RECORD_VMM_CRASHED] = "vmm_crashed",
	[RECORD_START_FAILED] = "start_failed",
};

const char *record_cause_name(enum record_cause cause)
{
	return (size_t)cause < ARRAY_SIZE(cause_names) ? cause_names[cause] : "unknown";
}

/* ---- writing ---- */

/* Makes the file's name durable too: fsync of its directory. */
static int sync_parent(const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir = NULL;

	if (!slash)
		return dir_fsync(".");
	dir = strndup(path, slash == path ? 1 : (size_t)(slash - path));
	return dir ? dir_fsync(dir) : -ENOMEM;
}

/* A torn line of an earlier writer must not swallow this one: start on a fresh line. */
static int finish_torn_line(int fd)
{
	struct stat st;
	char last;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size == 0)
		return 0;
	if (pread(fd, &last, 1, st.st_size - 1) != 1)
		return -EIO;
	return last == '\n' ? 0 : fd_write_all(fd, "\n", 1);
}

static int append_line(const char *path, int extra_flags, const struct buf *line)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC | extra_flags, 0600);
	int r;

	if (fd < 0)
		return -errno;
	r = finish_torn_line(fd);
	if (r == 0)
		r = fd_write_all(fd, line->data, line->len);
	if (r < 0)
		return r;
	return fsync(fd) < 0 ? -errno : 0;
}

int record_append_start(const char *path, const struct record *r)
{
	_cleanup_buf_ struct buf line = BUF_INIT;
	int n;

	buf_printf(&line,
		   "start boot_id=%s boottime_ms=%" PRId64 " unix_ms=%" PRId64
		   " warden_pid=%d warden_start=%" PRIu64 " vmm_pid=%d vmm_start=%" PRIu64
		   " expires_boottime_ms=%" PRId64 "\n",
		   r->boot_id, r->start_boottime_ms, r->start_unix_ms, r->warden_pid,
		   r->warden_start_ticks, r->vmm_pid, r->vmm_start_ticks, r->expires_boottime_ms);
	n = append_line(path, O_CREAT | O_EXCL, &line);
	return n < 0 ? n : sync_parent(path);
}

int record_append_deadline(const char *path, int64_t expires_boottime_ms)
{
	_cleanup_buf_ struct buf line = BUF_INIT;

	buf_printf(&line, "deadline boottime_ms=%" PRId64 " expires_boottime_ms=%" PRId64 "\n",
		   clock_boottime_ms(), expires_boottime_ms);
	return append_line(path, 0, &line);
}

int record_append_frozen(const char *path, int64_t boottime_ms, int64_t unix_ms)
{
	_cleanup_buf_ struct buf line = BUF_INIT;

	buf_printf(&line, "frozen boottime_ms=%" PRId64 " unix_ms=%" PRId64 "\n", boottime_ms,
		   unix_ms);
	return append_line(path, 0, &line);
}

/* Printable ASCII only: detail holds what a guest wrote. */
static void append_text(struct buf *line, const char *text)
{
	for (; *text; text++)
		buf_append_char(line, *text >= ' ' && *text <= '~' ? *text : '?');
}

static void append_word(struct buf *line, const char *word)
{
	for (; *word; word++)
		buf_append_char(line, *word > ' ' && *word <= '~' ? *word : '_');
}

int record_append_exit(const char *path, const struct record *r)
{
	_cleanup_buf_ struct buf line = BUF_INIT;

	buf_printf(&line, "exit boottime_ms=%" PRId64 " unix_ms=%" PRId64 " cause=%s status=%d",
		   r->exit_boottime_ms, r->exit_unix_ms, record_cause_name(r->cause),
		   r->vmm_status);
	buf_append_str(&line, " reason=");
	append_word(&line, r->reason);
	buf_append_str(&line, " detail=");
	append_text(&line, r->detail);
	buf_append_char(&line, '\n');
	return append_line(path, 0, &line);
}

/* ---- reading ---- */

/* Takes the next `key=value` off the line; false at its end. detail takes the rest of the line. */
static bool next_pair(char **cursor, const char **ret_key, const char **ret_value)
{
	char *key = *cursor + strspn(*cursor, " ");
	char *equals = strchr(key, '=');
	char *end;

	if (!equals)
		return false;
	*equals = '\0';
	end = str_eq(key, "detail") ? equals + 1 + strlen(equals + 1) : strchrnul(equals + 1, ' ');
	*cursor = *end ? end + 1 : end;
	*end = '\0';
	*ret_key = key;
	*ret_value = equals + 1;
	return true;
}

static int take_int(const char *value, int64_t min, int64_t max, int64_t *ret)
{
	int64_t n;

	if (str_to_i64(value, &n) < 0 || n < min || n > max)
		return -EBADMSG;
	*ret = n;
	return 0;
}

static int take_pid(const char *value, pid_t *ret)
{
	int64_t n;
	int r = take_int(value, 1, INT32_MAX, &n);

	if (r == 0)
		*ret = (pid_t)n;
	return r;
}

static int take_ticks(const char *value, uint64_t *ret)
{
	int64_t n;
	int r = take_int(value, 0, INT64_MAX, &n);

	if (r == 0)
		*ret = (uint64_t)n;
	return r;
}

static int start_pair(struct record *rec, const char *key, const char *value)
{
	if (str_eq(key, "boot_id"))
		return str_copy(rec->boot_id, sizeof(rec->boot_id), value) ? 0 : -EBADMSG;
	if (str_eq(key, "boottime_ms"))
		return take_int(value, 0, INT64_MAX, &rec->start_boottime_ms);
	if (str_eq(key, "unix_ms"))
		return take_int(value, 0, INT64_MAX, &rec->start_unix_ms);
	if (str_eq(key, "warden_pid"))
		return take_pid(value, &rec->warden_pid);
	if (str_eq(key, "warden_start"))
		return take_ticks(value, &rec->warden_start_ticks);
	if (str_eq(key, "vmm_pid"))
		return take_pid(value, &rec->vmm_pid);
	if (str_eq(key, "vmm_start"))
		return take_ticks(value, &rec->vmm_start_ticks);
	if (str_eq(key, "expires_boottime_ms"))
		return take_int(value, 0, INT64_MAX, &rec->expires_boottime_ms);
	return 0; /* a later version's key */
}

static int exit_pair(struct record *rec, const char *key, const char *value)
{
	int64_t n;

	if (str_eq(key, "boottime_ms"))
		return take_int(value, 0, INT64_MAX, &rec->exit_boottime_ms);
	if (str_eq(key, "unix_ms"))
		return take_int(value, 0, INT64_MAX, &rec->exit_unix_ms);
	if (str_eq(key, "status")) {
		if (take_int(value, INT32_MIN, INT32_MAX, &n) < 0)
			return -EBADMSG;
		rec->vmm_status = (int)n;
		return 0;
	}
	if (str_eq(key, "reason"))
		str_copy(rec->reason, sizeof(rec->reason), value);
	else if (str_eq(key, "detail"))
		str_copy(rec->detail, sizeof(rec->detail), value);
	else if (str_eq(key, "cause")) {
		for (size_t i = 1; i < ARRAY_SIZE(cause_names); i++)
			if (str_eq(cause_names[i], value)) {
				rec->cause = (enum record_cause)i;
				return 0;
			}
		return -EBADMSG;
	}
	return 0;
}

static int deadline_pair(struct record *rec, const char *key, const char *value)
{
	int64_t now_ms;

	if (str_eq(key, "expires_boottime_ms"))
		return take_int(value, 0, INT64_MAX, &rec->expires_boottime_ms);
	if (!str_eq(key, "boottime_ms"))
		return 0;
	if (take_int(value, 0, INT64_MAX, &now_ms) < 0)
		return -EBADMSG;
	if (rec->frozen && now_ms > rec->frozen_boottime_ms)
		rec->frozen_total_ms += now_ms - rec->frozen_boottime_ms;
	rec->frozen = false;
	return 0;
}

static int frozen_pair(struct record *rec, const char *key, const char *value)
{
	rec->frozen = true;
	if (str_eq(key, "boottime_ms"))
		return take_int(value, 0, INT64_MAX, &rec->frozen_boottime_ms);
	if (str_eq(key, "unix_ms"))
		return take_int(value, 0, INT64_MAX, &rec->frozen_unix_ms);
	return 0;
}

/* The last key of each event shows that its line is whole. */
static const struct event {
	const char *name, *last_key;
	int (*pair)(struct record *rec, const char *key, const char *value);
} events[] = {
	{ "start", "expires_boottime_ms", start_pair },
	{ "deadline", "expires_boottime_ms", deadline_pair },
	{ "frozen", "unix_ms", frozen_pair },
	{ "exit", "detail", exit_pair },
};

static const struct event *find_event(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		if (str_eq(events[i].name, name))
			return &events[i];
	return NULL;
}

/* Applies one line to *rec, or leaves it alone and says -EBADMSG. */
static int parse_line(struct record *rec, char *line)
{
	struct record next = *rec;
	const struct event *event;
	bool whole = false;
	char *cursor = strchrnul(line, ' ');
	const char *key, *value;
	int r = 0;

	if (*cursor)
		*cursor++ = '\0';
	event = find_event(line);
	if (!event || (event->pair == start_pair) == rec->started)
		return -EBADMSG; /* the start comes first, and once */
	if (event->pair == exit_pair && rec->cause != RECORD_RUNNING)
		return 0; /* the first exit counts */
	while (r == 0 && next_pair(&cursor, &key, &value)) {
		r = event->pair(&next, key, value);
		whole |= str_eq(key, event->last_key);
	}
	if (r < 0 || !whole)
		return -EBADMSG;
	next.started = true;
	*rec = next;
	return 0;
}

/* A start names a boot and both processes. */
static bool is_complete(const struct record *rec)
{
	return rec->started && strlen(rec->boot_id) == 36 && rec->warden_pid > 0 &&
	       rec->vmm_pid > 0;
}

/* The first line must be a start; after it a line that makes no sense is one that a crash of the
 * host tore, and is skipped. */
static int read_lines(FILE *file, struct record *rec)
{
	char line[RECORD_LINE_MAX];
	int r;

	while (fgets(line, sizeof(line), file)) {
		char *newline = strchr(line, '\n');

		if (!newline && !feof(file))
			return -EBADMSG; /* longer than any line of ours */
		if (!newline)
			break; /* torn */
		*newline = '\0';
		r = parse_line(rec, line);
		if (r < 0 && !is_complete(rec))
			return r;
	}
	if (ferror(file))
		return -EIO;
	return is_complete(rec) ? 0 : -EBADMSG;
}

int record_read(const char *path, struct record *ret, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct record rec = { 0 };
	FILE *file;
	int r;

	if (fd < 0)
		return err_set(err, -errno, "cannot open the record '%s': %s", path,
			       strerrordesc_np(errno));
	file = fdopen(fd, "re");
	if (!file)
		return err_set(err, -errno, "cannot read the record '%s'", path);
	STEAL_FD(fd);
	r = read_lines(file, &rec);
	fclose(file);
	if (r < 0)
		return err_set(err, r, "'%s' is not a record of a VM", path);
	*ret = rec;
	return 0;
}

int record_process_start(pid_t pid, uint64_t *ret_ticks)
{
	struct process_stat stat;
	int r = process_stat(pid, &stat);

	if (r == 0)
		*ret_ticks = stat.start_ticks;
	return r;
}
