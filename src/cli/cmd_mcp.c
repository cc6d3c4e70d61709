/* skerry mcp: the server over stdio. skerry mcp config: prints what connects an MCP client with it.
 */
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "cli/mcp_bridge.h"
#include "cli/mcp_clients.h"
#include "cli/session.h"

static const char *const client_choices[] = {
	"claude-code", "vscode", "cursor",    "codex",	       "gemini",
	"goose",       "stdio",	 "langchain", "openai-agents", NULL,
};

static const struct cli_option config_options[] = {
	{ .name = "client",
	  .letter = 'c',
	  .type = CLI_TEXT,
	  .metavar = "CLIENT",
	  .choices = client_choices,
	  .help = "claude-code, vscode, cursor, codex, gemini, goose, stdio, langchain, "
		  "openai-agents" },
	{ .name = "show-key",
	  .type = CLI_FLAG,
	  .help = "write the key itself instead of a reference to SKERRY_API_KEY" },
};

static const struct cli_example config_examples[] = {
	{ "for Claude Code, in the project at hand",
	  "skerry mcp config --client claude-code > .mcp.json" },
	{ "for Codex", "skerry mcp config --client codex >> ~/.codex/config.toml" },
	{ "for a server elsewhere",
	  "skerry mcp config --client cursor --url https://sandboxes.example.com" },
};

static int print_config_json(const struct mcp_client *client, const char *text)
{
	_cleanup_json_ json_t *json = json_object();
	_cleanup_buf_ struct buf out = BUF_INIT;

	json_put_str(json, "client", client->name);
	json_put_str(json, "place", client->place);
	json_put_str(json, "config", text);
	json_write(json, &out);
	return session_print_raw(&out);
}

static int run_config(struct cli *cli, const struct cli_args *args)
{
	const struct mcp_client *client = mcp_client_find(cli_args_text(args, "client", ""));
	bool show_key = cli_args_has(args, "show-key");
	_cleanup_buf_ struct buf out = BUF_INIT;

	if (!client)
		return report_usage("skerry mcp config needs --client", config_options[0].help);
	if (show_key && !cli->key)
		return report_usage("there is no key to show", "set SKERRY_API_KEY");
	mcp_client_config(client, cli->url, show_key ? cli->key : NULL, &out);
	if (cli->json)
		return print_config_json(client, buf_str(&out));
	if (!cli->quiet) {
		fprintf(stderr, "# %s\n", client->place);
		if (!show_key && strstr(client->key_reference, "SKERRY_API_KEY") &&
		    !str_eq(cli->key_source, "SKERRY_API_KEY"))
			fprintf(stderr, "# the client needs SKERRY_API_KEY in its environment\n");
	}
	return output_write(buf_str(&out), out.len);
}

const struct cli_command cli_command_mcp_config = {
	.name = "mcp config",
	.summary = "print the configuration that connects an MCP client",
	.detail =
		"The text goes to stdout, where it belongs to stderr. The key is named, not shown.",
	.options = config_options,
	.n_options = ARRAY_SIZE(config_options),
	.examples = config_examples,
	.n_examples = ARRAY_SIZE(config_examples),
	.run = run_config,
};

/* ---- over stdio ---- */

static const struct cli_option bridge_options[] = {
	{ .name = "tools",
	  .type = CLI_TEXT,
	  .metavar = "NAMES",
	  .help = "offer these tools only, with commas between them" },
};

static const struct cli_example bridge_examples[] = {
	{ "as the command of a client that starts its servers", "skerry mcp" },
	{ "for an agent that is to run commands and no more", "skerry mcp --tools exec,exec_wait" },
};

static int run_bridge(struct cli *cli, const struct cli_args *args)
{
	const char *tools = cli_args_text(args, "tools", NULL);
	_cleanup_buf_ struct buf path = BUF_INIT;
	struct mcp_bridge_config config = { .client = cli->client, .url = cli->url };

	buf_append_str(&path, "/mcp");
	if (tools) {
		buf_append_str(&path, "?tools=");
		client_escape(&path, tools);
	}
	config.path = buf_str(&path);
	return mcp_bridge_run(&config);
}

const struct cli_command cli_command_mcp = {
	.name = "mcp",
	.summary = "speak MCP over stdin and stdout",
	.detail = "For clients that start their servers. Each line is a message, which goes to the "
		  "server's /mcp with the key from the "
		  "environment. Ends when stdin does.",
	.options = bridge_options,
	.n_options = ARRAY_SIZE(bridge_options),
	.examples = bridge_examples,
	.n_examples = ARRAY_SIZE(bridge_examples),
	.run = run_bridge,
};
