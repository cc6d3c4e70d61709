/* Shared by the files of the REST surface. */
#pragma once

#include <stdbool.h>

#include "api/http.h"
#include "api/ops.h"

/* One REST request that runs an operation: from the router to its answer. Freed when answered. */
struct rest;
struct rest_call {
	struct op_call call;
	struct rest *rest; /* of one that is no call */
	struct http_request *req;
	char *idempotency_key;
	bool accepts_stream;
	/* Progress of an operation that reports it, once something was sent; touched by one thread,
	 * the handler's. */
	struct http_stream *progress_stream;
	int64_t progress_sent_ms;
	int progress_percent;
};
void rest_call_free(struct rest_call *rc);

/* The arguments of a request as one JSON object, unchecked but for the body being one. */
int rest_read_args(const struct op *op, const struct http_request *req, const json_t *params,
		   json_t **ret, struct err *err);
/* Whether Accept names text/event-stream. */
bool rest_accepts_stream(const char *accept);

/* One event: name and compact JSON. */
void rest_append_event(struct buf *out, const char *name, const json_t *data);

/* After how long without an event a stream gets a comment. */
int64_t rest_heartbeat_ms(const struct rest_call *rc);

/* [worker] exec and exec_wait as a stream; takes rc over. */
void rest_stream_exec(struct rest_call *rc);
/* [worker] list_events as a stream; takes rc over. */
void rest_stream_events(struct rest_call *rc);

/* [worker] list_audit as a stream, and export_audit; they take rc over. */
void rest_stream_audit(struct rest_call *rc);
void rest_export_audit(struct rest_call *rc);

/* rest_status.c: what is not about operations. [worker] */
struct rest_status {
	struct core *core;
	bool metrics_open; /* figures are given without a key */
};
/* GET /metrics, /readyz: true when the request was answered. */
bool rest_status_handle(const struct rest_status *status, struct http_request *req);

/* The OpenAPI 3.1 document; owned. */
json_t *openapi_document(const struct core_limits *limits);
