/*
 * The thread of the audit: notes what begins, and makes records of what has ended. See audit.h.
 *
 * There is no delay before a transaction: what comes while one is written goes into the next, so
 * that who waits on an idle host waits for one sync of the disk, and on a busy one all share one.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/audit_internal.h"

#define RETRY_MS     1000
#define BATCH_MAX    256
#define KEY_TEXT_LEN (sizeof(KEY_PREFIX) - 1 + KEY_RANDOM_LEN)

/* ---- texts ---- */

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

/* Somebody put a key into a command: it is shown as far as lists of keys show it. */
static void hide_keys(struct buf *text)
{
	const size_t shown = 9; /* "sk_" and six characters */
	char *at = text->len ? strstr(text->data, KEY_PREFIX) : NULL;

	while (at) {
		size_t n = sizeof(KEY_PREFIX) - 1;

		while (is_alnum(at[n]))
			n++;
		if (n >= KEY_TEXT_LEN)
			memset(at + shown, '*', n - shown);
		at = strstr(at + n, KEY_PREFIX);
	}
}

static char *members_text(json_t *members /* taken */)
{
	_cleanup_json_ json_t *owned = members;
	struct buf text = BUF_INIT;

	json_write(owned, &text);
	hide_keys(&text);
	return buf_take(&text);
}

static char *begin_text(const struct core_audit_entry *entry, const struct core_audit_call *call)
{
	json_t *json = json_object();

	json_put_time(json, "at", entry->row.at_unix_ms);
	json_put_str(json, "account_id", entry->row.account_id);
	json_put_str(json, "key_id", entry->row.key_id);
	json_put_str(json, "surface", call->surface);
	json_put_str(json, "peer", call->peer);
	json_put_str(json, "request_id", entry->row.request_id);
	json_put_str(json, "operation", entry->row.operation);
	if (call->sandbox_id)
		json_put_str(json, "sandbox_id", entry->row.sandbox_id);
	json_put(json, "args", call->args ? call->args : json_object());
	return members_text(json);
}

static char *end_text(const struct core_audit_entry *entry, json_t *outcome /* taken */)
{
	json_t *json = json_object();

	if (!entry->has_sandbox)
		json_put_str(json, "sandbox_id",
			     entry->row.sandbox_id[0] ? entry->row.sandbox_id : NULL);
	json_put_str(json, "result", entry->row.result);
	if (entry->began_boottime_ms)
		json_put_int(json, "duration_ms", clock_boottime_ms() - entry->began_boottime_ms);
	json_put(json, "outcome", outcome ? outcome : json_object());
	return members_text(json);
}

/* Members of both, after what makes a chain of records. */
static void body_text(const struct audit_state *after, const char *begin, const char *end,
		      struct buf *out)
{
	buf_printf(out, "{\"seq\":%" PRId64 ",\"prev\":\"%s\",", after->last_seq + 1,
		   after->last_hash);
	buf_append(out, begin + 1, strlen(begin) - 2);
	buf_append_char(out, ',');
	buf_append_str(out, end + 1);
}

/* ---- entries ---- */

static void entry_free(struct core_audit_entry *entry)
{
	free(entry->begin_text);
	free(entry->end_text);
	free(entry);
}

/* Lock held. */
static void entry_unref(struct core_audit_entry *entry)
{
	if (--entry->refs == 0)
		entry_free(entry);
}

/* Lock held. */
static void enqueue(struct core_audit *audit, struct core_audit_entry *entry)
{
	if (entry->queued || entry->in_batch)
		return;
	entry->queued = true;
	STAILQ_INSERT_TAIL(&audit->queue, entry, link);
	audit->n_queued++;
	pthread_cond_signal(&audit->wake);
}

static struct core_audit_entry *entry_new(const struct principal *who,
					  const struct core_audit_call *call)
{
	struct core_audit_entry *entry = xcalloc(1, sizeof(*entry));
	struct audit_row *row = &entry->row;

	entry->refs = 2; /* the owner's and the queue's */
	entry->began_boottime_ms = clock_boottime_ms();
	entry->has_sandbox = call->sandbox_id != NULL;
	row->at_unix_ms = clock_unix_ms();
	str_copy(row->account_id, sizeof(row->account_id), who->account_id);
	str_copy(row->key_id, sizeof(row->key_id), who->key_id);
	str_copy(row->sandbox_id, sizeof(row->sandbox_id),
		 call->sandbox_id ? call->sandbox_id : "");
	str_copy(row->operation, sizeof(row->operation), call->operation);
	str_copy(row->request_id, sizeof(row->request_id), call->request_id);
	entry->begin_text = begin_text(entry, call);
	return entry;
}

static int refuse(const struct core_audit *audit, struct err *err)
{
	if (!err)
		return audit->failure.num;
	*err = audit->failure;
	if (!str_eq(err_code_of(err), "disk_full"))
		err->code = "audit_unavailable";
	return err_wrap(err, err->num, "the audit cannot be written, and nothing is done without");
}

/* Lock held. Takes back what was not written. */
static void withdraw(struct core_audit *audit, struct core_audit_entry *entry)
{
	STAILQ_REMOVE(&audit->queue, entry, core_audit_entry, link);
	audit->n_queued--;
	entry_free(entry);
}

int core_audit_begin(struct core *core, const struct principal *who,
		     const struct core_audit_call *call, bool wait, struct core_audit_entry **ret,
		     struct err *err)
{
	struct core_audit *audit = core->audit;
	struct core_audit_entry *entry = entry_new(who, call);
	int r = 0;

	pthread_mutex_lock(&audit->lock);
	if (!call->ends && audit->failing) {
		r = refuse(audit, err);
		entry_free(entry);
		pthread_mutex_unlock(&audit->lock);
		return r;
	}
	entry->id = ++audit->last_id;
	enqueue(audit, entry);
	while (wait && (entry->in_batch || (!entry->durable && !audit->failing)))
		pthread_cond_wait(&audit->moved, &audit->lock);
	if (wait && !entry->durable && !call->ends) {
		r = refuse(audit, err);
		withdraw(audit, entry);
	}
	pthread_mutex_unlock(&audit->lock);
	if (r == 0)
		*ret = entry;
	return r;
}

/* Lock held. */
static void set_end(struct core_audit *audit, struct core_audit_entry *entry,
		    const struct core_audit_end *end)
{
	if (!entry->has_sandbox)
		str_copy(entry->row.sandbox_id, sizeof(entry->row.sandbox_id),
			 end->sandbox_id ? end->sandbox_id : "");
	str_copy(entry->row.result, sizeof(entry->row.result), end->result);
	entry->end_text = end_text(entry, end->outcome);
	entry->ended = true;
	enqueue(audit, entry);
}

void core_audit_end(struct core *core, struct core_audit_entry *entry,
		    const struct core_audit_end *end, void (*then)(void *arg), void *arg)
{
	struct core_audit *audit = core->audit;
	bool now;

	pthread_mutex_lock(&audit->lock);
	now = entry->durable || audit->failing;
	if (!now) {
		entry->then = then;
		entry->then_arg = arg;
	}
	set_end(audit, entry, end);
	entry_unref(entry);
	pthread_mutex_unlock(&audit->lock);
	if (now && then)
		then(arg);
}

void core_audit_end_wait(struct core *core, struct core_audit_entry *entry,
			 const struct core_audit_end *end)
{
	struct core_audit *audit = core->audit;

	pthread_mutex_lock(&audit->lock);
	set_end(audit, entry, end);
	while (entry->in_batch || (!entry->written && !audit->failing))
		pthread_cond_wait(&audit->moved, &audit->lock);
	entry_unref(entry);
	pthread_mutex_unlock(&audit->lock);
}

/* ---- writing ---- */

int audit_append_record(struct db_txn *txn, struct audit_state *state,
			const struct audit_row *columns, const char *begin, const char *end,
			struct err *err)
{
	_cleanup_buf_ struct buf body = BUF_INIT;
	struct audit_row row = *columns;
	int r;

	body_text(state, begin, end, &body);
	row.seq = state->last_seq + 1;
	row.body = body.data;
	chain_hash(body.data, body.len, row.hash);
	r = audit_append(txn, &row, err);
	if (r < 0)
		return r;
	state->last_seq = row.seq;
	str_copy(state->last_hash, sizeof(state->last_hash), row.hash);
	return 0;
}

static int write_entry(struct db_txn *txn, struct audit_state *state,
		       const struct core_audit_entry *entry, struct err *err)
{
	int r = 0;

	if (!entry->batch_ended)
		return audit_open_insert(txn, entry->id, entry->begin_text, err);
	if (entry->durable)
		r = audit_open_delete(txn, entry->id, err);
	return r < 0 ? r
		     : audit_append_record(txn, state, &entry->row, entry->begin_text,
					   entry->end_text, err);
}

static int write_batch(struct core_audit *audit, struct core_audit_entry *const *batch, size_t n,
		       struct audit_state *state, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	int r = db_begin_write(audit->db, &txn, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = write_entry(&txn, state, batch[i], err);
	return r < 0 ? r : db_commit(&txn, err);
}

/* Lock held. */
static size_t take_batch(struct core_audit *audit, struct core_audit_entry **batch)
{
	struct core_audit_entry *entry;
	size_t n = 0;

	while (n < BATCH_MAX && (entry = STAILQ_FIRST(&audit->queue))) {
		STAILQ_REMOVE_HEAD(&audit->queue, link);
		audit->n_queued--;
		entry->queued = false;
		entry->in_batch = true;
		entry->batch_ended = entry->ended;
		batch[n++] = entry;
	}
	return n;
}

/* Lock held. */
static void batch_written(struct core_audit *audit, struct core_audit_entry **batch, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct core_audit_entry *entry = batch[i];

		entry->in_batch = false;
		entry->durable = true;
		if (entry->then)
			loop_post(audit->core->loop, STEAL(entry->then), entry->then_arg);
		if (entry->batch_ended) {
			entry->written = true;
			audit->n_records++;
			entry_unref(entry);
		} else if (entry->ended) {
			enqueue(audit, entry);
		}
	}
}

/* Lock held. They go first when it is tried again; whoever waits for them is told. */
static void batch_failed(struct core_audit *audit, struct core_audit_entry **batch, size_t n)
{
	while (n-- > 0) {
		struct core_audit_entry *entry = batch[n];

		entry->in_batch = false;
		entry->queued = true;
		STAILQ_INSERT_HEAD(&audit->queue, entry, link);
		audit->n_queued++;
		if (entry->then)
			loop_post(audit->core->loop, STEAL(entry->then), entry->then_arg);
	}
}

static void write_some(struct core_audit *audit)
{
	struct core_audit_entry *batch[BATCH_MAX];
	struct audit_state state;
	struct err err = ERR_INIT;
	size_t n;
	int r = 0;

	pthread_mutex_lock(&audit->lock);
	n = take_batch(audit, batch);
	state = audit->state;
	pthread_mutex_unlock(&audit->lock);
	if (n > 0)
		r = write_batch(audit, batch, n, &state, &err);
	pthread_mutex_lock(&audit->lock);
	if (r < 0) {
		audit->n_failures++;
		if (!audit->failing)
			log_error("the audit cannot be written", "waiting=%zu error=\"%s\"", n,
				  err.message);
		audit->failure = err;
		audit->retry_boottime_ms = clock_boottime_ms() + RETRY_MS;
		batch_failed(audit, batch, n);
	} else {
		if (audit->failing)
			log_info("the audit can be written again", "records=%zu", n);
		audit->n_commits += n > 0;
		audit->look |= state.last_seq != audit->state.last_seq;
		audit->state = state;
		batch_written(audit, batch, n);
	}
	audit->failing = r < 0;
	pthread_cond_broadcast(&audit->moved);
	pthread_mutex_unlock(&audit->lock);
}

/* ---- the thread ---- */

void audit_wake(struct core_audit *audit)
{
	pthread_mutex_lock(&audit->lock);
	audit->look = true;
	pthread_cond_signal(&audit->wake);
	pthread_mutex_unlock(&audit->lock);
}

/* Lock held. While it could not be written it is tried again each second. */
static void wait_for_work(struct core_audit *audit, int64_t serve_boottime_ms)
{
	for (;;) {
		int64_t due = INT64_MAX, wait_ms;
		struct timespec until;

		if (audit->failing)
			due = audit->retry_boottime_ms;
		if (serve_boottime_ms && serve_boottime_ms < due)
			due = serve_boottime_ms;
		if (audit->stopping || audit->look ||
		    (!audit->failing && !STAILQ_EMPTY(&audit->queue)) || clock_boottime_ms() >= due)
			return;
		if (due == INT64_MAX) {
			pthread_cond_wait(&audit->wake, &audit->lock);
			continue;
		}
		wait_ms = due - clock_boottime_ms();
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += (wait_ms + 999) / 1000;
		pthread_cond_timedwait(&audit->wake, &audit->lock, &until);
	}
}

/* Lock held. */
static bool is_due(const struct core_audit *audit)
{
	if (audit->failing)
		return audit->stopping || clock_boottime_ms() >= audit->retry_boottime_ms;
	return !STAILQ_EMPTY(&audit->queue);
}

static void *run(void *arg)
{
	struct core_audit *audit = arg;
	int64_t serve_boottime_ms = 0;

	pthread_setname_np(pthread_self(), "skerry-audit");
	for (;;) {
		bool stopping, due, look;

		pthread_mutex_lock(&audit->lock);
		wait_for_work(audit, serve_boottime_ms);
		due = is_due(audit);
		pthread_mutex_unlock(&audit->lock);
		if (due)
			write_some(audit);
		pthread_mutex_lock(&audit->lock);
		look = audit->look;
		audit->look = false;
		stopping = audit->stopping && (audit->failing || STAILQ_EMPTY(&audit->queue));
		pthread_mutex_unlock(&audit->lock);
		if (stopping)
			return NULL;
		if (look || serve_boottime_ms)
			serve_boottime_ms = audit_serve(audit) ? 0 : clock_boottime_ms() + RETRY_MS;
	}
}

/* ---- state ---- */

bool core_audit_is_failing(struct core *core, struct err *ret_why)
{
	struct core_audit *audit = core->audit;
	bool failing;

	pthread_mutex_lock(&audit->lock);
	failing = audit->failing;
	*ret_why = audit->failure;
	pthread_mutex_unlock(&audit->lock);
	return failing;
}

void core_audit_counts(struct core *core, struct core_audit_counts *ret)
{
	struct core_audit *audit = core->audit;

	pthread_mutex_lock(&audit->lock);
	*ret = (struct core_audit_counts){
		.records = audit->n_records,
		.commits = audit->n_commits,
		.failures = audit->n_failures,
		.waiting = audit->n_queued,
		.last_seq = audit->state.last_seq,
	};
	pthread_mutex_unlock(&audit->lock);
}

/* ---- opening and closing ---- */

static void wake_for_follower(void *arg)
{
	audit_wake(arg);
}

int core_audit_open(struct core *core, struct err *err)
{
	_cleanup_free_ char *path = xasprintf("%s/audit.db", core->state_dir);
	struct core_audit *audit = xcalloc(1, sizeof(*audit));
	pthread_condattr_t attr;
	int r;

	audit->core = core;
	STAILQ_INIT(&audit->queue);
	followers_init(&audit->followers, wake_for_follower, audit);
	pthread_mutex_init(&audit->lock, NULL);
	pthread_mutex_init(&audit->prune_lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&audit->wake, &attr);
	pthread_cond_init(&audit->moved, &attr);
	pthread_condattr_destroy(&attr);
	core->audit = audit;
	r = audit_db_open(path, &audit->db, err);
	if (r == 0)
		r = audit_finish_all(audit, err);
	if (r < 0)
		return r;
	r = pthread_create(&audit->thread, NULL, run, audit);
	if (r != 0)
		return err_set(err, -r, "start the thread of the audit: %s", strerror(r));
	audit->started = true;
	audit_look_at_note(audit);
	audit_note_head(core);
	return 0;
}

static void stop(struct core_audit *audit)
{
	pthread_mutex_lock(&audit->lock);
	audit->stopping = true;
	pthread_cond_signal(&audit->wake);
	pthread_mutex_unlock(&audit->lock);
	pthread_join(audit->thread, NULL);
	audit_note_head(audit->core);
}

void core_audit_close(struct core *core)
{
	struct core_audit *audit = core->audit;
	struct core_audit_entry *entry;

	if (!audit)
		return;
	if (audit->started)
		stop(audit);
	while ((entry = STAILQ_FIRST(&audit->queue))) {
		STAILQ_REMOVE_HEAD(&audit->queue, link);
		entry_free(entry);
	}
	core->audit = NULL;
	db_close(audit->db);
	pthread_cond_destroy(&audit->wake);
	pthread_cond_destroy(&audit->moved);
	pthread_mutex_destroy(&audit->lock);
	pthread_mutex_destroy(&audit->prune_lock);
	followers_clear(&audit->followers);
	free(audit);
}
