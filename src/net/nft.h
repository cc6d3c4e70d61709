/*
 * The host's packet filter: one nftables table of our own, replaced as a whole.
 *
 * It masquerades the guests' unique addresses, drops what comes from a tap without having met the
 * egress program (so that a tap without its program is closed, not open), and keeps strangers from
 * the gateway address. Where forwarding had to be switched on for us, it also keeps the host from
 * forwarding anything else. Other tables of the host are never touched.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct nft_plan {
	const char *table;  /* name */
	const char *taps;   /* prefix of the taps' names */
	const char *uplink; /* NULL: every device that is no tap */
	uint32_t gateway;   /* host byte order */
	uint32_t range;	    /* of unique addresses */
	uint8_t range_prefix;
	bool forward_only_guests; /* the host forwards for no one else */
};

int nft_install(const struct nft_plan *plan, struct err *err);
int nft_remove(const char *table, struct err *err); /* one that is not there is fine */
/* Is there a chain that says that forwarding was switched on for us? */
bool nft_forwards_only_guests(const char *table);
