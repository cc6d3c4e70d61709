/*
 * The jail, tried from inside: a program in QEMU's place attempts everything a VMM in the hands of
 * its guest could (jail_probe.c), and each line it prints is compared with what it must be. Then
 * the real QEMU, looked at from outside while it runs.
 */
#include "vmm_fixture.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "vmm/qemu/args.h"
#include "vmm/qemu/warden_client.h"

#define PROBE_UID     "765432"
#define PROBE_PIDS    "12"
#define ABSTRACT_NAME "skerry-jail-test"

/* ---- the probe ---- */

struct jailed {
	char run_dir[128];
	struct child warden;
	int go_write;
	int status_read;
	struct buf console;
	struct record record;
};

struct passed {
	int go_read, disk, memory, console_read, console_write, status_write;
};

static void make_pipe(int *ret_read, int *ret_write)
{
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	*ret_read = ends[0];
	*ret_write = ends[1];
}

static int open_file_of(const char *name, int flags, off_t size)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", fixture.dir, name);
	int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);

	assert_true(fd >= 0 && ftruncate(fd, size) == 0);
	close(fd);
	fd = open(path, flags | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void spawn_jailed(struct jailed *j, const struct passed *p, struct args *command)
{
	const int keep[] = { p->go_read, p->disk, p->memory, p->console_read, p->status_write };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct err err = ERR_INIT;
	char answer[512] = "";
	ssize_t n;

	spec.argv = (const char *const *)command->v;
	spec.stdout_fd = spec.stderr_fd = p->console_write;
	spec.keep_fds = keep;
	spec.n_keep_fds = ARRAY_SIZE(keep);
	spec.new_session = true;
	if (spawn(&spec, &j->warden, &err) < 0)
		fail_msg("%s", err.message);
	for (size_t i = 0; i < ARRAY_SIZE(keep); i++)
		close(keep[i]);
	close(p->console_write);
	n = fd_read_full(j->status_read, answer, sizeof(answer) - 1);
	assert_true(n > 0);
	assert_string_equal(answer, "ok\n");
	close(j->status_read);
	if (warden_run(j->run_dir, clock_boottime_ms() + 5000, &err, "seal") < 0)
		fail_msg("%s", err.message);
}

static void jail_begin(struct jailed *j, struct passed *p, struct args *command,
		       const char *memory_max)
{
	const char *probe = getenv("SKERRY_TEST_JAIL_PROBE");

	*j = (struct jailed){ 0 };
	snprintf(j->run_dir, sizeof(j->run_dir), "%s/jail%u", fixture.dir, ++fixture.n_machines);
	assert_int_equal(mkdir(j->run_dir, 0700), 0);
	make_pipe(&p->go_read, &j->go_write);
	make_pipe(&p->console_read, &p->console_write);
	make_pipe(&j->status_read, &p->status_write);
	p->disk = open_file_of("probe.disk", O_RDWR, 1024 * 1024);
	p->memory = open_file_of("probe.memory", O_RDONLY, 1024 * 1024);

	args_add(command, "%s", getenv("SKERRY_TEST_WARDEN"));
	args_option(command, "--name", "probe%u", fixture.n_machines);
	args_option(command, "--run-dir", "%s", j->run_dir);
	args_option(command, "--cgroup", "%s", fixture.cgroup);
	args_option(command, "--uid", PROBE_UID);
	args_option(command, "--expires-boottime-ms", "%lld",
		    (long long)clock_boottime_ms() + 30000);
	args_option(command, "--memory-max", "%s", memory_max);
	args_option(command, "--pids-max", PROBE_PIDS);
	args_option(command, "--file-size-max", "1048576");
	args_option(command, "--bind", "%s", probe);
	args_option(command, "--setenv", "ONLY=this");
	args_option(command, "--keep-fd", "%d", p->go_read);
	args_option(command, "--keep-fd", "%d", p->disk);
	args_option(command, "--keep-fd", "%d", p->memory);
	args_option(command, "--console-fd", "%d", p->console_read);
	args_option(command, "--status-fd", "%d", p->status_write);
	args_add(command, "--");
	args_add(command, "%s", probe);
}

/* Lets the probe go and waits for its end. */
static void jail_finish(struct jailed *j)
{
	_cleanup_free_ char *console = xasprintf("%s/console.log", j->run_dir);
	_cleanup_free_ char *record = xasprintf("%s/record", j->run_dir);
	struct err err = ERR_INIT;
	int status;

	assert_int_equal(fd_write_all(j->go_write, "g", 1), 0);
	assert_int_equal(child_wait(&j->warden, clock_boottime_ms() + 35000, &status), 0);
	child_kill(&j->warden);
	close(j->go_write);
	assert_int_equal(file_read(console, 128 * 1024, &j->console), 0);
	if (record_read(record, &j->record, &err) < 0)
		fail_msg("%s", err.message);
}

static int listen_abstract(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(un.sun_path + 1, ABSTRACT_NAME, sizeof(ABSTRACT_NAME) - 1);
	assert_int_equal(bind(fd, (struct sockaddr *)&un,
			      offsetof(struct sockaddr_un, sun_path) + sizeof(ABSTRACT_NAME)),
			 0);
	assert_int_equal(listen(fd, 1), 0);
	return fd;
}

static int listen_tcp(int *ret_port)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof(in)), 0);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	*ret_port = ntohs(in.sin_port);
	return fd;
}

static void assert_line(const struct buf *console, const char *line)
{
	_cleanup_free_ char *whole = xasprintf("\n%s\n", line);
	_cleanup_free_ char *text = xasprintf("\n%s", buf_str(console));
	size_t name = strcspn(line, ":");
	_cleanup_free_ char *begin = xasprintf("\n%.*s:", (int)name, line);
	const char *got = strstr(text, begin);

	if (!strstr(text, whole))
		fail_msg("the probe had to say '%s' and said '%.*s'", line,
			 got ? (int)strcspn(got + 1, "\n") : 7, got ? got + 1 : "nothing");
}

static void probe_gets_nowhere(void **state)
{
	static const char *const expected[] = {
		"entries in /: 0",
		"another machine's disk: refused ENOENT",
		"/proc: refused ENOENT",
		"/proc of the host: refused ENOENT",
		"/sys: refused ENOENT",
		"/dev: refused ENOENT",
		"own program: refused ENOENT",
		"..: refused ENOENT",
		"new file: refused EROFS",
		"new directory: refused EROFS",
		"device node: refused EROFS",
		"memfd execution: refused ENOENT",
		"growing its disk: refused EFBIG",
		"writing the template: refused EBADF",
		"mapping the template writable: refused EACCES",
		"many descriptors: refused EINVAL",
		"environment: ONLY=this",
		"another machine's agent: refused EPERM",
		"abstract socket of the host: refused EPERM",
		"TCP to the host: refused EPERM",
		"raw socket: refused EPERM",
		"netlink: refused EPERM",
		"vsock: refused EPERM",
		"uid " PROBE_UID " " PROBE_UID
		", groups 0, capabilities 0, bounding set 0, no new privileges 1",
		"setuid: refused EPERM",
		"setgid: refused EPERM",
		"setgroups: refused EPERM",
		"user namespace: refused EPERM",
		"mount namespace: refused EPERM",
		"clone into a user namespace: refused EPERM",
		"clone3: refused ENOSYS",
		"mount: refused EPERM",
		"remount: refused EPERM",
		"new mount interface: refused EPERM",
		"umount: refused EPERM",
		"chroot: refused EPERM",
		"handle of a file: refused EPERM",
		"ptrace of a host process: refused EPERM",
		"signal to a host process: refused ESRCH",
		"signal to everyone: refused ESRCH",
		"memory of a host process: refused EPERM",
		"pidfd of a host process: refused EPERM",
		"higher priority: refused EPERM",
		"own pid: 1",
		"bpf: refused EPERM",
		"perf events: refused EPERM",
		"io_uring: refused EPERM",
		"userfaultfd: refused EPERM",
		"keys: refused EPERM",
		"kernel log: refused EPERM",
		"module: refused EPERM",
		"clock: refused EPERM",
		"host name: refused EPERM",
		"System V memory: refused EPERM",
		"message queue: refused EPERM",
		"forks: 11, then EAGAIN", /* and the probe itself: PROBE_PIDS */
		"end",
	};
	_cleanup_free_ char *socket_path = xasprintf("%s/other.sock", fixture.dir);
	_cleanup_free_ char *disk_path = xasprintf("%s/other.disk", fixture.dir);
	_cleanup_free_ char *descriptors = NULL;
	_cleanup_close_ int other = unix_listen(socket_path, 0666);
	_cleanup_close_ int abstract = listen_abstract();
	_cleanup_close_ int tcp = -1, disk = -1;
	struct residue before;
	struct args command = ARGS_INIT;
	struct passed passed;
	struct jailed jailed;
	int port;

	tcp = listen_tcp(&port);
	assert_true(other >= 0 && abstract >= 0 && tcp >= 0);
	disk = open_file_of("other.disk", O_RDWR, 4096);
	fchmod(disk, 0666);
	before = residue_count(&fixture);
	jail_begin(&jailed, &passed, &command, "67108864");
	args_add(&command, "%d", passed.go_read);
	args_add(&command, "%d", passed.disk);
	args_add(&command, "%d", passed.memory);
	args_add(&command, "%s", disk_path);
	args_add(&command, "%s", socket_path);
	args_add(&command, ABSTRACT_NAME);
	args_add(&command, "%d", port);
	args_add(&command, "%d", getpid());
	/* In the order of their numbers: they were opened so. */
	descriptors = xasprintf("descriptors: 0 1 2 %d %d %d", passed.go_read, passed.disk,
				passed.memory);
	spawn_jailed(&jailed, &passed, &command);
	jail_finish(&jailed);

	for (size_t i = 0; i < ARRAY_SIZE(expected); i++)
		assert_line(&jailed.console, expected[i]);
	assert_line(&jailed.console, descriptors);
	assert_non_null(strstr(jailed.console.data, "\nhost name: probe"));
	assert_null(strstr(jailed.console.data, ": GOT "));
	assert_int_equal(jailed.record.cause, RECORD_GUEST_OFF);
	assert_no_residue(&fixture, before);
	buf_clear(&jailed.console);
	args_clear(&command);
}

static void memory_beyond_the_limit_ends_the_vmm_alone(void **state)
{
	struct args command = ARGS_INIT;
	struct residue before = residue_count(&fixture);
	struct passed passed;
	struct jailed jailed;

	jail_begin(&jailed, &passed, &command, "33554432");
	args_add(&command, "eat");
	spawn_jailed(&jailed, &passed, &command);
	jail_finish(&jailed);
	assert_int_equal(jailed.record.cause, RECORD_VMM_CRASHED);
	assert_true(WIFSIGNALED(jailed.record.vmm_status) &&
		    WTERMSIG(jailed.record.vmm_status) == SIGKILL);
	assert_non_null(strstr(jailed.record.detail, "its memory limit was reached"));
	assert_no_residue(&fixture, before);
	buf_clear(&jailed.console);
	args_clear(&command);
}

/* ---- the real QEMU, from outside ---- */

static void assert_status_line(const char *status, const char *line)
{
	if (!strstr(status, line))
		fail_msg("/proc/PID/status lacks '%s'", line);
}

static void check_status(const struct machine_run *m, pid_t pid)
{
	_cleanup_buf_ struct buf status = BUF_INIT;
	_cleanup_free_ char *path = xasprintf("/proc/%d/status", pid);
	_cleanup_free_ char *uid = xasprintf("\nUid:\t%u\t%u\t%u\t%u\n", m->spec.uid, m->spec.uid,
					     m->spec.uid, m->spec.uid);
	_cleanup_free_ char *gid = xasprintf("\nGid:\t%u\t%u\t%u\t%u\n", m->spec.uid, m->spec.uid,
					     m->spec.uid, m->spec.uid);

	assert_int_equal(file_read(path, 65536, &status), 0);
	assert_status_line(status.data, uid);
	assert_status_line(status.data, gid);
	assert_status_line(status.data, "\nGroups:\t \n");
	assert_status_line(status.data, "\nCapInh:\t0000000000000000\n");
	assert_status_line(status.data, "\nCapPrm:\t0000000000000000\n");
	assert_status_line(status.data, "\nCapEff:\t0000000000000000\n");
	assert_status_line(status.data, "\nCapBnd:\t0000000000000000\n");
	assert_status_line(status.data, "\nCapAmb:\t0000000000000000\n");
	assert_status_line(status.data, "\nNoNewPrivs:\t1\n");
	assert_status_line(status.data, "\nSeccomp:\t2\n");
	/* The warden's, that of the library in QEMU, and QEMU's own (-sandbox). */
	assert_status_line(status.data, "\nSeccomp_filters:\t3\n");
}

static void check_namespaces(pid_t pid)
{
	static const char *const kinds[] = { "mnt", "pid", "net", "ipc", "uts" };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		_cleanup_free_ char *theirs = xasprintf("/proc/%d/ns/%s", pid, kinds[i]);
		_cleanup_free_ char *ours = xasprintf("/proc/self/ns/%s", kinds[i]);
		char a[64] = "", b[64] = "";

		assert_true(readlink(theirs, a, sizeof(a) - 1) > 0);
		assert_true(readlink(ours, b, sizeof(b) - 1) > 0);
		assert_string_not_equal(a, b);
	}
}

static void check_root(pid_t pid)
{
	_cleanup_buf_ struct buf mounts = BUF_INIT;
	_cleanup_free_ char *root = xasprintf("/proc/%d/root/", pid);
	_cleanup_free_ char *path = xasprintf("/proc/%d/mounts", pid);
	_cleanup_free_ char *inside = xasprintf("/proc/%d/root/x", pid);
	DIR *dir = opendir(root);
	const struct dirent *entry;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
			fail_msg("the jail's root holds '%s'", entry->d_name);
	closedir(dir);
	assert_int_equal(open(inside, O_CREAT | O_RDWR, 0600), -1);
	assert_int_equal(errno, EROFS);
	assert_int_equal(file_read(path, 65536, &mounts), 0);
	assert_true(str_starts(mounts.data, "jail / tmpfs ro,nosuid,nodev,noexec"));
	assert_ptr_equal(strchr(mounts.data, '\n') + 1, mounts.data + mounts.len);
}

static bool is_same_file(const char *link, const char *path)
{
	struct stat a, b;

	return stat(link, &a) == 0 && stat(path, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

/* Everything it has open is one of these; which says at the same time what it has not. */
static void check_descriptors(const struct machine_run *m, pid_t pid)
{
	const char *kinds[] = { "pipe:", "socket:", "anon_inode:" };
	const char *files[] = { "/dev/null", m->fixture->root_path, m->disk_path,
				m->fixture->memory_path, m->fixture->state_path };
	_cleanup_free_ char *path = xasprintf("/proc/%d/fd", pid);
	DIR *dir = opendir(path);
	const struct dirent *entry;
	int n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		_cleanup_free_ char *link = xasprintf("%s/%s", path, entry->d_name);
		char target[256] = "";
		bool fine = false;

		if (entry->d_name[0] == '.')
			continue;
		if (readlink(link, target, sizeof(target) - 1) < 0)
			continue; /* closed since the folder was read */
		for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
			fine |= str_starts(target, kinds[i]);
		for (size_t i = 0; i < ARRAY_SIZE(files); i++)
			fine |= is_same_file(link, files[i]);
		if (!fine)
			fail_msg("the VMM has '%s' open", target);
		n++;
	}
	closedir(dir);
	assert_in_range(n, 10, 60);
}

static void check_cgroup(const struct machine_run *m, pid_t pid)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	_cleanup_free_ char *path = xasprintf("/proc/%d/cgroup", pid);
	_cleanup_free_ char *ours = xasprintf("/%s/%s\n", m->fixture->cgroup, m->name);
	int found = 0;

	assert_int_equal(file_read(path, 65536, &text), 0);
	for (const char *p = text.data; (p = strstr(p, ours)); p++)
		found++;
	assert_in_range(found, 1, 3); /* version 2: one hierarchy; version 1: one a controller */
}

static void running_qemu_is_jailed(void **state)
{
	struct machine_run m;
	_cleanup_free_ char *said = NULL;
	pid_t pid;

	machine_prepare(&m, &fixture);
	machine_start(&m);
	pid = machine_record(&m).vmm_pid;
	check_status(&m, pid);
	check_namespaces(pid);
	check_root(pid);
	check_descriptors(&m, pid);
	check_cgroup(&m, pid);
	/* And it still works: commands, and disk I/O with its threads. */
	machine_connect(&m);
	said = shell(&m.guest, NULL,
		     "dd if=/dev/urandom of=~/f bs=1M count=8 2>/dev/null && sync && "
		     "stat -c %s ~/f");
	assert_string_equal(said, "8388608");
	machine_disconnect(&m);
	machine_end(&m);
}

/* Sockets and files in the run directory are root's alone. */
static void run_directory_is_closed(void **state)
{
	static const char *const sockets[] = { "warden.sock", "qmp.sock", "agent.sock", "record" };
	struct machine_run m;
	struct stat st;

	machine_prepare(&m, &fixture);
	machine_start(&m);
	for (size_t i = 0; i < ARRAY_SIZE(sockets); i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", m.run_dir, sockets[i]);

		assert_int_equal(stat(path, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0600);
		assert_int_equal(st.st_uid, 0);
	}
	machine_end(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probe_gets_nowhere),
		cmocka_unit_test(memory_beyond_the_limit_ends_the_vmm_alone),
		cmocka_unit_test(running_qemu_is_jailed),
		cmocka_unit_test(run_directory_is_closed),
	};

	return cmocka_run_group_tests_name("jail", tests, fixture_set_up, fixture_tear_down);
}
