/* Events in pages. As a stream: rest_events.c. */
#include "api/ops_events.h"

#include <inttypes.h>
#include <string.h>

#include "api/ops_internal.h"
#include "base/json.h"

json_t *event_json(const struct core_event *event)
{
	json_t *json = json_object(), *data = NULL;

	json_put_int(json, "id", event->id);
	json_put_time(json, "at", event->at_unix_ms);
	json_put_str(json, "type", event->type);
	json_put_str(json, "sandbox_id", event->sandbox_id[0] ? event->sandbox_id : NULL);
	if (json_parse(event->data, strlen(event->data), &data, NULL) < 0)
		data = json_object(); /* it is text of ours */
	json_put(json, "data", data);
	return json;
}

json_t *event_gap_json(const struct core_event_gap *gap)
{
	json_t *json = json_object();

	json_put_int(json, "from", gap->from);
	json_put_int(json, "to", gap->to);
	return json;
}

struct core_event_filter event_filter_of(const struct op_call *call)
{
	return (struct core_event_filter){
		.sandbox_id = json_get_str(call->args, "sandbox_id", NULL),
		.types = json_get_str(call->args, "type", NULL),
	};
}

static json_t *page_json(const struct core_event_page *page)
{
	json_t *json = json_object(), *items = json_array();
	char cursor[24];

	for (size_t i = 0; i < page->n; i++)
		json_array_append_new(items, event_json(&page->items[i]));
	snprintf(cursor, sizeof(cursor), "%" PRId64, page->cursor);
	json_put(json, "items", items);
	json_put_str(json, "next_cursor", page->more ? cursor : NULL);
	json_put_int(json, "cursor", page->cursor);
	json_put(json, "gap", page->gap.to ? event_gap_json(&page->gap) : json_null());
	return json;
}

int op_list_events(struct op_call *call, struct err *err)
{
	const struct core_event_filter filter = event_filter_of(call);
	int64_t cursor = json_get_int(call->args, "cursor", 0);
	struct core_event_page page = { 0 };
	int rc;

	if (json_get_bool(call->args, "newest", false))
		cursor = CORE_EVENTS_NEWEST;
	rc = core_events_page(call->core, &call->who, &filter, cursor,
			      (uint32_t)json_get_int(call->args, "limit", 0), &page, err);
	if (rc < 0)
		return rc;
	call->result = page_json(&page);
	core_event_page_clear(&page);
	return 0;
}
