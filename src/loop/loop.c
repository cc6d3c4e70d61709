/*
 * The event loop.
 *
 * A round waits in epoll_wait(2) and then runs, in this order: timers that are due, what was posted
 * before the round, and the watches that are ready. Work that callbacks add (posts, timers already
 * due) is for the next round, so that nobody can starve the descriptors.
 *
 * Two descriptors are the loop's own: an eventfd that posts and loop_stop write to, and a timerfd
 * on CLOCK_BOOTTIME. A timeout of epoll_wait would not do, because it does not count suspend.
 *
 * A removed watch may still be in the batch of events being worked through, so it is only
 * silenced (events = 0) at once, and freed when the round ends.
 *
 * Once the loop has ended there is no thread to run posts. They are then run by whoever needs them,
 * a caller of loop_call or loop_free, one at a time under end_lock: no caller waits for ever.
 */
#include "loop/loop.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "loop/thread.h"
#include "loop/timers.h"

#define EVENTS_PER_ROUND 128
#define NO_DUE		 INT64_MAX

struct loop_io {
	struct loop *loop;
	int fd;
	uint32_t events; /* 0: paused or removed, and not in the epoll set */
	loop_io_fn fn;
	void *arg;
	struct loop_io *prev, *next;
};

struct post {
	loop_fn fn;
	void *arg;
	struct post *next;
};

struct loop {
	int epoll_fd, event_fd, timer_fd;
	pthread_t thread;
	bool has_thread;
	atomic_int owner_tid; /* thread that runs callbacks now; 0: none */
	atomic_bool stop;

	pthread_mutex_t post_lock; /* guards posts and ended */
	struct post *posts, **posts_tail;
	bool ended;
	pthread_mutex_t end_lock;

	struct loop_io *ios, *removed_ios;
	struct loop_timer *timers;
	struct timer_heap heap;
	int64_t armed_due_ms; /* what timer_fd is set to */
};

/* Events of it are known by the address of where it is kept. */
static int add_own_fd(struct loop *loop, int fd, void *kept_at)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = kept_at };

	return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int open_descriptors(struct loop *loop)
{
	int r;

	loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (loop->epoll_fd < 0)
		return -errno;
	loop->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->event_fd < 0)
		return -errno;
	loop->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (loop->timer_fd < 0)
		return -errno;
	r = add_own_fd(loop, loop->event_fd, &loop->event_fd);
	return r < 0 ? r : add_own_fd(loop, loop->timer_fd, &loop->timer_fd);
}

int loop_new(struct loop **ret, struct err *err)
{
	struct loop *loop = xcalloc(1, sizeof(*loop));
	int r;

	loop->epoll_fd = loop->event_fd = loop->timer_fd = -1;
	loop->posts_tail = &loop->posts;
	loop->armed_due_ms = NO_DUE;
	pthread_mutex_init(&loop->post_lock, NULL);
	pthread_mutex_init(&loop->end_lock, NULL);
	r = open_descriptors(loop);
	if (r < 0) {
		loop_free(loop);
		return err_set(err, r, "cannot make the event loop: %s", strerrordesc_np(-r));
	}
	*ret = loop;
	return 0;
}

bool loop_is_current(const struct loop *loop)
{
	return atomic_load(&loop->owner_tid) == gettid();
}

static void wake(struct loop *loop)
{
	const uint64_t one = 1;
	ssize_t n;

	do {
		n = write(loop->event_fd, &one, sizeof(one));
	} while (n < 0 && errno == EINTR);
	/* EAGAIN: the counter is full, so the loop is awake already. */
}

static void drain_counter(int fd)
{
	uint64_t count;
	ssize_t n;

	do {
		n = read(fd, &count, sizeof(count));
	} while (n < 0 && errno == EINTR);
}

static void run_posts(struct loop *loop)
{
	struct post *list;

	pthread_mutex_lock(&loop->post_lock);
	list = loop->posts;
	loop->posts = NULL;
	loop->posts_tail = &loop->posts;
	pthread_mutex_unlock(&loop->post_lock);
	while (list) {
		struct post post = *list;

		free(list);
		list = post.next;
		post.fn(post.arg);
	}
}

static bool has_posts(struct loop *loop)
{
	bool any;

	pthread_mutex_lock(&loop->post_lock);
	any = loop->posts != NULL;
	pthread_mutex_unlock(&loop->post_lock);
	return any;
}

/* Sets timer_fd to the first due time. */
static void arm_timer_fd(struct loop *loop)
{
	const struct loop_timer *first = timer_heap_first(&loop->heap);
	int64_t due_ms = first ? first->due_ms : NO_DUE;
	struct itimerspec spec = { 0 };

	if (due_ms == loop->armed_due_ms)
		return;
	if (due_ms != NO_DUE) {
		int64_t at_ms = due_ms < 1 ? 1 : due_ms; /* 0 would disarm */

		spec.it_value.tv_sec = (time_t)(at_ms / 1000);
		spec.it_value.tv_nsec = (long)(at_ms % 1000) * 1000000;
	}
	if (timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL) < 0) {
		log_error("cannot set the loop's timer", "errno=%s", strerrorname_np(errno));
		abort();
	}
	loop->armed_due_ms = due_ms;
}

static void run_timers(struct loop *loop)
{
	const uint64_t round = loop->heap.next_order;
	int64_t now_ms = clock_boottime_ms();
	struct loop_timer *timer;

	while ((timer = timer_heap_first(&loop->heap)) && timer->due_ms <= now_ms &&
	       timer->order < round) {
		timer_heap_disarm(&loop->heap, timer);
		timer->fn(timer->arg);
	}
}

static void run_watches(struct loop *loop, const struct epoll_event *events, int n)
{
	for (int i = 0; i < n; i++) {
		struct loop_io *io = events[i].data.ptr;
		uint32_t ready;

		if (events[i].data.ptr == &loop->event_fd || events[i].data.ptr == &loop->timer_fd)
			continue;
		/* An earlier callback of this batch may have removed, paused or changed it. */
		ready = io->events ? events[i].events & (io->events | EPOLLERR | EPOLLHUP) : 0;
		if (ready)
			io->fn(io->arg, ready);
	}
}

static void free_removed(struct loop *loop)
{
	while (loop->removed_ios) {
		struct loop_io *io = loop->removed_ios;

		loop->removed_ios = io->next;
		free(io);
	}
}

static int run_round(struct loop *loop)
{
	struct epoll_event events[EVENTS_PER_ROUND];
	int n;

	arm_timer_fd(loop);
	n = epoll_wait(loop->epoll_fd, events, EVENTS_PER_ROUND, -1);
	if (n < 0)
		return errno == EINTR ? 0 : -errno;
	for (int i = 0; i < n; i++) {
		if (events[i].data.ptr == &loop->event_fd)
			drain_counter(loop->event_fd);
		if (events[i].data.ptr == &loop->timer_fd) {
			drain_counter(loop->timer_fd);
			loop->armed_due_ms = NO_DUE; /* it has fired: nothing is set any more */
		}
	}
	run_timers(loop);
	run_posts(loop);
	run_watches(loop, events, n);
	free_removed(loop);
	return 0;
}

/* Runs posts until there are none, on a thread that stands in for the loop's. */
static void run_ended(struct loop *loop)
{
	pthread_mutex_lock(&loop->end_lock);
	atomic_store(&loop->owner_tid, gettid());
	while (has_posts(loop))
		run_posts(loop);
	free_removed(loop);
	atomic_store(&loop->owner_tid, 0);
	pthread_mutex_unlock(&loop->end_lock);
}

int loop_run(struct loop *loop)
{
	int r = 0;

	pthread_mutex_lock(&loop->post_lock);
	loop->ended = false;
	pthread_mutex_unlock(&loop->post_lock);
	atomic_store(&loop->owner_tid, gettid());
	while (r == 0 && !atomic_load(&loop->stop))
		r = run_round(loop);
	atomic_store(&loop->stop, false);

	/* From here on callers of loop_call help themselves; who came before is served now. */
	atomic_store(&loop->owner_tid, 0);
	pthread_mutex_lock(&loop->post_lock);
	loop->ended = true;
	pthread_mutex_unlock(&loop->post_lock);
	run_ended(loop);
	return r;
}

static void *loop_thread(void *arg)
{
	int r = loop_run(arg);

	if (r < 0)
		log_error("event loop ended", "errno=%s", strerrorname_np(-r));
	return NULL;
}

int loop_start(struct loop *loop, const char *name, struct err *err)
{
	int r = thread_start(&loop->thread, name, loop_thread, loop);

	if (r < 0)
		return err_set(err, r, "cannot start the thread of loop '%s': %s", name,
			       strerrordesc_np(-r));
	loop->has_thread = true;
	return 0;
}

void loop_stop(struct loop *loop)
{
	int saved_errno = errno;

	atomic_store(&loop->stop, true);
	wake(loop);
	errno = saved_errno;
}

void loop_free(struct loop *loop)
{
	if (!loop)
		return;
	assert(!loop_is_current(loop));
	if (loop->has_thread) {
		loop_stop(loop);
		pthread_join(loop->thread, NULL);
	}
	run_ended(loop);
	while (loop->ios)
		loop_io_remove(loop->ios);
	free_removed(loop);
	while (loop->timers)
		loop_timer_remove(loop->timers);
	timer_heap_clear(&loop->heap);
	cleanup_closep(&loop->epoll_fd);
	cleanup_closep(&loop->event_fd);
	cleanup_closep(&loop->timer_fd);
	pthread_mutex_destroy(&loop->end_lock);
	pthread_mutex_destroy(&loop->post_lock);
	free(loop);
}

/* Returns whether the loop had ended already, so that nobody will come for the post. */
static bool enqueue(struct loop *loop, loop_fn fn, void *arg)
{
	struct post *post = xmalloc(sizeof(*post));
	bool was_empty, ended;

	*post = (struct post){ .fn = fn, .arg = arg };
	pthread_mutex_lock(&loop->post_lock);
	was_empty = loop->posts == NULL;
	*loop->posts_tail = post;
	loop->posts_tail = &post->next;
	ended = loop->ended;
	pthread_mutex_unlock(&loop->post_lock);
	if (was_empty)
		wake(loop);
	return ended;
}

void loop_post(struct loop *loop, loop_fn fn, void *arg)
{
	enqueue(loop, fn, arg);
}

struct call {
	loop_fn fn;
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t returned;
	bool done;
};

static void run_call(void *arg)
{
	struct call *call = arg;

	call->fn(call->arg);
	pthread_mutex_lock(&call->lock);
	call->done = true;
	pthread_cond_signal(&call->returned);
	pthread_mutex_unlock(&call->lock);
}

void loop_call(struct loop *loop, loop_fn fn, void *arg)
{
	struct call call = {
		.fn = fn,
		.arg = arg,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.returned = PTHREAD_COND_INITIALIZER,
	};

	if (loop_is_current(loop)) {
		fn(arg);
		return;
	}
	if (enqueue(loop, run_call, &call))
		run_ended(loop);
	pthread_mutex_lock(&call.lock);
	while (!call.done)
		pthread_cond_wait(&call.returned, &call.lock);
	pthread_mutex_unlock(&call.lock);
	pthread_cond_destroy(&call.returned);
	pthread_mutex_destroy(&call.lock);
}

static int io_control(const struct loop_io *io, int operation)
{
	struct epoll_event event = { .events = io->events, .data.ptr = (void *)io };

	return epoll_ctl(io->loop->epoll_fd, operation, io->fd, &event) < 0 ? -errno : 0;
}

struct loop_io *loop_io_add(struct loop *loop, int fd, uint32_t events, loop_io_fn fn, void *arg)
{
	struct loop_io *io = xcalloc(1, sizeof(*io));
	int r;

	*io = (struct loop_io){ .loop = loop, .fd = fd, .events = events, .fn = fn, .arg = arg };
	r = events ? io_control(io, EPOLL_CTL_ADD) : 0;
	if (r < 0) {
		free(io);
		errno = -r;
		return NULL;
	}
	io->next = loop->ios;
	if (io->next)
		io->next->prev = io;
	loop->ios = io;
	return io;
}

void loop_io_set(struct loop_io *io, uint32_t events)
{
	uint32_t before = io->events;
	int r;

	if (events == before)
		return;
	io->events = events;
	if (before == 0)
		r = io_control(io, EPOLL_CTL_ADD);
	else
		r = io_control(io, events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL);
	if (r < 0) {
		log_error("cannot change a watch", "fd=%d errno=%s", io->fd, strerrorname_np(-r));
		abort();
	}
}

void loop_io_remove(struct loop_io *io)
{
	struct loop *loop;

	if (!io)
		return;
	loop = io->loop;
	loop_io_set(io, 0);
	if (io->prev)
		io->prev->next = io->next;
	else
		loop->ios = io->next;
	if (io->next)
		io->next->prev = io->prev;
	io->next = loop->removed_ios;
	loop->removed_ios = io;
}

struct loop_timer *loop_timer_add(struct loop *loop, int64_t due_boottime_ms, loop_fn fn, void *arg)
{
	struct loop_timer *timer = xcalloc(1, sizeof(*timer));

	*timer = (struct loop_timer){
		.loop = loop,
		.index = TIMER_NOT_ARMED,
		.fn = fn,
		.arg = arg,
		.next = loop->timers,
	};
	if (timer->next)
		timer->next->prev = timer;
	loop->timers = timer;
	timer_heap_arm(&loop->heap, timer, due_boottime_ms);
	return timer;
}

void loop_timer_set(struct loop_timer *timer, int64_t due_boottime_ms)
{
	timer_heap_arm(&timer->loop->heap, timer, due_boottime_ms);
}

void loop_timer_remove(struct loop_timer *timer)
{
	if (!timer)
		return;
	timer_heap_disarm(&timer->loop->heap, timer);
	if (timer->prev)
		timer->prev->next = timer->next;
	else
		timer->loop->timers = timer->next;
	if (timer->next)
		timer->next->prev = timer->prev;
	free(timer);
}
