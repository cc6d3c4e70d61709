/*
 * The machine is microvm: no PCI, no firmware to wait for, few devices, and the one QEMU's project
 * supports for isolation (under KVM).
 *
 * Time. Under KVM the guest has kvmclock. Under TCG the guest's TSC is the host's, shifted, and
 * there is no reliable way for a guest to find its frequency: Linux measures it against the PIT in
 * 50 ms windows, which fails on a busy host, and a guest without it then hangs early in its boot
 * for want of any timer (seen with QEMU 7.2.22 and Linux 6.1). So it is told: tsc_early_khz=. The
 * PIT and PIC, which nothing needs then, are left out.
 *
 * CPU model. Under TCG a fixed, named one, so that a saved state fits wherever the fingerprint
 * does: EPYC, because TCG 7.2 has AVX2 and nearly everything else of it, and because Linux takes an
 * AMD processor to be free of Meltdown: page table isolation makes system calls slow under TCG.
 * What TCG lacks is left out by name. Mitigations are off under TCG: guest code is not executed but
 * translated.
 *
 * Address space layout. Under TCG programs of the guest get the same addresses each time
 * (norandmaps): translated code is found by its virtual address (until QEMU 8.0), so with random
 * layouts every process is translated anew. Measured in the guest: `true` 95 ms of CPU with, 48 ms
 * without; `python3 -c` the second time 651 ms and 218 ms; and private memory no longer grows with
 * every command.
 *
 * Kernel work. Under TCG each block of the guest's kernel costs 15 us when it is first run and some
 * 50 ns each time. What checks the kernel against itself is left out (the sandbox's user may be
 * root: the machine is the boundary), and what nothing in a sandbox looks at: security modules
 * without a policy (landlock stays, programs use it on themselves), pressure statistics, watchdogs.
 */
#include "vmm/qemu/machine.h"

#include "base/buf.h"
#include "base/cleanup.h"

#include "skerry/guest_proto.h"

#define MIB (1024ull * 1024ull)

#define TCG_CPU                                                                                    \
	"EPYC-v1,-rdseed,-sha-ni,-fxsr-opt,-misalignsse,-3dnowprefetch,-osvw,-topoext,-nrip-save," \
	"-xsavec,-svm,-npt"
#define KVM_CPU "host,-vmx,-svm"

/* mem-merge=off: pages shared with other guests (KSM) would let one learn what another has. */
#define COMMON_MACHINE                                                                             \
	"microvm,acpi=on,pcie=off,usb=off,x-option-roms=off,pit=off,pic=off,isa-serial=on,"        \
	"mem-merge=off,dump-guest-core=off"
#define TCG_MACHINE COMMON_MACHINE ",rtc=on"
#define KVM_MACHINE COMMON_MACHINE ",rtc=off"

/* panic=-1: reboot at once, which -no-reboot turns into an end. quiet: a panic is printed all the
 * same, and each byte of a boot's messages would cost an exit. */
#define KERNEL_ARGUMENTS                                                                           \
	"console=ttyS0 quiet loglevel=1 panic=-1 reboot=t random.trust_cpu=on no_timer_check "     \
	"skerry.root=/dev/vda skerry.disk=/dev/vdb"

/* The guest gets a fixed MAC and no control queue: nothing to change about its device, and less of
 * QEMU to reach. */
#define NET_DEVICE                                                                                 \
	"virtio-net-device,netdev=net,ctrl_vq=off,ctrl_rx=off,ctrl_vlan=off,ctrl_rx_extra=off,"    \
	"ctrl_mac_addr=off,ctrl_guest_offloads=off,guest_announce=off,mq=off"

#define TCG_KERNEL_ARGUMENTS                                                                       \
	" mitigations=off norandmaps tsc=reliable lsm=landlock psi=0 audit=0 init_on_alloc=0 "     \
	"hardened_usercopy=off noirqdebug nowatchdog"

/* There is no CMOS clock (kvm-clock tells the time), and the kernel's driver would look for one for
 * a second, port by port: mc146818_avoid_UIP() of Linux 6.1 reads the absent device as busy. */
#define KVM_KERNEL_ARGUMENTS " initcall_blacklist=cmos_init"

static bool is_tcg(const struct machine *machine)
{
	return machine->isolation == VMM_EMULATED;
}

static void add_processor(const struct machine *machine, const struct vmm_spec *spec,
			  struct args *out)
{
	args_option(out, "-M", "%s%s", is_tcg(machine) ? TCG_MACHINE : KVM_MACHINE,
		    spec->memory_path ? ",memory-backend=memory" : "");
	if (is_tcg(machine))
		args_option(out, "-accel", "tcg,thread=multi,tb-size=%u",
			    MACHINE_TRANSLATION_CACHE_MB);
	else
		args_option(out, "-accel", "kvm");
	args_option(out, "-cpu", "%s", is_tcg(machine) ? TCG_CPU : KVM_CPU);
	args_option(out, "-smp", "%u", spec->vcpus);
}

static void add_memory(const struct vmm_spec *spec, struct args *out)
{
	args_option(out, "-m", "%u", spec->memory_mb);
	if (spec->memory_path)
		args_option(out, "-object",
			    "memory-backend-file,id=memory,size=%uM,mem-path=" MACHINE_MEMORY_PATH
			    ",share=%s,merge=off,dump=off,prealloc=off",
			    spec->memory_mb, spec->memory_shared ? "on" : "off");
}

static void add_kernel(const struct machine *machine, const struct vmm_spec *spec, struct args *out)
{
	const struct vmm_network *network = spec->network;
	_cleanup_buf_ struct buf line = BUF_INIT;

	args_option(out, "-kernel", "%s", machine->kernel_path);
	args_option(out, "-initrd", "%s", machine->initramfs_path);
	buf_append_str(&line, KERNEL_ARGUMENTS);
	if (is_tcg(machine))
		buf_printf(&line, TCG_KERNEL_ARGUMENTS " tsc_early_khz=%u", machine->tsc_khz);
	else
		buf_append_str(&line, KVM_KERNEL_ARGUMENTS);
	if (network)
		buf_printf(&line, " skerry.net=%s,%s,%s", network->address, network->gateway,
			   network->gateway_mac);
	args_option(out, "-append", "%s", line.data);
}

/* QEMU's locks on image files are off: the root image is shared by design, a disk is its VM's own.
 */
static void add_disk(const char *id, int fd, bool read_only, struct args *out)
{
	const char *rights =
		read_only ? "read-only=on,discard=ignore" : "read-only=off,discard=unmap";

	args_option(out, "-add-fd", "fd=%d,set=%d,opaque=%s", fd, fd, id);
	args_option(out, "-blockdev",
		    "driver=file,node-name=%s-file,filename=/dev/fdset/%d,locking=off,"
		    "auto-read-only=off,%s",
		    id, fd, rights);
	/* The format is said, never guessed: a guest can write any header to its own disk. */
	args_option(out, "-blockdev", "driver=raw,node-name=%s,file=%s-file,%s", id, id, rights);
	args_option(out, "-device", "virtio-blk-device,drive=%s,serial=%s", id, id);
}

static void add_network(const struct vmm_network *network, struct args *out)
{
	args_option(out, "-netdev", "tap,id=net,fd=%d", network->tap_fd);
	args_option(out, "-device", NET_DEVICE ",mac=%s", network->mac);
}

/* Virtio devices take the machine's slots in the order given: root is vda, disk is vdb. */
static void add_devices(const struct vmm_spec *spec, const struct machine_fds *fds,
			struct args *out)
{
	args_option(out, "-chardev", "socket,id=qmp,fd=%d,server=on,wait=off", fds->qmp_listen);
	args_option(out, "-mon", "chardev=qmp,mode=control");

	args_option(out, "-add-fd", "fd=%d,set=%d,opaque=console", fds->console, fds->console);
	/* append=on: it would truncate the pipe otherwise, and fail. */
	args_option(out, "-chardev", "file,id=console,path=/dev/fdset/%d,append=on", fds->console);
	args_option(out, "-serial", "chardev:console");

	args_option(out, "-chardev", "socket,id=agent,fd=%d,server=on,wait=off", fds->agent_listen);
	args_option(out, "-device", "virtio-serial-device,max_ports=2");
	args_option(out, "-device", "virtserialport,chardev=agent,name=" PROTO_PORT_NAME);

	add_disk("root", fds->root, true, out);
	add_disk("disk", fds->disk, false, out);
	if (spec->network)
		add_network(spec->network, out);
}

void machine_command(const struct machine *machine, const struct vmm_spec *spec,
		     const struct machine_fds *fds, struct args *out)
{
	args_add(out, "%s", machine->qemu_path);
	args_option(out, "-name", "%s", spec->name);
	/* Debian's small build has none; the filters of the warden and of preload.c stand alone
	 * then. */
	if (machine->has_sandbox)
		args_option(out, "-sandbox",
			    "on,obsolete=deny,elevateprivileges=deny,spawn=deny,"
			    "resourcecontrol=deny");
	args_add(out, "-nodefaults");
	args_add(out, "-no-user-config");
	args_add(out, "-no-reboot");
	args_option(out, "-display", "none");
	args_option(out, "-object", "main-loop,id=main-loop,thread-pool-max=%u",
		    MACHINE_IO_THREADS);
	add_processor(machine, spec, out);
	add_memory(spec, out);
	add_devices(spec, fds, out);
	/* The stream of xen-save-devices-state has no configuration section. */
	args_option(out, "-global", "migration.send-configuration=off");
	/* Nothing runs before the jail is sealed. A restored guest needs no kernel: it has one. */
	if (spec->device_state_path) {
		args_option(out, "-incoming", "defer");
	} else {
		args_add(out, "-S");
		add_kernel(machine, spec, out);
	}
}

uint64_t machine_overhead_bytes(const struct machine *machine, const struct vmm_spec *spec)
{
	/* QEMU's own memory, page tables, and the page cache it needs to make progress in. */
	uint64_t overhead = 96 * MIB + spec->vcpus * 4 * MIB + spec->memory_mb * MIB / 64;

	return is_tcg(machine) ? overhead + MACHINE_TRANSLATION_CACHE_MB * MIB : overhead;
}

uint32_t machine_threads_max(const struct machine *machine, const struct vmm_spec *spec)
{
	/* The processors, the main loop, RCU, block I/O, migration, and some room. */
	return spec->vcpus + MACHINE_IO_THREADS + 8;
}

const char *machine_description(const struct machine *machine)
{
	return is_tcg(machine) ? TCG_MACHINE " " TCG_CPU " " NET_DEVICE
					     " " KERNEL_ARGUMENTS TCG_KERNEL_ARGUMENTS
			       : KVM_MACHINE " " KVM_CPU " " NET_DEVICE " " KERNEL_ARGUMENTS;
}
