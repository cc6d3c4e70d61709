#include "vmm/qemu/qmp.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"

#define QMP_LINE_MAX  (256u * 1024u)
#define QMP_READ_SIZE 4096u

static int wait_for(int fd, short events, int64_t deadline_ms, struct err *err)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n, rest_ms;

	/* Also checked where data waits: endless events must not outlast the deadline. */
	do {
		rest_ms = clock_remaining_ms(deadline_ms);
		n = rest_ms == 0 ? 0 : poll(&p, 1, rest_ms);
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		return err_set(err, -ETIMEDOUT, "QEMU does not answer in time");
	return n < 0 ? err_set(err, -errno, "cannot wait for QEMU") : 0;
}

/* Reads more into qmp->in. */
static int fill(struct qmp *qmp, int64_t deadline_ms, struct err *err)
{
	char data[QMP_READ_SIZE];
	ssize_t n;
	int r;

	r = wait_for(qmp->fd, POLLIN, deadline_ms, err);
	if (r < 0)
		return r;
	n = recv(qmp->fd, data, sizeof(data), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return err_set(err, -errno, "cannot read from QEMU: %s", strerrordesc_np(errno));
	if (n == 0)
		return err_set(err, -ECONNRESET, "QEMU has closed its control socket");
	buf_append(&qmp->in, data, (size_t)n);
	return 0;
}

/* The next line as an object. */
static int read_object(struct qmp *qmp, int64_t deadline_ms, json_t **ret, struct err *err)
{
	_cleanup_json_ json_t *object = NULL;
	const char *newline;
	int r;

	while (!qmp->in.len || !(newline = memchr(qmp->in.data, '\n', qmp->in.len))) {
		if (qmp->in.len >= QMP_LINE_MAX)
			return err_set(err, -EPROTO, "QEMU sends a line without end");
		r = fill(qmp, deadline_ms, err);
		if (r < 0)
			return r;
	}
	r = json_parse(qmp->in.data, (size_t)(newline - qmp->in.data), &object, err);
	buf_drop_front(&qmp->in, (size_t)(newline - qmp->in.data) + 1);
	if (r < 0)
		return err_wrap(err, r, "QEMU sends what is not JSON");
	if (!json_is_object(object))
		return err_set(err, -EPROTO, "QEMU sends what is not an object");
	qmp->resumed |= str_eq(json_get_str(object, "event", NULL), "RESUME");
	*ret = STEAL(object);
	return 0;
}

static ssize_t send_with_fd(int socket_fd, const void *data, size_t len, int pass_fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { .iov_base = (void *)data, .iov_len = len };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (pass_fd >= 0) {
		struct cmsghdr *c = &control.header;

		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &pass_fd, sizeof(int));
	}
	return sendmsg(socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int send_line(struct qmp *qmp, const struct buf *line, int pass_fd, int64_t deadline_ms,
		     struct err *err)
{
	size_t done = 0;

	while (done < line->len) {
		ssize_t n = send_with_fd(qmp->fd, line->data + done, line->len - done,
					 done == 0 ? pass_fd : -1);
		int r;

		if (n >= 0) {
			done += (size_t)n;
			continue;
		}
		if (errno != EAGAIN && errno != EINTR)
			return err_set(err, -errno, "cannot write to QEMU: %s",
				       strerrordesc_np(errno));
		r = wait_for(qmp->fd, POLLOUT, deadline_ms, err);
		if (r < 0)
			return r;
	}
	return 0;
}

int qmp_send(struct qmp *qmp, const char *command, json_t *arguments, int pass_fd,
	     int64_t deadline_boottime_ms, struct err *err)
{
	_cleanup_json_ json_t *request = json_object();
	_cleanup_buf_ struct buf line = BUF_INIT;
	int r;

	json_put_str(request, "execute", command);
	if (arguments)
		json_put(request, "arguments", arguments);
	json_write(request, &line);
	buf_append_char(&line, '\n');
	r = send_line(qmp, &line, pass_fd, deadline_boottime_ms, err);
	return r < 0 ? err_wrap(err, r, "QMP '%s'", command) : 0;
}

/* Answers with an id are to the warden, which asks QEMU at a deadline and may hang up before them:
 * QEMU 7.2 sends them to whoever is connected then. */
static bool is_for_another(const json_t *object)
{
	return json_object_get(object, "id");
}

int qmp_receive(struct qmp *qmp, const char *command, int64_t deadline_boottime_ms, json_t **ret,
		struct err *err)
{
	for (;;) {
		_cleanup_json_ json_t *answer = NULL;
		json_t *value;
		int r = read_object(qmp, deadline_boottime_ms, &answer, err);

		if (r < 0)
			return err_wrap(err, r, "QMP '%s'", command);
		if (is_for_another(answer))
			continue;
		value = json_object_get(answer, "error");
		if (value)
			return err_set(err, -EIO, "QEMU refuses '%s': %s", command,
				       json_get_str(value, "desc", "no reason given"));
		value = json_object_get(answer, "return");
		if (!value)
			continue; /* an event */
		if (ret)
			*ret = json_incref(value);
		return 0;
	}
}

int qmp_run(struct qmp *qmp, const char *command, json_t *arguments, int pass_fd,
	    int64_t deadline_boottime_ms, json_t **ret, struct err *err)
{
	int r = qmp_send(qmp, command, arguments, pass_fd, deadline_boottime_ms, err);

	return r < 0 ? r : qmp_receive(qmp, command, deadline_boottime_ms, ret, err);
}

int qmp_wait_resumed(struct qmp *qmp, int64_t deadline_boottime_ms, struct err *err)
{
	while (!qmp->resumed) {
		_cleanup_json_ json_t *object = NULL;
		int r = read_object(qmp, deadline_boottime_ms, &object, err);

		if (r < 0)
			return err_wrap(err, r, "the guest does not run");
	}
	return 0;
}

int qmp_begin(struct qmp *qmp, const char *path, int64_t deadline_boottime_ms, struct err *err)
{
	int r = unix_connect(path, true);

	if (r < 0)
		return err_set(err, r, "cannot connect to QEMU at '%s': %s", path,
			       strerrordesc_np(-r));
	qmp->fd = r;
	return qmp_send(qmp, "qmp_capabilities", NULL, -1, deadline_boottime_ms, err);
}

int qmp_greet(struct qmp *qmp, int64_t deadline_boottime_ms, struct err *err)
{
	for (;;) {
		_cleanup_json_ json_t *object = NULL;
		int r = read_object(qmp, deadline_boottime_ms, &object, err);

		if (r < 0)
			return r;
		if (json_object_get(object, "QMP"))
			break;
		if (!is_for_another(object) && !json_object_get(object, "event"))
			return err_set(err, -EPROTO, "QEMU does not greet as it should");
	}
	return qmp_receive(qmp, "qmp_capabilities", deadline_boottime_ms, NULL, err);
}

int qmp_open(struct qmp *qmp, const char *path, int64_t deadline_boottime_ms, struct err *err)
{
	int r = qmp_begin(qmp, path, deadline_boottime_ms, err);

	if (r == 0)
		r = qmp_greet(qmp, deadline_boottime_ms, err);
	if (r < 0)
		qmp_close(qmp);
	return r;
}

void qmp_close(struct qmp *qmp)
{
	cleanup_closep(&qmp->fd);
	buf_clear(&qmp->in);
	*qmp = QMP_INIT;
}
