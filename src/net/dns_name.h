/* Names as DNS carries them: labels with lengths in front, of any bytes. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/hostname.h"

#define DNS_NAME_MAX 255

struct dns_name {
	uint8_t wire[DNS_NAME_MAX]; /* uncompressed, with the root's empty label at its end */
	uint8_t len;
};

/* From a canonical host name. */
void dns_name_of_host(const char *host, struct dns_name *ret);

/* From the bytes of an uncompressed name, which must be all of data. 0 or -EINVAL. */
int dns_name_of_wire(const uint8_t *data, size_t len, struct dns_name *ret);

/* The canonical host name; -EINVAL when it is none. A label with a dot or a NUL in it makes none:
 * it must never look like two labels, or like an end. */
int dns_name_to_host(const struct dns_name *name, char out[HOSTNAME_MAX + 1]);

bool dns_name_equal(const struct dns_name *a, const struct dns_name *b); /* in any case */
