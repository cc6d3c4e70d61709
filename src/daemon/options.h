/*
 * What skerryd was asked to do: command line and configuration file, as one checked structure. The
 * command line wins. Nothing is opened or made here but the configuration file.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "core/core.h"
#include "api/preview_target.h"
#include "core/limits.h"

#define OPTIONS_HOSTS_MAX 16
#define OPTIONS_ALLOW_MAX 64

struct options {
	char *config_path; /* NULL: none */
	char *state_dir;
	char *address;
	uint16_t port;
	char *tls_cert; /* paths; both or none */
	char *tls_key;
	bool insecure_listen;
	bool metrics_open;
	char *allowed_hosts[OPTIONS_HOSTS_MAX + 1]; /* NULL-terminated */
	struct preview_domain preview_domain;
	enum log_level log_level;
	struct core_limits limits;

	/* [vm] and [images]; NULL: where the program was built or installed */
	char *warden, *qemu, *qemu_kvm, *kernel, *initramfs, *lib_dir, *accel, *cgroup;
	/* [network]; NULL and 0: the core's defaults */
	enum core_network_mode network_mode;
	char *uplink, *resolv_conf, *pin_dir;
	uint32_t network_range;
	uint8_t network_range_prefix;
	struct slot_cidr network_allow[OPTIONS_ALLOW_MAX]; /* private ranges that rules may allow */
	size_t n_network_allow;

	char *image_dir; /* NULL: images in the state directory */
	char *recipe_dir;
	char *importer;	  /* skerry-import */
	char *image_auth; /* credentials for registries; NULL: none */

	bool show_help, show_version;
	bool end_sandboxes, remove_network; /* do that and nothing else */
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
