/*
 * What skerryd was asked to do: command line and configuration file, as one checked structure. The
 * command line wins. Nothing is opened or made here but the configuration file.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "core/limits.h"

#define OPTIONS_HOSTS_MAX 16

struct options {
	char *config_path; /* NULL: none */
	char *state_dir;
	char *address;
	uint16_t port;
	char *tls_cert; /* paths; both or none */
	char *tls_key;
	bool insecure_listen;
	char *allowed_hosts[OPTIONS_HOSTS_MAX + 1]; /* NULL-terminated */
	enum log_level log_level;
	struct core_limits limits;

	/* [vm] and [images]; NULL: where the program was built or installed */
	char *warden, *qemu, *qemu_kvm, *kernel, *initramfs, *lib_dir, *accel, *cgroup;
	char *image_dir; /* NULL: images in the state directory */
	char *recipe_dir;

	bool show_help, show_version;
};

/* -EINVAL with what is wrong and where (the file's line, or the option). Free with options_clear,
 * also after a failure. */
int options_read(int argc, char **argv, struct options *ret, struct err *err);
void options_clear(struct options *options);
extern const char options_help[];

/* "127.0.0.1:7171", "[::1]:0", "localhost:80"; the address is malloc'ed, without brackets. */
int options_parse_listen(const char *text, char **ret_address, uint16_t *ret_port, struct err *err);
/* The pure part: one file's text, as read for tests. */
int options_parse_config(const char *text, const char *name, struct options *options,
			 struct err *err);
