/* A core on slots without a kernel (fake_slots.h), with sandboxes that have no machines. */
#pragma once

#include "unit.h"

#include "base/json.h"
#include "core/internal.h"
#include "fake_slots.h"

struct fixture {
	char dir[SCRATCH_SIZE];
	struct core_network_config network;
	struct core_config config;
	struct core *core;
	struct principal admin;
	int64_t next_uid;
};

int rig_setup(void **state);
int rig_teardown(void **state);
void rig_open(struct fixture *f);
/* The slots stay as they are, and wait for the next daemon. */
void rig_restart(struct fixture *f);

/* As a creation makes one, but for the machine; running, and the caller's to unref. */
struct sandbox *make_sandbox(struct fixture *f, const char *name, const char *egress);
/* labels as JSON text. */
struct sandbox *make_labelled(struct fixture *f, const char *name, const char *egress,
			      const char *labels);
/* One of an earlier daemon, as recovery takes it over. */
struct sandbox *adopt(struct fixture *f, const char *id);
void load_row(struct sandbox *sb, struct sandbox_row *row);
const struct fake_slot *slot_of(const struct sandbox *sb);
/* rules as JSON text. */
int set_rules(struct fixture *f, struct sandbox *sb, const char *rules, struct err *err);

#define RIG_TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
