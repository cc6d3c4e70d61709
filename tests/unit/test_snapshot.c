/*
 * Snapshot directories: present means complete; whatever is wrong with one is named; what is left
 * of a maker that was killed is no snapshot.
 */
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "base/rand.h"
#include "base/str.h"
#include "snapshot/compress.h"
#include "snapshot/delta.h"
#include "snapshot/refs.h"
#include "snapshot/seal.h"
#include "snapshot_child.h"

#define PAGE   4096
#define MEMORY ((size_t)256 * PAGE)

static char scratch[SCRATCH_SIZE], dir[SCRATCH_SIZE + 16], base_path[SCRATCH_SIZE + 16];
static struct child source;

static void write_some(uint8_t *memory, void *arg)
{
	memset(memory + 3 * PAGE, 0x5a, 40 * PAGE);
	memset(memory + 60 * PAGE, 0, PAGE);
}

static int set_up(void **state)
{
	_cleanup_free_ uint8_t *content = xmalloc(MEMORY);

	scratch_make(scratch);
	snprintf(dir, sizeof(dir), "%s/snap-1", scratch);
	snprintf(base_path, sizeof(base_path), "%s/memory", scratch);
	rand_bytes(content, MEMORY);
	assert_int_equal(file_write_durable(base_path, content, MEMORY, 0600), 0);
	source = child_start(base_path, MEMORY, write_some, NULL);
	return 0;
}

static int tear_down(void **state)
{
	child_end(&source);
	scratch_remove(scratch);
	return 0;
}

static struct manifest example(void)
{
	struct manifest m = {
		.id = "snap-1",
		.kind = "pause",
		.created_unix_ms = 1796000000123,
		.vmm_fingerprint = "qemu 7.2.22 microvm tcg, kernel 6.1",
		.image_digest = "sha256:abc",
		.vcpus = 2,
		.memory_mb = 512,
		.disk_gb = 10,
		.base = { .key = "tpl-1", .bytes = MEMORY, .hash = "" },
		.parent = "snap-0",
	};
	return m;
}

static struct err why; /* of the call within CHECK */

#define CHECK(call)                                                                                \
	do {                                                                                       \
		if ((call) < 0)                                                                    \
			fail_msg("%s: %s", #call, why.message);                                    \
	} while (0)

static void put_file(const char *in, const char *name, const void *data, size_t len)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", in, name);

	assert_int_equal(file_write_durable(path, data, len, 0600), 0);
}

static void fill_draft(const struct snapshot_draft *draft, struct manifest *manifest)
{
	_cleanup_free_ char *delta = xasprintf("%s/memory.delta", draft->path);
	struct delta_stats stats;

	CHECK(delta_save(source.pid, base_path, delta, NULL, &stats, &why));
	put_file(draft->path, "devices", "device state", 12);
	put_file(draft->path, "disk", "disk", 4);
	CHECK(snapshot_draft_add(draft, "memory.delta", SNAPSHOT_HASH_DELTA, manifest, &why));
	CHECK(snapshot_draft_add(draft, "devices", SNAPSHOT_HASH_CONTENT, manifest, &why));
	CHECK(snapshot_draft_add(draft, "disk", SNAPSHOT_HASH_NONE, manifest, &why));
}

/* A sealed snapshot in dir; returns its manifest. */
static struct manifest make_snapshot(void)
{
	struct snapshot_draft draft = SNAPSHOT_DRAFT_INIT;
	struct manifest manifest = example();

	assert_int_equal(tree_remove(dir), 0);
	CHECK(snapshot_draft(dir, &draft, &why));
	fill_draft(&draft, &manifest);
	CHECK(snapshot_seal(&draft, &manifest, &why));
	snapshot_draft_clear(&draft);
	return manifest;
}

static void assert_open_fails(const char *code)
{
	struct manifest manifest;
	struct err err = ERR_INIT;

	assert_true(snapshot_open(dir, NULL, &manifest, &err) < 0);
	assert_string_equal(err_code_of(&err), code);
	assert_true(err.message[0]);
}

/* ---- manifest ---- */

static void manifest_goes_and_comes_back(void **state)
{
	struct manifest in = example(), out;
	_cleanup_buf_ struct buf text = BUF_INIT;
	_cleanup_buf_ struct buf again = BUF_INIT;

	in.n_files = 2;
	in.files[0] = (struct manifest_file){
		.name = "memory.delta.zst",
		.bytes = 5,
		.hash = "xxh3-128:00112233445566778899aabbccddeeff",
		.plain_bytes = (uint64_t)1 << 40,
		.plain_hash = "delta-xxh3:00112233445566778899aabbccddeeff",
	};
	in.files[1] = (struct manifest_file){ .name = "disk", .bytes = 0 };
	manifest_encode(&in, &text);
	CHECK(manifest_decode(text.data, text.len, &out, &why));
	manifest_encode(&out, &again);
	assert_string_equal(buf_str(&text), buf_str(&again));
	assert_string_equal(out.base.key, "tpl-1");
	assert_int_equal(out.created_unix_ms, in.created_unix_ms);
	assert_true(out.files[0].plain_bytes == (uint64_t)1 << 40);
	assert_ptr_equal(manifest_file(&out, "disk"), &out.files[1]);
	assert_null(manifest_file(&out, "none"));
}

/* Every single flipped bit and every cut is found, or changes nothing that is read. */
static void manifest_that_is_damaged(void **state)
{
	struct manifest in = example(), out;
	_cleanup_buf_ struct buf text = BUF_INIT;
	struct err err = ERR_INIT;

	in.n_files = 1;
	in.files[0] = (struct manifest_file){ .name = "disk", .bytes = 77 };
	manifest_encode(&in, &text);
	for (size_t i = 0; i + 1 < text.len; i++) {
		for (int bit = 0; bit < 8; bit++) {
			text.data[i] = (char)(text.data[i] ^ (1 << bit));
			if (manifest_decode(text.data, text.len, &out, &err) == 0)
				fail_msg("bit %d of byte %zu makes no difference", bit, i);
			assert_true(str_eq(err_code_of(&err), CODE_SNAPSHOT_DAMAGED) ||
				    str_eq(err_code_of(&err), CODE_SNAPSHOT_VERSION));
			text.data[i] = (char)(text.data[i] ^ (1 << bit));
		}
		assert_true(manifest_decode(text.data, i, &out, &err) < 0);
	}
	assert_int_equal(manifest_decode(text.data, text.len, &out, &err), 0);
}

static void manifest_of_another_format(void **state)
{
	const char text[] = "{\"format\":2,\"what\":\"ever\"}";
	struct manifest out;
	struct err err = ERR_INIT;

	assert_true(manifest_decode(text, sizeof(text) - 1, &out, &err) < 0);
	assert_string_equal(err_code_of(&err), CODE_SNAPSHOT_VERSION);
}

static void names_that_are_files(void **state)
{
	assert_true(manifest_word_valid("memory.delta"));
	assert_false(manifest_word_valid(""));
	assert_false(manifest_word_valid(".."));
	assert_false(manifest_word_valid(".hidden"));
	assert_false(manifest_word_valid("a/b"));
	assert_false(manifest_word_valid("a b"));
}

static void assert_same_files(const struct manifest *a, const struct manifest *b)
{
	assert_int_equal(a->n_files, b->n_files);
	for (size_t i = 0; i < a->n_files; i++) {
		assert_string_equal(a->files[i].name, b->files[i].name);
		assert_int_equal(a->files[i].bytes, b->files[i].bytes);
		assert_string_equal(a->files[i].hash, b->files[i].hash);
		assert_int_equal(a->files[i].plain_bytes, b->files[i].plain_bytes);
		assert_string_equal(a->files[i].plain_hash, b->files[i].plain_hash);
	}
}

/* ---- sealing ---- */

static void sealed_is_complete(void **state)
{
	struct manifest made = make_snapshot(), read;
	struct snapshot_draft draft = SNAPSHOT_DRAFT_INIT;
	struct err err = ERR_INIT;

	CHECK(snapshot_open(dir, made.vmm_fingerprint, &read, &why));
	assert_int_equal(read.n_files, 3);
	assert_same_files(&read, &made);
	CHECK(snapshot_verify(dir, &read, &why));
	CHECK(snapshot_check_base(&read, base_path, &why));
	/* there is one already */
	assert_int_equal(snapshot_draft(dir, &draft, &err), -EEXIST);
	assert_string_equal(err_code_of(&err), "conflict");
}

static void drafts_are_no_snapshots(void **state)
{
	struct snapshot_draft draft = SNAPSHOT_DRAFT_INIT;
	struct manifest manifest = example(), read;
	_cleanup_free_ char *path = NULL;
	unsigned int removed;

	assert_int_equal(tree_remove(dir), 0);
	CHECK(snapshot_draft(dir, &draft, &why));
	path = xstrdup(draft.path);
	assert_true(snapshot_is_partial(strrchr(path, '/') + 1));
	fill_draft(&draft, &manifest);
	assert_open_fails(CODE_SNAPSHOT_NOT_FOUND);
	assert_int_equal(snapshot_open(path, NULL, &read, NULL), -ENOENT); /* no manifest */
	/* it is being made: a sweep leaves it alone */
	CHECK(snapshot_sweep(scratch, &removed, &why));
	assert_int_equal(removed, 0);
	assert_int_equal(access(path, F_OK), 0);
	snapshot_draft_clear(&draft);
	assert_int_equal(access(path, F_OK), -1);
}

/* Lists a file that is not in the draft. */
static void seal_refuses_what_is_not_there(void **state)
{
	struct snapshot_draft draft = SNAPSHOT_DRAFT_INIT;
	struct manifest manifest = example();
	_cleanup_free_ char *lost = NULL;
	struct err err = ERR_INIT;

	assert_int_equal(tree_remove(dir), 0);
	CHECK(snapshot_draft(dir, &draft, &why));
	fill_draft(&draft, &manifest);
	assert_int_equal(snapshot_draft_add(&draft, "../x", SNAPSHOT_HASH_NONE, &manifest, &err),
			 -EINVAL);
	assert_int_equal(snapshot_draft_add(&draft, "disk", SNAPSHOT_HASH_NONE, &manifest, &err),
			 -EINVAL);
	lost = xasprintf("%s/devices", draft.path);
	assert_int_equal(unlink(lost), 0);
	assert_true(snapshot_seal(&draft, &manifest, &err) < 0);
	assert_string_equal(err_code_of(&err), CODE_SNAPSHOT_INCOMPLETE);
	snapshot_draft_clear(&draft);
	assert_open_fails(CODE_SNAPSHOT_NOT_FOUND);
}

/* Makes one snapshot after the other in a folder until it is killed. */
static void seal_without_end(const char *folder)
{
	for (unsigned int i = 0;; i++) {
		_cleanup_free_ char *path = xasprintf("%s/%u", folder, i);
		struct snapshot_draft draft = SNAPSHOT_DRAFT_INIT;
		struct manifest manifest = example();

		if (snapshot_draft(path, &draft, NULL) < 0)
			_exit(1);
		put_file(draft.path, "devices", "device state", 12);
		if (snapshot_draft_add(&draft, "devices", SNAPSHOT_HASH_CONTENT, &manifest, NULL) <
			    0 ||
		    snapshot_seal(&draft, &manifest, NULL) < 0)
			_exit(1);
		snapshot_draft_clear(&draft);
	}
}

/* Every directory but drafts is a whole snapshot; how many. */
static unsigned int assert_all_whole(const char *folder)
{
	DIR *entries = opendir(folder);
	struct dirent *entry;
	unsigned int n = 0;

	assert_non_null(entries);
	while ((entry = readdir(entries))) {
		_cleanup_free_ char *path = xasprintf("%s/%s", folder, entry->d_name);
		struct manifest manifest;

		if (entry->d_name[0] == '.' || snapshot_is_partial(entry->d_name))
			continue;
		CHECK(snapshot_open(path, NULL, &manifest, &why));
		CHECK(snapshot_verify(path, &manifest, &why));
		n++;
	}
	closedir(entries);
	return n;
}

static void killed_makers(void **state)
{
	_cleanup_free_ char *folder = xasprintf("%s/killed", scratch);
	unsigned int whole = 0, swept = 0;

	/* On a busy machine it takes more of them until some were met in the middle, and others got
	 * through. */
	for (unsigned int i = 0; i < 40 || (i < 400 && (swept == 0 || whole == 0)); i++) {
		unsigned int n, removed;
		pid_t pid;

		assert_int_equal(dir_make(folder, 0700), 0);
		pid = fork();
		if (pid == 0)
			seal_without_end(folder);
		usleep(500 + i * 700);
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* it has met no error */
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		n = assert_all_whole(folder);
		CHECK(snapshot_sweep(folder, &removed, &why));
		assert_in_range(removed, 0, 1);
		assert_int_equal(assert_all_whole(folder), n);
		whole += n;
		swept += removed;
		assert_int_equal(tree_remove(folder), 0);
	}
	assert_true(swept > 0 && whole > 0);
}

/* ---- damage ---- */

static void damage_is_named(void **state)
{
	struct manifest manifest = make_snapshot(), read;
	_cleanup_free_ char *devices = xasprintf("%s/devices", dir);
	_cleanup_free_ char *delta = xasprintf("%s/memory.delta", dir);
	_cleanup_free_ char *json = xasprintf("%s/" MANIFEST_NAME, dir);
	struct err err = ERR_INIT;
	struct stat st;

	/* saved under another VMM */
	assert_true(snapshot_open(dir, "qemu 9", &read, &err) < 0);
	assert_string_equal(err_code_of(&err), CODE_SNAPSHOT_VERSION);
	assert_true(err.hint[0]);
	/* same length, other bytes */
	put_file(dir, "devices", "Device state", 12);
	CHECK(snapshot_open(dir, NULL, &read, &why));
	assert_true(snapshot_verify(dir, &read, &err) < 0);
	assert_string_equal(err_code_of(&err), CODE_SNAPSHOT_DAMAGED);
	/* another length */
	put_file(dir, "devices", "x", 1);
	assert_open_fails(CODE_SNAPSHOT_DAMAGED);
	assert_int_equal(unlink(devices), 0);
	assert_open_fails(CODE_SNAPSHOT_INCOMPLETE);
	put_file(dir, "devices", "device state", 12);
	CHECK(snapshot_verify(dir, &manifest, &why));
	/* a bit of the memory's data */
	assert_int_equal(stat(delta, &st), 0);
	{
		_cleanup_close_ int fd = open(delta, O_RDWR | O_CLOEXEC);

		assert_int_equal(pwrite(fd, "!", 1, 2 * PAGE + 5), 1);
	}
	assert_true(snapshot_verify_file(dir, &manifest, "memory.delta", &err) < 0);
	assert_string_equal(err_code_of(&err), CODE_SNAPSHOT_DAMAGED);
	/* the base */
	assert_true(snapshot_check_base(&manifest, dir, &err) < 0);
	assert_string_equal(err_code_of(&err), CODE_SNAPSHOT_DAMAGED);
	assert_true(snapshot_check_base(&manifest, "/nowhere", &err) < 0);
	assert_string_equal(err_code_of(&err), CODE_SNAPSHOT_INCOMPLETE);
	/* the manifest */
	assert_int_equal(truncate(json, 20), 0);
	assert_open_fails(CODE_SNAPSHOT_DAMAGED);
	assert_int_equal(unlink(json), 0);
	assert_open_fails(CODE_SNAPSHOT_INCOMPLETE);
	assert_int_equal(tree_remove(dir), 0);
	assert_open_fails(CODE_SNAPSHOT_NOT_FOUND);
}

/* A delta file of another snapshot, whole in itself, is not this one's. */
static void files_mixed_up(void **state)
{
	struct manifest manifest = make_snapshot();
	_cleanup_free_ char *delta = xasprintf("%s/memory.delta", dir);
	struct child other = child_start(base_path, MEMORY, NULL, NULL);
	struct delta_stats stats;
	struct err err = ERR_INIT;

	assert_int_equal(unlink(delta), 0);
	CHECK(delta_save(other.pid, base_path, delta, NULL, &stats, &why));
	child_end(&other);
	assert_true(snapshot_verify_file(dir, &manifest, "memory.delta", &err) < 0);
	assert_string_equal(err_code_of(&err), CODE_SNAPSHOT_DAMAGED);
}

/* ---- compression ---- */

static void small_and_back(void **state)
{
	struct manifest plain = make_snapshot(), small, back;
	_cleanup_free_ char *delta = xasprintf("%s/memory.delta", dir);
	_cleanup_free_ char *aside = xasprintf("%s/aside", scratch);
	_cleanup_free_ char *stray = xasprintf("%s/memory.delta.new", dir);
	const struct manifest_file *file;
	struct delta_stats stats;
	unsigned int removed;
	struct err err = ERR_INIT;

	CHECK(snapshot_compress(dir, "memory.delta", COMPRESS_LEVEL_DEFAULT, NULL, &small, &why));
	file = manifest_file(&small, "memory.delta.zst");
	assert_non_null(file);
	assert_true(file->bytes < plain.files[0].bytes / 2);
	assert_int_equal(access(delta, F_OK), -1);
	CHECK(snapshot_open(dir, NULL, &back, &why));
	CHECK(snapshot_verify(dir, &back, &why));
	CHECK(snapshot_compress(dir, "memory.delta", 3, NULL, NULL, &why)); /* nothing to do */
	/* aside, the snapshot as it is */
	CHECK(snapshot_expand_to(dir, &small, "memory.delta", aside, &why));
	CHECK(delta_verify(aside, &stats, &why));
	assert_string_equal(stats.root, plain.files[0].hash);
	assert_int_equal(unlink(aside), 0);
	/* one that was cut short left something */
	put_file(dir, "memory.delta.new", "half", 4);
	CHECK(snapshot_sweep(scratch, &removed, &why));
	assert_int_equal(removed, 1);
	assert_int_equal(access(stray, F_OK), -1);
	/* in place */
	put_file(dir, "memory.delta.new", "half", 4);
	CHECK(snapshot_expand(dir, "memory.delta", &back, &why));
	assert_same_files(&back, &plain);
	CHECK(snapshot_verify(dir, &back, &why));
	CHECK(snapshot_expand(dir, "memory.delta", NULL, &why));
	assert_true(snapshot_compress(dir, "none", 3, NULL, NULL, &err) < 0);
	assert_string_equal(err_code_of(&err), CODE_SNAPSHOT_INCOMPLETE);
}

static void small_and_damaged(void **state)
{
	_cleanup_free_ char *small = NULL;
	_cleanup_free_ char *delta = NULL;
	_cleanup_free_ char *aside = NULL;
	struct manifest manifest;
	struct err err = ERR_INIT;
	size_t bytes;

	make_snapshot();
	small = xasprintf("%s/memory.delta.zst", dir);
	delta = xasprintf("%s/memory.delta", dir);
	aside = xasprintf("%s/aside", scratch);
	CHECK(snapshot_compress(dir, "memory.delta", 1, NULL, &manifest, &why));
	bytes = manifest_file(&manifest, "memory.delta.zst")->bytes;
	for (size_t at = 0; at < bytes; at += 1 + bytes / 97) {
		_cleanup_close_ int fd = open(small, O_RDWR | O_CLOEXEC);
		char byte;

		assert_int_equal(pread(fd, &byte, 1, (off_t)at), 1);
		byte = (char)(byte ^ 0x10);
		assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
		assert_true(snapshot_expand_to(dir, &manifest, "memory.delta", aside, &err) < 0);
		assert_string_equal(err_code_of(&err), CODE_SNAPSHOT_DAMAGED);
		assert_int_equal(access(aside, F_OK), -1);
		assert_true(snapshot_expand(dir, "memory.delta", NULL, &err) < 0);
		assert_int_equal(access(delta, F_OK), -1);
		byte = (char)(byte ^ 0x10);
		assert_int_equal(pwrite(fd, &byte, 1, (off_t)at), 1);
	}
	/* more than it says: no bomb */
	manifest.files[0].plain_bytes /= 2;
	assert_true(snapshot_expand_to(dir, &manifest, "memory.delta", aside, &err) < 0);
	assert_string_equal(err_code_of(&err), CODE_SNAPSHOT_DAMAGED);
	CHECK(snapshot_expand(dir, "memory.delta", NULL, &why));
}

/* Killed while it goes back and forth: always one of the two forms, whole. */
static void killed_compressors(void **state)
{
	make_snapshot();
	for (unsigned int i = 0; i < 25; i++) {
		struct manifest read;
		pid_t pid = fork();

		if (pid == 0)
			for (;;)
				if (snapshot_compress(dir, "memory.delta", 1, NULL, NULL, NULL) <
					    0 ||
				    snapshot_expand(dir, "memory.delta", NULL, NULL) < 0)
					_exit(1);
		usleep(300 + i * 900);
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* it has met no error */
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		CHECK(snapshot_open(dir, NULL, &read, &why));
		CHECK(snapshot_verify(dir, &read, &why));
		CHECK(snapshot_sweep(scratch, NULL, &why));
		CHECK(snapshot_verify(dir, &read, &why));
	}
}

/* What a compression in the background asked, and what it is answered. */
struct asked {
	bool cancel, refuse;
	int cancelled, locked, unlocked;
};

static bool ask_cancelled(void *arg)
{
	struct asked *asked = arg;

	asked->cancelled++;
	return asked->cancel;
}

static int ask_lock(void *arg, struct err *err)
{
	struct asked *asked = arg;
	struct manifest now;

	/* whole already, and not spoken of yet */
	CHECK(snapshot_open(dir, NULL, &now, &why));
	assert_non_null(manifest_file(&now, "memory.delta"));
	assert_int_equal(asked->locked++, 0);
	return asked->refuse ? err_set(err, -ESTALE, "it was resumed") : 0;
}

static void ask_unlock(void *arg)
{
	struct asked *asked = arg;
	struct manifest now;

	CHECK(snapshot_open(dir, NULL, &now, &why));
	assert_non_null(manifest_file(&now, "memory.delta.zst"));
	asked->unlocked++;
}

static void assert_still_plain(const struct manifest *plain)
{
	struct manifest now;
	unsigned int removed;

	CHECK(snapshot_open(dir, NULL, &now, &why));
	CHECK(snapshot_verify(dir, &now, &why));
	assert_int_equal(memcmp(&now.files[0], &plain->files[0], sizeof(now.files[0])), 0);
	CHECK(snapshot_sweep(scratch, &removed, &why));
	assert_int_equal(removed, 0); /* not even a left-over */
}

static void small_in_the_background(void **state)
{
	struct manifest plain = make_snapshot(), small;
	struct asked asked = { .cancel = true };
	const struct compress_hooks hooks = { &asked, ask_cancelled, ask_lock, ask_unlock };

	assert_int_equal(snapshot_compress(dir, "memory.delta", 3, &hooks, NULL, NULL), -ECANCELED);
	assert_int_equal(asked.locked, 0);
	assert_still_plain(&plain);

	asked = (struct asked){ .refuse = true };
	assert_int_equal(snapshot_compress(dir, "memory.delta", 3, &hooks, NULL, NULL), -ESTALE);
	assert_int_equal(asked.locked, 1);
	assert_int_equal(asked.unlocked, 0);
	assert_still_plain(&plain);

	asked = (struct asked){ 0 };
	CHECK(snapshot_compress(dir, "memory.delta", 3, &hooks, &small, &why));
	assert_true(asked.cancelled > 0);
	assert_int_equal(asked.unlocked, 1);
	CHECK(snapshot_verify(dir, &small, &why));
}

/* No room for the small file: a limit of file size stands for the full disk. */
static void small_without_room(void **state)
{
	struct manifest plain = make_snapshot();
	struct rlimit before, tight;
	void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	tight = (struct rlimit){ 16, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
	assert_int_equal(snapshot_compress(dir, "memory.delta", 3, NULL, NULL, NULL), -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	signal(SIGXFSZ, handler);
	assert_still_plain(&plain);
}

/* ---- room, references, sweeping ---- */

static void room(void **state)
{
	struct err err = ERR_INIT;

	CHECK(snapshot_space(scratch, 4096, 0, &why));
	assert_int_equal(snapshot_space(scratch, (uint64_t)1 << 60, 0, &err), -ENOSPC);
	assert_string_equal(err_code_of(&err), "disk_full");
	assert_true(err.hint[0]);
	assert_int_equal(snapshot_space(scratch, 0, UINT64_MAX, &err), -ENOSPC);
	assert_int_equal(snapshot_space(scratch, UINT64_MAX, UINT64_MAX, &err), -ENOSPC);
}

static void partial_names(void **state)
{
	assert_true(snapshot_is_partial("x.partial-0123456789abcdef"));
	assert_false(snapshot_is_partial(".partial-0123456789abcdef"));
	assert_false(snapshot_is_partial("x.partial-0123456789abcdeg"));
	assert_false(snapshot_is_partial("x.partial-0123456789abcde"));
	assert_false(snapshot_is_partial("x"));
}

static struct manifest named(const char *id, const char *parent, bool needs, const char *base,
			     const char *image)
{
	struct manifest m = { .needs_parent = needs };

	str_copy(m.id, sizeof(m.id), id);
	str_copy(m.parent, sizeof(m.parent), parent);
	str_copy(m.base.key, sizeof(m.base.key), base);
	str_copy(m.image_digest, sizeof(m.image_digest), image);
	return m;
}

static void references(void **state)
{
	const struct manifest all[] = {
		named("d", "c", true, "t1", "i1"),  named("c", "b", true, "t1", "i1"),
		named("b", "a", false, "t2", "i2"), /* came from a, does not need it */
		named("a", "", false, "t3", "i3"),  named("x", "y", true, "t4", "i4"),
		named("y", "x", true, "t4", "i4"), /* a circle, as no one makes it */
	};
	const struct manifest *list[ARRAY_SIZE(all)];
	const char *roots[] = { "d", "d", "x" };
	const char *bad[] = { "gone" };
	bool used[ARRAY_SIZE(all)];

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		list[i] = &all[i];
	assert_int_equal(refs_mark(list, ARRAY_SIZE(all), roots, 3, used), 0);
	assert_true(used[0] && used[1] && used[2] && used[4] && used[5]);
	assert_false(used[3]);
	assert_true(refs_base_used(list, ARRAY_SIZE(all), used, "t2"));
	assert_false(refs_base_used(list, ARRAY_SIZE(all), used, "t3"));
	assert_true(refs_image_used(list, ARRAY_SIZE(all), used, "i4"));
	assert_false(refs_image_used(list, ARRAY_SIZE(all), used, "i3"));
	assert_int_equal(refs_mark(list, ARRAY_SIZE(all), NULL, 0, used), 0);
	assert_false(refs_base_used(list, ARRAY_SIZE(all), used, "t1"));
	/* records and disk disagree: it is counted */
	assert_int_equal(refs_mark(list, ARRAY_SIZE(all), bad, 1, used), 1);
	assert_int_equal(refs_mark(list, 1, roots, 1, used), 1); /* d's parent is not there */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(manifest_goes_and_comes_back),
		cmocka_unit_test(manifest_that_is_damaged),
		cmocka_unit_test(manifest_of_another_format),
		cmocka_unit_test(names_that_are_files),
		cmocka_unit_test(sealed_is_complete),
		cmocka_unit_test(drafts_are_no_snapshots),
		cmocka_unit_test(seal_refuses_what_is_not_there),
		cmocka_unit_test(killed_makers),
		cmocka_unit_test(damage_is_named),
		cmocka_unit_test(files_mixed_up),
		cmocka_unit_test(small_and_back),
		cmocka_unit_test(small_and_damaged),
		cmocka_unit_test(small_in_the_background),
		cmocka_unit_test(small_without_room),
		cmocka_unit_test(killed_compressors),
		cmocka_unit_test(room),
		cmocka_unit_test(partial_names),
		cmocka_unit_test(references),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
