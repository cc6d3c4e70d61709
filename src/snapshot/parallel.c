/* Threads for the time of one call. */
#include "snapshot/parallel.h"

#include <pthread.h>
#include <signal.h>

#define THREADS_MAX 16

struct work {
	void (*fn)(void *arg);
	void *arg;
};

static void *run(void *arg)
{
	const struct work *work = arg;

	work->fn(work->arg);
	return NULL;
}

void parallel_run(unsigned int threads, void (*fn)(void *arg), void *arg)
{
	struct work work = { fn, arg };
	pthread_t others[THREADS_MAX];
	unsigned int n = 0;
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (n + 1 < threads && n < THREADS_MAX &&
	       pthread_create(&others[n], NULL, run, &work) == 0)
		n++;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	fn(arg);
	while (n > 0)
		pthread_join(others[--n], NULL);
}
