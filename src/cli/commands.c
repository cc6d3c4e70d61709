/* The table of commands, and the options that all of them have. */
#include "base/str.h"
#include "cli/cli.h"

static const struct cli_command *const commands[] = {
	&cli_command_create,
	&cli_command_ls,
	&cli_command_get,
	&cli_command_stats,
	&cli_command_exec,
	&cli_command_shell,
	&cli_command_cp,
	&cli_command_extend,
	&cli_command_rm,
	&cli_command_pause,
	&cli_command_resume,
	&cli_command_fork,
	&cli_command_snapshot_create,
	&cli_command_snapshot_ls,
	&cli_command_snapshot_rm,
	&cli_command_egress_show,
	&cli_command_egress_set,
	&cli_command_egress_add,
	&cli_command_egress_rm,
	&cli_command_egress_denials,
	&cli_command_expose,
	&cli_command_events,
	&cli_command_audit_ls,
	&cli_command_audit_follow,
	&cli_command_audit_export,
	&cli_command_audit_verify,
	&cli_command_network_create,
	&cli_command_network_ls,
	&cli_command_network_rm,
	&cli_command_network_join,
	&cli_command_network_leave,
	&cli_command_key_create,
	&cli_command_key_ls,
	&cli_command_key_rotate,
	&cli_command_key_rm,
	&cli_command_account_create,
	&cli_command_account_ls,
	&cli_command_account_grant,
	&cli_command_usage,
	&cli_command_prices,
	&cli_command_limits,
	&cli_command_image_build,
	&cli_command_image_import,
	&cli_command_image_ls,
	&cli_command_image_rm,
	&cli_command_mcp,
	&cli_command_mcp_config,
	&cli_command_init,
	&cli_command_doctor,
	&cli_command_completion,
	&cli_command_version,
	&cli_command_help,
};

static const char *const color_choices[] = { "auto", "always", "never", NULL };

static const struct cli_option common_options[] = {
	{ .name = "json", .type = CLI_FLAG, .help = "print the server's answer as JSON" },
	{ .name = "quiet",
	  .letter = 'q',
	  .type = CLI_FLAG,
	  .help = "print ids only, and no progress or advice" },
	{ .name = "url",
	  .type = CLI_TEXT,
	  .metavar = "URL",
	  .help = "the server (default: $SKERRY_URL, else " CLI_DEFAULT_URL ")" },
	{ .name = "color",
	  .type = CLI_TEXT,
	  .metavar = "WHEN",
	  .choices = color_choices,
	  .help = "colour the output: always, never, or auto (default): on a terminal, unless "
		  "$NO_COLOR is set" },
	{ .name = "help", .letter = 'h', .type = CLI_FLAG, .help = "show this help" },
};

const struct cli_command *const *cli_commands(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(commands);
	return commands;
}

const struct cli_option *cli_common_options(size_t *ret_n)
{
	*ret_n = ARRAY_SIZE(common_options);
	return common_options;
}
