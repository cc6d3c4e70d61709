/*
 * The audit of a real core: one record for each operation, in a chain; what a crash interrupted;
 * what was changed in the database behind its back; followers and pages.
 */
#include "network_rig.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "core/audit.h"
#include "core/audit_internal.h"

#define SANDBOX "sbx_00000000000a"
#define OTHER	"sbx_00000000000b"
#define WAIT_MS 20000
#define SECRET	"sk_0123456789abcdefghijABCDEFGHIJ0123456789"

/* ---- making some ---- */

static struct core_audit_entry *begin(struct fixture *f, const char *operation, const char *sandbox,
				      const char *request, const char *command, bool wait)
{
	struct core_audit_call call = { .operation = operation,
					.surface = "rest",
					.request_id = request,
					.peer = "127.0.0.1",
					.sandbox_id = sandbox,
					.args = json_object() };
	struct core_audit_entry *entry = NULL;
	struct err err = ERR_INIT;

	if (command)
		json_put_str(call.args, "command", command);
	assert_int_equal(core_audit_begin(f->core, &f->admin, &call, wait, &entry, &err), 0);
	return entry;
}

static void end_ok(struct fixture *f, struct core_audit_entry *entry)
{
	core_audit_end_wait(f->core, entry, &(struct core_audit_end){ .result = "ok" });
}

static void do_some(struct fixture *f, int n)
{
	for (int i = 0; i < n; i++) {
		char request[32];

		snprintf(request, sizeof(request), "req_%d", i);
		end_ok(f, begin(f, i % 2 ? "exec" : "extend_sandbox", i % 3 ? SANDBOX : OTHER,
				request, "true", false));
	}
}

/* ---- looking ---- */

static json_t *list(struct fixture *f, const struct core_audit_filter *filter, int64_t after)
{
	const struct core_audit_range range = { .after = after, .limit = 1000 };
	const struct core_audit_filter any = { 0 };
	struct core_audit_page page = { 0 };
	json_t *items = json_array();

	assert_int_equal(
		core_audit_list(f->core, &f->admin, filter ? filter : &any, &range, &page, NULL),
		0);
	for (size_t i = 0; i < page.n; i++) {
		json_t *item = NULL;

		assert_int_equal(
			json_parse(page.items[i].line, strlen(page.items[i].line), &item, NULL), 0);
		json_array_append_new(items, item);
	}
	core_audit_page_clear(&page);
	return items;
}

static void assert_verdict(struct fixture *f, int64_t broken_at, const char *problem)
{
	struct core_audit_verdict verdict = { 0 };
	struct err err = ERR_INIT;

	assert_int_equal(core_audit_verify(f->core, &verdict, &err), 0);
	if (verdict.broken_at != broken_at || !strstr(verdict.problem, problem))
		fail_msg("broken at %lld, not %lld: %s", (long long)verdict.broken_at,
			 (long long)broken_at, verdict.problem);
}

/* SQL behind the daemon's back, on the audit's database. */
static void tamper(struct fixture *f, const char *sql)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int64_t changed = 0;

	assert_int_equal(db_begin_write(f->core->audit->db, &txn, NULL), 0);
	{
		_cleanup_query_ struct db_query query = DB_QUERY_INIT;

		assert_int_equal(db_query(&txn, sql, &query, NULL), 0);
		assert_int_equal(db_run(&query, &changed, NULL), 0);
	}
	assert_true(changed > 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
}

/* ---- records ---- */

static void test_one_record_each(void **state)
{
	struct fixture *f = *state;
	_cleanup_json_ json_t *items = NULL;
	struct core_audit_entry *first, *second;

	first = begin(f, "exec", SANDBOX, "req_first", "echo " SECRET " done", false);
	second = begin(f, "create_sandbox", NULL, "req_second", NULL, true);
	core_audit_end_wait(f->core, second,
			    &(struct core_audit_end){ .result = "ok", .sandbox_id = OTHER });
	core_audit_end_wait(f->core, first, &(struct core_audit_end){ .result = "sandbox_ended" });
	items = list(f, NULL, 0);
	assert_int_equal(json_array_size(items), 2);
	for (size_t i = 0; i < 2; i++) {
		const json_t *item = json_array_get(items, i);

		assert_int_equal(json_get_int(item, "seq", 0), i + 1);
		assert_string_equal(json_get_str(item, "operation", ""),
				    i ? "exec" : "create_sandbox");
		assert_string_equal(json_get_str(item, "result", ""), i ? "sandbox_ended" : "ok");
		assert_string_equal(json_get_str(item, "sandbox_id", ""), i ? SANDBOX : OTHER);
		assert_string_equal(json_get_str(item, "request_id", ""),
				    i ? "req_first" : "req_second");
		assert_string_equal(json_get_str(item, "key_id", ""), f->admin.key_id);
		assert_string_equal(json_get_str(item, "account_id", ""), f->admin.account_id);
	}
	assert_string_equal(
		json_get_str(json_object_get(json_array_get(items, 1), "args"), "command", ""),
		"echo sk_012345********************************** done");
	assert_verdict(f, 0, "");
}

struct worker {
	struct fixture *f;
	pthread_t thread;
	int first;
};

static void *work(void *arg)
{
	struct worker *worker = arg;

	for (int i = 0; i < 50; i++) {
		char request[32];

		snprintf(request, sizeof(request), "req_%d", worker->first + i);
		end_ok(worker->f, begin(worker->f, "exec", SANDBOX, request, "true", i % 2));
	}
	return NULL;
}

static void test_many_at_once(void **state)
{
	struct fixture *f = *state;
	struct worker workers[8];
	_cleanup_json_ json_t *items = NULL;
	bool seen[400] = { false };
	struct core_audit_counts counts;

	for (int i = 0; i < 8; i++) {
		workers[i] = (struct worker){ .f = f, .first = i * 50 };
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (int i = 0; i < 8; i++)
		pthread_join(workers[i].thread, NULL);
	items = list(f, NULL, 0);
	assert_int_equal(json_array_size(items), 400);
	for (size_t i = 0; i < 400; i++) {
		const char *request = json_get_str(json_array_get(items, i), "request_id", "");
		int64_t n;

		assert_int_equal(str_to_i64(request + 4, &n), 0);
		assert_false(seen[n]);
		seen[n] = true;
	}
	core_audit_counts(f->core, &counts);
	assert_int_equal(counts.records, 400);
	assert_verdict(f, 0, "");
}

/* What had begun when the daemon died has a record from the next one; the chain goes on. */
static void test_interrupted(void **state)
{
	struct fixture *f = *state;
	_cleanup_json_ json_t *items = NULL;
	struct core_audit_entry *open = begin(f, "exec", SANDBOX, "req_open", "sleep 9", true);

	do_some(f, 3);
	/* As a crash leaves it: noted, and never ended. The object of the dead daemon is let go. */
	tamper(f, "insert into audit_open (id, body) select 900, body from audit_open");
	end_ok(f, open);
	rig_restart(f);
	do_some(f, 1);
	items = list(f, &(struct core_audit_filter){ .request_id = "req_open" }, 0);
	assert_int_equal(json_array_size(items), 2);
	assert_string_equal(json_get_str(json_array_get(items, 1), "result", ""), "interrupted");
	assert_string_equal(json_get_str(json_array_get(items, 1), "sandbox_id", ""), SANDBOX);
	assert_verdict(f, 0, "");
}

/* ---- tampering ---- */

static void test_tampering(void **state)
{
	static const struct {
		const char *change, *back;
		int64_t broken_at;
		const char *problem;
	} cases[] = {
		{ "update audit set body = replace(body, 'extend_sandbox', 'extend_sandbox ') where"
		  " seq = 5",
		  "update audit set body = replace(body, 'extend_sandbox ', 'extend_sandbox') where"
		  " seq = 5",
		  5, "record 5 was changed" },
		{ "update audit set key_id = 'key_other' where seq = 4",
		  "update audit set key_id = (select key_id from audit where seq = 3) where seq = "
		  "4",
		  4, "what it is found by is not what it says" },
		{ "update audit set at_unix_ms = at_unix_ms + 1 where seq = 7",
		  "update audit set at_unix_ms = at_unix_ms - 1 where seq = 7", 7,
		  "what it is found by" },
		{ "update audit set hash = replace(hash, substr(hash, 1, 1), 'x') where seq = 2",
		  NULL, 2, "" },
		{ "update audit set seq = 1000 where seq = 6",
		  "update audit set seq = 6 where seq = 1000", 6, "record 6 is missing" },
		{ "update audit set seq = case seq when 3 then -4 else -3 end where seq in (3, 4)",
		  NULL, 3, "" },
	};
	struct fixture *f = *state;

	do_some(f, 10);
	assert_verdict(f, 0, "");
	for (size_t i = 0; i < 3; i++) {
		tamper(f, cases[i].change);
		assert_verdict(f, cases[i].broken_at, cases[i].problem);
		tamper(f, cases[i].back);
		assert_verdict(f, 0, "");
	}
	tamper(f, cases[4].change);
	assert_verdict(f, cases[4].broken_at, cases[4].problem);
	tamper(f, cases[4].back);
	tamper(f, cases[3].change);
	assert_verdict(f, cases[3].broken_at, cases[3].problem);
	tamper(f, cases[5].change);
	assert_verdict(f, 2, "");
}

static void test_swapped(void **state)
{
	struct fixture *f = *state;

	do_some(f, 6);
	tamper(f, "update audit set seq = -seq where seq in (3, 4)");
	tamper(f, "update audit set seq = 7 + seq where seq < 0");
	assert_verdict(f, 3, "record 3 is missing: record 2 is followed by 4");
}

static void test_cut_off(void **state)
{
	struct fixture *f = *state;

	do_some(f, 6);
	tamper(f, "delete from audit where seq = 1");
	assert_verdict(f, 1, "record 1 is missing: the first one is 2");
	tamper(f, "delete from audit where seq = 6");
	assert_verdict(f, 1, "");
}

/* The newest are gone, and what the database says of its end too: the note in the other one tells.
 */
static void test_end_cut_off(void **state)
{
	struct fixture *f = *state;

	do_some(f, 6);
	tamper(f, "delete from audit where seq = 6");
	assert_verdict(f, 6, "record 6 is missing: the chain ended with 6");
	tamper(f, "update audit_state set last_seq = 5,"
		  " last_hash = (select hash from audit where seq = 5)");
	rig_restart(f); /* notes the head, in the state of the daemon that ends: 6 */
	assert_verdict(f, 6, "record 6 is missing: the chain ended with 6");
}

static void test_added(void **state)
{
	struct fixture *f = *state;

	do_some(f, 3);
	tamper(f, "insert into audit select 4, at_unix_ms, account_id, key_id, sandbox_id, "
		  "operation, request_id, result, body, hash from audit where seq = 3");
	assert_verdict(f, 4, "record 4 was added");
}

/* ---- it cannot be written ---- */

static void alter(struct fixture *f, const char *sql)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	assert_int_equal(db_begin_write(f->core->audit->db, &txn, NULL), 0);
	{
		_cleanup_query_ struct db_query query = DB_QUERY_INIT;

		assert_int_equal(db_query(&txn, sql, &query, NULL), 0);
		assert_int_equal(db_run(&query, NULL, NULL), 0);
	}
	assert_int_equal(db_commit(&txn, NULL), 0);
}

static void wait_for_failing(struct fixture *f, bool failing)
{
	const int64_t deadline = clock_boottime_ms() + WAIT_MS;
	struct err why;

	while (core_audit_is_failing(f->core, &why) != failing) {
		assert_true(clock_boottime_ms() < deadline);
		usleep(2000);
	}
}

static void test_unwritable(void **state)
{
	struct fixture *f = *state;
	struct core_audit_call call = { .operation = "create_network",
					.surface = "rest",
					.request_id = "req_refused",
					.peer = "" };
	struct core_audit_entry *running, *destroy, *entry = NULL;
	_cleanup_json_ json_t *items = NULL;
	struct err err = ERR_INIT;

	running = begin(f, "exec", SANDBOX, "req_running", "true", true);
	alter(f, "alter table audit rename to away");
	alter(f, "alter table audit_open rename to away_open");
	/* What was under way ends: its answer does not wait for ever. */
	end_ok(f, running);
	wait_for_failing(f, true);
	call.args = json_object();
	assert_true(core_audit_begin(f->core, &f->admin, &call, true, &entry, &err) < 0);
	assert_true(strstr(err.message, "the audit cannot be written"));
	call.args = json_object();
	assert_true(core_audit_begin(f->core, &f->admin, &call, false, &entry, &err) < 0);
	call = (struct core_audit_call){ .operation = "destroy_sandbox",
					 .surface = "rest",
					 .request_id = "req_destroy",
					 .peer = "",
					 .args = json_object(),
					 .ends = true };
	assert_int_equal(core_audit_begin(f->core, &f->admin, &call, true, &destroy, &err), 0);
	end_ok(f, destroy);
	alter(f, "alter table away rename to audit");
	alter(f, "alter table away_open rename to audit_open");
	wait_for_failing(f, false);
	do_some(f, 1);
	items = list(f, NULL, 0);
	assert_int_equal(json_array_size(items), 3);
	assert_string_equal(json_get_str(json_array_get(items, 0), "request_id", ""),
			    "req_running");
	assert_string_equal(json_get_str(json_array_get(items, 1), "request_id", ""),
			    "req_destroy");
	assert_verdict(f, 0, "");
}

/* ---- what is too old ---- */

static void test_pruned(void **state)
{
	struct fixture *f = *state;
	_cleanup_json_ json_t *items = NULL;

	do_some(f, 5);
	f->core->limits.audit_days = 1;
	audit_keep_house(f->core);
	items = list(f, NULL, 0);
	assert_int_equal(json_array_size(items), 5); /* none is that old */
	/* A day passes for the first three: their columns say so, and what they say is let be. */
	tamper(f, "update audit set at_unix_ms = at_unix_ms - 200000000 where seq <= 3");
	audit_keep_house(f->core);
	json_decref(items);
	items = list(f, NULL, 0);
	assert_int_equal(json_get_int(json_array_get(items, 0), "seq", 0), 4);
	assert_string_equal(json_get_str(json_array_get(items, 2), "operation", ""),
			    "audit_pruned");
	assert_verdict(f, 0, "");
	rig_restart(f);
	assert_verdict(f, 0, "");
	tamper(f, "delete from audit where seq = 4");
	assert_verdict(f, 4, "record 4 is missing: the first one is 5");
}

/* ---- pages and filters ---- */

static void test_filters(void **state)
{
	struct fixture *f = *state;
	const struct principal stranger = { .account_id = "acc_other", .key_id = "key_other" };
	const struct core_audit_filter any = { 0 };
	const struct core_audit_filter theirs = { .account_id = f->admin.account_id };
	struct core_audit_page page = { 0 };
	struct core_audit_range range = { .limit = 4, .newest = true };
	struct err err = ERR_INIT;
	_cleanup_json_ json_t *items = NULL;

	do_some(f, 12);
	items = list(f, &(struct core_audit_filter){ .sandbox_id = OTHER, .operation = "exec" }, 0);
	assert_int_equal(json_array_size(items), 2); /* 3 and 9 of 0 to 11 */
	assert_int_equal(core_audit_list(f->core, &f->admin, &any, &range, &page, &err), 0);
	assert_int_equal(page.n, 4);
	assert_int_equal(page.items[0].seq, 9);
	assert_true(page.more);
	core_audit_page_clear(&page);
	range.before = 3;
	assert_int_equal(core_audit_list(f->core, &f->admin, &any, &range, &page, &err), 0);
	assert_int_equal(page.n, 2);
	assert_false(page.more);
	core_audit_page_clear(&page);
	assert_int_equal(core_audit_list(f->core, &stranger, &any, &range, &page, &err), 0);
	assert_int_equal(page.n, 0);
	core_audit_page_clear(&page);
	assert_int_equal(core_audit_list(f->core, &stranger, &theirs, &range, &page, &err), -EPERM);
	range = (struct core_audit_range){ .after = 13, .limit = 1 };
	assert_int_equal(core_audit_list(f->core, &f->admin, &any, &range, &page, &err), -EINVAL);
	assert_string_equal(err_code_of(&err), "invalid_cursor");
}

/* ---- followers ---- */

struct reader {
	pthread_mutex_t lock;
	int64_t last, n;
	int64_t room; /* takes so many more */
	bool ended;
};

static bool on_record(void *arg, const struct core_audit_record *record)
{
	struct reader *reader = arg;
	bool more;

	pthread_mutex_lock(&reader->lock);
	assert_int_equal(record->seq, reader->last + 1);
	reader->last = record->seq;
	reader->n++;
	more = --reader->room > 0;
	pthread_mutex_unlock(&reader->lock);
	return more;
}

static void on_end(void *arg)
{
	struct reader *reader = arg;

	pthread_mutex_lock(&reader->lock);
	reader->ended = true;
	pthread_mutex_unlock(&reader->lock);
}

static void wait_for(struct reader *reader, int64_t last, bool end)
{
	const int64_t deadline = clock_boottime_ms() + WAIT_MS;

	for (;;) {
		bool there;

		pthread_mutex_lock(&reader->lock);
		there = reader->last == last && (!end || reader->ended);
		pthread_mutex_unlock(&reader->lock);
		if (there)
			return;
		assert_true(clock_boottime_ms() < deadline);
		usleep(2000);
	}
}

static struct core_audit_follower *follow(struct fixture *f, struct reader *reader, int64_t cursor,
					  bool export)
{
	const struct core_audit_filter any = { 0 };
	const struct core_audit_sink sink = { .record = on_record, .end = export ? on_end : NULL };
	struct core_audit_follower *follower = NULL;
	int64_t from = -1;

	*reader = (struct reader){ .last = cursor, .room = INT64_MAX };
	pthread_mutex_init(&reader->lock, NULL);
	assert_int_equal(core_audit_follow(f->core, &f->admin, &any, cursor, &sink, reader, &from,
					   &follower, NULL),
			 0);
	assert_int_equal(from, cursor);
	return follower;
}

static void test_follow(void **state)
{
	struct fixture *f = *state;
	struct core_audit_follower *follower;
	struct reader reader;

	do_some(f, 300); /* more than a page */
	follower = follow(f, &reader, 0, false);
	usleep(20000);
	assert_int_equal(reader.n, 0); /* nothing before it is let go */
	core_audit_resume(follower);
	wait_for(&reader, 300, false);
	do_some(f, 5);
	wait_for(&reader, 305, false);
	core_audit_close_follower(follower);
	do_some(f, 1);

	/* Comes back where it was, after a restart of the daemon, and takes little at once. */
	rig_restart(f);
	follower = follow(f, &reader, 305, false);
	reader.room = 1;
	core_audit_resume(follower);
	wait_for(&reader, 306, false);
	do_some(f, 2);
	usleep(20000);
	assert_int_equal(reader.last, 306); /* full */
	pthread_mutex_lock(&reader.lock);
	reader.room = 100;
	pthread_mutex_unlock(&reader.lock);
	core_audit_resume(follower);
	wait_for(&reader, 308, false);
	core_audit_close_follower(follower);
}

static void test_export(void **state)
{
	struct fixture *f = *state;
	struct core_audit_follower *follower;
	struct reader reader;

	follower = follow(f, &reader, 0, true); /* of nothing */
	core_audit_resume(follower);
	wait_for(&reader, 0, true);
	core_audit_close_follower(follower);
	do_some(f, 200);
	follower = follow(f, &reader, 0, true);
	do_some(f, 3); /* not of its time */
	core_audit_resume(follower);
	wait_for(&reader, 200, true);
	core_audit_close_follower(follower);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_one_record_each), RIG_TEST(test_many_at_once),
		RIG_TEST(test_interrupted),	RIG_TEST(test_tampering),
		RIG_TEST(test_swapped),		RIG_TEST(test_cut_off),
		RIG_TEST(test_end_cut_off),	RIG_TEST(test_added),
		RIG_TEST(test_unwritable),	RIG_TEST(test_pruned),
		RIG_TEST(test_filters),		RIG_TEST(test_follow),
		RIG_TEST(test_export),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
