/*
 * libskerry-descriptors.so: loaded into QEMU by LD_PRELOAD, it lets QEMU "open" a path that stands for a
 * descriptor it was passed. SKERRY_DESCRIPTORS holds `path=descriptor` pairs, separated by colons.
 *
 * Why: QEMU 7.2 takes the guest's memory file and /dev/kvm by path only, and opens the memory file for
 * reading and writing even where the guest's memory is a private copy. In the jail neither path exists,
 * and a template's memory, which many VMs share, must not be writable by any of them. With this, the
 * file is opened outside, read-only for a private copy (which MAP_PRIVATE allows to be written in
 * memory), and the kernel holds QEMU to that.
 *
 * Anything else is opened as always. Kept to system calls and string functions: it runs inside QEMU.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int open(const char *path, int flags, ...);
int open64(const char *path, int flags, ...);
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

/* What _FORTIFY_SOURCE turns open() without a mode into. */
int __open_2(const char *path, int flags)
{
	return open_or_pass(path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
	return open_or_pass(path, flags, 0);
}
