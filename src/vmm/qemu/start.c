/*
 * Starting a VM: everything it will hold is opened here and passed down as descriptors, the warden
 * jails QEMU, QEMU comes up stopped, the jail is sealed, a saved state is loaded, the guest runs.
 *
 * The memory of a fork or of a paused VM is a template's file and pages that differ from it: the
 * caller puts those in place (spec->fill_memory) when QEMU has mapped the file.
 *
 * The loading of a saved state comes after the sealing because the state is what a guest left
 * behind, and QEMU reads it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "loop/spawn.h"
#include "vmm/qemu/driver.h"
#include "vmm/qemu/qmp.h"
#include "vmm/qemu/warden_client.h"
#include "warden/cgroup.h"

#define VCPUS_MAX     8u
#define MEMORY_MB_MIN 64u
#define MEMORY_MB_MAX (1024u * 1024u)
/* How long a VMM that failed may take to end by itself, and to be ended. */
#define LINGER_MS  300
#define ABANDON_MS 3000

/* The caller's ends are kept by no one: QEMU and the warden have their own when the start returns.
 */
struct start {
	struct machine_fds fds;
	int state;	  /* the saved device state, -1 for a boot */
	int console_read; /* the warden's end */
	int status_read;  /* ours: the warden's answer */
	int status_write;
};
#define START_INIT                                                                                 \
	((struct start){ .fds = { -1, -1, -1, -1, -1, -1, -1 },                                    \
			 .state = -1,                                                              \
			 .console_read = -1,                                                       \
			 .status_read = -1,                                                        \
			 .status_write = -1 })

static void start_clear(struct start *s)
{
	int *const all[] = {
		&s->fds.qmp_listen, &s->fds.agent_listen, &s->fds.console, &s->fds.root,
		&s->fds.disk,	    &s->fds.memory,	  &s->fds.kvm,	   &s->state,
		&s->console_read,   &s->status_read,	  &s->status_write
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		cleanup_closep(all[i]);
		*all[i] = -1;
	}
}

#define _cleanup_start_ _cleanup_(start_clear)

/* ---- what the VM holds ---- */

static int check_spec(const struct vmm_driver *driver, const struct vmm_spec *spec, struct err *err)
{
	if (!cgroup_name_valid(spec->name))
		return err_set(err, -EINVAL, "'%s' cannot name a machine", spec->name);
	if (spec->vcpus < 1 || spec->vcpus > VCPUS_MAX)
		return err_set(err, -EINVAL, "%u processors are not from 1 to %u", spec->vcpus,
			       VCPUS_MAX);
	if (spec->memory_mb < MEMORY_MB_MIN || spec->memory_mb > MEMORY_MB_MAX)
		return err_set(err, -EINVAL, "%u MB of memory are not from %u to %u",
			       spec->memory_mb, MEMORY_MB_MIN, MEMORY_MB_MAX);
	if (spec->uid == 0)
		return err_set(err, -EINVAL, "a machine must not run as root");
	if (!spec->memory_path && (spec->memory_shared || spec->device_state_path))
		return err_set(err, -EINVAL, "a saved or saving machine needs a memory file");
	if (spec->fill_memory && (spec->memory_shared || !spec->device_state_path))
		return err_set(err, -EINVAL,
			       "only the private memory of a restored machine is filled");
	if (spec->network && spec->network->tap_fd < 0)
		return err_set(err, -EINVAL, "a machine with a network needs a tap");
	if (strlen(spec->run_dir) >= sizeof(((struct vmm_vm *)NULL)->run_dir))
		return err_set(err, -ENAMETOOLONG, "the run directory's path is too long");
	return 0;
}

static int open_file(const char *what, const char *path, int flags, int *ret, struct err *err)
{
	struct stat st;

	*ret = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600);
	if (*ret < 0)
		return err_set(err, -errno, "cannot open the %s '%s': %s", what, path,
			       strerrordesc_np(errno));
	if (fstat(*ret, &st) < 0 || !S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "the %s '%s' is not a file", what, path);
	return 0;
}

/* A memory file that guests write into is made here; one that is copied from must be there, whole.
 */
static int open_memory(const struct vmm_spec *spec, int *ret, struct err *err)
{
	_cleanup_buf_ struct buf link = BUF_INIT;
	off_t size = (off_t)spec->memory_mb * 1024 * 1024;
	struct stat st;
	int r;

	r = open_file("memory file", spec->memory_path,
		      spec->memory_shared ? O_RDWR | O_CREAT : O_RDONLY, ret, err);
	if (r < 0)
		return r;
	if (fstat(*ret, &st) < 0)
		return err_set(err, -errno, "cannot look at the memory file");
	if (spec->memory_shared && st.st_size == 0) {
		if (ftruncate(*ret, size) < 0)
			return err_set(err, -errno, "cannot size the memory file '%s': %s",
				       spec->memory_path, strerrordesc_np(errno));
		st.st_size = size;
	}
	if (st.st_size != size)
		return err_set(err, -EINVAL, "the memory file '%s' has %lld bytes, not %lld",
			       spec->memory_path, (long long)st.st_size, (long long)size);
	if (!spec->memory_shared)
		return 0;
	buf_printf(&link, "%s/" MEMORY_LINK_NAME, spec->run_dir);
	if (symlink(spec->memory_path, link.data) < 0)
		return err_set(err, -errno, "cannot make '%s': %s", link.data,
			       strerrordesc_np(errno));
	return 0;
}

static int open_files(const struct vmm_driver *driver, const struct vmm_spec *spec, struct start *s,
		      struct err *err)
{
	int r = open_file("root image", spec->root_image_path, O_RDONLY, &s->fds.root, err);

	if (r == 0)
		r = open_file("disk", spec->disk_path, O_RDWR, &s->fds.disk, err);
	if (r == 0 && spec->memory_path)
		r = open_memory(spec, &s->fds.memory, err);
	if (r == 0 && spec->device_state_path)
		r = open_file("device state", spec->device_state_path, O_RDONLY, &s->state, err);
	if (r < 0 || driver->machine.isolation != VMM_KVM)
		return r;
	s->fds.kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	return s->fds.kvm < 0
		       ? err_set(err, -errno, "cannot open /dev/kvm: %s", strerrordesc_np(errno))
		       : 0;
}

static int listen_in(const char *run_dir, const char *name, int *ret, struct err *err)
{
	_cleanup_buf_ struct buf path = BUF_INIT;

	buf_printf(&path, "%s/%s", run_dir, name);
	*ret = unix_listen(path.data, 0600);
	return *ret < 0 ? err_set(err, *ret, "cannot listen on '%s': %s", path.data,
				  strerrordesc_np(-*ret))
			: 0;
}

static int make_pipe(int *ret_read, int *ret_write, struct err *err)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(err, -errno, "cannot make a pipe: %s", strerrordesc_np(errno));
	*ret_read = ends[0];
	*ret_write = ends[1];
	return 0;
}

static int open_channels(const struct vmm_spec *spec, struct start *s, struct err *err)
{
	int r = listen_in(spec->run_dir, QMP_SOCKET_NAME, &s->fds.qmp_listen, err);

	if (r == 0)
		r = listen_in(spec->run_dir, VMM_AGENT_SOCKET_NAME, &s->fds.agent_listen, err);
	if (r == 0)
		r = make_pipe(&s->console_read, &s->fds.console, err);
	if (r == 0)
		r = make_pipe(&s->status_read, &s->status_write, err);
	return r;
}

/* ---- the warden ---- */

static void add_limits(const struct vmm_driver *driver, const struct vmm_spec *spec,
		       const struct start *s, struct args *out)
{
	uint64_t memory = spec->memory_limit_bytes;
	uint32_t pids = spec->pids_max;
	struct stat disk;

	if (!memory)
		memory = spec->memory_mb * UINT64_C(1048576) +
			 machine_overhead_bytes(&driver->machine, spec);
	if (!pids)
		pids = machine_threads_max(&driver->machine, spec);
	args_option(out, "--cpu-quota-percent", "%u", spec->cpu_quota_percent);
	args_option(out, "--memory-max", "%llu", (unsigned long long)memory);
	args_option(out, "--pids-max", "%u", pids);
	/* Its disk may not grow, and the device state is far smaller than any disk. */
	if (fstat(s->fds.disk, &disk) < 0 || disk.st_size < 1)
		disk.st_size = 1;
	args_option(out, "--file-size-max", "%lld", (long long)disk.st_size);
	if (driver->machine.isolation == VMM_KVM)
		args_add(out, "--huge-pages");
}

static int tap_of(const struct vmm_spec *spec)
{
	return spec->network ? spec->network->tap_fd : -1;
}

static void add_descriptors(const struct vmm_spec *spec, const struct start *s, struct args *out)
{
	const int keep[] = { s->fds.qmp_listen, s->fds.agent_listen, s->fds.console, s->fds.root,
			     s->fds.disk,	s->fds.memory,	     s->fds.kvm,     s->state,
			     tap_of(spec) };
	_cleanup_buf_ struct buf pairs = BUF_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(keep); i++)
		if (keep[i] >= 0)
			args_option(out, "--keep-fd", "%d", keep[i]);
	args_option(out, "--console-fd", "%d", s->console_read);
	args_option(out, "--status-fd", "%d", s->status_write);
	if (s->fds.memory >= 0)
		buf_printf(&pairs, "%s=%d", MACHINE_MEMORY_PATH, s->fds.memory);
	if (s->fds.kvm >= 0)
		buf_printf(&pairs, "%s%s=%d", pairs.len ? ":" : "", MACHINE_KVM_PATH, s->fds.kvm);
	if (pairs.len)
		args_option(out, "--setenv", "SKERRY_DESCRIPTORS=%s", pairs.data);
}

static void warden_command(const struct vmm_driver *driver, const struct vmm_spec *spec,
			   const struct start *s, struct args *out)
{
	args_add(out, "%s", driver->warden_path);
	args_option(out, "--name", "%s", spec->name);
	args_option(out, "--run-dir", "%s", spec->run_dir);
	args_option(out, "--cgroup", "%s", driver->cgroup_name);
	args_option(out, "--uid", "%u", spec->uid);
	args_option(out, "--expires-boottime-ms", "%lld", (long long)spec->expires_boottime_ms);
	if (spec->freeze_at_deadline)
		args_option(out, "--freeze-by-qmp", "%s/" QMP_SOCKET_NAME, spec->run_dir);
	add_limits(driver, spec, s, out);
	for (size_t i = 0; i < driver->binds.n; i++)
		args_add(out, "%s", driver->binds.v[i]);
	if (!spec->device_state_path) {
		args_option(out, "--bind", "%s", driver->machine.kernel_path);
		args_option(out, "--bind", "%s", driver->machine.initramfs_path);
	}
	args_option(out, "--setenv", "LD_PRELOAD=%s", driver->preload_path);
	/* One arena a thread would be private memory for nothing. */
	args_option(out, "--setenv", "MALLOC_ARENA_MAX=1");
	add_descriptors(spec, s, out);
	args_add(out, "--");
	machine_command(&driver->machine, spec, &s->fds, out);
}

static int spawn_warden(const struct vmm_driver *driver, const struct vmm_spec *spec,
			const struct start *s, struct child *ret, struct err *err)
{
	struct args command = ARGS_INIT;
	const int keep[] = { s->fds.qmp_listen, s->fds.agent_listen, s->fds.console,
			     s->fds.root,	s->fds.disk,	     s->console_read,
			     s->status_write,	s->fds.memory,	     s->fds.kvm,
			     s->state,		tap_of(spec) };
	int keep_open[ARRAY_SIZE(keep)];
	struct spawn_spec spawning = SPAWN_SPEC_INIT;
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(keep); i++)
		if (keep[i] >= 0)
			keep_open[spawning.n_keep_fds++] = keep[i];
	warden_command(driver, spec, s, &command);
	spawning.argv = (const char *const *)command.v;
	spawning.cwd = "/";
	spawning.stdout_fd = s->fds.console;
	spawning.stderr_fd = s->fds.console;
	spawning.keep_fds = keep_open;
	spawning.new_session = true; /* it outlives us, and our terminal */
	r = spawn(&spawning, ret, err);
	args_clear(&command);
	return r;
}

/* Waits for the warden's one line: QEMU was executed, or why not. */
static int read_status(int fd, int64_t deadline_ms, struct err *err)
{
	char text[1024];
	size_t len = 0;
	int r;

	fd_set_nonblock(fd, true);
	do {
		ssize_t n;

		r = process_wait(fd, deadline_ms); /* readable: as good for a pipe */
		if (r < 0)
			return err_set(err, r, "the warden does not come up in time");
		n = read(fd, text + len, sizeof(text) - 1 - len);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return err_set(err, -errno, "cannot hear from the warden");
		if (n == 0)
			break;
		len += n > 0 ? (size_t)n : 0;
	} while (len < sizeof(text) - 1 && !memchr(text, '\n', len));
	text[len] = '\0';
	*strchrnul(text, '\n') = '\0';
	if (str_eq(text, "ok"))
		return 0;
	return err_set(err, -EIO, "%s", len ? text : "the warden ended without a word");
}

/* ---- QEMU ---- */

/* QEMU runs the guest by itself once the state is loaded; a state it cannot load ends it. (Not
 * asked for by query-migrate: QEMU 7.2 reads its commands byte by byte, each byte a round of its
 * main loop.) */
static int load_state(struct qmp *qmp, int state_fd, int64_t deadline_ms, struct err *err)
{
	json_t *arguments = json_object();
	char uri[32];
	int r;

	snprintf(uri, sizeof(uri), "fd:%d", state_fd);
	json_put_str(arguments, "uri", uri);
	r = qmp_run(qmp, "migrate-incoming", arguments, -1, deadline_ms, NULL, err);
	return r < 0 ? r : qmp_wait_resumed(qmp, deadline_ms, err);
}

/* The caller puts pages into QEMU's mapping of the memory file. QEMU waits for its state meanwhile
 * and touches no page of the guest (-incoming defer). Its pid is looked at before and after: what
 * was filled is the process that will run the guest. */
static int fill_memory(struct vmm_driver *driver, const struct vmm_spec *spec, struct err *err)
{
	_cleanup_close_ int pidfd = -1;
	struct vmm_vm vm = VMM_VM_INIT;
	pid_t pid;
	int r;

	if (!spec->fill_memory)
		return 0;
	str_copy(vm.run_dir, sizeof(vm.run_dir), spec->run_dir);
	r = vmm_process(driver, &vm, &pid, &pidfd, err);
	if (r == 0)
		r = spec->fill_memory(spec->fill_memory_arg, pid, err);
	if (r == 0 && process_wait(pidfd, 0) == 0)
		r = err_set(err, -ESRCH, "the VMM has ended while its memory was filled");
	return r;
}

static int bring_up(struct vmm_driver *driver, const struct vmm_spec *spec, const struct start *s,
		    int64_t deadline_ms, struct err *err)
{
	_cleanup_buf_ struct buf path = BUF_INIT;
	struct qmp qmp = QMP_INIT;
	int r;

	buf_printf(&path, "%s/" QMP_SOCKET_NAME, spec->run_dir);
	r = qmp_open(&qmp, path.data, deadline_ms, err);
	if (r == 0)
		r = warden_run(spec->run_dir, deadline_ms, err, "seal");
	if (r == 0 && s->state >= 0)
		r = fill_memory(driver, spec, err);
	if (r == 0 && s->state >= 0)
		r = load_state(&qmp, s->state, deadline_ms, err);
	else if (r == 0)
		r = qmp_run(&qmp, "cont", NULL, -1, deadline_ms, NULL, err);
	qmp_close(&qmp);
	return r;
}

/* Takes the VM down after a failed start and puts what it said last into err. */
static void abandon(struct vmm_driver *driver, const struct vmm_spec *spec, struct child *warden,
		    struct err *err)
{
	_cleanup_buf_ struct buf path = BUF_INIT;
	struct record record;
	int64_t now_ms = clock_boottime_ms();

	/* A QEMU that ended by itself takes the warden with it, which leaves the reason. */
	if (process_wait(warden->pidfd, now_ms + LINGER_MS) < 0) {
		warden_run(spec->run_dir, now_ms + ABANDON_MS, NULL, "end start_failed");
		process_wait(warden->pidfd, now_ms + ABANDON_MS);
	}
	child_kill(warden);
	vmm_sweep(driver, spec->name, spec->run_dir, NULL);
	buf_printf(&path, "%s/" VMM_RECORD_NAME, spec->run_dir);
	if (err && record_read(path.data, &record, NULL) == 0 && record.cause != RECORD_ENDED &&
	    record.detail[0])
		err_set(err, err->num, "%s; its last words: %s", err->message, record.detail);
}

int vmm_start(struct vmm_driver *driver, const struct vmm_spec *spec, int64_t deadline_boottime_ms,
	      struct vmm_vm *ret, struct err *err)
{
	_cleanup_start_ struct start s = START_INIT;
	struct child warden = { .pidfd = -1 };
	int r = check_spec(driver, spec, err);

	if (r == 0)
		r = open_files(driver, spec, &s, err);
	if (r == 0)
		r = open_channels(spec, &s, err);
	if (r == 0)
		r = spawn_warden(driver, spec, &s, &warden, err);
	if (r < 0)
		return err_wrap(err, r, "cannot start the machine '%s'", spec->name);

	/* Our copies of what they hold would hide their end from us. */
	close(STEAL_FD(s.status_write));
	close(STEAL_FD(s.console_read));
	close(STEAL_FD(s.fds.console));
	close(STEAL_FD(s.fds.qmp_listen));
	close(STEAL_FD(s.fds.agent_listen));
	r = read_status(s.status_read, deadline_boottime_ms, err);
	if (r == 0)
		r = bring_up(driver, spec, &s, deadline_boottime_ms, err);
	if (r < 0) {
		abandon(driver, spec, &warden, err);
		return err_wrap(err, r, "cannot start the machine '%s'", spec->name);
	}
	*ret = (struct vmm_vm){ .warden_pid = warden.pid,
				.warden_pidfd = warden.pidfd,
				.is_child = true };
	str_copy(ret->run_dir, sizeof(ret->run_dir), spec->run_dir);
	return 0;
}
