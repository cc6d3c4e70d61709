/*
 * The configuration of each MCP client, as its documentation had it in November 2026. The first
 * character of a line says when it is printed: always (blank), when the key is named ('-') or when
 * it is shown ('+').
 */
#include "cli/mcp_clients.h"

#include "base/str.h"

static const struct mcp_client clients[] = {
	{
		.name = "claude-code",
		.place = ".mcp.json in the project (Claude Code expands the variable)",
		.key_reference = "${SKERRY_API_KEY}",
		.config = " {\n"
			  "   \"mcpServers\": {\n"
			  "     \"skerry\": {\n"
			  "       \"type\": \"http\",\n"
			  "       \"url\": \"@URL@\",\n"
			  "       \"headers\": { \"Authorization\": \"Bearer @KEY@\" }\n"
			  "     }\n"
			  "   }\n"
			  " }\n",
	},
	{
		.name = "vscode",
		.place = ".vscode/mcp.json (VS Code asks for the key once and keeps it safe)",
		.key_reference = "${input:skerry-api-key}",
		.config = " {\n"
			  "-  \"inputs\": [\n"
			  "-    {\n"
			  "-      \"type\": \"promptString\",\n"
			  "-      \"id\": \"skerry-api-key\",\n"
			  "-      \"description\": \"Skerry API key\",\n"
			  "-      \"password\": true\n"
			  "-    }\n"
			  "-  ],\n"
			  "   \"servers\": {\n"
			  "     \"skerry\": {\n"
			  "       \"type\": \"http\",\n"
			  "       \"url\": \"@URL@\",\n"
			  "       \"headers\": { \"Authorization\": \"Bearer @KEY@\" }\n"
			  "     }\n"
			  "   }\n"
			  " }\n",
	},
	{
		.name = "cursor",
		.place = ".cursor/mcp.json in the project, or ~/.cursor/mcp.json",
		.key_reference = "${env:SKERRY_API_KEY}",
		.config = " {\n"
			  "   \"mcpServers\": {\n"
			  "     \"skerry\": {\n"
			  "       \"url\": \"@URL@\",\n"
			  "       \"headers\": { \"Authorization\": \"Bearer @KEY@\" }\n"
			  "     }\n"
			  "   }\n"
			  " }\n",
	},
	{
		/* An exec answers within 45 s and may be waited for again. */
		.name = "codex",
		.place = "~/.codex/config.toml",
		.key_reference = "SKERRY_API_KEY",
		.config = " [mcp_servers.skerry]\n"
			  " url = \"@URL@\"\n"
			  "-bearer_token_env_var = \"@KEY@\"\n"
			  "+http_headers = { Authorization = \"Bearer @KEY@\" }\n"
			  " tool_timeout_sec = 120\n",
	},
	{
		.name = "gemini",
		.place = ".gemini/settings.json in the project, or ~/.gemini/settings.json",
		.key_reference = "${SKERRY_API_KEY}",
		.config = " {\n"
			  "   \"mcpServers\": {\n"
			  "     \"skerry\": {\n"
			  "       \"httpUrl\": \"@URL@\",\n"
			  "       \"headers\": { \"Authorization\": \"Bearer @KEY@\" }\n"
			  "     }\n"
			  "   }\n"
			  " }\n",
	},
	{
		.name = "goose",
		.place = "~/.config/goose/config.yaml",
		.key_reference = "${SKERRY_API_KEY}",
		.config = " extensions:\n"
			  "   skerry:\n"
			  "     enabled: true\n"
			  "     type: streamable_http\n"
			  "     name: skerry\n"
			  "     description: Linux microVMs to run commands in\n"
			  "     uri: \"@URL@\"\n"
			  "-    env_keys: [SKERRY_API_KEY]\n"
			  "     headers:\n"
			  "       Authorization: \"Bearer @KEY@\"\n"
			  "     timeout: 300\n",
	},
	{
		/* Claude Desktop and others that start their servers and send no headers. */
		.name = "stdio",
		.place = "the mcpServers of a client that starts its servers, such as Claude "
			 "Desktop",
		.key_reference = "PUT THE KEY HERE",
		.config = " {\n"
			  "   \"mcpServers\": {\n"
			  "     \"skerry\": {\n"
			  "       \"command\": \"skerry\",\n"
			  "       \"args\": [\"mcp\"],\n"
			  "       \"env\": { \"SKERRY_URL\": \"@SRV@\", \"SKERRY_API_KEY\": "
			  "\"@KEY@\" }\n"
			  "     }\n"
			  "   }\n"
			  " }\n",
	},
	{
		.name = "langchain",
		.place = "a Python program (pip install langchain-mcp-adapters)",
		.key_reference = "SKERRY_API_KEY",
		.config = " import asyncio\n"
			  "-import os\n"
			  " \n"
			  " from langchain_mcp_adapters.client import MultiServerMCPClient\n"
			  " \n"
			  " client = MultiServerMCPClient({\n"
			  "     \"skerry\": {\n"
			  "         \"transport\": \"streamable_http\",\n"
			  "         \"url\": \"@URL@\",\n"
			  "-        \"headers\": {\"Authorization\": \"Bearer \" + "
			  "os.environ[\"@KEY@\"]},\n"
			  "+        \"headers\": {\"Authorization\": \"Bearer @KEY@\"},\n"
			  "     },\n"
			  " })\n"
			  " tools = asyncio.run(client.get_tools())\n",
	},
	{
		/* The SDK's own read timeout is 5 s; an exec answers within 45 s. */
		.name = "openai-agents",
		.place = "a Python program (pip install openai-agents)",
		.key_reference = "SKERRY_API_KEY",
		.config = " import asyncio\n"
			  "-import os\n"
			  " \n"
			  " from agents import Agent, Runner\n"
			  " from agents.mcp import MCPServerStreamableHttp\n"
			  " \n"
			  " \n"
			  " async def main():\n"
			  "     async with MCPServerStreamableHttp(\n"
			  "         name=\"skerry\",\n"
			  "         params={\n"
			  "             \"url\": \"@URL@\",\n"
			  "-            \"headers\": {\"Authorization\": \"Bearer \" + "
			  "os.environ[\"@KEY@\"]},\n"
			  "+            \"headers\": {\"Authorization\": \"Bearer @KEY@\"},\n"
			  "         },\n"
			  "         client_session_timeout_seconds=60,\n"
			  "     ) as skerry:\n"
			  "         agent = Agent(name=\"coder\", mcp_servers=[skerry])\n"
			  "         result = await Runner.run(agent, \"Which kernel runs in a "
			  "sandbox?\")\n"
			  "         print(result.final_output)\n"
			  " \n"
			  " \n"
			  " asyncio.run(main())\n",
	},
};

const struct mcp_client *mcp_client_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		if (str_eq(clients[i].name, name))
			return &clients[i];
	return NULL;
}

/* Text inside a quoted string of JSON, TOML, YAML and Python, which agree on these escapes. */
static void append_quoted(struct buf *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			buf_append_char(out, '\\');
		buf_append_char(out, *text);
	}
}

static void append_line(struct buf *out, const char *line, size_t len, const char *url,
			const char *key)
{
	while (len > 0) {
		size_t taken = 5;

		if (len >= 5 && str_starts(line, "@SRV@")) {
			append_quoted(out, url);
		} else if (len >= 5 && str_starts(line, "@URL@")) {
			append_quoted(out, url);
			buf_append_str(out, "/mcp");
		} else if (len >= 5 && str_starts(line, "@KEY@")) {
			append_quoted(out, key);
		} else {
			buf_append_char(out, *line);
			taken = 1;
		}
		line += taken;
		len -= taken;
	}
	buf_append_char(out, '\n');
}

void mcp_client_config(const struct mcp_client *client, const char *url, const char *key,
		       struct buf *out)
{
	const char *line = client->config;

	while (*line) {
		size_t len = strcspn(line, "\n");

		if (*line == ' ' || (*line == '+') == (key != NULL))
			append_line(out, line + 1, len - 1, url, key ? key : client->key_reference);
		line += len + 1;
	}
}
