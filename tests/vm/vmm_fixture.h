/*
 * What tests of the VM layer share: a driver, a template made by it, machines restored from it, and
 * a count of everything a machine could leave behind.
 *
 * SKERRY_TEST_WARDEN, SKERRY_TEST_LIB_DIR, SKERRY_TEST_KERNEL, SKERRY_TEST_INITRAMFS name what was
 * built, SKERRY_IMAGE_DIR the folder with base.erofs; SKERRY_TEST_ACCEL is "tcg" unless set.
 */
#pragma once

#include "guest_vm.h"
#include "vmm/vmm.h"

#define FIXTURE_MEMORY_MB 512

struct fixture {
	char dir[64];
	char cgroup[32]; /* its own: other test runs must not be counted as residue of this one */
	struct vmm_driver *driver;
	struct loop *loop;
	char *root_path;
	char *memory_path, *state_path, *disk_path; /* the template */
	const struct vmm_network *network;	    /* of machines prepared from now on */
	int64_t boot_ms;			    /* start to the agent's answer */
	unsigned int n_machines;
};

struct machine_run {
	struct fixture *fixture;
	char name[32];
	char run_dir[128];
	char disk_path[128];
	struct vmm_spec spec;
	struct vmm_vm vm;
	struct vm guest;  /* for run() and shell() */
	int64_t start_us; /* what vmm_start took */
};

/* The one of a test program; for cmocka's groups: made with its template, and unmade. */
extern struct fixture fixture;
int fixture_set_up(void **state);
int fixture_tear_down(void **state);

void fixture_open(struct fixture *f); /* driver only */
void fixture_make_template(struct fixture *f);
void fixture_close(struct fixture *f);
struct vmm_config fixture_config(const struct fixture *f, char *cache_dir, size_t size);

/* Names, directory, a copy of the template's disk, a spec for a restore; starts nothing. */
void machine_prepare(struct machine_run *m, struct fixture *f);
/* Starts the spec (which a test may have changed); failure ends the test. */
void machine_start(struct machine_run *m);
/* Opens the agent's channel; shell(&m->guest, …) then works. */
void machine_connect(struct machine_run *m);
void machine_disconnect(struct machine_run *m);
/* Ends and releases; the run directory stays. */
void machine_end(struct machine_run *m);
struct record machine_record(const struct machine_run *m);
/* Waits until the warden is gone, then reads the record. */
struct record machine_wait_exit(struct machine_run *m, int timeout_ms);

/* Processes, mounts, control groups and descriptors as they are now. */
struct residue {
	int processes, mounts, cgroups, descriptors;
};
struct residue residue_count(const struct fixture *f);
void assert_no_residue(const struct fixture *f, struct residue before);
