/*
 * Where the daemon's companions are: the warden, the guest's kernel and initramfs, the recipes. In
 * a build folder they lie beside the program, after installation in libexec and share of its
 * prefix.
 */
#pragma once

#include "daemon/options.h"

/* Fills every path of [vm] and [images] that the options leave open. -ENOENT names what is missing.
 */
int paths_complete(struct options *options, struct err *err);
