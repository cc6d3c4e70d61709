/* Terminals. See terminal.h. */
#include "guest/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "guest/guest.h"

int terminal_open_devpts(void)
{
	int fd = open("/dev/pts", O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Nothing that the guest mounts over it is followed. */
static int open_master(int devpts_fd)
{
	const struct open_how how = {
		.flags = O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC,
		.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
	};
	long fd = syscall(SYS_openat2, devpts_fd, "ptmx", &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

static int set_size(int fd, struct terminal_size size)
{
	const struct winsize ws = { .ws_col = size.cols, .ws_row = size.rows };

	return ioctl(fd, TIOCSWINSZ, &ws) < 0 ? -errno : 0;
}

int terminal_make(int devpts_fd, struct terminal_size size, int *ret_master, int *ret_slave)
{
	_cleanup_close_ int master = open_master(devpts_fd);
	const int unlocked = 0;
	int slave, r;

	if (master < 0)
		return master;
	r = set_size(master, size);
	if (r < 0)
		return r;
	if (ioctl(master, TIOCSPTLCK, &unlocked) < 0)
		return -errno;
	slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0)
		return -errno;
	*ret_master = STEAL_FD(master);
	*ret_slave = slave;
	return 0;
}

/* -1 once every process has closed it. */
static int master_of(const struct exec *exec)
{
	return exec->streams[0].pipe.fd;
}

void terminal_resize(struct exec *exec, struct terminal_size size)
{
	if (exec->tty && master_of(exec) >= 0 && set_size(master_of(exec), size) == 0)
		exec->size = size;
}

bool terminal_is_busy(const struct exec *exec)
{
	pid_t foreground;

	if (!exec->login_shell || exec->phase == EXEC_STARTING)
		return true;
	return master_of(exec) >= 0 && ioctl(master_of(exec), TIOCGPGRP, &foreground) == 0 &&
	       foreground != exec->pid;
}

static bool is_open(const struct exec *exec)
{
	return exec->tty && exec->phase < EXEC_ENDED;
}

uint32_t terminals_open(const struct guest *guest)
{
	uint32_t n = 0;

	for (const struct exec *exec = guest->execs; exec; exec = exec->next)
		n += is_open(exec);
	return n;
}

void terminals_put(const struct guest *guest, struct buf *out)
{
	uint32_t open = terminals_open(guest);
	uint32_t left = open < PROTO_TERMINALS_MAX ? open : PROTO_TERMINALS_MAX;

	frame_put_u32(out, left);
	for (const struct exec *exec = guest->execs; exec && left > 0; exec = exec->next) {
		if (!is_open(exec))
			continue;
		frame_put_string(out, exec->id, strlen(exec->id));
		frame_put_u64(out, exec_duration_ms(exec));
		frame_put_u64(out, exec->streams[0].log.total);
		frame_put_u32(out, exec->size.cols);
		frame_put_u32(out, exec->size.rows);
		frame_put_u8(out, terminal_is_busy(exec));
		left--;
	}
}
