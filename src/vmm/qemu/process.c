/* Processes named by a record: a pid alone may since have been given to someone else. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "vmm/qemu/driver.h"
#include "warden/record.h"

int process_open(pid_t pid, uint64_t start_ticks)
{
	_cleanup_close_ int pidfd = pidfd_open(pid, 0);
	uint64_t ticks;

	if (pidfd < 0)
		return errno == EMFILE || errno == ENFILE || errno == ENOMEM ? -errno : -ESRCH;
	/* The pidfd holds the process, so what is read now is of the same one or of none. */
	if (record_process_start(pid, &ticks) < 0 || ticks != start_ticks)
		return -ESRCH;
	if (process_wait(pidfd, 0) == 0)
		return -ESRCH; /* ended, and not reaped yet */
	return STEAL_FD(pidfd);
}

int process_wait(int pidfd, int64_t deadline_boottime_ms)
{
	struct pollfd p = { .fd = pidfd, .events = POLLIN };
	int n;

	do {
		n = poll(&p, 1, clock_remaining_ms(deadline_boottime_ms));
	} while (n < 0 && errno == EINTR);
	return n > 0 ? 0 : -ETIMEDOUT;
}

int process_kill(int pidfd, int64_t deadline_boottime_ms)
{
	pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	return process_wait(pidfd, deadline_boottime_ms);
}
