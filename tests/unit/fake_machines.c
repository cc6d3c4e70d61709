/* See fake_machines.h. */
#include "fake_machines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "core/internal.h"
#include "vmm/vmm.h"

#define MEMORY_BYTES (64 * 1024)

static char truth[256];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *mapped; /* the template's memory, as every machine of this process has it */

void fake_machines_init(const char *truth_dir)
{
	str_copy(truth, sizeof(truth), truth_dir);
}

/* One write a line, so that a process that is killed leaves whole ones. */
static void note(const char *id, const char *what)
{
	_cleanup_free_ char *path = xasprintf("%s/%s.log", truth, id);
	_cleanup_free_ char *line = xasprintf("%s %lld\n", what, (long long)clock_boottime_ms());
	_cleanup_close_ int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || write(fd, line, strlen(line)) != (ssize_t)strlen(line))
		abort();
}

static char *in(const char *dir, const char *name)
{
	return xasprintf("%s/%s", dir, name);
}

static bool has_ended(const char *run_dir)
{
	_cleanup_free_ char *path = in(run_dir, VMM_RECORD_NAME), *gone = in(run_dir, "gone");
	struct record record;

	return access(gone, F_OK) == 0 || record_read(path, &record, NULL) < 0 ||
	       record.cause != RECORD_RUNNING;
}

static bool end_machine(const char *run_dir, enum record_cause cause, const char *reason,
			int64_t ago_ms)
{
	_cleanup_free_ char *path = in(run_dir, VMM_RECORD_NAME);
	struct record record = {
		.cause = cause,
		.exit_boottime_ms = clock_boottime_ms() - ago_ms,
		.exit_unix_ms = clock_unix_ms() - ago_ms,
	};

	if (has_ended(run_dir))
		return false;
	str_copy(record.reason, sizeof(record.reason), reason);
	return record_append_exit(path, &record) == 0;
}

bool fake_machine_crash(const char *run_dir, int64_t ago_ms)
{
	return end_machine(run_dir, RECORD_VMM_CRASHED, "", ago_ms);
}

void fake_machine_vanish(const char *run_dir, const char *id)
{
	_cleanup_free_ char *gone = in(run_dir, "gone");

	if (has_ended(run_dir))
		return;
	note(id, "gone");
	if (file_write_durable(gone, "", 0, 0600) < 0)
		abort();
}

/* ---- vmm/vmm.h ---- */

const char *vmm_isolation_name(enum vmm_isolation isolation)
{
	return isolation == VMM_KVM ? "kvm" : "emulated";
}

enum vmm_isolation vmm_driver_isolation(const struct vmm_driver *driver)
{
	return VMM_EMULATED;
}

const char *vmm_driver_isolation_reason(const struct vmm_driver *driver)
{
	return "there are no machines";
}

const char *vmm_driver_program(const struct vmm_driver *driver)
{
	return "/bin/true";
}

const char *vmm_driver_fingerprint(const struct vmm_driver *driver)
{
	return "fake-machines";
}

const char *vmm_driver_state_fingerprint(const struct vmm_driver *driver)
{
	return vmm_driver_fingerprint(driver);
}

int vmm_start(struct vmm_driver *driver, const struct vmm_spec *spec, int64_t deadline_boottime_ms,
	      struct vmm_vm *ret, struct err *err)
{
	_cleanup_free_ char *path = in(spec->run_dir, VMM_RECORD_NAME);
	_cleanup_free_ char *memory = in(spec->run_dir, "memory");
	_cleanup_free_ char *kept =
		xasprintf("%s/%s.%lld", truth, spec->name, (long long)clock_boottime_us());
	struct record record = {
		.start_boottime_ms = clock_boottime_ms(),
		.start_unix_ms = clock_unix_ms(),
		.warden_pid = 1,
		.vmm_pid = 1,
		.expires_boottime_ms = spec->expires_boottime_ms,
	};

	clock_boot_id(record.boot_id);
	if (symlink(spec->memory_path, memory) < 0 || record_append_start(path, &record) < 0 ||
	    link(path, kept) < 0)
		return err_set(err, -EIO, "start the machine in '%s': %s", spec->run_dir,
			       strerror(errno));
	*ret = VMM_VM_INIT;
	str_copy(ret->run_dir, sizeof(ret->run_dir), spec->run_dir);
	return 0;
}

int vmm_attach(struct vmm_driver *driver, const char *run_dir, struct vmm_vm *ret, struct err *err)
{
	if (has_ended(run_dir))
		return err_set(err, -ESRCH, "the machine in '%s' has ended", run_dir);
	*ret = VMM_VM_INIT;
	str_copy(ret->run_dir, sizeof(ret->run_dir), run_dir);
	return 0;
}

int vmm_extend(struct vmm_driver *driver, struct vmm_vm *vm, int64_t expires_boottime_ms,
	       int64_t deadline_boottime_ms, struct err *err)
{
	_cleanup_free_ char *path = in(vm->run_dir, VMM_RECORD_NAME);

	if (has_ended(vm->run_dir))
		return err_set(err, -ESRCH, "the machine has ended");
	return record_append_deadline(path, expires_boottime_ms);
}

int vmm_end(struct vmm_driver *driver, struct vmm_vm *vm, const char *reason,
	    int64_t deadline_boottime_ms, struct err *err)
{
	end_machine(vm->run_dir, RECORD_ENDED, reason, 0);
	return 0;
}

/* Also of a machine that was never attached to: what can be ended is. */
int vmm_sweep(struct vmm_driver *driver, const char *name, const char *run_dir, struct err *err)
{
	end_machine(run_dir, RECORD_ENDED, "swept", 0);
	return 0;
}

void vmm_release(struct vmm_vm *vm)
{
	*vm = VMM_VM_INIT;
}

int vmm_unstall(struct vmm_driver *driver, struct vmm_vm *vm, int64_t deadline_boottime_ms,
		struct err *err)
{
	return 0;
}

int vmm_save_devices(struct vmm_driver *driver, struct vmm_vm *vm, const char *state_path,
		     bool durable, int64_t deadline_boottime_ms, struct err *err)
{
	return file_write_durable(state_path, "devices", 7, 0600);
}

static void map_memory(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	mapped = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (mapped == MAP_FAILED)
		abort();
	memset(mapped, 'w', 4096); /* what the guests have written */
}

int vmm_process(struct vmm_driver *driver, const struct vmm_vm *vm, pid_t *ret_pid, int *ret_pidfd,
		struct err *err)
{
	_cleanup_free_ char *memory = in(vm->run_dir, "memory");

	pthread_mutex_lock(&lock);
	if (!mapped)
		map_memory(memory);
	pthread_mutex_unlock(&lock);
	*ret_pid = getpid();
	*ret_pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	return 0;
}

/* ---- core/connect.c: agents answer at once ---- */

bool sandbox_vm_has_ended(const struct sandbox *sb, int wait_ms)
{
	return has_ended(sb->run_dir);
}

int sandbox_connect(struct sandbox *sb, const struct agent_identity *identity,
		    int64_t deadline_boottime_ms, struct err *err)
{
	if (has_ended(sb->run_dir))
		return err_set(err, -ESRCH, "the machine has ended");
	if (identity)
		note(sb->id, "answered");
	return 0;
}

int sandbox_ensure_connected(struct sandbox *sb, struct err *err)
{
	return 0;
}

void sandbox_connect_later(struct sandbox *sb)
{
}

void sandbox_watch(struct sandbox *sb)
{
}

struct agent *sandbox_hold_agent(struct sandbox *sb)
{
	return NULL;
}

void sandbox_release_agent(struct sandbox *sb, bool broken)
{
}

void sandbox_detach(struct sandbox *sb)
{
}

void sandbox_cut_off(struct sandbox *sb, const struct err *err)
{
}

/* ---- core/hold.c ---- */

bool sandbox_is_overdue(const struct sandbox *sb)
{
	return sb->pause_on_timeout && clock_boottime_ms() >= sb->expires_boottime_ms;
}

void sandbox_end_patience(struct sandbox *sb)
{
}

int sandbox_hold(struct sandbox *sb, struct err *err)
{
	if (has_ended(sb->run_dir))
		return err_set(err, -ESRCH, "the machine has ended");
	note(sb->id, "held");
	sb->held = true;
	sb->held_boottime_us = clock_boottime_us();
	return 0;
}

void sandbox_let_go(struct sandbox *sb)
{
	if (sb->held)
		note(sb->id, "let_go");
	sb->held = false;
}

void sandbox_recover_hold(struct sandbox *sb)
{
	if (sb->has_vm)
		note(sb->id, "let_go");
}

/* ---- core/template_make.c ---- */

static int write_blocks(const char *dir, const char *name)
{
	_cleanup_free_ char *path = in(dir, name);
	_cleanup_free_ char *bytes = xmalloc(MEMORY_BYTES);

	memset(bytes, 't', MEMORY_BYTES);
	return file_write_durable(path, bytes, MEMORY_BYTES, 0600);
}

int template_make(struct core *core, const struct template *template,
		  const struct image_info *image, const struct shape *shape,
		  core_progress_fn progress, void *progress_arg, struct err *err)
{
	_cleanup_free_ char *dir = xasprintf("%s/templates/making", core->state_dir);
	_cleanup_free_ char *root = in(dir, "root");
	int r;

	tree_remove(dir);
	r = dir_make(dir, 0700);
	if (r == 0)
		r = write_blocks(dir, "memory");
	if (r == 0)
		r = write_blocks(dir, "state");
	if (r == 0)
		r = write_blocks(dir, "disk");
	if (r == 0)
		r = template_keep_root(root, image, err);
	if (r == 0)
		r = template_write_manifest(dir, template, vmm_driver_fingerprint(NULL), err);
	if (r == 0 && rename(dir, template->dir) < 0)
		r = -errno;
	return r < 0 ? err_set(err, r, "make a template: %s", strerror(-r)) : 0;
}

void template_sweep_making(struct core *core)
{
	_cleanup_free_ char *dir = xasprintf("%s/templates/making", core->state_dir);

	tree_remove(dir);
}
