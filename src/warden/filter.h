/*
 * The system calls a VMM has no business with, refused by a seccomp filter that it cannot take off.
 *
 * This stands in front of QEMU's own filter (-sandbox), which is about what an emulator must not
 * do, and knows little of namespaces: an unprivileged process may make a user namespace and have a
 * kernel's worth of capabilities in it. It also closes the parts of the kernel where most holes
 * were found.
 */
#pragma once

#include "base/err.h"

/* Applies to the calling process and what it executes; no_new_privs must be set. */
int filter_apply(struct err *err);
