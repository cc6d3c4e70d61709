/* What the kernel must do. Whatever can be tried without a trace is tried. */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "host/checks.h"
#include "host/kvm_probe.h"
#include "host/parse.h"

#define ANSWER_SECONDS 2

void host_check_root(const struct host_spec *spec, struct host_check *check)
{
	(void)spec;
	host_say(check, geteuid() == 0 ? HOST_OK : HOST_MISSING, "uid %d", (int)geteuid());
}

void host_check_kernel(const struct host_spec *spec, struct host_check *check)
{
	struct utsname uts = { 0 };
	int major = 0, minor = 0;
	bool good;

	(void)spec;
	uname(&uts);
	good = host_parse_version(uts.release, &major, &minor) == 0 &&
	       (major > HOST_KERNEL_MAJOR ||
		(major == HOST_KERNEL_MAJOR && minor >= HOST_KERNEL_MINOR));
	host_say(check, good ? HOST_OK : HOST_MISSING, "Linux %s, %d.%d or later is needed",
		 uts.release, HOST_KERNEL_MAJOR, HOST_KERNEL_MINOR);
}

/* ---- namespaces, seccomp, pidfds ---- */

void host_check_features(const struct host_spec *spec, struct host_check *check)
{
	static const char *const namespaces[] = { "cgroup", "ipc", "mnt", "net", "pid", "uts" };
	_cleanup_buf_ struct buf missing = BUF_INIT;
	_cleanup_close_ int pidfd = -1;

	(void)spec;
	for (size_t i = 0; i < ARRAY_SIZE(namespaces); i++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/self/ns/%s", namespaces[i]);
		if (access(path, F_OK) < 0)
			buf_printf(&missing, " %s namespaces,", namespaces[i]);
	}
	/* Without filters the kernel knows no such mode: it would be EINVAL. */
	if (prctl(PR_GET_SECCOMP) < 0)
		buf_append_str(&missing, " seccomp,");
	pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (pidfd < 0)
		buf_append_str(&missing, " pidfd,");
	if (missing.len == 0) {
		host_say(check, HOST_OK, "namespaces, seccomp and pidfd are there");
		return;
	}
	missing.data[missing.len - 1] = '\0';
	host_say(check, HOST_MISSING, "the kernel has no%s", missing.data);
}

/* ---- KVM ---- */

void host_check_kvm(const struct host_spec *spec, struct host_check *check)
{
	struct kvm_verdict verdict;

	if (!spec->probe_kvm)
		return;
	kvm_probe(&verdict);
	host_say(check, verdict.usable ? HOST_OK : HOST_ADVICE, "%s", verdict.why);
}

/* ---- cgroups ---- */

/* v2 where its controllers are there, else v1. */
void host_check_cgroups(const struct host_spec *spec, struct host_check *check)
{
	static const char *const needed[] = { "cpu", "memory", "pids" };
	static const char *const v1_dirs[] = { "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory",
					       "/sys/fs/cgroup/pids" };
	_cleanup_buf_ struct buf controllers = BUF_INIT, missing = BUF_INIT;
	bool v2 = file_read("/sys/fs/cgroup/cgroup.controllers", 4096, &controllers) == 0;

	(void)spec;
	for (size_t i = 0; i < ARRAY_SIZE(needed); i++) {
		bool there = v2 ? host_has_word(buf_str(&controllers), needed[i])
				: access(v1_dirs[i], W_OK) == 0;

		if (!there)
			buf_printf(&missing, " %s", needed[i]);
	}
	host_say(check, missing.len ? HOST_MISSING : HOST_OK, "cgroup %s, %s%s", v2 ? "v2" : "v1",
		 missing.len ? "missing:" : "with cpu, memory and pids", buf_str(&missing));
}

/* ---- eBPF ---- */

static int bpf_call(int command, union bpf_attr *attr, size_t size)
{
	return (int)syscall(SYS_bpf, command, attr, size);
}

/* "r0 = 0; exit", as a program for a network device. */
static int load_program(void)
{
	static const struct bpf_insn code[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr = { 0 };

	attr.prog_type = BPF_PROG_TYPE_SCHED_CLS;
	attr.insns = (uint64_t)(uintptr_t)code;
	attr.insn_cnt = ARRAY_SIZE(code);
	attr.license = (uint64_t)(uintptr_t) "GPL";
	return bpf_call(BPF_PROG_LOAD, &attr, sizeof(attr));
}

/* A table of address ranges, which the rules are kept in. */
static int make_map(void)
{
	union bpf_attr attr = { 0 };

	attr.map_type = BPF_MAP_TYPE_LPM_TRIE;
	attr.key_size = 8; /* the length of a prefix, and an address */
	attr.value_size = 4;
	attr.max_entries = 1;
	attr.map_flags = BPF_F_NO_PREALLOC;
	return bpf_call(BPF_MAP_CREATE, &attr, sizeof(attr));
}

void host_check_bpf(const struct host_spec *spec, struct host_check *check)
{
	_cleanup_close_ int program = -1, map = -1;

	(void)spec;
	program = load_program();
	if (program < 0) {
		host_say(check, HOST_MISSING, "a program for network devices cannot be loaded: %s",
			 strerror(errno));
		return;
	}
	map = make_map();
	if (map < 0)
		host_say(check, HOST_MISSING, "a table of ranges cannot be made: %s",
			 strerror(errno));
	else
		host_say(check, HOST_OK, "a program for network devices was loaded");
}

/* ---- nftables ---- */

/* Asks the kernel for the generation of its rules, which changes nothing and loads the module. */
static int ask_nftables(void)
{
	struct {
		struct nlmsghdr header;
		struct nfgenmsg body;
	} request = {
		.header = {
			.nlmsg_len = sizeof(request),
			.nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETGEN,
			.nlmsg_flags = NLM_F_REQUEST,
		},
		.body = { .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0 },
	};
	const struct timeval patience = { .tv_sec = ANSWER_SECONDS };
	_cleanup_close_ int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	union {
		struct nlmsghdr header;
		char bytes[1024];
	} answer;
	ssize_t n;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0 ||
	    send(fd, &request, sizeof(request), 0) < 0)
		return -errno;
	n = recv(fd, &answer, sizeof(answer), 0);
	if (n < (ssize_t)sizeof(struct nlmsghdr))
		return n < 0 ? -errno : -EBADMSG;
	if (answer.header.nlmsg_type != NLMSG_ERROR)
		return 0;
	if (n < (ssize_t)NLMSG_LENGTH(sizeof(struct nlmsgerr)))
		return -EBADMSG;
	return ((const struct nlmsgerr *)NLMSG_DATA(&answer.header))->error;
}

void host_check_nftables(const struct host_spec *spec, struct host_check *check)
{
	int r = ask_nftables();

	(void)spec;
	if (r == 0)
		host_say(check, HOST_OK, "the kernel answers for nf_tables");
	else
		host_say(check, HOST_MISSING, "the kernel does not answer for nf_tables: %s",
			 strerror(-r));
}

void host_check_tun(const struct host_spec *spec, struct host_check *check)
{
	_cleanup_close_ int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);

	(void)spec;
	if (fd >= 0)
		host_say(check, HOST_OK, "/dev/net/tun can be opened");
	else
		host_say(check, HOST_MISSING, "/dev/net/tun: %s", strerror(errno));
}
