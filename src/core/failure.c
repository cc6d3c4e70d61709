/* What callers are told of a failure. */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "core/internal.h"

void failure_name(struct err *err, const char *code, const char *const *kept, size_t n_kept)
{
	const char *own = err_code_of(err);

	for (size_t i = 0; i < n_kept; i++) {
		if (str_eq(own, kept[i]))
			return;
	}
	err->code = code;
}

void failure_hide_host(const struct core *core, struct err *err, const char *what)
{
	const char *code = err_code_of(err);

	if (!strstr(err->message, core->state_dir))
		return;
	if (str_eq(code, "disk_full")) {
		err_code(err, -ENOSPC, code, "no space is left on the host to %s", what);
		err_hint(err, "destroy sandboxes or delete snapshots that are not needed, or make "
			      "room on the host");
		return;
	}
	err_code(err, err->num < 0 ? err->num : -EIO, code, "the server could not %s", what);
	if (!err->hint[0])
		err_hint(err, "the reason is in the server's log; try again, or ask its operator");
}
