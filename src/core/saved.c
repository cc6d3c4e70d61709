/*
 * A sandbox's state in a directory: the pages of its memory that differ from its template's, the
 * state of its devices, and (but for a pause, where it stays in place) a copy of its disk.
 *
 * To be saved, a sandbox is held (hold.c). A state saved so goes on, wherever it is restored, with
 * frozen commands until the agent has taken over an identity: so nothing of it runs with another's
 * entropy or clock.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "core/abort_point.h"
#include "core/internal.h"
#include "host/check.h"
#include "snapshot/compress.h"
#include "snapshot/delta.h"
#include "snapshot/seal.h"

#define VM_DEADLINE_MS	  60000
#define CAPTURE_BYTES_MAX ((uint64_t)1 << 30)
#define CAPTURE_SHARE	  4	     /* of the host's available memory */
#define DEVICES_BYTES_MAX (1u << 20) /* 17 KB were seen with QEMU 7.2 */

/* ---- writing ---- */

static char *template_file(const struct core *core, const char *key, const char *name)
{
	return xasprintf("%s/templates/%s/%s", core->state_dir, key, name);
}

static int check_savable(const struct sandbox_row *row, struct err *err)
{
	if (row->template_key[0])
		return 0;
	err_code(err, -ENOTSUP, "pause_failed",
		 "sandbox '%s' was made by an earlier version of Skerry, which kept no record of "
		 "what "
		 "its memory is based on",
		 row->id);
	err_hint(err, "create a new sandbox and move the work there");
	return -ENOTSUP;
}

/* A VMM and what it has of its template's memory; the pid stays its own. */
struct memory {
	pid_t pid;
	int pidfd;
	char *template_path;
	struct delta_capture
		*capture; /* the buffer to take it to; NULL: it is written from there */
};
#define MEMORY_INIT ((struct memory){ .pidfd = -1 })

static void memory_clear(struct memory *memory)
{
	delta_capture_free(memory->capture);
	if (memory->pidfd >= 0)
		close(memory->pidfd);
	free(memory->template_path);
}

static int memory_find(struct sandbox *sb, const struct sandbox_row *row, struct memory *ret,
		       struct err *err)
{
	int r = check_savable(row, err);

	if (r < 0)
		return r;
	ret->template_path = template_file(sb->core, row->template_key, "memory");
	return vmm_process(sb->core->driver, &sb->vm, &ret->pid, &ret->pidfd, err);
}

static int check_room(const struct memory *memory, const char *path, uint64_t reserve_bytes,
		      struct err *err)
{
	uint64_t written = 0;
	int r = delta_measure(memory->pid, memory->template_path, &written, err);

	return r < 0 ? r
		     : snapshot_space(path, delta_file_bytes_max(written) + DEVICES_BYTES_MAX,
				      reserve_bytes, err);
}

/* Nothing is fsynced here: sealing does that. */
static int write_devices(struct sandbox *sb, const char *path, struct err *err)
{
	_cleanup_free_ char *devices = xasprintf("%s/" SAVED_DEVICES, path);

	return vmm_save_devices(sb->core->driver, &sb->vm, devices, false,
				clock_boottime_ms() + VM_DEADLINE_MS, err);
}

/* What was taken before, or is in the process now. */
static int write_memory(struct sandbox *sb, const struct memory *memory, const char *path,
			bool durable, struct err *err)
{
	_cleanup_free_ char *delta = xasprintf("%s/" SAVED_MEMORY, path);
	const struct delta_options options = { .durable_soon = durable };
	struct delta_stats stats;
	int r;

	if (memory->capture)
		r = delta_capture_write(memory->capture, delta, &options, &stats, err);
	else
		r = delta_save(memory->pid, memory->template_path, delta, &options, &stats, err);
	if (r == 0)
		log_debug("memory saved", "sandbox=%s bytes=%llu duration_us=%lld", sb->id,
			  (unsigned long long)stats.file_bytes, (long long)stats.total_us);
	return r;
}

int saved_write(struct sandbox *sb, const struct sandbox_row *row, const char *path, bool durable,
		uint64_t reserve_bytes, struct err *err)
{
	_cleanup_(memory_clear) struct memory memory = MEMORY_INIT;
	int r = memory_find(sb, row, &memory, err);

	if (r == 0)
		r = check_room(&memory, path, reserve_bytes, err);
	if (r == 0)
		r = write_devices(sb, path, err);
	if (r == 0)
		r = write_memory(sb, &memory, path, durable, err);
	abort_point("saved.written");
	return r;
}

int saved_link(const char *from_dir, const char *to_dir, bool with_memory, struct err *err)
{
	const char *const names[] = { SAVED_DEVICES, SAVED_MEMORY };

	for (size_t i = 0; i < (with_memory ? 2 : 1); i++) {
		_cleanup_free_ char *from = xasprintf("%s/%s", from_dir, names[i]);
		_cleanup_free_ char *to = xasprintf("%s/%s", to_dir, names[i]);

		if (link(from, to) < 0)
			return err_set(err, -errno, "link '%s' to '%s': %s", from, to,
				       strerror(errno));
	}
	return 0;
}

/* A copy of its written memory is made while it stands still, and used while it goes on.
 * Where there is not the memory for that, or too much is written, it stands still for the writing
 * too. */
static void prepare_capture(struct sandbox *sb, struct memory *memory)
{
	int64_t available = host_available_mb() << 20;
	uint64_t most = CAPTURE_BYTES_MAX;
	struct err err = ERR_INIT;

	if (available > 0 && (uint64_t)available / CAPTURE_SHARE < most)
		most = (uint64_t)available / CAPTURE_SHARE;
	if (delta_capture_new(memory->pid, memory->template_path, most, &memory->capture, &err) < 0)
		log_debug("memory is written while its sandbox stands still",
			  "sandbox=%s because=\"%s\"", sb->id, err.message);
}

static int take_memory(struct sandbox *sb, struct memory *memory, const char *path, bool durable,
		       struct err *err)
{
	int r = memory->capture ? delta_capture_take(memory->capture, err) : -E2BIG;

	if (r != -E2BIG)
		return r;
	/* No buffer, or more than that was written just now. */
	delta_capture_free(STEAL(memory->capture));
	if (err)
		*err = ERR_INIT;
	return write_memory(sb, memory, path, durable, err);
}

/* When each part of the time that a source stands still was over, for who wants to know where it
 * goes. */
struct held_times {
	int64_t stopped_us, devices_us, memory_us, disk_us, gone_on_us;
};

static int take_held(struct sandbox *sb, struct memory *memory, const char *path, bool durable,
		     struct held_times *times, struct err *err)
{
	_cleanup_free_ char *disk = xasprintf("%s/" SAVED_DISK, path);
	int r;

	times->stopped_us = clock_boottime_us();
	r = write_devices(sb, path, err);
	times->devices_us = clock_boottime_us();
	if (r == 0)
		r = take_memory(sb, memory, path, durable, err);
	times->memory_us = clock_boottime_us();
	if (r == 0)
		r = start_copy_disk(sb->disk_path, disk, err);
	times->disk_us = clock_boottime_us();
	return r;
}

static int64_t say_held(const struct sandbox *sb, const struct held_times *times)
{
	int64_t held_us = times->gone_on_us - sb->held_boottime_us;

	log_debug("a source stood still",
		  "sandbox=%s duration_us=%lld stop_us=%lld devices_us=%lld memory_us=%lld "
		  "disk_us=%lld go_on_us=%lld",
		  sb->id, (long long)held_us, (long long)(times->stopped_us - sb->held_boottime_us),
		  (long long)(times->devices_us - times->stopped_us),
		  (long long)(times->memory_us - times->devices_us),
		  (long long)(times->disk_us - times->memory_us),
		  (long long)(times->gone_on_us - times->disk_us));
	return (held_us + 500) / 1000;
}

static int take_running(struct sandbox *sb, const struct sandbox_row *row, const char *path,
			bool durable, struct delta_capture **ret_capture, int64_t *ret_held_ms,
			struct err *err)
{
	uint64_t reserve = (uint64_t)sb->core->limits.host_free_disk_mb_min << 20;
	_cleanup_(memory_clear) struct memory memory = MEMORY_INIT;
	struct held_times times = { 0 };
	int r = memory_find(sb, row, &memory, err);

	if (r == 0)
		r = check_room(&memory, path, reserve, err);
	if (r < 0)
		return r;
	prepare_capture(sb, &memory);
	r = sandbox_hold(sb, err);
	if (r < 0)
		return r;
	r = take_held(sb, &memory, path, durable, &times, err);
	abort_point("saved.copied");
	sandbox_let_go(sb);
	times.gone_on_us = clock_boottime_us();
	*ret_held_ms = say_held(sb, &times);
	if (r < 0 || !memory.capture)
		return r;
	if (!ret_capture)
		return write_memory(sb, &memory, path, durable, err);
	*ret_capture = STEAL(memory.capture);
	return 0;
}

static int take_paused(struct sandbox *sb, const struct sandbox_row *row, const char *path,
		       struct err *err)
{
	_cleanup_free_ char *disk = xasprintf("%s/" SAVED_DISK, path);
	struct manifest manifest;
	char id[65];
	int r = check_savable(row, err);

	if (r < 0)
		return r;
	saved_pause_id(row, id);
	r = saved_check(sb->core, sb->pause_dir, id, row->template_key, &manifest, err);
	if (r == 0)
		r = saved_link(sb->pause_dir, path, true, err);
	return r < 0 ? r : start_copy_disk(sb->disk_path, disk, err);
}

int saved_take(struct sandbox *sb, const struct sandbox_row *row, const char *path, bool durable,
	       struct delta_capture **ret_capture, int64_t *ret_held_ms, struct err *err)
{
	*ret_held_ms = 0;
	if (sandbox_status(sb) == SANDBOX_PAUSED)
		return take_paused(sb, row, path, err);
	return take_running(sb, row, path, durable, ret_capture, ret_held_ms, err);
}

/* ---- what it is, and whether it still is ---- */

void saved_pause_id(const struct sandbox_row *row, char out[65])
{
	snprintf(out, 65, "%s.%llu", row->id, (unsigned long long)row->generation);
}

int saved_describe(const struct core *core, const struct sandbox_row *row, const char *id,
		   const char *kind, struct manifest *ret, struct err *err)
{
	_cleanup_free_ char *dir = xasprintf("%s/templates/%s", core->state_dir, row->template_key);
	const struct shape shape = { .milli_vcpus = row->milli_vcpus };
	int r;

	*ret = (struct manifest){
		.created_unix_ms = clock_unix_ms(),
		.vcpus = shape_vcpus(&shape),
		.memory_mb = row->memory_mb,
		.disk_gb = row->disk_gb,
	};
	str_copy(ret->id, sizeof(ret->id), id);
	str_copy(ret->kind, sizeof(ret->kind), kind);
	str_copy(ret->image_digest, sizeof(ret->image_digest), row->image_digest);
	if (!str_copy(ret->vmm_fingerprint, sizeof(ret->vmm_fingerprint),
		      vmm_driver_state_fingerprint(core->driver)))
		return err_set(err, -ENAMETOOLONG, "the VMM's fingerprint is too long");
	r = template_memory_identity(dir, row->template_key, &ret->base, err);
	return r;
}

static int damaged(struct err *err, const char *dir, const char *what)
{
	return err_code(err, -EBADMSG, "snapshot_damaged", "the saved state in '%s' %s", dir, what);
}

int saved_check(const struct core *core, const char *dir, const char *id, const char *template_key,
		struct manifest *ret, struct err *err)
{
	_cleanup_free_ char *template_dir =
		xasprintf("%s/templates/%s", core->state_dir, template_key);
	_cleanup_free_ char *memory_path = template_file(core, template_key, "memory");
	struct manifest_base base;
	int r = snapshot_open(dir, vmm_driver_state_fingerprint(core->driver), ret, err);

	if (r == 0 && id && !str_eq(ret->id, id))
		return damaged(err, dir, "belongs to something else");
	if (r == 0 && !str_eq(ret->base.key, template_key))
		return damaged(err, dir, "is a difference to another template's memory");
	if (r == 0)
		r = template_memory_identity(template_dir, template_key, &base, err);
	if (r == 0 && !str_eq(base.hash, ret->base.hash))
		return damaged(err, dir, "is a difference to a memory that was made anew since");
	if (r == 0)
		r = snapshot_check_base(ret, memory_path, err);
	if (r == 0 && !manifest_file(ret, SAVED_MEMORY))
		r = snapshot_expand(dir, SAVED_MEMORY, ret, err);
	if (r == 0)
		r = snapshot_verify_file(dir, ret, SAVED_DEVICES, err);
	return r;
}

/* ---- starting from it ---- */

void saved_start_init(struct saved_start *start, const struct sandbox *sb,
		      const struct sandbox_row *row, uint64_t generation)
{
	*start = (struct saved_start){
		.paths = {
			template_file(sb->core, row->template_key, "root"),
			template_file(sb->core, row->template_key, "memory"),
			xasprintf("%s/" SAVED_DEVICES, sb->pause_dir),
			xasprintf("%s/" SAVED_MEMORY, sb->pause_dir),
		},
	};
	start->from = (struct start_from){
		.row = row,
		.generation = generation,
		.root_path = start->paths[0],
		.memory_path = start->paths[1],
		.devices_path = start->paths[2],
		.delta_path = start->paths[3],
	};
}

void saved_start_clear(struct saved_start *start)
{
	for (size_t i = 0; i < ARRAY_SIZE(start->paths); i++)
		free(STEAL(start->paths[i]));
}
