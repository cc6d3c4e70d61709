/*
 * Scope-bound ownership: `_cleanup_(fn) T x` runs fn(&x) when x leaves its scope; STEAL() and
 * STEAL_FD() hand the value over to an owner that outlives the scope.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(fn) __attribute__((cleanup(fn)))

/* Defines a cleanup function `name` for pointers of `type`, that calls fn on non-NULL values. */
#define DEFINE_CLEANUP(type, name, fn)                                                             \
	static inline void name(type *p)                                                           \
	{                                                                                          \
		if (*p)                                                                            \
			fn(*p);                                                                    \
	}                                                                                          \
	struct name##_swallow_semicolon

#define STEAL(ptr)                                                                                 \
	__extension__({                                                                            \
		__auto_type steal_ = (ptr);                                                        \
		(ptr) = NULL;                                                                      \
		steal_;                                                                            \
	})

#define STEAL_FD(fd)                                                                               \
	__extension__({                                                                            \
		int steal_ = (fd);                                                                 \
		(fd) = -1;                                                                         \
		steal_;                                                                            \
	})

static inline void cleanup_freep(void *p)
{
	free(*(void **)p);
}

static inline void cleanup_closep(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define _cleanup_free_	_cleanup_(cleanup_freep)
#define _cleanup_close_ _cleanup_(cleanup_closep)
