/*
 * The egress program and its pinned maps, from the daemon's side: load or re-use, attach to a
 * device, change entries. Knows no taps and no policies.
 *
 * The maps are pinned by name in a directory on a bpffs; the programs live by the devices they are
 * attached to. A daemon that starts anew finds the maps, loads its own build of the program onto
 * them and replaces it on each device, atomically. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "net/bpf/abi.h"

struct ring_buffer;

struct egress_program;

/* instance: maps of another one are refused (-EBUSY), as are those of another EGRESS_ABI. */
int egress_program_new(const struct egress_config *config, const char *pin_dir,
		       const char *instance, struct egress_program **ret, struct err *err);
/* What is pinned and attached stays. NULL is fine. */
void egress_program_free(struct egress_program *program);
/* Unpins everything: the maps end with the last device. */
int egress_program_unpin(struct egress_program *program);

/* Both directions of the device; replaces what an earlier daemon attached. */
int egress_program_attach(struct egress_program *program, uint32_t ifindex, uint32_t index,
			  struct err *err);
/* The device is gone or its slot is. */
int egress_program_forget_device(struct egress_program *program, uint32_t ifindex);

/* Shared with the kernel: words change atomically, in the order that the caller writes them. */
struct egress_slot *egress_program_slot(struct egress_program *program, uint32_t index);
struct egress_settings *egress_program_settings(struct egress_program *program);

/* A new, empty table of flows for the slot. */
int egress_program_reset_flows(struct egress_program *program, uint32_t index);
int egress_program_drop_flows(struct egress_program *program, uint32_t index);
int egress_program_counters(struct egress_program *program, uint32_t index,
			    struct egress_counters *ret);
int egress_program_reset_counters(struct egress_program *program, uint32_t index);

enum egress_map {
	EGRESS_MAP_DEVICES,
	EGRESS_MAP_SLOTS,
	EGRESS_MAP_SETTINGS,
	EGRESS_MAP_RULES,
	EGRESS_MAP_LEARNED,
	EGRESS_MAP_RANGES,
	EGRESS_MAP_MEMBERS,
	EGRESS_MAP_FLOWS,
	EGRESS_MAP_COUNTERS,
	EGRESS_MAP_EVENTS,
	EGRESS_MAPS,
};
/* For bpf_map_update_elem and friends. */
int egress_program_map_fd(const struct egress_program *program, enum egress_map map);
enum egress_direction { EGRESS_FROM_GUEST, EGRESS_TO_GUEST };
int egress_program_fd(const struct egress_program *program, enum egress_direction direction);
