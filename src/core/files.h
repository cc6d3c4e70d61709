/*
 * Files of sandboxes: operations that run in the guest as one of its users, with what they send and
 * receive. The core finds the sandbox (one that is paused is resumed), keeps it awake meanwhile,
 * bounds how many there are, and checks what the guest answers; how a file looks over HTTP is the
 * surface's.
 *
 * An operation ends with the sandbox's pause or end: it is asked for again, which resumes it. What
 * had not been answered has then left a file as it was, or has replaced it whole.
 */
#pragma once

#include "core/core.h"
#include "proto/file.h"

struct core_transfer;

/* Loop's thread, in this order; each may close the transfer. Members may be NULL. */
struct core_transfer_events {
	/* It is under way; called before core_transfer_open returns, and only if that succeeds. */
	void (*started)(void *arg, struct core_transfer *transfer);
	void (*record)(void *arg, const struct file_record *record);
	/* The bytes of a file (behind its record) or an archive. */
	void (*data)(void *arg, const void *data, size_t len);
	/* There is room for input again (core_transfer_room). */
	void (*room)(void *arg);
	/* The last call. NULL: it was done. Errors: "file_not_found", "is_a_directory",
	 * "not_a_directory", "not_a_regular_file", "permission_denied", "disk_full",
	 * "file_too_large", "invalid_path", "file_exists", "directory_not_empty", "cross_device",
	 * "invalid_archive", "file_changed", "incomplete_body", "file_io_error",
	 * "user_not_found", "sandbox_not_running", "sandbox_ended", "agent_gone",
	 * "agent_unresponsive". */
	void (*ended)(void *arg, const struct err *err);
};

/* [worker] Begins an operation as a user of the sandbox (NULL: "sandbox"). credit: how many bytes
 * of output may come at first. Errors as of every operation on a running sandbox, and
 * "files_limit"; then there are no events. After success only events tell what becomes of it. */
int core_transfer_open(struct core *core, const struct principal *who, const char *sandbox_id,
		       const char *user, const struct file_request *request, uint64_t credit,
		       const struct core_transfer_events *events, void *arg, struct err *err);

/* [worker] Runs fn on the loop's thread, where transfers live, and waits for it. */
void core_on_loop(struct core *core, loop_fn fn, void *arg);

/* ---- loop's thread ---- */

void core_transfer_credit(struct core_transfer *transfer, uint64_t bytes);
/* How much input can be written now. */
size_t core_transfer_room(const struct core_transfer *transfer);
void core_transfer_write(struct core_transfer *transfer, const void *data, size_t len);
/* All input was written. */
void core_transfer_finish(struct core_transfer *transfer);
/* Ends it wherever it is, or puts it away after `ended`. NULL is fine. */
void core_transfer_close(struct core_transfer *transfer);
