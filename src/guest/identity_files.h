/*
 * The files that say who this guest is: /etc/hostname, /etc/hosts, /etc/machine-id and
 * /run/skerry/generation. What is to stand in them is identity.c's to decide; this is how it gets
 * there.
 *
 * All functions return 0 or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct identity_file {
	int fd;
	char *page; /* its first page, shared with all who read the file */
	size_t len;
};

enum identity_name {
	IDENTITY_HOSTNAME,
	IDENTITY_HOSTS,
	IDENTITY_MACHINE_ID,
	IDENTITY_GENERATION,
	IDENTITY_NAMES
};

struct identity_files {
	struct identity_file file[IDENTITY_NAMES];
	size_t hosts_own; /* where our line of hosts begins: behind the image's own */
	bool untouched;	  /* made, and no process but ours has run since */
};

/* Once, at boot, when the root is in place. What fails is logged; then every identity takes the
 * long way. */
void identity_files_make(struct identity_files *files);

int identity_files_hostname(struct identity_files *files, const char *hostname);
int identity_files_machine_id(struct identity_files *files, const char *machine_id);
int identity_files_generation(struct identity_files *files, uint64_t epoch);
