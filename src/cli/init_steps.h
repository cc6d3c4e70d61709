/*
 * What `skerry init` does on this machine, as steps. A step looks first: what is as it should be is
 * left alone, so that init can be run again, also after it was cut short. It works on files and
 * programs of this machine; the last step asks the server that the one before has started.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define INIT_SYSTEMD_RUNS "/run/systemd/system" /* is there where it is PID 1: sd_booted(3) */

struct cli_args;

enum init_reflink { INIT_REFLINK_AUTO, INIT_REFLINK_YES, INIT_REFLINK_NO };
enum init_boot { INIT_BOOT_AUTO, INIT_BOOT_SYSTEMD, INIT_BOOT_FSTAB, INIT_BOOT_NONE };

struct init {
	const char *state_dir; /* absolute, without a trailing slash */
	enum init_reflink reflink;
	enum init_boot boot;
	int64_t size_gb; /* of a file system that is made; 0: by the room there is */
	bool yes;	 /* to every question */
	/* Asks the person at the terminal; NULL where there is none. */
	bool (*ask)(const char *question);
	const struct cli_args *args; /* says which server */
};

/* What is asked for: yes was said beforehand, or is now. Nobody to ask means no. */
bool init_wants(const struct init *init, const char *question);

enum init_outcome { INIT_DONE, INIT_ALREADY, INIT_SKIPPED };

struct init_result {
	enum init_outcome outcome;
	struct buf detail; /* a sentence without full stop */
	struct buf undo;   /* commands, a line each; empty: nothing to undo */
};

/* A row of the table of steps, which run in order; the first that fails ends them. */
struct init_step {
	const char *name;
	int (*run)(const struct init *init, struct init_result *ret, struct err *err);
};

/* The state directory is there, for root alone. */
int init_state_dir(const struct init *init, struct init_result *ret, struct err *err);
/* It lies on a file system with reflink: an XFS image, loop-mounted there, if it is wanted. */
int init_file_system(const struct init *init, struct init_result *ret, struct err *err);

/* skerryd runs, now and at every boot: a service of systemd, where that runs the machine. */
int init_service(const struct init *init, struct init_result *ret, struct err *err);
/* The server has its default image. */
int init_images(const struct init *init, struct init_result *ret, struct err *err);

/* ---- init_boot.c ---- */

/* Mounts the image on the directory, now and at every boot. Returns what is needed to undo it. */
int init_mount(const char *image, const char *dir, enum init_boot boot, struct buf *undo,
	       struct err *err);
/* "/var/lib/sk-erry" → "var-lib-sk\x2derry.mount", as systemd-escape --path has it. */
void init_unit_name(const char *dir, struct buf *out);
/* The text of the mount unit. */
void init_unit_text(const char *image, const char *dir, struct buf *out);
/* The line for /etc/fstab, with its line break. */
void init_fstab_line(const char *image, const char *dir, struct buf *out);
/* Whether a table has a line for this mount point. */
bool init_fstab_has(const char *table, const char *dir);

/* ---- init_run.c ---- */

/* Runs a program to its end, with its output in *output (capped; may be NULL). -ENOENT when it is
 * not installed; err has the program's own words. */
int init_run(const char *const *argv, struct buf *output, struct err *err);
