/*
 * Machines without machines, for tests of what the core does with their lives: the VM driver, the
 * channel to agents, holding and the making of templates are played here, under the names of the
 * real ones; everything else of the core is real, the saving of memory included.
 *
 * A machine is its warden's record (warden/record.h), written as a warden writes it, so that it
 * outlives the process that began it, as a real one does. Its memory is a mapping in this process.
 *
 * What was true of each machine is kept in a directory of the test's own:
 *
 *   <id>.<n>     its warden's records, one for each run, by links to the same files
 *   <id>.log     lines "answered|held|let_go|gone BOOTTIME_MS", as they happened
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Where the truth is kept; before a core is opened. */
void fake_machines_init(const char *truth_dir);

/* Of the machine in that run directory: it ends by itself, so long ago. False: it had ended. */
bool fake_machine_crash(const char *run_dir, int64_t ago_ms);
/* Warden and VMM vanish, and nobody writes anything. */
void fake_machine_vanish(const char *run_dir, const char *id);
