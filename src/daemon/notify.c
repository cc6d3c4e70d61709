/* sd_notify(3) without its library: one datagram a message. */
#include "daemon/notify.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

struct watchdog {
	struct loop_timer *timer;
	int64_t every_ms;
};

void notify_manager(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;
	size_t len = path ? strlen(path) : 0;
	socklen_t address_len;

	if (len < 2 || len >= sizeof(address.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(address.sun_path, path, len);
	if (path[0] == '@')
		address.sun_path[0] = '\0'; /* the abstract name space */
	address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || sendto(fd, state, strlen(state), MSG_NOSIGNAL,
			     (const struct sockaddr *)&address, address_len) < 0)
		log_warn("service manager could not be told", "state=%s error=\"%s\"", state,
			 strerror(errno));
}

/* As sd_watchdog_enabled(3) has it: the environment may be that of a parent. */
int64_t notify_watchdog_us(void)
{
	const char *limit = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
	int64_t us, wanted;

	if (!limit || str_to_i64(limit, &us) < 0 || us <= 0)
		return 0;
	if (pid && (str_to_i64(pid, &wanted) < 0 || wanted != getpid()))
		return 0;
	return us;
}

static void feed(void *arg)
{
	struct watchdog *watchdog = arg;

	notify_manager("WATCHDOG=1");
	loop_timer_set(watchdog->timer, clock_boottime_ms() + watchdog->every_ms);
}

/* A third of what is allowed: one message may be late. */
struct watchdog *watchdog_new(struct loop *loop)
{
	int64_t us = notify_watchdog_us();
	struct watchdog *watchdog;

	if (us == 0)
		return NULL;
	watchdog = xcalloc(1, sizeof(*watchdog));
	watchdog->every_ms = us / 3000 > 0 ? us / 3000 : 1;
	watchdog->timer = loop_timer_add(loop, clock_boottime_ms(), feed, watchdog);
	return watchdog;
}

void watchdog_free(struct watchdog *watchdog)
{
	if (!watchdog)
		return;
	loop_timer_remove(watchdog->timer);
	free(watchdog);
}
