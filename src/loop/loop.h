/*
 * The event loop: one thread, epoll, timers on CLOCK_BOOTTIME, descriptors and pidfds.
 *
 * Everything but loop_post(), loop_call() and loop_stop() must be called on the loop's own thread
 * (or before loop_start). Callbacks run on the loop's thread and must not block.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct loop;
struct loop_io;
struct loop_timer;

typedef void (*loop_fn)(void *arg);
typedef void (*loop_io_fn)(void *arg, uint32_t events);

/* Makes a loop and its epoll descriptor; nothing runs yet. */
int loop_new(struct loop **ret, struct err *err);
/* Runs the loop on a thread of its own, named name. */
int loop_start(struct loop *loop, const char *name, struct err *err);
/* Runs the loop on the calling thread until loop_stop (for programs with one thread). */
int loop_run(struct loop *loop);
/* Asks the loop to end after the current round; any thread; safe in a signal handler. */
void loop_stop(struct loop *loop);
/* Stops, joins the thread, runs what is still posted, frees everything still registered
 * (descriptors stay open). Nobody may use the loop meanwhile. NULL is fine. */
void loop_free(struct loop *loop);
bool loop_is_current(const struct loop *loop); /* called on the loop's thread? */

/* Runs fn(arg) on the loop's thread soon; any thread; order is kept. */
void loop_post(struct loop *loop, loop_fn fn, void *arg);
/* As loop_post, and waits until fn has returned. On the loop's own thread calls fn at once. When
 * the loop has ended (loop_stop) but is not freed yet, fn runs on the calling thread, after what
 * was posted and never beside another call; posts that are left are run by loop_free. */
void loop_call(struct loop *loop, loop_fn fn, void *arg);

/* Watches fd for events (EPOLLIN, EPOLLOUT; level-triggered; EPOLLHUP and EPOLLERR are always
 * reported). events = 0 pauses the watch altogether. The descriptor stays the caller's; remove the
 * watch before closing it. A watch may be removed inside any callback; its own callback does not
 * run again afterwards. NULL with errno when the kernel refuses (EPERM: a regular file; EEXIST: fd
 * is watched already; ENOSPC). */
struct loop_io *loop_io_add(struct loop *loop, int fd, uint32_t events, loop_io_fn fn, void *arg);
void loop_io_set(struct loop_io *io, uint32_t events);
void loop_io_remove(struct loop_io *io); /* NULL is fine */

/* Calls fn once when CLOCK_BOOTTIME reaches due_boottime_ms; the timer must still be freed with
 * loop_timer_remove (allowed inside fn). loop_timer_set moves it and arms it again. */
struct loop_timer *loop_timer_add(struct loop *loop, int64_t due_boottime_ms, loop_fn fn,
				  void *arg);
void loop_timer_set(struct loop_timer *timer, int64_t due_boottime_ms);
void loop_timer_remove(struct loop_timer *timer); /* NULL is fine */
