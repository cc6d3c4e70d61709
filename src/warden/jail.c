#include "warden/jail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <linux/sched.h> /* struct clone_args */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <grp.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "warden/filter.h"

#define NAMESPACES	(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)
#define DESCRIPTORS_MAX 256
#define PROCESSES_MAX	4096

/* Says which step failed; used by the child, whose errno is still that of the step. */
static int failed(struct err *err, const char *step, const char *subject)
{
	int num = errno ? -errno : -EIO;

	return err_set(err, num, "jail: cannot %s '%s': %s", step, subject, strerrordesc_np(-num));
}

/* ---- the root ---- */

/* mkdir -p of the parents of path, below the current directory. */
static int make_parents(const char *path, struct err *err)
{
	char parent[PATH_MAX];

	if (!str_copy(parent, sizeof(parent), path))
		return err_set(err, -ENAMETOOLONG, "jail: the path '%s' is too long", path);
	for (char *slash = strchr(parent, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(parent, 0755) < 0 && errno != EEXIST)
			return failed(err, "make", parent);
		*slash = '/';
	}
	return 0;
}

/* Shows source at the same path below the current directory, read-only and without devices. A
 * symbolic link is copied: /lib is one on most hosts, and the loader goes through it. */
static int show(const char *source, struct err *err)
{
	const char *target = source + strspn(source, "/");
	char link[PATH_MAX];
	struct stat st, there;
	ssize_t n;
	int r;

	if (lstat(source, &st) < 0)
		return failed(err, "find", source);
	if (lstat(target, &there) == 0 && there.st_dev == st.st_dev && there.st_ino == st.st_ino)
		return 0; /* lies in a directory that is shown already */
	r = make_parents(target, err);
	if (r < 0)
		return r;
	if (S_ISLNK(st.st_mode)) {
		n = readlink(source, link, sizeof(link) - 1);
		if (n < 0)
			return failed(err, "read the link", source);
		link[n] = '\0';
		return symlink(link, target) < 0 ? failed(err, "make the link", source) : 0;
	}
	if (S_ISDIR(st.st_mode))
		r = mkdir(target, 0755) < 0 && errno != EEXIST ? -1 : 0;
	else
		r = mknod(target, S_IFREG | 0444, 0);
	if (r < 0)
		return failed(err, "make", source);
	if (mount(source, target, NULL, MS_BIND, NULL) < 0 ||
	    mount(NULL, target, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV,
		  NULL) < 0)
		return failed(err, "bind", source);
	return 0;
}

/* Leaves the child in a root that holds nothing but the binds. run_dir serves as the place to mount
 * the tmpfs on; the mount is seen in this namespace alone. */
static int build_root(const struct options *options, struct err *err)
{
	int r;

	umask(022); /* the VMM's user must be able to walk through what is made here */
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return failed(err, "make private", "/");
	if (mount("jail", options->run_dir, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  "mode=755,size=256k,nr_inodes=256") < 0)
		return failed(err, "mount a tmpfs on", options->run_dir);
	if (chdir(options->run_dir) < 0)
		return failed(err, "enter", options->run_dir);
	for (size_t i = 0; i < options->n_binds; i++) {
		r = show(options->binds[i], err);
		if (r < 0)
			return r;
	}
	/* The old root lands on top of the new one and is then taken away. */
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return failed(err, "pivot into", options->run_dir);
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return failed(err, "leave", "the old root");
	return 0;
}

/* ---- privileges ---- */

static int limit(int resource, rlim_t value, const char *name, struct err *err)
{
	const struct rlimit rl = { .rlim_cur = value, .rlim_max = value };

	return setrlimit((__rlimit_resource_t)resource, &rl) < 0 ? failed(err, "limit", name) : 0;
}

static int limit_all(const struct options *options, struct err *err)
{
	const struct {
		int resource;
		rlim_t value;
		const char *name;
	} limits[] = {
		{ RLIMIT_CORE, 0, "core files" },
		{ RLIMIT_NOFILE, DESCRIPTORS_MAX, "descriptors" },
		/* Counted by user, and two daemons may share a range of users: a wide bound. The
		 * control group holds the narrow one. */
		{ RLIMIT_NPROC, PROCESSES_MAX, "processes" },
		{ RLIMIT_FSIZE, options->file_size_max, "file size" },
		{ RLIMIT_MEMLOCK, 0, "locked memory" },
		{ RLIMIT_MSGQUEUE, 0, "message queues" },
		{ RLIMIT_RTPRIO, 0, "real-time priority" },
		{ RLIMIT_NICE, 0, "priority" },
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(limits) && r == 0; i++)
		r = limit(limits[i].resource, limits[i].value, limits[i].name, err);
	return r;
}

static int drop_privileges(const struct options *options, struct err *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 } };
	gid_t gid = (gid_t)options->uid;

	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return failed(err, "drop", "a capability of the bounding set");
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
	    setresuid(options->uid, options->uid, options->uid) < 0)
		return failed(err, "become", "the VMM's own user");
	if (syscall(SYS_capset, &header, none) < 0)
		return failed(err, "drop", "capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return failed(err, "set", "no_new_privs");
	return 0;
}

/* 1 and 2 are the console's pipe already; the descriptors of the warden itself close on exec. */
static int arrange_descriptors(const struct options *options, struct err *err)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (null < 0 || dup2(null, STDIN_FILENO) < 0)
		return failed(err, "open", "/dev/null");
	if (syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
		return failed(err, "close", "descriptors");
	for (size_t i = 0; i < options->n_keep_fds; i++)
		if (fcntl(options->keep_fds[i], F_SETFD, 0) < 0)
			return failed(err, "keep", "a descriptor");
	return 0;
}

static void reset_signals(void)
{
	const struct sigaction dfl = { .sa_handler = SIG_DFL };
	sigset_t none;

	for (int i = 1; i < NSIG; i++)
		sigaction(i, &dfl, NULL); /* fails for SIGKILL and SIGSTOP, which have none */
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The kernel picks the VMM before the warden when memory is short. */
static void offer_to_oom_killer(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd >= 0) {
		fd_write_all(fd, "200", 3);
		close(fd);
	}
}

static int enter(const struct options *options, int go_fd, struct err *err)
{
	char byte;
	int r;

	reset_signals();
	offer_to_oom_killer();
	r = arrange_descriptors(options, err);
	if (r == 0)
		r = build_root(options, err);
	if (r < 0)
		return r;
	if (sethostname(options->name, strlen(options->name)) < 0)
		return failed(err, "set", "the host name");
	/* A keyring of its own: the session keyring is inherited and may hold the caller's keys. */
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS)
		return failed(err, "join", "a new session keyring");
	if (!options->huge_pages && prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) < 0)
		return failed(err, "switch off", "huge pages");
	r = limit_all(options, err);
	if (r == 0)
		r = drop_privileges(options, err);
	if (r < 0)
		return r;
	/* After the change of user, which clears it. Should the warden have died before, the pipe
	 * is closed and the read below ends. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		return failed(err, "tie to the warden", options->name);
	r = filter_apply(err);
	if (r < 0)
		return r;
	if (fd_read_full(go_fd, &byte, 1) != 1)
		return err_set(err, -ECANCELED, "jail: the warden is gone");
	return 0;
}

static _Noreturn void child_main(const struct options *options, int go_fd, int report_fd)
{
	struct err err = ERR_INIT;

	if (enter(options, go_fd, &err) == 0) {
		execve(options->command[0], options->command, (char *const *)options->env);
		failed(&err, "execute", options->command[0]);
	}
	fd_write_all(report_fd, err.message, strlen(err.message));
	_exit(127);
}

/* ---- the warden's side ---- */

static int make_pipe(int *ret_read, int *ret_write, struct err *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return failed(err, "make", "a pipe");
	*ret_read = ends[0];
	*ret_write = ends[1];
	return 0;
}

int jail_start(const struct options *options, struct jail *ret, struct err *err)
{
	_cleanup_close_ int go_read = -1, go_write = -1, report_read = -1, report_write = -1;
	int pidfd = -1;
	struct clone_args args = {
		.flags = NAMESPACES | CLONE_PIDFD,
		.pidfd = (uintptr_t)&pidfd,
		.exit_signal = SIGCHLD,
	};
	pid_t pid;
	int r;

	r = make_pipe(&go_read, &go_write, err);
	if (r == 0)
		r = make_pipe(&report_read, &report_write, err);
	if (r < 0)
		return r;
	pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0)
		return failed(err, "make the namespaces of", options->name);
	if (pid == 0) {
		close(go_write); /* so that the warden's death is seen */
		child_main(options, go_read, report_write);
	}
	*ret = (struct jail){
		.pid = pid,
		.pidfd = pidfd,
		.go_fd = STEAL_FD(go_write),
		.report_fd = STEAL_FD(report_read),
	};
	return 0;
}

int jail_go(struct jail *jail, struct err *err)
{
	char message[sizeof(err->message)];
	ssize_t n;

	/* A child that failed before has closed its end (SIGPIPE is ignored); its report says why.
	 */
	fd_write_all(jail->go_fd, "g", 1);
	n = fd_read_full(jail->report_fd, message, sizeof(message) - 1);
	if (n < 0)
		return err_set(err, (int)n, "jail: cannot hear from the child");
	message[n] = '\0';
	return n > 0 ? err_set(err, -EIO, "%s", message) : 0;
}

/* What is still in the jail's root after the mounts are gone: mount points and links. */
static int empty_root(struct err *err)
{
	DIR *root = opendir("/");
	struct dirent *entry;
	int r = 0;

	if (!root)
		return failed(err, "list", "/");
	while (r == 0 && (entry = readdir(root))) {
		char path[sizeof(entry->d_name) + 1];

		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		snprintf(path, sizeof(path), "/%s", entry->d_name);
		r = tree_remove(path);
		if (r < 0)
			err_set(err, r, "jail: cannot remove '%s'", path);
	}
	closedir(root);
	return r;
}

/* Runs in a process of its own, inside the VMM's mount namespace. The VMM has not met its guest
 * yet, so its namespace still holds only what the warden put there. */
static int seal(const struct jail *jail, const struct options *options, struct err *err)
{
	int r;

	if (setns(jail->pidfd, CLONE_NEWNS) < 0)
		return failed(err, "enter the mounts of", options->name);
	for (size_t i = options->n_binds; i-- > 0;) {
		/* EINVAL: a link, or a file in a directory that is shown. Whatever should be left
		 * over makes emptying the root fail. */
		if (umount2(options->binds[i], MNT_DETACH | UMOUNT_NOFOLLOW) < 0 && errno != EINVAL)
			return failed(err, "unmount", options->binds[i]);
	}
	r = empty_root(err);
	if (r < 0)
		return r;
	if (mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  NULL) < 0)
		return failed(err, "make read-only", "/");
	return 0;
}

int jail_seal(const struct jail *jail, const struct options *options, struct err *err)
{
	_cleanup_close_ int report_read = -1, report_write = -1;
	char message[sizeof(err->message)];
	ssize_t n;
	pid_t pid;
	int r;

	r = make_pipe(&report_read, &report_write, err);
	if (r < 0)
		return r;
	pid = fork();
	if (pid < 0)
		return failed(err, "fork to seal", options->name);
	if (pid == 0) {
		if (seal(jail, options, err) < 0)
			fd_write_all(report_write, err->message, strlen(err->message));
		_exit(0);
	}
	close(STEAL_FD(report_write));
	n = fd_read_full(report_read, message, sizeof(message) - 1);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (n < 0)
		return err_set(err, (int)n, "jail: cannot hear from the sealing process");
	message[n] = '\0';
	return n > 0 ? err_set(err, -EIO, "%s", message) : 0;
}

void jail_kill(const struct jail *jail)
{
	pidfd_send_signal(jail->pidfd, SIGKILL, NULL, 0);
}

void jail_freeze(const struct jail *jail)
{
	pidfd_send_signal(jail->pidfd, SIGSTOP, NULL, 0);
}

void jail_thaw(const struct jail *jail)
{
	pidfd_send_signal(jail->pidfd, SIGCONT, NULL, 0);
}

void jail_clear(struct jail *jail)
{
	cleanup_closep(&jail->pidfd);
	cleanup_closep(&jail->go_fd);
	cleanup_closep(&jail->report_fd);
	*jail = JAIL_INIT;
}
