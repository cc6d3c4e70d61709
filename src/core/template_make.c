/*
 * Making a template:
 *
 *   1 files      a fresh disk, and a file for the memory
 *   2 boot       a VM of the image with its memory in that file, until its agent has answered
 *   3 warm up    a first command, so that what commands need is in the guest's page cache
 *   4 save       it stops, the state of its devices is saved, it ends
 *   5 seal       files synced, the manifest written
 *   6 install    the rename
 *
 * All of it happens in STATE/templates/making/<name>, where <name> also names the VM's cgroup: so a
 * maker that dies leaves something that can be told from everything else, and is swept at the next
 * start. The directory becomes the template by a rename.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/str.h"
#include "core/abort_point.h"
#include "core/internal.h"
#include "core/warm_up.h"
#include "loop/spawn.h"

#define NAME_PREFIX	 "tpl_"
#define MKFS_DEADLINE_MS 60000
#define UID_RESERVE	 65536 /* above the sandboxes' uids */

DEFINE_CLEANUP(DIR *, closedirp, closedir);

struct making {
	struct core *core;
	const struct template *template;
	const struct image_info *image;
	const struct shape *shape;
	core_progress_fn progress;
	void *progress_arg;
	char name[24];
	char *dir, *run_dir, *memory_path, *state_path, *disk_path, *agent_path;
	struct slot *slot; /* denies everything; given back at the end */
	struct vmm_vm vm;
	bool has_vm;
	int64_t deadline_boottime_ms;
};

static void say(const struct making *m, int percent, const char *what)
{
	if (m->progress)
		m->progress(m->progress_arg, percent, what);
}

static void making_init(struct making *m)
{
	char random[17];

	rand_hex(random, sizeof(random) - 1);
	snprintf(m->name, sizeof(m->name), NAME_PREFIX "%s", random);
	m->dir = xasprintf("%s/templates/making/%s", m->core->state_dir, m->name);
	m->run_dir = xasprintf("%s/run", m->dir);
	m->memory_path = xasprintf("%s/memory", m->dir);
	m->state_path = xasprintf("%s/state", m->dir);
	m->disk_path = xasprintf("%s/disk", m->dir);
	m->agent_path = xasprintf("%s/%s", m->run_dir, VMM_AGENT_SOCKET_NAME);
	m->vm = VMM_VM_INIT;
	m->deadline_boottime_ms = clock_boottime_ms() + m->core->limits.template_deadline_ms;
}

/* Takes back whatever there is, also after success, when only the name is left. */
static void making_clear(struct making *m)
{
	if (m->has_vm) {
		vmm_end(m->core->driver, &m->vm, "destroyed_by_user",
			clock_boottime_ms() + VM_END_DEADLINE_MS, NULL);
		vmm_release(&m->vm);
	}
	if (access(m->run_dir, F_OK) == 0)
		vmm_sweep(m->core->driver, m->name, m->run_dir, NULL);
	if (m->slot)
		slot_release(m->slot);
	tree_remove(m->dir);
	free(m->dir);
	free(m->run_dir);
	free(m->memory_path);
	free(m->state_path);
	free(m->disk_path);
	free(m->agent_path);
}

/* ---- files ---- */

static int make_sparse(const char *path, int64_t size_bytes, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, size_bytes) < 0)
		return err_set(err, -errno, "make '%s': %s", path, strerror(errno));
	return 0;
}

/* The guest's writable layer. The tables of inodes are left to the kernel's zero pages: the file is
 * sparse, what was never written reads as zeros. No blocks are reserved for root, because root is
 * nobody special in a sandbox. */
static int make_disk(const struct making *m, struct err *err)
{
	const char *argv[] = {
		"mke2fs", "-q",	  "-F",
		"-t",	  "ext4", "-m",
		"0",	  "-E",	  "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0",
		NULL,	  NULL
	};
	const struct spawn_spec spec = {
		.argv = argv,
		.stdin_fd = -1,
		.stdout_fd = -1,
		.stderr_fd = -1,
	};
	int r = make_sparse(m->disk_path, (int64_t)m->shape->disk_gb << 30, err);

	if (r < 0)
		return r;
	argv[9] = m->disk_path;
	return spawn_run(&spec, clock_boottime_ms() + MKFS_DEADLINE_MS, NULL, 0, NULL, NULL, err);
}

static int make_files(const struct making *m, struct err *err)
{
	int r = dir_make(m->run_dir, 0700);

	if (r < 0)
		return err_set(err, r, "make the directory '%s': %s", m->run_dir, strerror(-r));
	say(m, 12, "making a disk");
	r = make_disk(m, err);
	if (r == 0)
		r = make_sparse(m->memory_path, (int64_t)m->shape->memory_mb << 20, err);
	return r;
}

/* ---- the VM ---- */

static int take_slot(struct making *m, struct err *err)
{
	int r = m->core->net ? slot_take(m->core->net->slots, &m->slot, err) : 0;

	return r < 0 ? err_wrap(err, r, "take a network slot") : 0;
}

static int boot(struct making *m, struct err *err)
{
	const struct core_limits *limits = &m->core->limits;
	struct net_device device;
	uint32_t random;
	struct vmm_spec spec = {
		.name = m->name,
		.run_dir = m->run_dir,
		.vcpus = shape_vcpus(m->shape),
		.memory_mb = m->shape->memory_mb,
		.root_image_path = m->image->path,
		.disk_path = m->disk_path,
		.memory_path = m->memory_path,
		.memory_shared = true,
		.network = net_device_of(m->core, m->slot, &device),
		.expires_boottime_ms = m->deadline_boottime_ms,
	};
	int r;

	rand_bytes(&random, sizeof(random));
	spec.uid = (uid_t)(limits->sandbox_uid_base + limits->sandbox_uid_count +
			   random % UID_RESERVE);
	say(m, 20, "booting a VM of the image");
	r = vmm_start(m->core->driver, &spec, m->deadline_boottime_ms, &m->vm, err);
	m->has_vm = r == 0;
	return r;
}

static int wait_until_idle(const struct making *m, struct err *err)
{
	static const struct agent_identity none = { .apply = false };
	struct exec_defaults defaults;
	struct agent *agent;
	struct agent_info info;
	int r = agent_open(m->core->loop, m->agent_path, &none, m->deadline_boottime_ms, NULL, NULL,
			   &agent, &info, err);

	if (r < 0)
		return err_wrap(err, r, "the agent of the booted guest");
	say(m, 70, "running a first command");
	exec_defaults_init(&defaults, m->image->config);
	r = warm_up(m->core->loop, agent, defaults.user, err);
	exec_defaults_clear(&defaults);
	agent_close(agent); /* the saved guest has nobody on the other end of its channel */
	poll(NULL, 0, WARM_UP_SETTLE_MS);
	return r;
}

static int save(struct making *m, struct err *err)
{
	int r;

	say(m, 78, "saving the VM's state");
	r = vmm_save(m->core->driver, &m->vm, m->state_path, m->deadline_boottime_ms, err);
	if (r < 0)
		return r;
	r = vmm_end(m->core->driver, &m->vm, "destroyed_by_user",
		    clock_boottime_ms() + VM_END_DEADLINE_MS, err);
	if (r < 0)
		return r;
	vmm_release(&m->vm);
	m->has_vm = false;
	r = vmm_sweep(m->core->driver, m->name, m->run_dir, err);
	if (r < 0)
		return r;
	return tree_remove(m->run_dir);
}

/* ---- putting it in place ---- */

static int sync_file(const char *path, struct err *err)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fsync(fd) < 0)
		return err_set(err, -errno, "sync '%s': %s", path, strerror(errno));
	return 0;
}

static int install(const struct making *m, struct err *err)
{
	_cleanup_free_ char *parent = xasprintf("%s/templates", m->core->state_dir);
	_cleanup_free_ char *root_path = xasprintf("%s/root", m->dir);
	int r;

	say(m, 82, "checking and storing the template");
	r = sync_file(m->memory_path, err);
	if (r == 0)
		r = sync_file(m->disk_path, err);
	if (r == 0)
		r = template_keep_root(root_path, m->image, err);
	if (r == 0)
		r = template_write_manifest(m->dir, m->template,
					    vmm_driver_fingerprint(m->core->driver), err);
	if (r < 0)
		return r;
	dir_fsync(m->dir);
	abort_point("template.sealed");
	if (rename(m->dir, m->template->dir) < 0)
		return err_set(err, -errno, "put the template in place as '%s': %s",
			       m->template->dir, strerror(errno));
	dir_fsync(parent);
	abort_point("template.installed");
	return 0;
}

int template_make(struct core *core, const struct template *template,
		  const struct image_info *image, const struct shape *shape,
		  core_progress_fn progress, void *progress_arg, struct err *err)
{
	_cleanup_(making_clear) struct making m = {
		.core = core,
		.template = template,
		.image = image,
		.shape = shape,
		.progress = progress,
		.progress_arg = progress_arg,
	};
	int64_t began = clock_boottime_ms();
	int r;

	making_init(&m);
	log_info("making a template", "template=%s image=%s memory_mb=%u", template->key,
		 image->name, shape->memory_mb);
	r = make_files(&m, err);
	abort_point("template.files");
	if (r == 0)
		r = take_slot(&m, err);
	if (r == 0)
		r = boot(&m, err);
	abort_point("template.booting");
	if (r == 0)
		r = wait_until_idle(&m, err);
	abort_point("template.warm");
	if (r == 0)
		r = save(&m, err);
	abort_point("template.saved");
	if (r == 0)
		r = install(&m, err);
	if (r < 0)
		return r;
	log_info("template made", "template=%s duration_ms=%lld", template->key,
		 (long long)(clock_boottime_ms() - began));
	return 0;
}

void template_sweep_making(struct core *core)
{
	_cleanup_free_ char *path = xasprintf("%s/templates/making", core->state_dir);
	_cleanup_(closedirp) DIR *dir = opendir(path);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		_cleanup_free_ char *one = xasprintf("%s/%s", path, entry->d_name);
		_cleanup_free_ char *run = xasprintf("%s/run", one);
		struct err err = ERR_INIT;

		if (!str_starts(entry->d_name, NAME_PREFIX))
			continue;
		if (vmm_sweep(core->driver, entry->d_name, run, &err) < 0) {
			log_warn("left-over of a template cannot be ended", "name=%s error=\"%s\"",
				 entry->d_name, err.message);
			continue;
		}
		tree_remove(one);
		log_info("half-made template removed", "name=%s", entry->d_name);
	}
}
