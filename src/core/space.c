/*
 * What the state directory takes, by what it is for: templates, states of paused sandboxes, named
 * snapshots, disks.
 *
 * Three figures each. `apparent` is what the files claim (a disk of 10 GiB), `allocated` what they
 * hold, and `shared` how much of that other files hold too, because a fork or a snapshot shares
 * blocks with its source (reflink); that the file system tells by FIEMAP. So the sum of allocated
 * is more than what deleting would free. A file with several names (an image that a template keeps)
 * counts once.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/str.h"
#include "core/internal.h"

#define EXTENTS_A_CALL 256
#define CALLS_MAX      4096 /* a file: a million extents, a quarter of a second each 100,000 */
#define DEPTH_MAX      8

DEFINE_CLEANUP(DIR *, closedirp, closedir);

enum space_kind { SPACE_TEMPLATES, SPACE_PAUSED, SPACE_SNAPSHOTS, SPACE_DISKS, SPACE_OTHER };

static const char *const kind_names[] = {
	[SPACE_TEMPLATES] = "templates", [SPACE_PAUSED] = "paused", [SPACE_SNAPSHOTS] = "snapshots",
	[SPACE_DISKS] = "disks",	 [SPACE_OTHER] = "other",
};

struct inode {
	dev_t dev;
	ino_t ino;
};

struct space {
	struct {
		int64_t files, apparent, allocated, shared;
	} sums[ARRAY_SIZE(kind_names)];
	bool shared_known;  /* of every file that has blocks */
	struct inode *seen; /* of those with several names */
	size_t n_seen;
};

/* ---- one file ---- */

/* Bytes whose blocks belong to other files too; -1: the file system does not tell. */
static int64_t shared_bytes(int fd)
{
	_cleanup_free_ struct fiemap *map =
		xcalloc(1, sizeof(*map) + EXTENTS_A_CALL * sizeof(struct fiemap_extent));
	int64_t shared = 0;
	uint64_t at = 0;

	for (int call = 0; call < CALLS_MAX; call++) {
		*map = (struct fiemap){
			.fm_start = at,
			.fm_length = FIEMAP_MAX_OFFSET - at,
			.fm_extent_count = EXTENTS_A_CALL,
		};
		if (ioctl(fd, FS_IOC_FIEMAP, map) < 0)
			return -1;
		if (map->fm_mapped_extents == 0)
			return shared;
		for (uint32_t i = 0; i < map->fm_mapped_extents; i++) {
			const struct fiemap_extent *extent = &map->fm_extents[i];

			if (extent->fe_flags & FIEMAP_EXTENT_SHARED)
				shared += (int64_t)extent->fe_length;
			if (extent->fe_flags & FIEMAP_EXTENT_LAST)
				return shared;
			at = extent->fe_logical + extent->fe_length;
		}
	}
	return -1;
}

/* True for the first name only. */
static bool is_first_name(struct space *space, const struct stat *st)
{
	if (st->st_nlink < 2)
		return true;
	for (size_t i = 0; i < space->n_seen; i++) {
		if (space->seen[i].dev == st->st_dev && space->seen[i].ino == st->st_ino)
			return false;
	}
	space->seen = xrealloc(space->seen, (space->n_seen + 1) * sizeof(*space->seen));
	space->seen[space->n_seen++] = (struct inode){ st->st_dev, st->st_ino };
	return true;
}

static void add_file(struct space *space, enum space_kind kind, int dir_fd, const char *name,
		     const struct stat *st)
{
	_cleanup_close_ int fd = -1;
	int64_t shared;

	if (!S_ISREG(st->st_mode) || !is_first_name(space, st))
		return;
	space->sums[kind].files++;
	space->sums[kind].apparent += st->st_size;
	space->sums[kind].allocated += st->st_blocks * INT64_C(512);
	if (st->st_blocks == 0)
		return;
	fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	shared = fd < 0 ? -1 : shared_bytes(fd);
	if (shared < 0)
		space->shared_known = false;
	else
		space->sums[kind].shared += shared;
}

/* ---- trees ---- */

static DIR *dir_at(int parent_fd, const char *name)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (fd >= 0 && !dir)
		close(fd);
	return dir;
}

/* What a name in a sandbox's own directory is for. */
static enum space_kind kind_in_sandbox(const char *name)
{
	if (str_starts(name, "disk"))
		return SPACE_DISKS;
	return str_starts(name, "pause") ? SPACE_PAUSED : SPACE_OTHER;
}

static void add_tree(struct space *space, enum space_kind kind, int parent_fd, const char *name,
		     int depth);

static void add_entry(struct space *space, enum space_kind kind, int dir_fd, const char *name,
		      int depth)
{
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (S_ISDIR(st.st_mode))
		add_tree(space, kind, dir_fd, name, depth);
	else
		add_file(space, kind, dir_fd, name, &st);
}

/* Of a name in STATE/sandboxes the kind is found one level below. */
static void add_sandbox(struct space *space, int parent_fd, const char *name)
{
	_cleanup_(closedirp) DIR *dir = dir_at(parent_fd, name);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
			add_entry(space, kind_in_sandbox(entry->d_name), dirfd(dir), entry->d_name,
				  0);
	}
}

static void add_tree(struct space *space, enum space_kind kind, int parent_fd, const char *name,
		     int depth)
{
	_cleanup_(closedirp) DIR *dir = depth > DEPTH_MAX ? NULL : dir_at(parent_fd, name);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (!str_eq(entry->d_name, ".") && !str_eq(entry->d_name, ".."))
			add_entry(space, kind, dirfd(dir), entry->d_name, depth + 1);
	}
}

static void add_sandboxes(struct space *space, int state_fd)
{
	_cleanup_(closedirp) DIR *dir = dir_at(state_fd, "sandboxes");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		if (sandbox_id_valid(entry->d_name))
			add_sandbox(space, dirfd(dir), entry->d_name);
	}
}

/* ---- the report ---- */

static json_t *file_system_json(const char *state_dir)
{
	json_t *json = json_object();
	struct statvfs fs;

	if (statvfs(state_dir, &fs) == 0) {
		json_put_int(json, "size_bytes", (int64_t)(fs.f_blocks * fs.f_frsize));
		json_put_int(json, "free_bytes", (int64_t)(fs.f_bavail * fs.f_frsize));
	}
	json_put(json, "reflink", json_boolean(dir_has_reflink(state_dir)));
	return json;
}

json_t *space_report(const char *state_dir)
{
	_cleanup_close_ int fd = open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct space space = { .shared_known = true };
	json_t *report = json_object(), *items = json_array();

	add_tree(&space, SPACE_TEMPLATES, fd, "templates", 0);
	add_tree(&space, SPACE_SNAPSHOTS, fd, "snapshots", 0);
	add_tree(&space, SPACE_OTHER, fd, "forks", 0);
	add_sandboxes(&space, fd);
	for (size_t i = 0; i < ARRAY_SIZE(kind_names); i++) {
		json_t *item = json_object();

		json_put_str(item, "name", kind_names[i]);
		json_put_int(item, "files", space.sums[i].files);
		json_put_int(item, "apparent_bytes", space.sums[i].apparent);
		json_put_int(item, "allocated_bytes", space.sums[i].allocated);
		json_put(item, "shared_bytes",
			 space.shared_known ? json_integer(space.sums[i].shared) : json_null());
		json_array_append_new(items, item);
	}
	free(space.seen);
	json_put(report, "items", items);
	json_put(report, "file_system", file_system_json(state_dir));
	return report;
}
