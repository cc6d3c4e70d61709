/*
 * Reading events: pages, and followers. See events.h.
 *
 * The thread looks at followers in groups: those of one account that stand at the same event are
 * served by one reading of the table, and what a follower is not interested in it passes by in
 * memory. Nearly all stand at the end; one that comes from far behind is a group of its own, and is
 * read for with its filter.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/str.h"
#include "core/events_internal.h"

#define PAGE_DEFAULT 100
#define PAGE_MAX     1000
#define ALL_TYPES    ((1u << EVENT_TYPES) - 1)

static_assert(EVENT_TYPES < 32, "types fit into a word");

const char *const *core_event_types(void)
{
	return event_type_names;
}

/* ---- filters ---- */

static int parse_type(const char *name, size_t len, uint32_t *types, struct err *err)
{
	for (int i = 0; i < EVENT_TYPES; i++) {
		if (strlen(event_type_names[i]) == len &&
		    memcmp(event_type_names[i], name, len) == 0) {
			*types |= 1u << i;
			return 0;
		}
	}
	err_code(err, -EINVAL, "invalid_argument", "argument \"type\": there is no type '%.*s'",
		 (int)(len < 64 ? len : 64), name);
	err_hint(err, "types are named sandbox_created, exec_ended and so on: docs/events.md");
	return -EINVAL;
}

static int parse_types(const char *text, uint32_t *ret, struct err *err)
{
	uint32_t types = 0;

	if (!text) {
		*ret = ALL_TYPES;
		return 0;
	}
	for (;;) {
		size_t len = strcspn(text, ",");
		int r = parse_type(text, len, &types, err);

		if (r < 0)
			return r;
		if (!text[len])
			break;
		text += len + 1;
	}
	*ret = types;
	return 0;
}

static int parse_filter(const struct core_event_filter *filter, uint32_t *ret_types,
			struct err *err)
{
	if (filter->sandbox_id && !sandbox_id_valid(filter->sandbox_id))
		return err_code(err, -EINVAL, "invalid_argument",
				"argument \"sandbox_id\": '%.64s' is no sandbox's id",
				filter->sandbox_id);
	return parse_types(filter->types, ret_types, err);
}

/* As the store wants it; names must have room for all types and an end. */
static const char *const *type_list(uint32_t types, const char **names)
{
	size_t n = 0;

	if (types == ALL_TYPES)
		return NULL;
	for (int i = 0; i < EVENT_TYPES; i++) {
		if (types & (1u << i))
			names[n++] = event_type_names[i];
	}
	names[n] = NULL;
	return names;
}

static int check_cursor(int64_t cursor, const struct event_bounds *bounds, struct err *err)
{
	if (cursor <= bounds->last_id)
		return 0;
	err_code(err, -EINVAL, "invalid_cursor",
		 "no event has had the id %lld yet, the newest is %lld", (long long)cursor,
		 (long long)bounds->last_id);
	err_hint(err, "use the id of an event that you have seen, or leave the cursor out");
	return -EINVAL;
}

/* 0 and less mean what there is: nothing is missing then. */
static struct core_event_gap gap_after(int64_t cursor, const struct event_bounds *bounds)
{
	if (cursor <= 0 || cursor >= bounds->pruned_id)
		return (struct core_event_gap){ 0 };
	return (struct core_event_gap){ cursor + 1, bounds->pruned_id };
}

static struct core_event event_of(const struct event_row *row)
{
	return (struct core_event){
		.id = row->id,
		.at_unix_ms = row->at_unix_ms,
		.type = row->type,
		.sandbox_id = row->sandbox_id,
		.data = row->data,
	};
}

/* ---- pages ---- */

void core_event_page_clear(struct core_event_page *page)
{
	event_rows_free(page->rows, page->n_rows);
	free(page->items);
	*page = (struct core_event_page){ 0 };
}

/* Where the newest n begin; 0: nothing is before them. */
static int before_newest(struct db_txn *txn, struct event_filter *filter, uint32_t n,
			 struct err *err)
{
	int64_t id = 0;
	int r = events_newest(txn, filter, n, &id, err);

	filter->after_id = id > 0 ? id - 1 : 0;
	return r;
}

static int read_page(struct core *core, struct event_filter *filter,
		     struct event_bounds *ret_bounds, struct event_row **ret, size_t *ret_n,
		     struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_read(core->db, &txn, err);

	if (r == 0)
		r = events_bounds(&txn, filter->account_id, ret_bounds, err);
	if (r == 0 && filter->after_id == CORE_EVENTS_NEWEST)
		r = before_newest(&txn, filter, filter->limit - 1, err);
	if (r == 0)
		r = check_cursor(filter->after_id, ret_bounds, err);
	if (r < 0 || filter->after_id == ret_bounds->last_id)
		return r;
	return events_list(&txn, filter, ret, ret_n, err);
}

/* What a key's scope does not have it does not hear of; what is of no sandbox is the account's. */
static bool is_for(struct core *core, const struct key_scope *scope, const struct event_row *row)
{
	return !key_scope_narrows_sandboxes(scope) ||
	       (row->sandbox_id[0] && scope_sees_sandbox(core, scope, row->sandbox_id));
}

static void fill_page(struct core *core, const struct key_scope *scope,
		      const struct event_row *rows, struct core_event_page *page)
{
	const size_t n = page->n;

	page->items = xcalloc(n + 1, sizeof(*page->items));
	page->n = 0;
	for (size_t i = 0; i < n; i++) {
		if (is_for(core, scope, &rows[i]))
			page->items[page->n++] = event_of(&rows[i]);
	}
}

int core_events_page(struct core *core, const struct principal *who,
		     const struct core_event_filter *filter, int64_t cursor, uint32_t limit,
		     struct core_event_page *ret, struct err *err)
{
	const char *names[EVENT_TYPES + 1];
	struct core_event_page page = { 0 };
	struct event_bounds bounds = { 0 };
	struct event_filter wanted;
	struct event_row *rows = NULL;
	uint32_t types;
	size_t n = 0;
	int r = parse_filter(filter, &types, err);

	if (r < 0)
		return r;
	if (limit > PAGE_MAX)
		return err_set(err, -EINVAL, "limit %u is not from 1 to %d", limit, PAGE_MAX);
	if (limit == 0)
		limit = PAGE_DEFAULT;
	wanted = (struct event_filter){
		.account_id = who->account_id,
		.sandbox_id = filter->sandbox_id,
		.types = type_list(types, names),
		.after_id = cursor,
		.limit = limit + 1, /* whether there is more */
	};
	r = read_page(core, &wanted, &bounds, &rows, &n, err);
	if (r < 0)
		return r;
	page.rows = rows;
	page.n_rows = n;
	page.more = n > limit;
	page.n = page.more ? limit : n;
	page.gap = gap_after(cursor, &bounds);
	page.cursor = page.more ? rows[limit - 1].id : bounds.last_id;
	fill_page(core, who->scope, rows, &page);
	*ret = page;
	return 0;
}

/* ---- followers ---- */

static void event_follower_free(struct follower *base)
{
	struct core_event_follower *follower = (struct core_event_follower *)base;

	key_scope_unref(follower->scope);
	free(follower);
}

static int load_bounds(struct core *core, const char *account_id, struct event_bounds *ret,
		       struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_read(core->db, &txn, err);

	return r < 0 ? r : events_bounds(&txn, account_id, ret, err);
}

static bool is_of_the_account(const struct follower *one, const struct follower *other)
{
	return str_eq(((const struct core_event_follower *)one)->account_id,
		      ((const struct core_event_follower *)other)->account_id);
}

static int add_follower(struct core_event_follower *follower, struct err *err)
{
	const int64_t limit = follower->events->core->limits.event_followers_per_account;

	if (followers_add(&follower->base, limit, is_of_the_account))
		return 0;
	err_code(err, -EDQUOT, "limit_reached",
		 "%lld streams of events are open, the limit is %lld", (long long)limit,
		 (long long)limit);
	err_hint(err, "close one that is not needed, then try again");
	return -EDQUOT;
}

int core_events_follow(struct core *core, const struct principal *who,
		       const struct core_event_filter *filter, int64_t cursor,
		       const struct core_event_sink *sink, void *arg, int64_t *ret_cursor,
		       struct core_event_follower **ret, struct err *err)
{
	struct core_event_follower *follower;
	struct event_bounds bounds = { 0 };
	uint32_t types;
	int r = parse_filter(filter, &types, err);

	if (r == 0)
		r = load_bounds(core, who->account_id, &bounds, err);
	if (r == 0)
		r = check_cursor(cursor, &bounds, err);
	if (r < 0)
		return r;
	follower = xcalloc(1, sizeof(*follower));
	*ret_cursor = cursor < 0 ? bounds.last_id : cursor;
	follower_init(&follower->base, &core->events->followers, *ret_cursor, event_follower_free);
	follower->events = core->events;
	str_copy(follower->account_id, sizeof(follower->account_id), who->account_id);
	follower->scope = key_scope_ref(who->scope);
	str_copy(follower->sandbox_id, sizeof(follower->sandbox_id),
		 filter->sandbox_id ? filter->sandbox_id : "");
	follower->types = types;
	follower->sink = *sink;
	follower->arg = arg;
	r = add_follower(follower, err);
	if (r < 0)
		follower_unref(&follower->base);
	else
		*ret = follower;
	return r;
}

void core_event_follower_resume(struct core_event_follower *follower)
{
	follower_resume(&follower->base);
}

void core_event_follower_close(struct core_event_follower *follower)
{
	if (follower)
		follower_close(&follower->base);
}

/* ---- serving: the events' thread, which alone moves cursors ---- */

static bool wants(const struct core_event_follower *follower, const struct event_row *row)
{
	struct core *core = follower->events->core;
	const struct key_scope *scope = follower->scope;

	if (follower->sandbox_id[0] && !str_eq(follower->sandbox_id, row->sandbox_id))
		return false;
	for (int i = 0; follower->types != ALL_TYPES && i < EVENT_TYPES; i++) {
		if (str_eq(event_type_names[i], row->type))
			return (follower->types & (1u << i)) && is_for(core, scope, row);
	}
	return is_for(core, scope, row);
}

/* Rows up to upto_id, in so far as it wants and takes them. */
static void hand_on(struct core_event_follower *follower, const struct core_event_gap *gap,
		    const struct event_row *rows, size_t n, int64_t upto_id)
{
	struct follower *base = &follower->base;

	pthread_mutex_lock(&base->lock);
	if (gap->to && follower_takes(base)) {
		base->full = !follower->sink.gap(follower->arg, gap);
		base->cursor = gap->to;
	}
	for (size_t i = 0; i < n && follower_takes(base); i++) {
		const struct core_event event = event_of(&rows[i]);

		base->cursor = rows[i].id;
		if (wants(follower, &rows[i]))
			base->full = !follower->sink.event(follower->arg, &event);
	}
	if (!base->full && base->cursor < upto_id)
		base->cursor = upto_id;
	pthread_mutex_unlock(&base->lock);
}

/* Those from all[0] on that stand where it does, moved to the front. */
static size_t gather(struct follower **all, size_t n)
{
	size_t same = 1;

	for (size_t i = 1; i < n; i++) {
		struct follower *one = all[i];

		if (one->cursor != all[0]->cursor || !is_of_the_account(one, all[0]))
			continue;
		all[i] = all[same];
		all[same++] = one;
	}
	return same;
}

/* One reading for a group. *ret_more: there is more for those that are not full. */
static int serve_group(struct core_events *events, struct follower **group, size_t n,
		       bool *ret_more, struct err *err)
{
	const struct core_event_follower *first = (const struct core_event_follower *)group[0];
	const int64_t cursor = first->base.cursor;
	const char *names[EVENT_TYPES + 1];
	struct event_filter filter = {
		.account_id = first->account_id,
		.after_id = cursor,
		.limit = EVENTS_PAGE,
	};
	struct event_bounds bounds = { 0 };
	struct core_event_gap gap;
	struct event_row *rows = NULL;
	size_t n_rows = 0;
	int64_t upto_id;
	int r;

	if (n == 1) {
		filter.sandbox_id = first->sandbox_id[0] ? first->sandbox_id : NULL;
		filter.types = type_list(first->types, names);
	}
	r = read_page(events->core, &filter, &bounds, &rows, &n_rows, err);
	if (r < 0)
		return r;
	gap = gap_after(cursor, &bounds);
	*ret_more = n_rows == EVENTS_PAGE;
	upto_id = *ret_more ? rows[n_rows - 1].id : bounds.last_id;
	for (size_t i = 0; i < n; i++)
		hand_on((struct core_event_follower *)group[i], &gap, rows, n_rows, upto_id);
	event_rows_free(rows, n_rows);
	return 0;
}

/* All of them, once; those for which there is more stay in all, from the front on. */
static bool serve_all(struct core_events *events, struct follower **all, size_t *n)
{
	size_t left = 0, at = 0, i;
	bool good = true;

	while (at < *n) {
		size_t group = gather(all + at, *n - at);
		struct err err = ERR_INIT;
		bool more = false;

		if (serve_group(events, all + at, group, &more, &err) < 0) {
			log_warn("events cannot be read", "account=%s error=\"%s\"",
				 ((const struct core_event_follower *)all[at])->account_id,
				 err.message);
			good = false;
		}
		for (i = at; i < at + group; i++) {
			if (more && follower_takes_now(all[i]))
				all[left++] = all[i];
			else
				follower_unref(all[i]);
		}
		at += group;
	}
	*n = left;
	return good;
}

bool events_serve(struct core_events *events)
{
	size_t n_all, n = 0;
	struct follower **all = followers_all(&events->followers, &n_all);
	bool good = true;

	for (size_t i = 0; i < n_all; i++) {
		if (follower_takes_now(all[i]))
			all[n++] = all[i];
		else
			follower_unref(all[i]);
	}
	while (n > 0)
		good &= serve_all(events, all, &n);
	free(all);
	return good;
}
