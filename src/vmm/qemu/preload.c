/*
 * libskerry-qemu.so: loaded into QEMU by LD_PRELOAD. Two things that QEMU 7.2 cannot be told to do.
 *
 * Descriptors in place of paths. QEMU takes the guest's memory file and /dev/kvm by path only, and
 * opens the memory file for reading and writing even where the guest's memory is a private copy. In
 * the jail neither path exists, and a template's memory, which many VMs share, must not be writable
 * by any of them. With this, QEMU "opens" a descriptor that it was passed: the file was opened
 * outside, read-only for a private copy (which MAP_PRIVATE allows to be written in memory), and the
 * kernel holds QEMU to that. SKERRY_DESCRIPTORS holds `path=descriptor` pairs, separated by colons.
 *
 * No programs, no processes. QEMU's own filter (-sandbox) refuses them, but Debian's small build
 * for KVM has none; and the warden cannot refuse what it needs to start QEMU. So a filter is put up
 * here, before QEMU's main(); where that fails, QEMU does not start.
 *
 * Kept to system calls and string functions: it runs inside QEMU.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* As in the C library, which declares them only where _FORTIFY_SOURCE uses them. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);

/* The descriptor that stands for path, or -1. */
static int passed_descriptor(const char *path)
{
	const char *pair = getenv("SKERRY_DESCRIPTORS");
	size_t len = strlen(path);

	while (pair && *pair) {
		if (strncmp(pair, path, len) == 0 && pair[len] == '=')
			return (int)strtol(pair + len + 1, NULL, 10);
		pair = strchr(pair, ':');
		pair += pair != NULL;
	}
	return -1;
}

static int open_or_pass(const char *path, int flags, mode_t mode)
{
	int fd = passed_descriptor(path);

	/* A copy, as the caller closes what it opens. */
	if (fd >= 0)
		return fcntl(fd, F_DUPFD_CLOEXEC, 3);
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

static mode_t take_mode(int flags, va_list ap)
{
	return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

/* NOLINTBEGIN(readability-inconsistent-declaration-parameter-name): the C library's are reserved */

int open(const char *path, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = take_mode(flags, ap);
	va_end(ap);
	return open_or_pass(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	mode_t mode;
	va_list ap;

	va_start(ap, flags);
	mode = take_mode(flags, ap);
	va_end(ap);
	return open_or_pass(path, flags, mode);
}

/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */

/* What _FORTIFY_SOURCE turns open() without a mode into. */
int __open_2(const char *path, int flags)
{
	return open_or_pass(path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
	return open_or_pass(path, flags, 0);
}

/* ---- the filter ---- */

#define LOAD(field)    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(action) BPF_STMT(BPF_RET | BPF_K, action)
#define REFUSE(num)    RETURN(SECCOMP_RET_ERRNO | (num))
/* Runs the next instruction only for this system call. */
#define IF_CALL(nr) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1)
#define X32_CALLS   0x40000000u

static void refuse_processes(void) __attribute__((constructor));

static void refuse_processes(void)
{
	static struct sock_filter code[] = {
		LOAD(arch),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		LOAD(nr),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_CALLS, 0, 1),
		RETURN(SECCOMP_RET_KILL_PROCESS),
		IF_CALL(SYS_execve),
		REFUSE(EPERM),
		IF_CALL(SYS_execveat),
		REFUSE(EPERM),
		IF_CALL(SYS_fork),
		REFUSE(EPERM),
		IF_CALL(SYS_vfork),
		REFUSE(EPERM),
		/* Threads are started by clone, with a flag that says so. */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
		LOAD(args[0]),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 1, 0),
		REFUSE(EPERM),
		RETURN(SECCOMP_RET_ALLOW),
	};
	static const struct sock_fprog program = {
		.len = sizeof(code) / sizeof(code[0]),
		.filter = code,
	};
	static const char message[] = "libskerry-qemu: cannot apply the system call filter\n";

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
		return;
	syscall(SYS_write, STDERR_FILENO, message, sizeof(message) - 1);
	_exit(1);
}
