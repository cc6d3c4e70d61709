/*
 * PID 1 of the machine that test_nested starts: loads the modules (KVM among them), mounts the
 * test's image and a /tmp in memory (a guest's memory is a file there, and each page that goes to
 * an emulated disk costs a guest's fault in nested tables), runs the program of /skerry that the
 * kernel's command line names (SKERRY_TEST=NAME, which the kernel hands on as a variable;
 * SKERRY_TEST_FILTER=PATTERN chooses among its tests) with its output on the console, and turns the
 * machine off.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void off(void)
{
	sync();
	reboot(RB_AUTOBOOT); /* which QEMU's -no-reboot makes an end */
	_exit(1);
}

static void must(int result, const char *what)
{
	if (result >= 0)
		return;
	printf("nested: cannot %s: %s\n", what, strerror(errno));
	off();
}

static void load_modules(void)
{
	FILE *list = fopen("/modules/list", "re");
	char name[128];

	must(list ? 0 : -1, "open /modules/list");
	while (fgets(name, sizeof(name), list)) {
		char path[160];
		int fd;

		name[strcspn(name, "\n")] = '\0';
		snprintf(path, sizeof(path), "/modules/%s", name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		must(fd, path);
		if (syscall(SYS_finit_module, fd, "", 0) < 0 && errno != ENODEV)
			must(-1, path);
		close(fd);
	}
	fclose(list);
}

/* The disks appear some time after their driver was loaded. */
static void mount_disk(const char *disk, const char *where, const char *type, unsigned long flags)
{
	for (int i = 0; i < 500; i++) {
		if (mount(disk, where, type, flags, NULL) == 0)
			return;
		must(i == 499 ? -1 : 0, disk);
		usleep(10000);
	}
}

static void mount_image(void)
{
	mkdir("/image", 0755);
	mount_disk("/dev/vda", "/image", "erofs", MS_RDONLY);
	must(mount("tmp", "/image/tmp", "tmpfs", 0, "size=6g"), "mount /tmp");
	must(mount("/dev", "/image/dev", NULL, MS_MOVE, NULL), "move /dev");
	must(mount("proc", "/image/proc", "proc", 0, NULL), "mount /proc");
	must(mount("sys", "/image/sys", "sysfs", 0, NULL), "mount /sys");
	must(mount("cgroup", "/image/sys/fs/cgroup", "cgroup2", 0, NULL), "mount cgroup2");
	/* A root that pivot_root works on: the initramfs itself is not one. */
	must(chdir("/image"), "enter the image");
	must(mount(".", "/", NULL, MS_MOVE, NULL), "move the image");
	must(chroot("."), "enter the image");
	must(chdir("/"), "enter the image");
}

static void run_test(void)
{
	const char *name = getenv("SKERRY_TEST");
	char path[128];
	char *const argv[] = { path, getenv("SKERRY_TEST_FILTER"), NULL };
	char *const env[] = {
		"PATH=/usr/sbin:/usr/bin",
		"CMOCKA_MESSAGE_OUTPUT=TAP",
		"SKERRY_TEST_ACCEL=auto",
		"SKERRY_TEST_DISK=memory",
		"SKERRY_TEST_PATIENCE=5",
		"SKERRY_TEST_WARDEN=/skerry/skerry-warden",
		"SKERRY_TEST_LIB_DIR=/skerry",
		"SKERRY_TEST_KERNEL=/skerry/vmlinux",
		"SKERRY_TEST_INITRAMFS=/skerry/initramfs.cpio",
		"SKERRY_IMAGE_DIR=/skerry",
		NULL,
	};
	int status = 0;
	pid_t pid;

	snprintf(path, sizeof(path), "/skerry/%s", name ? name : "");
	pid = fork();
	if (pid == 0) {
		execve(argv[0], argv, env);
		must(-1, path);
	}
	while (wait(&status) != pid)
		;
	printf("nested: the test ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

int main(void)
{
	int console;

	mkdir("/dev", 0755);
	must(mount("dev", "/dev", "devtmpfs", 0, NULL), "mount /dev");
	console = open("/dev/console", O_RDWR);
	for (int fd = 0; fd < 3; fd++)
		dup2(console, fd);
	setvbuf(stdout, NULL, _IOLBF, 0);
	load_modules();
	mount_image();
	run_test();
	fflush(stdout);
	off();
}
