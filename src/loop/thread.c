/* Starting threads. The signal mask is inherited, so it is set before and put back after. */
#include "loop/thread.h"

#include <signal.h>

#include "base/str.h"

int thread_start(pthread_t *ret, const char *name, void *(*fn)(void *), void *arg)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT };
	sigset_t blocked, before;
	char short_name[16];
	pthread_t thread;
	int r;

	sigfillset(&blocked);
	for (size_t i = 0; i < ARRAY_SIZE(faults); i++)
		sigdelset(&blocked, faults[i]);
	pthread_sigmask(SIG_BLOCK, &blocked, &before);
	r = pthread_create(&thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0)
		return -r;
	str_copy(short_name, sizeof(short_name), name);
	pthread_setname_np(thread, short_name);
	*ret = thread;
	return 0;
}
