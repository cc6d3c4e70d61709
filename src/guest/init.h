/* From the kernel's initramfs to the guest's own root: mounts, modules, the overlay. Once, at boot.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The steps before anything can be mounted: /proc, /sys, /dev and the console as descriptors 0
 * to 2. A failure here and below is fatal: see init_fatal. */
void init_early(void);
/* Loads the modules of /modules/list in its order. */
void init_modules(void);
/* Puts the guest's root together and makes it "/". Returns a descriptor of the directory of the
 * execs' logs, which lies on the disk and is seen in the guest as /run/skerry/exec. */
int init_root(void);
/* The value of a word NAME=value of the kernel command line; false when it is not there, or too
 * long. */
bool init_parameter(const char *name, char *out, size_t out_size);

/* Says why on the console and restarts the machine, which ends the VMM (it runs with -no-reboot).
 */
void init_fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
