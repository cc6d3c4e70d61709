/*
 * The contract of a virtual machine: boot it, save it, restore it, extend or end it. It knows
 * files, descriptors, limits and a deadline; it knows no accounts, images or sandboxes.
 *
 * A VM is run by a warden (src/warden), a process of its own that jails the VMM, holds the deadline
 * and writes the record of start and exit; the VM outlives whoever called vmm_start. Everything
 * about a VM lies in its run directory, so that a later process can take it over with vmm_attach:
 *
 *   record        the warden's fsynced record (warden/record.h)
 *   warden.sock   the warden's control socket
 *   qmp.sock      the VMM's control socket
 *   agent.sock    the guest's agent channel (agent/agent.h speaks to it)
 *   console.log   the last part of the guest's console and the VMM's stderr, written at the exit
 *
 * All functions block ([worker]) and may be called from any thread; one VM by one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "warden/record.h"

enum vmm_isolation { VMM_KVM, VMM_EMULATED };
const char *vmm_isolation_name(enum vmm_isolation isolation); /* "kvm" | "emulated" */

struct vmm_driver; /* the driver with its host-wide settings; immutable after it was made */

struct vmm_config {
	const char *warden_path;
	const char *qemu_path;	   /* full binary, for TCG */
	const char *qemu_kvm_path; /* small binary, for KVM; NULL or missing: qemu_path */
	const char *kernel_path;   /* vmlinux (PVH) */
	const char *initramfs_path;
	const char *lib_dir;	 /* our own helpers for the jail (preload library); see qemu/ */
	const char *cache_dir;	 /* where the result of the KVM probe is kept */
	const char *accel;	 /* "auto", "kvm" or "tcg" */
	const char *cgroup_name; /* parent cgroup of all VMs of this host, e.g. "skerry" */
};

/* Chooses the accelerator: "auto" takes KVM only if a probe guest really ran under it within its
 * time bound (a /dev/kvm that opens is no proof), and says so in ret_why (why KVM is or is not
 * used). */
int vmm_qemu_new(const struct vmm_config *config, struct vmm_driver **ret, struct err *err);
/* VMs go on. */
void vmm_driver_free(struct vmm_driver *driver);
enum vmm_isolation vmm_driver_isolation(const struct vmm_driver *driver);
/* One sentence: why KVM is or is not used. Borrowed. */
const char *vmm_driver_isolation_reason(const struct vmm_driver *driver);
/* Identifies what a machine comes out as that was booted here: VMM version, machine, CPU model,
 * accelerator, kernel and initramfs hashes. A template is used under the one it was made under.
 * Borrowed. */
const char *vmm_driver_fingerprint(const struct vmm_driver *driver);
/* Identifies what a saved state depends on, which is the same without kernel and initramfs: these
 * are in the state. So a state outlives a new guest. Borrowed. */
const char *vmm_driver_state_fingerprint(const struct vmm_driver *driver);
/* Path of the program that machines run in. Borrowed. */
const char *vmm_driver_program(const struct vmm_driver *driver);

/* The guest's one network device, which is a tap that the caller made (in whatever network
 * namespace: the VMM lives in an empty one). The guest sets its side up when it boots; a restored
 * one has it already. All strings are borrowed during vmm_start. */
struct vmm_network {
	int tap_fd;		 /* IFF_TAP, IFF_NO_PI, IFF_VNET_HDR; stays the caller's */
	const char *mac;	 /* "02:…", of the guest's device */
	const char *address;	 /* "100.64.0.2/30" */
	const char *gateway;	 /* "100.64.0.1": the default route, and the name server */
	const char *gateway_mac; /* a permanent neighbour: the guest need not ask */
};

struct vmm_spec {
	const char *name;    /* names the cgroup and the processes: a sandbox id */
	const char *run_dir; /* exists, empty, owned by root, 0700 */
	unsigned int vcpus;  /* 1 … 8 */
	uint32_t memory_mb;
	const char *root_image_path; /* erofs, read-only, shared */
	const char *disk_path;	     /* raw, writable, this VM's own */
	const char *memory_path;     /* the memory file; NULL (boot only): anonymous memory */
	bool memory_shared; /* true: the guest writes into the file (a template in the making),
			       which is made or sized when absent or empty; false: copy-on-write,
			       the VMM cannot write the file */
	const char *device_state_path; /* NULL: boot; else restore this state over memory_path */
	/* NULL: no network device. A state that was saved with one is only restored with one, on
	 * any tap, and one without only without. */
	const struct vmm_network *network;
	unsigned int cpu_quota_percent; /* of one CPU: 25, 100, 200 …; 0: no limit */
	uint64_t memory_limit_bytes; /* cgroup limit for the VMM, guest memory included; 0: computed
				      */
	uint32_t pids_max;	     /* cgroup limit of threads; 0: computed */
	uid_t uid; /* the VMM's own uid and gid, used by no one else on the host; files
		      need not belong to it: they are passed as descriptors */
	int64_t expires_boottime_ms; /* the warden's deadline */
	bool freeze_at_deadline;     /* true: at the deadline the warden stops the VMM (SIGSTOP,
					recorded as     `frozen`) instead of killing it, so that whoever
					comes back can     still extend, save or end it; false: it kills
					it
				      */
	/* With device_state_path: called after the VMM has mapped memory_path and before it loads
	 * the device state, with the VMM's pid, to put the pages in place that differ from the
	 * file. The process's identity is checked before and after. Not 0: the start fails with
	 * err. May be NULL. */
	int (*fill_memory)(void *arg, pid_t vmm_pid, struct err *err);
	void *fill_memory_arg;
};

struct vmm_vm {
	pid_t warden_pid;
	int warden_pidfd; /* readable when the VM has ended and the record's exit is written */
	char run_dir[512];
	bool is_child; /* started by this process: reap it */
};
#define VMM_VM_INIT ((struct vmm_vm){ .warden_pidfd = -1 })

/* Starts a VM and returns once it runs (booting or restored), before the agent has answered. On any
 * failure nothing is left but files in run_dir. */
int vmm_start(struct vmm_driver *driver, const struct vmm_spec *spec, int64_t deadline_boottime_ms,
	      struct vmm_vm *ret, struct err *err);

/* Stops the guest's CPUs and saves the device state to state_path (created, fsynced). The memory
 * file of a memory_shared VM then holds the memory (fsynced, mode 0444). The VM stays stopped;
 * vmm_end it. */
int vmm_save(struct vmm_driver *driver, struct vmm_vm *vm, const char *state_path,
	     int64_t deadline_boottime_ms, struct err *err);

/* Stops the guest's CPUs; what it wrote to its disk is in the disk file then, and durable (drained
 * and flushed: so the call is shorter after an fdatasync of the disk file). Fine for one that is
 * paused already, and for one that its warden has frozen at the deadline: it is thawed, paused, and
 * frozen again after a minute unless it was extended or ended (warden/control.h). The guest's
 * clocks stand still from here to vmm_continue, or to a restore of what is saved. */
int vmm_pause(struct vmm_driver *driver, struct vmm_vm *vm, int64_t deadline_boottime_ms,
	      struct err *err);
/* Of a paused VM that is frozen at its deadline: for a minute the deadline does not stop the VMM,
 * so that it can be saved. vmm_extend ends that, and lets the CPUs go on. Others are left alone. */
int vmm_hold(struct vmm_driver *driver, struct vmm_vm *vm, int64_t deadline_boottime_ms,
	     struct err *err);
/* Lets the CPUs of a paused VM go on. */
int vmm_continue(struct vmm_driver *driver, struct vmm_vm *vm, int64_t deadline_boottime_ms,
		 struct err *err);
/* A VM to whose disk the host could not write, because its own was full, stands still and loses
 * nothing: this lets it try again. 1 when it stood still for that, 0 when it did not. */
int vmm_unstall(struct vmm_driver *driver, struct vmm_vm *vm, int64_t deadline_boottime_ms,
		struct err *err);
/* Saves the device state of a paused VM to state_path (created; fsynced when durable). The VM stays
 * paused; it may be continued or ended. */
int vmm_save_devices(struct vmm_driver *driver, struct vmm_vm *vm, const char *state_path,
		     bool durable, int64_t deadline_boottime_ms, struct err *err);
/* The VMM's process, as the record names it; its identity (start time) was checked. -ESRCH when
 * gone. Its private mapping of memory_path holds the guest's memory. */
int vmm_process(struct vmm_driver *driver, const struct vmm_vm *vm, pid_t *ret_pid, int *ret_pidfd,
		struct err *err);

/* Takes over a VM that another process started. -ESRCH when its warden is gone (the record tells
 * why), -ENOENT when there is no record of a start. */
int vmm_attach(struct vmm_driver *driver, const char *run_dir, struct vmm_vm *ret, struct err *err);

/* Moves the deadline durably: when it returns 0 the new deadline stands even if everything but the
 * warden dies. A frozen VM goes on. -ESRCH: the VM has already ended ("already_expired" when by its
 * deadline). */
int vmm_extend(struct vmm_driver *driver, struct vmm_vm *vm, int64_t expires_boottime_ms,
	       int64_t deadline_boottime_ms, struct err *err);

/* Ends the VM and waits until warden and VMM are gone and the record's exit is written; idempotent.
 * A warden that does not obey is killed. reason goes into the record ("destroyed_by_user", …). */
int vmm_end(struct vmm_driver *driver, struct vmm_vm *vm, const char *reason,
	    int64_t deadline_boottime_ms, struct err *err);

/* Forgets a VM without ending it: closes the pidfd, reaps the warden if it is a dead child. */
void vmm_release(struct vmm_vm *vm);

/* Undoes what a VM of this name and run directory may have left after crashes of any kind:
 * processes of the record that are provably the same (pid and start time), and its cgroups. Files
 * in run_dir stay. 0 also when there was nothing. */
int vmm_sweep(struct vmm_driver *driver, const char *name, const char *run_dir, struct err *err);

#define VMM_RECORD_NAME	      "record"
#define VMM_AGENT_SOCKET_NAME "agent.sock"
#define VMM_CONSOLE_NAME      "console.log"
