/*
 * Forks, named snapshots, what stands ready, and a full disk: one state, and many that start from
 * it. With real VMs; one image and one template serve all tests.
 */
#include "state_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "loop/spawn.h"
#include "store/intervals.h"

static struct rig rig;
static struct small_disk disk;

static int make(void **state)
{
	small_disk_enter(&disk);
	rig_make(&rig);
	return 0;
}

static int remove_all(void **state)
{
	rig_remove(&rig);
	small_disk_leave(&disk);
	return 0;
}

/* ---- forks ---- */

/* The command's lines, each of which must differ from that of every other child. */
static void assert_all_differ(const struct core_fork_result *forks, const char *command)
{
	char *texts[FORK_COUNT_MAX];

	for (size_t i = 0; i < forks->n; i++)
		texts[i] = rig_output(&rig, forks->children[i].id, command);
	for (size_t i = 0; i < forks->n; i++) {
		char *rest, *copy = xstrdup(texts[i]);

		for (char *line = strtok_r(copy, "\n", &rest); line;
		     line = strtok_r(NULL, "\n", &rest)) {
			for (size_t k = 0; k < forks->n; k++) {
				if (k != i && strstr(texts[k], line))
					fail_msg("of forks %zu and %zu the same: %s", i, k, line);
			}
		}
		free(copy);
	}
	for (size_t i = 0; i < forks->n; i++)
		free(texts[i]);
}

static void must_run(const char *const *argv)
{
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct err err = ERR_INIT;

	spec.argv = argv;
	if (spawn_run(&spec, clock_boottime_ms() + rig_patience_ms(120000), NULL, 0, NULL, NULL,
		      &err) < 0)
		fail_msg("%s: %s", argv[0], err.message);
}

/* In a copy of a paused one's disk: the journal is replayed, by a mount, and then nothing is left
 * to be repaired. */
static void check_disk_of(const char *id)
{
	_cleanup_free_ char *path = xasprintf("%s/state/sandboxes/%s/disk", rig.dir, id);
	_cleanup_free_ char *copy = xasprintf("%s/fsck.img", rig.dir);
	_cleanup_free_ char *dir = xasprintf("%s/fsck", rig.dir);
	const char *const mount[] = { "mount", "-o", "loop", copy, dir, NULL };
	const char *const umount[] = { "umount", dir, NULL };
	const char *const check[] = { "e2fsck", "-fn", copy, NULL };

	assert_int_equal(file_copy_sparse(path, copy, 0600), 0);
	assert_int_equal(dir_make(dir, 0700), 0);
	must_run(mount);
	must_run(umount);
	must_run(check);
	rmdir(dir);
	unlink(copy);
}

/* A program that was running before the fork. Its commands go on only after the generation was
 * raised, so that what it draws in its first round after that, some 20 ms later at most, is the
 * first that this child draws. */
static const char drawer[] = "import os,time\n"
			     "def generation(): return open('/run/skerry/generation').read()\n"
			     "def draw(): return os.urandom(16).hex()+' '+"
			     "open('/proc/sys/kernel/random/uuid').read().strip()\n"
			     "before=generation()\n"
			     "open('/tmp/ready','w').write('x')\n"
			     "while generation()==before: draw(); time.sleep(0.02)\n"
			     "open('/tmp/drawn','w').write(draw()+'\\n')\n"
			     "os.rename('/tmp/drawn','/tmp/draw')\n";

/* Each child's files have its own content; of three directories one goes again. */
static const char writer[] =
	"mkdir -p ~/heavy && cd ~/heavy && for k in $(seq $ROUNDS); do"
	" yes $(hostname)-$k | head -c 1000000 >f$k; md5sum f$k >>sums;"
	" mkdir d$k; (cd d$k && touch $(seq 50));"
	" [ $((k % 3)) = 0 ] && { rm -r d$((k - 1)); sync; }; done; sync; touch ~/written";

static void make_source(char id[SANDBOX_ID_SIZE])
{
	const struct core_create_request req = { .name = "source", .timeout_minutes = 60 };
	_cleanup_free_ char *command =
		xasprintf("cat >~/draw.py <<'END'\n%sEND\npython3 ~/draw.py", drawer);

	rig_create(&rig, &req, id);
	rig_start_server_and_counter(&rig, id);
	rig_background(&rig, id, command);
	rig_expect(&rig, id,
		   "echo shared >~/mark; mkdir ~/kept; for k in 1 2 3; do"
		   " head -c 1000000 /dev/urandom >~/kept/$k; done; sync;"
		   "while [ ! -s /tmp/ready ]; do sleep 0.1; done",
		   "");
}

static const char hash_kept[] = "cd ~/kept && cat * | sha256sum";

/* All that ran in the source runs in the child, which is somebody else. */
static void check_child(const struct sandbox_info *child, size_t i, const char *source_id)
{
	_cleanup_free_ char *name = xasprintf("child-%zu", i + 1);
	_cleanup_free_ char *who = xasprintf("shared\n%s\n2\n", name);

	assert_string_equal(child->parent_id, source_id);
	assert_string_equal(child->name, name);
	/* The counter goes on. */
	rig_expect(
		&rig, child->id,
		"n=$(tail -n 1 ~/count); while [ \"$(tail -n 1 ~/count)\" = \"$n\" ]; do sleep 0.1;"
		"done; cat ~/mark; hostname; cat /run/skerry/generation",
		who);
	rig_check_server(&rig, child->id);
}

/* What it drew first after the fork (random bytes, and a UUID of the kernel's), who it is, and what
 * it would draw now. */
static void check_distinct(const struct core_fork_result *forks)
{
	assert_all_differ(forks,
			  "while [ ! -s /tmp/draw ]; do sleep 0.1; done; tr ' ' '\\n' </tmp/draw;"
			  "cat /etc/machine-id; hostname; cat /proc/sys/kernel/random/uuid;"
			  "head -c 16 /dev/urandom | od -An -tx1");
}

/* All write at once; what each has written is its own, and whole. Where a machine is a hundred
 * times slower, all of it would take the sandboxes' lifetime: a third of it there. */
static void write_heavily(const struct core_fork_result *forks)
{
	const int rounds = rig_patience_ms(1) > 1 ? 3 : 9;
	_cleanup_free_ char *write = xasprintf("ROUNDS=%d; %s", rounds, writer);
	_cleanup_free_ char *check =
		xasprintf("while [ ! -e ~/written ]; do sleep 0.2; done; cd ~/heavy;"
			  "md5sum --quiet -c sums && [ $(ls -d d* | wc -l) = %d ] &&"
			  "cut -c -32 sums",
			  rounds * 2 / 3);

	for (size_t i = 0; i < forks->n; i++)
		rig_background(&rig, forks->children[i].id, write);
	assert_all_differ(forks, check);
}

static void check_source(const char *id, const char *kept, long count)
{
	struct sandbox_info info;

	rig_expect(&rig, id, hash_kept, kept);
	rig_expect(&rig, id,
		   "cat ~/mark; hostname; cat /run/skerry/generation;"
		   "ls -d ~/heavy ~/written /tmp/draw 2>/dev/null || true",
		   "shared\nsource\n1\n");
	rig_check_server(&rig, id);
	assert_true(rig_number(&rig, id, "tail -n 1 ~/count") > count);
	rig_get(&rig, id, &info);
	assert_int_equal(info.generation, 1);
	sandbox_info_clear(&info);
}

static void test_eight_forks(void **state)
{
	const struct core_fork_request req = { .count = 8, .name = "child" };
	struct core_fork_result forks = { 0 };
	_cleanup_free_ char *kept = NULL;
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE];
	int64_t began;
	long count;

	make_source(id);
	kept = rig_output(&rig, id, hash_kept);
	count = rig_number(&rig, id, "tail -n 1 ~/count");
	began = clock_boottime_ms();
	if (core_fork(rig.core, &rig.admin, id, &req, &forks, &err) < 0)
		fail_msg("fork: %s (%s)", err.message, err_code_of(&err));
	print_message("eight forks: %lld ms, source held %lld ms\n",
		      (long long)(clock_boottime_ms() - began), (long long)forks.source_held_ms);
	assert_int_equal(forks.n, 8);
	for (size_t i = 0; i < forks.n; i++)
		check_child(&forks.children[i], i, id);
	check_distinct(&forks);
	write_heavily(&forks);
	check_source(id, kept, count);
	for (size_t i = 0; i < forks.n; i++) {
		rig_expect(&rig, forks.children[i].id, hash_kept, kept);
		rig_pause(&rig, forks.children[i].id);
		check_disk_of(forks.children[i].id);
		rig_destroy(&rig, forks.children[i].id);
	}
	core_fork_result_clear(&forks);
	check_source(id, kept, count);
	rig_pause(&rig, id);
	check_disk_of(id);
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
	rig_pause(&rig, id);
	if (core_fork(rig.core, &rig.admin, id, &req, &forks, &err) < 0)
		fail_msg("fork: %s", err.message);
	rig_assert_status(&rig, id, SANDBOX_PAUSED);
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
	int64_t began, deadline = clock_boottime_ms() + rig_patience_ms(60000);

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
	a = rig_output(&rig, first, "cat /etc/machine-id");
	b = rig_output(&rig, second, "cat /etc/machine-id");
	assert_string_not_equal(a, b);
	rig_get(&rig, first, &info);
	assert_int_equal(info.expires_unix_ms - info.created_unix_ms, 15 * 60000);
	sandbox_info_clear(&info);
	rig_expect(&rig, first, "echo x >~/f", "");
	rig_pause(&rig, first);
	rig_expect(&rig, first, "cat ~/f", "x\n");
	rig_destroy(&rig, first);
	rig_destroy(&rig, second);
	/* One that nobody took is gone with the daemon. */
	rig.core->limits.standby_per_template = 1;
	while (!standby_count(rig.core) && clock_boottime_ms() < deadline + rig_patience_ms(60000))
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
	rig_pause(&rig, b);
	rig_expect(&rig, b, "cat ~/mark", "first\n");
	rig_destroy(&rig, a);
	rig_destroy(&rig, b);
	assert_int_equal(
		rig_try_create(&rig, &(struct core_create_request){ .snapshot = "one" }, a, &err),
		-ENOENT);
	assert_string_equal(err_code_of(&err), "snapshot_not_found");
}

/* ---- a full disk ---- */

static void test_disk_full_harms_nothing(void **state)
{
	const struct core_fork_request one = { .count = 1 };
	_cleanup_free_ char *filler = xasprintf("%s/state/filler", rig.dir), *memory = NULL;
	struct core_fork_result forks = { 0 };
	struct core_snapshot_info snapshot;
	struct sandbox_info info;
	struct err err = ERR_INIT;
	char id[SANDBOX_ID_SIZE];
	int64_t kept = rig.core->limits.host_free_disk_mb_min;

	if (!disk.dir[0])
		skip();
	rig_create(&rig, NULL, id);
	rig_expect(&rig, id, "echo kept >~/mark; head -c 40000000 /dev/urandom >/dev/shm/x; sync",
		   "");
	rig.core->limits.host_free_disk_mb_min = 0;
	small_disk_fill(&disk, filler, 24 << 20);
	assert_true(core_pause(rig.core, &rig.admin, id, &info, &err) < 0);
	assert_string_equal(err_code_of(&err), "disk_full");
	assert_null(strstr(err.message, rig.dir)); /* what lies where on the host is not theirs */
	rig_assert_status(&rig, id, SANDBOX_RUNNING);
	rig_expect(&rig, id, "cat ~/mark", "kept\n");
	assert_true(core_fork(rig.core, &rig.admin, id, &one, &forks, &err) < 0);
	assert_string_equal(err_code_of(&err), "disk_full");
	assert_null(strstr(err.message, rig.dir));
	assert_true(core_snapshot_create(rig.core, &rig.admin, id, "full", &snapshot, &err) < 0);
	assert_string_equal(err_code_of(&err), "disk_full");
	assert_null(strstr(err.message, rig.dir));
	rig_expect(&rig, id, "cat ~/mark", "kept\n");
	assert_int_equal(rig_count_names(&rig, "forks", ""), 0);
	assert_int_equal(rig_count_names(&rig, "snapshots", ""), 0);
	unlink(filler);
	rig.core->limits.host_free_disk_mb_min = kept;
	rig_pause(&rig, id);
	/* No room to compress it: it stays as it is, and whole. */
	memory = xasprintf("%s/state/sandboxes/%s/pause/" SAVED_MEMORY, rig.dir, id);
	small_disk_fill(&disk, filler, 24 << 20);
	assert_int_equal(shrink_paused(rig.core, clock_unix_ms() + 1000), 0);
	assert_int_equal(access(memory, F_OK), 0);
	unlink(filler);
	rig_expect(&rig, id, "cat ~/mark", "kept\n");
	rig_destroy(&rig, id);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_eight_forks),
		cmocka_unit_test(test_fork_of_a_paused_one),
		cmocka_unit_test(test_fork_beyond_the_quota_makes_none),
		cmocka_unit_test(test_standby),
		cmocka_unit_test(test_named_snapshot),
		cmocka_unit_test(test_disk_full_harms_nothing),
	};

	log_init(LOG_LVL_WARN);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, make, remove_all);
}
