/*
 * Previews: one port of a sandbox, reached through the daemon. The core says who may, finds the
 * sandbox (one that is paused is resumed), keeps it awake while connections are open, and makes the
 * connections; what is said over them is the surface's.
 *
 * A link is a signed, expiring token for one port of one sandbox. Tokens are not stored: what is
 * stored is the key that signs them, so that links outlive a restart of the daemon.
 */
#pragma once

#include "core/core.h"

#define CORE_PREVIEW_TOKEN_SIZE 72

/* [worker] A token for a port of a sandbox that has not ended. ttl_minutes 0: the default. */
int core_preview_sign(struct core *core, const struct principal *who, const char *id, uint16_t port,
		      uint32_t ttl_minutes, char ret_token[CORE_PREVIEW_TOKEN_SIZE],
		      int64_t *ret_expires_unix_ms, struct err *err);
/* Any thread. -EACCES: "preview_denied" (no token of ours for this port), "preview_expired". */
int core_preview_check(struct core *core, const char *id, uint16_t port, const char *token,
		       size_t len, int64_t *ret_expires_unix_ms, struct err *err);

struct core_preview;

/* Loop's thread, at most once: the sandbox ends or is paused, and the connection with it. Not after
 * core_preview_close has returned. */
typedef void (*core_preview_over_fn)(void *arg, const struct err *why);

/* [worker] A connection to the port that has begun to be made: a socket that does not block and is
 * writable, or has an error, once that is decided. who NULL: whoever has shown a token. Errors as
 * of every operation on a running sandbox, and "preview_limit". over may be called before this has
 * returned. The socket is the caller's to close. */
int core_preview_open(struct core *core, const struct principal *who, const char *id, uint16_t port,
		      core_preview_over_fn over, void *arg, struct core_preview **ret, int *ret_fd,
		      struct err *err);
/* Loop's thread. */
void core_preview_close(struct core_preview *preview);

/* What an error of the connecting socket (errno) means: "port_not_listening",
 * "preview_timeout", … */
int core_preview_connect_error(const char *id, uint16_t port, int num, struct err *err);
