/*
 * What a second of a running sandbox costs, by its shape, in micro-credits (a millionth of a
 * credit). Section [prices] of the configuration; served at /v1/prices. A run keeps the rate that
 * it was reserved with.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "base/err.h"

#define MICROCREDITS	  1000000LL /* of a credit */
#define CORE_PRICE_MAX	  1000000000LL
#define CORE_PRICES_SIZES 16

struct core_limits;

struct core_prices {
	int64_t vcpu, memory_gb, disk_gb; /* of one, each second */
	struct core_price {
		char size[16];
		int64_t rate;
	} sizes[CORE_PRICES_SIZES]; /* sizes whose price is their own, and not made of the above */
	size_t n_sizes;
};

void core_prices_init(struct core_prices *prices);
/* "vcpu", "memory_gb", "disk_gb" or "size.NAME" from text; -EINVAL, -ENOENT for an unknown name. */
int core_prices_set(struct core_prices *prices, const char *name, const char *value,
		    struct err *err);
/* What only shows when everything is set: prices of sizes that there are not. */
int core_prices_check(const struct core_limits *limits, struct err *err);
/* Micro-credits a second; size may be "custom". */
int64_t core_price(const struct core_prices *prices, const char *size, uint32_t milli_vcpus,
		   uint32_t memory_mb, uint32_t disk_gb);
/* For /v1/prices; owned by the caller. */
json_t *core_prices_json(const struct core_limits *limits);
