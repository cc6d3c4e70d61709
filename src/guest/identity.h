/*
 * What makes this guest this guest and not the one it was copied from: entropy, clock, hostname,
 * machine-id, and the generation, which tells processes of it (guest_proto.h). Applied before the
 * first command after a boot, a restore or a fork.
 */
#pragma once

#include <stdint.h>

#include "guest/identity_files.h"
#include "skerry/guest_proto.h"

#define IDENTITY_HOSTNAME_MAX	63u
#define IDENTITY_MACHINE_ID_LEN 32u

struct identity {
	uint64_t epoch;
	uint64_t unix_us;
	uint8_t entropy[PROTO_ENTROPY_LEN];
	char *hostname;	  /* one label of a name */
	char *machine_id; /* 32 lower-case hex digits */
};

/* Once, at boot: what entropy is added to, kept open because opening it costs a restore more than
 * all that is done with it. The descriptor, or -errno. */
int identity_open_random(void);
/* Returns what could be applied (PROTO_APPLIED_…); the rest is logged. */
uint32_t identity_apply(const struct identity *id, int random_fd, struct identity_files *files);
int identity_set_clock(uint64_t unix_us); /* 0 or -errno */
