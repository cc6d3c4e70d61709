/* What session.c and requests.c share about handles. */
#pragma once

#include "guest/exec.h"
#include "guest/session.h"

struct handle *handle_find(struct session *s, uint32_t id);
struct handle *handle_open(struct session *s, uint32_t id, struct exec *exec);
void handle_close(struct session *s, struct handle *h);
/* Tells the host that a handle did not come to be, or is closed. */
void handle_send_failed(struct session *s, uint32_t id, const struct exec_failure *failure);

static inline struct follow *handle_follow(struct handle *h, int stream)
{
	return &h->follows[stream == PROTO_STDERR];
}
