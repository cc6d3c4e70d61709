/* Cleaning up after makers that were cut short, and asking for room before one begins. */
#include "snapshot/seal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#define PARTIAL	      ".partial-"
#define SUFFIX_DIGITS 16

DEFINE_CLEANUP(DIR *, closedirp, closedir);

bool snapshot_is_partial(const char *name)
{
	size_t len = strlen(name), tail = strlen(PARTIAL) + SUFFIX_DIGITS;

	return len > tail && str_starts(name + len - tail, PARTIAL) &&
	       strspn(name + len - SUFFIX_DIGITS, "0123456789abcdef") == SUFFIX_DIGITS;
}

/* Removes a draft unless its maker lives; 1 removed, 0 kept, -errno. */
static int sweep_draft(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? 0 : -errno;
	/* Sealed since the name was read: the path is gone, and nothing is removed by it. */
	r = tree_remove(path);
	return r < 0 ? r : 1;
}

/* Removes what a sealed snapshot's manifest does not list; how many, or -errno. */
static int sweep_snapshot(const char *path)
{
	_cleanup_(closedirp) DIR *dir = NULL;
	struct manifest manifest;
	struct dirent *entry;
	int n = 0;

	dir = opendir(path);
	if (!dir)
		return errno == ENOTDIR || errno == ENOENT ? 0 : -errno;
	/* Whoever changes a sealed snapshot holds its lock. */
	if (flock(dirfd(dir), LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK ? 0 : -errno;
	if (snapshot_open(path, NULL, &manifest, NULL) < 0)
		return 0;
	while ((entry = readdir(dir))) {
		const char *name = entry->d_name;

		if (str_eq(name, ".") || str_eq(name, "..") || str_eq(name, MANIFEST_NAME) ||
		    manifest_file(&manifest, name))
			continue;
		if (unlinkat(dirfd(dir), name, 0) < 0 && errno != ENOENT)
			return -errno;
		n++;
	}
	return n;
}

int snapshot_sweep(const char *parent, unsigned int *ret_removed, struct err *err)
{
	_cleanup_(closedirp) DIR *dir = opendir(parent);
	unsigned int removed = 0;
	struct dirent *entry;
	int first = 0;

	if (!dir)
		return err_set(err, -errno, "cannot read '%s': %s", parent, strerrordesc_np(errno));
	while ((entry = readdir(dir))) {
		_cleanup_free_ char *path = NULL;
		int r;

		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, ".."))
			continue;
		path = xasprintf("%s/%s", parent, entry->d_name);
		r = snapshot_is_partial(entry->d_name) ? sweep_draft(path) : sweep_snapshot(path);
		if (r < 0 && first == 0)
			first = err_set(err, r, "cannot clean up '%s': %s", path,
					strerrordesc_np(-r));
		if (r > 0)
			removed += (unsigned int)r;
	}
	if (ret_removed)
		*ret_removed = removed;
	return first;
}

int snapshot_space(const char *path, uint64_t bytes, uint64_t reserve_bytes, struct err *err)
{
	struct statvfs fs;
	uint64_t free_bytes;

	if (statvfs(path, &fs) < 0)
		return err_set(err, -errno, "cannot look at the file system of '%s': %s", path,
			       strerrordesc_np(errno));
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (reserve_bytes <= free_bytes && bytes <= free_bytes - reserve_bytes)
		return 0;
	err_code(err, -ENOSPC, "disk_full",
		 "there is no room in '%s': %" PRIu64 " MB are needed and %" PRIu64
		 " MB kept in reserve, %" PRIu64 " MB are free",
		 path, bytes >> 20, reserve_bytes >> 20, free_bytes >> 20);
	err_hint(err, "remove snapshots, paused sandboxes or images that are not needed");
	return -ENOSPC;
}
