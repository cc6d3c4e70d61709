/*
 * Can this machine be a host of sandboxes? Each thing that is needed is tried and not guessed: a
 * guest is run, a program of eBPF is loaded, a file is cloned. What fails comes with what to do.
 *
 * skerryd runs the checks of its own machine for GET /v1/doctor; `skerry doctor` runs them where no
 * server answers, which is how a machine is made ready for one. They change nothing, and none takes
 * longer than seconds.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <jansson.h>

enum host_level {
	HOST_OK,
	HOST_ADVICE, /* it works, but not as well as it could */
	HOST_MISSING,
};

#define HOST_DETAIL_SIZE	320
#define HOST_DESCRIPTORS_WANTED 131072 /* one a connection and several a sandbox */

struct host_check {
	const char *name;
	enum host_level level;
	char detail[HOST_DETAIL_SIZE];
	const char *fix; /* what to do; NULL where it is as it should be */
};

struct host_spec {
	const char *state_dir;	  /* where the state is, or will be */
	int64_t free_disk_mb_min; /* kept free there */
	const char *const *qemu;  /* paths of which one must be there, NULL-terminated */
	uint16_t port;		  /* must be free; 0: somebody of ours has it */
	bool probe_kvm;		  /* false: whoever asks has done it */
	int64_t descriptors_wanted;
};

/* All of them, in order: {"name", "ok", "level", "detail", "fix"} appended to an array. */
void host_checks(const struct host_spec *spec, json_t *checks);
/* One of the caller's own, in the same form. */
void host_check_add(json_t *checks, const struct host_check *check);

/* MemAvailable; 0 when the kernel does not say. */
int64_t host_available_mb(void);
