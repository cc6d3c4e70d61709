/* What it means when a port of a sandbox cannot be reached, in words for whoever asked. */
#include <errno.h>
#include <string.h>

#include "core/preview.h"

int core_preview_connect_error(const char *id, uint16_t port, int num, struct err *err)
{
	switch (num) {
	case -ECONNREFUSED:
		err_code(err, num, "port_not_listening",
			 "nobody listens on port %u of sandbox '%s'", port, id);
		err_hint(err, "start a server there that listens on 0.0.0.0; one that listens on "
			      "127.0.0.1 or localhost only cannot be reached from outside of the "
			      "sandbox (many development servers have an option --host)");
		return num;
	case -ETIMEDOUT:
		err_code(err, num, "preview_timeout",
			 "port %u of sandbox '%s' did not take the connection in time", port, id);
		err_hint(err, "look whether its server hangs, or a firewall in the sandbox drops "
			      "packets");
		return num;
	default:
		err_code(err, num, "preview_unreachable",
			 "port %u of sandbox '%s' could not be reached: %s", port, id,
			 strerror(-num));
		return num;
	}
}
