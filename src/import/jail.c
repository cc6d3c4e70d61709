/*
 * See jail.h. The order, and why:
 *
 *   1 clone    mount, PID, IPC, UTS (and network) namespaces, still as the host's root
 *   2 root     a tmpfs with the host's programs, the scratch and /proc; the old root goes away
 *   3 users    a user namespace; the parent writes its maps. The namespaces of 1 belong to the
 *              host's, so that being root in this one gives no right over mounts or devices
 *   4 rights   only capabilities over files of the range are kept, and chroot for skopeo
 *   5 work     fn
 */
#include "import/jail.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/sched.h> /* struct clone_args */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "import/scratch.h"

#define AUTH_MAX   (64u * 1024u)
#define NAMESPACES (CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)

/* What the programs need of the host; what is not there is left out. */
static const char *const shown[] = {
	"/usr",
	"/bin",
	"/sbin",
	"/lib",
	"/lib32",
	"/lib64",
	"/libx32",
	"/etc/alternatives",
	"/etc/ld.so.cache",
	"/etc/containers",
};

/* And a registry of it: names, certificates. */
static const char *const shown_network[] = {
	"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/etc/docker/certs.d",
};

static const struct {
	const char *path;
	unsigned int minor;
} devices[] = {
	{ "/dev/null", 3 },   { "/dev/zero", 5 },    { "/dev/full", 7 },
	{ "/dev/random", 8 }, { "/dev/urandom", 9 },
};

/* CAP_SYS_CHROOT, and CAP_SYS_ADMIN for namespaces of their own: skopeo unpacks archives so. Both
 * are held over the user namespace alone. */
static const int kept[] = {
	CAP_CHOWN,  CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER,	   CAP_FSETID,
	CAP_SETGID, CAP_SETUID,	      CAP_SETFCAP,	   CAP_SYS_CHROOT, CAP_SYS_ADMIN,
};

static int failed(struct err *err, const char *step, const char *subject)
{
	int num = errno ? -errno : -EIO;

	return err_set(err, num, "the import's jail: cannot %s '%s': %s", step, subject,
		       strerrordesc_np(-num));
}

/* ---- 2: the root ---- */

/* mkdir -p of what is above path, below the current directory. */
static int make_parents(const char *path, struct err *err)
{
	_cleanup_free_ char *copy = xstrdup(path);

	for (char *slash = strchr(copy, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (*copy && mkdir(copy, 0755) < 0 && errno != EEXIST)
			return failed(err, "make", copy);
		*slash = '/';
	}
	return 0;
}

/* Shows what the descriptor is at a path below the current directory. */
static int bind_fd(int fd, const char *target, unsigned long flags, struct err *err)
{
	char source[32];
	struct stat st;
	int r = make_parents(target, err), made;

	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return failed(err, "look at", target);
	if (S_ISDIR(st.st_mode))
		made = mkdir(target, 0755);
	else
		made = mknod(target, S_IFREG | 0444, 0);
	if (made < 0 && errno != EEXIST)
		return failed(err, "make", target);
	snprintf(source, sizeof(source), "/proc/self/fd/%d", fd);
	if (mount(source, target, NULL, MS_BIND | MS_REC, NULL) < 0 ||
	    mount(NULL, target, NULL, MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV | flags, NULL) <
		    0)
		return failed(err, "show", target);
	return 0;
}

static int bind_path(const char *path, const char *target, unsigned long flags, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);

	return fd < 0 ? failed(err, "open", path) : bind_fd(fd, target, flags, err);
}

/* A link at the top (/lib on most hosts) is made again; any other is followed. */
static int show(const char *path, struct err *err)
{
	const char *target = path + 1;
	char link[256];
	struct stat st;
	ssize_t n;

	if (stat(path, &st) < 0)
		return errno == ENOENT ? 0 : failed(err, "find", path);
	n = strchr(target, '/') ? -1 : readlink(path, link, sizeof(link) - 1);
	if (n < 0)
		return bind_path(path, target, MS_RDONLY, err);
	link[n] = '\0';
	return symlink(link, target) < 0 ? failed(err, "make the link", path) : 0;
}

static int show_all(const char *const *paths, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = show(paths[i], err);

		if (r < 0)
			return r;
	}
	return 0;
}

static int make_dev(struct err *err)
{
	if (mkdir("dev", 0755) < 0)
		return failed(err, "make", "/dev");
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		int r = bind_path(devices[i].path, devices[i].path + 1, MS_NOEXEC, err);

		/* A device that may be opened, unlike one in a directory that is nodev. */
		if (r == 0 && mount(NULL, devices[i].path + 1, NULL,
				    MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NOEXEC, NULL) < 0)
			r = failed(err, "show", devices[i].path);
		if (r < 0)
			return r;
	}
	return 0;
}

/* A copy: the file itself is for root alone, and who reads it here is not. */
static int copy_auth(const struct jail_spec *spec, struct err *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	int r = file_read(spec->auth_path, AUTH_MAX, &text);
	_cleanup_close_ int fd = -1;

	if (r < 0)
		return err_set(err, r, "read the credentials '%s': %s", spec->auth_path,
			       strerrordesc_np(-r));
	fd = open(&JAIL_AUTH[1], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
	if (fd < 0 || fchown(fd, spec->uid_base, spec->uid_base) < 0)
		return failed(err, "make", JAIL_AUTH);
	r = fd_write_all(fd, buf_str(&text), text.len);
	return r < 0 ? err_set(err, r, "write the credentials: %s", strerrordesc_np(-r)) : 0;
}

static int show_own(const struct jail_spec *spec, const char *scratch, struct err *err)
{
	int r;

	if (mkdir(&JAIL_WORK[1], 0755) < 0 || mkdir("proc", 0555) < 0)
		return failed(err, "make", JAIL_WORK);
	r = scratch_mount(scratch, &JAIL_WORK[1], err);
	if (r < 0)
		return r;
	if (chown(&JAIL_WORK[1], spec->uid_base, spec->uid_base) < 0)
		return failed(err, "hand over", JAIL_WORK);
	if (mount("proc", "proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		return failed(err, "mount", "/proc");
	r = bind_path(spec->out_path, &JAIL_OUT[1], MS_NOEXEC, err);
	if (r == 0 && spec->source_path)
		r = bind_path(spec->source_path, &JAIL_SOURCE[1], MS_RDONLY | MS_NOEXEC, err);
	return r == 0 && spec->auth_path ? copy_auth(spec, err) : r;
}

static int build_root(const struct jail_spec *spec, const char *root, const char *scratch,
		      struct err *err)
{
	int r;

	umask(022);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return failed(err, "make private", "/");
	if (mount("import", root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755,size=1m,nr_inodes=512") <
	    0)
		return failed(err, "mount a tmpfs on", root);
	if (chdir(root) < 0)
		return failed(err, "enter", root);
	r = show_all(shown, ARRAY_SIZE(shown), err);
	if (r == 0 && spec->network)
		r = show_all(shown_network, ARRAY_SIZE(shown_network), err);
	if (r == 0)
		r = make_dev(err);
	if (r == 0)
		r = show_own(spec, scratch, err);
	if (r < 0)
		return r;
	if (mount(NULL, root, NULL, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) < 0)
		return failed(err, "make read-only", "/");
	if (syscall(SYS_pivot_root, ".", ".") < 0)
		return failed(err, "pivot into", root);
	if (umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return failed(err, "leave", "the old root");
	return 0;
}

/* ---- 3 and 4: users and rights ---- */

static int limit_all(const struct jail_spec *spec, struct err *err)
{
	const struct {
		__rlimit_resource_t resource;
		rlim_t value;
	} limits[] = {
		{ RLIMIT_CORE, 0 },    { RLIMIT_NOFILE, 1024 },
		{ RLIMIT_NPROC, 512 }, { RLIMIT_FSIZE, spec->file_bytes_max },
		{ RLIMIT_MEMLOCK, 0 }, { RLIMIT_MSGQUEUE, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		const struct rlimit rl = { limits[i].value, limits[i].value };

		if (setrlimit(limits[i].resource, &rl) < 0)
			return failed(err, "limit", "resources");
	}
	return 0;
}

static int keep_few_rights(struct err *err)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		data[kept[i] / 32].permitted |= 1u << (kept[i] % 32);
	for (size_t i = 0; i < 2; i++)
		data[i].effective = data[i].permitted;
	for (unsigned long cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
		if (!(data[cap / 32].permitted & 1u << (cap % 32)) &&
		    prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) < 0)
			return failed(err, "drop", "a capability");
	}
	if (syscall(SYS_capset, &header, data) < 0)
		return failed(err, "drop", "capabilities");
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return failed(err, "set", "no_new_privs");
	return 0;
}

static int become_root_of_range(int tell_fd, int go_fd, struct err *err)
{
	char byte;

	if (unshare(CLONE_NEWUSER) < 0)
		return failed(err, "make", "a user namespace");
	if (fd_write_all(tell_fd, "u", 1) < 0 || fd_read_full(go_fd, &byte, 1) != 1)
		return err_set(err, -ECANCELED, "the import's jail: its parent is gone");
	if (setgroups(0, NULL) < 0 || setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
		return failed(err, "become", "root of the range");
	return 0;
}

static int enter(const struct jail_spec *spec, const char *root, const char *scratch, int tell_fd,
		 int go_fd, struct err *err)
{
	int r = build_root(spec, root, scratch, err);

	if (r == 0)
		r = become_root_of_range(tell_fd, go_fd, err);
	if (r == 0)
		r = limit_all(spec, err);
	if (r == 0)
		r = keep_few_rights(err);
	/* After the change of user, which clears it. */
	if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0)
		r = failed(err, "tie to", "its parent");
	return r;
}

int jail_drop_network(struct err *err)
{
	return unshare(CLONE_NEWNET) < 0 ? failed(err, "leave", "the network") : 0;
}

/* ---- the parent ---- */

static int write_map(pid_t pid, const char *name, uid_t base, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("/proc/%d/%s", pid, name);
	_cleanup_free_ char *map = xasprintf("0 %u %u\n", base, JAIL_USERS);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : fd_write_all(fd, map, strlen(map));

	return r < 0 ? err_set(err, r, "the import's jail: cannot give it users: %s",
			       strerrordesc_np(-r))
		     : 0;
}

/* "u", or why there is none. */
static int hear_from_child(int fd, struct err *err)
{
	char message[sizeof(err->message)];
	ssize_t n = fd_read_full(fd, message, 1);

	if (n == 1 && message[0] == 'u')
		return 0;
	if (n == 1)
		n = fd_read_full(fd, message + 1, sizeof(message) - 2) + 1;
	if (n <= 0)
		return err_set(err, -EIO, "the import's jail did not start");
	message[n] = '\0';
	return err_set(err, -EIO, "%s", message);
}

static int read_result(int fd, struct buf *result, size_t max)
{
	char chunk[4096];
	ssize_t n;

	while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0 && result->len + (size_t)n > max)
			return -EMSGSIZE;
		if (n > 0)
			buf_append(result, chunk, (size_t)n);
	}
	return 0;
}

struct pipes {
	int tell[2], go[2], result[2];
};

static void pipes_close(const struct pipes *p)
{
	const int *const all[] = { p->tell, p->go, p->result };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		for (int end = 0; end < 2; end++)
			if (all[i][end] >= 0)
				close(all[i][end]);
}

#define PIPES_INIT ((struct pipes){ { -1, -1 }, { -1, -1 }, { -1, -1 } })

static _Noreturn void child_main(const struct jail_spec *spec, const char *root,
				 const char *scratch, struct pipes *p, jail_fn fn, void *arg)
{
	struct err err = ERR_INIT;

	close(STEAL_FD(p->go[1])); /* so that the parent's death is seen */
	if (enter(spec, root, scratch, p->tell[1], p->go[0], &err) < 0) {
		fd_write_all(p->tell[1], err.message, strlen(err.message));
		_exit(127);
	}
	_exit(fn(arg, p->result[1]));
}

static int attend(pid_t pid, const struct jail_spec *spec, struct pipes *p, struct buf *result,
		  size_t result_max, struct err *err)
{
	int r = hear_from_child(p->tell[0], err);

	if (r == 0)
		r = write_map(pid, "uid_map", spec->uid_base, err);
	if (r == 0)
		r = write_map(pid, "gid_map", spec->uid_base, err);
	if (r < 0)
		return r;
	r = fd_write_all(p->go[1], "g", 1);
	if (r == 0)
		r = read_result(p->result[0], result, result_max);
	return r < 0 ? err_set(err, r, "the import's jail: %s", strerrordesc_np(-r)) : 0;
}

static pid_t clone_into(uint64_t namespaces)
{
	struct clone_args args = { .flags = namespaces, .exit_signal = SIGCHLD };

	return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

int jail_run(const struct jail_spec *spec, jail_fn fn, void *arg, struct buf *result,
	     size_t result_max, struct err *err)
{
	_cleanup_free_ char *root = xasprintf("%s/root", spec->work_dir);
	_cleanup_free_ char *scratch = xasprintf("%s/scratch", spec->work_dir);
	_cleanup_(pipes_close) struct pipes p = PIPES_INIT;
	int status = 0, r;
	pid_t pid;

	if (mkdir(root, 0700) < 0)
		return failed(err, "make", root);
	r = scratch_make(scratch, spec->scratch_bytes, spec->scratch_inodes, err);
	if (r < 0)
		return r;
	if (pipe2(p.tell, O_CLOEXEC) < 0 || pipe2(p.go, O_CLOEXEC) < 0 ||
	    pipe2(p.result, O_CLOEXEC) < 0)
		return failed(err, "make", "a pipe");
	pid = clone_into(NAMESPACES | (spec->network ? 0 : CLONE_NEWNET));
	if (pid < 0)
		return failed(err, "make", "namespaces");
	if (pid == 0)
		child_main(spec, root, scratch, &p, fn, arg);
	close(STEAL_FD(p.tell[1]));
	close(STEAL_FD(p.go[0]));
	close(STEAL_FD(p.result[1]));
	r = attend(pid, spec, &p, result, result_max, err);
	if (r < 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r == 0 && result->len == 0)
		return err_set(err, -EIO, "the import's process ended with %d and said nothing",
			       WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
	return r;
}
