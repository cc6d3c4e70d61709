/*
 * The probe by KVM's own interface. The child makes a VM of one CPU and 64 KiB, already in long
 * mode, and reports how far the guest came; the parent waits for the report until the time bound.
 */
#include "host/kvm_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "host/kvm_probe_guest.h"

#define PROBE_TIME_MS 2000
#define CPUID_ENTRIES 256
#define CACHE_FILE    "kvm-probe"
/* Raise when the probe changes, so that old verdicts are not believed. */
#define CACHE_VERSION 2

#define CR0_PE		      (1u << 0)
#define CR0_ET		      (1u << 4)
#define CR0_NE		      (1u << 5)
#define CR0_PG		      (1u << 31)
#define CR4_PAE		      (1u << 5)
#define CR4_OSFXSR	      (1u << 9)
#define CR4_OSXSAVE	      (1u << 18)
#define EFER_LME	      (1u << 8)
#define EFER_LMA	      (1u << 10)
#define SELECTOR_CODE	      0x8u
#define SELECTOR_DATA	      0x10u
#define SELECTOR_TSS	      0x18u
#define PAGE_PRESENT_WRITABLE 0x3u
#define PAGE_LARGE	      0x80u

static const char *const step_names[] = {
	[GUEST_NOTHING] = "its first instruction",
	[GUEST_LONG_MODE] = "CMPXCHG16B",
	[GUEST_CMPXCHG16B] = "XSETBV",
	[GUEST_XSETBV] = "XRSTOR",
	[GUEST_XRSTOR] = "INT3",
	[GUEST_INT3_HANDLER] = "the return from INT3",
	[GUEST_INT3_RETURN] = "nothing",
};

/* What the child tells. */
struct report {
	int step;	      /* enum guest_step: the last that was reached */
	int num;	      /* errno of a failed call, with its name in call */
	uint32_t exit_reason; /* KVM_EXIT_…, when the guest stopped too early */
	uint32_t suberror;    /* of KVM_EXIT_INTERNAL_ERROR */
	char call[32];
};

struct machine {
	int kvm, vm, vcpu;
	uint8_t *memory;
	struct kvm_run *run;
};

/* ---- in the child ---- */

static int failed(struct report *report, const char *call)
{
	report->num = errno;
	str_copy(report->call, sizeof(report->call), call);
	return -1;
}

static void put_u64(uint8_t *memory, uint32_t at, uint64_t value)
{
	memcpy(memory + at, &value, sizeof(value));
}

/* One large page maps the first 2 MiB onto themselves; vector 3 of the IDT leads to the handler.
 * The interrupt and the return from it load the segments anew, so they must be in the GDT too. */
static void fill_memory(uint8_t *memory)
{
	uint32_t handler = GUEST_CODE + (uint32_t)(kvm_probe_guest_int3 - kvm_probe_guest_code);
	const uint64_t interrupt_gate = 0x8eull << 40; /* present, 64-bit */

	memcpy(memory + GUEST_CODE, kvm_probe_guest_code,
	       (size_t)(kvm_probe_guest_end - kvm_probe_guest_code));
	put_u64(memory, GUEST_PML4, GUEST_PDPT | PAGE_PRESENT_WRITABLE);
	put_u64(memory, GUEST_PDPT, GUEST_PD | PAGE_PRESENT_WRITABLE);
	put_u64(memory, GUEST_PD, 0 | PAGE_LARGE | PAGE_PRESENT_WRITABLE);
	put_u64(memory, GUEST_GDT + SELECTOR_CODE, 0x00af9b000000ffffull); /* 64-bit, executable */
	put_u64(memory, GUEST_GDT + SELECTOR_DATA, 0x00cf93000000ffffull); /* writable */
	put_u64(memory, GUEST_IDT + 3 * 16, interrupt_gate | SELECTOR_CODE << 16 | handler);
}

static int make_vm(struct machine *m, struct report *report)
{
	struct kvm_userspace_memory_region region = { .memory_size = GUEST_MEMORY_SIZE };
	const int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;

	m->kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (m->kvm < 0)
		return failed(report, "open");
	m->vm = ioctl(m->kvm, KVM_CREATE_VM, 0);
	if (m->vm < 0)
		return failed(report, "KVM_CREATE_VM");
	/* Intel without unrestricted guests wants a place for these; elsewhere they do no harm. */
	ioctl(m->vm, KVM_SET_TSS_ADDR, 0xfffbd000);
	/* cppcheck-suppress invalidFunctionArg */
	m->memory = mmap(NULL, GUEST_MEMORY_SIZE, PROT_READ | PROT_WRITE, anonymous, -1, 0);
	if (m->memory == MAP_FAILED)
		return failed(report, "mmap");
	fill_memory(m->memory);
	region.userspace_addr = (uintptr_t)m->memory;
	if (ioctl(m->vm, KVM_SET_USER_MEMORY_REGION, &region) < 0)
		return failed(report, "KVM_SET_USER_MEMORY_REGION");
	return 0;
}

static int make_vcpu(struct machine *m, struct report *report)
{
	static union {
		struct kvm_cpuid2 list;
		uint8_t room[sizeof(struct kvm_cpuid2) +
			     CPUID_ENTRIES * sizeof(struct kvm_cpuid_entry2)];
	} cpuid;
	int size = ioctl(m->kvm, KVM_GET_VCPU_MMAP_SIZE, 0);

	m->vcpu = ioctl(m->vm, KVM_CREATE_VCPU, 0);
	if (m->vcpu < 0)
		return failed(report, "KVM_CREATE_VCPU");
	if (size < (int)sizeof(struct kvm_run))
		return failed(report, "KVM_GET_VCPU_MMAP_SIZE");
	m->run = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, m->vcpu, 0);
	if (m->run == MAP_FAILED)
		return failed(report, "mmap");
	cpuid.list.nent = CPUID_ENTRIES;
	if (ioctl(m->kvm, KVM_GET_SUPPORTED_CPUID, &cpuid.list) < 0)
		return failed(report, "KVM_GET_SUPPORTED_CPUID");
	if (ioctl(m->vcpu, KVM_SET_CPUID2, &cpuid.list) < 0)
		return failed(report, "KVM_SET_CPUID2");
	return 0;
}

static int set_registers(const struct machine *m, struct report *report)
{
	struct kvm_regs regs = { .rip = GUEST_CODE, .rsp = GUEST_STACK_TOP, .rflags = 2 };
	struct kvm_segment data = {
		.limit = 0xffffffff,
		.selector = SELECTOR_DATA,
		.type = 3,
		.present = 1,
		.s = 1,
		.db = 1,
		.g = 1,
	};
	struct kvm_segment code = {
		.limit = 0xffffffff,
		.selector = SELECTOR_CODE,
		.type = 11,
		.present = 1,
		.s = 1,
		.l = 1,
		.g = 1,
	};
	struct kvm_sregs sregs;

	if (ioctl(m->vcpu, KVM_GET_SREGS, &sregs) < 0)
		return failed(report, "KVM_GET_SREGS");
	sregs.cs = code;
	sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = data;
	sregs.tr = (struct kvm_segment){
		.base = GUEST_TSS,
		.limit = 0x67,
		.selector = SELECTOR_TSS,
		.type = 11,
		.present = 1,
	};
	sregs.gdt.base = GUEST_GDT;
	sregs.gdt.limit = 4 * 8 - 1;
	sregs.idt.base = GUEST_IDT;
	sregs.idt.limit = 4 * 16 - 1;
	sregs.cr3 = GUEST_PML4;
	sregs.cr0 = CR0_PE | CR0_ET | CR0_NE | CR0_PG;
	sregs.cr4 = CR4_PAE | CR4_OSFXSR | CR4_OSXSAVE;
	sregs.efer = EFER_LME | EFER_LMA;
	if (ioctl(m->vcpu, KVM_SET_SREGS, &sregs) < 0)
		return failed(report, "KVM_SET_SREGS");
	if (ioctl(m->vcpu, KVM_SET_REGS, &regs) < 0)
		return failed(report, "KVM_SET_REGS");
	return 0;
}

static void run_guest(const struct machine *m, struct report *report)
{
	const struct kvm_run *run = m->run;

	while (report->step != GUEST_INT3_RETURN) {
		const uint8_t *data;

		if (ioctl(m->vcpu, KVM_RUN, 0) < 0) {
			if (errno == EINTR)
				continue;
			failed(report, "KVM_RUN");
			return;
		}
		report->exit_reason = run->exit_reason;
		if (run->exit_reason == KVM_EXIT_INTERNAL_ERROR)
			report->suberror = run->internal.suberror;
		if (run->exit_reason != KVM_EXIT_IO || run->io.port != GUEST_PORT)
			return;
		data = (const uint8_t *)run + run->io.data_offset;
		if (*data != report->step + 1)
			return;
		report->step++;
	}
}

static _Noreturn void child_main(int report_fd)
{
	struct machine m = { 0 };
	struct report report = { 0 };

	if (make_vm(&m, &report) == 0 && make_vcpu(&m, &report) == 0 &&
	    set_registers(&m, &report) == 0)
		run_guest(&m, &report);
	fd_write_all(report_fd, &report, sizeof(report));
	_exit(0);
}

/* ---- in the parent ---- */

static void explain(const struct report *report, struct kvm_verdict *ret)
{
	if (report->num == ENOENT && str_eq(report->call, "open")) {
		str_copy(ret->why, sizeof(ret->why), "the host has no /dev/kvm");
	} else if (report->num) {
		snprintf(ret->why, sizeof(ret->why), "%s of /dev/kvm failed before %s: %s",
			 report->call, step_names[report->step], strerrordesc_np(report->num));
	} else if (report->step == GUEST_INT3_RETURN) {
		ret->usable = true;
		str_copy(ret->why, sizeof(ret->why), "a probe guest ran under /dev/kvm");
	} else if (report->exit_reason == KVM_EXIT_INTERNAL_ERROR) {
		snprintf(ret->why, sizeof(ret->why),
			 "/dev/kvm opens, but a probe guest died in %s (KVM internal error, "
			 "suberror %u)",
			 step_names[report->step], report->suberror);
	} else {
		snprintf(ret->why, sizeof(ret->why),
			 "/dev/kvm opens, but a probe guest stopped in %s (KVM exit reason %u)",
			 step_names[report->step], report->exit_reason);
	}
}

static void wait_for_report(int report_fd, struct kvm_verdict *ret)
{
	int64_t deadline_ms = clock_boottime_ms() + PROBE_TIME_MS;
	struct pollfd p = { .fd = report_fd, .events = POLLIN };
	struct report report = { 0 };
	int n;

	do {
		n = poll(&p, 1, clock_remaining_ms(deadline_ms));
	} while (n < 0 && errno == EINTR);
	if (n == 0)
		snprintf(ret->why, sizeof(ret->why),
			 "/dev/kvm opens, but a probe guest did not end within %d s",
			 PROBE_TIME_MS / 1000);
	else if (fd_read_full(report_fd, &report, sizeof(report)) != (ssize_t)sizeof(report))
		str_copy(ret->why, sizeof(ret->why),
			 "/dev/kvm opens, but running a probe guest killed its process");
	else
		explain(&report, ret);
}

void kvm_probe(struct kvm_verdict *ret)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	int report[2];
	pid_t pid;

	*ret = (struct kvm_verdict){ 0 };
	if (pipe2(report, O_CLOEXEC) < 0) {
		str_copy(ret->why, sizeof(ret->why), "KVM could not be probed: no descriptors");
		return;
	}
	pid = fork();
	if (pid == 0)
		child_main(report[1]);
	close(report[1]);
	if (pid < 0)
		str_copy(ret->why, sizeof(ret->why), "KVM could not be probed: no process");
	else
		wait_for_report(report[0], ret);
	close(report[0]);
	if (pid > 0)
		kill(pid, SIGKILL);
	/* A child that hangs in the kernel cannot be waited for; it is left behind as it is. */
	for (int i = 0; pid > 0 && i < 200 && waitpid(pid, NULL, WNOHANG) == 0; i++)
		nanosleep(&pause, NULL);
}

/* The first line names what the verdict holds for, the second is "yes" or "no" and the sentence. */
static int cache_key(struct buf *out)
{
	struct utsname host;
	char boot_id[37];
	int r = clock_boot_id(boot_id);

	if (r < 0 || uname(&host) < 0)
		return r < 0 ? r : -errno;
	buf_printf(out, "%d %s %s\n", CACHE_VERSION, boot_id, host.release);
	return 0;
}

static bool cache_read(const char *path, const struct buf *key, struct kvm_verdict *ret)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	struct kvm_verdict verdict = { 0 };
	const char *answer;

	if (file_read(path, 4096, &text) < 0 || !str_starts(buf_str(&text), key->data))
		return false;
	answer = text.data + key->len;
	verdict.usable = str_starts(answer, "yes ");
	if (!verdict.usable && !str_starts(answer, "no "))
		return false;
	answer = strchr(answer, ' ') + 1;
	*strchrnul(answer, '\n') = '\0';
	str_copy(verdict.why, sizeof(verdict.why), answer);
	*ret = verdict;
	return true;
}

void kvm_probe_cached(const char *cache_dir, struct kvm_verdict *ret)
{
	_cleanup_buf_ struct buf key = BUF_INIT, path = BUF_INIT;
	bool keyed = cache_key(&key) == 0;

	/* A device that cannot be opened may be there a moment later: that is no verdict to keep.
	 */
	if (access("/dev/kvm", R_OK | W_OK) < 0)
		keyed = false;
	buf_printf(&path, "%s/" CACHE_FILE, cache_dir);
	if (keyed && cache_read(path.data, &key, ret))
		return;
	kvm_probe(ret);
	if (!keyed)
		return;
	buf_printf(&key, "%s %s\n", ret->usable ? "yes" : "no", ret->why);
	/* A verdict that could not be kept is found again the next time. */
	file_write_durable(path.data, key.data, key.len, 0644);
}
