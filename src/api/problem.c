/* Codes to statuses, and the document that says what went wrong. */
#include "api/problem.h"

#include <errno.h>

#include "api/auth.h"
#include "base/json.h"
#include "base/log.h"
#include "base/str.h"

static const struct {
	const char *code;
	unsigned int status;
} by_code[] = {
	{ "invalid_argument", 400 },
	{ "malformed_json", 400 },
	{ "invalid_cursor", 400 },
	{ "invalid_egress_rule", 400 },
	{ "too_many_egress_rules", 400 },
	{ "invalid_host", 400 },
	{ "bad_request", 400 },
	{ "invalid_path", 400 },
	{ "invalid_archive", 400 },
	{ "incomplete_body", 400 },
	{ "invalid_key", 401 },
	{ "preview_denied", 401 },
	{ "no_credit", 402 },
	{ "spend_cap_reached", 402 },
	{ "preview_expired", 401 },
	{ "forbidden", 403 },
	{ "permission_denied", 403 },
	{ "scope_denied", 403 },
	{ "forbidden_host", 403 },
	{ "forbidden_origin", 403 },
	{ "preview_needs_host", 403 },
	{ "not_found", 404 },
	{ "exec_not_found", 404 },
	{ "file_not_found", 404 },
	{ "image_not_found", 404 },
	{ "recipe_not_found", 404 },
	{ "snapshot_not_found", 404 },
	{ "network_not_found", 404 },
	{ "account_not_found", 404 },
	{ "rule_not_found", 404 },
	{ "key_not_found", 404 },
	{ "account_not_found", 404 },
	{ "terminal_not_found", 404 },
	{ "method_not_allowed", 405 },
	{ "conflict", 409 },
	{ "reference_conflict", 409 },
	{ "file_exists", 409 },
	{ "file_changed", 409 },
	{ "is_a_directory", 409 },
	{ "not_a_directory", 409 },
	{ "not_a_regular_file", 409 },
	{ "directory_not_empty", 409 },
	{ "cross_device", 409 },
	{ "egress_is_open", 409 },
	{ "name_taken", 409 },
	{ "account_exists", 409 },
	{ "key_revoked", 409 },
	{ "last_key", 409 },
	{ "network_exists", 409 },
	{ "network_in_use", 409 },
	{ "exec_ended", 409 },
	{ "exec_exists", 409 },
	{ "idempotency_conflict", 409 },
	{ "idempotency_in_progress", 409 },
	{ "image_in_use", 409 },
	{ "image_exists", 409 },
	{ "input_closed", 409 },
	{ "sandbox_not_running", 409 },
	{ "snapshot_exists", 409 },
	{ "snapshot_not_ready", 409 },
	{ "snapshot_version_mismatch", 409 },
	{ "already_ended", 410 },
	{ "sandbox_ended", 410 },
	{ "terminal_taken_over", 409 },
	{ "request_too_large", 413 },
	{ "file_too_large", 413 },
	{ "unsupported_media_type", 415 },
	{ "invalid_range", 416 },
	{ "cwd_not_found", 422 },
	{ "user_not_found", 422 },
	{ "not_executable", 422 },
	{ "image_refused", 422 },
	{ "image_too_large", 422 },
	{ "image_source_failed", 422 },
	{ "limit_reached", 422 },
	{ "upgrade_required", 426 },
	{ "exec_limit", 429 },
	{ "files_limit", 429 },
	{ "terminal_limit", 429 },
	{ "preview_limit", 429 },
	{ "quota_reached", 429 },
	{ "rate_limited", 429 },
	{ "headers_too_large", 431 },
	{ "cancelled", 499 },
	{ "audit_unavailable", 503 },
	{ "agent_gone", 502 },
	{ "file_io_error", 502 },
	{ "agent_unresponsive", 502 },
	{ "port_not_listening", 502 },
	{ "preview_bad_answer", 502 },
	{ "preview_unreachable", 502 },
	{ "agent_timeout", 504 },
	{ "preview_timeout", 504 },
	{ "guest_resources", 503 },
	{ "input_full", 503 },
	{ "image_busy", 503 },
	{ "program_missing", 503 },
	{ "isolation_unavailable", 503 },
	{ "network_unavailable", 503 },
	{ "overloaded", 503 },
	{ "shutting_down", 503 },
	{ "pause_failed", 503 },
	{ "resume_failed", 503 },
	{ "snapshot_damaged", 500 },
	{ "snapshot_incomplete", 500 },
	{ "disk_full", 507 },
};

static const struct {
	int num;
	unsigned int status;
} by_num[] = {
	{ -EINVAL, 400 }, { -E2BIG, 400 },     { -ERANGE, 400 }, { -EACCES, 403 },
	{ -EPERM, 403 },  { -ENOENT, 404 },    { -EEXIST, 409 }, { -EAGAIN, 503 },
	{ -EBUSY, 503 },  { -ETIMEDOUT, 504 }, { -ENOSPC, 507 }, { -EDQUOT, 507 },
};

unsigned int problem_status(const struct err *err)
{
	const char *code = err_code_of(err);

	for (size_t i = 0; i < ARRAY_SIZE(by_code); i++) {
		if (str_eq(by_code[i].code, code))
			return by_code[i].status;
	}
	for (size_t i = 0; i < ARRAY_SIZE(by_num); i++) {
		if (by_num[i].num == err->num)
			return by_num[i].status;
	}
	return 500;
}

const char *problem_title(unsigned int status)
{
	static const struct {
		unsigned int status;
		const char *title;
	} titles[] = {
		{ 400, "Bad Request" },
		{ 401, "Unauthorized" },
		{ 402, "Payment Required" },
		{ 403, "Forbidden" },
		{ 404, "Not Found" },
		{ 405, "Method Not Allowed" },
		{ 409, "Conflict" },
		{ 410, "Gone" },
		{ 413, "Content Too Large" },
		{ 415, "Unsupported Media Type" },
		{ 416, "Range Not Satisfiable" },
		{ 422, "Unprocessable Content" },
		{ 426, "Upgrade Required" },
		{ 429, "Too Many Requests" },
		{ 431, "Request Header Fields Too Large" },
		{ 499, "Client Closed Request" },
		{ 500, "Internal Server Error" },
		{ 502, "Bad Gateway" },
		{ 503, "Service Unavailable" },
		{ 504, "Gateway Timeout" },
		{ 507, "Insufficient Storage" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(titles); i++) {
		if (titles[i].status == status)
			return titles[i].title;
	}
	return "Error";
}

/* What a guest, its disk or its own server did is no failure of ours. */
static bool is_guests(const struct err *err)
{
	const char *code = err_code_of(err);

	return str_starts(code, "preview_") || str_starts(code, "port_") ||
	       str_eq(code, "file_io_error") || err->num == -EDQUOT;
}

json_t *problem_json(unsigned int status, const struct err *err, const char *request_id)
{
	json_t *json = json_object();
	const bool hidden = status == 500 && !err->code;

	json_put_str(json, "type", "about:blank");
	json_put_str(json, "title", problem_title(status));
	json_put_int(json, "status", status);
	json_put_str(json, "detail",
		     hidden ? "the server failed; its log has the reason under this request id"
			    : err->message);
	json_put_str(json, "code", err_code_of(err));
	if (err->hint[0])
		json_put_str(json, "hint", err->hint);
	json_put_str(json, "request_id", request_id);
	if (status >= 500 && status != 503 && !is_guests(err))
		log_error("request failed", "request=%s code=%s error=\"%s\"", request_id,
			  err_code_of(err), err->message);
	return json;
}

void problem_respond_with(struct http_request *req, unsigned int status, const struct err *err,
			  const struct http_extra_header *header)
{
	_cleanup_json_ json_t *json = problem_json(status, err, http_request_id(req));
	struct buf body = BUF_INIT;

	json_write(json, &body);
	http_respond(req, status, "application/problem+json", &body, header, header ? 1 : 0);
}

/* As it stands, in a second. */
static bool is_retryable(unsigned int status, const struct err *err)
{
	return status == 503 || str_eq(err_code_of(err), "rate_limited");
}

void problem_respond(struct http_request *req, const struct err *err)
{
	const struct http_extra_header challenge = { "WWW-Authenticate", AUTH_CHALLENGE };
	const struct http_extra_header retry = { "Retry-After", "1" };
	struct err ended = ERR_INIT;
	unsigned int status;

	if (str_eq(err_code_of(err), "cancelled") && auth_has_ended(req, &ended))
		err = &ended;
	status = problem_status(err);
	problem_respond_with(req, status, err,
			     status == 401		 ? &challenge
			     : is_retryable(status, err) ? &retry
							 : NULL);
}
