/* What tests of states share. See state_rig.h. */
#include "state_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/str.h"
#include "loop/spawn.h"

/* ---- a file system of its own, small enough to be filled ---- */

#define SMALL_DISK_BYTES ((off_t)3 << 30)

static int run_program(const char *const *argv)
{
	struct spawn_spec spec = SPAWN_SPEC_INIT;

	spec.argv = argv;
	return spawn_run(&spec, clock_boottime_ms() + 60000, NULL, 0, NULL, NULL, NULL);
}

/* Under nested emulation each page of a guest's memory that is new to a file system costs
 * milliseconds of the guest's time, which there is no telling from a guest that hangs. */
static void enter_memory(struct small_disk *disk)
{
	_cleanup_free_ char *size = xasprintf("size=%lld", (long long)SMALL_DISK_BYTES);
	const char *const mount[] = {
		"mount", "-t", "tmpfs", "-o", size, "tmpfs", disk->dir, NULL
	};

	if (run_program(mount) < 0)
		abort();
	setenv("TMPDIR", disk->dir, 1);
}

/* XFS with reflink where there is mkfs.xfs, so that forks take FICLONE; else ext4. */
void small_disk_enter(struct small_disk *disk)
{
	const char *const xfs[] = { "mkfs.xfs", "-q", "-m", "reflink=1", disk->image, NULL };
	const char *const ext4[] = { "mke2fs", "-q", "-F", "-t", "ext4", disk->image, NULL };
	const char *const mount[] = { "mount", "-o", "loop", disk->image, disk->dir, NULL };
	const char *base = getenv("TMPDIR"), *kind = getenv("SKERRY_TEST_DISK");
	int fd;

	snprintf(disk->dir, sizeof(disk->dir), "%.40s/skerry-disk-XXXXXX", base ? base : "/tmp");
	if (!mkdtemp(disk->dir))
		abort();
	if (kind && str_eq(kind, "memory")) {
		enter_memory(disk);
		return;
	}
	snprintf(disk->image, sizeof(disk->image), "%s.img", disk->dir);
	fd = open(disk->image, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, SMALL_DISK_BYTES) < 0)
		abort();
	close(fd);
	if (run_program(xfs) < 0 && run_program(ext4) < 0)
		abort();
	if (run_program(mount) < 0) {
		print_message("no loop mounts here: the tests use the host's disk\n");
		unlink(disk->image);
		rmdir(disk->dir);
		disk->dir[0] = '\0';
		return;
	}
	setenv("TMPDIR", disk->dir, 1);
}

void small_disk_leave(struct small_disk *disk)
{
	const char *const umount[] = { "umount", disk->dir, NULL };

	if (!disk->dir[0])
		return;
	assert_int_equal(run_program(umount), 0);
	rmdir(disk->dir);
	if (disk->image[0])
		unlink(disk->image);
}

void small_disk_fill(const struct small_disk *disk, const char *path, int64_t left_bytes)
{
	struct statvfs fs;
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(disk->dir[0]);
	assert_true(fd >= 0);
	assert_int_equal(fstatvfs(fd, &fs), 0);
	assert_int_equal(posix_fallocate(fd, 0, (off_t)(fs.f_bavail * fs.f_frsize) - left_bytes),
			 0);
	close(fd);
}

/* ---- sandboxes and their commands ---- */

void rig_pause(struct rig *rig, const char *id)
{
	struct sandbox_info info;
	struct err err = ERR_INIT;

	if (core_pause(rig->core, &rig->admin, id, &info, &err) < 0)
		fail_msg("pause: %s (%s)", err.message, err_code_of(&err));
	assert_int_equal(info.status, SANDBOX_PAUSED);
	assert_true(info.remaining_ms > 0);
	sandbox_info_clear(&info);
}

void rig_resume(struct rig *rig, const char *id)
{
	struct sandbox_info info;
	struct err err = ERR_INIT;

	if (core_resume(rig->core, &rig->admin, id, &info, &err) < 0)
		fail_msg("resume: %s (%s)", err.message, err_code_of(&err));
	assert_int_equal(info.status, SANDBOX_RUNNING);
	sandbox_info_clear(&info);
}

/* Standard output of a command; the caller frees. */
char *rig_output(struct rig *rig, const char *id, const char *command)
{
	struct answer a;
	struct err err = ERR_INIT;
	char *text;

	answer_init(&a);
	if (answer_exec(&a, rig, id,
			&(struct core_exec_request){ .command = command,
						     .timeout_ms = rig_patience_ms(280000),
						     .wait_ms = -1 },
			&err) < 0)
		fail_msg("exec: %s", err.message);
	answer_get(&a, 300000);
	if (a.failed)
		fail_msg("exec '%s': %s", command, a.err.message);
	if (a.result.exit_code != 0)
		fail_msg("exec '%s' ended with %d: %s%s", command, a.result.exit_code,
			 buf_str(&a.result.out), buf_str(&a.result.err));
	text = xstrdup(buf_str(&a.result.out));
	answer_clear(&a);
	return text;
}

long rig_number(struct rig *rig, const char *id, const char *command)
{
	_cleanup_free_ char *text = rig_output(rig, id, command);

	return strtol(text, NULL, 10);
}

void rig_background(struct rig *rig, const char *id, const char *command)
{
	struct answer a;
	struct err err = ERR_INIT;

	answer_init(&a);
	if (answer_exec(&a, rig, id,
			&(struct core_exec_request){ .command = command, .timeout_ms = 600000 },
			&err) < 0)
		fail_msg("exec: %s", err.message);
	answer_get(&a, 60000);
	assert_false(a.failed);
	assert_true(a.result.running);
	answer_clear(&a);
}

void rig_assert_status(struct rig *rig, const char *id, enum sandbox_status status)
{
	struct sandbox_info info;

	rig_get(rig, id, &info);
	assert_string_equal(sandbox_status_name(info.status), sandbox_status_name(status));
	sandbox_info_clear(&info);
}

int rig_wait_status(struct rig *rig, const char *id, enum sandbox_status status, int64_t timeout_ms)
{
	int64_t deadline = clock_boottime_ms() + rig_patience_ms(timeout_ms);

	for (;;) {
		struct sandbox_info info;
		bool reached;

		rig_get(rig, id, &info);
		reached = info.status == status;
		sandbox_info_clear(&info);
		if (reached)
			return 0;
		if (clock_boottime_ms() > deadline)
			return -ETIMEDOUT;
		poll(NULL, 0, 50);
	}
}

void rig_start_server_and_counter(struct rig *rig, const char *id)
{
	rig_background(rig, id,
		       "mkdir -p ~/www && cd ~/www && echo served >f && "
		       "exec python3 -m http.server 8000 2>/dev/null");
	rig_background(rig, id, "n=0; while :; do n=$((n+1)); echo $n >>~/count; sleep 0.5; done");
	free(rig_output(rig, id,
			"until [ -s ~/count ] && (: <>/dev/tcp/127.0.0.1/8000) 2>/dev/null; do "
			"sleep 0.3; done"));
}

void rig_check_server(struct rig *rig, const char *id)
{
	rig_expect(rig, id,
		   "exec 3<>/dev/tcp/127.0.0.1/8000; printf 'GET /f HTTP/1.0\\r\\n\\r\\n' >&3;"
		   "tail -n 1 <&3",
		   "served\n");
}

int rig_take_channel(struct rig *rig, const char *id)
{
	_cleanup_sandbox_ struct sandbox *sb = table_find(rig->core, id, NULL);
	int fd;

	assert_non_null(sb);
	pthread_mutex_lock(&sb->op_lock);
	sandbox_detach(sb);
	fd = unix_connect(sb->agent_path, true);
	pthread_mutex_unlock(&sb->op_lock);
	assert_true(fd >= 0);
	return fd;
}

size_t rig_count_names(struct rig *rig, const char *sub, const char *prefix)
{
	_cleanup_free_ char *path = xasprintf("%s/state/%s", rig->dir, sub);
	DIR *dir = opendir(path);
	const struct dirent *entry;
	size_t n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		n += str_starts(entry->d_name, prefix) && entry->d_name[0] != '.';
	closedir(dir);
	return n;
}
