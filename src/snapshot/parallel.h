/* The same work on a few threads, for the time of one call. Signals are blocked in them, so that
 * those of the process reach its own threads. */
#pragma once

#include <stdint.h>

/* Runs fn(arg) on the caller and on up to threads - 1 others, and returns when all have returned.
 * Where no more threads can be made it goes on with those there are. */
void parallel_run(unsigned int threads, void (*fn)(void *arg), void *arg);

/* Threads worth having for that many bytes: one for each 16 MiB, no more than CPUs or max. */
unsigned int parallel_threads(uint64_t bytes, unsigned int max);
