#include "vmm_fixture.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "warden/cgroup.h"

/* Emulated machines are slow, and one in another's KVM (tests/kvm) is slower still. */
#define ANSWER_MS    180000
#define START_MS     60000
#define FIRST_UID    1000000000u
#define UIDS_PER_RUN 256u

static const char *need(const char *name)
{
	const char *value = getenv(name);

	if (!value || access(value, F_OK) < 0)
		fail_msg("%s must name what was built: %s", name, value ? value : "(not set)");
	return value;
}

struct vmm_config fixture_config(const struct fixture *f, char *cache_dir, size_t size)
{
	snprintf(cache_dir, size, "%s/cache", f->dir);
	return (struct vmm_config){
		.warden_path = need("SKERRY_TEST_WARDEN"),
		.qemu_path = "/usr/bin/qemu-system-x86_64",
		.qemu_kvm_path = "/usr/bin/qemu-system-x86_64-microvm",
		.kernel_path = need("SKERRY_TEST_KERNEL"),
		.initramfs_path = need("SKERRY_TEST_INITRAMFS"),
		.lib_dir = need("SKERRY_TEST_LIB_DIR"),
		.cache_dir = cache_dir,
		.accel = getenv("SKERRY_TEST_ACCEL") ?: "tcg",
		.cgroup_name = f->cgroup,
	};
}

static char *machine_name(unsigned int n)
{
	return xasprintf("test_%d_%u", getpid(), n);
}

void fixture_open(struct fixture *f)
{
	char cache_dir[96];
	struct err err = ERR_INIT;
	struct vmm_config config;

	*f = (struct fixture){ .dir = "/tmp/skerry-vmm-XXXXXX" };
	if (geteuid() != 0)
		fail_msg("tests of the VM layer make namespaces and control groups: run as root");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->cgroup, sizeof(f->cgroup), "skerry-test-%d", getpid());
	f->root_path = xasprintf("%s/base.erofs", getenv("SKERRY_IMAGE_DIR") ?: ".");
	if (access(f->root_path, R_OK) < 0)
		fail_msg("SKERRY_IMAGE_DIR must hold the image base.erofs: %s", f->root_path);
	config = fixture_config(f, cache_dir, sizeof(cache_dir));
	if (vmm_qemu_new(&config, &f->driver, &err) < 0)
		fail_msg("%s; %s", err.message, err.hint);
	assert_int_equal(loop_new(&f->loop, &err), 0);
	assert_int_equal(loop_start(f->loop, "test", &err), 0);
}

/* A test that failed may have left its machine running. */
static void sweep_machines(struct fixture *f)
{
	for (unsigned int n = 1; n <= f->n_machines; n++) {
		_cleanup_free_ char *name = machine_name(n);
		_cleanup_free_ char *run_dir = xasprintf("%s/run%u", f->dir, n);

		vmm_sweep(f->driver, name, run_dir, NULL);
	}
}

void fixture_close(struct fixture *f)
{
	sweep_machines(f);
	loop_free(f->loop);
	vmm_driver_free(f->driver);
	tree_remove(f->dir);
	free(f->root_path);
	free(f->memory_path);
	free(f->state_path);
	free(f->disk_path);
}

static void make_disk(const char *path)
{
	const char *argv[] = { "mke2fs", "-q", "-t",
			       "ext4",	 "-E", "lazy_itable_init=1,lazy_journal_init=1",
			       path,	 "2G", NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct err err = ERR_INIT;

	spec.argv = argv;
	if (spawn_run(&spec, clock_boottime_ms() + START_MS, NULL, 0, NULL, NULL, &err) < 0)
		fail_msg("%s", err.message);
}

void fixture_make_template(struct fixture *f)
{
	struct machine_run m;
	struct err err = ERR_INIT;
	_cleanup_free_ char *said = NULL;

	f->memory_path = xasprintf("%s/template.memory", f->dir);
	f->state_path = xasprintf("%s/template.state", f->dir);
	f->disk_path = xasprintf("%s/template.disk", f->dir);
	make_disk(f->disk_path);
	machine_prepare(&m, f);
	m.spec.disk_path = f->disk_path;
	m.spec.memory_shared = true;
	m.spec.device_state_path = NULL;
	f->boot_ms = clock_boottime_ms();
	machine_start(&m);
	machine_connect(&m);
	f->boot_ms = clock_boottime_ms() - f->boot_ms;
	said = shell(&m.guest, NULL, "echo warm");
	assert_string_equal(said, "warm");
	machine_disconnect(&m);
	if (vmm_save(f->driver, &m.vm, f->state_path, clock_boottime_ms() + START_MS, &err) < 0)
		fail_msg("%s", err.message);
	machine_end(&m);
}

struct fixture fixture;

int fixture_set_up(void **state)
{
	fixture_open(&fixture);
	fixture_make_template(&fixture);
	return 0;
}

int fixture_tear_down(void **state)
{
	fixture_close(&fixture);
	return 0;
}

/* ---- machines ---- */

void machine_prepare(struct machine_run *m, struct fixture *f)
{
	unsigned int n = ++f->n_machines;
	_cleanup_free_ char *name = NULL;

	*m = (struct machine_run){ .fixture = f, .vm = VMM_VM_INIT };
	name = machine_name(n);
	str_copy(m->name, sizeof(m->name), name);
	snprintf(m->run_dir, sizeof(m->run_dir), "%s/run%u", f->dir, n);
	snprintf(m->disk_path, sizeof(m->disk_path), "%s/disk%u", f->dir, n);
	assert_int_equal(mkdir(m->run_dir, 0700), 0);
	assert_int_equal(file_copy_sparse(f->disk_path, m->disk_path, 0600), 0);
	m->spec = (struct vmm_spec){
		.name = m->name,
		.run_dir = m->run_dir,
		.vcpus = 1,
		.memory_mb = FIXTURE_MEMORY_MB,
		.root_image_path = f->root_path,
		.disk_path = m->disk_path,
		.memory_path = f->memory_path,
		.device_state_path = f->state_path,
		.network = f->network,
		.uid = FIRST_UID + (uid_t)getpid() * UIDS_PER_RUN + n % UIDS_PER_RUN,
		.expires_boottime_ms = clock_boottime_ms() + 600000,
	};
}

void machine_start(struct machine_run *m)
{
	struct err err = ERR_INIT;
	int64_t from_us = clock_boottime_us();

	if (vmm_start(m->fixture->driver, &m->spec, clock_boottime_ms() + START_MS, &m->vm, &err) <
	    0)
		fail_msg("%s", err.message);
	m->start_us = clock_boottime_us() - from_us;
}

void machine_connect(struct machine_run *m)
{
	const struct agent_identity identity = {
		.apply = true,
		.epoch = 1,
		.hostname = "sbx-test",
		.machine_id = "0123456789abcdef0123456789abcdef",
	};
	struct err err = ERR_INIT;

	m->guest = (struct vm){ .loop = m->fixture->loop };
	assert_true((size_t)snprintf(m->guest.socket_path, sizeof(m->guest.socket_path),
				     "%s/" VMM_AGENT_SOCKET_NAME,
				     m->run_dir) < sizeof(m->guest.socket_path));
	if (agent_open(m->guest.loop, m->guest.socket_path, &identity,
		       clock_boottime_ms() + ANSWER_MS, NULL, NULL, &m->guest.agent, &m->guest.info,
		       &err) < 0)
		fail_msg("%s", err.message);
}

void machine_disconnect(struct machine_run *m)
{
	vm_disconnect(&m->guest);
}

void machine_end(struct machine_run *m)
{
	struct err err = ERR_INIT;

	if (vmm_end(m->fixture->driver, &m->vm, "destroyed_by_user", clock_boottime_ms() + 10000,
		    &err) < 0)
		fail_msg("%s", err.message);
	vmm_release(&m->vm);
}

struct record machine_record(const struct machine_run *m)
{
	struct record record = { 0 };
	struct err err = ERR_INIT;
	char path[160];

	snprintf(path, sizeof(path), "%s/" VMM_RECORD_NAME, m->run_dir);
	if (record_read(path, &record, &err) < 0)
		fail_msg("%s", err.message);
	return record;
}

struct record machine_wait_exit(struct machine_run *m, int timeout_ms)
{
	struct pollfd p = { .fd = m->vm.warden_pidfd, .events = POLLIN };

	if (poll(&p, 1, timeout_ms) != 1)
		fail_msg("the machine did not end within %d ms", timeout_ms);
	vmm_release(&m->vm);
	return machine_record(m);
}

/* ---- residue ---- */

static int count_entries(const char *path, unsigned char type)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	int n = 0;

	if (!dir)
		return 0;
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.' && (type == DT_UNKNOWN || entry->d_type == type);
	closedir(dir);
	return n;
}

/* Wardens and QEMUs of this test run, by the name in their command line. */
static int count_processes(void)
{
	DIR *dir = opendir("/proc");
	const struct dirent *entry;
	char needle[32];
	int n = 0;

	snprintf(needle, sizeof(needle), "test_%d_", getpid());
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		_cleanup_buf_ struct buf line = BUF_INIT;
		_cleanup_free_ char *path = xasprintf("/proc/%s/cmdline", entry->d_name);

		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
		    file_read(path, 65536, &line) == 0 && line.len > 0 &&
		    memmem(line.data, line.len, needle, strlen(needle)))
			n++;
	}
	closedir(dir);
	return n;
}

static int count_mounts(void)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	int n = 0;

	assert_int_equal(file_read("/proc/self/mounts", 1024 * 1024, &text), 0);
	for (const char *p = text.data; (p = strchr(p, '\n')); p++)
		n++;
	return n;
}

struct residue residue_count(const struct fixture *f)
{
	struct residue now = { .processes = count_processes(), .mounts = count_mounts() };
	struct err err = ERR_INIT;
	struct cgroup group;

	assert_int_equal(cgroup_find(f->cgroup, "any", &group, &err), 0);
	for (int i = 0; i < CGROUP_CONTROLLERS; i++)
		now.cgroups += count_entries(group.parent[i], DT_DIR);
	now.descriptors = count_entries("/proc/self/fd", DT_UNKNOWN);
	return now;
}

void assert_no_residue(const struct fixture *f, struct residue before)
{
	struct residue now = residue_count(f);

	assert_int_equal(now.processes, before.processes);
	assert_int_equal(now.mounts, before.mounts);
	assert_int_equal(now.cgroups, before.cgroups);
	assert_int_equal(now.descriptors, before.descriptors);
}
