/* Chains of entries; unique addresses of one host are consecutive, so that they spread by
 * themselves. */
#include "net/addr_table.h"

static struct addr_entry **place_of(const struct addr_table *table, uint32_t address)
{
	struct addr_entry *const *at = &table->buckets[address % ADDR_TABLE_BUCKETS];

	while (*at && (*at)->address != address)
		at = &(*at)->next;
	return (struct addr_entry **)(uintptr_t)at;
}

struct addr_entry *addr_table_find(const struct addr_table *table, uint32_t address)
{
	return *place_of(table, address);
}

void addr_table_add(struct addr_table *table, struct addr_entry *entry)
{
	struct addr_entry **head = &table->buckets[entry->address % ADDR_TABLE_BUCKETS];

	entry->next = *head;
	*head = entry;
	table->n++;
}

static struct addr_entry *unlink_at(struct addr_table *table, struct addr_entry **at)
{
	struct addr_entry *entry = *at;

	if (!entry)
		return NULL;
	*at = entry->next;
	entry->next = NULL;
	table->n--;
	return entry;
}

struct addr_entry *addr_table_remove(struct addr_table *table, uint32_t address)
{
	return unlink_at(table, place_of(table, address));
}

struct addr_entry *addr_table_take(struct addr_table *table)
{
	for (size_t i = 0; table->n > 0 && i < ADDR_TABLE_BUCKETS; i++) {
		if (table->buckets[i])
			return unlink_at(table, &table->buckets[i]);
	}
	return NULL;
}
