/* Control groups of the execs. See cgroup.h. */
#include "guest/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "skerry/guest_proto.h"

#define ROOT	    "/sys/fs/cgroup"
#define NAME_SIZE   (sizeof("exec-") + PROTO_EXEC_ID_MAX)
#define NESTING_MAX 8 /* depth of groups made inside an exec that we clean up after */

static int write_file(int dir_fd, const char *name, const char *value)
{
	_cleanup_close_ int fd = openat(dir_fd, name, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return write(fd, value, strlen(value)) < 0 ? -errno : 0;
}

static void set_limit(int dir_fd, const char *name, uint64_t value)
{
	char text[32];
	int r;

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	r = write_file(dir_fd, name, text);
	if (r < 0)
		log_error("cannot set a limit of the commands", "file=%s errno=%d", name, -r);
}

static void enable_controllers(int dir_fd)
{
	static const char *const controllers[] = { "+memory", "+pids", "+cpu" };

	/* One by one: a kernel without one of them still gives the others. */
	for (size_t i = 0; i < ARRAY_SIZE(controllers); i++) {
		int r = write_file(dir_fd, "cgroup.subtree_control", controllers[i]);

		if (r < 0)
			log_warn("cgroup controller is not there", "controller=%s errno=%d",
				 controllers[i] + 1, -r);
	}
}

int cgroup_setup(uint64_t mem_total_kib)
{
	_cleanup_close_ int root = open(ROOT, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* What the kernel and the agent keep for themselves. */
	uint64_t reserve_kib = 32 * 1024 + mem_total_kib / 16;
	uint64_t pids = mem_total_kib / 1024 * 2;
	int fd;

	if (root < 0)
		return -errno;
	enable_controllers(root);
	if (mkdirat(root, "skerry", 0755) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(root, "skerry", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	enable_controllers(fd);
	if (mem_total_kib > 2 * reserve_kib)
		set_limit(fd, "memory.max", (mem_total_kib - reserve_kib) * 1024);
	/* A process costs some 200 KiB of kernel memory at least, all of which is charged. */
	set_limit(fd, "pids.max", pids < 512 ? 512 : pids > 16384 ? 16384 : pids);
	return fd;
}

static void group_name(char out[NAME_SIZE], const char *exec_id)
{
	snprintf(out, NAME_SIZE, "exec-%s", exec_id);
}

int cgroup_make(int parent_fd, const char *exec_id)
{
	char name[NAME_SIZE];
	int fd;

	group_name(name, exec_id);
	if (mkdirat(parent_fd, name, 0755) < 0)
		return -errno;
	fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		int r = -errno;

		unlinkat(parent_fd, name, AT_REMOVEDIR);
		return r;
	}
	return fd;
}

void cgroup_kill(int group_fd)
{
	int r = write_file(group_fd, "cgroup.kill", "1");

	if (r < 0)
		log_error("cannot kill a command's processes", "errno=%d", -r);
}

void cgroup_signal(int group_fd, int signal)
{
	int fd = openat(group_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	char line[32];

	if (!f) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while (fgets(line, sizeof(line), f)) {
		long pid = strtol(line, NULL, 10);

		if (pid > 1)
			kill((pid_t)pid, signal);
	}
	fclose(f);
}

/* The digit behind a word of an events file that is not on its first line; '0' when it is not
 * there. */
static char read_event(int group_fd, const char *file, const char *word)
{
	_cleanup_close_ int fd = openat(group_fd, file, O_RDONLY | O_CLOEXEC);
	char text[512];
	const char *line;
	ssize_t n;

	if (fd < 0)
		return '0';
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return '0';
	text[n] = '\0';
	line = strstr(text, word);
	return line ? line[strlen(word)] : '0';
}

bool cgroup_had_oom_kill(int group_fd)
{
	return read_event(group_fd, "memory.events", "\noom_kill ") != '0';
}

int cgroup_freeze(int group_fd, bool freeze)
{
	return write_file(group_fd, "cgroup.freeze", freeze ? "1" : "0");
}

bool cgroup_is_frozen(int group_fd)
{
	return read_event(group_fd, "cgroup.events", "\nfrozen ") == '1';
}

/* Removes the groups inside dir_fd; those with processes stay. */
static void remove_nested(int dir_fd, unsigned int depth)
{
	int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy >= 0 ? fdopendir(copy) : NULL;
	const struct dirent *entry;

	if (!dir) {
		if (copy >= 0)
			close(copy);
		return;
	}
	while ((entry = readdir(dir))) {
		int fd;

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		if (unlinkat(dir_fd, entry->d_name, AT_REMOVEDIR) == 0 || depth == 0)
			continue;
		fd = openat(dir_fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		remove_nested(fd, depth - 1);
		close(fd);
		unlinkat(dir_fd, entry->d_name, AT_REMOVEDIR);
	}
	closedir(dir);
}

bool cgroup_remove(int parent_fd, int group_fd, const char *exec_id)
{
	char name[NAME_SIZE];

	group_name(name, exec_id);
	if (unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return true;
	remove_nested(group_fd, NESTING_MAX);
	return unlinkat(parent_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}
