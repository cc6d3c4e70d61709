/* See fake_core.h. Everything that the surfaces call, with the threads and the order of the real
 * one. */
#include "fake_core.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "core/exec_list.h"
#include "core/session.h"
#include "fake_events.h"

struct core {
	struct core_limits limits;
	struct loop *loop;
	atomic_int created, cancelled, closed;
	atomic_ullong spewed;
	char request_hash[80], idempotency_key[260];
	json_t *egress;
	atomic_bool session;
};

struct core *fake_core_new(struct loop *loop)
{
	struct core *core = xcalloc(1, sizeof(*core));

	core_limits_init(&core->limits);
	core->loop = loop;
	fake_events_init(loop);
	return core;
}

void fake_core_free(struct core *core)
{
	json_decref(core->egress);
	free(core);
}

struct loop *fake_core_loop(struct core *core)
{
	return core->loop;
}

int fake_core_created(struct core *core)
{
	return core->created;
}

int fake_core_cancelled(struct core *core)
{
	return core->cancelled;
}

int fake_core_closed(struct core *core)
{
	return core->closed;
}

uint64_t fake_core_spewed(struct core *core)
{
	return core->spewed;
}

const char *fake_core_request_hash(struct core *core)
{
	return core->request_hash;
}

const char *fake_core_idempotency_key(struct core *core)
{
	return core->idempotency_key;
}

const struct core_limits *core_limits(const struct core *core)
{
	return &core->limits;
}

int core_authenticate(struct core *core, const char *key, size_t len, struct principal *ret,
		      struct err *err)
{
	if (len != strlen(FAKE_KEY) || memcmp(key, FAKE_KEY, len) != 0)
		return err_code(err, -EACCES, "invalid_key", "the key is not known");
	*ret = (struct principal){ .account_id = "acc_1", .key_id = "key_1", .admin = true };
	return 0;
}

int core_authorize(struct core *core, const struct principal *who, const struct core_action *action,
		   struct err *err)
{
	if (str_eq(action->scope, "admin") && !who->admin)
		return err_code(err, -EPERM, "forbidden", "not an administrator's key");
	return 0;
}

/* ---- the one session: of the one key, with a token of no secret ---- */

static const char session_token[] = "ses_0123456789abcdefghijklmnopqrstuvwxyzABCD";

int core_session_open(struct core *core, const struct principal *who,
		      char ret_token[CORE_SESSION_TOKEN_SIZE], int64_t *ret_expires_unix_ms,
		      struct err *err)
{
	str_copy(ret_token, CORE_SESSION_TOKEN_SIZE, session_token);
	*ret_expires_unix_ms = clock_unix_ms() + 60000;
	core->session = true;
	return 0;
}

int core_session_close(struct core *core, const char *token, size_t len, struct err *err)
{
	core->session = false;
	return 0;
}

int core_session_authenticate(struct core *core, const char *token, size_t len,
			      struct principal *ret, struct err *err)
{
	if (!core->session || len != strlen(session_token) ||
	    memcmp(token, session_token, len) != 0)
		return err_code(err, -EACCES, "invalid_key", "the session has ended");
	*ret = (struct principal){
		.account_id = "acc_1", .key_id = "key_1", .admin = true, .by_session = true
	};
	return 0;
}

/* ---- sandboxes ---- */

static void fill(struct sandbox_info *info)
{
	*info = (struct sandbox_info){ .id = "sbx_aa",
				       .status = SANDBOX_RUNNING,
				       .size = "small",
				       .milli_vcpus = 1000,
				       .memory_mb = 1024,
				       .disk_gb = 10,
				       .image = "base",
				       .isolation = "emulated",
				       .created_unix_ms = 1000,
				       .expires_unix_ms = 901000 };
	info->labels = json_object();
	info->egress = json_null();
	info->networks = json_array();
}

static int check_id(const char *id, struct err *err)
{
	if (str_eq(id, "sbx_aa"))
		return 0;
	return err_code(err, -ENOENT, "not_found", "sandbox \"%.64s\" was not found", id);
}

void sandbox_info_clear(struct sandbox_info *info)
{
	json_decref(STEAL(info->labels));
	json_decref(STEAL(info->egress));
	json_decref(STEAL(info->networks));
}

int core_create(struct core *core, const struct principal *who,
		const struct core_create_request *req, core_progress_fn progress, void *arg,
		struct sandbox_info *ret, struct err *err)
{
	core->created++;
	str_copy(core->request_hash, sizeof(core->request_hash),
		 req->request_hash ? req->request_hash : "");
	str_copy(core->idempotency_key, sizeof(core->idempotency_key),
		 req->idempotency_key ? req->idempotency_key : "");
	fill(ret);
	return 0;
}

int core_get(struct core *core, const struct principal *who, const char *id,
	     struct sandbox_info *ret, struct err *err)
{
	int rc = check_id(id, err);

	if (rc == 0)
		fill(ret);
	return rc;
}

int core_list(struct core *core, const struct principal *who, const struct core_list_request *req,
	      struct sandbox_info **ret, size_t *ret_n, char **ret_next_cursor, struct err *err)
{
	if (req->cursor)
		return err_code(err, -EINVAL, "invalid_cursor", "the cursor is not one of ours");
	*ret = xcalloc(1, sizeof(**ret));
	fill(*ret);
	*ret_n = 1;
	*ret_next_cursor = NULL;
	return 0;
}

void core_list_clear(struct sandbox_info *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		sandbox_info_clear(&items[i]);
	free(items);
}

int core_extend(struct core *core, const struct principal *who, const char *id,
		uint32_t additional_minutes, struct sandbox_info *ret, struct err *err)
{
	return core_get(core, who, id, ret, err);
}

int core_destroy(struct core *core, const struct principal *who, const char *id,
		 struct sandbox_info *ret, struct err *err)
{
	return core_get(core, who, id, ret, err);
}

int core_pause(struct core *core, const struct principal *who, const char *id,
	       struct sandbox_info *ret, struct err *err)
{
	int rc = core_get(core, who, id, ret, err);

	if (rc == 0) {
		ret->status = SANDBOX_PAUSED;
		ret->remaining_ms = 60000;
	}
	return rc;
}

int core_resume(struct core *core, const struct principal *who, const char *id,
		struct sandbox_info *ret, struct err *err)
{
	return core_get(core, who, id, ret, err);
}

void core_fork_result_clear(struct core_fork_result *result)
{
	for (size_t i = 0; i < result->n; i++)
		sandbox_info_clear(&result->children[i]);
	result->n = 0;
}

int core_fork(struct core *core, const struct principal *who, const char *id,
	      const struct core_fork_request *req, struct core_fork_result *ret, struct err *err)
{
	int rc = check_id(id, err);

	for (ret->n = 0; rc == 0 && ret->n < req->count; ret->n++)
		fill(&ret->children[ret->n]);
	return rc;
}

static const struct core_snapshot_info snapshot = { .name = "one", .source_id = "sbx_aa" };

int core_snapshot_create(struct core *core, const struct principal *who, const char *id,
			 const char *name, struct core_snapshot_info *ret, struct err *err)
{
	*ret = snapshot;
	return check_id(id, err);
}

int core_snapshot_list(struct core *core, const struct principal *who,
		       struct core_snapshot_info **ret, size_t *ret_n, struct err *err)
{
	*ret = xcalloc(1, sizeof(**ret));
	**ret = snapshot;
	*ret_n = 1;
	return 0;
}

int core_snapshot_remove(struct core *core, const struct principal *who, const char *name,
			 struct err *err)
{
	if (str_eq(name, snapshot.name))
		return 0;
	return err_code(err, -ENOENT, "snapshot_not_found", "no snapshot '%.64s'", name);
}

/* ---- egress and networks ---- */

int core_egress_get(struct core *core, const struct principal *who, const char *id, json_t **ret,
		    struct err *err)
{
	int rc = check_id(id, err);

	if (rc == 0)
		*ret = core->egress ? json_incref(core->egress) : json_null();
	return rc;
}

int core_egress_set(struct core *core, const struct principal *who, const char *id,
		    const json_t *rules, json_t **ret, struct err *err)
{
	int rc = check_id(id, err);

	if (rc < 0)
		return rc;
	if (json_array_size(rules) > 0 &&
	    str_eq(json_string_value(json_array_get(rules, 0)), "malformed"))
		return err_code(err, -EINVAL, "invalid_egress_rule", "rules[0]: it is malformed");
	json_decref(core->egress);
	core->egress = json_deep_copy(rules);
	return core_egress_get(core, who, id, ret, err);
}

int core_egress_change(struct core *core, const struct principal *who, const char *id,
		       const json_t *add, const json_t *remove, json_t **ret, struct err *err)
{
	if (json_is_array(core->egress) && add)
		json_array_extend(core->egress, (json_t *)(uintptr_t)add);
	return core_egress_get(core, who, id, ret, err);
}

int core_egress_denials(struct core *core, const struct principal *who, const char *id,
			json_t **ret, uint64_t *ret_unreported, struct err *err)
{
	*ret_unreported = 3;
	*ret = json_pack("[{s:s}]", "host", "b.example");
	return check_id(id, err);
}

static const struct core_network_member member = {
	.sandbox_id = "sbx_aa",
	.name = "db",
	.address = "100.64.1.0",
};

void core_networks_free(struct core_network *networks, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(networks[i].members);
	free(networks);
}

int core_network_create(struct core *core, const struct principal *who, const char *name,
			int64_t *ret_created_unix_ms, struct err *err)
{
	*ret_created_unix_ms = 1000;
	if (str_eq(name, "team"))
		return err_code(err, -EEXIST, "network_exists", "there is one already");
	return 0;
}

int core_network_list(struct core *core, const struct principal *who, struct core_network **ret,
		      size_t *ret_n, struct err *err)
{
	*ret = xcalloc(1, sizeof(**ret));
	str_copy((*ret)->name, sizeof((*ret)->name), "team");
	(*ret)->members = xcalloc(1, sizeof(member));
	(*ret)->members[0] = member;
	(*ret)->n_members = 1;
	*ret_n = 1;
	return 0;
}

int core_network_remove(struct core *core, const struct principal *who, const char *name,
			struct err *err)
{
	return err_code(err, -EBUSY, "network_in_use", "network '%s' has 1 members", name);
}

int core_network_join(struct core *core, const struct principal *who, const char *network,
		      const char *id, const char *name, struct core_network_member *ret,
		      struct err *err)
{
	*ret = member;
	if (name)
		str_copy(ret->name, sizeof(ret->name), name);
	return check_id(id, err);
}

int core_network_leave(struct core *core, const struct principal *who, const char *network,
		       const char *id, struct err *err)
{
	return check_id(id, err);
}

/* ---- commands ---- */

struct core_exec_call {
	struct core *core;
	core_exec_done_fn done;
	void *arg;
	char *command;
};

static void free_call(struct core_exec_call *call)
{
	free(call->command);
	free(call);
}

static void run_done(void *arg)
{
	struct core_exec_call *call = arg;
	struct core_exec_result result = { .exec_id = "exe_1", .duration_ms = 1 };

	if (str_eq(call->command, "bytes"))
		buf_append(&result.out, "\xff\xfe", 2);
	else if (str_eq(call->command, "large"))
		for (size_t i = 0; i < FAKE_LARGE_BYTES; i++)
			buf_append_char(&result.out, 'x');
	else
		buf_append_str(&result.out, call->command + strlen("echo "));
	result.stdout_bytes = result.out_to = result.out.len;
	call->done(call->arg, &result, NULL);
	buf_clear(&result.out); /* empty when it was taken */
	free_call(call);
}

static int start_call(struct core *core, const char *command, core_exec_done_fn done, void *arg,
		      struct core_exec_call **ret)
{
	struct core_exec_call *call = xcalloc(1, sizeof(*call));

	*call = (struct core_exec_call){ core, done, arg, xstrdup(command) };
	*ret = call;
	if (!str_eq(command, "hang"))
		loop_post(core->loop, run_done, call);
	return 0;
}

int core_exec(struct core *core, const struct principal *who, const char *sandbox_id,
	      const struct core_exec_request *req, core_exec_done_fn done, void *arg,
	      struct core_exec_call **ret, struct err *err)
{
	int rc = check_id(sandbox_id, err);

	return rc < 0 ? rc : start_call(core, req->command, done, arg, ret);
}

int core_exec_wait(struct core *core, const struct principal *who, const char *sandbox_id,
		   const char *exec_id, int64_t wait_ms, uint64_t from_stdout, uint64_t from_stderr,
		   uint64_t max_output_bytes, core_exec_done_fn done, void *arg,
		   struct core_exec_call **ret, struct err *err)
{
	int rc = check_id(sandbox_id, err);

	return rc < 0 ? rc : start_call(core, "echo waited", done, arg, ret);
}

bool core_exec_cancel(struct core *core, struct core_exec_call *call)
{
	if (!str_eq(call->command, "hang"))
		return false;
	core->cancelled++;
	free_call(call);
	return true;
}

int core_exec_list(struct core *core, const struct principal *who, const char *sandbox_id,
		   struct core_exec_info **ret, size_t *ret_n, struct err *err)
{
	*ret = xcalloc(1, sizeof(**ret));
	str_copy((*ret)->exec_id, sizeof((*ret)->exec_id), "exec_1");
	str_copy((*ret)->command, sizeof((*ret)->command), "echo hello");
	(*ret)->command_whole = true;
	(*ret)->started_unix_ms = 1000;
	str_copy((*ret)->result.exec_id, sizeof((*ret)->result.exec_id), "exec_1");
	*ret_n = 1;
	return 0;
}

int core_exec_input(struct core *core, const struct principal *who, const char *sandbox_id,
		    const char *exec_id, const void *data, size_t len, bool close_after,
		    struct err *err)
{
	return check_id(sandbox_id, err);
}

int core_exec_signal(struct core *core, const struct principal *who, const char *sandbox_id,
		     const char *exec_id, int signal, struct err *err)
{
	return check_id(sandbox_id, err);
}

/* ---- streams ---- */

struct core_stream {
	atomic_uint refs;
	struct core *core;
	const struct core_stream_sink *sink;
	void *arg;
	char *command;
	atomic_ullong credit;
	uint64_t sent;
	bool ended;
	atomic_bool closed;
};

static void unref_stream(struct core_stream *stream)
{
	if (atomic_fetch_sub(&stream->refs, 1) != 1)
		return;
	free(stream->command);
	free(stream);
}

#define SPEW_BLOCK 1023 /* odd, so that blocks cut the two bytes of "é" */

static void pump(void *arg)
{
	struct core_stream *stream = arg;
	char block[SPEW_BLOCK];

	while (!stream->closed && stream->credit >= SPEW_BLOCK && stream->sent < FAKE_SPEW_BYTES) {
		size_t len = FAKE_SPEW_BYTES - stream->sent;

		if (len > SPEW_BLOCK)
			len = SPEW_BLOCK;
		for (size_t i = 0; i < len; i++)
			block[i] = (stream->sent + i) % 2 == 0 ? '\xc3' : '\xa9';
		stream->credit -= len;
		stream->sink->data(stream->arg, STDOUT_FILENO, stream->sent, block, len);
		stream->sent += len;
		stream->core->spewed += len;
	}
	if (!stream->closed && !stream->ended && stream->sent >= FAKE_SPEW_BYTES) {
		struct core_exec_result result = { .exec_id = "exe_1",
						   .stdout_bytes = stream->sent };

		stream->ended = true;
		stream->sink->ended(stream->arg, &result, NULL);
	}
	unref_stream(stream);
}

static void begin_stream(void *arg)
{
	struct core_stream *stream = arg;
	struct core_exec_result result = { .exec_id = "exe_1" };
	struct err err = ERR_INIT;
	const char *text = stream->command + strlen("echo ");

	if (stream->closed) {
		unref_stream(stream);
		return;
	}
	if (str_eq(stream->command, "missing")) {
		err_code(&err, -ENOENT, "cwd_not_found", "start the command: no such directory");
		stream->sink->ended(stream->arg, NULL, &err);
		unref_stream(stream);
		return;
	}
	stream->sink->started(stream->arg, "exe_1");
	if (str_eq(stream->command, "spew")) {
		pump(stream);
		return;
	}
	if (!str_eq(stream->command, "hang")) {
		stream->sink->data(stream->arg, STDOUT_FILENO, 0, text, strlen(text));
		result.stdout_bytes = strlen(text);
		stream->sink->ended(stream->arg, &result, NULL);
	}
	unref_stream(stream);
}

int core_exec_stream(struct core *core, const struct principal *who, const char *sandbox_id,
		     const struct core_exec_request *req, const struct core_stream_sink *sink,
		     void *arg, uint64_t initial_credit, struct core_stream **ret, struct err *err)
{
	struct core_stream *stream;
	int rc = check_id(sandbox_id, err);

	if (rc < 0)
		return rc;
	stream = xcalloc(1, sizeof(*stream));
	stream->refs = 2;
	stream->core = core;
	stream->sink = sink;
	stream->arg = arg;
	stream->command = xstrdup(req->command);
	stream->credit = initial_credit;
	loop_post(core->loop, begin_stream, stream);
	*ret = stream;
	return 0;
}

int core_exec_follow(struct core *core, const struct principal *who, const char *sandbox_id,
		     const char *exec_id, uint64_t from_stdout, uint64_t from_stderr,
		     const struct core_stream_sink *sink, void *arg, uint64_t initial_credit,
		     struct core_stream **ret, struct err *err)
{
	const struct core_exec_request req = { .command = "echo followed" };

	return core_exec_stream(core, who, sandbox_id, &req, sink, arg, initial_credit, ret, err);
}

void core_stream_credit(struct core_stream *stream, int which, uint64_t bytes)
{
	if (which != STDOUT_FILENO)
		return;
	stream->credit += bytes;
	stream->refs++;
	loop_post(stream->core->loop, pump, stream);
}

static void nothing(void *arg)
{
}

void core_stream_close(struct core_stream *stream)
{
	struct core *core;

	if (!stream)
		return;
	core = stream->core;
	stream->closed = true;
	core->closed++;
	if (!loop_is_current(core->loop))
		loop_call(core->loop, nothing, NULL); /* a callback that runs has ended */
	unref_stream(stream);
}

/* ---- images and doctor ---- */

int core_image_list(struct core *core, struct image_info **ret, size_t *ret_n, struct err *err)
{
	*ret = xcalloc(1, sizeof(**ret));
	str_copy((*ret)->name, sizeof((*ret)->name), "base");
	*ret_n = 1;
	return 0;
}

int core_image_build(struct core *core, const struct principal *who, const char *name, bool rebuild,
		     core_progress_fn progress, void *arg, struct image_info *ret, struct err *err)
{
	progress(arg, 10, "unpacking");
	progress(arg, 90, "writing");
	if (str_eq(name, "broken"))
		return err_code(err, -EIO, "image_build_failed",
				"build image \"broken\": it is broken");
	str_copy(ret->name, sizeof(ret->name), name);
	return 0;
}

int core_image_import(struct core *core, const struct principal *who,
		      const struct core_image_import *req, core_progress_fn progress, void *arg,
		      struct image_info *ret, struct err *err)
{
	progress(arg, 10, "copying");
	if (str_eq(req->source, "oci:/hostile"))
		return err_code(err, -EIO, "image_refused", "import image \"hostile\": refused");
	str_copy(ret->name, sizeof(ret->name), req->name ? req->name : "imported");
	str_copy(ret->source, sizeof(ret->source), req->source);
	str_copy(ret->source_digest, sizeof(ret->source_digest),
		 req->replace		? "replaced"
		 : req->any_certificate ? "any"
					: "new");
	str_copy(ret->warnings, sizeof(ret->warnings), "[\"a warning\"]");
	return 0;
}

int core_image_remove(struct core *core, const struct principal *who, const char *name,
		      struct err *err)
{
	return 0;
}

int core_doctor(struct core *core, json_t **ret, struct err *err)
{
	*ret = json_object();
	json_put(*ret, "checks", json_array());
	return 0;
}
