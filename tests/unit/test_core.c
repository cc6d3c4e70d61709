/* What of the core needs no VM: opening, keys, checks of requests, lists, reasons, template files.
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
#include "core/exec.h"
#include "core/internal.h"

struct fixture {
	char dir[SCRATCH_SIZE];
	struct core_config config;
	struct core *core;
	struct principal admin;
};

static void read_key(const struct fixture *f, char out[KEY_TEXT_SIZE])
{
	_cleanup_free_ char *path = xasprintf("%s/state/admin.key", f->dir);
	_cleanup_buf_ struct buf text = BUF_INIT;
	struct stat st;

	assert_int_equal(file_read(path, 100, &text), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(text.len, KEY_TEXT_SIZE); /* with a newline instead of the NUL */
	text.data[text.len - 1] = '\0';
	str_copy(out, KEY_TEXT_SIZE, text.data);
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	_cleanup_free_ char *images = NULL;
	char key[KEY_TEXT_SIZE];

	scratch_make(f->dir);
	images = xasprintf("%s/images", f->dir);
	f->config.state_dir = xasprintf("%s/state", f->dir);
	core_limits_init(&f->config.limits);
	assert_int_equal(loop_new(&f->config.loop, NULL), 0);
	assert_int_equal(loop_start(f->config.loop, "loop", NULL), 0);
	assert_int_equal(pool_new(4, 100, &f->config.pool, NULL), 0);
	assert_int_equal(image_store_new(images, f->dir, &f->config.images, NULL), 0);
	assert_int_equal(core_new(&f->config, &f->core, NULL), 0);
	read_key(f, key);
	assert_int_equal(core_authenticate(f->core, key, strlen(key), &f->admin, NULL), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	principal_clear(&f->admin);
	core_free(f->core, 1000);
	pool_free(f->config.pool);
	loop_free(f->config.loop);
	image_store_free(f->config.images);
	free((char *)f->config.state_dir);
	scratch_remove(f->dir);
	free(f);
	return 0;
}

/* ---- opening ---- */

static void test_second_daemon_is_refused(void **state)
{
	struct fixture *f = *state;
	struct core *second = NULL;
	struct err err = ERR_INIT;
	char pid[16];

	assert_int_equal(core_new(&f->config, &second, &err), -EBUSY);
	assert_string_equal(err_code_of(&err), "state_dir_locked");
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	assert_non_null(strstr(err.message, pid));
	assert_null(second);
}

static void test_key_survives_a_restart(void **state)
{
	struct fixture *f = *state;
	char before[KEY_TEXT_SIZE], after[KEY_TEXT_SIZE];
	struct principal who;

	read_key(f, before);
	core_free(f->core, 1000);
	assert_int_equal(core_new(&f->config, &f->core, NULL), 0);
	read_key(f, after);
	assert_string_equal(before, after);
	assert_int_equal(core_authenticate(f->core, after, strlen(after), &who, NULL), 0);
	assert_string_equal(who.account_id, f->admin.account_id);
	assert_true(who.admin);
	assert_true(str_starts(who.key_id, "key_"));
	assert_true(str_starts(who.account_id, "acc_"));
	principal_clear(&who);
}

static void test_wrong_keys(void **state)
{
	struct fixture *f = *state;
	char key[KEY_TEXT_SIZE];
	struct principal who;
	struct err err = ERR_INIT;
	size_t len;

	read_key(f, key);
	len = strlen(key);
	key[len - 1] = key[len - 1] == 'a' ? 'b' : 'a';
	assert_int_equal(core_authenticate(f->core, key, len, &who, &err), -EACCES);
	assert_string_equal(err_code_of(&err), "invalid_key");
	assert_int_equal(core_authenticate(f->core, key, len - 1, &who, &err), -EACCES);
	assert_int_equal(core_authenticate(f->core, "", 0, &who, &err), -EACCES);
	assert_null(strstr(err.message, key));
}

/* The text of the key is in no file but its own. */
static void test_key_is_stored_as_a_hash(void **state)
{
	struct fixture *f = *state;
	_cleanup_free_ char *path = xasprintf("%s/state/skerry.db", f->dir);
	_cleanup_free_ char *wal = xasprintf("%s-wal", path);
	_cleanup_buf_ struct buf bytes = BUF_INIT;
	char key[KEY_TEXT_SIZE], hash[KEY_HASH_SIZE];

	read_key(f, key);
	key_hash(key, strlen(key), hash);
	assert_int_equal(file_read(path, 1 << 24, &bytes), 0);
	assert_int_equal(file_read(wal, 1 << 24, &bytes), 0);
	assert_null(memmem(bytes.data, bytes.len, key, strlen(key)));
	assert_non_null(memmem(bytes.data, bytes.len, hash, strlen(hash)));
}

/* ---- requests ---- */

static void assert_create_refused(struct fixture *f, const struct core_create_request *req,
				  const char *code, const char *says)
{
	struct sandbox_info info;
	struct err err = ERR_INIT;

	assert_true(core_create(f->core, &f->admin, req, NULL, NULL, &info, &err) < 0);
	assert_string_equal(err_code_of(&err), code);
	assert_non_null(strstr(err.message, says));
}

static void test_create_says_what_is_wrong(void **state)
{
	struct fixture *f = *state;
	_cleanup_json_ json_t *bad_label = json_pack("{s:i}", "a", 1);
	_cleanup_json_ json_t *equals = json_pack("{s:s}", "a=b", "c");
	_cleanup_json_ json_t *many = json_object();
	struct sandbox_info *items;
	char *cursor = NULL;
	size_t n;

	for (int i = 0; i < 33; i++) {
		char name[8];

		snprintf(name, sizeof(name), "l%d", i);
		json_put_str(many, name, "x");
	}
#define REFUSED(code, says, ...)                                                                   \
	assert_create_refused(f, &(struct core_create_request){ __VA_ARGS__ }, code, says)
	REFUSED("invalid_argument", "size 'giant'", .size = "giant");
	REFUSED("invalid_argument", "given together", .milli_vcpus = 1000);
	REFUSED("invalid_argument", "cannot be given", .size = "small", .memory_mb = 512);
	REFUSED("invalid_argument", "vcpus 16 is not from 0.25 to 8", .milli_vcpus = 16000,
		.memory_mb = 512, .disk_gb = 10);
	REFUSED("invalid_argument", "memory_mb 100 is not from 256 to 16384", .milli_vcpus = 1000,
		.memory_mb = 100, .disk_gb = 10);
	REFUSED("invalid_argument", "disk_gb 61 is not from 10 to 60", .milli_vcpus = 1000,
		.memory_mb = 512, .disk_gb = 61);
	REFUSED("invalid_argument", "timeout_minutes 1441 is not from 1 to 1440",
		.timeout_minutes = 1441);
	REFUSED("invalid_argument", "name '-x'", .name = "-x");
	REFUSED("invalid_argument", "name 'A b'", .name = "A b");
	REFUSED("invalid_argument", "value of 'a' is not a string", .labels = bad_label);
	REFUSED("invalid_argument", "the key 'a=b'", .labels = equals);
	REFUSED("invalid_argument", "33 entries, the limit is 32", .labels = many);
	REFUSED("invalid_argument", "idempotency key has 0 bytes", .idempotency_key = "",
		.request_hash = "x");
	REFUSED("image_not_found", "no image 'base'", .size = "small");
	REFUSED("image_not_found", "no image '../x'", .image = "../x");
#undef REFUSED
	/* Nothing was changed by any of them. */
	assert_int_equal(core_list(f->core, &f->admin,
				   &(struct core_list_request){ .status = "all" }, &items, &n,
				   &cursor, NULL),
			 0);
	assert_int_equal(n, 0);
	core_list_clear(items, n);
}

static void test_full_disk_is_refused_before_anything(void **state)
{
	struct fixture *f = *state;

	f->core->limits.host_free_disk_mb_min = 1024LL * 1024 * 1024;
	assert_create_refused(f, &(struct core_create_request){ 0 }, "disk_full", "are kept free");
}

static void test_exec_requests(void **state)
{
	struct fixture *f = *state;
	const char *const no_equals[] = { "A", NULL };
	const char *const no_name[] = { "=x", NULL };
	const char *const good_env[] = { "A=", "B=c=d", NULL };
	_cleanup_free_ char *long_command = xcalloc(1, PROTO_COMMAND_MAX + 2);
	struct exec_start start;
	struct err err = ERR_INIT;

	memset(long_command, 'x', PROTO_COMMAND_MAX + 1);
#define CHECK(result, ...)                                                                         \
	assert_int_equal(exec_check(f->core, &f->admin,                                            \
				    &(struct core_exec_request){ __VA_ARGS__ }, &start, &err),     \
			 result)
	CHECK(-EINVAL, .command = "");
	CHECK(-EINVAL, .command = "a\0b", .command_len = 3);
	CHECK(-EINVAL, .command = long_command, .command_len = PROTO_COMMAND_MAX + 1);
	CHECK(-EINVAL, .command = "a", .command_len = 1, .timeout_ms = -1);
	CHECK(-EINVAL, .command = "a", .command_len = 1, .timeout_ms = 1440 * 60000 + 1);
	CHECK(-EINVAL, .command = "a", .command_len = 1, .env = no_equals);
	CHECK(-EINVAL, .command = "a", .command_len = 1, .env = no_name);
	CHECK(-EINVAL, .command = "a", .command_len = 1, .cwd = long_command);
	CHECK(-EINVAL, .command = "a", .command_len = 1, .user = long_command);
	CHECK(0, .command = "abc", .command_len = 2, .env = good_env);
#undef CHECK
	assert_string_equal(start.command, "ab");
	assert_true(exec_id_valid(start.exec_id));
	assert_int_equal(start.timeout_ms, 120000);
	exec_start_clear(&start);
	assert_false(exec_id_valid("exec_"));
	assert_false(exec_id_valid("exec_../../etc"));
	assert_false(exec_id_valid("exec_0123456789abcdef0123456789"));
}

static void test_unknown_ids_read_alike(void **state)
{
	struct fixture *f = *state;
	const char *const ids[] = { "sbx_0123456789ab", "sbx_", "", "../../etc",
				    "sbx_0123456789AB" };

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct sandbox_info info;
		struct err err = ERR_INIT;

		assert_int_equal(core_get(f->core, &f->admin, ids[i], &info, &err), -ENOENT);
		assert_string_equal(err_code_of(&err), "not_found");
		assert_int_equal(core_destroy(f->core, &f->admin, ids[i], &info, &err), -ENOENT);
		assert_int_equal(core_extend(f->core, &f->admin, ids[i], 1, &info, &err), -ENOENT);
	}
}

/* ---- tombstones and lists ---- */

static void add_row(struct fixture *f, const char *id, int64_t created, const char *reason)
{
	struct sandbox_row row = {
		.size = "small",
		.milli_vcpus = 1000,
		.memory_mb = 1024,
		.disk_gb = 10,
		.status = "running",
		.image = "base",
		.image_digest = "sha256:0",
		.isolation = "emulated",
		.labels = (char *)"{\"a\":\"b\"}",
		.uid = created,
		.created_unix_ms = created,
		.expires_unix_ms = created + 1,
	};
	struct sandbox_end end = {
		.status = "destroyed",
		.ended_unix_ms = created + 1,
		.reason = reason,
		.reason_text = "its lifetime ended",
	};
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	str_copy(row.id, sizeof(row.id), id);
	str_copy(row.node_id, sizeof(row.node_id), f->core->node_id);
	str_copy(row.account_id, sizeof(row.account_id), f->admin.account_id);
	assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
	assert_int_equal(sandboxes_insert(&txn, &row, NULL, 0, NULL), 0);
	if (reason)
		assert_int_equal(sandboxes_end(&txn, id, &end, NULL), 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
}

static void test_tombstones_are_found_and_final(void **state)
{
	struct fixture *f = *state;
	const struct core_exec_request req = { .command = "true", .command_len = 4 };
	struct core_exec_call *call;
	struct sandbox_info info;
	struct err err = ERR_INIT;

	add_row(f, "sbx_00000000000a", 1000, "expired");
	assert_int_equal(core_get(f->core, &f->admin, "sbx_00000000000a", &info, NULL), 0);
	assert_string_equal(info.reason, "expired");
	assert_string_equal(json_get_str(info.labels, "a", ""), "b");
	sandbox_info_clear(&info);
	assert_int_equal(core_destroy(f->core, &f->admin, "sbx_00000000000a", &info, NULL), 0);
	assert_int_equal(info.status, SANDBOX_DESTROYED);
	assert_string_equal(info.reason, "expired");
	sandbox_info_clear(&info);
	assert_int_equal(core_extend(f->core, &f->admin, "sbx_00000000000a", 1, &info, &err),
			 -ESHUTDOWN);
	assert_string_equal(err_code_of(&err), "already_ended");
	assert_non_null(strstr(err.message, "its lifetime ended"));
	assert_int_equal(
		core_exec(f->core, &f->admin, "sbx_00000000000a", &req, NULL, NULL, &call, &err),
		-ESHUTDOWN);
	assert_string_equal(err_code_of(&err), "sandbox_ended");
}

static void test_cursor_visits_each_once(void **state)
{
	struct fixture *f = *state;
	_cleanup_free_ char *cursor = NULL;
	char id[24];
	int seen = 0;

	for (int i = 0; i < 7; i++) {
		snprintf(id, sizeof(id), "sbx_%012x", i);
		add_row(f, id, 1000 + i / 2, "expired"); /* pairs made in the same millisecond */
	}
	do {
		struct core_list_request req = { .status = "all", .limit = 2, .cursor = cursor };
		struct sandbox_info *items;
		char *next = NULL;
		size_t n;

		assert_int_equal(core_list(f->core, &f->admin, &req, &items, &n, &next, NULL), 0);
		for (size_t i = 0; i < n; i++, seen++) {
			snprintf(id, sizeof(id), "sbx_%012x", 6 - seen);
			assert_string_equal(items[i].id, id);
		}
		core_list_clear(items, n);
		free(cursor);
		cursor = next;
	} while (cursor);
	assert_int_equal(seen, 7);
}

static void test_bad_lists(void **state)
{
	struct fixture *f = *state;
	const struct core_list_request bad[] = {
		{ .status = "sleeping" }, { .limit = 201 },	  { .cursor = "" },
		{ .cursor = "zz" },	  { .cursor = "616263" }, { .cursor = "3130305f7362785f" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct sandbox_info *items;
		struct err err = ERR_INIT;
		char *cursor;
		size_t n;

		assert_int_equal(core_list(f->core, &f->admin, &bad[i], &items, &n, &cursor, &err),
				 -EINVAL);
		assert_string_equal(err_code_of(&err),
				    bad[i].cursor ? "invalid_cursor" : "invalid_argument");
	}
}

static void test_reasons_from_records(void **state)
{
	static const struct {
		enum record_cause cause;
		const char *word, *reason;
	} cases[] = {
		{ RECORD_EXPIRED, "", "expired" },
		{ RECORD_ENDED, "out_of_credit", "out_of_credit" },
		{ RECORD_ENDED, "", "destroyed_by_user" },
		{ RECORD_GUEST_OFF, "", "destroyed_by_user" },
		{ RECORD_GUEST_PANIC, "", "guest_crashed" },
		{ RECORD_GUEST_OOM, "", "guest_out_of_memory" },
		{ RECORD_VMM_CRASHED, "", "vmm_crashed" },
		{ RECORD_START_FAILED, "", "vmm_crashed" },
		{ RECORD_RUNNING, "", "vmm_crashed" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct record record = {
			.started = true,
			.cause = cases[i].cause,
			.start_unix_ms = 100,
			.start_boottime_ms = 10,
			.expires_boottime_ms = 5010,
			.exit_unix_ms = 200,
			.detail = "last words",
		};
		struct sandbox_end end;
		char reason[32], text[256];

		str_copy(record.reason, sizeof(record.reason), cases[i].word);
		end_from_record(&record, 999, &end, reason, text);
		assert_string_equal(end.reason, cases[i].reason);
		assert_non_null(strstr(end.reason_text, "last words"));
		assert_int_equal(end.started_unix_ms, 100);
		assert_int_equal(end.ended_unix_ms, cases[i].cause == RECORD_RUNNING ? 999 : 200);
		/* Found long after its deadline it is not taken for longer. */
		end_from_record(&record, 99999, &end, reason, text);
		assert_int_equal(end.ended_unix_ms, cases[i].cause == RECORD_RUNNING ? 5100 : 200);
	}
}

/* ---- templates' files ---- */

static void make_file(const char *dir, const char *name, off_t size, off_t at, const char *text)
{
	_cleanup_free_ char *path = xasprintf("%s/%s", dir, name);
	_cleanup_close_ int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(pwrite(fd, text, strlen(text), at), strlen(text));
}

static void test_template_damage_is_seen(void **state)
{
	struct fixture *f = *state;
	const struct template template = { .key = "k", .image_digest = "sha256:1" };
	_cleanup_free_ char *dir = xasprintf("%s/template", f->dir);
	_cleanup_free_ char *memory = xasprintf("%s/template/memory", f->dir);
	_cleanup_free_ char *copy = xasprintf("%s/template/copy", f->dir);
	char digest[72];
	struct err err = ERR_INIT;

	assert_int_equal(dir_make(dir, 0700), 0);
	assert_int_equal(template_check(dir, "f", true, NULL, NULL), -ENOENT);
	make_file(dir, "memory", 64 << 20, 5 << 20, "page");
	make_file(dir, "disk", 1LL << 34, 1LL << 33, "block");
	make_file(dir, "state", 100, 0, "devices");
	assert_int_equal(template_write_manifest(dir, &template, "f", NULL), 0);
	assert_int_equal(template_check(dir, "f", true, digest, NULL), 0);
	assert_string_equal(digest, "sha256:1");
	assert_int_equal(template_check(dir, "g", true, NULL, &err), -EBADMSG);
	assert_string_equal(err_code_of(&err), "template_stale");
	/* The same bytes with other holes are the same file. */
	assert_int_equal(file_copy_sparse(memory, copy, 0600), 0);
	assert_int_equal(rename(copy, memory), 0);
	make_file(dir, "memory", 64 << 20, 7 << 20, "");
	assert_int_equal(template_check(dir, "f", true, NULL, NULL), 0);
	make_file(dir, "memory", 64 << 20, 30 << 20, "x");
	assert_int_equal(template_check(dir, "f", false, NULL, NULL), 0);
	assert_int_equal(template_check(dir, "f", true, NULL, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "memory"));
	make_file(dir, "state", 99, 0, "devices");
	assert_int_equal(template_check(dir, "f", false, NULL, &err), -EBADMSG);
	assert_non_null(strstr(err.message, "state"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_second_daemon_is_refused),
		TEST(test_key_survives_a_restart),
		TEST(test_wrong_keys),
		TEST(test_key_is_stored_as_a_hash),
		TEST(test_create_says_what_is_wrong),
		TEST(test_full_disk_is_refused_before_anything),
		TEST(test_exec_requests),
		TEST(test_unknown_ids_read_alike),
		TEST(test_tombstones_are_found_and_final),
		TEST(test_cursor_visits_each_once),
		TEST(test_bad_lists),
		TEST(test_reasons_from_records),
		TEST(test_template_damage_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
