/*
 * Reading the audit: pages, followers, and the check of all of it. See audit.h.
 *
 * Followers are served by the thread that writes, from the table, each from its own place: one that
 * waits costs an object, and one that reads slowly no more than that. They are few: who looks at
 * what agents do, and programs that keep a copy elsewhere.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/audit_internal.h"

#define FOLLOWERS_MAX 256
#define SERVE_PAGE    128
#define VERIFY_PAGE   500

/* ---- who may see what ---- */

static int refuse_others(struct err *err)
{
	return err_code(err, -EPERM, "scope_denied",
			"this key may not read what others did: it is no administrator's, or for "
			"certain sandboxes");
}

static int store_filter(const struct principal *who, const struct core_audit_filter *filter,
			struct audit_filter *ret, struct err *err)
{
	*ret = (struct audit_filter){
		.account_id = filter->account_id,
		.key_id = filter->key_id,
		.sandbox_id = filter->sandbox_id,
		.operation = filter->operation,
		.request_id = filter->request_id,
		.result = filter->result,
	};
	/* A key for some sandboxes sees what it did itself. */
	if (key_scope_narrows_sandboxes(who->scope)) {
		ret->key_id = who->key_id;
		ret->account_id = who->account_id;
		return filter->key_id && !str_eq(filter->key_id, who->key_id) ? refuse_others(err)
									      : 0;
	}
	if (who->admin)
		return 0;
	if (filter->account_id && !str_eq(filter->account_id, who->account_id))
		return refuse_others(err);
	ret->account_id = who->account_id;
	return 0;
}

static void row_line(const struct audit_row *row, struct buf *out)
{
	chain_line(out, row->body, strlen(row->body), row->hash);
}

/* ---- pages ---- */

void core_audit_page_clear(struct core_audit_page *page)
{
	for (size_t i = 0; i < page->n; i++)
		free((char *)(uintptr_t)page->items[i].line);
	free(page->items);
	*page = (struct core_audit_page){ 0 };
}

static int read_rows(struct core_audit *audit, const struct audit_filter *filter,
		     struct audit_state *ret_state, struct audit_row **ret, size_t *ret_n,
		     struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_read(audit->db, &txn, err);

	if (r == 0)
		r = audit_state_get(&txn, ret_state, err);
	return r < 0 ? r : audit_list(&txn, filter, ret, ret_n, err);
}

static int check_cursor(int64_t cursor, const struct audit_state *state, struct err *err)
{
	if (cursor <= state->last_seq)
		return 0;
	err_code(err, -EINVAL, "invalid_cursor",
		 "there is no record %" PRId64 " yet, the newest is %" PRId64, cursor,
		 state->last_seq);
	err_hint(err, "use the number of a record that you have seen, or leave the cursor out");
	return -EINVAL;
}

int core_audit_list(struct core *core, const struct principal *who,
		    const struct core_audit_filter *filter, const struct core_audit_range *range,
		    struct core_audit_page *ret, struct err *err)
{
	struct core_audit_page page = { 0 };
	struct audit_filter wanted;
	struct audit_state state = { 0 };
	struct audit_row *rows = NULL;
	size_t n = 0, first;
	int r = store_filter(who, filter, &wanted, err);

	if (r < 0)
		return r;
	wanted.after_seq = range->after;
	wanted.before_seq = range->before;
	wanted.newest = range->newest;
	wanted.limit = range->limit + 1; /* whether there is more */
	r = read_rows(core->audit, &wanted, &state, &rows, &n, err);
	if (r == 0)
		r = check_cursor(range->after, &state, err);
	if (r < 0) {
		audit_rows_free(rows, n);
		return r;
	}
	page.more = n > range->limit;
	page.n = page.more ? range->limit : n;
	first = page.more && range->newest ? 1 : 0;
	page.items = xcalloc(page.n + 1, sizeof(*page.items));
	for (size_t i = 0; i < page.n; i++) {
		struct buf line = BUF_INIT;

		row_line(&rows[first + i], &line);
		page.items[i] = (struct core_audit_record){ rows[first + i].seq, buf_take(&line) };
	}
	page.cursor = page.more && !range->newest ? rows[page.n - 1].seq : state.last_seq;
	audit_rows_free(rows, n);
	*ret = page;
	return 0;
}

/* ---- followers ---- */

struct core_audit_follower {
	struct follower base;
	struct core_audit *audit;
	char texts[6][AUDIT_TEXT_SIZE];
	struct audit_filter filter; /* of these texts */
	struct core_audit_sink sink;
	void *arg;
	int64_t up_to; /* the last one to hand on, where the sink has an end */
	bool ended;
};

static void audit_follower_free(struct follower *base)
{
	free((struct core_audit_follower *)base);
}

/* The filter's texts outlive whoever asked. */
static void keep_filter(struct core_audit_follower *follower, const struct audit_filter *filter)
{
	const char **fields[] = { &follower->filter.account_id, &follower->filter.key_id,
				  &follower->filter.sandbox_id, &follower->filter.operation,
				  &follower->filter.request_id, &follower->filter.result };

	follower->filter = *filter;
	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		if (!*fields[i])
			continue;
		str_copy(follower->texts[i], sizeof(follower->texts[i]), *fields[i]);
		*fields[i] = follower->texts[i];
	}
	follower->filter.limit = SERVE_PAGE;
}

static int add_follower(struct core_audit_follower *follower, struct err *err)
{
	if (followers_add(&follower->base, FOLLOWERS_MAX, NULL))
		return 0;
	err_code(err, -EAGAIN, "limit_reached", "%d clients follow the audit, which is the limit",
		 FOLLOWERS_MAX);
	err_hint(err, "end one of them, or read it in pages");
	return -EAGAIN;
}

int core_audit_follow(struct core *core, const struct principal *who,
		      const struct core_audit_filter *filter, int64_t cursor,
		      const struct core_audit_sink *sink, void *arg, int64_t *ret_cursor,
		      struct core_audit_follower **ret, struct err *err)
{
	struct core_audit_follower *follower;
	struct audit_state state = { 0 };
	struct audit_filter wanted;
	int r = store_filter(who, filter, &wanted, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&core->audit->lock);
	state = core->audit->state;
	pthread_mutex_unlock(&core->audit->lock);
	r = check_cursor(cursor, &state, err);
	if (r < 0)
		return r;
	follower = xcalloc(1, sizeof(*follower));
	*ret_cursor = cursor < 0 ? state.last_seq : cursor;
	follower_init(&follower->base, &core->audit->followers, *ret_cursor, audit_follower_free);
	follower->audit = core->audit;
	follower->sink = *sink;
	follower->arg = arg;
	follower->up_to = state.last_seq;
	keep_filter(follower, &wanted);
	r = add_follower(follower, err);
	if (r < 0)
		follower_unref(&follower->base);
	else
		*ret = follower;
	return r;
}

void core_audit_resume(struct core_audit_follower *follower)
{
	follower_resume(&follower->base);
}

void core_audit_close_follower(struct core_audit_follower *follower)
{
	if (follower)
		follower_close(&follower->base);
}

/* ---- serving: the audit's thread, which alone moves cursors ---- */

/* Its lock held. */
static bool takes_more(const struct core_audit_follower *follower)
{
	return follower_takes(&follower->base) && !follower->ended;
}

static void hand_on(struct core_audit_follower *follower, const struct audit_row *rows, size_t n,
		    int64_t upto_seq)
{
	struct follower *base = &follower->base;

	pthread_mutex_lock(&base->lock);
	for (size_t i = 0; i < n && takes_more(follower); i++) {
		_cleanup_buf_ struct buf line = BUF_INIT;
		struct core_audit_record record = { .seq = rows[i].seq };

		row_line(&rows[i], &line);
		record.line = buf_str(&line);
		base->cursor = rows[i].seq;
		base->full = !follower->sink.record(follower->arg, &record);
	}
	if (takes_more(follower) && base->cursor < upto_seq)
		base->cursor = upto_seq;
	if (takes_more(follower) && follower->sink.end && base->cursor >= follower->up_to) {
		follower->ended = true;
		follower->sink.end(follower->arg);
	}
	pthread_mutex_unlock(&base->lock);
}

/* A page. *ret_more: there is another one for it. */
static int serve_one(struct core_audit_follower *follower, bool *ret_more, struct err *err)
{
	struct audit_filter filter = follower->filter;
	struct audit_row *rows = NULL;
	struct audit_state state = { 0 };
	size_t n = 0;
	int r;

	filter.after_seq = follower->base.cursor;
	if (follower->sink.end)
		filter.before_seq = follower->up_to + 1;
	r = read_rows(follower->audit, &filter, &state, &rows, &n, err);
	if (r < 0)
		return r;
	hand_on(follower, rows, n, n == SERVE_PAGE ? rows[n - 1].seq : state.last_seq);
	audit_rows_free(rows, n);
	*ret_more = n == SERVE_PAGE;
	return 0;
}

static bool wants_page(struct core_audit_follower *follower)
{
	bool wants;

	pthread_mutex_lock(&follower->base.lock);
	wants = takes_more(follower);
	pthread_mutex_unlock(&follower->base.lock);
	return wants;
}

/* One page for each that takes one; whoever has more to come is looked at again soon, after what
 * waits to be written. */
bool audit_serve(struct core_audit *audit)
{
	size_t n;
	struct follower **all = followers_all(&audit->followers, &n);
	bool good = true, again = false;

	for (size_t i = 0; i < n; i++) {
		struct core_audit_follower *one = (struct core_audit_follower *)all[i];
		struct err err = ERR_INIT;
		bool more = false;

		if (wants_page(one) && serve_one(one, &more, &err) < 0) {
			log_warn("the audit cannot be read", "error=\"%s\"", err.message);
			good = false;
		}
		again |= more && wants_page(one);
		follower_unref(all[i]);
	}
	free(all);
	if (again)
		audit_wake(audit);
	return good;
}

/* ---- checking ---- */

static void copy_member(const json_t *json, const char *name, char out[AUDIT_TEXT_SIZE])
{
	str_copy(out, AUDIT_TEXT_SIZE, json_get_str(json, name, ""));
}

int audit_row_from_body(const char *body, struct audit_row *ret, struct err *err)
{
	_cleanup_json_ json_t *json = NULL;
	struct audit_row row = { 0 };

	if (json_parse(body, strlen(body), &json, err) < 0)
		return err_code(err, -EBADMSG, "audit_broken", "its text is no record");
	row.seq = json_get_int(json, "seq", 0);
	if (clock_parse_rfc3339(json_get_str(json, "at", ""), &row.at_unix_ms) < 0)
		return err_code(err, -EBADMSG, "audit_broken", "its time is none");
	copy_member(json, "account_id", row.account_id);
	copy_member(json, "key_id", row.key_id);
	copy_member(json, "sandbox_id", row.sandbox_id);
	copy_member(json, "operation", row.operation);
	copy_member(json, "request_id", row.request_id);
	copy_member(json, "result", row.result);
	*ret = row;
	return 0;
}

/* The columns that records are found by say what the record says. */
static int check_columns(const struct audit_row *row, struct err *err)
{
	struct audit_row said = { 0 };
	int r = audit_row_from_body(row->body, &said, err);

	if (r < 0)
		return err_wrap(err, r, "record %" PRId64, row->seq);
	if (said.seq == row->seq && said.at_unix_ms == row->at_unix_ms &&
	    str_eq(said.account_id, row->account_id) && str_eq(said.key_id, row->key_id) &&
	    str_eq(said.sandbox_id, row->sandbox_id) && str_eq(said.operation, row->operation) &&
	    str_eq(said.request_id, row->request_id) && str_eq(said.result, row->result))
		return 0;
	return err_code(err, -EBADMSG, "audit_broken",
			"record %" PRId64 " was changed: what it is found by is not what it says",
			row->seq);
}

struct check {
	struct audit_state state;
	struct chain chain;
	int64_t noted_seq; /* 0: none */
	char noted_hash[CHAIN_HASH_SIZE];
	int64_t broken_at;
};

static int check_row(struct check *check, const struct audit_row *row, struct err *err)
{
	_cleanup_buf_ struct buf line = BUF_INIT;
	const int64_t first = check->state.pruned_seq + 1;
	struct chain *chain = &check->chain;
	int r;

	check->broken_at = chain->n ? chain->last + 1 : first;
	row_line(row, &line);
	r = chain_take(chain, line.data, line.len, err);
	if (r == 0)
		r = check_columns(row, err);
	if (r < 0)
		return r;
	if (chain->n == 1 && chain->first != first)
		return err_code(err, -EBADMSG, "audit_broken",
				"record %" PRId64 " is missing: the first one is %" PRId64, first,
				chain->first);
	if (chain->n == 1 && !str_eq(chain->before, check->state.pruned_hash))
		return err_code(err, -EBADMSG, "audit_broken",
				"record %" PRId64 " is not the one that belongs at the beginning",
				first);
	if (row->seq == check->noted_seq && !str_eq(row->hash, check->noted_hash))
		return err_code(err, -EBADMSG, "audit_broken",
				"record %" PRId64
				" is not the one whose hash was noted when it was written",
				row->seq);
	return 0;
}

/* The state names the last one: there is none behind it. */
static int check_nothing_follows(struct core_audit *audit, struct check *check, struct err *err)
{
	struct audit_filter filter = { .after_seq = check->state.last_seq, .limit = 1 };
	struct audit_state state = { 0 };
	struct audit_row *rows = NULL;
	size_t n = 0;
	int r = read_rows(audit, &filter, &state, &rows, &n, err);

	if (r == 0 && n > 0 && rows[0].seq > state.last_seq) {
		check->broken_at = rows[0].seq;
		r = err_code(err, -EBADMSG, "audit_broken",
			     "record %" PRId64 " was added: the last one written is %" PRId64,
			     rows[0].seq, state.last_seq);
	}
	audit_rows_free(rows, n);
	return r;
}

static int check_end(struct check *check, struct err *err)
{
	const struct chain *chain = &check->chain;
	const int64_t last = chain->n ? chain->last : check->state.pruned_seq;
	int64_t expected = check->state.last_seq;

	if (check->noted_seq > expected)
		expected = check->noted_seq;
	check->broken_at = last + 1;
	if (last < expected)
		return err_code(err, -EBADMSG, "audit_broken",
				"record %" PRId64 " is missing: the chain ended with %" PRId64,
				last + 1, expected);
	if (chain->n && !str_eq(chain->head, check->state.last_hash)) {
		check->broken_at = last;
		return err_code(err, -EBADMSG, "audit_broken",
				"record %" PRId64 " is not the one that was written last", last);
	}
	check->broken_at = 0;
	return 0;
}

/* Up to the record that was the last when it began. */
static int check_rows(struct core_audit *audit, struct check *check, struct err *err)
{
	struct audit_filter filter = { .limit = VERIFY_PAGE };
	struct audit_state state = { 0 };
	int r = 0;

	do {
		struct audit_row *rows = NULL;
		size_t n = 0;

		filter.before_seq = check->state.last_seq ? check->state.last_seq + 1 : 0;
		r = read_rows(audit, &filter, &state, &rows, &n, err);
		if (check->state.last_seq == 0)
			check->state = state;
		for (size_t i = 0; r == 0 && i < n && rows[i].seq <= check->state.last_seq; i++)
			r = check_row(check, &rows[i], err);
		if (n > 0)
			filter.after_seq = rows[n - 1].seq;
		audit_rows_free(rows, n);
		if (n < VERIFY_PAGE)
			break;
	} while (r == 0);
	if (r == 0)
		r = check_end(check, err);
	return r == 0 ? check_nothing_follows(audit, check, err) : r;
}

int core_audit_verify(struct core *core, struct core_audit_verdict *ret, struct err *err)
{
	_cleanup_work_ struct core *work = core_enter(core, err);
	struct core_audit *audit = core->audit;
	struct check check = { 0 };
	struct err problem = ERR_INIT;
	int r;

	if (!work)
		return -ESHUTDOWN;
	pthread_mutex_lock(&audit->prune_lock);
	if (audit_noted_head(core, &check.noted_seq, check.noted_hash, NULL) < 0)
		check.noted_seq = 0;
	r = check_rows(audit, &check, &problem);
	pthread_mutex_unlock(&audit->prune_lock);
	if (r < 0 && r != -EBADMSG) {
		*err = problem;
		return r;
	}
	*ret = (struct core_audit_verdict){
		.first = check.chain.first,
		.last = check.chain.last,
		.broken_at = r < 0 ? check.broken_at : 0,
	};
	str_copy(ret->head, sizeof(ret->head), check.chain.head);
	str_copy(ret->problem, sizeof(ret->problem), r < 0 ? problem.message : "");
	return 0;
}

int audit_check_note(struct core_audit *audit, struct err *err)
{
	struct audit_filter filter = { .limit = 1 };
	char hash[CHAIN_HASH_SIZE];
	struct audit_state state = { 0 };
	struct audit_row *rows = NULL;
	size_t n = 0;
	int64_t seq = 0;
	bool same;
	int r = audit_noted_head(audit->core, &seq, hash, err);

	if (r < 0)
		return r;
	filter.after_seq = seq - 1;
	filter.before_seq = seq + 1;
	r = read_rows(audit, &filter, &state, &rows, &n, err);
	if (r < 0)
		return r;
	same = seq <= state.pruned_seq || (n == 1 && str_eq(rows[0].hash, hash));
	audit_rows_free(rows, n);
	if (same)
		return 0;
	return err_code(err, -EBADMSG, "audit_broken",
			"record %" PRId64 ", whose hash was noted, is missing or another one", seq);
}
