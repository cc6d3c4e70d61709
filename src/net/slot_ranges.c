/*
 * Addresses that no sandbox reaches, whatever its rules, unless the operator excepts a part: IANA's
 * special-purpose registry, without what is ordinary internet. The longest prefix decides, so that
 * an exception inside a range works and one that is wider than a range does nothing to it. The
 * host's own addresses are not in here: the program asks the routing table.
 */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "net/slot_internal.h"

#define CIDR(a, b, c, d, prefix)                                                                   \
	{                                                                                          \
		(uint32_t)(a) << 24 | (b) << 16 | (c) << 8 | (d), prefix                           \
	}

static const struct slot_cidr denied_ranges[] = {
	CIDR(0, 0, 0, 0, 8),	   /* this network */
	CIDR(10, 0, 0, 0, 8),	   /* private */
	CIDR(100, 64, 0, 0, 10),   /* carriers' NAT, and our own unique addresses */
	CIDR(127, 0, 0, 0, 8),	   /* loopback */
	CIDR(169, 254, 0, 0, 16),  /* link-local: the metadata of clouds */
	CIDR(172, 16, 0, 0, 12),   /* private */
	CIDR(192, 0, 0, 0, 24),	   /* protocol assignments; metadata of one cloud */
	CIDR(192, 0, 2, 0, 24),	   /* documentation */
	CIDR(192, 88, 99, 0, 24),  /* relays of 6to4 */
	CIDR(192, 168, 0, 0, 16),  /* private */
	CIDR(198, 18, 0, 0, 15),   /* benchmarks */
	CIDR(198, 51, 100, 0, 24), /* documentation */
	CIDR(203, 0, 113, 0, 24),  /* documentation */
	CIDR(224, 0, 0, 0, 4),	   /* multicast */
	CIDR(240, 0, 0, 0, 4),	   /* reserved, broadcast */
	CIDR(168, 63, 129, 16, 32) /* the platform of one cloud, at a public address */
};

static uint32_t mask_of(uint8_t prefix)
{
	return prefix == 0 ? 0 : UINT32_MAX << (32 - prefix);
}

static int put_range(struct slots *slots, const struct slot_cidr *cidr, uint32_t kind)
{
	const struct egress_range_key key = {
		.prefixlen = cidr->prefix,
		.address_be = htonl(cidr->address & mask_of(cidr->prefix)),
	};

	return bpf_map_update_elem(egress_program_map_fd(slots->program, EGRESS_MAP_RANGES), &key,
				   &kind, BPF_ANY);
}

/* An earlier daemon's exceptions, which its operator may have taken back. */
static int remove_exceptions(struct slots *slots)
{
	int fd = egress_program_map_fd(slots->program, EGRESS_MAP_RANGES);
	struct egress_range_key key, next;
	void *previous = NULL;
	uint32_t kind;

	while (bpf_map_get_next_key(fd, previous, &next) == 0) {
		if (bpf_map_lookup_elem(fd, &next, &kind) == 0 && kind == EGRESS_RANGE_EXCEPTION) {
			int rc = bpf_map_delete_elem(fd, &next);

			if (rc < 0)
				return rc;
			previous = NULL;
			continue;
		}
		key = next;
		previous = &key;
	}
	return 0;
}

int slots_ranges_install(struct slots *slots, struct err *err)
{
	int rc = remove_exceptions(slots);

	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(denied_ranges); i++)
		rc = put_range(slots, &denied_ranges[i], EGRESS_RANGE_DENIED);
	for (size_t i = 0; rc == 0 && i < slots->n_exceptions; i++)
		rc = put_range(slots, &slots->exceptions[i], EGRESS_RANGE_EXCEPTION);
	if (rc < 0)
		return err_set(err, rc, "cannot enter the ranges that are always denied: %s",
			       strerror(-rc));
	return 0;
}

static bool in_denied_range(const struct slots *slots, uint32_t address)
{
	int longest = -1;
	bool denied = false;

	for (size_t i = 0; i < ARRAY_SIZE(denied_ranges); i++) {
		const struct slot_cidr *cidr = &denied_ranges[i];

		if ((address & mask_of(cidr->prefix)) == cidr->address && cidr->prefix > longest) {
			longest = cidr->prefix;
			denied = true;
		}
	}
	/* An exception of the same length takes the range's place in the kernel's map. */
	for (size_t i = 0; i < slots->n_exceptions; i++) {
		const struct slot_cidr *cidr = &slots->exceptions[i];
		uint32_t mask = mask_of(cidr->prefix);

		if ((address & mask) == (cidr->address & mask) && cidr->prefix >= longest) {
			longest = cidr->prefix;
			denied = false;
		}
	}
	return denied;
}

bool slots_denies(struct slots *slots, uint32_t address)
{
	bool forwarded = false;

	if (in_denied_range(slots, address))
		return true;
	return netlink_is_forwarded(slots->nl_query, address, &forwarded) < 0 || !forwarded;
}

bool slots_denied_range(struct slots *slots, uint32_t address)
{
	bool denied;

	slots_lock(slots);
	denied = slots_denies(slots, address);
	slots_unlock(slots);
	return denied;
}
