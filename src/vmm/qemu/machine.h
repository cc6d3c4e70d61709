/*
 * QEMU's command line: the machine a guest sees. Pure; opens nothing. A machine of the same
 * settings and spec always gets the same line, because a saved state only fits the machine it was
 * saved from.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vmm/qemu/args.h"
#include "vmm/vmm.h"

/* TCG's cache of translated code, per VM. QEMU's own choice (up to 1 GiB) would let a busy guest
 * grow by that much; it is touched as it fills, flushed when full. */
#define MACHINE_TRANSLATION_CACHE_MB 64u

/* Block I/O threads: QEMU's own limit of 64 would only be headroom for a hostile guest. */
#define MACHINE_IO_THREADS 8u

struct machine {
	enum vmm_isolation isolation;
	char *qemu_path; /* resolved paths */
	char *kernel_path;
	char *initramfs_path;
	bool has_sandbox;     /* QEMU was built with -sandbox */
	unsigned int tsc_khz; /* of the host; TCG only */
};

/* Descriptors that QEMU is passed. */
struct machine_fds {
	int qmp_listen;
	int agent_listen;
	int console; /* write end of a pipe */
	int root;    /* read-only */
	int disk;
	int memory; /* -1: anonymous */
	int kvm;    /* -1 under TCG */
};

/* Paths that stand for descriptors (preload.c). */
#define MACHINE_MEMORY_PATH "/memory"
#define MACHINE_KVM_PATH    "/dev/kvm"

void machine_command(const struct machine *machine, const struct vmm_spec *spec,
		     const struct machine_fds *fds, struct args *out);

/* What this QEMU needs beside the guest's memory, and how many threads it may have. */
uint64_t machine_overhead_bytes(const struct machine *machine, const struct vmm_spec *spec);
uint32_t machine_threads_max(const struct machine *machine, const struct vmm_spec *spec);
/* The part of the command line that saved states depend on, for the fingerprint. */
const char *machine_description(const struct machine *machine);
