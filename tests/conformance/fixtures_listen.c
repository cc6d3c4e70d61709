/*
 * subscriptions/listen: a stream that stays open and tells of changes, of those kinds only that its
 * client asked for. It ends when the client goes, or the server.
 */
#include "fixtures.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/json.h"

struct subscription {
	LIST_ENTRY(subscription) link;
	struct mcp_extra *extra;
	struct mcp_exchange *exchange;
	json_t *id;
	json_t *wanted; /* {"toolsListChanged": true, …} */
};

static void tell(const struct subscription *s, const char *method, json_t *params)
{
	json_put(params, "_meta",
		 json_pack("{s:O}", "io.modelcontextprotocol/subscriptionId", s->id));
	mcp_exchange_notify(s->exchange, json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method",
						   method, "params", params));
}

static void client_gone(void *arg)
{
	struct subscription *s = arg;

	pthread_mutex_lock(&s->extra->lock);
	LIST_REMOVE(s, link);
	pthread_mutex_unlock(&s->extra->lock);
	mcp_exchange_answer(s->exchange, 200, NULL);
	mcp_exchange_unref(s->exchange);
	json_decref(s->id);
	json_decref(s->wanted);
	free(s);
}

void subscription_open(const struct run *run)
{
	json_t *wanted = json_object_get(run->m->params, "notifications");
	struct subscription *s;

	mcp_exchange_stream(run->exchange);
	if (!json_is_object(wanted) || !mcp_exchange_is_stream(run->exchange)) {
		run_refuse(run, 200, MCP_INVALID_PARAMS,
			   "notifications must be an object, and the client take a stream", NULL);
		return;
	}
	s = xcalloc(1, sizeof(*s));
	s->extra = run->extra;
	s->exchange = mcp_exchange_ref(run->exchange);
	s->id = json_incref(run->m->id);
	s->wanted = json_incref(wanted);
	pthread_mutex_lock(&s->extra->lock);
	tell(s, "notifications/subscriptions/acknowledged",
	     json_pack("{s:O}", "notifications", wanted));
	LIST_INSERT_HEAD(&s->extra->subscriptions, s, link);
	pthread_mutex_unlock(&s->extra->lock);
	http_on_disconnect(run->req, client_gone, s);
}

void subscriptions_tell(struct mcp_extra *extra, const char *changed)
{
	char kind[32], method[64];
	struct subscription *s;

	snprintf(kind, sizeof(kind), "%sListChanged", changed);
	snprintf(method, sizeof(method), "notifications/%s/list_changed", changed);
	pthread_mutex_lock(&extra->lock);
	LIST_FOREACH(s, &extra->subscriptions, link) {
		if (json_is_true(json_object_get(s->wanted, kind)))
			tell(s, method, json_object());
	}
	pthread_mutex_unlock(&extra->lock);
}
