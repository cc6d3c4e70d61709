/* What a client that is refused is told: a TLS alert, or an HTTP answer that names the rule. */
#include "net/proxy_internal.h"

static bool is_tls(const struct proxy_conn *conn)
{
	return conn->port != 80;
}

void proxy_report(struct proxy_conn *conn, const char *name, const char *reason, bool no_rule)
{
	const struct net_denial denial = {
		.source = is_tls(conn) ? NET_DENIED_TLS : NET_DENIED_HTTP,
		.name = name,
		.address = conn->dialled,
		.port = conn->port,
		.protocol = POLICY_TCP,
		.reason = reason,
	};

	net_report(conn->proxy->clients, conn->client->entry.address, &conn->client->denials,
		   &denial, no_rule);
}

static const char *phrase_of(int status)
{
	switch (status) {
	case 400:
		return "Bad Request";
	case 403:
		return "Forbidden";
	case 502:
		return "Bad Gateway";
	default:
		return "Service Unavailable";
	}
}

void proxy_refusal_write(const struct proxy_conn *conn, const char *name, const char *reason,
			 enum tls_alert alert, int status, struct buf *out)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	uint8_t record[TLS_ALERT_SIZE];

	if (is_tls(conn)) {
		tls_alert_make(alert, record);
		buf_append(out, record, sizeof(record));
		return;
	}
	buf_printf(&text, "skerry: %s\n", reason);
	if (name)
		buf_printf(&text, "the egress rule that would allow it: %s:%u\n", name,
			   (unsigned)conn->port);
	buf_printf(out,
		   "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
		   "Content-Length: %zu\r\nConnection: close\r\nCache-Control: no-store\r\n\r\n%s",
		   status, phrase_of(status), text.len, text.data);
}
