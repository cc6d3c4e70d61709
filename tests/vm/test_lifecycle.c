/*
 * The state of a sandbox as a thing one can hold: pausing, resuming, forking, snapshots, and what
 * of them goes wrong. With real VMs; one image and one template serve all tests.
 */
#include "core_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/spawn.h"
#include "store/intervals.h"

static struct rig rig;

/* ---- a file system of its own, small enough to be filled ---- */

#define SMALL_DISK_BYTES ((off_t)3 << 30)

static char disk_dir[64], disk_image[72];

static int run_program(const char *const *argv)
{
	struct spawn_spec spec = SPAWN_SPEC_INIT;

	spec.argv = argv;
	return spawn_run(&spec, clock_boottime_ms() + 60000, NULL, 0, NULL, NULL, NULL);
}

/* XFS with reflink where there is mkfs.xfs, so that forks take FICLONE; else ext4. */
static void enter_small_disk(void)
{
	const char *const xfs[] = { "mkfs.xfs", "-q", "-m", "reflink=1", disk_image, NULL };
	const char *const ext4[] = { "mke2fs", "-q", "-F", "-t", "ext4", disk_image, NULL };
	const char *const mount[] = { "mount", "-o", "loop", disk_image, disk_dir, NULL };
	const char *base = getenv("TMPDIR");
	int fd;

	snprintf(disk_dir, sizeof(disk_dir), "%.40s/skerry-disk-XXXXXX", base ? base : "/tmp");
	if (!mkdtemp(disk_dir))
		abort();
	snprintf(disk_image, sizeof(disk_image), "%s.img", disk_dir);
	fd = open(disk_image, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, SMALL_DISK_BYTES) < 0)
		abort();
	close(fd);
	if (run_program(xfs) < 0 && run_program(ext4) < 0)
		abort();
	if (run_program(mount) < 0) {
		print_message("no loop mounts here: the tests use the host's disk\n");
		unlink(disk_image);
		rmdir(disk_dir);
		disk_dir[0] = '\0';
		return;
	}
	setenv("TMPDIR", disk_dir, 1);
}

static void leave_small_disk(void)
{
	const char *const umount[] = { "umount", disk_dir, NULL };

	if (!disk_dir[0])
		return;
	assert_int_equal(run_program(umount), 0);
	rmdir(disk_dir);
	unlink(disk_image);
}

static int make(void **state)
{
	enter_small_disk();
	rig_make(&rig);
	return 0;
}

static int remove_all(void **state)
{
	rig_remove(&rig);
	leave_small_disk();
	return 0;
}

/* ---- helpers ---- */

static void must_pause(const char *id)
{
	struct sandbox_info info;
	struct err err = ERR_INIT;

	if (core_pause(rig.core, &rig.admin, id, &info, &err) < 0)
		fail_msg("pause: %s (%s)", err.message, err_code_of(&err));
	assert_int_equal(info.status, SANDBOX_PAUSED);
	assert_true(info.remaining_ms > 0);
	sandbox_info_clear(&info);
}

static void must_resume(const char *id)
{
	struct sandbox_info info;
	struct err err = ERR_INIT;

	if (core_resume(rig.core, &rig.admin, id, &info, &err) < 0)
		fail_msg("resume: %s (%s)", err.message, err_code_of(&err));
	assert_int_equal(info.status, SANDBOX_RUNNING);
	sandbox_info_clear(&info);
}

/* Standard output of a command; the caller frees. */
static char *output_of(const char *id, const char *command)
{
	struct answer a;
	struct err err = ERR_INIT;
	char *text;

	answer_init(&a);
	if (answer_exec(&a, &rig, id,
			&(struct core_exec_request){
				.command = command, .timeout_ms = 280000, .wait_ms = -1 },
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

static long number_of(const char *id, const char *command)
{
	_cleanup_free_ char *text = output_of(id, command);

	return strtol(text, NULL, 10);
}

static void in_background(const char *id, const char *command)
{
	struct answer a;
	struct err err = ERR_INIT;

	answer_init(&a);
	if (answer_exec(&a, &rig, id,
			&(struct core_exec_request){ .command = command, .timeout_ms = 600000 },
			&err) < 0)
		fail_msg("exec: %s", err.message);
	answer_get(&a, 60000);
	assert_false(a.failed);
	assert_true(a.result.running);
	answer_clear(&a);
}

static void assert_status(const char *id, enum sandbox_status status)
{
	struct sandbox_info info;

	rig_get(&rig, id, &info);
	assert_string_equal(sandbox_status_name(info.status), sandbox_status_name(status));
	sandbox_info_clear(&info);
}

static int wait_status(const char *id, enum sandbox_status status, int64_t timeout_ms)
{
	int64_t deadline = clock_boottime_ms() + timeout_ms;

	for (;;) {
		struct sandbox_info info;
		bool reached;

		rig_get(&rig, id, &info);
		reached = info.status == status;
		sandbox_info_clear(&info);
		if (reached)
			return 0;
		if (clock_boottime_ms() > deadline)
			return -ETIMEDOUT;
		poll(NULL, 0, 50);
	}
}

/* ---- pause and resume ---- */

static void start_server_and_counter(const char *id)
{
	in_background(id, "mkdir -p ~/www && cd ~/www && echo served >f && "
			  "exec python3 -m http.server 8000 2>/dev/null");
	in_background(id, "n=0; while :; do n=$((n+1)); echo $n >>~/count; sleep 0.5; done");
	free(output_of(id, "until [ -s ~/count ] && (: <>/dev/tcp/127.0.0.1/8000) 2>/dev/null; do "
			   "sleep 0.3; done"));
}

static void check_server(const char *id)
{
	rig_expect(&rig, id,
		   "exec 3<>/dev/tcp/127.0.0.1/8000; printf 'GET /f HTTP/1.0\\r\\n\\r\\n' >&3;"
		   "tail -n 1 <&3",
		   "served\n");
}

static void check_clock(const char *id)
{
	_cleanup_free_ char *text = output_of(id, "date +%s%3N");
	int64_t guest_ms = strtoll(text, NULL, 10), skew_ms = clock_unix_ms() - guest_ms;

	/* The answer takes its time on the way, which looks like a clock that is behind. */
	if (skew_ms < -500 || skew_ms > 1500)
		fail_msg("the guest's clock is off by %lld ms", (long long)skew_ms);
}

static void test_ten_cycles(void **state)
{
	char id[SANDBOX_ID_SIZE];
	struct answer half_done;
	struct err err = ERR_INIT;
	struct interval_row *intervals = NULL;
	size_t n = 0;
	long count = 0;

	rig_create(&rig, &(struct core_create_request){ .name = "cycles" }, id);
	start_server_and_counter(id);
	answer_init(&half_done);
	assert_int_equal(answer_exec(&half_done, &rig, id,
				     &(struct core_exec_request){
					     .command = "echo begin; sleep 12; echo end",
					     .timeout_ms = 100000,
					     .wait_ms = -1 },
				     &err),
			 0);
	for (int i = 0; i < 10; i++) {
		_cleanup_free_ char *edit =
			xasprintf("echo edit %d >>~/edits; head -c 300000 /dev/urandom >~/blob%d;"
				  "cat ~/edits ~/blob* | sha256sum",
				  i, i % 3);
		_cleanup_free_ char *before = output_of(id, edit), *after = NULL;
		int64_t began = clock_boottime_ms(), paused, resumed;
		long now;

		must_pause(id);
		paused = clock_boottime_ms();
		if (i % 2)
			must_resume(id); /* else by the command */
		resumed = clock_boottime_ms();
		check_clock(id);
		print_message("cycle %d: pause %lld ms, resume %lld ms\n", i,
			      (long long)(paused - began), (long long)(resumed - paused));
		after = output_of(id, "cat ~/edits ~/blob* | sha256sum");
		assert_string_equal(before, after);
		now = number_of(id, "tail -n 1 ~/count");
		assert_true(now >= count);
		count = now;
	}
	check_server(id);
	rig_expect(&rig, id, "wc -l <~/edits; hostname; cat /run/skerry/generation",
		   "10\ncycles\n11\n");
	answer_get(&half_done, 60000);
	if (half_done.failed)
		fail_msg("the half-done command: %s", half_done.err.message);
	assert_string_equal(buf_str(&half_done.result.out), "begin\nend\n");
	answer_clear(&half_done);
	{
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

		assert_int_equal(db_begin_read(rig.core->db, &txn, NULL), 0);
		assert_int_equal(intervals_list(&txn, id, &intervals, &n, NULL), 0);
	}
	assert_int_equal(n, 11);
	for (size_t i = 1; i < n; i++)
		assert_true(intervals[i].started_unix_ms >= intervals[i - 1].ended_unix_ms);
	assert_int_equal(intervals[10].ended_unix_ms, 0);
	free(intervals);
	rig_destroy(&rig, id);
	rig_assert_no_residue(&rig, id, NULL);
}

/* ---- a stream across pauses ---- */

#define STREAM_BYTES  (100u << 20)
#define STREAM_CREDIT (1u << 20)
#define PATTERN	      "0123456789abcde\n"

struct reader {
	struct core_stream *stream;
	_Atomic uint64_t next;
	atomic_bool ended, wrong;
	int exit_code;
};

static void on_stream_data(void *arg, int which, uint64_t offset, const void *data, size_t len)
{
	struct reader *reader = arg;
	const char *bytes = data;

	if (which != PROTO_STDOUT || offset != reader->next)
		reader->wrong = true;
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] != PATTERN[(offset + i) % 16])
			reader->wrong = true;
	}
	reader->next = offset + len;
	core_stream_credit(reader->stream, which, len);
}

static void on_stream_ended(void *arg, const struct core_exec_result *result, const struct err *err)
{
	struct reader *reader = arg;

	if (err)
		print_message("stream: %s\n", err->message);
	reader->exit_code = result ? result->exit_code : -1;
	reader->ended = true;
}

static void wait_bytes(struct reader *reader, uint64_t bytes)
{
	int64_t deadline = clock_boottime_ms() + 300000;

	while (reader->next < bytes && !reader->ended) {
		if (clock_boottime_ms() > deadline)
			fail_msg("the stream stands at %llu", (unsigned long long)reader->next);
		poll(NULL, 0, 5);
	}
}

static void test_stream_across_pauses(void **state)
{
	const struct core_stream_sink sink = { .data = on_stream_data, .ended = on_stream_ended };
	const struct core_exec_request req = {
		.command = "yes 0123456789abcde | head -c 104857600",
		.command_len = strlen("yes 0123456789abcde | head -c 104857600"),
		.timeout_ms = 900000,
	};
	struct reader reader = { 0 };
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, NULL, id);
	/* Without credit nothing comes before reader.stream is known. */
	if (core_exec_stream(rig.core, &rig.admin, id, &req, &sink, &reader, 0, &reader.stream,
			     &err) < 0)
		fail_msg("stream: %s", err.message);
	core_stream_credit(reader.stream, PROTO_STDOUT, STREAM_CREDIT);
	for (unsigned int i = 1; i <= 3; i++) {
		uint64_t at = (uint64_t)i * 20 << 20;

		wait_bytes(&reader, at);
		must_pause(id);
		assert_false(reader.ended);
		must_resume(id);
	}
	wait_bytes(&reader, STREAM_BYTES);
	for (int i = 0; i < 600 && !reader.ended; i++)
		poll(NULL, 0, 50);
	assert_true(reader.ended);
	assert_false(reader.wrong);
	assert_int_equal(reader.next, STREAM_BYTES);
	assert_int_equal(reader.exit_code, 0);
	core_stream_close(reader.stream);
	rig_destroy(&rig, id);
}

struct many {
	const char *id;
	atomic_int failed;
};

static void *ask(void *arg)
{
	struct many *many = arg;
	struct answer a;
	struct err err = ERR_INIT;

	answer_init(&a);
	if (answer_exec(&a, &rig, many->id,
			&(struct core_exec_request){ .command = "cat ~/mark", .wait_ms = -1 },
			&err) < 0) {
		print_message("exec: %s\n", err.message);
		many->failed++;
	} else {
		answer_get(&a, 400000);
		if (a.failed || !str_eq(buf_str(&a.result.out), "here\n"))
			many->failed++;
	}
	answer_clear(&a);
	return NULL;
}

static void test_fifty_requests_resume_once(void **state)
{
	struct many many = { 0 };
	struct sandbox_info info;
	pthread_t threads[50];
	int64_t began;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, NULL, id);
	rig_expect(&rig, id, "echo here >~/mark", "");
	must_pause(id);
	assert_status(id, SANDBOX_PAUSED);
	many.id = id;
	began = clock_boottime_ms();
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask, &many), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(many.failed, 0);
	print_message("fifty requests to a paused one: %lld ms\n",
		      (long long)(clock_boottime_ms() - began));
	rig_get(&rig, id, &info);
	assert_int_equal(info.generation, 2);
	sandbox_info_clear(&info);
	rig_destroy(&rig, id);
}

static void test_paused_are_listed_and_destroyed(void **state)
{
	struct core_list_request req = { .status = "paused" };
	struct sandbox_info *infos = NULL, info;
	char id[SANDBOX_ID_SIZE], *cursor = NULL;
	size_t n = 0;

	rig_create(&rig, NULL, id);
	must_pause(id);
	assert_int_equal(core_list(rig.core, &rig.admin, &req, &infos, &n, &cursor, NULL), 0);
	assert_int_equal(n, 1);
	assert_string_equal(infos[0].id, id);
	core_list_clear(infos, n);
	/* A daemon that was stopped and started keeps it. */
	rig_close(&rig);
	rig_open(&rig);
	assert_status(id, SANDBOX_PAUSED);
	rig_expect(&rig, id, "echo still", "still\n");
	must_pause(id);
	rig_destroy(&rig, id);
	rig_get(&rig, id, &info);
	assert_string_equal(info.reason, "destroyed_by_user");
	sandbox_info_clear(&info);
	rig_assert_no_residue(&rig, id, NULL);
}

static void test_damage_is_named(void **state)
{
	_cleanup_free_ char *path = NULL;
	struct sandbox_info info;
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE], byte;
	int fd;

	rig_create(&rig, NULL, id);
	must_pause(id);
	path = xasprintf("%s/state/sandboxes/%s/pause/" SAVED_MEMORY, rig.dir, id);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pread(fd, &byte, 1, 300000), 1);
	byte = (char)~byte;
	assert_int_equal(pwrite(fd, &byte, 1, 300000), 1);
	assert_true(core_resume(rig.core, &rig.admin, id, &info, &err) < 0);
	assert_string_equal(err_code_of(&err), "snapshot_damaged");
	assert_status(id, SANDBOX_PAUSED);
	byte = (char)~byte;
	assert_int_equal(pwrite(fd, &byte, 1, 300000), 1);
	close(fd);
	must_resume(id);
	rig_destroy(&rig, id);
}

static void test_paused_at_its_deadline(void **state)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, &(struct core_create_request){ .pause_on_timeout = true }, id);
	rig_expect(&rig, id, "echo kept >~/mark", "");
	sb = table_find(rig.core, id, NULL);
	pthread_mutex_lock(&sb->op_lock);
	assert_int_equal(vmm_extend(rig.driver, &sb->vm, clock_boottime_ms() + 8000,
				    clock_boottime_ms() + 5000, NULL),
			 0);
	sb->expires_boottime_ms = clock_boottime_ms() + 8000;
	pthread_mutex_unlock(&sb->op_lock);
	assert_int_equal(wait_status(id, SANDBOX_PAUSED, 40000), 0);
	rig_expect(&rig, id, "cat ~/mark", "kept\n");
	rig_destroy(&rig, id);
}

static void test_idle_is_paused_and_a_job_is_not(void **state)
{
	_cleanup_sandbox_ struct sandbox *sb = NULL;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, &(struct core_create_request){ .idle_pause_minutes = 1 }, id);
	sb = table_find(rig.core, id, NULL);
	in_background(id, "sleep 4");
	sb->used_boottime_ms = clock_boottime_ms() - 58000;
	poll(NULL, 0, 3500); /* the minute is over, the job is not */
	assert_int_equal(sandbox_status(sb), SANDBOX_RUNNING);
	poll(NULL, 0, 3000);
	assert_int_equal(sandbox_status(sb), SANDBOX_RUNNING); /* its end was use, too */
	sb->used_boottime_ms = clock_boottime_ms() - 61000;
	for (int i = 0; i < 400 && sandbox_status(sb) != SANDBOX_PAUSED; i++)
		poll(NULL, 0, 50);
	assert_int_equal(sandbox_status(sb), SANDBOX_PAUSED);
	rig_destroy(&rig, id);
}

/* ---- forks ---- */

static void assert_all_differ(char *const *texts, size_t n, const char *what)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t k = i + 1; k < n; k++) {
			if (str_eq(texts[i], texts[k]))
				fail_msg("%s of forks %zu and %zu is the same: %s", what, i, k,
					 texts[i]);
		}
	}
}

static void collect(const struct core_fork_result *forks, const char *command, const char *what)
{
	char *texts[FORK_COUNT_MAX];

	for (size_t i = 0; i < forks->n; i++)
		texts[i] = output_of(forks->children[i].id, command);
	assert_all_differ(texts, forks->n, what);
	for (size_t i = 0; i < forks->n; i++)
		free(texts[i]);
}

static void check_disk_of(const char *id)
{
	_cleanup_free_ char *path = xasprintf("%s/state/sandboxes/%s/disk", rig.dir, id);
	_cleanup_free_ char *copy = xasprintf("%s/fsck.img", rig.dir);
	/* The journal of a paused one is replayed first, as a mount would; in a copy. */
	const char *const argv[] = { "e2fsck", "-fy", copy, NULL };
	const char *const again[] = { "e2fsck", "-fn", copy, NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct err err = ERR_INIT;

	assert_int_equal(file_copy_sparse(path, copy, 0600), 0);
	spec.argv = argv;
	spawn_run(&spec, clock_boottime_ms() + 60000, NULL, 0, NULL, NULL, NULL);
	spec.argv = again;
	if (spawn_run(&spec, clock_boottime_ms() + 60000, NULL, 0, NULL, NULL, &err) < 0)
		fail_msg("e2fsck of %s: %s", id, err.message);
	unlink(copy);
}

/* A program that was running before the fork: what it draws first in the next generation. */
static const char drawer[] = "import os,time\n"
			     "def generation(): return open('/run/skerry/generation').read()\n"
			     "def draw(): return os.urandom(16).hex()+' '+"
			     "open('/proc/sys/kernel/random/uuid').read().strip()\n"
			     "before=generation()\n"
			     "open('/tmp/ready','w').write('x')\n"
			     "while generation()==before: draw(); time.sleep(0.02)\n"
			     "open('/tmp/draw','w').write(draw())\n";

static void test_eight_forks(void **state)
{
	const struct core_fork_request req = { .count = 8, .name = "child" };
	_cleanup_free_ char *command =
		xasprintf("cat >~/draw.py <<'END'\n%sEND\npython3 ~/draw.py", drawer);
	struct core_fork_result forks = { 0 };
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE];
	int64_t began;
	long before;

	rig_create(&rig, &(struct core_create_request){ .name = "source" }, id);
	start_server_and_counter(id);
	in_background(id, command);
	rig_expect(&rig, id, "echo shared >~/mark; while [ ! -s /tmp/ready ]; do sleep 0.1; done",
		   "");
	before = number_of(id, "tail -n 1 ~/count");
	began = clock_boottime_ms();
	if (core_fork(rig.core, &rig.admin, id, &req, &forks, &err) < 0)
		fail_msg("fork: %s (%s)", err.message, err_code_of(&err));
	print_message("eight forks: %lld ms, source held %lld ms\n",
		      (long long)(clock_boottime_ms() - began), (long long)forks.source_held_ms);
	assert_int_equal(forks.n, 8);
	for (size_t i = 0; i < forks.n; i++) {
		const char *child = forks.children[i].id;
		_cleanup_free_ char *write =
			xasprintf("for k in 1 2 3 4; do head -c 1000000 /dev/urandom >~/w$k; done;"
				  "echo only %zu >~/own; sync; cat ~/mark",
				  i);
		_cleanup_free_ char *mark = NULL;
		_cleanup_free_ char *name = xasprintf("child-%zu", i + 1);

		assert_string_equal(forks.children[i].parent_id, id);
		assert_string_equal(forks.children[i].name, name);
		mark = output_of(child, write);
		assert_string_equal(mark, "shared\n");
		check_server(child);
		assert_true(number_of(child, "tail -n 1 ~/count") >= before);
	}
	collect(&forks, "cat /etc/machine-id", "machine-id");
	collect(&forks, "hostname", "hostname");
	collect(&forks, "cat /proc/sys/kernel/random/uuid", "kernel UUID");
	collect(&forks, "cat ~/own", "the disk");
	collect(&forks, "while [ ! -s /tmp/draw ]; do sleep 0.1; done; cut -d ' ' -f 1 /tmp/draw",
		"the first draw of a program that was running");
	collect(&forks, "cut -d ' ' -f 2 /tmp/draw",
		"the first UUID of a program that was running");
	for (size_t i = 0; i < forks.n; i++)
		rig_expect(&rig, forks.children[i].id, "cat /run/skerry/generation", "2\n");
	rig_expect(&rig, id, "cat ~/mark; ls ~/own ~/w1 2>/dev/null || true", "shared\n");
	check_server(id);
	for (size_t i = 0; i < forks.n; i++) {
		must_pause(forks.children[i].id);
		check_disk_of(forks.children[i].id);
		rig_destroy(&rig, forks.children[i].id);
	}
	core_fork_result_clear(&forks);
	rig_destroy(&rig, id);
}

static void test_fork_of_a_paused_one(void **state)
{
	const struct core_fork_request req = { .count = 2 };
	struct core_fork_result forks = { 0 };
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE];

	rig_create(&rig, NULL, id);
	rig_expect(&rig, id, "echo saved >~/mark", "");
	must_pause(id);
	if (core_fork(rig.core, &rig.admin, id, &req, &forks, &err) < 0)
		fail_msg("fork: %s", err.message);
	assert_status(id, SANDBOX_PAUSED);
	assert_int_equal(forks.source_held_ms, 0);
	rig_destroy(&rig, id); /* children are their own */
	for (size_t i = 0; i < forks.n; i++) {
		rig_expect(&rig, forks.children[i].id, "cat ~/mark", "saved\n");
		rig_destroy(&rig, forks.children[i].id);
	}
	core_fork_result_clear(&forks);
}

static void test_fork_beyond_the_quota_makes_none(void **state)
{
	const struct core_fork_request req = { .count = 16 };
	const struct core_fork_request one = { .count = 0 };
	struct core_fork_result forks = { 0 };
	struct sandbox_info *infos = NULL;
	struct err err = ERR_INIT;
	char a[SANDBOX_ID_SIZE], *cursor = NULL;
	int64_t limit = rig.core->limits.sandboxes_per_account;
	size_t n = 0;

	rig_create(&rig, NULL, a);
	rig.core->limits.sandboxes_per_account = 16;
	assert_true(core_fork(rig.core, &rig.admin, a, &req, &forks, &err) < 0);
	rig.core->limits.sandboxes_per_account = limit;
	assert_string_equal(err_code_of(&err), "quota_reached");
	assert_int_equal(core_list(rig.core, &rig.admin, &(struct core_list_request){ 0 }, &infos,
				   &n, &cursor, NULL),
			 0);
	assert_int_equal(n, 1);
	core_list_clear(infos, n);
	assert_int_equal(core_fork(rig.core, &rig.admin, a, &one, &forks, &err), -EINVAL);
	rig_destroy(&rig, a);
}

/* ---- what stands ready ---- */

static void test_standby(void **state)
{
	struct sandbox_info info;
	char first[SANDBOX_ID_SIZE], second[SANDBOX_ID_SIZE];
	_cleanup_free_ char *a = NULL, *b = NULL;
	int64_t began, deadline = clock_boottime_ms() + 60000;

	rig.core->limits.standby_per_template = 1;
	while (!standby_count(rig.core) && clock_boottime_ms() < deadline)
		poll(NULL, 0, 50);
	assert_int_equal(standby_count(rig.core), 1);
	rig.core->limits.standby_per_template = 0;
	began = clock_boottime_ms();
	rig_create(&rig, &(struct core_create_request){ .name = "ready" }, first);
	print_message("create from standby: %lld ms\n", (long long)(clock_boottime_ms() - began));
	assert_int_equal(standby_count(rig.core), 0);
	rig_create(&rig, NULL, second);
	rig_expect(&rig, first, "hostname; cat /run/skerry/generation", "ready\n1\n");
	a = output_of(first, "cat /etc/machine-id");
	b = output_of(second, "cat /etc/machine-id");
	assert_string_not_equal(a, b);
	rig_get(&rig, first, &info);
	assert_int_equal(info.expires_unix_ms - info.created_unix_ms, 15 * 60000);
	sandbox_info_clear(&info);
	rig_expect(&rig, first, "echo x >~/f", "");
	must_pause(first);
	rig_expect(&rig, first, "cat ~/f", "x\n");
	rig_destroy(&rig, first);
	rig_destroy(&rig, second);
	/* One that nobody took is gone with the daemon. */
	rig.core->limits.standby_per_template = 1;
	while (!standby_count(rig.core) && clock_boottime_ms() < deadline + 60000)
		poll(NULL, 0, 50);
	assert_int_equal(standby_count(rig.core), 1);
	rig_close(&rig);
	rig_open(&rig);
	assert_int_equal(standby_count(rig.core), 0);
}

/* ---- named snapshots ---- */

static void test_named_snapshot(void **state)
{
	struct core_snapshot_info info, *infos = NULL;
	struct err err = ERR_INIT;
	char source[SANDBOX_ID_SIZE], a[SANDBOX_ID_SIZE], b[SANDBOX_ID_SIZE];
	size_t n = 0;

	rig_create(&rig, NULL, source);
	rig_expect(&rig, source, "echo first >~/mark", "");
	if (core_snapshot_create(rig.core, &rig.admin, source, "one", &info, &err) < 0)
		fail_msg("snapshot: %s", err.message);
	assert_true(info.size_bytes > 0);
	assert_int_equal(core_snapshot_create(rig.core, &rig.admin, source, "one", &info, &err),
			 -EEXIST);
	assert_string_equal(err_code_of(&err), "snapshot_exists");
	rig_expect(&rig, source, "echo second >~/mark; cat ~/mark", "second\n");
	rig_destroy(&rig, source);
	rig_create(&rig, &(struct core_create_request){ .snapshot = "one" }, a);
	rig_expect(&rig, a, "cat ~/mark", "first\n");
	rig_close(&rig);
	rig_open(&rig);
	rig_create(&rig, &(struct core_create_request){ .snapshot = "one" }, b);
	assert_int_equal(core_snapshot_list(rig.core, &rig.admin, &infos, &n, &err), 0);
	assert_int_equal(n, 1);
	assert_string_equal(infos[0].name, "one");
	assert_string_equal(infos[0].source_id, source);
	free(infos);
	assert_int_equal(core_snapshot_remove(rig.core, &rig.admin, "one", &err), 0);
	assert_int_equal(core_snapshot_remove(rig.core, &rig.admin, "one", &err), -ENOENT);
	rig_expect(&rig, a, "cat ~/mark", "first\n");
	must_pause(b);
	rig_expect(&rig, b, "cat ~/mark", "first\n");
	rig_destroy(&rig, a);
	rig_destroy(&rig, b);
	assert_int_equal(
		rig_try_create(&rig, &(struct core_create_request){ .snapshot = "one" }, a, &err),
		-ENOENT);
	assert_string_equal(err_code_of(&err), "snapshot_not_found");
}

static size_t count_names(const char *sub, const char *prefix)
{
	_cleanup_free_ char *path = xasprintf("%s/state/%s", rig.dir, sub);
	DIR *dir = opendir(path);
	const struct dirent *entry;
	size_t n = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		n += str_starts(entry->d_name, prefix) && entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

/* ---- compressed ---- */

static char *pause_file(const char *id, const char *name)
{
	return xasprintf("%s/state/sandboxes/%s/pause/%s", rig.dir, id, name);
}

static void assert_compressed(const char *id, bool compressed)
{
	_cleanup_free_ char *plain = pause_file(id, SAVED_MEMORY);
	_cleanup_free_ char *small = pause_file(id, SAVED_MEMORY ".zst");

	assert_int_equal(access(plain, F_OK), compressed ? -1 : 0);
	assert_int_equal(access(small, F_OK), compressed ? 0 : -1);
}

/* ---- a daemon that dies at each step ---- */

static const char *const abort_points[] = {
	"pause.intent",	    "pause.held",      "pause.written",	  "pause.sealed",
	"pause.ended",	    "pause.done",      "resume.intent",	  "resume.started",
	"resume.done",	    "fork.reserved",   "fork.taken",	  "fork.started",
	"snapshot.intent",  "snapshot.taken",  "snapshot.sealed", "snapshot.row_gone",
	"compress.written", "compress.listed",
};

/* The daemon: does what the step belongs to, and dies there. */
static int be_aborted(const char *dir, const char *point, const char *id)
{
	const struct core_fork_request two = { .count = 2 };
	struct core_fork_result forks = { 0 };
	struct core_snapshot_info snapshot;
	struct sandbox_info info = { 0 };

	rig_for_dir(&rig, dir);
	rig_open(&rig);
	setenv("SKERRY_ABORT_AT", point, 1);
	if (str_starts(point, "pause.") || str_starts(point, "resume.") ||
	    str_starts(point, "compress."))
		core_pause(rig.core, &rig.admin, id, &info, NULL);
	if (str_starts(point, "resume."))
		core_resume(rig.core, &rig.admin, id, &info, NULL);
	if (str_starts(point, "fork."))
		core_fork(rig.core, &rig.admin, id, &two, &forks, NULL);
	if (str_starts(point, "snapshot."))
		core_snapshot_create(rig.core, &rig.admin, id, "dies", &snapshot, NULL);
	if (str_starts(point, "compress."))
		shrink_paused(rig.core, clock_unix_ms() + 1000);
	if (str_eq(point, "snapshot.row_gone"))
		core_snapshot_remove(rig.core, &rig.admin, "dies", NULL);
	return 1;
}

static void die_at(const char *point, const char *id)
{
	char *const argv[] = { (char *)"test_lifecycle",
			       (char *)"--abort",
			       rig.dir,
			       (char *)point,
			       (char *)id,
			       NULL };
	int status = 0;
	pid_t pid;

	rig_close(&rig);
	pid = fork();
	if (pid == 0) {
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 77)
		fail_msg("at %s the daemon ended with %#x", point, (unsigned int)status);
	rig_open(&rig);
}

/* As if nothing had happened: one sandbox, its files and its processes, and nothing else. */
static void check_clean(const char *point, const char *id)
{
	struct sandbox_info *infos = NULL;
	char *cursor = NULL;
	size_t n = 0;

	assert_int_equal(core_list(rig.core, &rig.admin, &(struct core_list_request){ 0 }, &infos,
				   &n, &cursor, NULL),
			 0);
	if (n != 1 || !str_eq(infos[0].id, id))
		fail_msg("after %s there are %zu sandboxes", point, n);
	print_message("%s: %s after recovery\n", point, sandbox_status_name(infos[0].status));
	core_list_clear(infos, n);
	assert_int_equal(count_names("sandboxes", "sbx_"), 1);
	assert_int_equal(count_names("forks", ""), 0);
	rig_expect(&rig, id, "cat ~/mark", "alive\n");
}

static void test_a_daemon_that_dies_at_each_step(void **state)
{
	char id[SANDBOX_ID_SIZE];
	long count, before;

#ifndef SKERRY_ABORT_POINTS
	skip();
#endif
	rig_create(&rig, NULL, id);
	rig_expect(&rig, id, "echo alive >~/mark", "");
	in_background(id, "n=0; while :; do n=$((n+1)); echo $n >>~/count; sleep 0.3; done");
	free(output_of(id, "until [ -s ~/count ]; do sleep 0.1; done"));
	for (size_t i = 0; i < ARRAY_SIZE(abort_points); i++) {
		before = number_of(id, "tail -n 1 ~/count");
		die_at(abort_points[i], id);
		check_clean(abort_points[i], id);
		/* What ran before goes on, whoever let it. */
		count = number_of(id, "sleep 1; tail -n 1 ~/count");
		assert_true(count > before);
		if (str_eq(abort_points[i], "snapshot.sealed")) /* it may be complete, or gone */
			core_snapshot_remove(rig.core, &rig.admin, "dies", NULL);
		assert_int_equal(count_names("snapshots", ""), 0);
	}
	rig_destroy(&rig, id);
	rig_assert_no_residue(&rig, id, NULL);
}

/* ---- a full disk ---- */

/* Fills the file system of the state until so much is left. */
static void fill_disk(const char *path, int64_t left_bytes)
{
	struct statvfs fs;
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fstatvfs(fd, &fs), 0);
	assert_int_equal(posix_fallocate(fd, 0, (off_t)(fs.f_bavail * fs.f_frsize) - left_bytes),
			 0);
	close(fd);
}

static void test_disk_full_harms_nothing(void **state)
{
	const struct core_fork_request one = { .count = 1 };
	_cleanup_free_ char *filler = xasprintf("%s/state/filler", rig.dir);
	struct core_fork_result forks = { 0 };
	struct core_snapshot_info snapshot;
	struct sandbox_info info;
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE];
	int64_t kept = rig.core->limits.host_free_disk_mb_min;

	if (!disk_dir[0])
		skip();
	rig_create(&rig, NULL, id);
	rig_expect(&rig, id, "echo kept >~/mark; head -c 40000000 /dev/urandom >/dev/shm/x; sync",
		   "");
	rig.core->limits.host_free_disk_mb_min = 0;
	fill_disk(filler, 24 << 20);
	assert_true(core_pause(rig.core, &rig.admin, id, &info, &err) < 0);
	assert_string_equal(err_code_of(&err), "disk_full");
	assert_status(id, SANDBOX_RUNNING);
	rig_expect(&rig, id, "cat ~/mark", "kept\n");
	assert_true(core_fork(rig.core, &rig.admin, id, &one, &forks, &err) < 0);
	assert_string_equal(err_code_of(&err), "disk_full");
	assert_true(core_snapshot_create(rig.core, &rig.admin, id, "full", &snapshot, &err) < 0);
	assert_string_equal(err_code_of(&err), "disk_full");
	rig_expect(&rig, id, "cat ~/mark", "kept\n");
	assert_int_equal(count_names("forks", ""), 0);
	assert_int_equal(count_names("snapshots", ""), 0);
	unlink(filler);
	rig.core->limits.host_free_disk_mb_min = kept;
	must_pause(id);
	/* No room to compress it: it stays as it is, and whole. */
	fill_disk(filler, 24 << 20);
	assert_int_equal(shrink_paused(rig.core, clock_unix_ms() + 1000), 0);
	assert_compressed(id, false);
	unlink(filler);
	rig_expect(&rig, id, "cat ~/mark", "kept\n");
	rig_destroy(&rig, id);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ten_cycles),
		cmocka_unit_test(test_stream_across_pauses),
		cmocka_unit_test(test_fifty_requests_resume_once),
		cmocka_unit_test(test_paused_are_listed_and_destroyed),
		cmocka_unit_test(test_damage_is_named),
		cmocka_unit_test(test_paused_at_its_deadline),
		cmocka_unit_test(test_idle_is_paused_and_a_job_is_not),
		cmocka_unit_test(test_eight_forks),
		cmocka_unit_test(test_fork_of_a_paused_one),
		cmocka_unit_test(test_fork_beyond_the_quota_makes_none),
		cmocka_unit_test(test_standby),
		cmocka_unit_test(test_named_snapshot),
		cmocka_unit_test(test_a_daemon_that_dies_at_each_step),
		cmocka_unit_test(test_disk_full_harms_nothing),
	};

	log_init(LOG_LVL_WARN);
	if (argc == 5 && str_eq(argv[1], "--abort"))
		return be_aborted(argv[2], argv[3], argv[4]);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, make, remove_all);
}
