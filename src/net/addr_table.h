/*
 * A table of things by IPv4 address, which are embedded in what the caller keeps for a client. The
 * table owns nothing. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define ADDR_TABLE_BUCKETS 512

struct addr_entry {
	uint32_t address;
	struct addr_entry *next;
};

struct addr_table {
	struct addr_entry *buckets[ADDR_TABLE_BUCKETS];
	size_t n;
};

struct addr_entry *addr_table_find(const struct addr_table *table, uint32_t address);
/* Its address is set and not in the table yet. */
void addr_table_add(struct addr_table *table, struct addr_entry *entry);
/* NULL when it is not there. */
struct addr_entry *addr_table_remove(struct addr_table *table, uint32_t address);
/* Removes any one; NULL when the table is empty. For tearing down. */
struct addr_entry *addr_table_take(struct addr_table *table);
