/* What the service manager hears, on a socket in its place. */
#include "unit.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "daemon/notify.h"

/* Bound to a name that the kernel chooses, in the abstract name space. */
static int manager_socket(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t len = offsetof(struct sockaddr_un, sun_path);
	const struct timeval patience = { .tv_sec = 10 };
	char name[sizeof(address.sun_path) + 1] = "@";
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, len), 0);
	len = sizeof(address);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
	memcpy(name + 1, address.sun_path + 1, len - offsetof(struct sockaddr_un, sun_path) - 1);
	setenv("NOTIFY_SOCKET", name, 1);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	return fd;
}

static void assert_hears(int fd, const char *expected)
{
	char text[128] = "";
	ssize_t n = recv(fd, text, sizeof(text) - 1, 0);

	assert_true(n > 0);
	assert_string_equal(text, expected);
}

static void set_watchdog(const char *us, const char *pid)
{
	if (us)
		setenv("WATCHDOG_USEC", us, 1);
	else
		unsetenv("WATCHDOG_USEC");
	if (pid)
		setenv("WATCHDOG_PID", pid, 1);
	else
		unsetenv("WATCHDOG_PID");
}

static void states_are_told(void **state)
{
	_cleanup_close_ int fd = manager_socket();

	notify_manager("READY=1\nSTATUS=Serving http://127.0.0.1:7171");
	assert_hears(fd, "READY=1\nSTATUS=Serving http://127.0.0.1:7171");
}

static void watchdog_is_wanted_or_not(void **state)
{
	_cleanup_free_ char *own = xasprintf("%d", getpid());

	set_watchdog(NULL, NULL);
	assert_int_equal(notify_watchdog_us(), 0);
	set_watchdog("60000000", NULL);
	assert_int_equal(notify_watchdog_us(), 60000000);
	set_watchdog("60000000", own);
	assert_int_equal(notify_watchdog_us(), 60000000);
	set_watchdog("60000000", "1"); /* that of another process, inherited */
	assert_int_equal(notify_watchdog_us(), 0);
	set_watchdog("soon", own);
	assert_int_equal(notify_watchdog_us(), 0);
}

struct start {
	struct loop *loop;
	struct watchdog *watchdog;
};

static void start(void *arg)
{
	struct start *s = arg;

	s->watchdog = watchdog_new(s->loop);
}

static void stop(void *arg)
{
	watchdog_free(((struct start *)arg)->watchdog);
}

/* Holds the loop from the first byte to the second. */
static void hang(void *arg)
{
	int *fds = arg;
	char byte = 0;

	assert_int_equal(write(fds[0], &byte, 1), 1);
	assert_int_equal(read(fds[0], &byte, 1), 1);
}

static int drain(int fd)
{
	char text[64];
	int n = 0;

	while (recv(fd, text, sizeof(text), MSG_DONTWAIT) > 0)
		n++;
	return n;
}

static void loop_that_goes_round_is_heard(void **state)
{
	_cleanup_close_ int fd = manager_socket();
	struct start s = { 0 };
	struct err err;
	int fds[2];
	char byte = 0;

	set_watchdog("15000", NULL); /* a message each 5 ms */
	assert_int_equal(loop_new(&s.loop, &err), 0);
	assert_int_equal(loop_start(s.loop, "loop", &err), 0);
	loop_call(s.loop, start, &s);
	assert_non_null(s.watchdog);
	for (int i = 0; i < 3; i++)
		assert_hears(fd, "WATCHDOG=1");

	/* As long as a callback does not return, there is silence. */
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	loop_post(s.loop, hang, &fds[0]);
	assert_int_equal(read(fds[1], &byte, 1), 1);
	drain(fd);
	usleep(20000);
	assert_int_equal(drain(fd), 0);
	assert_int_equal(write(fds[1], &byte, 1), 1);
	assert_hears(fd, "WATCHDOG=1");
	close(fds[0]);
	close(fds[1]);

	loop_call(s.loop, stop, &s);
	drain(fd);
	usleep(20000);
	assert_int_equal(drain(fd), 0);
	loop_free(s.loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(states_are_told),
		cmocka_unit_test(watchdog_is_wanted_or_not),
		cmocka_unit_test(loop_that_goes_round_is_heard),
	};

	return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
