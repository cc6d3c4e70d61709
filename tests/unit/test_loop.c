/* The event loop: order of timers and posts, threads, removal inside callbacks, pidfds, ending. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/clock.h"
#include "loop/loop.h"

static struct loop *loop;
static struct buf trace; /* what ran, in order; loop's thread only */

static int make_loop(void **state)
{
	assert_int_equal(loop_new(&loop, NULL), 0);
	return 0;
}

static int drop_loop(void **state)
{
	loop_free(loop);
	loop = NULL;
	buf_clear(&trace);
	return 0;
}

static void add_trace(void *arg)
{
	buf_append_str(&trace, arg);
}

static void stop(void *arg)
{
	loop_stop(loop);
}

static void test_timers_run_in_order(void **state)
{
	int64_t now_ms = clock_boottime_ms(), start_ms = now_ms;
	struct loop_timer *moved, *removed;

	loop_timer_add(loop, now_ms + 30, add_trace, "c");
	loop_timer_add(loop, now_ms + 10, add_trace, "a");
	loop_timer_add(loop, now_ms + 20, add_trace, "b1");
	loop_timer_add(loop, now_ms + 20, add_trace, "b2");
	loop_timer_add(loop, 0, add_trace, "0");
	moved = loop_timer_add(loop, now_ms + 5, add_trace, "d");
	removed = loop_timer_add(loop, now_ms + 15, add_trace, "x");
	loop_timer_add(loop, INT64_MAX, add_trace, "never");
	loop_timer_add(loop, now_ms + 60, stop, NULL);
	loop_timer_set(moved, now_ms + 40);
	loop_timer_remove(removed);
	loop_timer_remove(NULL);
	assert_int_equal(loop_run(loop), 0);
	assert_string_equal(buf_str(&trace), "0ab1b2cd");
	assert_true(clock_boottime_ms() - start_ms >= 60);
}

#define N_TIMERS 2000

static int64_t last_due_ms;
static unsigned fired;
static struct due_timer {
	struct loop_timer *timer;
	int64_t due_ms;
} due_timers[N_TIMERS];

static void check_due(void *arg)
{
	struct due_timer *due = arg;

	assert_true(due->due_ms >= last_due_ms);
	assert_true(clock_boottime_ms() >= due->due_ms);
	last_due_ms = due->due_ms;
	fired++;
}

/* Moves and removals in every part of the heap keep its order. */
static void test_many_timers(void **state)
{
	int64_t now_ms = clock_boottime_ms();
	unsigned seed = 12345, removed = 0;

	fired = 0;
	last_due_ms = 0;
	for (size_t i = 0; i < N_TIMERS; i++) {
		due_timers[i].due_ms = now_ms + rand_r(&seed) % 50;
		due_timers[i].timer =
			loop_timer_add(loop, due_timers[i].due_ms, check_due, &due_timers[i]);
	}
	for (size_t i = 0; i < N_TIMERS; i += 3) {
		due_timers[i].due_ms = now_ms + rand_r(&seed) % 50;
		loop_timer_set(due_timers[i].timer, due_timers[i].due_ms);
	}
	for (size_t i = 1; i < N_TIMERS; i += 7, removed++)
		loop_timer_remove(due_timers[i].timer);
	loop_timer_add(loop, now_ms + 80, stop, NULL);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(fired, N_TIMERS - removed);
}

static struct loop_timer *self_timer, *other_timer;
static int ticks;

static void tick(void *arg)
{
	buf_append_str(&trace, "t");
	if (++ticks < 3) {
		loop_timer_set(self_timer, 0); /* due at once: the next round */
		return;
	}
	loop_timer_remove(self_timer);
	loop_timer_remove(other_timer);
	loop_post(loop, stop, NULL);
}

static void test_timer_moves_and_frees_itself(void **state)
{
	ticks = 0;
	self_timer = loop_timer_add(loop, 0, tick, NULL);
	other_timer = loop_timer_add(loop, clock_boottime_ms() + 10000, add_trace, "x");
	assert_int_equal(loop_run(loop), 0);
	assert_string_equal(buf_str(&trace), "ttt");
}

#define N_THREADS 4
#define N_POSTS	  5000

static int last_seen[N_THREADS]; /* loop's thread only */
static int total_seen;

struct post_arg {
	int thread, number;
};

static struct post_arg post_args[N_THREADS][N_POSTS];

static void see_post(void *arg)
{
	const struct post_arg *post = arg;

	assert_true(loop_is_current(loop));
	assert_int_equal(post->number, last_seen[post->thread] + 1);
	last_seen[post->thread] = post->number;
	total_seen++;
}

static void *poster(void *arg)
{
	struct post_arg *posts = arg;

	for (int i = 0; i < N_POSTS; i++)
		loop_post(loop, see_post, &posts[i]);
	return NULL;
}

static void read_total(void *arg)
{
	*(int *)arg = total_seen;
}

static void test_posts_of_many_threads(void **state)
{
	pthread_t threads[N_THREADS];
	int total = 0;

	total_seen = 0;
	for (int t = 0; t < N_THREADS; t++) {
		last_seen[t] = 0;
		for (int i = 0; i < N_POSTS; i++)
			post_args[t][i] = (struct post_arg){ .thread = t, .number = i + 1 };
	}
	assert_int_equal(loop_start(loop, "a rather long name", NULL), 0);
	for (int t = 0; t < N_THREADS; t++)
		assert_int_equal(pthread_create(&threads[t], NULL, poster, post_args[t]), 0);
	for (int t = 0; t < N_THREADS; t++)
		pthread_join(threads[t], NULL);
	loop_call(loop, read_total, &total);
	assert_int_equal(total, N_THREADS * N_POSTS);
	assert_false(loop_is_current(loop));
}

static void inner_call(void *arg)
{
	assert_true(loop_is_current(loop));
	buf_append_str(&trace, "inner,");
}

static void outer_call(void *arg)
{
	buf_append_str(&trace, "outer,");
	loop_call(loop, inner_call, NULL); /* at once, or this would wait for itself */
	buf_append_str(&trace, "end");
}

static void test_call_within_the_loop(void **state)
{
	assert_int_equal(loop_start(loop, "loop", NULL), 0);
	loop_call(loop, outer_call, NULL);
	assert_string_equal(buf_str(&trace), "outer,inner,end");
}

static struct loop_io *ios[2];
static int io_calls[2];

static void remove_both(void *arg, uint32_t events)
{
	int i = *(int *)arg;

	assert_true(events & EPOLLIN);
	io_calls[i]++;
	loop_io_remove(ios[0]);
	loop_io_remove(ios[1]);
	loop_post(loop, stop, NULL);
}

/* Both are ready in one batch; the first callback removes both, so that the other must not run. */
static void test_watch_removed_by_another_in_the_same_batch(void **state)
{
	int a[2], b[2], zero = 0, one = 1;

	io_calls[0] = io_calls[1] = 0;
	assert_int_equal(pipe2(a, O_CLOEXEC), 0);
	assert_int_equal(pipe2(b, O_CLOEXEC), 0);
	assert_int_equal(fd_write_all(a[1], "x", 1), 0);
	assert_int_equal(fd_write_all(b[1], "x", 1), 0);
	ios[0] = loop_io_add(loop, a[0], EPOLLIN, remove_both, &zero);
	ios[1] = loop_io_add(loop, b[0], EPOLLIN, remove_both, &one);
	assert_int_equal(loop_run(loop), 0);
	assert_int_equal(io_calls[0] + io_calls[1], 1);
	loop_io_remove(NULL);
	for (int i = 0; i < 2; i++) {
		close(a[i]);
		close(b[i]);
	}
}

static int level_calls;

static void count_then_pause(void *arg, uint32_t events)
{
	if (++level_calls == 3)
		loop_io_set(ios[0], 0);
}

static void resume(void *arg)
{
	assert_int_equal(level_calls, 3); /* paused, although readable and hung up */
	loop_io_set(ios[0], EPOLLIN);
	loop_timer_add(loop, clock_boottime_ms() + 30, stop, NULL);
}

static void test_level_triggered_and_paused(void **state)
{
	int fds[2];

	level_calls = 0;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(fd_write_all(fds[1], "x", 1), 0);
	close(fds[1]);
	ios[0] = loop_io_add(loop, fds[0], EPOLLIN, count_then_pause, NULL);
	loop_timer_add(loop, clock_boottime_ms() + 50, resume, NULL);
	assert_int_equal(loop_run(loop), 0);
	assert_true(level_calls > 3);
	loop_io_remove(ios[0]);
	close(fds[0]);
}

static void test_refused_watches(void **state)
{
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_null(loop_io_add(loop, file, EPOLLIN, remove_both, NULL));
	assert_int_equal(errno, EPERM);
	close(file);
	assert_null(loop_io_add(loop, file, EPOLLIN, remove_both, NULL));
	assert_int_equal(errno, EBADF);
}

static void child_ended(void *arg, uint32_t events)
{
	siginfo_t info = { 0 };

	assert_int_equal(waitid(P_PIDFD, (id_t) * (int *)arg, &info, WEXITED), 0);
	assert_int_equal(info.si_status, 7);
	buf_append_str(&trace, "ended");
	loop_io_remove(ios[0]);
	loop_stop(loop);
}

static void test_pidfd(void **state)
{
	pid_t pid = fork();
	int pidfd;

	if (pid == 0) {
		usleep(20000);
		_exit(7);
	}
	pidfd = pidfd_open(pid, 0);
	assert_true(pidfd >= 0);
	ios[0] = loop_io_add(loop, pidfd, EPOLLIN, child_ended, &pidfd);
	assert_int_equal(loop_run(loop), 0);
	assert_string_equal(buf_str(&trace), "ended");
	close(pidfd);
}

static void stop_by_signal(int sig)
{
	loop_stop(loop);
}

static void test_stop_in_a_signal_handler(void **state)
{
	struct sigaction action = { .sa_handler = stop_by_signal }, before;
	struct itimerval soon = { .it_value.tv_usec = 20000 };

	assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	assert_int_equal(loop_run(loop), 0);
	sigaction(SIGALRM, &before, NULL);
}

static void test_stop_before_run_and_run_again(void **state)
{
	loop_stop(loop);
	assert_int_equal(loop_run(loop), 0);
	loop_post(loop, add_trace, "again");
	loop_post(loop, stop, NULL);
	assert_int_equal(loop_run(loop), 0);
	assert_string_equal(buf_str(&trace), "again");
}

static void test_calls_after_the_end_still_return(void **state)
{
	loop_stop(loop);
	assert_int_equal(loop_run(loop), 0);
	loop_post(loop, add_trace, "1");
	loop_call(loop, outer_call, NULL);
	assert_string_equal(buf_str(&trace), "1outer,inner,end");
}

static void *caller(void *arg)
{
	for (int i = 0; i < 2000; i++)
		loop_call(loop, read_total, arg);
	return NULL;
}

/* Nobody who waits in loop_call is left behind by a stop at any moment. */
static void test_stop_while_others_call(void **state)
{
	pthread_t threads[N_THREADS];
	int totals[N_THREADS];

	assert_int_equal(loop_start(loop, "loop", NULL), 0);
	for (int t = 0; t < N_THREADS; t++)
		assert_int_equal(pthread_create(&threads[t], NULL, caller, &totals[t]), 0);
	usleep(2000);
	loop_stop(loop);
	for (int t = 0; t < N_THREADS; t++)
		pthread_join(threads[t], NULL);
}

static void test_free_runs_posts_that_are_left(void **state)
{
	struct loop *other;

	assert_int_equal(loop_new(&other, NULL), 0);
	loop_post(other, add_trace, "left");
	loop_timer_add(other, 0, add_trace, "x");
	loop_io_add(other, STDIN_FILENO, 0, remove_both, NULL);
	loop_free(other);
	assert_string_equal(buf_str(&trace), "left");
	loop_free(NULL);
}

#define loop_test(fn) cmocka_unit_test_setup_teardown(fn, make_loop, drop_loop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		loop_test(test_timers_run_in_order),
		loop_test(test_many_timers),
		loop_test(test_timer_moves_and_frees_itself),
		loop_test(test_posts_of_many_threads),
		loop_test(test_call_within_the_loop),
		loop_test(test_watch_removed_by_another_in_the_same_batch),
		loop_test(test_level_triggered_and_paused),
		loop_test(test_refused_watches),
		loop_test(test_pidfd),
		loop_test(test_stop_in_a_signal_handler),
		loop_test(test_stop_before_run_and_run_again),
		loop_test(test_calls_after_the_end_still_return),
		loop_test(test_stop_while_others_call),
		loop_test(test_free_runs_posts_that_are_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
