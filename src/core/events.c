/*
 * The thread of events: writes what was posted, in batches, and serves followers. See events.h.
 *
 * A batch is written EVENTS_BATCH_MS after the first post of it, so that a busy host pays for one
 * commit in that time whatever it runs. Where it cannot be written (a full disk) it stays, and is
 * tried again; the queue is bounded, and what does not fit is counted for its account.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"
#include "core/events_internal.h"
#include "core/metrics_internal.h"

#define POSTS_MAX 8192
#define RETRY_MS  1000

/* ---- posting ---- */

/* Lock held. */
static void note_loss(struct core_events *events, const char *account_id, uint64_t n)
{
	for (size_t i = 0; i < events->n_losses; i++) {
		if (str_eq(events->losses[i].account_id, account_id)) {
			events->losses[i].n += n;
			return;
		}
	}
	if (events->n_losses == ARRAY_SIZE(events->losses))
		return;
	str_copy(events->losses[events->n_losses].account_id, ACCOUNT_ID_SIZE, account_id);
	events->losses[events->n_losses++].n = n;
}

static void post_free(struct event_post *post)
{
	json_decref(post->data);
	free(post);
}

void events_post(struct core *core, const char *account_id, const char *sandbox_id,
		 enum event_type type, json_t *data)
{
	struct core_events *events = core->events;
	struct event_post *post = xcalloc(1, sizeof(*post));
	bool kept;

	post->type = type;
	post->at_unix_ms = clock_unix_ms();
	post->data = data;
	metrics_event(core, type);
	str_copy(post->account_id, sizeof(post->account_id), account_id);
	str_copy(post->sandbox_id, sizeof(post->sandbox_id), sandbox_id);
	pthread_mutex_lock(&events->lock);
	kept = events->n_posts < POSTS_MAX;
	if (kept && events->n_posts == 0) {
		events->due_boottime_ms = clock_boottime_ms() + EVENTS_BATCH_MS;
		pthread_cond_signal(&events->wake);
	}
	if (kept) {
		STAILQ_INSERT_TAIL(&events->posts, post, link);
		events->n_posts++;
	} else {
		note_loss(events, account_id, 1);
	}
	pthread_mutex_unlock(&events->lock);
	if (!kept)
		post_free(post);
}

/* ---- writing ---- */

static int write_post(struct core *core, struct db_txn *txn, const struct event_post *post,
		      struct err *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	struct event_new event = {
		.account_id = post->account_id,
		.sandbox_id = post->sandbox_id,
		.type = event_type_names[post->type],
		.at_unix_ms = post->at_unix_ms,
	};

	json_write(post->data, &text);
	event.data = buf_str(&text);
	return events_append(txn, &event, core->limits.events_per_account, err);
}

static int write_loss(struct core *core, struct db_txn *txn, const struct event_loss *loss,
		      struct err *err)
{
	json_t *data = json_object();

	json_put_int(data, "count", (int64_t)loss->n);
	return event_write(txn, core, loss->account_id, "", EVENT_EVENTS_LOST, data, err);
}

static int write_batch(struct core *core, const struct event_posts *posts,
		       const struct event_loss *losses, size_t n_losses, struct err *err)
{
	_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;
	const struct event_post *post;
	int r = db_begin_write(core->db, &txn, err);

	STAILQ_FOREACH(post, posts, link)
	{
		if (r == 0)
			r = write_post(core, &txn, post, err);
	}
	for (size_t i = 0; r == 0 && i < n_losses; i++)
		r = write_loss(core, &txn, &losses[i], err);
	return r < 0 ? r : db_commit(&txn, err);
}

/* Puts back what was not written, before what came meanwhile. */
static void put_back(struct core_events *events, struct event_posts *posts, size_t n,
		     const struct event_loss *losses, size_t n_losses)
{
	pthread_mutex_lock(&events->lock);
	STAILQ_CONCAT(posts, &events->posts);
	STAILQ_CONCAT(&events->posts, posts);
	events->n_posts += n;
	events->due_boottime_ms = clock_boottime_ms() + RETRY_MS;
	for (size_t i = 0; i < n_losses; i++)
		note_loss(events, losses[i].account_id, losses[i].n);
	pthread_mutex_unlock(&events->lock);
}

/* False: it could not be written now. */
static bool write_posts(struct core_events *events)
{
	struct event_posts posts = STAILQ_HEAD_INITIALIZER(posts);
	struct event_loss losses[ARRAY_SIZE(events->losses)];
	struct event_post *post;
	struct err err = ERR_INIT;
	size_t n, n_losses;

	pthread_mutex_lock(&events->lock);
	STAILQ_CONCAT(&posts, &events->posts);
	n = events->n_posts;
	n_losses = events->n_losses;
	memcpy(losses, events->losses, sizeof(losses));
	events->n_posts = events->n_losses = 0;
	pthread_mutex_unlock(&events->lock);
	if (n == 0 && n_losses == 0)
		return true;
	if (write_batch(events->core, &posts, losses, n_losses, &err) < 0) {
		log_warn("events of commands cannot be written yet", "count=%zu error=\"%s\"", n,
			 err.message);
		put_back(events, &posts, n, losses, n_losses);
		return false;
	}
	while ((post = STAILQ_FIRST(&posts))) {
		STAILQ_REMOVE_HEAD(&posts, link);
		post_free(post);
	}
	return true;
}

/* ---- the thread ---- */

void events_wake(struct core_events *events)
{
	pthread_mutex_lock(&events->lock);
	events->look = true;
	pthread_cond_signal(&events->wake);
	pthread_mutex_unlock(&events->lock);
}

static void on_commit(void *arg)
{
	events_wake(arg);
}

/* Lock held. Until there is something to do, or retry_boottime_ms (0: none) is reached. */
static void wait_for_work(struct core_events *events, int64_t retry_boottime_ms)
{
	for (;;) {
		int64_t due = events->n_posts > 0 ? events->due_boottime_ms : INT64_MAX;
		int64_t wait_ms;
		struct timespec until;

		if (retry_boottime_ms && retry_boottime_ms < due)
			due = retry_boottime_ms;
		wait_ms = due == INT64_MAX ? INT64_MAX : due - clock_boottime_ms();
		if (events->stopping || events->look || wait_ms <= 0)
			return;
		if (wait_ms == INT64_MAX) {
			pthread_cond_wait(&events->wake, &events->lock);
			continue;
		}
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += wait_ms / 1000;
		until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_sec++;
			until.tv_nsec -= 1000000000;
		}
		pthread_cond_timedwait(&events->wake, &events->lock, &until);
	}
}

static void *run(void *arg)
{
	struct core_events *events = arg;
	int64_t retry_boottime_ms = 0;

	pthread_setname_np(pthread_self(), "skerry-events");
	for (;;) {
		bool stopping, due;

		pthread_mutex_lock(&events->lock);
		wait_for_work(events, retry_boottime_ms);
		stopping = events->stopping;
		due = events->n_posts > 0 && clock_boottime_ms() >= events->due_boottime_ms;
		events->look = false;
		pthread_mutex_unlock(&events->lock);
		if (stopping || due)
			write_posts(events);
		if (stopping)
			return NULL;
		retry_boottime_ms = events_serve(events) ? 0 : clock_boottime_ms() + RETRY_MS;
	}
}

/* ---- opening and closing ---- */

static void wake_for_follower(void *arg)
{
	events_wake(arg);
}

int core_events_open(struct core *core, struct err *err)
{
	struct core_events *events = xcalloc(1, sizeof(*events));
	pthread_condattr_t attr;
	int r;

	events->core = core;
	STAILQ_INIT(&events->posts);
	followers_init(&events->followers, wake_for_follower, events);
	pthread_mutex_init(&events->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&events->wake, &attr);
	pthread_condattr_destroy(&attr);
	core->events = events;
	r = pthread_create(&events->thread, NULL, run, events);
	if (r != 0)
		return err_set(err, -r, "start the thread of events: %s", strerror(r));
	events->started = true;
	db_watch(core->db, on_commit, events);
	return 0;
}

void core_events_close(struct core *core)
{
	struct core_events *events = STEAL(core->events);
	struct event_post *post;

	if (!events)
		return;
	if (events->started) {
		pthread_mutex_lock(&events->lock);
		events->stopping = true;
		pthread_cond_signal(&events->wake);
		pthread_mutex_unlock(&events->lock);
		pthread_join(events->thread, NULL);
		db_watch(core->db, NULL, NULL);
	}
	while ((post = STAILQ_FIRST(&events->posts))) {
		STAILQ_REMOVE_HEAD(&events->posts, link);
		post_free(post);
	}
	pthread_cond_destroy(&events->wake);
	followers_clear(&events->followers);
	pthread_mutex_destroy(&events->lock);
	free(events);
}
