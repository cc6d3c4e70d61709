/*
 * Is KVM usable? A /dev/kvm that opens, and even makes a VM, is no proof: some hosts are virtual
 * machines themselves, whose KVM emulates guests instruction by instruction and dies on a stock
 * kernel. So a guest of a few instructions is really run: long mode, CMPXCHG16B, XSETBV and XRSTOR,
 * INT3 through an IDT. It runs in a process of its own and within a time bound, so that nothing of
 * the kernel's side can take the caller along. Needs no QEMU.
 */
#pragma once

#include <stdbool.h>

struct kvm_verdict {
	bool usable;
	char why[256]; /* one sentence, also when it is usable */
};

/* Runs the guest. Blocks for at most about two seconds. */
void kvm_probe(struct kvm_verdict *ret);
/* As kvm_probe; the verdict is kept in cache_dir for as long as the host does not boot anew. */
void kvm_probe_cached(const char *cache_dir, struct kvm_verdict *ret);
