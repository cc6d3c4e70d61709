/*
 * The request for a terminal.
 *
 * Host and Origin were checked by the router, as for every request: no page of another origin gets
 * here. A page of the server's own has the key but cannot set a header: it offers the key among the
 * protocols of the WebSocket (Sec-WebSocket-Protocol), where no log, no history and no Referer
 * shows it.
 */
#include "api/terminal.h"

#include <errno.h>
#include <string.h>

#include "api/auth.h"
#include "api/problem.h"
#include "base/json.h"
#include "base/str.h"
#include "base/ws.h"

#define KEY_MAX 256

/* The first protocol that begins like one with a key; its length, 0: none. */
static size_t find_key(const char *protocols, const char **ret)
{
	const size_t prefix = strlen(TERMINAL_KEY_PREFIX);

	while (protocols && *protocols) {
		size_t len;

		protocols += strspn(protocols, " \t,");
		len = strcspn(protocols, " \t,");
		if (len > prefix && str_starts(protocols, TERMINAL_KEY_PREFIX)) {
			*ret = protocols + prefix;
			return len - prefix;
		}
		protocols += len;
	}
	return 0;
}

int terminal_check_key(struct core *core, const struct http_request *req, struct principal *ret,
		       struct err *err)
{
	const char *key;
	size_t len = find_key(http_header(req, "Sec-WebSocket-Protocol"), &key);

	if (http_header(req, "Authorization") || len == 0)
		return auth_check_key(core, req, ret, err);
	if (len > KEY_MAX)
		return err_code(err, -EACCES, "invalid_key", "the key is not valid");
	return core_authenticate(core, key, len, ret, err);
}

static int check_websocket(const struct http_request *req, struct err *err)
{
	const char *version = http_header(req, "Sec-WebSocket-Version");
	const char *key = http_header(req, "Sec-WebSocket-Key");

	if (!str_eq(http_method(req), "GET") ||
	    !ws_list_has(http_header(req, "Upgrade"), "websocket") ||
	    !ws_list_has(http_header(req, "Connection"), "upgrade") || !str_eq(version, "13") ||
	    !key || !ws_key_valid(key)) {
		err_code(err, -EPROTO, "upgrade_required",
			 "a terminal is a WebSocket, and this request does not ask for one");
		err_hint(err, "connect with a WebSocket client (RFC 6455), or use skerry shell");
		return -EPROTO;
	}
	return 0;
}

void terminal_serve(struct rest_call *rc, struct loop *loop)
{
	const struct http_extra_header upgrade = { "Upgrade", "websocket" };
	const char *protocols = http_header(rc->req, "Sec-WebSocket-Protocol");
	char accept[WS_ACCEPT_SIZE];
	struct err err = ERR_INIT;

	if (check_websocket(rc->req, &err) < 0) {
		op_call_leave(&rc->call, &err, NULL, NULL);
		problem_respond_with(rc->req, problem_status(&err), &err, &upgrade);
		rest_call_free(rc);
		return;
	}
	ws_accept_make(http_header(rc->req, "Sec-WebSocket-Key"), accept);
	terminal_session_run(rc, loop, accept, ws_list_has(protocols, TERMINAL_PROTOCOL));
}
