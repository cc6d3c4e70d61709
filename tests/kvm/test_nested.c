/*
 * Runs tests in a machine whose processor QEMU emulates with SVM and nested paging, where Debian's
 * own KVM is real for all its guests can tell. So the KVM path is tested on any host: the driver's
 * own test, and those of saved states, of the whole lifecycle and of the network that also run
 * under TCG. What the inner test reports (TAP) is printed and checked line by line.
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
#include "vmm/qemu/args.h"
#include "vmm/qemu/tsc.h"

#define MEMORY_MB "7000" /* with the files of /tmp; taken as it is used */
#define RUN_MS	  1800000
#define IMAGE_MS  120000

static char dir[] = "/tmp/skerry-nested-XXXXXX";
static char image[sizeof(dir) + 16], console[sizeof(dir) + 16];

static const char *need(const char *name)
{
	const char *value = getenv(name);

	if (!value || access(value, F_OK) < 0)
		fail_msg("%s must name what was built: %s", name, value ? value : "(not set)");
	return value;
}

static void run_program(const char *const *argv, int64_t limit_ms)
{
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct err err = ERR_INIT;

	spec.argv = argv;
	if (spawn_run(&spec, clock_boottime_ms() + limit_ms, NULL, 0, NULL, NULL, &err) < 0)
		fail_msg("%s", err.message);
}

static void make_image(void)
{
	_cleanup_free_ char *base = xasprintf("%s/base.erofs", getenv("SKERRY_IMAGE_DIR") ?: ".");
	_cleanup_free_ char *preload =
		xasprintf("%s/libskerry-qemu.so", need("SKERRY_TEST_LIB_DIR"));
	const char *argv[] = {
		need("SKERRY_TEST_NESTED_IMAGE"),
		image,
		need("SKERRY_TEST_KVM"),
		need("SKERRY_TEST_VMM_STATE"),
		need("SKERRY_TEST_LIFECYCLE"),
		need("SKERRY_TEST_FORKS"),
		need("SKERRY_TEST_NETWORK"),
		need("SKERRY_TEST_EGRESS_FROM_GUEST"),
		need("SKERRY_TEST_EGRESS_TO_GUEST"),
		need("SKERRY_TEST_SLOTS"),
		need("SKERRY_TEST_SLOTS_LIFE"),
		need("SKERRY_TEST_TRUTH"),
		need("SKERRY_TEST_WARDEN"),
		preload,
		need("SKERRY_TEST_KERNEL"),
		need("SKERRY_TEST_INITRAMFS"),
		base,
		NULL,
	};

	run_program(argv, IMAGE_MS);
}

static void run_machine(const char *test)
{
	const char *filter = getenv("SKERRY_TEST_FILTER"); /* for whoever looks for a fault */
	struct args args = ARGS_INIT;
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct err err = ERR_INIT;
	unsigned int tsc_khz;

	if (tsc_frequency_khz(dir, &tsc_khz, &err) < 0)
		fail_msg("%s", err.message);
	args_add(&args, "qemu-system-x86_64");
	args_add(&args, "-nodefaults");
	args_add(&args, "-no-user-config");
	args_add(&args, "-no-reboot");
	args_option(&args, "-display", "none");
	args_option(&args, "-M", "microvm,pit=off,pic=off,rtc=on");
	args_option(&args, "-accel", "tcg,thread=multi");
	args_option(&args, "-cpu", "EPYC-Milan,+svm,+npt");
	args_option(&args, "-m", MEMORY_MB);
	args_option(&args, "-kernel", "%s", need("SKERRY_TEST_KERNEL"));
	args_option(&args, "-initrd", "%s", need("SKERRY_TEST_NESTED_INITRAMFS"));
	/* A tick that comes again and again. With single-shot timers this machine was seen to stand
	 * still for ever, its processor idle, after the first guest's boot (2 times of 2), as if a
	 * timer's interrupt had been lost while a guest ran; with this it goes on. */
	args_option(&args, "-append",
		    "console=ttyS0 quiet panic=-1 no_timer_check mitigations=off norandmaps "
		    "nohz=off highres=off tsc=reliable tsc_early_khz=%u SKERRY_TEST=%s%s%s",
		    tsc_khz, test, filter ? " SKERRY_TEST_FILTER=" : "", filter ?: "");
	args_option(&args, "-drive", "if=none,id=root,file=%s,format=raw,readonly=on", image);
	args_option(&args, "-device", "virtio-blk-device,drive=root");
	args_option(&args, "-serial", "file:%s", console);
	spec.argv = (const char *const *)args.v;
	if (spawn_run(&spec, clock_boottime_ms() + RUN_MS, NULL, 0, NULL, NULL, &err) < 0)
		print_message("# %s\n", err.message);
	args_clear(&args);
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

static void run_under_kvm(const char *test)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	int64_t from_ms = clock_boottime_ms();

	run_machine(test);
	file_read(console, 4 * 1024 * 1024, &text);
	printf("%s\n# %s under KVM took %lld ms\n", buf_str(&text), test,
	       (long long)(clock_boottime_ms() - from_ms));
	check_report(buf_str(&text));
}

static void driver_works_under_kvm(void **state)
{
	run_under_kvm("test_kvm");
}

static void state_is_kept_under_kvm(void **state)
{
	run_under_kvm("test_vmm_state");
}

static void lifecycle_works_under_kvm(void **state)
{
	run_under_kvm("test_lifecycle");
}

static void forks_work_under_kvm(void **state)
{
	run_under_kvm("test_forks");
}

static void guests_are_on_the_network_under_kvm(void **state)
{
	run_under_kvm("test_network");
}

/* The machine's kernel is Debian's 6.1, the oldest that the egress program must load on. */
static void egress_program_works_on_its_oldest_kernel(void **state)
{
	run_under_kvm("test_egress_from_guest");
	run_under_kvm("test_egress_to_guest");
	run_under_kvm("test_slots");
	run_under_kvm("test_slots_life");
	run_under_kvm("test_truth");
}

static int make_files(void **state)
{
	assert_non_null(mkdtemp(dir));
	snprintf(image, sizeof(image), "%s/root.erofs", dir);
	snprintf(console, sizeof(console), "%s/console", dir);
	make_image();
	return 0;
}

static int remove_files(void **state)
{
	tree_remove(dir);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(driver_works_under_kvm),
		cmocka_unit_test(state_is_kept_under_kvm),
		cmocka_unit_test(lifecycle_works_under_kvm),
		cmocka_unit_test(forks_work_under_kvm),
		cmocka_unit_test(guests_are_on_the_network_under_kvm),
		cmocka_unit_test(egress_program_works_on_its_oldest_kernel),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests_name("nested", tests, make_files, remove_files);
}
