/*
 * The daemon's HTTP surface on the core without machines, for preview.test.mjs, where what the
 * tests serve on loopback stands for the servers in a sandbox, and for terminal_socket.test.mjs.
 * Prints its URL, then answers commands, a line each:
 *
 *	sign PORT MINUTES    a token
 *	expired PORT         a token that has expired
 *	open                 how many connections are under way
 *	end                  the sandbox ends
 *	pause, resume        of its terminal
 *	viewed               how many look at its terminal
 *
 * usage: preview_rig [--tls CERT KEY] [--domain DOMAIN]. Ends with its standard input.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "api/mcp.h"
#include "api/rest.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "fake_core.h"
#include "fake_preview.h"
#include "fake_terminal.h"
#include "net/preview_token.h"

#define QUEUE_MAX 1024 /* as the daemon's: a test asks a hundred times at once */

struct rig {
	struct loop *loop;
	struct pool *pool;
	struct core *core;
	struct mcp *mcp;
	struct rest *rest;
	struct http_server *http;
	struct preview_domain domain;
	struct buf cert, key;
};

static void die(const char *what, const struct err *err)
{
	fprintf(stderr, "preview_rig: %s: %s\n", what, err->message);
	exit(1);
}

static void read_options(struct rig *rig, int argc, char **argv)
{
	struct err err = ERR_INIT;

	for (int i = 1; i < argc; i++) {
		if (str_eq(argv[i], "--tls") && i + 2 < argc) {
			if (file_read(argv[++i], 1 << 20, &rig->cert) < 0 ||
			    file_read(argv[++i], 1 << 20, &rig->key) < 0)
				die("--tls", &err);
		} else if (str_eq(argv[i], "--domain") && i + 1 < argc) {
			if (preview_domain_parse(argv[++i], &rig->domain, &err) < 0)
				die("--domain", &err);
		} else {
			die(argv[i], &err);
		}
	}
}

static void handle_mcp(void *arg, struct http_request *req)
{
	mcp_handle(arg, req);
}

static void start(struct rig *rig)
{
	struct err err = ERR_INIT;
	struct rest_config rest = { .mcp = handle_mcp, .preview_domain = &rig->domain };
	struct http_config http = {
		.address = "127.0.0.1",
		.listen_fd = -1,
		.body_max_bytes = 1 << 20,
		.connections_max = 1000,
		.header_timeout_ms = 10000,
		.idle_timeout_ms = 60000,
		.event_threads = 2,
		.handler = rest_handle,
		.passes = rest_passes,
		.is_quick = rest_is_quick,
	};

	if (loop_new(&rig->loop, &err) < 0 || loop_start(rig->loop, "loop", &err) < 0 ||
	    pool_new(4, QUEUE_MAX, &rig->pool, &err) < 0)
		die("start", &err);
	rig->core = fake_core_new(rig->loop);
	rig->mcp = mcp_new(rig->core, rig->loop, rig->pool, &rig->domain);
	rest.core = rig->core;
	rest.mcp_arg = rig->mcp;
	rest.loop = http.loop = rig->loop;
	rest.pool = http.pool = rig->pool;
	rig->rest = rest_new(&rest);
	http.arg = rig->rest;
	if (rig->cert.len > 0) {
		http.tls_cert_pem = buf_str(&rig->cert);
		http.tls_key_pem = buf_str(&rig->key);
	}
	if (http_server_new(&http, &rig->http, &err) < 0)
		die("serve", &err);
	printf("%s://127.0.0.1:%u\n", rig->cert.len ? "https" : "http",
	       http_server_port(rig->http));
}

static void end_on_loop(void *arg)
{
	fake_previews_end();
	fake_terminal_end();
}

static void pause_on_loop(void *arg)
{
	fake_terminal_pause(true);
}

static void resume_on_loop(void *arg)
{
	fake_terminal_pause(false);
}

static void answer(struct rig *rig, const char *line)
{
	static const uint8_t zeros[PREVIEW_KEY_SIZE];
	char token[CORE_PREVIEW_TOKEN_SIZE] = "";
	unsigned port = 0, minutes = 0;
	struct err err = ERR_INIT;
	int64_t expires_ms;

	/* NOLINTBEGIN(cert-err34-c): the lines are the test's own */
	if (sscanf(line, "sign %u %u", &port, &minutes) == 2) {
		if (core_preview_sign(rig->core, NULL, "sbx_aa", (uint16_t)port, minutes, token,
				      &expires_ms, &err) < 0)
			die(line, &err);
		puts(token);
	} else if (sscanf(line, "expired %u", &port) == 1) {
		/* NOLINTEND(cert-err34-c) */
		preview_token_make(zeros, "sbx_aa", (uint16_t)port, clock_unix_ms() / 1000 - 1,
				   token);
		puts(token);
	} else if (str_eq(line, "open")) {
		printf("%d\n", fake_previews_open());
	} else if (str_eq(line, "viewed")) {
		printf("%d\n", fake_terminals_viewed());
	} else if (str_eq(line, "pause") || str_eq(line, "resume")) {
		loop_call(rig->loop, line[0] == 'p' ? pause_on_loop : resume_on_loop, NULL);
		puts(line);
	} else if (str_eq(line, "end")) {
		loop_call(rig->loop, end_on_loop, NULL);
		puts("ended");
	} else {
		die(line, &err);
	}
}

int main(int argc, char **argv)
{
	struct rig rig = { 0 };
	char line[128];

	signal(SIGPIPE, SIG_IGN);
	setvbuf(stdout, NULL, _IOLBF, 0);
	log_init(LOG_LVL_ERROR);
	read_options(&rig, argc, argv);
	start(&rig);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		answer(&rig, line);
	}
	http_server_free(rig.http, 2000);
	pool_free(rig.pool);
	rest_free(rig.rest);
	mcp_free(rig.mcp);
	loop_free(rig.loop);
	fake_core_free(rig.core);
	buf_clear(&rig.cert);
	buf_clear(&rig.key);
	return fake_previews_open() == 0 && fake_terminals_viewed() == 0 ? 0 : 1;
}
