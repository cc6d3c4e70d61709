/* Shared by the files of the operations: the handlers that the table names, and what they share. */
#pragma once

#include "api/ops.h"

/* ---- limits by name (ops_limits.c) ---- */
/* The value of a limit; the name is one of ours: an unknown one aborts. */
int64_t ops_limit(const struct core_limits *limits, const char *name);
/* As JSON: a number, or a string for default_size and default_image. Owned. */
json_t *ops_limit_json(const struct core_limits *limits, const char *name);
void ops_arg_bounds(const struct op_arg *arg, const struct core_limits *limits, int64_t *ret_min,
		    int64_t *ret_max);
/* Bytes of a key or a value of a string map. */
int64_t ops_arg_key_max(const struct op_arg *arg, const struct core_limits *limits);
int64_t ops_arg_value_max(const struct op_arg *arg, const struct core_limits *limits);
/* Calls fn for each allowed value; false when any value is allowed. */
bool ops_arg_choices(const struct op_arg *arg, const struct core_limits *limits,
		     void (*fn)(void *fn_arg, const char *choice), void *fn_arg);
/* On this surface; its name there. */
bool ops_arg_on(const struct op_arg *arg, enum op_surface surface);
const char *ops_arg_name(const struct op_arg *arg, enum op_surface surface);
/* On REST: whether it travels in a JSON body, and not in the path or the query. */
bool ops_is_body_arg(const struct op *op, const struct op_arg *arg);

/* ---- checks that the table names (ops_limits.c) ---- */
bool ops_is_dns_label(const char *value, size_t len);
bool ops_is_image_name(const char *value, size_t len);
bool ops_is_env_name(const char *value, size_t len);
bool ops_is_file_mode(const char *value, size_t len);

/* ---- sandboxes as JSON (ops_sandboxes.c); owned ---- */
json_t *ops_sandbox_json(const struct sandbox_info *info);
/* In a list: shorter for a model. */
json_t *ops_sandbox_item(const struct op_call *call, const struct sandbox_info *info);

/* ---- handlers ---- */
int op_list_sandboxes(struct op_call *call, struct err *err);
int op_create_sandbox(struct op_call *call, struct err *err);
int op_get_sandbox(struct op_call *call, struct err *err);
int op_extend_sandbox(struct op_call *call, struct err *err);
int op_destroy_sandbox(struct op_call *call, struct err *err);
int op_pause_sandbox(struct op_call *call, struct err *err);
int op_resume_sandbox(struct op_call *call, struct err *err);
int op_expose_port(struct op_call *call, struct err *err);
int op_fork_sandbox(struct op_call *call, struct err *err);
int op_create_snapshot(struct op_call *call, struct err *err);
int op_list_snapshots(struct op_call *call, struct err *err);
int op_remove_snapshot(struct op_call *call, struct err *err);
int op_stat_file(struct op_call *call, struct err *err);
int op_remove_file(struct op_call *call, struct err *err);
int op_list_files(struct op_call *call, struct err *err);
int op_make_directory(struct op_call *call, struct err *err);
int op_move_file(struct op_call *call, struct err *err);
int op_get_egress(struct op_call *call, struct err *err);
int op_set_egress(struct op_call *call, struct err *err);
int op_change_egress(struct op_call *call, struct err *err);
int op_list_denials(struct op_call *call, struct err *err);
int op_list_events(struct op_call *call, struct err *err);
int op_list_audit(struct op_call *call, struct err *err);
int op_verify_audit(struct op_call *call, struct err *err);
int op_get_stats(struct op_call *call, struct err *err);
int op_create_network(struct op_call *call, struct err *err);
int op_list_networks(struct op_call *call, struct err *err);
int op_remove_network(struct op_call *call, struct err *err);
int op_join_network(struct op_call *call, struct err *err);
int op_leave_network(struct op_call *call, struct err *err);
int op_exec(struct op_call *call, struct err *err);
int op_list_execs(struct op_call *call, struct err *err);
int op_exec_wait(struct op_call *call, struct err *err);
int op_exec_input(struct op_call *call, struct err *err);
int op_exec_signal(struct op_call *call, struct err *err);
int op_open_terminal(struct op_call *call, struct err *err);
int op_list_terminals(struct op_call *call, struct err *err);
int op_end_terminal(struct op_call *call, struct err *err);
int op_list_images(struct op_call *call, struct err *err);
int op_build_image(struct op_call *call, struct err *err);
int op_import_image(struct op_call *call, struct err *err);
int op_remove_image(struct op_call *call, struct err *err);
int op_create_key(struct op_call *call, struct err *err);
int op_list_keys(struct op_call *call, struct err *err);
int op_rotate_key(struct op_call *call, struct err *err);
int op_revoke_key(struct op_call *call, struct err *err);
int op_create_account(struct op_call *call, struct err *err);
int op_list_accounts(struct op_call *call, struct err *err);
int op_open_session(struct op_call *call, struct err *err);
int op_get_session(struct op_call *call, struct err *err);
int op_close_session(struct op_call *call, struct err *err);
int op_limits(struct op_call *call, struct err *err);
int op_prices(struct op_call *call, struct err *err);
int op_get_usage(struct op_call *call, struct err *err);
int op_list_ledger(struct op_call *call, struct err *err);
int op_check_ledger(struct op_call *call, struct err *err);
int op_grant_credit(struct op_call *call, struct err *err);
int op_doctor(struct op_call *call, struct err *err);
