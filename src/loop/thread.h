/* Starting the threads of this folder: a name for ps(1), and no signals but the faults. */
#pragma once

#include <pthread.h>

/* Starts fn(arg) on a thread named name (cut at 15 bytes). Asynchronous signals stay with the
 * program's other threads. 0 or -errno. */
int thread_start(pthread_t *ret, const char *name, void *(*fn)(void *), void *arg);
