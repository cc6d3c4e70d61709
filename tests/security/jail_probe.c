/*
 * What a VMM that a guest has taken over could try. Runs in QEMU's place, in the jail, and prints
 * one line an attempt: its name, and "refused" with the errno's name or what it got. Static: the
 * jail holds nothing else.
 *
 *   jail_probe GO_FD DISK_FD MEMORY_FD HOST_PATH SOCKET_PATH ABSTRACT_NAME TCP_PORT HOST_PID
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#define EAT_BYTES (1024 * 1024)

static void say(const char *name, long result)
{
	if (result < 0)
		printf("%s: refused %s\n", name, strerrorname_np(errno));
	else
		printf("%s: GOT %ld\n", name, result);
}

static int number(const char *text)
{
	return (int)strtol(text, NULL, 10);
}

/* ---- files ---- */

static void try_files(const char *host_path)
{
	DIR *root = opendir("/");
	const struct dirent *entry;
	int entries = 0;

	while (root && (entry = readdir(root)))
		entries += entry->d_name[0] != '.';
	if (root)
		closedir(root);
	printf("entries in /: %d\n", entries);
	say("another machine's disk", open(host_path, O_RDWR));
	say("/proc", open("/proc/self/status", O_RDONLY));
	say("/proc of the host", open("/proc/1/environ", O_RDONLY));
	say("/sys", open("/sys/kernel", O_RDONLY));
	say("/dev", open("/dev/kmsg", O_RDONLY));
	say("own program", open("/proc/self/exe", O_RDONLY));
	say("..", open("../../../../../../etc/passwd", O_RDONLY));
	say("new file", open("/new", O_CREAT | O_RDWR, 0600));
	say("new directory", mkdir("/new", 0700));
	say("device node", mknod("/kmsg", S_IFCHR | 0666, 0x10b));
	say("memfd execution", execve("/proc/self/fd/3", (char *[]){ "x", NULL }, NULL));
}

static void try_descriptors(int disk_fd, int memory_fd)
{
	char block[4096] = { 0 };

	printf("descriptors:");
	for (int fd = 0; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf(" %d", fd);
	printf("\n");
	signal(SIGXFSZ, SIG_IGN);
	say("growing its disk", pwrite(disk_fd, block, sizeof(block), 1024 * 1024));
	say("writing the template", write(memory_fd, block, sizeof(block)));
	say("mapping the template writable",
	    mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, memory_fd, 0) == MAP_FAILED ? -1 : 0);
	say("many descriptors", fcntl(0, F_DUPFD, 1000));
	printf("environment:");
	for (char **e = environ; *e; e++)
		printf(" %s", *e);
	printf("\n");
}

/* ---- sockets ---- */

static long try_connect(int family, const void *address, socklen_t len)
{
	int fd = socket(family, SOCK_STREAM, 0);
	long result = fd < 0 ? -1 : connect(fd, address, len);
	int num = errno;

	if (fd >= 0)
		close(fd);
	errno = num;
	return result;
}

static void try_sockets(const char *socket_path, const char *abstract_name, int port)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	memcpy(un.sun_path, socket_path, strlen(socket_path) + 1);
	say("another machine's agent", try_connect(AF_UNIX, &un, sizeof(un)));
	memset(un.sun_path, 0, sizeof(un.sun_path));
	memcpy(un.sun_path + 1, abstract_name, strlen(abstract_name));
	say("abstract socket of the host",
	    try_connect(AF_UNIX, &un,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
				    strlen(abstract_name))));
	say("TCP to the host", try_connect(AF_INET, &in, sizeof(in)));
	say("raw socket", socket(AF_PACKET, SOCK_RAW, 0));
	say("netlink", socket(AF_NETLINK, SOCK_RAW, 0));
	say("vsock", socket(AF_VSOCK, SOCK_STREAM, 0));
}

/* ---- privileges and processes ---- */

static void try_privileges(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct caps[2];
	int bounding = 0;

	syscall(SYS_capget, &header, caps);
	for (int cap = 0; cap < 64; cap++)
		bounding += prctl(PR_CAPBSET_READ, cap, 0, 0, 0) == 1;
	printf("uid %u %u, groups %d, capabilities %x, bounding set %d, no new privileges %d\n",
	       getuid(), getgid(), getgroups(0, NULL),
	       caps[0].effective | caps[0].permitted | caps[0].inheritable | caps[1].effective |
		       caps[1].permitted | caps[1].inheritable,
	       bounding, prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	say("setuid", setuid(0));
	say("setgid", setgid(0));
	say("setgroups", (long)syscall(SYS_setgroups, 0, NULL));
	say("user namespace", unshare(CLONE_NEWUSER));
	say("mount namespace", unshare(CLONE_NEWNS));
	say("clone into a user namespace",
	    syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL));
	say("clone3", syscall(SYS_clone3, NULL, 0));
	say("mount", mount("none", "/", "tmpfs", 0, NULL));
	say("remount", mount(NULL, "/", NULL, MS_REMOUNT, NULL));
	say("new mount interface", syscall(SYS_fsopen, "tmpfs", 0));
	say("umount", umount2("/", MNT_DETACH));
	say("chroot", chroot("/"));
	say("handle of a file", syscall(SYS_open_by_handle_at, 0, NULL, 0));
}

static void try_processes(int host_pid)
{
	say("ptrace of a host process", ptrace(PTRACE_ATTACH, host_pid, NULL, NULL));
	say("signal to a host process", kill(host_pid, SIGKILL));
	say("signal to everyone", kill(-1, SIGKILL));
	say("memory of a host process",
	    syscall(SYS_process_vm_readv, host_pid, NULL, 0, NULL, 0, 0));
	say("pidfd of a host process", syscall(SYS_pidfd_open, host_pid, 0));
	say("higher priority", setpriority(PRIO_PROCESS, 0, -5));
	printf("own pid: %d\n", getpid());
}

static void try_kernel(void)
{
	struct utsname host;

	say("bpf", syscall(SYS_bpf, 0, NULL, 0));
	say("perf events", syscall(SYS_perf_event_open, NULL, 0, 0, -1, 0));
	say("io_uring", syscall(SYS_io_uring_setup, 1, NULL));
	say("userfaultfd", syscall(SYS_userfaultfd, 0));
	say("keys", syscall(SYS_keyctl, 0, -3, 0, 0, 0));
	say("kernel log", syscall(SYS_syslog, 3, NULL, 0));
	say("module", syscall(SYS_init_module, NULL, 0, ""));
	say("clock", syscall(SYS_clock_settime, 0, NULL));
	say("host name", sethostname("x", 1));
	say("System V memory", syscall(SYS_shmget, 1, 4096, 01600));
	say("message queue", syscall(SYS_mq_open, "x", O_CREAT | O_RDWR, 0600, NULL));
	uname(&host);
	printf("host name: %s\n", host.nodename);
}

/* Children that stay, until there can be no more. */
static void try_forks(void)
{
	int children = 0;

	for (;;) {
		pid_t pid = (pid_t)syscall(SYS_fork);

		if (pid == 0) {
			pause();
			_exit(0);
		}
		if (pid < 0 || children == 1000)
			break;
		children++;
	}
	printf("forks: %d, then %s\n", children, strerrorname_np(errno));
	kill(-1, SIGKILL);
	while (wait(NULL) > 0)
		;
}

int main(int argc, char *argv[])
{
	char go;

	if (argc == 2 && strcmp(argv[1], "eat") == 0) {
		for (;;) {
			void *block = malloc(EAT_BYTES);

			if (block)
				memset(block, 1, EAT_BYTES); /* kept: that is the point */
		}
	}
	if (argc != 9)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (read(number(argv[1]), &go, 1) != 1)
		return 3;
	try_files(argv[4]);
	try_descriptors(number(argv[2]), number(argv[3]));
	try_sockets(argv[5], argv[6], number(argv[7]));
	try_privileges();
	try_processes(number(argv[8]));
	try_kernel();
	try_forks();
	printf("end\n");
	return 0;
}
