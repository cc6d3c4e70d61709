#include "vmm/qemu/warden_client.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "vmm/qemu/driver.h"

#define ANSWER_MAX 1024u

/* Reads one line. The warden answers at once or has gone; it is ours, so there are no caps to
 * probe. */
static int read_answer(int fd, int64_t deadline_ms, char *out, size_t size, struct err *err)
{
	size_t len = 0;

	while (len + 1 < size) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		if (poll(&p, 1, clock_remaining_ms(deadline_ms)) == 0)
			return err_set(err, -ETIMEDOUT, "the warden does not answer");
		n = recv(fd, out + len, size - 1 - len, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0)
			return err_set(err, -ESRCH, "the warden is gone");
		len += (size_t)n;
		out[len] = '\0';
		if (strchr(out, '\n')) {
			*strchr(out, '\n') = '\0';
			return 0;
		}
	}
	return err_set(err, -EPROTO, "the warden's answer is too long");
}

static int errno_of_name(const char *name)
{
	static const int known[] = { ESRCH, EINVAL, ENOSPC, EIO, EROFS, EDQUOT, EBUSY, EPERM };

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (str_eq(strerrorname_np(known[i]), name))
			return -known[i];
	return -EIO;
}

static int take_refusal(char *answer, struct err *err)
{
	char *sentence;
	char *name = answer + strlen("error ");

	if (!str_starts(answer, "error "))
		return err_set(err, -EPROTO, "the warden answers '%s'", answer);
	sentence = strchrnul(name, ' ');
	if (*sentence)
		*sentence++ = '\0';
	return err_set(err, errno_of_name(name), "%s", sentence);
}

int warden_run(const char *run_dir, int64_t deadline_boottime_ms, struct err *err, const char *fmt,
	       ...)
{
	_cleanup_buf_ struct buf path = BUF_INIT, line = BUF_INIT;
	_cleanup_close_ int fd = -1;
	char answer[ANSWER_MAX];
	va_list ap;
	int r;

	buf_printf(&path, "%s/" WARDEN_SOCKET_NAME, run_dir);
	fd = unix_connect(path.data, true);
	if (fd == -ENOENT || fd == -ECONNREFUSED)
		return err_set(err, -ESRCH, "the warden is gone");
	if (fd < 0)
		return err_set(err, fd, "cannot reach the warden at '%s': %s", path.data,
			       strerrordesc_np(-fd));
	va_start(ap, fmt);
	buf_vprintf(&line, fmt, ap);
	va_end(ap);
	buf_append_char(&line, '\n');
	if (send(fd, line.data, line.len, MSG_NOSIGNAL) != (ssize_t)line.len)
		return err_set(err, -ESRCH, "the warden is gone");
	r = read_answer(fd, deadline_boottime_ms, answer, sizeof(answer), err);
	if (r < 0)
		return r;
	return str_eq(answer, "ok") ? 0 : take_refusal(answer, err);
}
