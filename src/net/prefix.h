/*
 * Addresses and CIDR prefixes, IPv4 and IPv6, as rules write them: one spelling a value, no leading
 * zeros, no host bits. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <netinet/in.h>

struct net_prefix {
	uint8_t family;	   /* 4 or 6 */
	uint8_t bits;	   /* 0 to 32 or 128; that many for a single address */
	uint8_t bytes[16]; /* network order; IPv4 uses the first four, the rest is zero */
};

#define PREFIX_TEXT_SIZE 52 /* the longest IPv6 address, "/128" and a NUL, with room */

/* Parses "address" or "address/bits". 0 or -EINVAL, then *ret_why (if not NULL) is a static phrase
 * that continues "the address …". */
int prefix_parse(const char *text, size_t len, struct net_prefix *ret, const char **ret_why);

/* The canonical text, without "/bits" where it is one address. Returns out. */
const char *prefix_print(const struct net_prefix *prefix, char out[PREFIX_TEXT_SIZE]);

struct net_prefix prefix_of_ipv4(struct in_addr address);
bool prefix_is_address(const struct net_prefix *prefix);
bool prefix_contains(const struct net_prefix *outer, const struct net_prefix *inner);
bool prefix_equal(const struct net_prefix *a, const struct net_prefix *b);

/* Zeroes the bits beyond prefix->bits; returns whether any was set. */
bool prefix_mask(struct net_prefix *prefix);
