/* A core over the real driver. See core_rig.h. */
#include "core_rig.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"

DEFINE_CLEANUP(DIR *, closedirp, closedir);

static void must(int r, const struct err *err, const char *what)
{
	if (r >= 0)
		return;
	fprintf(stderr, "%s: %s (%d) %s\n", what, err->message, r, err->hint);
	abort();
}

static const char *env_path(const char *name)
{
	const char *value = getenv(name);

	if (!value) {
		fprintf(stderr, "%s is not set\n", name);
		abort();
	}
	return value;
}

int64_t rig_patience_ms(int64_t ms)
{
	const char *factor = getenv("SKERRY_TEST_PATIENCE");

	return factor ? ms * strtol(factor, NULL, 10) : ms;
}

/* ---- the rig ---- */

static const char script[] =
	"#!/bin/sh\n"
	"set -e\n"
	"source=$(cat \"$(dirname \"$0\")/source\")\n"
	"if [ \"$1\" = --key ]; then stat -c '%s %Y' \"$source\" | sha256sum | cut -d ' ' -f 1; "
	"exit; fi\n"
	"cp --sparse=always \"$source\" \"$2\"\n"
	"echo '{\"user\": \"sandbox\", \"workdir\": \"/home/sandbox\","
	" \"env\": {\"IMAGE_WORD\": \"of the image\", \"OTHER\": \"1\"}}' >\"$2.json\"\n"
	"echo \"digest sha256:$(sha256sum <\"$2\" | cut -d ' ' -f 1)\"\n";

static void write_recipes(const struct rig *rig)
{
	_cleanup_free_ char *dir = xasprintf("%s/recipes", rig->dir);
	_cleanup_free_ char *program = xasprintf("%s/build-root", dir);
	_cleanup_free_ char *recipe = xasprintf("%s/base.recipe", dir);
	_cleanup_free_ char *source = xasprintf("%s/source", dir);
	_cleanup_free_ char *image = xasprintf("%s/base.erofs", env_path("SKERRY_IMAGE_DIR"));
	struct err err = ERR_INIT;

	must(dir_make(dir, 0700), &err, "make the recipes' directory");
	must(file_write_durable(program, script, strlen(script), 0755), &err, "write build-root");
	must(file_write_durable(recipe, "x", 1, 0644), &err, "write the recipe");
	must(file_write_durable(source, image, strlen(image), 0644), &err, "write the source");
}

static void set_limits(struct rig *rig)
{
	core_limits_init(&rig->limits);
	core_limits_set(&rig->limits, "size.small", "1 256 10", NULL);
	core_limits_set(&rig->limits, "host_free_disk_mb_min", "200", NULL);
}

void rig_for_dir(struct rig *rig, const char *dir)
{
	*rig = (struct rig){ 0 };
	str_copy(rig->dir, sizeof(rig->dir), dir);
	/* The same for every process of a directory, another for every directory. */
	snprintf(rig->cgroup, sizeof(rig->cgroup), "skerry-test%s", strrchr(dir, '-'));
	set_limits(rig);
}

void rig_open(struct rig *rig)
{
	_cleanup_free_ char *state = xasprintf("%s/state", rig->dir);
	_cleanup_free_ char *images = xasprintf("%s/images", rig->dir);
	_cleanup_free_ char *recipes = xasprintf("%s/recipes", rig->dir);
	_cleanup_free_ char *key_path = xasprintf("%s/admin.key", state);
	_cleanup_buf_ struct buf key = BUF_INIT;
	const struct vmm_config vmm = {
		.warden_path = env_path("SKERRY_TEST_WARDEN"),
		.qemu_path = "/usr/bin/qemu-system-x86_64",
		.qemu_kvm_path = "/usr/bin/qemu-system-x86_64-microvm",
		.kernel_path = env_path("SKERRY_TEST_KERNEL"),
		.initramfs_path = env_path("SKERRY_TEST_INITRAMFS"),
		.lib_dir = env_path("SKERRY_TEST_LIB_DIR"),
		.cache_dir = rig->dir,
		.accel = getenv("SKERRY_TEST_ACCEL") ?: "tcg",
		.cgroup_name = rig->cgroup,
	};
	struct core_config config = { .state_dir = state, .limits = rig->limits };
	struct err err = ERR_INIT;

	must(loop_new(&rig->loop, &err), &err, "loop");
	must(loop_start(rig->loop, "loop", &err), &err, "loop");
	must(pool_new(16, 256, &rig->pool, &err), &err, "pool");
	must(vmm_qemu_new(&vmm, &rig->driver, &err), &err, "driver");
	must(image_store_new(images, recipes, &rig->images, &err), &err, "images");
	config.loop = rig->loop;
	config.pool = rig->pool;
	config.driver = rig->driver;
	config.images = rig->images;
	must(core_new(&config, &rig->core, &err), &err, "core");
	must(core_recover(rig->core, &err), &err, "recover");
	must(file_read(key_path, 100, &key), &err, "admin.key");
	must(core_authenticate(rig->core, key.data, key.len - 1, &rig->admin, &err), &err, "key");
}

void rig_close(struct rig *rig)
{
	principal_clear(&rig->admin);
	core_free(STEAL(rig->core), 5000);
	pool_free(STEAL(rig->pool));
	loop_free(STEAL(rig->loop));
	vmm_driver_free(STEAL(rig->driver));
	image_store_free(STEAL(rig->images));
}

void rig_make(struct rig *rig)
{
	const char *base = getenv("TMPDIR");
	char dir[128];
	struct image_info image;
	struct err err = ERR_INIT;
	int64_t began = clock_boottime_ms();

	snprintf(dir, sizeof(dir), "%s/skerry-core-XXXXXX", base ? base : "/tmp");
	if (!mkdtemp(dir))
		abort();
	rig_for_dir(rig, dir);
	write_recipes(rig);
	rig_open(rig);
	must(core_image_build(rig->core, &rig->admin, "base", false, NULL, NULL, &image, &err),
	     &err, "image and template");
	print_message("image and template: %lld ms\n", (long long)(clock_boottime_ms() - began));
}

static size_t count_entries(const char *path)
{
	_cleanup_(closedirp) DIR *dir = opendir(path);
	const struct dirent *entry;
	size_t n = 0;

	while (dir && (entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	return n;
}

void rig_remove(struct rig *rig)
{
	_cleanup_free_ char *sandboxes = xasprintf("%s/state/sandboxes", rig->dir);
	_cleanup_free_ char *making = xasprintf("%s/state/templates/making", rig->dir);

	rig_close(rig);
	assert_int_equal(count_entries(sandboxes), 0);
	assert_int_equal(count_entries(making), 0);
	assert_int_equal(tree_remove(rig->dir), 0);
}

/* ---- sandboxes ---- */

int rig_try_create(struct rig *rig, const struct core_create_request *more,
		   char id[SANDBOX_ID_SIZE], struct err *err)
{
	struct core_create_request req = more ? *more : (struct core_create_request){ 0 };
	struct sandbox_info info;
	int r = core_create(rig->core, &rig->admin, &req, NULL, NULL, &info, err);

	if (r < 0)
		return r;
	str_copy(id, SANDBOX_ID_SIZE, info.id);
	sandbox_info_clear(&info);
	return 0;
}

void rig_create(struct rig *rig, const struct core_create_request *more, char id[SANDBOX_ID_SIZE])
{
	struct err err = ERR_INIT;
	int r = rig_try_create(rig, more, id, &err);

	if (r < 0)
		fail_msg("create: %s", err.message);
}

void rig_destroy(struct rig *rig, const char *id)
{
	struct sandbox_info info;
	struct err err = ERR_INIT;

	if (core_destroy(rig->core, &rig->admin, id, &info, &err) < 0)
		fail_msg("destroy: %s", err.message);
	assert_int_equal(info.status, SANDBOX_DESTROYED);
	sandbox_info_clear(&info);
}

void rig_get(struct rig *rig, const char *id, struct sandbox_info *ret)
{
	struct err err = ERR_INIT;

	if (core_get(rig->core, &rig->admin, id, ret, &err) < 0)
		fail_msg("get: %s", err.message);
}

void rig_read_record(struct rig *rig, const char *id, struct record *ret)
{
	_cleanup_free_ char *path = xasprintf("%s/state/sandboxes/%s/run/record", rig->dir, id);
	struct err err = ERR_INIT;

	if (record_read(path, ret, &err) < 0)
		fail_msg("record: %s", err.message);
}

void rig_set_deadline(struct rig *rig, const char *id, int64_t in_ms)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(rig->core, id, NULL);
	struct err err = ERR_INIT;

	assert_non_null(sb);
	pthread_mutex_lock(&sb->op_lock);
	if (vmm_extend(rig->driver, &sb->vm, clock_boottime_ms() + in_ms,
		       clock_boottime_ms() + 5000, &err) < 0)
		fail_msg("deadline: %s", err.message);
	sb->expires_boottime_ms = clock_boottime_ms() + in_ms;
	pthread_mutex_unlock(&sb->op_lock);
}

void rig_wait_ended(struct rig *rig, const char *id, int64_t timeout_ms, struct sandbox_info *ret)
{
	int64_t deadline = clock_boottime_ms() + rig_patience_ms(timeout_ms);

	for (;;) {
		rig_get(rig, id, ret);
		if (sandbox_status_ended(ret->status))
			return;
		sandbox_info_clear(ret);
		if (clock_boottime_ms() > deadline)
			fail_msg("sandbox %s did not end within %lld ms", id,
				 (long long)timeout_ms);
		poll(NULL, 0, 20);
	}
}

/* One whose parent was a daemon that was killed is reaped by init, when init gets round to it. */
static void assert_process_gone(pid_t pid, uint64_t start_ticks)
{
	int64_t deadline = clock_boottime_ms() + 5000;
	uint64_t ticks;

	while (pid > 0 && record_process_start(pid, &ticks) == 0 && ticks == start_ticks) {
		if (clock_boottime_ms() > deadline)
			fail_msg("process %d is still there", (int)pid);
		poll(NULL, 0, 20);
	}
}

/* Every hierarchy: of v1 one a controller, of v2 the only one. */
static void assert_no_cgroup(const struct rig *rig, const char *id)
{
	_cleanup_(closedirp) DIR *dir = opendir("/sys/fs/cgroup");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		_cleanup_free_ char *path = NULL;

		if (entry->d_name[0] == '.' && entry->d_name[1])
			continue;
		path = xasprintf("/sys/fs/cgroup/%s/%s/%s", entry->d_name, rig->cgroup, id);
		assert_int_equal(access(path, F_OK), -1);
	}
}

void rig_assert_no_residue(struct rig *rig, const char *id, const struct record *record)
{
	_cleanup_free_ char *dir = xasprintf("%s/state/sandboxes/%s", rig->dir, id);
	_cleanup_buf_ struct buf mounts = BUF_INIT;
	int64_t deadline = clock_boottime_ms() + 5000;

	/* Of one that ends by itself the files go a moment after the tombstone was written. */
	while (access(dir, F_OK) == 0 && clock_boottime_ms() < deadline)
		poll(NULL, 0, 20);
	assert_int_equal(access(dir, F_OK), -1);
	assert_int_equal(file_read("/proc/self/mountinfo", 1 << 24, &mounts), 0);
	assert_null(strstr(mounts.data, id));
	assert_no_cgroup(rig, id);
	if (record) {
		assert_process_gone(record->warden_pid, record->warden_start_ticks);
		assert_process_gone(record->vmm_pid, record->vmm_start_ticks);
	}
}

/* ---- commands ---- */

void answer_init(struct answer *a)
{
	*a = (struct answer){ 0 };
	pthread_mutex_init(&a->lock, NULL);
	pthread_cond_init(&a->changed, NULL);
}

void answer_clear(struct answer *a)
{
	buf_clear(&a->result.out);
	buf_clear(&a->result.err);
	pthread_cond_destroy(&a->changed);
	pthread_mutex_destroy(&a->lock);
}

static void on_done(void *arg, struct core_exec_result *result, const struct err *err)
{
	struct answer *a = arg;

	pthread_mutex_lock(&a->lock);
	assert_false(a->done);
	a->done = true;
	a->failed = err != NULL;
	if (err) {
		a->err = *err;
	} else {
		a->result = *result;
		result->out = result->err = BUF_INIT;
	}
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

int answer_exec(struct answer *a, struct rig *rig, const char *id,
		const struct core_exec_request *req, struct err *err)
{
	struct core_exec_request full = *req;

	full.command_len = strlen(req->command);
	return core_exec(rig->core, &rig->admin, id, &full, on_done, a, &a->call, err);
}

int answer_wait_for(struct answer *a, struct rig *rig, const char *id, const char *exec_id,
		    int64_t wait_ms, uint64_t from, struct err *err)
{
	return core_exec_wait(rig->core, &rig->admin, id, exec_id, wait_ms, from, 0, 0, on_done, a,
			      &a->call, err);
}

void answer_get(struct answer *a, int64_t timeout_ms)
{
	int64_t deadline = clock_boottime_ms() + rig_patience_ms(timeout_ms);
	bool done;

	for (;;) {
		pthread_mutex_lock(&a->lock);
		done = a->done;
		pthread_mutex_unlock(&a->lock);
		if (done)
			return;
		if (clock_boottime_ms() > deadline)
			fail_msg("no answer within %lld ms", (long long)timeout_ms);
		poll(NULL, 0, 2);
	}
}

void rig_run(struct rig *rig, const char *id, const struct core_exec_request *req, struct answer *a)
{
	struct err err = ERR_INIT;

	answer_init(a);
	if (answer_exec(a, rig, id, req, &err) < 0)
		fail_msg("exec: %s", err.message);
	answer_get(a, 90000);
}

void rig_expect(struct rig *rig, const char *id, const char *command, const char *output)
{
	struct answer a;

	rig_run(rig, id, &(struct core_exec_request){ .command = command, .wait_ms = -1 }, &a);
	if (a.failed)
		fail_msg("exec '%s': %s", command, a.err.message);
	if (a.result.exit_code != 0)
		fail_msg("exec '%s' ended with %d: %s", command, a.result.exit_code,
			 buf_str(&a.result.err));
	if (output)
		assert_string_equal(buf_str(&a.result.out), output);
	answer_clear(&a);
}
