/*
 * PID 1 of the guest, and the agent: boots the machine into its image, then serves the host over
 * the virtio-serial port (guest_proto.h) until the machine ends.
 *
 * Theory of operation. One thread and one epoll set. A round: read what the host sent, hand out
 * frames to those who wait for them, write, sleep until something happens: the port (channel.c), a
 * command's pipes (output.c, input.c), a child that ended (exec.c), a deadline. Nothing here blocks
 * on a command or on the host; what could block on the guest's own files runs in the commands'
 * children.
 *
 * Nothing of the guest can take the agent away: its memory is locked and out of the reach of the
 * out-of-memory killer, it has priority on the processor, and commands live in cgroups with limits
 * that leave it room (cgroup.c).
 *
 * The kernel command line that this is measured with (Linux 6.1, QEMU 7.2 microvm), next to
 * skerry.root= and skerry.disk= (init.c): `console=ttyS0 quiet panic=-1 random.trust_cpu=on
 * no_timer_check`, and under emulation `tsc_early_khz=` of the host, without which a microvm with
 * ACPI finds no timer and hangs early in its boot; the rest is in src/vmm/qemu/machine.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "guest/cgroup.h"
#include "guest/guest.h"
#include "guest/identity.h"
#include "guest/init.h"
#include "guest/network.h"

#define PORT_WAIT_MS	10000
#define OPEN_FILES	16384 /* EXECS_ALIVE_MAX and EXECS_KEPT_MAX times 7, and some */
#define OWN_PRIORITY	(-10)
#define PUMPS_PER_ROUND 16 /* then the commands' pipes have their turn */
#define LOG_SHARE	8  /* logs of ended execs may fill that part of the disk */

/* Also for what is allocated later. Children do not inherit any of it but the priority, the limit
 * and the score, which exec_child.c takes back. */
static void protect_self(void)
{
	const struct rlimit files = { .rlim_cur = OPEN_FILES, .rlim_max = OPEN_FILES };
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "-1000", 5) != 5)
		init_fatal("cannot protect the agent from the out-of-memory killer: %s",
			   strerrordesc_np(errno));
	close(fd);
	if (mlockall(MCL_CURRENT | MCL_FUTURE) < 0)
		log_error("cannot lock the agent's memory", "errno=%d", errno);
	if (setpriority(PRIO_PROCESS, 0, OWN_PRIORITY) < 0)
		log_error("cannot raise the agent's priority", "errno=%d", errno);
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		log_error("cannot raise the limit of open files", "errno=%d", errno);
}

static void on_signal(struct watch *w, uint32_t events)
{
	struct guest *guest = w->owner;
	struct signalfd_siginfo info[16];

	while (read(w->fd, info, sizeof(info)) > 0)
		;
	exec_reap(guest);
}

static void watch_children(struct guest *guest)
{
	sigset_t mask;
	int fd;

	sigemptyset(&mask);
	sigaddset(&mask, SIGCHLD);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	signal(SIGPIPE, SIG_IGN);
	fd = signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		init_fatal("cannot watch for ended processes: %s", strerrordesc_np(errno));
	poller_add(&guest->poller, &guest->signals, fd, EPOLLIN, on_signal, guest);
}

/* PRETTY_NAME of /etc/os-release, or "Linux". */
static void read_os_name(char *out, size_t out_size)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	char *at, *end;

	str_copy(out, out_size, "Linux");
	if (file_read("/etc/os-release", 64 * 1024, &text) < 0 || text.len == 0)
		return;
	at = strstr(text.data, "PRETTY_NAME=\"");
	if (!at)
		return;
	at += strlen("PRETTY_NAME=\"");
	end = strpbrk(at, "\"\n");
	if (end)
		*end = '\0';
	str_copy(out, out_size, at);
}

static void measure_machine(struct guest *guest)
{
	struct statvfs disk;
	struct sysinfo info;
	struct utsname uts;

	if (uname(&uts) < 0 || sysinfo(&info) < 0 || fstatvfs(guest->exec_dir_fd, &disk) < 0)
		init_fatal("cannot measure the machine: %s", strerrordesc_np(errno));
	str_copy(guest->kernel_release, sizeof(guest->kernel_release), uts.release);
	guest->mem_total_kib = (uint64_t)info.totalram * info.mem_unit / 1024;
	guest->log_budget = (uint64_t)disk.f_blocks * disk.f_frsize / LOG_SHARE;
}

static void boot(struct guest *guest)
{
	int r;

	init_early();
	init_modules();
	guest->exec_dir_fd = init_root();
	network_init();
	measure_machine(guest);
	read_os_name(guest->os_name, sizeof(guest->os_name));
	guest->cgroup_fd = cgroup_setup(guest->mem_total_kib);
	if (guest->cgroup_fd < 0)
		init_fatal("cannot make the commands' cgroup: %s",
			   strerrordesc_np(-guest->cgroup_fd));
	guest->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (guest->null_fd < 0)
		init_fatal("cannot open /dev/null: %s", strerrordesc_np(errno));
	guest->devpts_fd = terminal_open_devpts();
	if (guest->devpts_fd < 0)
		init_fatal("cannot open devpts: %s", strerrordesc_np(-guest->devpts_fd));
	guest->random_fd = identity_open_random();
	if (guest->random_fd < 0)
		init_fatal("cannot open /dev/urandom: %s", strerrordesc_np(-guest->random_fd));
	identity_files_make(&guest->identity_files);
	protect_self();
	r = poller_init(&guest->poller);
	if (r < 0)
		init_fatal("cannot make an epoll set: %s", strerrordesc_np(-r));
	watch_children(guest);
	r = channel_open(&guest->channel, guest, clock_boottime_ms() + PORT_WAIT_MS);
	if (r < 0)
		init_fatal("cannot open the port '%s' to the host: %s", PROTO_PORT_NAME,
			   strerrordesc_np(-r));
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Followers have moved, or a rest is over: pipes that waited for it go on. Returns when the next
 * rest is over. */
static int64_t resume_outputs(struct guest *guest, int64_t now_ms)
{
	int64_t next = INT64_MAX;

	for (struct exec *exec = guest->execs; exec; exec = exec->next) {
		next = earlier(next, output_check(&exec->streams[0], now_ms));
		next = earlier(next, output_check(&exec->streams[1], now_ms));
	}
	return next;
}

/* One round; returns whether there is more to do at once. */
static bool serve(struct guest *guest)
{
	channel_read(&guest->channel);
	channel_flush(&guest->channel);
	for (int i = 0; i < PUMPS_PER_ROUND; i++) {
		bool any = session_pump(&guest->session);

		channel_flush(&guest->channel);
		if (!any)
			return guest->channel.readable && channel_has_room(&guest->channel);
	}
	return channel_has_room(&guest->channel);
}

static void run(struct guest *guest)
{
	for (;;) {
		int64_t now, deadline;
		int timeout_ms = -1;
		bool busy;

		freeze_check(guest, clock_boottime_ms()); /* first, so that its answer goes out */
		busy = serve(guest);
		exec_collect(guest);
		now = clock_boottime_ms();
		deadline = resume_outputs(guest, now);
		deadline = earlier(deadline, exec_check_deadlines(guest, now));
		deadline = earlier(deadline, freeze_next_ms(guest));
		if (busy)
			timeout_ms = 0;
		else if (deadline != INT64_MAX)
			timeout_ms = deadline <= now		? 0
				     : deadline - now < INT_MAX ? (int)(deadline - now)
								: INT_MAX;
		poller_round(&guest->poller, timeout_ms);
	}
}

int main(void)
{
	static struct guest guest = {
		.cgroup_fd = -1, .exec_dir_fd = -1, .null_fd = -1, .devpts_fd = -1, .random_fd = -1
	};

	if (getpid() != 1) {
		fputs("skerry-guest is the init process of a sandbox and does not run elsewhere\n",
		      stderr);
		return 2;
	}
	log_init(LOG_LVL_WARN);
	guest.session.guest = &guest;
	boot(&guest);
	run(&guest);
}
