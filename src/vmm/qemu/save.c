/*
 * Holding a VM's state still and writing it down: pausing, going on, the device state, and the
 * memory file of a VM that writes into one.
 *
 * A VM that its warden has frozen at its deadline stands twice: QEMU was told to stop
 * (warden/pauser.h) and then stopped itself, with SIGSTOP. To save it QEMU has to run, so vmm_pause
 * has it thawed. The guest stays stopped. Should QEMU not have obeyed within the warden's time, the
 * guest does run from the SIGCONT until QEMU has taken the `stop` that was put into its socket
 * before: a connection to accept and some 70 bytes to parse, 1 to 3 ms on a host that is not busy.
 * That costs nobody anything: the record's `frozen` ends the time that is billed, and what the
 * guest does in it is saved as the rest is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "vmm/qemu/driver.h"
#include "vmm/qemu/qmp.h"
#include "vmm/qemu/warden_client.h"

static char *path_in(const char *run_dir, const char *name)
{
	return xasprintf("%s/%s", run_dir, name);
}

static int open_qmp(struct qmp *qmp, const struct vmm_vm *vm, int64_t deadline_ms, struct err *err)
{
	_cleanup_free_ char *path = path_in(vm->run_dir, QMP_SOCKET_NAME);

	return qmp_open(qmp, path, deadline_ms, err);
}

/* ---- stopping and going on ---- */

/* QEMU's `stop` halts the CPUs, waits for the block requests under way and flushes what the host's
 * cache holds of the disk (do_vm_stop, seen in 7.2), and answers after all that. On a VM that is
 * stopped already it flushes and answers. */
static int stop(struct qmp *qmp, const struct vmm_vm *vm, int64_t deadline_ms, struct err *err)
{
	_cleanup_free_ char *path = path_in(vm->run_dir, QMP_SOCKET_NAME);
	struct record record;
	int r = record_of_this_boot(vm->run_dir, &record, err);

	if (r == 0)
		r = qmp_begin(qmp, path, deadline_ms, err);
	if (r == 0)
		r = qmp_send(qmp, "stop", NULL, -1, deadline_ms, err);
	if (r == 0 && record.frozen)
		r = warden_run(vm->run_dir, deadline_ms, err, "thaw");
	if (r == 0)
		r = qmp_greet(qmp, deadline_ms, err);
	return r < 0 ? r : qmp_receive(qmp, "stop", deadline_ms, NULL, err);
}

int vmm_pause(struct vmm_driver *driver, struct vmm_vm *vm, int64_t deadline_boottime_ms,
	      struct err *err)
{
	struct qmp qmp = QMP_INIT;
	int r = stop(&qmp, vm, deadline_boottime_ms, err);

	qmp_close(&qmp);
	return r < 0 ? err_wrap(err, r, "cannot pause the machine") : 0;
}

int vmm_hold(struct vmm_driver *driver, struct vmm_vm *vm, int64_t deadline_boottime_ms,
	     struct err *err)
{
	int r = warden_run(vm->run_dir, deadline_boottime_ms, err, "thaw");

	return r < 0 ? err_wrap(err, r, "cannot hold the machine past its deadline") : 0;
}

int vmm_continue(struct vmm_driver *driver, struct vmm_vm *vm, int64_t deadline_boottime_ms,
		 struct err *err)
{
	struct qmp qmp = QMP_INIT;
	int r = open_qmp(&qmp, vm, deadline_boottime_ms, err);

	if (r == 0)
		r = qmp_run(&qmp, "cont", NULL, -1, deadline_boottime_ms, NULL, err);
	qmp_close(&qmp);
	return r < 0 ? err_wrap(err, r, "cannot let the machine go on") : 0;
}

/* QEMU stops a guest whose write fails for want of room (werror=enospc, its default, seen in 7.2),
 * and does the write again when it is continued. */
int vmm_unstall(struct vmm_driver *driver, struct vmm_vm *vm, int64_t deadline_boottime_ms,
		struct err *err)
{
	_cleanup_json_ json_t *status = NULL;
	struct qmp qmp = QMP_INIT;
	struct record record;
	bool stalled = false;
	int r = record_of_this_boot(vm->run_dir, &record, err);

	if (r < 0 || record.frozen)
		return r;
	r = open_qmp(&qmp, vm, deadline_boottime_ms, err);
	if (r == 0)
		r = qmp_run(&qmp, "query-status", NULL, -1, deadline_boottime_ms, &status, err);
	if (r == 0)
		stalled = str_eq(json_get_str(status, "status", ""), "io-error");
	if (stalled)
		r = qmp_run(&qmp, "cont", NULL, -1, deadline_boottime_ms, NULL, err);
	qmp_close(&qmp);
	if (r < 0)
		return err_wrap(err, r, "cannot let the machine try again");
	return stalled;
}

/* ---- device state ---- */

/* Hands QEMU the file as a member of a descriptor set, whose name it can "open". */
static int save_device_state(struct qmp *qmp, int state_fd, int64_t deadline_ms, struct err *err)
{
	_cleanup_json_ json_t *set = NULL;
	json_t *arguments;
	char name[64];
	int r = qmp_run(qmp, "add-fd", NULL, state_fd, deadline_ms, &set, err);

	if (r < 0)
		return r;
	snprintf(name, sizeof(name), "/dev/fdset/%lld",
		 (long long)json_get_int(set, "fdset-id", -1));
	arguments = json_object();
	json_put_str(arguments, "filename", name);
	/* live=false: "another QEMU will not take over now", so the disks stay this one's. */
	json_put(arguments, "live", json_false());
	r = qmp_run(qmp, "xen-save-devices-state", arguments, -1, deadline_ms, NULL, err);
	if (r < 0)
		return r;
	arguments = json_object();
	json_put_int(arguments, "fdset-id", json_get_int(set, "fdset-id", -1));
	return qmp_run(qmp, "remove-fd", arguments, -1, deadline_ms, NULL, err);
}

static int sync_file(const char *what, int fd, struct err *err)
{
	return fsync(fd) < 0 ? err_set(err, -errno, "cannot write the %s to disk: %s", what,
				       strerrordesc_np(errno))
			     : 0;
}

static int sync_directory_of(const char *path, struct err *err)
{
	_cleanup_free_ char *dir = xstrdup(path);
	char *slash = strrchr(dir, '/');
	int r;

	if (slash)
		slash[slash == dir] = '\0';
	r = dir_fsync(slash ? dir : ".");
	return r < 0 ? err_set(err, r, "cannot write the directory of '%s' to disk", path) : 0;
}

/* Makes the state file. On failure it is not there. */
static int save_to(struct vmm_vm *vm, const char *path, bool durable, int64_t deadline_ms,
		   struct err *err)
{
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	struct qmp qmp = QMP_INIT;
	int r;

	if (fd < 0)
		return err_set(err, -errno, "cannot make '%s': %s", path, strerrordesc_np(errno));
	r = open_qmp(&qmp, vm, deadline_ms, err);
	if (r == 0)
		r = save_device_state(&qmp, fd, deadline_ms, err);
	qmp_close(&qmp);
	if (r == 0 && durable)
		r = sync_file("device state", fd, err);
	if (r == 0 && durable)
		r = sync_directory_of(path, err);
	if (r < 0)
		unlink(path);
	return r;
}

int vmm_save_devices(struct vmm_driver *driver, struct vmm_vm *vm, const char *state_path,
		     bool durable, int64_t deadline_boottime_ms, struct err *err)
{
	int r = save_to(vm, state_path, durable, deadline_boottime_ms, err);

	return r < 0 ? err_wrap(err, r, "cannot save the machine's devices") : 0;
}

/* ---- the whole of it ---- */

/* Where the guest wrote into its memory file, that is now complete, and read-only from here on. */
static int finish_memory(const char *run_dir, struct err *err)
{
	_cleanup_free_ char *link = path_in(run_dir, MEMORY_LINK_NAME);
	_cleanup_close_ int fd = open(link, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0
				       : err_set(err, -errno, "cannot open the memory file: %s",
						 strerrordesc_np(errno));
	if (fchmod(fd, 0444) < 0)
		return err_set(err, -errno, "cannot make the memory file read-only: %s",
			       strerrordesc_np(errno));
	return sync_file("memory file", fd, err);
}

int vmm_save(struct vmm_driver *driver, struct vmm_vm *vm, const char *state_path,
	     int64_t deadline_boottime_ms, struct err *err)
{
	int r = vmm_pause(driver, vm, deadline_boottime_ms, err);

	if (r == 0)
		r = vmm_save_devices(driver, vm, state_path, true, deadline_boottime_ms, err);
	if (r < 0)
		return r;
	r = finish_memory(vm->run_dir, err);
	if (r < 0) {
		unlink(state_path);
		return err_wrap(err, r, "cannot save the machine");
	}
	return 0;
}

int vmm_process(struct vmm_driver *driver, const struct vmm_vm *vm, pid_t *ret_pid, int *ret_pidfd,
		struct err *err)
{
	struct record record;
	int r = record_of_this_boot(vm->run_dir, &record, err);

	if (r < 0)
		return r;
	r = process_pin(record.vmm_pid, record.vmm_start_ticks);
	if (r < 0)
		return err_set(err, r, "the machine's VMM is gone");
	*ret_pid = record.vmm_pid;
	*ret_pidfd = r;
	return 0;
}
