/*
 * Files over HTTP: operations of the table whose body or answer is bytes instead of JSON. The
 * router has checked who asks and the arguments; from here a transfer of the core (core/files.h) is
 * joined with the request, both on the loop's thread, each paced by the other.
 */
#pragma once

#include "api/files_range.h"
#include "api/http.h"
#include "api/ops.h"
#include "core/files.h"

/* Any thread. Whether a request is for such an operation: it is then to be passed on. */
bool files_takes(const struct http_request *req);

struct rest_call;
/* [worker] Answers the call, whatever happens, and frees it. */
void files_serve(struct rest_call *rc);

/* Any thread. An error as the answer to a request that is passed on: after what of its body is
 * still to come, unless the client waits for word before it sends that (Expect). A client that is
 * still sending would otherwise see its connection break, and not why. */
void files_refuse(struct core *core, struct http_request *req, const struct err *err);

/* ---- between the files of this module ---- */

/* The request as the arguments of the call have it. Strings are borrowed from it. */
void files_request(const struct op_call *call, enum file_op op, struct file_request *ret);
const char *files_user(const struct op_call *call);
/* [worker] Each answers and frees the call. */
void files_download(struct rest_call *rc, enum file_op op);
void files_upload(struct rest_call *rc, enum file_op op);

/* An entry as JSON; owned. path NULL: it has a name instead. */
json_t *files_entry_json(const struct file_entry *entry, const char *path);
