/* See scratch.h. */
#include "import/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "loop/spawn.h"

#define MAKE_DEADLINE_MS 60000
#define LOOP_TRIES	 16

/* No journal: it is thrown away. No reserve: its root is who writes to it. */
int scratch_make(const char *path, uint64_t bytes, uint64_t inodes, struct err *err)
{
	_cleanup_free_ char *number = xasprintf("%llu", (unsigned long long)inodes);
	const char *const argv[] = {
		"mkfs.ext4",	"-q",	"-F",
		"-m",		"0",	"-O",
		"^has_journal", "-E",	"lazy_itable_init=1,nodiscard",
		"-N",		number, path,
		NULL,
	};
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		return err_set(err, -errno, "make '%s': %s", path, strerrordesc_np(errno));
	spec.argv = argv;
	return spawn_run(&spec, clock_boottime_ms() + MAKE_DEADLINE_MS, NULL, 0, NULL, NULL, err);
}

/* A free device may be taken by somebody else between the question and the answer. */
static int attach(int file_fd, char *path, size_t path_size)
{
	struct loop_config config = {
		.fd = (uint32_t)file_fd,
		.info = { .lo_flags = LO_FLAGS_AUTOCLEAR },
	};
	_cleanup_close_ int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (control < 0)
		return -errno;
	for (int i = 0; i < LOOP_TRIES; i++) {
		int number = ioctl(control, LOOP_CTL_GET_FREE), fd;

		if (number < 0)
			return -errno;
		snprintf(path, path_size, "/dev/loop%d", number);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		if (ioctl(fd, LOOP_CONFIGURE, &config) == 0)
			return fd;
		close(fd);
		if (errno != EBUSY)
			return -errno;
	}
	return -EBUSY;
}

int scratch_mount(const char *path, const char *target, struct err *err)
{
	_cleanup_close_ int file = open(path, O_RDWR | O_CLOEXEC);
	_cleanup_close_ int device = -1;
	char name[32];

	if (file < 0)
		return err_set(err, -errno, "open '%s': %s", path, strerrordesc_np(errno));
	device = attach(file, name, sizeof(name));
	if (device < 0) {
		err_set(err, device, "no loop device for a file system of a bounded size: %s",
			strerrordesc_np(-device));
		err_hint(err, "images are unpacked into one; load the kernel's module loop, and "
			      "give a container /dev/loop-control and /dev/loop*");
		return device;
	}
	if (mount(name, target, "ext4", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME, NULL) < 0)
		return err_set(err, -errno, "mount '%s': %s", path, strerrordesc_np(errno));
	return 0;
}
