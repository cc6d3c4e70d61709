/* The table of checks, and the form of their results. */
#include "host/check.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/json.h"
#include "base/str.h"
#include "host/checks.h"

static const struct row {
	const char *name;
	void (*run)(const struct host_spec *spec, struct host_check *check);
	const char *fix;
} table[] = {
	{ "root", host_check_root,
	  "skerryd makes jails for VMs and runs as root; so does a look at the rest: sudo "
	  "skerry doctor" },
	{ "kernel", host_check_kernel,
	  "install a newer kernel: that of Debian 12 or later will do" },
	{ "features", host_check_features,
	  "use a kernel of a distribution; in a container, run skerryd on its host" },
	{ "kvm", host_check_kvm,
	  "enable virtualization in the firmware (or nested virtualization in the cloud) and load "
	  "the module kvm_intel or kvm_amd; without it sandboxes are emulated: slow, and without a "
	  "boundary of hardware" },
	{ "cgroups", host_check_cgroups,
	  "mount cgroup2 at /sys/fs/cgroup with the controllers cpu, memory and pids" },
	{ "bpf", host_check_bpf,
	  "sandboxes have no network without it: allow bpf(2) to root, with a kernel that has "
	  "CONFIG_BPF_SYSCALL" },
	{ "nftables", host_check_nftables, "load the module nf_tables: modprobe nf_tables" },
	{ "tun", host_check_tun, "load the module tun: modprobe tun" },
	{ "disk", host_check_disk,
	  "make room on the file system of the state directory, or move the directory" },
	{ "inodes", host_check_inodes,
	  "remove files from the file system of the state, or make one with more inodes" },
	{ "reflink", host_check_reflink,
	  "`skerry init` can give the state a file system that shares blocks" },
	{ "memory", host_check_memory, "free memory: a sandbox of the default size can use 1 GiB" },
	{ "overcommit", host_check_overcommit,
	  "sysctl vm.overcommit_memory=0: sandboxes map more than they ever use" },
	{ "descriptors", host_check_descriptors,
	  "LimitNOFILE=1048576 in skerryd.service, or `ulimit -n 1048576` before it is started" },
	{ "clock", host_check_clock, "install chrony or systemd-timesyncd" },
	{ "port", host_check_port,
	  "end what listens there, or give skerryd another address with --listen" },
	{ "qemu", host_check_qemu, "install qemu-system-x86" },
	{ "mke2fs", host_check_mke2fs, "install e2fsprogs" },
	{ "image tools", host_check_image_tools,
	  "install mmdebstrap, erofs-utils, jq, skopeo and buildah; they are needed to build "
	  "images, not to use them" },
};

void host_say(struct host_check *check, enum host_level level, const char *fmt, ...)
{
	va_list ap;

	check->level = level;
	va_start(ap, fmt);
	vsnprintf(check->detail, sizeof(check->detail), fmt, ap);
	va_end(ap);
}

void host_check_add(json_t *checks, const struct host_check *check)
{
	static const char *const levels[] = {
		[HOST_OK] = "ok",
		[HOST_ADVICE] = "advice",
		[HOST_MISSING] = "missing",
	};
	json_t *json = json_object();

	json_put_str(json, "name", check->name);
	json_put(json, "ok", json_boolean(check->level != HOST_MISSING));
	json_put_str(json, "level", levels[check->level]);
	json_put_str(json, "detail", check->detail);
	json_put_str(json, "fix", check->level == HOST_OK ? NULL : check->fix);
	json_array_append_new(checks, json);
}

void host_checks(const struct host_spec *spec, json_t *checks)
{
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct host_check check = { .name = table[i].name, .fix = table[i].fix };

		table[i].run(spec, &check);
		if (check.detail[0]) /* one that has nothing to say here is left out */
			host_check_add(checks, &check);
	}
}
