/*
 * From the initramfs to the guest's root. See init.h.
 *
 * The kernel starts us as /init in its initramfs, which holds this program, /modules/list and the
 * modules, nothing else. Two block devices are named on the kernel command line:
 *
 *   skerry.root=/dev/vda   the image: erofs, read-only, shared by all sandboxes of it
 *   skerry.disk=/dev/vdb   this sandbox's disk: ext4, made by the host: upper and work directory of
 *                          the overlay, and the logs of its commands
 *
 * The overlay of both becomes "/" by a move and a chroot, as the root of an initramfs cannot be
 * unmounted or pivoted; what the initramfs held is deleted first, to have its memory back.
 */
#include "guest/init.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

#define DEVICE_WAIT_MS 10000
#define SAFE	       (MS_NOSUID | MS_NODEV | MS_NOEXEC)

void init_fatal(const char *fmt, ...)
{
	_cleanup_buf_ struct buf line = BUF_INIT;
	va_list ap;

	va_start(ap, fmt);
	buf_vprintf(&line, fmt, ap);
	va_end(ap);
	log_error("the guest cannot go on", "why=\"%s\"", buf_str(&line));
	reboot(RB_AUTOBOOT);
	_exit(1); /* the kernel panics without PID 1 */
}

static void make_dir(const char *path, mode_t mode)
{
	if (mkdir(path, mode) < 0 && errno != EEXIST)
		init_fatal("cannot make %s: %s", path, strerrordesc_np(errno));
	if (chmod(path, mode) < 0)
		init_fatal("cannot set the mode of %s: %s", path, strerrordesc_np(errno));
}

static void must_mount(const char *source, const char *target, const char *type,
		       unsigned long flags, const char *options)
{
	if (mount(source, target, type, flags, options) < 0)
		init_fatal("cannot mount %s on %s: %s", source, target, strerrordesc_np(errno));
}

static void open_console(void)
{
	int fd = open("/dev/console", O_RDWR | O_NOCTTY);

	/* A kernel without a console: what we say goes to its log then. */
	if (fd < 0)
		fd = open("/dev/kmsg", O_RDWR);
	for (int i = 0; i < 3; i++)
		if (fd >= 0 && fd != i)
			dup2(fd, i);
	if (fd > 2)
		close(fd);
}

void init_early(void)
{
	make_dir("/proc", 0555);
	make_dir("/sys", 0555);
	make_dir("/dev", 0755);
	must_mount("proc", "/proc", "proc", SAFE, NULL);
	must_mount("sysfs", "/sys", "sysfs", SAFE, NULL);
	must_mount("devtmpfs", "/dev", "devtmpfs", MS_NOSUID, "mode=0755");
	open_console();
}

/* ---- modules ---- */

static void load_module(const char *name)
{
	char path[320];
	_cleanup_close_ int fd = -1;

	snprintf(path, sizeof(path), "/modules/%s", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	/* A module that cannot be loaded shows when what it is for is missing. */
	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST))
		log_error("cannot load a kernel module", "module=%s errno=%d", name, errno);
}

void init_modules(void)
{
	_cleanup_buf_ struct buf list = BUF_INIT;
	char *save = NULL;

	if (file_read("/modules/list", 64 * 1024, &list) < 0 || list.len == 0)
		return; /* everything is built in */
	for (char *name = strtok_r(list.data, "\n", &save); name;
	     name = strtok_r(NULL, "\n", &save))
		load_module(name);
}

/* ---- the root ---- */

bool init_parameter(const char *name, char *out, size_t out_size)
{
	_cleanup_buf_ struct buf line = BUF_INIT;
	size_t name_len = strlen(name);
	char *save = NULL;

	if (file_read("/proc/cmdline", 64 * 1024, &line) < 0 || line.len == 0)
		init_fatal("cannot read the kernel command line");
	for (char *w = strtok_r(line.data, " \n", &save); w; w = strtok_r(NULL, " \n", &save))
		if (strncmp(w, name, name_len) == 0 && w[name_len] == '=' &&
		    str_copy(out, out_size, w + name_len + 1))
			return true;
	return false;
}

static void get_parameter(const char *name, char *out, size_t out_size)
{
	if (!init_parameter(name, out, out_size))
		init_fatal("the kernel command line has no %s=", name);
}

static void wait_for_device(const char *path)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int64_t deadline = clock_boottime_ms() + DEVICE_WAIT_MS;

	while (access(path, F_OK) < 0) {
		if (clock_remaining_ms(deadline) == 0)
			init_fatal("the block device %s does not appear", path);
		nanosleep(&pause, NULL);
	}
}

static void mount_overlay(void)
{
	char root[64], disk[64];

	get_parameter("skerry.root", root, sizeof(root));
	get_parameter("skerry.disk", disk, sizeof(disk));
	wait_for_device(root);
	wait_for_device(disk);
	make_dir("/image", 0755);
	make_dir("/disk", 0755);
	make_dir("/root", 0755);
	must_mount(root, "/image", "erofs", MS_RDONLY, NULL);
	/* Zeroing unused inode tables in the background would wake an idle guest for minutes, and
	 * allocate the blocks on the host; they are marked as unused, which is enough. */
	must_mount(disk, "/disk", "ext4", MS_NOATIME, "noinit_itable");
	make_dir("/disk/upper", 0755);
	make_dir("/disk/work", 0755);
	make_dir("/disk/exec", 0755);
	/* redirect_dir: directories of the image can be renamed, as package managers do. */
	must_mount("overlay", "/root", "overlay", MS_NOATIME,
		   "lowerdir=/image,upperdir=/disk/upper,workdir=/disk/work,redirect_dir=on");
}

/* The image may lack an empty directory or have one with an odd mode: ours to set right. */
static void mount_in_root(const char *source, const char *target, const char *type,
			  unsigned long flags, const char *options)
{
	make_dir(target, 0755);
	must_mount(source, target, type, flags, options);
}

static void link_or_ignore(const char *target, const char *path)
{
	if (symlink(target, path) < 0 && errno != EEXIST)
		log_warn("cannot make a link", "path=%s errno=%d", path, errno);
}

static void mount_system(void)
{
	mount_in_root("/proc", "/root/proc", NULL, MS_MOVE, NULL);
	mount_in_root("/sys", "/root/sys", NULL, MS_MOVE, NULL);
	mount_in_root("/dev", "/root/dev", NULL, MS_MOVE, NULL);
	mount_in_root("devpts", "/root/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		      "gid=5,mode=620,ptmxmode=666");
	mount_in_root("shm", "/root/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
	link_or_ignore("/proc/self/fd", "/root/dev/fd");
	link_or_ignore("/proc/self/fd/0", "/root/dev/stdin");
	link_or_ignore("/proc/self/fd/1", "/root/dev/stdout");
	link_or_ignore("/proc/self/fd/2", "/root/dev/stderr");
	must_mount("cgroup", "/root/sys/fs/cgroup", "cgroup2", SAFE, "nsdelegate");
	mount_in_root("run", "/root/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=25%");
	make_dir("/root/run/lock", 01777);
	make_dir("/root/run/skerry", 0755);
	mount_in_root("/disk/exec", "/root/run/skerry/exec", NULL, MS_BIND, NULL);
	make_dir("/root/tmp", 01777);
}

static void empty_initramfs(void)
{
	tree_remove("/modules");
	unlink("/init");
}

int init_root(void)
{
	int exec_dir_fd;

	mount_overlay();
	exec_dir_fd = open("/disk/exec", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (exec_dir_fd < 0)
		init_fatal("cannot open the directory of logs: %s", strerrordesc_np(errno));
	mount_system();
	empty_initramfs();
	if (chdir("/root") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
	    chdir("/") < 0)
		init_fatal("cannot change to the new root: %s", strerrordesc_np(errno));
	return exec_dir_fd;
}
