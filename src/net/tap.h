/* Taps by name: made, kept, opened again. IFF_TAP, IFF_NO_PI, IFF_VNET_HDR, one queue. */
#pragma once

#include <stdint.h>

/* Makes a tap that ends with its descriptor until tap_keep; -EEXIST when the name is taken. Returns
 * the descriptor or -errno. */
int tap_make(const char *name, uint32_t *ret_ifindex);
int tap_keep(int fd); /* from now on it outlives its descriptors */
/* Opens a kept tap; -EBUSY while another process has it, -ENODEV when there is none. */
int tap_open(const char *name);
