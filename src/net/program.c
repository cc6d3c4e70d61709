/*
 * libbpf's skeleton behind a narrow interface. The two arrays that must change word by word are
 * mapped into memory; the others are changed by system calls.
 */
#include "net/program.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
/* Made by bpftool, in its own style. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include "egress.skel.h"
#pragma GCC diagnostic pop

/* The only program on our devices: any handle and priority will do, as long as they stay. */
#define TC_HANDLE   1
#define TC_PRIORITY 1

static const char *const map_names[EGRESS_MAPS] = {
	[EGRESS_MAP_DEVICES] = "devices",   [EGRESS_MAP_SLOTS] = "slots",
	[EGRESS_MAP_SETTINGS] = "settings", [EGRESS_MAP_RULES] = "rules",
	[EGRESS_MAP_LEARNED] = "learned",   [EGRESS_MAP_RANGES] = "ranges",
	[EGRESS_MAP_MEMBERS] = "members",   [EGRESS_MAP_FLOWS] = "flows",
	[EGRESS_MAP_COUNTERS] = "counters", [EGRESS_MAP_EVENTS] = "events",
};

struct egress_program {
	struct egress_bpf *skeleton;
	char *pin_dir;
	int map_fds[EGRESS_MAPS]; /* the skeleton's */
	struct egress_slot *slots;
	struct egress_settings *settings;
};

/* libbpf's own lines are for those who debug; failures are told by our errors. */
static int on_libbpf_print(enum libbpf_print_level level, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

static int on_libbpf_print(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	char line[512];

	if (level == LIBBPF_DEBUG)
		return 0;
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = '\0';
	log_debug("libbpf", "message=\"%s\"", line);
	return 0;
}

static int require_bpffs(const char *pin_dir, struct err *err)
{
	struct statfs fs;
	int rc = dir_make(pin_dir, 0700);

	if (rc < 0)
		return err_set(err, rc, "cannot make the directory of BPF pins '%s': %s", pin_dir,
			       strerror(-rc));
	if (statfs(pin_dir, &fs) < 0)
		return err_set(err, -errno, "cannot look at '%s': %s", pin_dir, strerror(errno));
	if ((unsigned long)fs.f_type == BPF_FS_MAGIC)
		return 0;
	if (mount("bpf", pin_dir, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700") < 0) {
		rc = -errno;
		err_set(err, rc, "cannot mount a bpffs at '%s': %s", pin_dir, strerror(-rc));
		err_hint(err, "the daemon needs root and a kernel with CONFIG_BPF_SYSCALL");
		return rc;
	}
	return 0;
}

static int set_pin_paths(struct egress_program *program)
{
	for (int i = 0; i < EGRESS_MAPS; i++) {
		struct bpf_map *map =
			bpf_object__find_map_by_name(program->skeleton->obj, map_names[i]);
		_cleanup_free_ char *path = xasprintf("%s/%s", program->pin_dir, map_names[i]);
		int rc = map ? bpf_map__set_pin_path(map, path) : -ENOENT;

		if (rc < 0)
			return rc;
	}
	return 0;
}

static int load(struct egress_program *program, const struct egress_config *config, struct err *err)
{
	int rc;

	program->skeleton = egress_bpf__open();
	if (!program->skeleton)
		return err_set(err, -errno, "cannot read the egress program: %s", strerror(errno));
	memcpy((void *)&program->skeleton->rodata->config, config, sizeof(*config));
	rc = set_pin_paths(program);
	if (rc == 0)
		rc = egress_bpf__load(program->skeleton);
	if (rc == -EPERM) {
		err_set(err, rc, "the kernel does not let us load the egress program");
		err_hint(err, "skerryd needs root (CAP_BPF, CAP_NET_ADMIN) for networking");
		return rc;
	}
	if (rc < 0) {
		err_set(err, rc, "the kernel refuses the egress program or its maps in '%s': %s",
			program->pin_dir, strerror(-rc));
		err_hint(err, "Linux 6.1 or later is needed; maps of another version of "
			      "Skerry must go first: end its sandboxes and remove the "
			      "directory. The debug log has the kernel's words");
		return rc;
	}
	for (int i = 0; i < EGRESS_MAPS; i++)
		program->map_fds[i] =
			bpf_object__find_map_fd_by_name(program->skeleton->obj, map_names[i]);
	return 0;
}

static void *map_memory(int fd, size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int map_arrays(struct egress_program *program, struct err *err)
{
	program->slots = map_memory(program->map_fds[EGRESS_MAP_SLOTS],
				    sizeof(struct egress_slot) * EGRESS_SLOTS);
	program->settings =
		map_memory(program->map_fds[EGRESS_MAP_SETTINGS], sizeof(struct egress_settings));
	if (!program->slots || !program->settings)
		return err_set(err, -errno, "cannot map the egress program's arrays: %s",
			       strerror(errno));
	return 0;
}

static int claim(struct egress_program *program, const char *instance, struct err *err)
{
	struct egress_settings *settings = program->settings;

	if (settings->abi == 0) {
		str_copy(settings->instance, sizeof(settings->instance), instance);
		settings->abi = EGRESS_ABI;
		return 0;
	}
	if (settings->abi != EGRESS_ABI)
		return err_set(err, -EBUSY,
			       "'%s' holds maps of version %u of the egress program, "
			       "this daemon has version %u",
			       program->pin_dir, settings->abi, EGRESS_ABI);
	if (strncmp(settings->instance, instance, sizeof(settings->instance)) != 0)
		return err_set(err, -EBUSY, "'%s' belongs to the installation '%.39s', not to '%s'",
			       program->pin_dir, settings->instance, instance);
	return 0;
}

int egress_program_new(const struct egress_config *config, const char *pin_dir,
		       const char *instance, struct egress_program **ret, struct err *err)
{
	struct egress_program *program = xcalloc(1, sizeof(*program));
	int rc;

	libbpf_set_print(on_libbpf_print);
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	program->pin_dir = xstrdup(pin_dir);
	rc = require_bpffs(pin_dir, err);
	if (rc == 0)
		rc = load(program, config, err);
	if (rc == 0)
		rc = map_arrays(program, err);
	if (rc == 0)
		rc = claim(program, instance, err);
	if (rc < 0) {
		egress_program_free(program);
		return rc;
	}
	*ret = program;
	return 0;
}

void egress_program_free(struct egress_program *program)
{
	if (!program)
		return;
	if (program->slots)
		munmap(program->slots, sizeof(struct egress_slot) * EGRESS_SLOTS);
	if (program->settings)
		munmap(program->settings, sizeof(struct egress_settings));
	egress_bpf__destroy(program->skeleton);
	free(program->pin_dir);
	free(program);
}

int egress_program_unpin(struct egress_program *program)
{
	int rc = 0;

	for (int i = 0; i < EGRESS_MAPS; i++) {
		_cleanup_free_ char *path = xasprintf("%s/%s", program->pin_dir, map_names[i]);

		if (unlink(path) < 0 && errno != ENOENT)
			rc = -errno;
	}
	/* A mount point of its own stays, empty. */
	if (rmdir(program->pin_dir) < 0 && errno != ENOENT && errno != EBUSY)
		rc = -errno;
	return rc;
}

static int attach(int program_fd, uint32_t ifindex, enum bpf_tc_attach_point point)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex, .attach_point = point);
	LIBBPF_OPTS(bpf_tc_opts, opts, .prog_fd = program_fd, .handle = TC_HANDLE,
		    .priority = TC_PRIORITY, .flags = BPF_TC_F_REPLACE);

	return bpf_tc_attach(&hook, &opts);
}

int egress_program_attach(struct egress_program *program, uint32_t ifindex, uint32_t index,
			  struct err *err)
{
	LIBBPF_OPTS(bpf_tc_hook, hook, .ifindex = (int)ifindex,
		    .attach_point = BPF_TC_INGRESS | BPF_TC_EGRESS);
	int rc = bpf_map_update_elem(program->map_fds[EGRESS_MAP_DEVICES], &ifindex, &index,
				     BPF_ANY);

	if (rc == 0)
		rc = bpf_tc_hook_create(&hook);
	if (rc == 0 || rc == -EEXIST)
		rc = attach(egress_program_fd(program, EGRESS_TO_GUEST), ifindex, BPF_TC_EGRESS);
	if (rc == 0)
		rc = attach(egress_program_fd(program, EGRESS_FROM_GUEST), ifindex, BPF_TC_INGRESS);
	if (rc < 0) {
		err_set(err, rc, "cannot attach the egress program to device %u: %s", ifindex,
			strerror(-rc));
		err_hint(err,
			 "the kernel needs clsact (CONFIG_NET_SCH_INGRESS, CONFIG_NET_CLS_BPF)");
	}
	return rc;
}

int egress_program_forget_device(struct egress_program *program, uint32_t ifindex)
{
	int rc = bpf_map_delete_elem(program->map_fds[EGRESS_MAP_DEVICES], &ifindex);

	return rc == -ENOENT ? 0 : rc;
}

struct egress_slot *egress_program_slot(struct egress_program *program, uint32_t index)
{
	return &program->slots[index];
}

struct egress_settings *egress_program_settings(struct egress_program *program)
{
	return program->settings;
}

int egress_program_reset_flows(struct egress_program *program, uint32_t index)
{
	_cleanup_close_ int table =
		bpf_map_create(BPF_MAP_TYPE_LRU_HASH, "flow_table", sizeof(struct egress_flow_key),
			       sizeof(struct egress_flow), EGRESS_FLOWS, NULL);

	if (table < 0)
		return table;
	return bpf_map_update_elem(program->map_fds[EGRESS_MAP_FLOWS], &index, &table, BPF_ANY);
}

int egress_program_drop_flows(struct egress_program *program, uint32_t index)
{
	int rc = bpf_map_delete_elem(program->map_fds[EGRESS_MAP_FLOWS], &index);

	return rc == -ENOENT ? 0 : rc;
}

int egress_program_counters(struct egress_program *program, uint32_t index,
			    struct egress_counters *ret)
{
	int cpus = libbpf_num_possible_cpus();
	_cleanup_free_ struct egress_counters *each = NULL;
	struct egress_counters sum = { 0 };
	int rc;

	if (cpus < 0)
		return cpus;
	each = xcalloc((size_t)cpus, sizeof(*each));
	rc = bpf_map_lookup_elem(program->map_fds[EGRESS_MAP_COUNTERS], &index, each);
	if (rc < 0)
		return rc;
	for (int i = 0; i < cpus; i++) {
		sum.out_packets += each[i].out_packets;
		sum.out_bytes += each[i].out_bytes;
		sum.in_packets += each[i].in_packets;
		sum.in_bytes += each[i].in_bytes;
		sum.out_denied += each[i].out_denied;
		sum.in_denied += each[i].in_denied;
	}
	*ret = sum;
	return 0;
}

int egress_program_reset_counters(struct egress_program *program, uint32_t index)
{
	int cpus = libbpf_num_possible_cpus();
	_cleanup_free_ struct egress_counters *zero = NULL;

	if (cpus < 0)
		return cpus;
	zero = xcalloc((size_t)cpus, sizeof(*zero));
	return bpf_map_update_elem(program->map_fds[EGRESS_MAP_COUNTERS], &index, zero, BPF_ANY);
}

int egress_program_map_fd(const struct egress_program *program, enum egress_map map)
{
	return program->map_fds[map];
}

int egress_program_fd(const struct egress_program *program, enum egress_direction direction)
{
	return bpf_program__fd(direction == EGRESS_FROM_GUEST ? program->skeleton->progs.from_guest
							      : program->skeleton->progs.to_guest);
}
