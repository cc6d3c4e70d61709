/* The client of QEMU's control socket against a QEMU that behaves, and ones that do not. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/json.h"
#include "vmm/qemu/qmp.h"

#define GREETING    "{\"QMP\": {\"version\": {}, \"capabilities\": []}}\r\n"
#define OK	    "{\"return\": {}}\r\n"
#define DEADLINE_MS 400

static char dir[SCRATCH_SIZE];
static char path[SCRATCH_SIZE + 16];

/* A server of one connection: after each line it reads, it says the next of its answers. */
struct server {
	pthread_t thread;
	int listen_fd;
	const char *answers[6]; /* the first is said at once */
	bool endless;		/* the last answer is said again and again */
	char lines[2048];	/* what it was told */
	int passed_fd;
};

static ssize_t take(struct server *s, int fd, void *data, size_t size)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec iov = { .iov_base = data, .iov_len = size };
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(fd, &message, 0);

	if (n > 0 && CMSG_FIRSTHDR(&message))
		memcpy(&s->passed_fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	return n;
}

static void *serve(void *arg)
{
	struct server *s = arg;
	int fd = accept(s->listen_fd, NULL, NULL);
	size_t len = 0;

	for (size_t i = 0; s->answers[i]; i++) {
		do {
			if (send(fd, s->answers[i], strlen(s->answers[i]), MSG_NOSIGNAL) < 0)
				break;
		} while (s->endless && !s->answers[i + 1]);
		if (!s->answers[i + 1])
			break;
		do {
			ssize_t n = take(s, fd, s->lines + len, sizeof(s->lines) - 1 - len);

			if (n <= 0)
				goto out;
			len += (size_t)n;
		} while (s->lines[len - 1] != '\n');
	}
	/* Stay until the client goes, so that what was sent is not lost in a reset. */
	while (take(s, fd, (char[64]){ 0 }, 64) > 0)
		;
out:
	close(fd);
	return NULL;
}

static void start(struct server *s)
{
	scratch_make(dir);
	snprintf(path, sizeof(path), "%s/qmp", dir);
	s->passed_fd = -1;
	s->listen_fd = unix_listen(path, 0600);
	assert_true(s->listen_fd >= 0);
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void stop(struct server *s, struct qmp *qmp)
{
	qmp_close(qmp);
	pthread_join(s->thread, NULL);
	close(s->listen_fd);
	if (s->passed_fd >= 0)
		close(s->passed_fd);
	scratch_remove(dir);
}

static int64_t soon(void)
{
	return clock_boottime_ms() + DEADLINE_MS;
}

static void command_and_answer(void **state)
{
	struct server s = {
		.answers = { GREETING, OK, "{\"event\": \"STOP\"}\r\n{\"return\": {\"n\": 7}}\r\n" }
	};
	struct qmp qmp = QMP_INIT;
	struct err err = ERR_INIT;
	json_t *arguments = json_object(), *value = NULL;

	start(&s);
	assert_int_equal(qmp_open(&qmp, path, soon(), &err), 0);
	json_put_int(arguments, "x", 1);
	assert_int_equal(qmp_run(&qmp, "do-it", arguments, -1, soon(), &value, &err), 0);
	assert_int_equal(json_get_int(value, "n", 0), 7);
	json_decref(value);
	assert_false(qmp.resumed);
	stop(&s, &qmp);
	assert_string_equal(s.lines, "{\"execute\":\"qmp_capabilities\"}\n"
				     "{\"execute\":\"do-it\",\"arguments\":{\"x\":1}}\n");
}

/* What QEMU answers to a question of the warden's, which hung up before: it comes to the next. */
#define STRAY "{\"return\": {}, \"id\": \"stop\"}\r\n"

static void answers_to_another_are_passed_over(void **state)
{
	struct server s = { .answers = { "{\"event\": \"RESUME\"}\r\n" STRAY GREETING STRAY, OK,
					 "{\"error\": {}, \"id\": \"stop\"}\r\n{\"return\": "
					 "{\"n\": 7}}\r\n" } };
	struct qmp qmp = QMP_INIT;
	struct err err = ERR_INIT;
	json_t *value = NULL;

	start(&s);
	assert_int_equal(qmp_open(&qmp, path, soon(), &err), 0);
	assert_int_equal(qmp_run(&qmp, "do-it", NULL, -1, soon(), &value, &err), 0);
	assert_int_equal(json_get_int(value, "n", 0), 7);
	json_decref(value);
	stop(&s, &qmp);
}

static void descriptor_goes_along(void **state)
{
	struct server s = { .answers = { GREETING, OK, OK } };
	struct qmp qmp = QMP_INIT;
	struct err err = ERR_INIT;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	start(&s);
	assert_int_equal(qmp_open(&qmp, path, soon(), &err), 0);
	assert_int_equal(qmp_run(&qmp, "add-fd", NULL, fd, soon(), NULL, &err), 0);
	assert_true(s.passed_fd >= 0);
	close(fd);
	stop(&s, &qmp);
}

static void refusal_is_an_error_with_its_reason(void **state)
{
	struct server s = { .answers = {
				    GREETING, OK,
				    "{\"error\": {\"class\": \"X\", \"desc\": \"no way\"}}\r\n" } };
	struct qmp qmp = QMP_INIT;
	struct err err = ERR_INIT;

	start(&s);
	assert_int_equal(qmp_open(&qmp, path, soon(), &err), 0);
	assert_int_equal(qmp_run(&qmp, "cont", NULL, -1, soon(), NULL, &err), -EIO);
	assert_non_null(strstr(err.message, "cont"));
	assert_non_null(strstr(err.message, "no way"));
	stop(&s, &qmp);
}

/* Also when the event comes before the answer. */
static void resume_is_seen(void **state)
{
	struct server s = { .answers = { GREETING, OK, "{\"event\": \"RESUME\"}\r\n" OK } };
	struct qmp qmp = QMP_INIT;
	struct err err = ERR_INIT;

	start(&s);
	assert_int_equal(qmp_open(&qmp, path, soon(), &err), 0);
	assert_int_equal(qmp_run(&qmp, "x", NULL, -1, soon(), NULL, &err), 0);
	assert_int_equal(qmp_wait_resumed(&qmp, soon(), &err), 0);
	stop(&s, &qmp);
}

static void assert_open_fails(struct server *s, int num)
{
	struct qmp qmp = QMP_INIT;
	struct err err = ERR_INIT;
	int64_t from_ms = clock_boottime_ms();

	start(s);
	assert_int_equal(qmp_open(&qmp, path, soon(), &err), num);
	assert_true(err.message[0]);
	assert_int_equal(qmp.fd, -1);
	assert_in_range(clock_boottime_ms() - from_ms, 0, 4 * DEADLINE_MS);
	stop(s, &qmp);
}

static void silence_times_out(void **state)
{
	struct server s = { .answers = { "" } };

	assert_open_fails(&s, -ETIMEDOUT);
}

static void endless_events_time_out(void **state)
{
	struct server s = { .answers = { GREETING, "{\"event\": \"X\"}\n" }, .endless = true };

	assert_open_fails(&s, -ETIMEDOUT);
}

static void endless_line_is_cut_off(void **state)
{
	struct server s = {
		.answers = { "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" },
		.endless = true
	};

	assert_open_fails(&s, -EPROTO);
}

static void nonsense_is_refused(void **state)
{
	struct server not_json = { .answers = { "hello\n" } };
	struct server not_object = { .answers = { "[1]\n" } };
	struct server not_qmp = { .answers = { "{\"return\": {}}\n" } };

	assert_open_fails(&not_json, -EINVAL);
	assert_open_fails(&not_object, -EPROTO);
	assert_open_fails(&not_qmp, -EPROTO);
}

static void closing_is_noticed(void **state)
{
	struct server s = { .answers = { NULL } };
	struct qmp qmp = QMP_INIT;
	struct err err = ERR_INIT;

	start(&s);
	shutdown(s.listen_fd, SHUT_RDWR);
	assert_true(qmp_open(&qmp, path, soon(), &err) < 0);
	stop(&s, &qmp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(command_and_answer),
		cmocka_unit_test(answers_to_another_are_passed_over),
		cmocka_unit_test(descriptor_goes_along),
		cmocka_unit_test(refusal_is_an_error_with_its_reason),
		cmocka_unit_test(resume_is_seen),
		cmocka_unit_test(silence_times_out),
		cmocka_unit_test(endless_events_time_out),
		cmocka_unit_test(endless_line_is_cut_off),
		cmocka_unit_test(nonsense_is_refused),
		cmocka_unit_test(closing_is_noticed),
	};

	return cmocka_run_group_tests_name("qmp", tests, NULL, NULL);
}
