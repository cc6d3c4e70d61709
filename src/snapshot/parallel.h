/* The same work on a few threads, for the time of one call. Signals are blocked in them, so that
 * those of the process reach its own threads. */
#pragma once

/* Runs fn(arg) on the caller and on up to threads - 1 others, and returns when all have returned.
 * Where no more threads can be made it goes on with those there are. */
void parallel_run(unsigned int threads, void (*fn)(void *arg), void *arg);
