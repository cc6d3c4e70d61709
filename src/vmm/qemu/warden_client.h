/* One command to a VM's warden (warden/control.h lists them). */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* 0 when the answer is "ok". -ESRCH: there is no warden any more, or it says that the VM is ending.
 */
int warden_run(const char *run_dir, int64_t deadline_boottime_ms, struct err *err, const char *fmt,
	       ...) __attribute__((format(printf, 4, 5)));
