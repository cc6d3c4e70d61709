/* See fake_events.h. */
#include "fake_events.h"

#include <errno.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/cleanup.h"

struct core_event_follower {
	struct core_event_sink sink;
	void *arg;
	int64_t cursor;
	bool full, closed;
	unsigned int posted;
};

static struct loop *events_loop;
static atomic_int sent, closed;

void fake_events_init(struct loop *loop)
{
	events_loop = loop;
}

int fake_events_sent(struct core *core)
{
	return sent;
}

int fake_events_closed(struct core *core)
{
	return closed;
}

static struct core_event event_of(int64_t id)
{
	return (struct core_event){
		.id = id,
		.at_unix_ms = 1000 + id,
		.type = id % 2 ? "exec_started" : "exec_ended",
		.sandbox_id = "sbx_aa",
		.data = "{\"exec_id\":\"exe_1\"}",
	};
}

static int check(int64_t cursor, struct err *err)
{
	if (cursor <= FAKE_EVENTS)
		return 0;
	return err_code(err, -EINVAL, "invalid_cursor", "no event has had that id yet");
}

void core_event_page_clear(struct core_event_page *page)
{
	free(page->items);
	*page = (struct core_event_page){ 0 };
}

int core_events_page(struct core *core, const struct principal *who,
		     const struct core_event_filter *filter, int64_t cursor, uint32_t limit,
		     struct core_event_page *ret, struct err *err)
{
	struct core_event_page page = { 0 };

	if (check(cursor, err) < 0)
		return -EINVAL;
	if (cursor == CORE_EVENTS_NEWEST)
		cursor = FAKE_EVENTS - limit;
	if (cursor > 0 && cursor < FAKE_EVENTS_GONE)
		page.gap = (struct core_event_gap){ cursor + 1, FAKE_EVENTS_GONE };
	if (cursor < FAKE_EVENTS_GONE)
		cursor = FAKE_EVENTS_GONE;
	page.items = xcalloc(limit, sizeof(*page.items));
	while (page.n < limit && cursor < FAKE_EVENTS)
		page.items[page.n++] = event_of(++cursor);
	page.cursor = cursor;
	page.more = cursor < FAKE_EVENTS;
	*ret = page;
	return 0;
}

/* ---- followers: everything on the loop's thread ---- */

static void send_some(struct core_event_follower *f)
{
	if (!f->full && f->cursor > 0 && f->cursor < FAKE_EVENTS_GONE) {
		const struct core_event_gap gap = { f->cursor + 1, FAKE_EVENTS_GONE };

		f->full = !f->sink.gap(f->arg, &gap);
		f->cursor = FAKE_EVENTS_GONE;
	}
	while (!f->full && f->cursor < FAKE_EVENTS) {
		const struct core_event event = event_of(++f->cursor);

		sent++;
		f->full = !f->sink.event(f->arg, &event);
	}
}

static void free_if_over(struct core_event_follower *f)
{
	if (f->closed && f->posted == 0)
		free(f);
}

static void resume(void *arg)
{
	struct core_event_follower *f = arg;

	f->posted--;
	f->full = false;
	if (!f->closed)
		send_some(f);
	free_if_over(f);
}

static void count_and_post(void *arg)
{
	struct core_event_follower *f = arg;

	f->posted++;
	loop_post(events_loop, resume, f);
}

void core_event_follower_resume(struct core_event_follower *follower)
{
	loop_call(events_loop, count_and_post, follower);
}

static void close_on_loop(void *arg)
{
	struct core_event_follower *f = arg;

	f->closed = true;
	closed++;
	free_if_over(f);
}

void core_event_follower_close(struct core_event_follower *follower)
{
	loop_call(events_loop, close_on_loop, follower);
}

int core_events_follow(struct core *core, const struct principal *who,
		       const struct core_event_filter *filter, int64_t cursor,
		       const struct core_event_sink *sink, void *arg, int64_t *ret_cursor,
		       struct core_event_follower **ret, struct err *err)
{
	struct core_event_follower *f;

	if (check(cursor, err) < 0)
		return -EINVAL;
	f = xcalloc(1, sizeof(*f));
	f->sink = *sink;
	f->arg = arg;
	f->cursor = *ret_cursor = cursor < 0 ? FAKE_EVENTS : cursor;
	*ret = f;
	return 0;
}
