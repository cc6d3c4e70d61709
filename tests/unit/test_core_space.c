/*
 * What the state directory holds: what it takes by kind, and which templates go when nothing refers
 * to them any more.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "core/internal.h"

#define EIGHT(c)     c c c c c c c c
#define DIGEST_OF(c) "sha256:" EIGHT(EIGHT(c))

static char dir[SCRATCH_SIZE], state_dir[SCRATCH_SIZE + 8];
static struct core_config config;
static struct core *core;
static struct principal admin;

static int setup(void **state)
{
	_cleanup_free_ char *images = NULL, *key_path = NULL;
	_cleanup_buf_ struct buf key = BUF_INIT;

	scratch_make(dir);
	snprintf(state_dir, sizeof(state_dir), "%s/state", dir);
	images = xasprintf("%s/images", dir);
	config = (struct core_config){ .state_dir = state_dir };
	core_limits_init(&config.limits);
	assert_int_equal(loop_new(&config.loop, NULL), 0);
	assert_int_equal(loop_start(config.loop, "loop", NULL), 0);
	assert_int_equal(pool_new(4, 100, &config.pool, NULL), 0);
	assert_int_equal(image_store_new(images, dir, &config.images, NULL), 0);
	assert_int_equal(core_new(&config, &core, NULL), 0);
	key_path = xasprintf("%s/admin.key", state_dir);
	assert_int_equal(file_read(key_path, 100, &key), 0);
	assert_int_equal(core_authenticate(core, key.data, key.len - 1, &admin, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	principal_clear(&admin);
	core_free(core, 1000);
	pool_free(config.pool);
	loop_free(config.loop);
	image_store_free(config.images);
	scratch_remove(dir);
	return 0;
}

/* A file of that size with so much in it, in a directory that is made. */
static void put(const char *sub, const char *name, off_t size, size_t bytes)
{
	_cleanup_free_ char *parent = xasprintf("%s/%s", state_dir, sub);
	_cleanup_free_ char *path = xasprintf("%s/%s", parent, name);
	_cleanup_free_ char *content = xcalloc(1, bytes + 1);
	_cleanup_close_ int fd = -1;

	assert_int_equal(dir_make(parent, 0700), 0);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	memset(content, 'x', bytes);
	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(pwrite(fd, content, bytes, 0), bytes);
	assert_int_equal(fsync(fd), 0); /* what is not on disk yet has no extents */
}

/* ---- what it takes ---- */

static int64_t figure(const json_t *report, const char *kind, const char *what)
{
	const json_t *item;
	size_t i;

	json_array_foreach(json_object_get(report, "items"), i, item) {
		if (str_eq(json_get_str(item, "name", ""), kind))
			return json_get_int(item, what, -1);
	}
	fail_msg("there is no '%s'", kind);
	return -1;
}

static void test_space_by_kind(void **state)
{
	_cleanup_json_ json_t *report = NULL;
	_cleanup_free_ char *from = xasprintf("%s/templates/t/memory", state_dir);
	_cleanup_free_ char *to = xasprintf("%s/templates/u/memory", state_dir);

	put("templates/t", "memory", 1 << 20, 1 << 16);
	put("templates/u", "state", 1000, 1000);
	assert_int_equal(link(from, to), 0);
	put("sandboxes/sbx_0123456789ab", "disk", 1 << 30, 1 << 17);
	put("sandboxes/sbx_0123456789ab/pause", "memory", 1 << 18, 1 << 18);
	put("sandboxes/sbx_0123456789ab/pause.partial-0123456789abcdef", "memory", 10, 10);
	put("sandboxes/sbx_0123456789ab/run", "record", 10, 10);
	put("sandboxes/not-ours", "disk", 1 << 20, 10);
	put("snapshots/snp_1", "disk", 1 << 21, 1 << 16);

	report = space_report(state_dir);
	assert_int_equal(figure(report, "templates", "files"), 2); /* two names of one are one */
	assert_int_equal(figure(report, "templates", "apparent_bytes"), (1 << 20) + 1000);
	assert_int_equal(figure(report, "paused", "files"), 2);
	assert_int_equal(figure(report, "paused", "apparent_bytes"), (1 << 18) + 10);
	assert_int_equal(figure(report, "disks", "files"), 1);
	assert_int_equal(figure(report, "disks", "apparent_bytes"), 1 << 30);
	assert_true(figure(report, "disks", "allocated_bytes") >= 1 << 17);
	assert_true(figure(report, "disks", "allocated_bytes") < 1 << 20);
	assert_int_equal(figure(report, "snapshots", "files"), 1);
	assert_int_equal(figure(report, "other", "files"), 1);
	assert_true(json_get_int(json_object_get(report, "file_system"), "free_bytes", -1) > 0);
}

/* Where files can share blocks it is told how much they do. */
static void test_space_shared(void **state)
{
	_cleanup_free_ char *from = NULL, *to = NULL;
	_cleanup_json_ json_t *report = NULL;

	if (!dir_has_reflink(state_dir)) {
		print_message("SKIPPED: the file system of %s has no reflink\n", state_dir);
		skip(); /* a longjmp: nothing may be held here */
	}
	from = xasprintf("%s/snapshots/a/disk", state_dir);
	to = xasprintf("%s/snapshots/b/disk", state_dir);
	put("snapshots/a", "disk", 1 << 20, 1 << 18);
	put("snapshots/b", "memory", 10, 10);
	assert_int_equal(file_copy_sparse(from, to, 0600), 0);
	report = space_report(state_dir);
	assert_int_equal(figure(report, "snapshots", "shared_bytes"), 2 << 18);
}

/* ---- garbage ---- */

static void make_template(char letter, const char *digest, const char *fingerprint)
{
	struct template template = { 0 };
	_cleanup_free_ char *path = NULL;
	char sub[64];

	memset(template.key, letter, 32);
	str_copy(template.image_digest, sizeof(template.image_digest), digest);
	snprintf(sub, sizeof(sub), "templates/%s", template.key);
	put(sub, "memory", 8192, 4096);
	put(sub, "state", 100, 100);
	put(sub, "disk", 8192, 4096);
	path = xasprintf("%s/%s", state_dir, sub);
	assert_int_equal(template_write_manifest(path, &template, fingerprint, NULL), 0);
}

static bool template_is_there(char letter)
{
	char key[33] = "";
	_cleanup_free_ char *path = NULL;

	memset(key, letter, 32);
	path = xasprintf("%s/templates/%s", state_dir, key);
	return access(path, F_OK) == 0;
}

static void add_sandbox_row(char letter, const char *status)
{
	struct sandbox_row row = {
		.size = "small",
		.milli_vcpus = 1000,
		.memory_mb = 1024,
		.disk_gb = 10,
		.image = "base",
		.image_digest = DIGEST_OF("1"),
		.isolation = "emulated",
		.labels = (char *)"{}",
		.uid = letter,
		.created_unix_ms = 1,
		.expires_unix_ms = 2,
	};
	const struct sandbox_end end = {
		.status = "destroyed",
		.ended_unix_ms = 3,
		.reason = "expired",
		.reason_text = "over",
	};
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	bool ended = str_eq(status, "destroyed");

	snprintf(row.id, sizeof(row.id), "sbx_00000000000%c", letter);
	str_copy(row.status, sizeof(row.status), ended ? "running" : status);
	str_copy(row.node_id, sizeof(row.node_id), core->node_id);
	str_copy(row.account_id, sizeof(row.account_id), admin.account_id);
	memset(row.template_key, letter, 32);
	assert_int_equal(db_begin_write(core->db, &txn, NULL), 0);
	assert_int_equal(sandboxes_insert(&txn, &row, NULL, 0, NULL), 0);
	if (ended)
		assert_int_equal(sandboxes_end(&txn, row.id, &end, NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
}

static void add_snapshot_row(char letter)
{
	struct snapshot_row row = {
		.id = "snp_1",
		.name = "one",
		.source_id = "sbx_1",
		.size = "small",
		.milli_vcpus = 1000,
		.memory_mb = 1024,
		.disk_gb = 10,
		.image = "base",
		.image_digest = DIGEST_OF("1"),
		.labels = (char *)"{}",
	};
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	str_copy(row.node_id, sizeof(row.node_id), core->node_id);
	str_copy(row.account_id, sizeof(row.account_id), admin.account_id);
	memset(row.template_key, letter, 32);
	assert_int_equal(db_begin_write(core->db, &txn, NULL), 0);
	assert_int_equal(snapshots_insert(&txn, &row, NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
}

static void remove_snapshot_row(void)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	assert_int_equal(db_begin_write(core->db, &txn, NULL), 0);
	assert_int_equal(snapshots_delete(&txn, "snp_1", NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
}

/* An image with that digest, as the store keeps it. */
static void make_image(void)
{
	static const char manifest[] =
		"{\"digest\": \"" DIGEST_OF("1") "\", \"size_bytes\": 4, \"config\": {}}";
	_cleanup_free_ char *json = xasprintf("%s/images/base.json", dir);
	_cleanup_free_ char *blobs = xasprintf("%s/images/blobs", dir);
	_cleanup_free_ char *blob = xasprintf("%s/" DIGEST_OF("1"), blobs);
	struct image_info info;
	struct err err = ERR_INIT;

	assert_int_equal(dir_make(blobs, 0700), 0);
	assert_int_equal(file_write_durable(json, manifest, strlen(manifest), 0600), 0);
	assert_int_equal(file_write_durable(blob, "root", 4, 0600), 0);
	if (image_get(config.images, "base", &info, &err) < 0)
		fail_msg("%s", err.message);
}

static void test_templates_go_when_nothing_refers_to_them(void **state)
{
	make_image();
	make_template('a', DIGEST_OF("1"), "now");
	make_template('b', DIGEST_OF("1"), "before"); /* another VMM or kernel … */
	make_template('c', DIGEST_OF("2"), "now");    /* … and another image */
	make_template('d', DIGEST_OF("1"), "before");
	make_template('e', DIGEST_OF("2"), "before");
	make_template('f', DIGEST_OF("1"), "before");
	add_sandbox_row('d', "paused");
	add_sandbox_row('f', "destroyed");
	add_snapshot_row('e');
	put("templates/00000000000000000000000000000000", "memory", 10, 10); /* half of one */
	put("templates/making", "memory", 10, 10);
	templates_collect_under(core, "now");
	assert_true(template_is_there('a')); /* can be used */
	assert_false(template_is_there('b'));
	assert_false(template_is_there('c'));
	assert_true(template_is_there('d'));  /* a paused sandbox needs it */
	assert_true(template_is_there('e'));  /* a snapshot does */
	assert_false(template_is_there('f')); /* a tombstone does not */
	assert_false(template_is_there('0'));

	remove_snapshot_row();
	templates_collect_under(core, "now");
	assert_true(template_is_there('d'));
	assert_false(template_is_there('e'));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_space_by_kind),
		TEST(test_space_shared),
		TEST(test_templates_go_when_nothing_refers_to_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
