/*
 * The operations table: what a surface may ask for, defined once. REST routing and validation, MCP
 * tool schemas, OpenAPI, the CLI's help and the plain-text docs are all made from it.
 *
 * An operation takes one JSON object of arguments (path, query and body parameters alike), checked
 * and completed with defaults by ops_validate before the handler sees it, and answers one JSON
 * value.
 *
 * A surface runs a call like this:
 *
 *	op_call_init(&c->call, op, core, &who, OP_SURFACE_…, request_id);
 *	c->call.args = …;                  // from ops_validate
 *	c->call.finished = my_finished;    // called exactly once, whatever happens; may free c
 *	op_call_run(&c->call);             // [worker] returns early when the call waits
 *	…
 *	op_call_cancel(&c->call);          // the caller went away; finished still follows
 *	op_call_clear(&c->call);           // in my_finished
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "base/err.h"
#include "core/core.h"
#include "loop/pool.h"

enum arg_type {
	ARG_STRING,  /* min/max: length in bytes; NUL refused unless ARG_ALLOW_NUL */
	ARG_INTEGER, /* min/max: value */
	ARG_NUMBER,  /* min/max: value in thousandths */
	ARG_BOOLEAN,
	ARG_STRING_MAP,	 /* object of strings; max: entries; key_max, value_max: bytes */
	ARG_STRING_LIST, /* list of strings; max: entries; value_max: bytes; pattern: of each */
	ARG_RULES,	 /* the same, and null is a value of its own: not the same as absent */
	ARG_OBJECT,	 /* of the arguments in fields; what is absent there stays absent */
};

enum arg_flags {
	ARG_REQUIRED = 1 << 0,
	ARG_IN_PATH = 1 << 1, /* {name} in rest_path; else query for GET/DELETE, body for others */
	ARG_ALLOW_NUL = 1 << 2,
	ARG_SECRET = 1 << 3, /* its value is never logged or shown in an error (env, stdin) */
	ARG_REST_ONLY = 1 << 4,
	ARG_MCP_ONLY = 1 << 5,
	ARG_SANDBOX = 1 << 6, /* the id of the sandbox that the operation is about */
};

/* Bounds and defaults that depend on the configuration are taken from core_limits at run time. */
struct op_arg {
	const char *name;
	const char *mcp_name; /* NULL: the same; e.g. REST "id" is MCP "sandbox_id" */
	enum arg_type type;
	unsigned int flags;
	int64_t min, max;
	int64_t key_max, value_max;			  /* 0: limit "label_bytes_max" */
	bool (*key_matches)(const char *key, size_t len); /* NULL: any */
	const char *limit_min; /* name of a limit that overrides min; NULL: min */
	const char *limit_max;
	const char *limit_default; /* name of the limit that is the default: shown, filled in by the
				      core */
	const char *default_json;  /* "false", "50" …: filled in by ops_validate; NULL: absent */
	const char *const *choices; /* NULL-terminated; NULL: any */
	const char *limit_choices;  /* "sizes": the names of the configured sizes; NULL: choices */
	const char *pattern;	    /* for the schema, an anchored ECMA-262 expression; NULL: any */
	bool (*matches)(const char *value, size_t len); /* decides pattern; set together with it */
	const char *description;
	const struct op_arg *fields; /* ARG_OBJECT */
	size_t n_fields;
};

struct op_result_field {
	const char *name;
	const char *json_schema; /* {"type":"string"} … */
	const char *description;
	bool optional;
	bool rest_only;
};

enum op_hints { /* MCP annotations */
		OP_READ_ONLY = 1 << 0,
		OP_DESTRUCTIVE = 1 << 1,
		OP_IDEMPOTENT = 1 << 2,
		OP_OPEN_WORLD = 1 << 3,
};

struct op_call;

struct op {
	const char *name; /* "create_sandbox": the MCP tool's name and OpenAPI operationId */
	const char *title;
	const char *summary; /* one sentence: what it does, for people and models */
	const char
		*scope; /* "sandbox:create", "exec", "sandbox:read", …; "admin": admin keys only */
	const char *rest_method; /* NULL: not on REST */
	const char *rest_path;	 /* "/v1/sandboxes/{id}/exec" */
	int rest_status;	 /* 200, 201 */
	bool on_mcp;
	bool mcp_result_open; /* its schema on MCP says only that it is an object, to keep it small
			       */
	/* REST: its body or its answer is bytes (files_http.h), its arguments are in the query, and
	 * there is no handler. */
	enum op_bytes { OP_BYTES_NONE, OP_BYTES_IN, OP_BYTES_OUT } bytes;
	const char *bytes_type; /* their media type */
	bool streams; /* REST answers as SSE when the client accepts it (exec, image build) */
	bool quick; /* answers from memory or a few rows, and waits for nothing: no worker is needed
		     */
	unsigned int hints;
	const struct op_arg *args;
	size_t n_args;
	const struct op_result_field *results;
	size_t n_results;
	/* [worker] Returns 0 with call->result set, a negative errno with err filled, or
	 * OP_PENDING: op_call_finish will be called (or has been), once, on any thread. */
	int (*handler)(struct op_call *call, struct err *err);
};
#define OP_PENDING 1

enum op_surface { OP_SURFACE_REST, OP_SURFACE_MCP };

#define OP_REQUEST_ID_SIZE 65
#define OP_PEER_SIZE	   64
#define OP_ORIGIN_SIZE	   272 /* scheme, and the longest Host */
#define OP_COOKIE_SIZE	   160

struct preview_domain;

/* One call under way, shared by every surface. */
struct op_call {
	const struct op *op;
	struct core *core;
	struct pool
		*pool; /* makes large answers, off the loop's thread; NULL: they are made there */
	struct principal who;
	enum op_surface surface;
	char request_id[OP_REQUEST_ID_SIZE];
	char peer[OP_PEER_SIZE]; /* the caller's address; set by the surface */
	/* Where the caller reaches this server ("http://127.0.0.1:7171"), and its previews (NULL:
	 * there); set by the surface. */
	char origin[OP_ORIGIN_SIZE];
	const struct preview_domain *preview_domain;
	const char *cookie; /* the request's Cookie header, or NULL; borrowed for the call's life */
	char set_cookie[OP_COOKIE_SIZE]; /* set by the handler: the answer's Set-Cookie; "": none */
	json_t *args;			 /* validated object, owned */
	const char *idempotency_key;	 /* or NULL; borrowed for the call's life */
	/* > 0: a wait for a command answers after this long at most, running or not. The surface
	 * asks again, and has something to tell its client meanwhile. */
	int64_t patience_ms;
	json_t *result; /* set by the handler; owned */

	/* Long work: progress for surfaces that can show it (SSE of REST, MCP notifications); may
	 * be NULL. tail is the newest output or a line on the step. Any thread. */
	void (*progress)(struct op_call *call, int percent, const char *tail);
	/* Set by the surface: called exactly once, on any thread, after the handler has returned
	 * and the call has an outcome; err is NULL when call->result is the answer. May free the
	 * call. */
	void (*finished)(struct op_call *call, const struct err *err);
	/* Set by a handler that will return OP_PENDING: ends the wait. true: op_call_finish has not
	 * been and will not be called by the handler's side; false: it was or is about to be. */
	bool (*cancel)(struct op_call *call);
	void *handler_state;
	void *surface_state;

	/* private to ops.c */
	bool authorized;
	struct core_audit_entry *audit; /* it is noted that it began, and not yet how it ended */
	int64_t began_boottime_us;
	bool entered; /* and not left: op_call_leave counts once */
	bool waits;   /* the handler has returned before the outcome */
	pthread_mutex_t lock;
	bool returned, outcome, cancelled, cancelling;
	struct err failure; /* num 0: none */
};

void op_call_init(struct op_call *call, const struct op *op, struct core *core,
		  const struct principal *who, enum op_surface surface, const char *request_id);
void op_call_clear(struct op_call *call); /* frees args and result */
/* Whether who calls may do this, with the arguments that were checked: the one place where every
 * surface asks the core. op_call_enter does it first. Once a call; a refusal is in the audit. */
int op_call_authorize(struct op_call *call, struct err *err);
/* Which sandbox it is about, as its arguments say; NULL: none, or those that it finds. */
const char *op_call_sandbox(const struct op_call *call);
/* [worker] What comes before every operation: whether the caller may, and that it begins, for the
 * audit. op_call_run does it; calls that go another way (streams, bytes, terminals) do it
 * themselves, and say with op_call_leave how they ended: before their answer, on any thread. */
int op_call_enter(struct op_call *call, struct err *err);
/* then (may be NULL): when it may be answered; at once, or later on the loop's thread. */
void op_call_leave(struct op_call *call, const struct err *err, void (*then)(void *arg), void *arg);

/* [worker] Enters, runs the handler; finished is called here when nothing is left to wait
 * for, else later. The call may be gone when this returns. */
void op_call_run(struct op_call *call);
/* Any thread, also while the handler runs; not after finished was called (the caller sees to that;
 * finished may be called within). The caller went away: finished follows with -ECANCELED
 * ("cancelled"), unless the call ends by itself first. A handler that does not wait (create,
 * destroy, …) is not interrupted. Commands in sandboxes go on. */
void op_call_cancel(struct op_call *call);
/* For handlers that returned OP_PENDING: the outcome. result is stolen; err NULL: success. */
void op_call_finish(struct op_call *call, json_t *result, const struct err *err);

/* The table, in the fixed order of tools/list: list_sandboxes first. */
const struct op *ops_all(size_t *ret_n);
const struct op *ops_find(const char *name);
/* The scope that an operation needs; NULL: there is none of this name. */
const char *ops_scope_of(const char *name);

/* Checks raw (an object, borrowed) against the operation's arguments for this surface: unknown
 * fields, types, bounds, choices, NULs; fills defaults. *ret is a new object under the REST names.
 * err names field, value and bounds; code "invalid_argument". Changes nothing. A null stands for
 * "not given", but for ARG_RULES. */
int ops_validate(const struct op *op, enum op_surface surface, const struct core_limits *limits,
		 const json_t *raw, json_t **ret, struct err *err);

/* JSON Schema of the arguments and of the result for a surface; owned by the caller. On MCP result
 * fields carry no descriptions, to keep the definitions small. */
json_t *ops_input_schema(const struct op *op, enum op_surface surface,
			 const struct core_limits *limits);
json_t *ops_output_schema(const struct op *op, enum op_surface surface);

/* Strict parse of a body (duplicate keys refused). Integers that no 64-bit type holds become reals,
 * so that ops_validate can name the field. -EINVAL, code "malformed_json", with line and column. */
int ops_parse_json(const char *text, size_t len, json_t **ret, struct err *err);
