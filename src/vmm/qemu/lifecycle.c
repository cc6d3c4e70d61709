/* A VM's life after its start: taking over, deadline, end, and clearing up after crashes. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "vmm/qemu/driver.h"
#include "vmm/qemu/warden_client.h"
#include "warden/cgroup.h"

#define SWEEP_MS 3000

static char *path_in(const char *run_dir, const char *name)
{
	return xasprintf("%s/%s", run_dir, name);
}

/* ---- the record's processes ---- */

/* A warden that was killed could not write the exit; whoever finds that out does. */
static int write_missing_exit(const char *run_dir, enum record_cause cause, const char *reason,
			      const char *detail)
{
	_cleanup_free_ char *path = path_in(run_dir, VMM_RECORD_NAME);
	struct record record;
	int r = record_read(path, &record, NULL);

	if (r < 0 || record.cause != RECORD_RUNNING)
		return r == -ENOENT ? 0 : r;
	record.exit_boottime_ms = clock_boottime_ms();
	record.exit_unix_ms = clock_unix_ms();
	record.cause = cause;
	str_copy(record.reason, sizeof(record.reason), reason);
	str_copy(record.detail, sizeof(record.detail), detail);
	return record_append_exit(path, &record);
}

static int kill_recorded(pid_t pid, uint64_t start_ticks, int64_t deadline_ms, const char *what,
			 struct err *err)
{
	_cleanup_close_ int pidfd = process_pin(pid, start_ticks);

	if (pidfd == -ESRCH)
		return 0;
	if (pidfd < 0)
		return err_set(err, pidfd, "cannot look for the %s: %s", what,
			       strerrordesc_np(-pidfd));
	if (process_kill(pidfd, deadline_ms) < 0)
		return err_set(err, -ETIMEDOUT, "the %s (process %d) does not die", what, pid);
	return 0;
}

int vmm_sweep(struct vmm_driver *driver, const char *name, const char *run_dir, struct err *err)
{
	int64_t deadline_ms = clock_boottime_ms() + SWEEP_MS;
	struct record record;
	struct cgroup group;
	int r = record_of_this_boot(run_dir, &record, err);

	if (r == 0)
		r = kill_recorded(record.warden_pid, record.warden_start_ticks, deadline_ms,
				  "warden", err);
	else if (r == -ENOENT || r == -ESRCH || r == -EBADMSG)
		r = 0; /* nothing of this boot that can be proved to be ours */
	if (r == 0 && record.vmm_pid)
		r = kill_recorded(record.vmm_pid, record.vmm_start_ticks, deadline_ms, "VMM", err);
	if (r < 0)
		return r;
	r = cgroup_find(driver->cgroup_name, name, &group, err);
	return r < 0 ? r : cgroup_remove(&group, SWEEP_MS, err);
}

/* ---- taking over, extending, ending ---- */

int vmm_attach(struct vmm_driver *driver, const char *run_dir, struct vmm_vm *ret, struct err *err)
{
	struct vmm_vm vm = VMM_VM_INIT;
	struct record record;
	int r = record_of_this_boot(run_dir, &record, err);

	if (r < 0)
		return r;
	if (!str_copy(vm.run_dir, sizeof(vm.run_dir), run_dir))
		return err_set(err, -ENAMETOOLONG, "the run directory's path is too long");
	r = process_pin(record.warden_pid, record.warden_start_ticks);
	if (r < 0)
		return err_set(err, r, "the machine has ended: %s",
			       record.cause == RECORD_RUNNING ? "its warden is gone"
							      : record_cause_name(record.cause));
	vm.warden_pid = record.warden_pid;
	vm.warden_pidfd = r;
	*ret = vm;
	return 0;
}

int vmm_extend(struct vmm_driver *driver, struct vmm_vm *vm, int64_t expires_boottime_ms,
	       int64_t deadline_boottime_ms, struct err *err)
{
	_cleanup_free_ char *path = path_in(vm->run_dir, VMM_RECORD_NAME);
	struct record record;
	int r = warden_run(vm->run_dir, deadline_boottime_ms, err, "extend %lld",
			   (long long)expires_boottime_ms);

	if (r != -ESRCH)
		return r;
	/* It is ending or has ended; the record says which, once the exit is written. */
	process_wait(vm->warden_pidfd, deadline_boottime_ms);
	if (record_read(path, &record, NULL) == 0 && record.cause == RECORD_EXPIRED)
		return err_code(err, -ESRCH, "already_expired",
				"the machine's deadline has already passed");
	return err_set(err, -ESRCH, "the machine has already ended");
}

static void reap(struct vmm_vm *vm)
{
	if (vm->is_child)
		waitpid(vm->warden_pid, NULL, WNOHANG);
}

/* Ends a living warden: by asking, or by force. Says whether force was needed. */
static int end_warden(struct vmm_vm *vm, const char *reason, int64_t deadline_ms, bool *ret_forced,
		      struct err *err)
{
	int r = warden_run(vm->run_dir, deadline_ms, NULL, "end %s", reason);

	/* The VMM is tied to its warden and goes with it. */
	*ret_forced = r < 0 && r != -ESRCH;
	if (*ret_forced)
		process_kill(vm->warden_pidfd, deadline_ms);
	if (process_wait(vm->warden_pidfd, deadline_ms) == 0)
		return 0;
	*ret_forced = true;
	if (process_kill(vm->warden_pidfd, clock_boottime_ms() + SWEEP_MS) < 0)
		return err_set(err, -ETIMEDOUT, "the machine's warden does not die");
	return 0;
}

/* A warden that was killed leaves no exit in the record, and perhaps a VMM that is still dying. */
static int finish_for_warden(const struct vmm_vm *vm, const char *reason, bool forced,
			     struct err *err)
{
	struct record record;
	int r = record_of_this_boot(vm->run_dir, &record, err);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (record.cause != RECORD_RUNNING)
		return 0;
	r = kill_recorded(record.vmm_pid, record.vmm_start_ticks, clock_boottime_ms() + SWEEP_MS,
			  "VMM", err);
	if (r < 0)
		return r;
	if (forced)
		r = write_missing_exit(vm->run_dir, RECORD_ENDED, reason,
				       "the warden had to be killed");
	else
		r = write_missing_exit(vm->run_dir, RECORD_VMM_CRASHED, "",
				       "the warden was killed");
	return r < 0 ? err_set(err, r, "cannot record the machine's end: %s", strerrordesc_np(-r))
		     : 0;
}

int vmm_end(struct vmm_driver *driver, struct vmm_vm *vm, const char *reason,
	    int64_t deadline_boottime_ms, struct err *err)
{
	bool forced = false;
	int r = 0;

	if (vm->warden_pidfd < 0)
		return 0;
	if (process_wait(vm->warden_pidfd, 0) < 0)
		r = end_warden(vm, reason, deadline_boottime_ms, &forced, err);
	if (r < 0)
		return r;
	reap(vm);
	return finish_for_warden(vm, reason, forced, err);
}

void vmm_release(struct vmm_vm *vm)
{
	cleanup_closep(&vm->warden_pidfd);
	vm->warden_pidfd = -1;
	reap(vm);
	vm->is_child = false;
}
