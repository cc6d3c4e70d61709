/*
 * What every command of `skerry` is made of, and what it runs with.
 *
 * A command is one row of a table: its name, its options and operands with their help, its examples
 * and the function that runs it. Parsing (args.h), `--help` and the manual page (help.h) and shell
 * completion (completion.h) are all made from that row. The program speaks to skerryd by HTTP alone
 * (client.h) and shares no code with it but base.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cli_args;
struct client;

/* Exit codes, also promised to scripts. `exec` passes on the command's own instead. */
enum cli_exit {
	CLI_OK = 0,
	CLI_FAILED = 1,
	CLI_USAGE = 2,
	CLI_NOT_FOUND = 3,
	CLI_DENIED = 4,
	CLI_LIMIT = 5,
};

#define CLI_DEFAULT_URL	     "http://127.0.0.1:7171"
#define CLI_STATE_DIR	     "/var/lib/skerry"
#define CLI_DEFAULT_KEY_FILE CLI_STATE_DIR "/admin.key"

/* How the value of an option is read; numbers are checked while parsing. */
enum cli_value_type {
	CLI_FLAG,
	CLI_TEXT,
	CLI_INTEGER, /* min to max */
	CLI_NUMBER,  /* a decimal fraction, kept as text */
	CLI_MINUTES, /* a duration of whole minutes: "30m", "2h" */
	CLI_MILLIS,  /* a duration: "500ms", "30s", "2h" */
	CLI_PAIR,    /* KEY=VALUE */
};

/* What the shell may offer for a value or an operand. */
enum cli_complete {
	CLI_COMPLETE_NONE,
	CLI_COMPLETE_SANDBOX,
	CLI_COMPLETE_IMAGE,
	CLI_COMPLETE_SNAPSHOT,
	CLI_COMPLETE_NETWORK,
	CLI_COMPLETE_KEY,
	CLI_COMPLETE_ACCOUNT,
	CLI_COMPLETE_COMMAND, /* names of skerry's own commands */
	CLI_COMPLETE_DIRECTORY,
	CLI_COMPLETE_COPY, /* SANDBOX:, or a file here */
};

struct cli_option {
	const char *name; /* without the dashes */
	char letter;	  /* '\0': none */
	enum cli_value_type type;
	const char *metavar; /* how the value is called in the help; NULL for flags */
	int64_t min, max;    /* CLI_INTEGER */
	bool repeat;
	const char *const *choices; /* NULL-terminated, or NULL: any */
	enum cli_complete complete;
	const char *help;
};

struct cli_operand {
	const char *name;
	const char *help;
	bool optional;
	bool repeat; /* only the last one */
	const char *const *choices;
	enum cli_complete complete;
};

struct cli_example {
	const char *what;
	const char *command;
};

struct cli {
	char *url;		/* without a trailing slash */
	char *key;		/* NULL: none was found */
	const char *key_source; /* "SKERRY_API_KEY" or the path of the file; NULL */
	bool json;
	bool quiet;
	struct client *client; /* made on first use by cli_client() */
};

struct cli_command {
	const char *name; /* one word, or a group and a word: "image build" */
	const char *summary;
	const char *detail; /* further paragraphs of the help, or NULL */
	const struct cli_operand *operands;
	size_t n_operands;
	const struct cli_option *options;
	size_t n_options;
	const struct cli_example *examples;
	size_t n_examples;
	bool takes_rest; /* what follows the operands (or "--") is a command line of its own */
	int (*run)(struct cli *cli, const struct cli_args *args);
};

/* The table, in the order of the help; and the options that every command has. */
const struct cli_command *const *cli_commands(size_t *ret_n);
const struct cli_option *cli_common_options(size_t *ret_n);

/* Rows, each defined beside its run function. */
extern const struct cli_command cli_command_create, cli_command_ls, cli_command_get,
	cli_command_exec, cli_command_shell, cli_command_extend, cli_command_rm, cli_command_pause,
	cli_command_resume, cli_command_fork, cli_command_snapshot_create, cli_command_snapshot_ls,
	cli_command_snapshot_rm, cli_command_egress_show, cli_command_egress_set,
	cli_command_egress_add, cli_command_egress_rm, cli_command_egress_denials,
	cli_command_expose, cli_command_cp, cli_command_events, cli_command_audit_ls,
	cli_command_audit_follow, cli_command_audit_export, cli_command_audit_verify,
	cli_command_network_create, cli_command_network_ls, cli_command_network_rm,
	cli_command_network_join, cli_command_network_leave, cli_command_image_build,
	cli_command_image_import, cli_command_image_ls, cli_command_image_rm, cli_command_mcp,
	cli_command_mcp_config, cli_command_init, cli_command_key_create, cli_command_key_ls,
	cli_command_key_rotate, cli_command_key_rm, cli_command_account_create,
	cli_command_account_ls, cli_command_usage, cli_command_account_grant, cli_command_doctor,
	cli_command_completion, cli_command_version, cli_command_stats, cli_command_limits,
	cli_command_prices, cli_command_help;
