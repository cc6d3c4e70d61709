/*
 * Finding a file's mappings in /proc/PID/maps.
 *
 * maps shows the device and inode of the file system that really holds the file. On some (btrfs
 * subvolumes, overlayfs of older kernels) stat(2) shows another device for the same file; there the
 * inode number is the same, and /proc/PID/map_files, which stat follows, settles it.
 */
#include "snapshot/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

#define MAPS_BYTES_MAX ((size_t)16 << 20) /* 65530 mappings (vm.max_map_count) of 250 bytes */
#define MAPPINGS_MAX   4096		  /* of the one file */

/* ---- the process ---- */

int process_open(pid_t pid, struct process *ret, struct err *err)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d", pid);
	fd = pid > 0 ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd < 0)
		return err_code(err, -ESRCH, "not_found", "there is no process %d", pid);
	ret->pid = pid;
	ret->proc_fd = fd;
	return 0;
}

void process_close(struct process *process)
{
	if (process->proc_fd >= 0)
		close(process->proc_fd);
	*process = PROCESS_INIT;
}

int process_file(const struct process *process, const char *name, int flags)
{
	int fd = openat(process->proc_fd, name, flags | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return fd;
}

int process_check(const struct process *process)
{
	/* The handle of a process that has ended and was reaped finds nothing, even if a new
	 * process has its number. */
	return faccessat(process->proc_fd, "maps", F_OK, 0) < 0 ? -ESRCH : 0;
}

/* ---- lines ---- */

static int take_number(const char **cursor, int base, char end, uint64_t *ret)
{
	char *stop;
	unsigned long long value;

	/* strtoull would take blanks and signs */
	if (!**cursor || !strchr("0123456789abcdef", **cursor))
		return -EBADMSG;
	errno = 0;
	value = strtoull(*cursor, &stop, base);
	if (errno != 0 || *stop != end)
		return -EBADMSG;
	*cursor = stop + (end != '\0');
	*ret = value;
	return 0;
}

/* "7f00-7f10 rw-p 00001000 fe:00 1234     /path" */
int maps_parse_line(const char *line, struct maps_line *ret)
{
	struct maps_line parsed = { 0 };
	uint64_t start, end, offset, dev_major, dev_minor, inode;
	const char *access;

	if (take_number(&line, 16, '-', &start) < 0 || take_number(&line, 16, ' ', &end) < 0 ||
	    start >= end)
		return -EBADMSG;
	access = line;
	if (strnlen(access, 5) < 5 || access[4] != ' ')
		return -EBADMSG;
	line += 5;
	if (take_number(&line, 16, ' ', &offset) < 0 ||
	    take_number(&line, 16, ':', &dev_major) < 0 ||
	    take_number(&line, 16, ' ', &dev_minor) < 0)
		return -EBADMSG;
	/* the inode ends the line where there is no path */
	if (take_number(&line, 10, ' ', &inode) < 0 && take_number(&line, 10, '\0', &inode) < 0)
		return -EBADMSG;
	if (offset > UINT64_MAX - (end - start) || dev_major > UINT32_MAX || dev_minor > UINT32_MAX)
		return -EBADMSG;
	parsed.mapping = (struct mapping){ start, end - start, offset };
	parsed.writable = access[1] == 'w';
	parsed.is_private = access[3] == 'p';
	parsed.device = makedev((unsigned int)dev_major, (unsigned int)dev_minor);
	parsed.inode = inode;
	*ret = parsed;
	return 0;
}

/* ---- the file's mappings ---- */

static bool is_file(const struct process *process, const struct maps_line *line,
		    const struct stat *file)
{
	char name[64];
	struct stat st;

	if (line->inode != file->st_ino)
		return false;
	if (line->device == file->st_dev)
		return true;
	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64, line->mapping.address,
		 line->mapping.address + line->mapping.bytes);
	return fstatat(process->proc_fd, name, &st, 0) == 0 && st.st_dev == file->st_dev &&
	       st.st_ino == file->st_ino;
}

static int by_offset(const void *a, const void *b)
{
	const struct mapping *x = a, *y = b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Sorts the mappings and checks that they are the whole file, once. */
static int settle(struct mapping_set *set, struct err *err)
{
	uint64_t end = 0;

	if (set->n > 0)
		qsort(set->items, set->n, sizeof(*set->items), by_offset);
	for (size_t i = 0; i < set->n; i++) {
		if (set->items[i].offset < end)
			return err_set(err, -EBADMSG,
				       "the memory file is mapped twice at offset %" PRIu64,
				       set->items[i].offset);
		if (set->items[i].offset > end)
			break;
		end += set->items[i].bytes;
	}
	if (end != set->memory_bytes)
		return err_set(err, -EBADMSG,
			       "the memory file is mapped up to %" PRIu64 " of its %" PRIu64
			       " bytes",
			       end, set->memory_bytes);
	return 0;
}

static int collect(const struct process *process, char *maps, const struct stat *file,
		   struct mapping_set *set, struct err *err)
{
	struct maps_line line;
	char *next;

	for (char *text = maps; *text; text = next) {
		next = strchrnul(text, '\n');
		if (*next)
			*next++ = '\0';
		if (maps_parse_line(text, &line) < 0)
			return err_set(err, -EBADMSG,
				       "a line of the process's maps is not understood");
		if (!is_file(process, &line, file))
			continue;
		if (!line.is_private || !line.writable)
			return err_set(
				err, -EBADMSG,
				"the memory file is mapped %s, not as private writable memory",
				line.is_private ? "read-only" : "shared");
		if (set->n == MAPPINGS_MAX)
			return err_set(err, -E2BIG, "the memory file has more than %d mappings",
				       MAPPINGS_MAX);
		set->items = xrealloc(set->items, (set->n + 1) * sizeof(*set->items));
		set->items[set->n++] = line.mapping;
	}
	return settle(set, err);
}

int mapping_find(const struct process *process, const struct stat *memory_stat,
		 struct mapping_set *ret, struct err *err)
{
	_cleanup_(mapping_set_clear) struct mapping_set set = MAPPING_SET_INIT;
	_cleanup_buf_ struct buf maps = BUF_INIT;
	char path[64];
	int r;

	if (!S_ISREG(memory_stat->st_mode) || memory_stat->st_size <= 0)
		return err_set(err, -EINVAL, "the memory file is empty or no regular file");
	set.memory_bytes = (uint64_t)memory_stat->st_size;
	snprintf(path, sizeof(path), "/proc/self/fd/%d/maps", process->proc_fd);
	r = file_read(path, MAPS_BYTES_MAX, &maps);
	if (r < 0)
		return err_set(err, r == -ENOENT ? -ESRCH : r,
			       "cannot read the maps of process %d: %s", process->pid,
			       strerrordesc_np(-r));
	r = collect(process, maps.len ? maps.data : (char[]){ '\0' }, memory_stat, &set, err);
	if (r < 0)
		return err_wrap(err, r, "process %d", process->pid);
	*ret = set;
	set = MAPPING_SET_INIT;
	return 0;
}

void mapping_set_clear(struct mapping_set *set)
{
	free(set->items);
	*set = MAPPING_SET_INIT;
}

const struct mapping *mapping_at(const struct mapping_set *set, uint64_t offset)
{
	size_t low = 0, high = set->n;

	if (offset >= set->memory_bytes)
		return NULL;
	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (set->items[middle].offset <= offset)
			low = middle;
		else
			high = middle;
	}
	return &set->items[low];
}
