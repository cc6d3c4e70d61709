/*
 * skerry mcp config: what to paste where, so that an MCP client finds this server.
 *
 * Each client has a template with two places: @URL@ and @KEY@. The key stands for itself only with
 * --show-key; else it is the client's own way to name an environment variable (or to ask for it),
 * so that files made from this can be committed. The formats are those of each client's
 * documentation in November 2026.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "cli/session.h"

static const struct mcp_client {
	const char *name;
	const char *place; /* where the text belongs */
	const char *key;   /* in place of @KEY@ */
	const char *config;
	const char *config_with_key; /* NULL: config */
} clients[] = {
	{
		.name = "claude-code",
		.place = ".mcp.json in the project (Claude Code expands the variable)",
		.key = "${SKERRY_API_KEY}",
		.config = "{\n"
			  "  \"mcpServers\": {\n"
			  "    \"skerry\": {\n"
			  "      \"type\": \"http\",\n"
			  "      \"url\": \"@URL@\",\n"
			  "      \"headers\": { \"Authorization\": \"Bearer @KEY@\" }\n"
			  "    }\n"
			  "  }\n"
			  "}\n",
	},
	{
		.name = "vscode",
		.place = ".vscode/mcp.json (VS Code asks for the key once and keeps it safe)",
		.key = "${input:skerry-api-key}",
		.config = "{\n"
			  "  \"inputs\": [\n"
			  "    {\n"
			  "      \"type\": \"promptString\",\n"
			  "      \"id\": \"skerry-api-key\",\n"
			  "      \"description\": \"Skerry API key\",\n"
			  "      \"password\": true\n"
			  "    }\n"
			  "  ],\n"
			  "  \"servers\": {\n"
			  "    \"skerry\": {\n"
			  "      \"type\": \"http\",\n"
			  "      \"url\": \"@URL@\",\n"
			  "      \"headers\": { \"Authorization\": \"Bearer @KEY@\" }\n"
			  "    }\n"
			  "  }\n"
			  "}\n",
		.config_with_key = "{\n"
				   "  \"servers\": {\n"
				   "    \"skerry\": {\n"
				   "      \"type\": \"http\",\n"
				   "      \"url\": \"@URL@\",\n"
				   "      \"headers\": { \"Authorization\": \"Bearer @KEY@\" }\n"
				   "    }\n"
				   "  }\n"
				   "}\n",
	},
	{
		.name = "cursor",
		.place = ".cursor/mcp.json in the project, or ~/.cursor/mcp.json",
		.key = "${env:SKERRY_API_KEY}",
		.config = "{\n"
			  "  \"mcpServers\": {\n"
			  "    \"skerry\": {\n"
			  "      \"url\": \"@URL@\",\n"
			  "      \"headers\": { \"Authorization\": \"Bearer @KEY@\" }\n"
			  "    }\n"
			  "  }\n"
			  "}\n",
	},
	{
		.name = "codex",
		.place = "~/.codex/config.toml",
		.key = "SKERRY_API_KEY",
		.config = "[mcp_servers.skerry]\n"
			  "url = \"@URL@\"\n"
			  "bearer_token_env_var = \"@KEY@\"\n"
			  "tool_timeout_sec = 120\n",
		.config_with_key = "[mcp_servers.skerry]\n"
				   "url = \"@URL@\"\n"
				   "http_headers = { Authorization = \"Bearer @KEY@\" }\n"
				   "tool_timeout_sec = 120\n",
	},
	{
		.name = "gemini",
		.place = ".gemini/settings.json in the project, or ~/.gemini/settings.json",
		.key = "${SKERRY_API_KEY}",
		.config = "{\n"
			  "  \"mcpServers\": {\n"
			  "    \"skerry\": {\n"
			  "      \"httpUrl\": \"@URL@\",\n"
			  "      \"headers\": { \"Authorization\": \"Bearer @KEY@\" }\n"
			  "    }\n"
			  "  }\n"
			  "}\n",
	},
	{
		.name = "goose",
		.place = "~/.config/goose/config.yaml",
		.key = "${SKERRY_API_KEY}",
		.config = "extensions:\n"
			  "  skerry:\n"
			  "    enabled: true\n"
			  "    type: streamable_http\n"
			  "    name: skerry\n"
			  "    description: Linux microVMs to run commands in\n"
			  "    uri: \"@URL@\"\n"
			  "    env_keys: [SKERRY_API_KEY]\n"
			  "    headers:\n"
			  "      Authorization: \"Bearer @KEY@\"\n"
			  "    timeout: 300\n",
		.config_with_key = "extensions:\n"
				   "  skerry:\n"
				   "    enabled: true\n"
				   "    type: streamable_http\n"
				   "    name: skerry\n"
				   "    description: Linux microVMs to run commands in\n"
				   "    uri: \"@URL@\"\n"
				   "    headers:\n"
				   "      Authorization: \"Bearer @KEY@\"\n"
				   "    timeout: 300\n",
	},
	{
		.name = "langchain",
		.place = "a Python program (pip install langchain-mcp-adapters)",
		.key = "\" + os.environ[\"SKERRY_API_KEY\"]",
		.config = "import os\n"
			  "\n"
			  "from langchain_mcp_adapters.client import MultiServerMCPClient\n"
			  "\n"
			  "client = MultiServerMCPClient({\n"
			  "    \"skerry\": {\n"
			  "        \"transport\": \"streamable_http\",\n"
			  "        \"url\": \"@URL@\",\n"
			  "        \"headers\": {\"Authorization\": \"Bearer @KEY@},\n"
			  "    },\n"
			  "})\n"
			  "tools = await client.get_tools()\n",
		.config_with_key =
			"from langchain_mcp_adapters.client import MultiServerMCPClient\n"
			"\n"
			"client = MultiServerMCPClient({\n"
			"    \"skerry\": {\n"
			"        \"transport\": \"streamable_http\",\n"
			"        \"url\": \"@URL@\",\n"
			"        \"headers\": {\"Authorization\": \"Bearer @KEY@\"},\n"
			"    },\n"
			"})\n"
			"tools = await client.get_tools()\n",
	},
	{
		.name = "openai-agents",
		.place = "a Python program (pip install openai-agents)",
		.key = "\" + os.environ[\"SKERRY_API_KEY\"]",
		/* The SDK's own read timeout is 5 s; an exec answers within 45 s. */
		.config = "import os\n"
			  "\n"
			  "from agents import Agent\n"
			  "from agents.mcp import MCPServerStreamableHttp\n"
			  "\n"
			  "async with MCPServerStreamableHttp(\n"
			  "    name=\"skerry\",\n"
			  "    params={\n"
			  "        \"url\": \"@URL@\",\n"
			  "        \"headers\": {\"Authorization\": \"Bearer @KEY@},\n"
			  "    },\n"
			  "    client_session_timeout_seconds=60,\n"
			  ") as skerry:\n"
			  "    agent = Agent(name=\"coder\", mcp_servers=[skerry])\n",
		.config_with_key = "from agents import Agent\n"
				   "from agents.mcp import MCPServerStreamableHttp\n"
				   "\n"
				   "async with MCPServerStreamableHttp(\n"
				   "    name=\"skerry\",\n"
				   "    params={\n"
				   "        \"url\": \"@URL@\",\n"
				   "        \"headers\": {\"Authorization\": \"Bearer @KEY@\"},\n"
				   "    },\n"
				   "    client_session_timeout_seconds=60,\n"
				   ") as skerry:\n"
				   "    agent = Agent(name=\"coder\", mcp_servers=[skerry])\n",
	},
};

static const char *const client_choices[] = {
	"claude-code", "vscode",    "cursor",	     "codex", "gemini",
	"goose",       "langchain", "openai-agents", NULL,
};

static const struct cli_option options[] = {
	{ .name = "client",
	  .letter = 'c',
	  .type = CLI_TEXT,
	  .metavar = "CLIENT",
	  .choices = client_choices,
	  .help = "claude-code, vscode, cursor, codex, gemini, goose, langchain, openai-agents" },
	{ .name = "show-key",
	  .type = CLI_FLAG,
	  .help = "write the key itself instead of a reference to SKERRY_API_KEY" },
};

static const struct cli_example examples[] = {
	{ "for Claude Code, in the project at hand",
	  "skerry mcp config --client claude-code > .mcp.json" },
	{ "for Codex", "skerry mcp config --client codex >> ~/.codex/config.toml" },
	{ "for a server elsewhere",
	  "skerry mcp config --client cursor --url https://sandboxes.example.com" },
};

/* Text inside a quoted string of JSON, TOML, YAML and Python, which agree on these escapes. */
static void append_quoted(struct buf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buf_append_char(out, '\\');
		buf_append_char(out, *text);
	}
}

static void fill(const char *config, const char *url, const char *key, bool quote_key,
		 struct buf *out)
{
	while (*config) {
		if (str_starts(config, "@URL@")) {
			append_quoted(out, url);
			buf_append_str(out, "/mcp");
			config += 5;
		} else if (str_starts(config, "@KEY@")) {
			if (quote_key)
				append_quoted(out, key);
			else
				buf_append_str(out, key);
			config += 5;
		} else {
			buf_append_char(out, *config++);
		}
	}
}

static const struct mcp_client *find_client(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		if (str_eq(clients[i].name, name))
			return &clients[i];
	return NULL;
}

static int usage(const char *message, const char *hint)
{
	struct err err = ERR_INIT;

	err_code(&err, -EINVAL, "usage", "%s", message);
	err_hint(&err, "%s", hint);
	return report_err(&err);
}

static int run(struct cli *cli, const struct cli_args *args)
{
	const struct mcp_client *client = find_client(cli_args_text(args, "client", ""));
	bool show_key = cli_args_has(args, "show-key");
	_cleanup_buf_ struct buf out = BUF_INIT;

	if (!client)
		return usage("skerry mcp config needs --client", options[0].help);
	if (show_key && !cli->key)
		return usage("there is no key to show", "set SKERRY_API_KEY");
	fill(show_key && client->config_with_key ? client->config_with_key : client->config,
	     cli->url, show_key ? cli->key : client->key, show_key, &out);
	if (!cli->quiet) {
		fprintf(stderr, "# %s\n", client->place);
		if (!show_key && strstr(client->config, "input:") == NULL &&
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
	.options = options,
	.n_options = ARRAY_SIZE(options),
	.examples = examples,
	.n_examples = ARRAY_SIZE(examples),
	.run = run,
};
