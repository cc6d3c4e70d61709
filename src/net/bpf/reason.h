/* Why a packet of a guest did not pass: the kernel program says it, the daemon shows it. */
#pragma once

enum slot_reason {
	SLOT_DENIED_FRAME = 1, /* malformed, fragment, options, foreign MAC, source or ethertype */
	SLOT_DENIED_PROTOCOL,  /* neither TCP nor UDP nor an allowed ICMP */
	SLOT_DENIED_RANGE,     /* private, link-local, metadata, multicast, reserved */
	SLOT_DENIED_HOST,      /* an address of the host itself, or one that has no route */
	SLOT_DENIED_NEIGHBOUR, /* another sandbox, in none of its networks */
	SLOT_DENIED_POLICY,    /* the rules do not allow it */
	SLOT_DENIED_PROXY,     /* the transparent proxy is not there */
};
