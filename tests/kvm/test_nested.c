/*
 * Runs test_kvm in a machine whose processor QEMU emulates with SVM and nested paging, where Debian's own
 * KVM is real for all its guests can tell. So the KVM path is tested on any host. What the inner test
 * reports (TAP) is printed and checked line by line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "loop/spawn.h"
#include "vmm/qemu/tsc.h"

#define MEMORY_MB "3000"
#define RUN_MS 280000
#define IMAGE_MS 120000

static char dir[] = "/tmp/skerry-nested-XXXXXX";

static const char *need(const char *name)
{
	const char *value = getenv(name);

	if (!value || access(value, F_OK) < 0)
		fail_msg("%s must name what was built: %s", name, value ? value : "(not set)");
	return value;
}

static void make_image(const char *path)
{
	_cleanup_free_ char *base = xasprintf("%s/base.erofs", getenv("SKERRY_IMAGE_DIR") ?: ".");
	_cleanup_free_ char *preload =
		xasprintf("%s/libskerry-qemu.so", need("SKERRY_TEST_LIB_DIR"));
	const char *argv[] = { need("SKERRY_TEST_NESTED_IMAGE"), path,
			       need("SKERRY_TEST_KVM"),		 need("SKERRY_TEST_WARDEN"),
			       preload,				 need("SKERRY_TEST_KERNEL"),
			       need("SKERRY_TEST_INITRAMFS"),	 base,
			       NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct err err = ERR_INIT;

	spec.argv = argv;
	if (spawn_run(&spec, clock_boottime_ms() + IMAGE_MS, NULL, 0, NULL, NULL, &err) < 0)
		fail_msg("%s", err.message);
}

static void run_machine(const char *image, const char *console)
{
	_cleanup_free_ char *drive =
		xasprintf("if=none,id=root,file=%s,format=raw,readonly=on", image);
	_cleanup_free_ char *serial = xasprintf("file:%s", console);
	_cleanup_free_ char *append = NULL;
	const char *argv[] = { "qemu-system-x86_64", "-M", "microvm,pit=off,pic=off,rtc=on", "-accel",
			       "tcg,thread=multi", "-cpu", "EPYC-Milan,+svm,+npt", "-m", MEMORY_MB,
			       "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
			       "-kernel", need("SKERRY_TEST_KERNEL"), "-initrd",
			       need("SKERRY_TEST_NESTED_INITRAMFS"), "-append", NULL, "-drive", drive,
			       "-device", "virtio-blk-device,drive=root", "-serial", serial, NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct err err = ERR_INIT;
	unsigned int tsc_khz;

	if (tsc_frequency_khz(dir, &tsc_khz, &err) < 0)
		fail_msg("%s", err.message);
	append = xasprintf("console=ttyS0 quiet panic=-1 no_timer_check mitigations=off tsc=reliable "
			   "tsc_early_khz=%u",
			   tsc_khz);
	for (size_t i = 0; argv[i] || argv[i - 1] != serial; i++)
		if (!argv[i])
			argv[i] = append;
	spec.argv = argv;
	if (spawn_run(&spec, clock_boottime_ms() + RUN_MS, NULL, 0, NULL, NULL, &err) < 0)
		print_message("# %s\n", err.message);
}

/* TAP: "1..N", then a line a test, "ok" or "not ok". */
static void check_report(const char *text)
{
	const char *plan = strstr(text, "1..");
	long planned = plan ? strtol(plan + 3, NULL, 10) : 0;
	int passed = 0;

	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, "not ok", 6) == 0)
			fail_msg("a test under KVM failed");
		passed += strncmp(line, "ok ", 3) == 0;
		if (!*line)
			break;
	}
	if (planned < 1 || passed != planned)
		fail_msg("of %ld tests under KVM %d passed", planned, passed);
	if (!strstr(text, "nested: the test ended with 0"))
		fail_msg("the machine did not run the test to its end");
}

static void driver_works_under_kvm(void **state)
{
	_cleanup_free_ char *image = NULL, *console = NULL;
	_cleanup_buf_ struct buf text = BUF_INIT;
	int64_t from_ms = clock_boottime_ms();

	assert_non_null(mkdtemp(dir));
	image = xasprintf("%s/root.erofs", dir);
	console = xasprintf("%s/console", dir);
	make_image(image);
	run_machine(image, console);
	file_read(console, 1024 * 1024, &text);
	print_message("%s\n# the whole check took %lld ms\n", buf_str(&text),
		      (long long)(clock_boottime_ms() - from_ms));
	tree_remove(dir);
	check_report(buf_str(&text));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(driver_works_under_kvm) };

	return cmocka_run_group_tests_name("nested", tests, NULL, NULL);
}
