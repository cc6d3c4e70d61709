/*
 * Control groups by their files. Mount points come from /proc/self/mounts: distributions differ.
 */
#include "warden/cgroup.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

#define CPU_PERIOD_US  100000u /* the kernel's default */
#define CREATE_TRIES   5
#define MOUNT_LINE_MAX 8192

static const char *const controller_names[CGROUP_CONTROLLERS] = {
	[CGROUP_CPU] = "cpu",
	[CGROUP_MEMORY] = "memory",
	[CGROUP_PIDS] = "pids",
};

bool cgroup_name_valid(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len > 64 || name[0] == '.')
		return false;
	return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-") ==
	       len;
}

/* ---- finding the hierarchies ---- */

/* Is word one of the blank-separated words of text? */
static bool has_word(const char *text, const char *word)
{
	size_t len = strlen(word);

	for (const char *p = strstr(text, word); p; p = strstr(p + 1, word))
		if ((p == text || isspace((unsigned char)p[-1])) &&
		    (p[len] == '\0' || isspace((unsigned char)p[len])))
			return true;
	return false;
}

static bool unified_has_all(const char *mount_point)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	char path[320];

	if ((size_t)snprintf(path, sizeof(path), "%s/cgroup.controllers", mount_point) >=
		    sizeof(path) ||
	    file_read(path, 4096, &text) < 0)
		return false;
	for (int i = 0; i < CGROUP_CONTROLLERS; i++)
		if (!has_word(buf_str(&text), controller_names[i]))
			return false;
	return true;
}

static void take_mount(struct cgroup *group, const struct mntent *mount,
		       char roots[CGROUP_CONTROLLERS][256])
{
	if (str_eq(mount->mnt_type, "cgroup2") && unified_has_all(mount->mnt_dir)) {
		group->unified = true;
		for (int i = 0; i < CGROUP_CONTROLLERS; i++)
			str_copy(roots[i], sizeof(roots[i]), mount->mnt_dir);
	}
	if (!str_eq(mount->mnt_type, "cgroup") || group->unified)
		return;
	for (int i = 0; i < CGROUP_CONTROLLERS; i++)
		if (!roots[i][0] && hasmntopt(mount, controller_names[i]))
			str_copy(roots[i], sizeof(roots[i]), mount->mnt_dir);
}

int cgroup_find(const char *parent, const char *name, struct cgroup *ret, struct err *err)
{
	char roots[CGROUP_CONTROLLERS][256] = { 0 };
	struct cgroup group = { 0 };
	struct mntent mount;
	char line[MOUNT_LINE_MAX];
	FILE *mounts;

	if (!cgroup_name_valid(parent) || !cgroup_name_valid(name))
		return err_set(err, -EINVAL, "'%s/%s' cannot name a control group", parent, name);
	mounts = setmntent("/proc/self/mounts", "re");
	if (!mounts)
		return err_set(err, -errno, "cannot read /proc/self/mounts");
	/* Reentrant: the daemon ends many machines at once. */
	while (getmntent_r(mounts, &mount, line, sizeof(line)))
		take_mount(&group, &mount, roots);
	endmntent(mounts);

	for (int i = 0; i < CGROUP_CONTROLLERS; i++) {
		int n;

		if (!roots[i][0]) {
			err_set(err, -ENOTSUP, "the host has no '%s' control group controller",
				controller_names[i]);
			err_hint(err, "mount cgroup2 (or the version 1 hierarchies) with the "
				      "cpu, memory and pids controllers");
			return -ENOTSUP;
		}
		n = snprintf(group.parent[i], sizeof(group.parent[i]), "%s/%s", roots[i], parent);
		if ((size_t)n >= sizeof(group.parent[i]))
			return err_set(err, -ENAMETOOLONG, "the control group's path is too long");
		snprintf(group.dir[i], sizeof(group.dir[i]), "%s/%s", group.parent[i], name);
	}
	*ret = group;
	return 0;
}

/* ---- writing the files ---- */

static int write_file(const char *dir, const char *file, const char *value, struct err *err)
{
	_cleanup_close_ int fd = -1;
	char path[400];
	int r;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	r = fd < 0 ? -errno : fd_write_all(fd, value, strlen(value));
	if (r < 0)
		return err_set(err, r, "cannot write '%s' to '%s': %s", value, path,
			       strerrordesc_np(-r));
	return 0;
}

static int write_u64(const char *dir, const char *file, uint64_t value, struct err *err)
{
	char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return write_file(dir, file, text, err);
}

static int make_dir(const char *path, bool may_exist, struct err *err)
{
	if (mkdir(path, 0755) == 0 || (errno == EEXIST && may_exist))
		return 0;
	return err_set(err, -errno, "cannot make the control group '%s': %s", path,
		       strerrordesc_np(errno));
}

/* Version 2: controllers reach a group only where each group above hands them down. */
static int hand_down(const struct cgroup *group, struct err *err)
{
	const char *all = "+cpu +memory +pids";
	const char *parent = group->parent[CGROUP_CPU];
	char root[256];
	int r;

	str_copy(root, sizeof(root), parent);
	*strrchr(root, '/') = '\0';
	r = write_file(root, "cgroup.subtree_control", all, err);
	return r < 0 ? r : write_file(parent, "cgroup.subtree_control", all, err);
}

static int make_one(const struct cgroup *group, int i, struct err *err)
{
	int r = make_dir(group->parent[i], true, err);

	if (r == 0 && group->unified)
		r = hand_down(group, err);
	return r < 0 ? r : make_dir(group->dir[i], false, err);
}

int cgroup_create(const struct cgroup *group, struct err *err)
{
	int r = 0;

	for (int i = 0; i < (group->unified ? 1 : CGROUP_CONTROLLERS) && r == 0; i++) {
		/* -ENOENT: somebody else removed the empty parent in between. */
		for (int tries = 0; tries < CREATE_TRIES; tries++) {
			r = make_one(group, i, err);
			if (r != -ENOENT)
				break;
		}
	}
	if (r < 0)
		cgroup_remove(group, 0, NULL);
	return r;
}

int cgroup_limit_memory(const struct cgroup *group, uint64_t bytes, struct err *err)
{
	const char *dir = group->dir[CGROUP_MEMORY];
	int r;

	if (group->unified) {
		r = write_u64(dir, "memory.max", bytes, err);
		/* Swap is optional in a kernel; where it is, the limit must not be evaded by it. */
		write_u64(dir, "memory.swap.max", bytes, NULL);
		write_u64(dir, "memory.oom.group", 1, NULL);
		return r;
	}
	r = write_u64(dir, "memory.limit_in_bytes", bytes, err);
	write_u64(dir, "memory.memsw.limit_in_bytes", bytes, NULL);
	return r;
}

int cgroup_limit_pids(const struct cgroup *group, uint64_t count, struct err *err)
{
	return write_u64(group->dir[CGROUP_PIDS], "pids.max", count, err);
}

int cgroup_limit_cpu(const struct cgroup *group, unsigned int percent_of_one, struct err *err)
{
	const char *dir = group->dir[CGROUP_CPU];
	unsigned int quota_us = percent_of_one * (CPU_PERIOD_US / 100);
	char text[64];
	int r;

	if (group->unified) {
		snprintf(text, sizeof(text), "%u %u", quota_us, CPU_PERIOD_US);
		return write_file(dir, "cpu.max", text, err);
	}
	r = write_u64(dir, "cpu.cfs_period_us", CPU_PERIOD_US, err);
	return r < 0 ? r : write_u64(dir, "cpu.cfs_quota_us", quota_us, err);
}

int cgroup_add(const struct cgroup *group, pid_t pid, struct err *err)
{
	int r = 0;

	for (int i = 0; i < (group->unified ? 1 : CGROUP_CONTROLLERS) && r == 0; i++)
		r = write_u64(group->dir[i], "cgroup.procs", (uint64_t)pid, err);
	return r;
}

int64_t cgroup_oom_kills(const struct cgroup *group)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	char path[400];
	const char *line;
	int64_t kills;
	char *end;

	snprintf(path, sizeof(path), "%s/%s", group->dir[CGROUP_MEMORY],
		 group->unified ? "memory.events" : "memory.oom_control");
	if (file_read(path, 4096, &text) < 0)
		return 0;
	line = strstr(buf_str(&text), "\noom_kill ");
	if (!line)
		return 0;
	line += strlen("\noom_kill ");
	end = strchrnul(line, '\n');
	*end = '\0';
	return str_to_i64(line, &kills) < 0 ? 0 : kills;
}

/* A group whose last process is a zombie, or still on its way out, is busy for a moment. */
static int remove_dir(const char *dir, int64_t deadline_ms)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	while (rmdir(dir) < 0) {
		if (errno == ENOENT)
			return 0;
		if (errno != EBUSY || clock_boottime_ms() >= deadline_ms)
			return -errno;
		nanosleep(&pause, NULL);
	}
	return 0;
}

int cgroup_remove(const struct cgroup *group, int wait_ms, struct err *err)
{
	int64_t deadline_ms = clock_boottime_ms() + wait_ms;
	int result = 0;

	for (int i = 0; i < (group->unified ? 1 : CGROUP_CONTROLLERS); i++) {
		int r = remove_dir(group->dir[i], deadline_ms);

		if (r < 0)
			result = err_set(err, r, "cannot remove the control group '%s': %s",
					 group->dir[i], strerrordesc_np(-r));
	}
	return result;
}

void cgroup_remove_parent(const struct cgroup *group)
{
	for (int i = 0; i < (group->unified ? 1 : CGROUP_CONTROLLERS); i++)
		rmdir(group->parent[i]);
}
