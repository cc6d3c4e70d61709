/* The checks, a function each: they fill in level and detail; fix stands in the table (check.c) or
 * is set where it depends on what was found. Internal to src/host. */
#pragma once

#include "host/check.h"

#define HOST_KERNEL_MAJOR 6 /* the egress program's helpers; Debian 12 */
#define HOST_KERNEL_MINOR 1

/* Level and detail in one; returns nothing so that it can end a check. */
void host_say(struct host_check *check, enum host_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* check_kernel.c */
void host_check_root(const struct host_spec *spec, struct host_check *check);
void host_check_kernel(const struct host_spec *spec, struct host_check *check);
void host_check_features(const struct host_spec *spec, struct host_check *check);
void host_check_kvm(const struct host_spec *spec, struct host_check *check);
void host_check_cgroups(const struct host_spec *spec, struct host_check *check);
void host_check_bpf(const struct host_spec *spec, struct host_check *check);
void host_check_nftables(const struct host_spec *spec, struct host_check *check);
void host_check_tun(const struct host_spec *spec, struct host_check *check);

/* check_room.c */
void host_check_disk(const struct host_spec *spec, struct host_check *check);
void host_check_inodes(const struct host_spec *spec, struct host_check *check);
void host_check_reflink(const struct host_spec *spec, struct host_check *check);
void host_check_memory(const struct host_spec *spec, struct host_check *check);
void host_check_overcommit(const struct host_spec *spec, struct host_check *check);
void host_check_descriptors(const struct host_spec *spec, struct host_check *check);
void host_check_clock(const struct host_spec *spec, struct host_check *check);
void host_check_port(const struct host_spec *spec, struct host_check *check);

/* check_programs.c */
void host_check_qemu(const struct host_spec *spec, struct host_check *check);
void host_check_mke2fs(const struct host_spec *spec, struct host_check *check);
void host_check_image_tools(const struct host_spec *spec, struct host_check *check);
