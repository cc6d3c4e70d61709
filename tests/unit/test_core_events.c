/* Events in the core: written with their rows or in batches, read in pages, followed. */
#include "network_rig.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/str.h"

#define SANDBOX "sbx_00000000000a"
#define OTHER	"sbx_00000000000b"
#define WAIT_MS 20000

/* ---- making some ---- */

static void post(struct fixture *f, const char *sandbox, enum event_type type, int n)
{
	json_t *data = json_object();

	json_put_int(data, "n", n);
	events_post(f->core, f->admin.account_id, sandbox, type, data);
}

/* As an operation does: with a row, in its transaction. */
static void write_n(struct fixture *f, const char *sandbox, enum event_type type, int n)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

	assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
	for (int i = 0; i < n; i++)
		assert_int_equal(event_write(&txn, f->core, f->admin.account_id, sandbox, type,
					     json_object(), NULL),
				 0);
	assert_int_equal(db_commit(&txn, NULL), 0);
}

/* ---- pages ---- */

static int page_of(struct fixture *f, const char *sandbox, const char *types, int64_t cursor,
		   uint32_t limit, struct core_event_page *ret, struct err *err)
{
	const struct core_event_filter filter = { .sandbox_id = sandbox, .types = types };

	return core_events_page(f->core, &f->admin, &filter, cursor, limit, ret, err);
}

static void wait_for_events(struct fixture *f, int64_t last_id)
{
	int64_t deadline = clock_boottime_ms() + WAIT_MS;
	struct core_event_page page = { 0 };

	for (;;) {
		int64_t cursor;

		assert_int_equal(page_of(f, NULL, NULL, CORE_EVENTS_NEWEST, 1, &page, NULL), 0);
		cursor = page.cursor;
		core_event_page_clear(&page);
		if (cursor == last_id)
			return;
		assert_true(cursor < last_id && clock_boottime_ms() < deadline);
		usleep(5000);
	}
}

static void test_posts_become_rows(void **state)
{
	struct fixture *f = *state;
	struct core_event_page page = { 0 };

	for (int i = 0; i < 500; i++)
		post(f, SANDBOX, i % 2 ? EVENT_EXEC_ENDED : EVENT_EXEC_STARTED, i);
	wait_for_events(f, 500);
	assert_int_equal(page_of(f, NULL, NULL, 0, 1000, &page, NULL), 0);
	assert_int_equal(page.n, 500);
	assert_false(page.more);
	for (int i = 0; i < 500; i++) {
		char data[32];

		snprintf(data, sizeof(data), "{\"n\":%d}", i);
		assert_int_equal(page.items[i].id, i + 1);
		assert_string_equal(page.items[i].data, data);
		assert_string_equal(page.items[i].type, i % 2 ? "exec_ended" : "exec_started");
		assert_string_equal(page.items[i].sandbox_id, SANDBOX);
	}
	core_event_page_clear(&page);
}

static void assert_page(struct fixture *f, const char *sandbox, const char *types, int64_t cursor,
			uint32_t limit, size_t n, int64_t first, int64_t next, bool more)
{
	struct core_event_page page = { 0 };

	assert_int_equal(page_of(f, sandbox, types, cursor, limit, &page, NULL), 0);
	assert_int_equal(page.n, n);
	if (n > 0)
		assert_int_equal(page.items[0].id, first);
	assert_int_equal(page.cursor, next);
	assert_int_equal(page.more, more);
	assert_int_equal(page.gap.to, 0);
	core_event_page_clear(&page);
}

static void test_pages(void **state)
{
	struct fixture *f = *state;

	assert_page(f, NULL, NULL, 0, 10, 0, 0, 0, false);
	write_n(f, SANDBOX, EVENT_SANDBOX_PAUSED, 10);
	write_n(f, OTHER, EVENT_SANDBOX_RESUMED, 5);
	assert_page(f, NULL, NULL, 0, 10, 10, 1, 10, true);
	assert_page(f, NULL, NULL, 10, 10, 5, 11, 15, false);
	assert_page(f, NULL, NULL, 0, 15, 15, 1, 15, false);
	assert_page(f, NULL, NULL, 15, 10, 0, 0, 15, false);
	assert_page(f, OTHER, NULL, 0, 3, 3, 11, 13, true);
	/* What the filter passed by has been looked at. */
	assert_page(f, SANDBOX, NULL, 0, 100, 10, 1, 15, false);
	assert_page(f, NULL, "sandbox_resumed,exec_ended", 0, 100, 5, 11, 15, false);
	assert_page(f, NULL, "exec_ended", 3, 100, 0, 0, 15, false);
	assert_page(f, NULL, NULL, CORE_EVENTS_NEWEST, 3, 3, 13, 15, false);
	assert_page(f, SANDBOX, NULL, CORE_EVENTS_NEWEST, 100, 10, 1, 15, false);
}

static void assert_refused(struct fixture *f, const char *sandbox, const char *types,
			   int64_t cursor, const char *code)
{
	struct core_event_page page = { 0 };
	struct err err = ERR_INIT;

	assert_true(page_of(f, sandbox, types, cursor, 10, &page, &err) < 0);
	assert_string_equal(err_code_of(&err), code);
}

static void test_what_is_no_filter(void **state)
{
	struct fixture *f = *state;

	assert_refused(f, "../etc", NULL, 0, "invalid_argument");
	assert_refused(f, NULL, "exec_ended,", 0, "invalid_argument");
	assert_refused(f, NULL, "exec", 0, "invalid_argument");
	assert_refused(f, NULL, "exec_ended2", 0, "invalid_argument");
	assert_refused(f, NULL, NULL, 1, "invalid_cursor");
}

static void test_rolled_back_is_nothing(void **state)
{
	struct fixture *f = *state;

	{
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

		assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
		assert_int_equal(event_write(&txn, f->core, f->admin.account_id, SANDBOX,
					     EVENT_SANDBOX_PAUSED, json_object(), NULL),
				 0);
	}
	write_n(f, SANDBOX, EVENT_SANDBOX_RESUMED, 1);
	assert_page(f, NULL, "sandbox_paused", 0, 10, 0, 0, 1, false);
	assert_page(f, NULL, "sandbox_resumed", 0, 10, 1, 1, 1, false);
}

/* ---- followers ---- */

struct seen {
	pthread_mutex_t lock;
	int64_t ids[8192];
	size_t n;
	size_t room; /* how many more it takes */
	struct core_event_gap gap;
};

static bool on_event(void *arg, const struct core_event *event)
{
	struct seen *seen = arg;
	bool room;

	pthread_mutex_lock(&seen->lock);
	assert_true(seen->n < ARRAY_SIZE(seen->ids));
	seen->ids[seen->n++] = event->id;
	room = seen->room == 0 || --seen->room > 0;
	pthread_mutex_unlock(&seen->lock);
	return room;
}

static bool on_gap(void *arg, const struct core_event_gap *gap)
{
	struct seen *seen = arg;

	pthread_mutex_lock(&seen->lock);
	seen->gap = *gap;
	pthread_mutex_unlock(&seen->lock);
	return true;
}

static const struct core_event_sink sink = { .event = on_event, .gap = on_gap };

static struct seen *seen_new(void)
{
	struct seen *seen = xcalloc(1, sizeof(*seen));

	pthread_mutex_init(&seen->lock, NULL);
	return seen;
}

static void seen_free(struct seen *seen)
{
	pthread_mutex_destroy(&seen->lock);
	free(seen);
}

static size_t seen_n(struct seen *seen)
{
	size_t n;

	pthread_mutex_lock(&seen->lock);
	n = seen->n;
	pthread_mutex_unlock(&seen->lock);
	return n;
}

static void wait_for_seen(struct seen *seen, size_t n)
{
	int64_t deadline = clock_boottime_ms() + WAIT_MS;

	while (seen_n(seen) < n) {
		if (clock_boottime_ms() >= deadline)
			fail_msg("%zu of %zu events have come", seen_n(seen), n);
		usleep(2000);
	}
	assert_int_equal(seen_n(seen), n);
}

static struct core_event_follower *follow(struct fixture *f, const char *sandbox, const char *types,
					  int64_t cursor, struct seen *seen)
{
	const struct core_event_filter filter = { .sandbox_id = sandbox, .types = types };
	struct core_event_follower *follower;
	int64_t begins;

	assert_int_equal(core_events_follow(f->core, &f->admin, &filter, cursor, &sink, seen,
					    &begins, &follower, NULL),
			 0);
	if (cursor >= 0)
		assert_int_equal(begins, cursor);
	return follower;
}

static void test_followers(void **state)
{
	struct fixture *f = *state;
	struct seen *now = seen_new(), *all = seen_new(), *one = seen_new(), *paused = seen_new();
	struct core_event_follower *followers[4];

	write_n(f, SANDBOX, EVENT_SANDBOX_PAUSED, 3);
	followers[0] = follow(f, NULL, NULL, -1, now);
	followers[1] = follow(f, NULL, NULL, 0, all);
	followers[2] = follow(f, OTHER, NULL, 0, one);
	followers[3] = follow(f, NULL, "sandbox_paused", 1, paused);
	write_n(f, OTHER, EVENT_SANDBOX_RESUMED, 2);
	usleep(50000); /* nothing comes before they ask */
	assert_int_equal(seen_n(all), 0);
	for (size_t i = 0; i < 4; i++)
		core_event_follower_resume(followers[i]);
	wait_for_seen(now, 2);
	wait_for_seen(all, 5);
	wait_for_seen(one, 2);
	wait_for_seen(paused, 2);
	post(f, OTHER, EVENT_EXEC_ENDED, 1);
	wait_for_seen(now, 3);
	wait_for_seen(all, 6);
	wait_for_seen(one, 3);
	for (size_t i = 0; i < all->n; i++)
		assert_int_equal(all->ids[i], (int64_t)i + 1);
	assert_int_equal(now->ids[0], 4);
	assert_int_equal(one->ids[2], 6);
	for (size_t i = 0; i < 4; i++)
		core_event_follower_close(followers[i]);
	write_n(f, SANDBOX, EVENT_SANDBOX_PAUSED, 1);
	usleep(50000);
	assert_int_equal(seen_n(paused), 2);
	seen_free(now);
	seen_free(all);
	seen_free(one);
	seen_free(paused);
}

/* One that takes a few and waits loses nothing, gets nothing twice, and holds nobody up. */
static void test_a_slow_one(void **state)
{
	struct fixture *f = *state;
	struct seen *slow = seen_new(), *fast = seen_new();
	struct core_event_follower *a, *b;

	slow->room = 10;
	a = follow(f, NULL, NULL, 0, slow);
	b = follow(f, NULL, NULL, 0, fast);
	core_event_follower_resume(a);
	core_event_follower_resume(b);
	for (int i = 0; i < 20; i++)
		write_n(f, SANDBOX, EVENT_SANDBOX_PAUSED, 100);
	wait_for_seen(fast, 2000);
	assert_int_equal(seen_n(slow), 10);
	for (size_t n = 20; n <= 2000; n += 10) {
		pthread_mutex_lock(&slow->lock);
		slow->room = 10;
		pthread_mutex_unlock(&slow->lock);
		core_event_follower_resume(a);
		wait_for_seen(slow, n);
	}
	for (size_t i = 0; i < 2000; i++)
		assert_int_equal(slow->ids[i], (int64_t)i + 1);
	core_event_follower_close(a);
	core_event_follower_close(b);
	seen_free(slow);
	seen_free(fast);
}

static void test_a_gap_is_told(void **state)
{
	struct fixture *f = *state;
	struct seen *seen = seen_new();
	struct core_event_page page = { 0 };
	struct core_event_follower *follower;
	int64_t pruned;

	f->core->limits.events_per_account = 1000;
	write_n(f, SANDBOX, EVENT_SANDBOX_PAUSED, 3000);
	assert_int_equal(page_of(f, NULL, NULL, 5, 10, &page, NULL), 0);
	assert_int_equal(page.gap.from, 6);
	pruned = page.gap.to;
	assert_in_range(pruned, 1500, 2000);
	assert_int_equal(page.items[0].id, pruned + 1);
	core_event_page_clear(&page);
	/* From the oldest there is: nothing is missing. */
	assert_page(f, NULL, NULL, 0, 1, 1, pruned + 1, pruned + 1, true);

	follower = follow(f, NULL, NULL, 5, seen);
	core_event_follower_resume(follower);
	wait_for_seen(seen, (size_t)(3000 - pruned));
	assert_int_equal(seen->gap.from, 6);
	assert_int_equal(seen->gap.to, pruned);
	assert_int_equal(seen->ids[0], pruned + 1);
	core_event_follower_close(follower);
	seen_free(seen);
}

static void test_followers_are_bounded(void **state)
{
	struct fixture *f = *state;
	struct core_event_filter filter = { 0 };
	struct core_event_follower *a, *b, *none = NULL;
	struct seen *seen = seen_new();
	struct err err = ERR_INIT;
	int64_t begins;

	f->core->limits.event_followers_per_account = 2;
	a = follow(f, NULL, NULL, 0, seen);
	b = follow(f, NULL, NULL, 0, seen);
	assert_int_equal(core_events_follow(f->core, &f->admin, &filter, 0, &sink, seen, &begins,
					    &none, &err),
			 -EDQUOT);
	assert_string_equal(err_code_of(&err), "limit_reached");
	core_event_follower_close(a);
	a = follow(f, NULL, NULL, 0, seen);
	core_event_follower_close(a);
	core_event_follower_close(b);
	seen_free(seen);
}

/* ---- over a restart, and when nothing can be written ---- */

static void test_a_restart_keeps_all(void **state)
{
	struct fixture *f = *state;
	struct seen *seen = seen_new();
	struct core_event_follower *follower;

	write_n(f, SANDBOX, EVENT_SANDBOX_CREATED, 1);
	for (int i = 0; i < 100; i++)
		post(f, SANDBOX, EVENT_EXEC_STARTED, i);
	rig_restart(f); /* in order: also what was posted a moment ago */
	assert_page(f, NULL, NULL, 0, 1000, 101, 1, 101, false);
	follower = follow(f, NULL, NULL, 50, seen);
	core_event_follower_resume(follower);
	wait_for_seen(seen, 51);
	write_n(f, SANDBOX, EVENT_SANDBOX_PAUSED, 1);
	wait_for_seen(seen, 52);
	assert_int_equal(seen->ids[51], 102);
	core_event_follower_close(follower);
	seen_free(seen);
}

/* A database that is held costs no memory without end, and nobody waits: what was lost is told. */
static void test_too_many_are_counted(void **state)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct core_event_page page = { 0 };
	struct fixture *f = *state;
	int64_t deadline, lost = 0;

	assert_int_equal(db_begin_write(f->core->db, &txn, NULL), 0);
	post(f, SANDBOX, EVENT_EXEC_STARTED, 0);
	usleep(2 * EVENTS_BATCH_MS * 1000); /* the first batch waits for the database by now */
	for (int i = 1; i <= 20000; i++)
		post(f, SANDBOX, EVENT_EXEC_STARTED, i);
	db_rollback(&txn);
	for (deadline = clock_boottime_ms() + WAIT_MS; !lost; usleep(10000)) {
		assert_true(clock_boottime_ms() < deadline);
		assert_int_equal(page_of(f, NULL, "events_lost", 0, 10, &page, NULL), 0);
		if (page.n > 0) {
			_cleanup_json_ json_t *data = NULL;

			assert_int_equal(page.n, 1);
			assert_int_equal(json_parse(page.items[0].data, strlen(page.items[0].data),
						    &data, NULL),
					 0);
			lost = json_get_int(data, "count", 0);
			assert_int_equal(page.items[0].id - 1 + lost, 20001);
		}
		core_event_page_clear(&page);
	}
	assert_in_range(lost, 10000, 20000);
}

/* ---- of rows ---- */

static void assert_newest(struct fixture *f, const char *type, const char *part)
{
	struct core_event_page page = { 0 };

	assert_int_equal(page_of(f, NULL, NULL, CORE_EVENTS_NEWEST, 1, &page, NULL), 0);
	assert_int_equal(page.n, 1);
	assert_string_equal(page.items[0].type, type);
	if (!strstr(page.items[0].data, part))
		fail_msg("no %s in %s", part, page.items[0].data);
	core_event_page_clear(&page);
}

static void test_rules_and_networks(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "web", "[]");
	struct core_network_member member;
	int64_t created;

	assert_int_equal(set_rules(f, sb, "[\"192.0.2.1:443\"]", NULL), 0);
	assert_newest(f, "egress_changed", "{\"count\":1,\"rules\":[\"192.0.2.1:443\"]}");
	assert_int_equal(set_rules(f, sb, "null", NULL), 0);
	assert_newest(f, "egress_changed", "{\"rules\":null}");
	assert_int_equal(core_network_create(f->core, &f->admin, "team", &created, NULL), 0);
	assert_int_equal(core_network_join(f->core, &f->admin, "team", sb->id, NULL, &member, NULL),
			 0);
	assert_newest(f, "network_joined", "{\"network\":\"team\",\"name\":\"web\"}");
	assert_int_equal(core_network_leave(f->core, &f->admin, "team", sb->id, NULL), 0);
	assert_newest(f, "network_left", "{\"network\":\"team\"}");
	sandbox_unref(sb);
}

static void deny(struct fixture *f, struct sandbox *sb, uint16_t port)
{
	const struct denial denial = {
		.address = 0xc0000201,
		.port = port,
		.protocol = 6,
		.reason = "no egress rule allows it",
		.rule = "192.0.2.1",
	};

	pthread_mutex_lock(&f->core->net_lock);
	event_denied(sb, &denial, 2);
	pthread_mutex_unlock(&f->core->net_lock);
}

/* Some a second one by one; of the others the number, also when no more comes. */
static void test_denials_are_paced(void **state)
{
	struct fixture *f = *state;
	struct sandbox *sb = make_sandbox(f, "web", "[]");
	struct core_event_page page = { 0 };
	int64_t told = 0, unreported = 0;
	int64_t deadline = clock_boottime_ms() + WAIT_MS;

	for (uint16_t port = 1; port <= 1000; port++)
		deny(f, sb, port);
	while (told + unreported < 3000) {
		told = unreported = 0;
		assert_true(clock_boottime_ms() < deadline);
		usleep(50000);
		assert_int_equal(page_of(f, sb->id, "egress_denied", 0, 1000, &page, NULL), 0);
		for (size_t i = 0; i < page.n; i++) {
			_cleanup_json_ json_t *data = NULL;

			assert_int_equal(json_parse(page.items[i].data, strlen(page.items[i].data),
						    &data, NULL),
					 0);
			told += json_get_str(data, "address", NULL) != NULL;
			unreported += json_get_int(data, "unreported", 0);
		}
		core_event_page_clear(&page);
	}
	assert_int_equal(told + unreported, 3000);
	assert_in_range(told, DENIAL_EVENTS_PER_S, 20 * DENIAL_EVENTS_PER_S);
	sandbox_unref(sb);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RIG_TEST(test_posts_become_rows),   RIG_TEST(test_pages),
		RIG_TEST(test_what_is_no_filter),   RIG_TEST(test_rolled_back_is_nothing),
		RIG_TEST(test_followers),	    RIG_TEST(test_a_slow_one),
		RIG_TEST(test_a_gap_is_told),	    RIG_TEST(test_followers_are_bounded),
		RIG_TEST(test_a_restart_keeps_all), RIG_TEST(test_too_many_are_counted),
		RIG_TEST(test_rules_and_networks),  RIG_TEST(test_denials_are_paced),
	};

	return cmocka_run_group_tests_name("core_events", tests, NULL, NULL);
}
