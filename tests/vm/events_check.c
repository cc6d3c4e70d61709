/* See events_check.h. */
#include "events_check.h"

#include <string.h>

#include "base/alloc.h"
#include "base/str.h"
#include "store/events.h"

#define LIMIT 100000

/* After `before` (NULL: at first) comes `type`; and what a row says meanwhile. Those that are not
 * listed move nothing. */
struct move {
	const char *before, *type;
};

static const struct move moves[] = {
	{ NULL, "sandbox_created" },
	{ "sandbox_created", "sandbox_running" },
	{ "sandbox_running", "sandbox_pausing" },
	{ "sandbox_resumed", "sandbox_pausing" },
	{ "sandbox_pausing", "sandbox_paused" },
	{ "sandbox_pausing", "sandbox_running" },
	{ "sandbox_paused", "sandbox_resumed" },
	{ "sandbox_created", "sandbox_failed" },
	{ "sandbox_created", "sandbox_destroyed" },
	{ "sandbox_running", "sandbox_destroyed" },
	{ "sandbox_resumed", "sandbox_destroyed" },
	{ "sandbox_pausing", "sandbox_destroyed" },
	{ "sandbox_paused", "sandbox_destroyed" },
	{ "sandbox_running", "sandbox_expired" },
	{ "sandbox_resumed", "sandbox_expired" },
	{ "sandbox_pausing", "sandbox_expired" },
	{ "sandbox_paused", "sandbox_expired" },
};

static const struct move statuses[] = {
	{ "sandbox_created", "creating" },    { "sandbox_running", "running" },
	{ "sandbox_resumed", "running" },     { "sandbox_pausing", "pausing" },
	{ "sandbox_paused", "paused" },	      { "sandbox_paused", "resuming" },
	{ "sandbox_destroyed", "destroyed" }, { "sandbox_expired", "destroyed" },
	{ "sandbox_failed", "failed" },
};

static bool is_in(const struct move *list, size_t n, const char *before, const char *type)
{
	for (size_t i = 0; i < n; i++) {
		bool same = before ? str_eq(list[i].before, before) : !list[i].before;

		if (same && str_eq(list[i].type, type))
			return true;
	}
	return false;
}

static bool moves_something(const char *type)
{
	for (size_t i = 0; i < ARRAY_SIZE(moves); i++) {
		if (str_eq(moves[i].type, type))
			return true;
	}
	return false;
}

/* The last move of a sandbox among the first n events; NULL: none. */
static const char *last_move(const struct event_row *rows, size_t n, const char *id)
{
	while (n-- > 0) {
		if (str_eq(rows[n].sandbox_id, id) && moves_something(rows[n].type))
			return rows[n].type;
	}
	return NULL;
}

static void check_moves(const struct event_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *before = last_move(rows, i, rows[i].sandbox_id);

		assert_int_equal(rows[i].id, rows[0].id + (int64_t)i);
		if (moves_something(rows[i].type) &&
		    !is_in(moves, ARRAY_SIZE(moves), before, rows[i].type))
			fail_msg("sandbox %s: event %s after %s", rows[i].sandbox_id, rows[i].type,
				 before ? before : "nothing");
	}
}

static void check_rows(struct db_txn *txn, const struct event_row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char *last = last_move(rows, n, rows[i].sandbox_id);
		_cleanup_(sandbox_row_clear) struct sandbox_row row = { 0 };

		if (!str_eq(rows[i].type, "sandbox_created"))
			continue;
		/* What has no row any more has ended. */
		if (sandboxes_get(txn, rows[i].sandbox_id, NULL, &row, NULL) < 0)
			assert_true(is_in(statuses, ARRAY_SIZE(statuses), last, "destroyed") ||
				    is_in(statuses, ARRAY_SIZE(statuses), last, "failed"));
		else if (!str_eq(row.status, "destroying") &&
			 !is_in(statuses, ARRAY_SIZE(statuses), last, row.status))
			fail_msg("sandbox %s is %s, and its last event is %s", row.id, row.status,
				 last);
	}
}

static void check_all_have_events(struct db_txn *txn, const struct rig *rig,
				  const struct event_row *rows, size_t n)
{
	const struct sandbox_filter filter = {
		.account_id = rig->admin.account_id,
		.status = "all",
		.limit = 200,
	};
	struct sandbox_row *sandboxes = NULL;
	size_t n_sandboxes = 0;

	assert_int_equal(sandboxes_list(txn, &filter, &sandboxes, &n_sandboxes, NULL), 0);
	for (size_t i = 0; i < n_sandboxes; i++)
		assert_non_null(last_move(rows, n, sandboxes[i].id));
	sandbox_rows_free(sandboxes, n_sandboxes);
}

/* There is one name of snapshots in these tests. */
static void check_snapshots(struct db_txn *txn, const struct rig *rig, const struct event_row *rows,
			    size_t n)
{
	struct snapshot_row *snapshots = NULL;
	size_t n_snapshots = 0, made = 0, removed = 0, ready = 0;

	assert_int_equal(snapshots_list(txn, rig->admin.account_id, &snapshots, &n_snapshots, NULL),
			 0);
	for (size_t i = 0; i < n_snapshots; i++)
		ready += snapshots[i].ready;
	for (size_t i = 0; i < n; i++) {
		made += str_eq(rows[i].type, "snapshot_created");
		removed += str_eq(rows[i].type, "snapshot_removed");
	}
	assert_int_equal(made, removed + ready);
	snapshot_rows_free(snapshots, n_snapshots);
}

void events_check(struct rig *rig)
{
	const struct event_filter filter = { .account_id = rig->admin.account_id, .limit = LIMIT };
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	struct event_row *rows = NULL;
	size_t n = 0;

	assert_int_equal(db_begin_read(rig->core->db, &txn, NULL), 0);
	assert_int_equal(events_list(&txn, &filter, &rows, &n, NULL), 0);
	check_moves(rows, n);
	check_rows(&txn, rows, n);
	check_all_have_events(&txn, rig, rows, n);
	check_snapshots(&txn, rig, rows, n);
	event_rows_free(rows, n);
}
