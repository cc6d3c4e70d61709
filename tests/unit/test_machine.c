/* QEMU's command line: what must always be on it, and what must never be. */
#include "unit.h"

#include <string.h>

#include "base/buf.h"
#include "vmm/qemu/machine.h"

static const struct machine_fds fds = {
	.qmp_listen = 10,
	.agent_listen = 11,
	.console = 12,
	.root = 13,
	.disk = 14,
	.memory = 15,
	.kvm = 16,
};

static struct machine make_machine(enum vmm_isolation isolation)
{
	return (struct machine){
		.isolation = isolation,
		.qemu_path = (char *)"/usr/bin/qemu",
		.kernel_path = (char *)"/guest/vmlinux",
		.initramfs_path = (char *)"/guest/initramfs",
		.has_sandbox = true,
		.tsc_khz = 2445404,
	};
}

static struct vmm_spec make_spec(void)
{
	return (struct vmm_spec){
		.name = "sbx_test",
		.vcpus = 2,
		.memory_mb = 512,
		.memory_path = "/state/memory",
		.device_state_path = "/state/device",
	};
}

/* The whole line, blanks between. The caller clears. */
static struct buf line_of(const struct machine *machine, const struct vmm_spec *spec)
{
	struct args args = ARGS_INIT;
	struct buf line = BUF_INIT;

	machine_command(machine, spec, &fds, &args);
	assert_null(args.v[args.n]);
	for (size_t i = 0; i < args.n; i++)
		buf_printf(&line, " %s", args.v[i]);
	buf_append_char(&line, ' ');
	args_clear(&args);
	return line;
}

static void assert_has(const struct buf *line, const char *part)
{
	if (!strstr(line->data, part))
		fail_msg("'%s' is not in '%s'", part, line->data);
}

static void assert_lacks(const struct buf *line, const char *part)
{
	if (strstr(line->data, part))
		fail_msg("'%s' is in '%s'", part, line->data);
}

static void every_machine_is_bare_and_sealed(void **state)
{
	for (int kvm = 0; kvm < 2; kvm++) {
		struct machine machine = make_machine(kvm ? VMM_KVM : VMM_EMULATED);
		struct vmm_spec spec = make_spec();
		struct buf line = line_of(&machine, &spec);

		assert_has(&line, " -nodefaults ");
		assert_has(&line, " -no-user-config ");
		assert_has(&line, " -no-reboot ");
		assert_has(&line, " -display none ");
		assert_has(&line, " -sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,"
				  "resourcecontrol=deny ");
		assert_has(&line, "-svm");
		assert_has(&line, "mem-merge=off");
		assert_has(&line, "merge=off,dump=off");
		assert_has(&line, "driver=raw,node-name=disk");
		assert_has(&line, "driver=raw,node-name=root,file=root-file,read-only=on");
		assert_lacks(&line, "/state/"); /* descriptors only */
		assert_lacks(&line, "netdev");
		buf_clear(&line);
	}
}

/* Nothing of a guest runs before the jail is sealed: stopped, or waiting for its state. */
static void boot_starts_stopped_and_restore_waits(void **state)
{
	struct machine machine = make_machine(VMM_EMULATED);
	struct vmm_spec spec = make_spec();
	struct buf restore = line_of(&machine, &spec), boot;

	spec.device_state_path = NULL;
	boot = line_of(&machine, &spec);
	assert_has(&restore, " -incoming defer ");
	assert_lacks(&restore, " -kernel ");
	assert_has(&boot, " -S ");
	assert_has(&boot, " -kernel /guest/vmlinux -initrd /guest/initramfs ");
	assert_has(&boot, "tsc_early_khz=2445404");
	assert_lacks(&boot, "-incoming");
	buf_clear(&restore);
	buf_clear(&boot);
}

static void memory_is_shared_only_in_the_making(void **state)
{
	struct machine machine = make_machine(VMM_EMULATED);
	struct vmm_spec spec = make_spec();
	struct buf line = line_of(&machine, &spec);

	assert_has(&line, "mem-path=/memory,share=off");
	buf_clear(&line);
	spec.memory_shared = true;
	line = line_of(&machine, &spec);
	assert_has(&line, "mem-path=/memory,share=on");
	buf_clear(&line);
	spec.memory_path = NULL;
	line = line_of(&machine, &spec);
	assert_lacks(&line, "memory-backend");
	buf_clear(&line);
}

static void processor_depends_on_the_accelerator(void **state)
{
	struct machine tcg = make_machine(VMM_EMULATED), kvm = make_machine(VMM_KVM);
	struct vmm_spec spec = make_spec();
	struct buf line;

	spec.device_state_path = NULL;
	line = line_of(&tcg, &spec);
	assert_has(&line, " -accel tcg,");
	assert_has(&line, " -cpu EPYC-v1,");
	assert_has(&line, "norandmaps");
	buf_clear(&line);
	line = line_of(&kvm, &spec);
	assert_has(&line, " -accel kvm ");
	assert_has(&line, " -cpu host,-vmx,-svm ");
	assert_lacks(&line, "norandmaps");
	assert_lacks(&line, "mitigations=off");
	buf_clear(&line);
}

/* One tap by its descriptor, nothing that a guest could configure; after the other devices, whose
 * places a saved state knows. */
static void network_is_a_passed_tap(void **state)
{
	struct machine machine = make_machine(VMM_EMULATED);
	struct vmm_spec spec = make_spec();
	const struct vmm_network network = {
		.tap_fd = 17,
		.mac = "02:5e:00:00:00:02",
		.address = "100.64.0.2/30",
		.gateway = "100.64.0.1",
		.gateway_mac = "02:5e:00:00:00:01",
	};
	struct buf line;

	spec.network = &network;
	line = line_of(&machine, &spec);
	assert_has(&line, " -netdev tap,id=net,fd=17 ");
	assert_has(&line, ",mac=02:5e:00:00:00:02 ");
	assert_has(&line, "ctrl_vq=off");
	assert_lacks(&line, "vhost");
	assert_lacks(&line, "script=");
	assert_true(strstr(line.data, "-netdev") > strstr(line.data, "drive=disk"));
	assert_lacks(&line, "skerry.net"); /* it has been told */
	buf_clear(&line);
	spec.device_state_path = NULL;
	line = line_of(&machine, &spec);
	assert_has(&line, " skerry.net=100.64.0.2/30,100.64.0.1,02:5e:00:00:00:01 ");
	buf_clear(&line);
}

static void limits_grow_with_the_machine(void **state)
{
	struct machine tcg = make_machine(VMM_EMULATED), kvm = make_machine(VMM_KVM);
	struct vmm_spec small = make_spec(), large = make_spec();

	large.vcpus = 8;
	large.memory_mb = 16384;
	assert_true(machine_overhead_bytes(&tcg, &large) > machine_overhead_bytes(&tcg, &small));
	assert_int_equal(machine_overhead_bytes(&tcg, &small) -
				 machine_overhead_bytes(&kvm, &small),
			 MACHINE_TRANSLATION_CACHE_MB * 1024 * 1024);
	assert_int_equal(machine_threads_max(&tcg, &large) - machine_threads_max(&tcg, &small), 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_machine_is_bare_and_sealed),
		cmocka_unit_test(boot_starts_stopped_and_restore_waits),
		cmocka_unit_test(memory_is_shared_only_in_the_making),
		cmocka_unit_test(processor_depends_on_the_accelerator),
		cmocka_unit_test(network_is_a_passed_tap),
		cmocka_unit_test(limits_grow_with_the_machine),
	};

	return cmocka_run_group_tests_name("machine", tests, NULL, NULL);
}
