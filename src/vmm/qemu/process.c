/* Processes named by a record: a pid alone may since have been given to someone else. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "vmm/qemu/driver.h"
#include "warden/record.h"

int record_of_this_boot(const char *run_dir, struct record *ret, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/" VMM_RECORD_NAME, run_dir);
	char boot_id[37];
	int r = record_read(path, ret, err);

	if (r < 0)
		return r;
	r = clock_boot_id(boot_id);
	if (r < 0)
		return err_set(err, r, "cannot read the host's boot id");
	return str_eq(boot_id, ret->boot_id)
		       ? 0
		       : err_set(err, -ESRCH, "the host has booted since the machine was started");
}

int process_pin(pid_t pid, uint64_t start_ticks)
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
