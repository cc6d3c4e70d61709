/* All that a daemon leaves in the world. See world.h. */
#include "world.h"

#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "events_check.h"
#include "store/ledger_check.h"

#define SETTLE_MS 20000
#define FILE_MAX  (1u << 20)

DEFINE_CLEANUP(DIR *, closedirp, closedir);

void world_clear(struct world *world)
{
	for (size_t i = 0; i < world->n; i++)
		free(world->lines[i]);
	free(world->lines);
	*world = (struct world){ 0 };
}

/* ---- lines ---- */

struct kind {
	const char *prefix;
	size_t digits;
	const char *word;
};

/* Longest first: one without a prefix would match a part of another. */
static const struct kind kinds[] = {
	{ "sbx_", 12, "SANDBOX" },     { "tpl_", 16, "MAKING" },	 { "snp_", 16, "SNAPSHOT" },
	{ ".partial-", 16, ".DRAFT" }, { "/forks/", 16, "/forks/FORK" },
};

static const struct kind *kind_at(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		size_t len = strlen(kinds[i].prefix);

		if (str_starts(text, kinds[i].prefix) &&
		    strspn(text + len, "0123456789abcdef") >= kinds[i].digits)
			return &kinds[i];
	}
	return NULL;
}

/* Ids become words. */
static char *normalise(const char *text)
{
	_cleanup_buf_ struct buf out = BUF_INIT;

	while (*text) {
		const struct kind *kind = kind_at(text);

		if (kind) {
			buf_append_str(&out, kind->word);
			text += strlen(kind->prefix) + kind->digits;
		} else {
			buf_append(&out, text++, 1);
		}
	}
	return xstrdup(buf_str(&out));
}

static void add(struct world *world, const char *text)
{
	world->lines = xrealloc(world->lines, (world->n + 1) * sizeof(char *));
	world->lines[world->n++] = normalise(text);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort(struct world *world)
{
	if (world->n)
		qsort(world->lines, world->n, sizeof(char *), by_text);
}

/* ---- files ---- */

static char letter_of(mode_t mode)
{
	return S_ISDIR(mode)	? 'd'
	       : S_ISREG(mode)	? 'f'
	       : S_ISSOCK(mode) ? 's'
	       : S_ISLNK(mode)	? 'l'
				: '?';
}

static void add_files(struct world *world, const char *path, size_t root_len)
{
	_cleanup_(closedirp) DIR *dir = opendir(path);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		_cleanup_free_ char *one = xasprintf("%s/%s", path, entry->d_name);
		_cleanup_free_ char *line = NULL;
		struct stat st;

		if (str_eq(entry->d_name, ".") || str_eq(entry->d_name, "..") ||
		    lstat(one, &st) < 0)
			continue;
		line = xasprintf("file %c %04o %s", letter_of(st.st_mode),
				 (unsigned int)st.st_mode & 07777, one + root_len);
		add(world, line);
		if (S_ISDIR(st.st_mode))
			add_files(world, one, root_len);
	}
}

void world_add_files(struct world *world, const char *from, const char *to)
{
	size_t n = world->n;

	for (size_t i = 0; i < n; i++) {
		const char *line = world->lines[i], *at = strstr(line, from);
		_cleanup_free_ char *copy = NULL;

		if (!at || !str_starts(line, "file "))
			continue;
		copy = xasprintf("%.*s%s%s", (int)(at - line), line, to, at + strlen(from));
		add(world, copy);
	}
	sort(world);
}

/* ---- processes, mounts, control groups ---- */

static bool mentions(const char *path, const char *word)
{
	_cleanup_buf_ struct buf text = BUF_INIT;

	return file_read(path, FILE_MAX, &text) == 0 &&
	       memmem(text.data, text.len, word, strlen(word));
}

/* Wardens have the directory among their arguments, VMMs are in our control group. The test is
 * neither. */
static void add_processes(struct world *world, const struct rig *rig)
{
	_cleanup_(closedirp) DIR *dir = opendir("/proc");
	const char *mark = strrchr(rig->dir, '/') + 1;
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		_cleanup_free_ char *cmdline = xasprintf("/proc/%s/cmdline", entry->d_name);
		_cleanup_free_ char *cgroup = xasprintf("/proc/%s/cgroup", entry->d_name);
		_cleanup_free_ char *comm = xasprintf("/proc/%s/comm", entry->d_name);
		_cleanup_free_ char *line = NULL;
		_cleanup_buf_ struct buf name = BUF_INIT;

		if (!isdigit((unsigned char)entry->d_name[0]) ||
		    strtol(entry->d_name, NULL, 10) == getpid() ||
		    (!mentions(cmdline, mark) && !mentions(cgroup, rig->cgroup)) ||
		    file_read(comm, 64, &name) < 0)
			continue;
		line = xasprintf("process %.*s", (int)name.len - 1, buf_str(&name));
		add(world, line);
	}
}

static void add_mounts(struct world *world, const struct rig *rig)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	char *line, *rest;

	assert_int_equal(file_read("/proc/self/mounts", FILE_MAX, &text), 0);
	for (line = strtok_r(text.data, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		_cleanup_free_ char *one = xasprintf("mount %s", line);

		if (strstr(line, rig->dir) || strstr(line, "sbx_") || strstr(line, "tpl_"))
			add(world, one);
	}
}

static void add_groups(struct world *world, const char *path, size_t root_len)
{
	_cleanup_(closedirp) DIR *dir = opendir(path);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		_cleanup_free_ char *one = xasprintf("%s/%s", path, entry->d_name);
		_cleanup_free_ char *line = xasprintf("cgroup %s", one + root_len);

		if (entry->d_type != DT_DIR || entry->d_name[0] == '.')
			continue;
		add(world, line);
		add_groups(world, one, root_len);
	}
}

/* Every hierarchy: of v1 one a controller, of v2 the only one. The parent stays. */
static void add_all_groups(struct world *world, const struct rig *rig)
{
	static const char root[] = "/sys/fs/cgroup";
	_cleanup_(closedirp) DIR *dir = opendir(root);
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		_cleanup_free_ char *path = xasprintf("%s/%s/%s", root, entry->d_name, rig->cgroup);

		if (!str_eq(entry->d_name, ".."))
			add_groups(world, path, strlen(root));
	}
}

/* ---- rows ---- */

static bool differs_by_run(const char *column)
{
	static const char *const names[] = { "uid", "machine_id", "bytes", "remaining_ms",
					     "run_boottime_ms" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (str_eq(column, names[i]))
			return true;
	}
	return strlen(column) > 8 && str_eq(column + strlen(column) - 8, "_unix_ms");
}

/* "a='…' b=set": a query that gives each row of a table as one text. */
static char *row_query(struct db_txn *txn, const char *table)
{
	_cleanup_query_ struct db_query columns = DB_QUERY_INIT;
	_cleanup_buf_ struct buf sql = BUF_INIT;
	struct err err = ERR_INIT;

	buf_printf(&sql, "select 'row %s'", table);
	if (db_query(txn, "select name from pragma_table_info($1)", &columns, &err) < 0)
		fail_msg("columns of %s: %s", table, err.message);
	db_bind_text(&columns, 1, table);
	while (db_step(&columns, &err) == 1) {
		const char *name = db_column_text(&columns, 0);

		if (str_eq(name,
			   "charged")) /* of a meter: nothing yet, or something, by the time */
			continue;
		if (differs_by_run(name))
			buf_printf(
				&sql,
				" || ' %s=' || case when %s is null then 'null' when %s = 0 then "
				"'0' else 'set' end",
				name, name, name);
		else
			buf_printf(&sql, " || ' %s=' || quote(%s)", name, name);
	}
	buf_printf(&sql, " from %s", table);
	return xstrdup(buf_str(&sql));
}

static void add_table(struct world *world, struct db_txn *txn, const char *table)
{
	_cleanup_free_ char *sql = row_query(txn, table);
	_cleanup_query_ struct db_query rows = DB_QUERY_INIT;
	struct err err = ERR_INIT;

	if (db_query(txn, sql, &rows, &err) < 0)
		fail_msg("rows of %s: %s", table, err.message);
	while (db_step(&rows, &err) == 1)
		add(world, db_column_text(&rows, 0));
}

/* History, which grows: events_check and ledger_check have what is true of it. */
static bool is_history(const char *table)
{
	static const char *const names[] = { "events", "event_sequences", "ledger_entries",
					     "usage_totals", "wallets" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (str_eq(table, names[i]))
			return true;
	}
	return false;
}

static void add_rows(struct world *world, const struct rig *rig)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	_cleanup_query_ struct db_query tables = DB_QUERY_INIT;

	assert_int_equal(db_begin_read(rig->core->db, &txn, NULL), 0);
	assert_int_equal(db_query(&txn, "select name from sqlite_master where type = 'table'",
				  &tables, NULL),
			 0);
	while (db_step(&tables, NULL) == 1) {
		const char *table = db_column_text(&tables, 0);

		if (!is_history(table))
			add_table(world, &txn, table);
	}
}

/* ---- the whole ---- */

void world_take(struct rig *rig, struct world *ret)
{
	*ret = (struct world){ 0 };
	add_files(ret, rig->dir, strlen(rig->dir));
	add_processes(ret, rig);
	add_mounts(ret, rig);
	add_all_groups(ret, rig);
	add_rows(ret, rig);
	sort(ret);
}

static void check_history(struct rig *rig)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct ledger_findings findings;

	events_check(rig);
	assert_int_equal(db_begin_long_read(rig->core->db, &txn, NULL), 0);
	assert_int_equal(ledger_check(&txn, &findings, NULL), 0);
	assert_string_equal(findings.first, "");
}

/* What is in one and not in the other; both are sorted. */
static size_t count_differences(const struct world *expected, const struct world *found, bool tell)
{
	size_t i = 0, k = 0, n = 0;

	while (i < expected->n || k < found->n) {
		int order = i == expected->n ? 1
			    : k == found->n  ? -1
					     : strcmp(expected->lines[i], found->lines[k]);

		if (tell && order)
			print_message("%s: %s\n", order < 0 ? "missing" : "too much",
				      order < 0 ? expected->lines[i] : found->lines[k]);
		n += order != 0;
		i += order <= 0;
		k += order >= 0;
	}
	return n;
}

void world_expect(struct rig *rig, const struct world *expected, const char *after)
{
	int64_t deadline = clock_boottime_ms() + SETTLE_MS;
	struct world found;

	for (;;) {
		world_take(rig, &found);
		if (count_differences(expected, &found, false) == 0)
			break;
		if (clock_boottime_ms() > deadline) {
			count_differences(expected, &found, true);
			fail_msg("after %s the world is not as it should be", after);
		}
		world_clear(&found);
		poll(NULL, 0, 50);
	}
	world_clear(&found);
	check_history(rig);
}

void world_bury(struct rig *rig, size_t n, const char *status, const char *reason)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct sandbox_row *rows = NULL;
	const struct sandbox_filter filter = {
		.account_id = rig->admin.account_id,
		.status = "all",
		.limit = 200,
	};
	size_t n_rows = 0, ended = 0;
	int64_t deleted = 0;

	check_history(rig);
	assert_int_equal(db_begin_write(rig->core->db, &txn, NULL), 0);
	assert_int_equal(sandboxes_list(&txn, &filter, &rows, &n_rows, NULL), 0);
	for (size_t i = 0; i < n_rows; i++) {
		if (!rows[i].ended_unix_ms)
			continue;
		ended++;
		assert_string_equal(rows[i].status, status);
		assert_string_equal(rows[i].reason, reason);
		assert_int_equal(rows[i].uid, 0);
	}
	sandbox_rows_free(rows, n_rows);
	assert_int_equal(ended, n);
	assert_int_equal(
		sandboxes_delete_ended_before(&txn, clock_unix_ms() + 60000, &deleted, NULL), 0);
	assert_int_equal(deleted, n);
	assert_int_equal(db_commit(&txn, NULL), 0);
}
