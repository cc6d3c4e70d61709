/* Network set-up in tests by iproute2: one line that must succeed. */
#pragma once

#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static inline __attribute__((format(printf, 1, 2))) void sh(const char *fmt, ...)
{
	char line[1024];
	char *argv[] = { (char *)"sh", (char *)"-c", line, NULL };
	va_list ap;
	pid_t pid;
	int status;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	assert_int_equal(posix_spawnp(&pid, "sh", NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (status != 0)
		fail_msg("failed: %s", line);
}
