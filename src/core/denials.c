/* Denials as a bounded list. See denials.h. */
#include "core/denials.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/str.h"
#include "net/rules.h"

struct denial_entry {
	int64_t first_unix_ms, last_unix_ms;
	uint64_t first_seq, last_seq, count;
	struct denial what; /* its texts are the entry's */
};

void denials_init(struct denials *denials, size_t max)
{
	*denials = (struct denials){ .max = max };
}

static void entry_clear(struct denial_entry *entry)
{
	free((char *)entry->what.host);
	free((char *)entry->what.reason);
	free((char *)entry->what.rule);
}

void denials_clear(struct denials *denials)
{
	for (size_t i = 0; i < denials->n; i++)
		entry_clear(&denials->list[i]);
	free(denials->list);
	denials_init(denials, denials->max);
}

static bool same_text(const char *a, const char *b)
{
	return a && b ? str_eq(a, b) : a == b;
}

/* The address of a name changes from one attempt to the next. */
static bool same(const struct denial *a, const struct denial *b)
{
	return a->port == b->port && a->protocol == b->protocol && same_text(a->host, b->host) &&
	       (a->host || a->address == b->address) && same_text(a->reason, b->reason);
}

static void remove_at(struct denials *denials, size_t i)
{
	denials->n--;
	memmove(&denials->list[i], &denials->list[i + 1],
		(denials->n - i) * sizeof(*denials->list));
}

static char *copy(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

/* Takes the entry out that this one repeats, or a new one. */
static struct denial_entry take_entry(struct denials *denials, const struct denial *denial,
				      int64_t now_unix_ms)
{
	struct denial_entry entry = {
		.first_unix_ms = now_unix_ms,
		.first_seq = denials->seq,
	};

	for (size_t i = denials->n; i-- > 0;) {
		if (!same(&denials->list[i].what, denial))
			continue;
		entry = denials->list[i];
		remove_at(denials, i);
		return entry;
	}
	entry.what = *denial;
	entry.what.host = copy(denial->host);
	entry.what.reason = copy(denial->reason);
	entry.what.rule = copy(denial->rule);
	return entry;
}

void denials_add(struct denials *denials, const struct denial *denial, int64_t now_unix_ms)
{
	struct denial_entry entry;

	if (denials->max == 0)
		return;
	denials->seq++;
	entry = take_entry(denials, denial, now_unix_ms);
	entry.last_unix_ms = now_unix_ms;
	entry.last_seq = denials->seq;
	entry.count++;
	if (denials->n == denials->max) {
		entry_clear(&denials->list[0]);
		remove_at(denials, 0);
	}
	if (!denials->list)
		denials->list = xcalloc(denials->max, sizeof(*denials->list));
	denials->list[denials->n++] = entry;
}

/* ---- as JSON ---- */

static const char *protocol_name(uint8_t protocol, char out[8])
{
	switch (protocol) {
	case 0:
		return NULL;
	case IPPROTO_ICMP:
		return "icmp";
	case IPPROTO_TCP:
		return "tcp";
	case IPPROTO_UDP:
		return "udp";
	default:
		snprintf(out, 8, "%u", protocol);
		return out;
	}
}

static const char *address_text(uint32_t address, char out[INET_ADDRSTRLEN])
{
	const struct in_addr in = { htonl(address) };

	return address ? inet_ntop(AF_INET, &in, out, INET_ADDRSTRLEN) : NULL;
}

json_t *denial_json(const struct denial *denial)
{
	char address[INET_ADDRSTRLEN], protocol[8];
	json_t *item = json_object();

	json_put_str(item, "host", denial->host);
	json_put_str(item, "address", address_text(denial->address, address));
	if (denial->port)
		json_put_int(item, "port", denial->port);
	else
		json_put(item, "port", json_null());
	json_put_str(item, "protocol", protocol_name(denial->protocol, protocol));
	json_put_str(item, "reason", denial->reason);
	json_put_str(item, "rule", denial->rule);
	return item;
}

json_t *denials_json(const struct denials *denials)
{
	json_t *list = json_array();

	for (size_t i = denials->n; i-- > 0;) {
		const struct denial_entry *entry = &denials->list[i];
		json_t *item = denial_json(&entry->what);

		json_put_time(item, "at", entry->last_unix_ms);
		json_put_int(item, "count", (json_int_t)entry->count);
		json_put_time(item, "first_at", entry->first_unix_ms);
		json_array_append_new(list, item);
	}
	return list;
}

/* "example.com:443", "udp://192.0.2.1:53", "icmp 192.0.2.1" */
static void append_target(const struct denial *what, struct buf *out)
{
	char address[INET_ADDRSTRLEN] = "", number[8];
	const char *protocol = protocol_name(what->protocol, number);

	if (what->protocol == IPPROTO_UDP)
		buf_append_str(out, "udp://");
	else if (protocol && what->protocol != IPPROTO_TCP)
		buf_printf(out, "%s ", protocol);
	if (what->host)
		buf_append_str(out, what->host);
	else
		buf_append_str(out, what->address ? address_text(what->address, address) : "?");
	if (what->port)
		buf_printf(out, ":%u", what->port);
}

static json_t *short_item(const struct denial_entry *entry)
{
	_cleanup_buf_ struct buf target = BUF_INIT;
	json_t *item = json_object();

	append_target(&entry->what, &target);
	json_put_str(item, "target", buf_str(&target));
	json_put_str(item, "reason", entry->what.reason);
	json_put_str(item, "rule", entry->what.rule);
	return item;
}

json_t *denials_short_json(const struct denials *denials, uint64_t after, uint64_t upto)
{
	size_t from = denials->n, shown = 0;
	json_t *list;

	while (from > 0 && shown < DENIALS_SHOWN && denials->list[from - 1].last_seq > after) {
		from--;
		shown += denials->list[from].first_seq <= upto;
	}
	if (shown == 0)
		return NULL;
	list = json_array();
	for (size_t i = from; i < denials->n; i++) {
		if (denials->list[i].first_seq <= upto)
			json_array_append_new(list, short_item(&denials->list[i]));
	}
	return list;
}
