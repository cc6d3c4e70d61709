/*
 * Which commands there are in a sandbox: asked of the guest, who knows it also after a restart of
 * the daemon.
 */
#pragma once

#include "core/core.h"

#define CORE_EXEC_COMMAND_SHOWN 240

struct core_exec_info {
	char exec_id[EXEC_ID_SIZE];
	char command[CORE_EXEC_COMMAND_SHOWN + 1]; /* its first bytes */
	bool command_whole;
	int64_t started_unix_ms;
	struct core_exec_result result; /* but for its output */
};

/* [worker] Those that run, then those that have ended and whose output is kept, newest first; the
 * caller frees *ret. A paused sandbox is resumed. */
int core_exec_list(struct core *core, const struct principal *who, const char *sandbox_id,
		   struct core_exec_info **ret, size_t *ret_n, struct err *err);
