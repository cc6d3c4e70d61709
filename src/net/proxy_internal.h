/* What the files of the proxy share: the proxy and its clients (proxy.c), a connection
 * (proxy_conn.c), what refused clients are told (proxy_refuse.c). */
#pragma once

#include "net/addr_table.h"
#include "net/proxy.h"
#include "net/proxy_http.h"
#include "net/proxy_pipe.h"
#include "net/proxy_tls.h"
#include "net/rate.h"

enum proxy_state {
	PROXY_READS_NAME, /* the client's first bytes */
	PROXY_RESOLVES,
	PROXY_CONNECTS,
	PROXY_PASSES,
	PROXY_REFUSES, /* says why, and waits until that was read */
};

struct proxy_client {
	struct addr_entry entry; /* first */
	struct rate denials;
	struct proxy_conn *conns;
	size_t n_conns;
};

struct proxy {
	struct loop *loop;
	const struct net_clients *clients;
	struct dns_resolver *resolver;
	struct listener *listener;
	uint16_t port;
	struct addr_table table;
	size_t n_conns;
};

struct proxy_conn {
	struct proxy *proxy;
	struct proxy_client *client;
	enum proxy_state state;
	uint32_t dialled;	     /* by the guest */
	uint16_t port;		     /* likewise: 443 or 80 */
	char name[HOSTNAME_MAX + 1]; /* empty until it was read and allowed */
	struct pipe_end guest, site;
	struct buf first;	   /* TLS: the client's first bytes */
	struct http_filter filter; /* HTTP */
	struct tls_watch watch;	   /* TLS, from the first hello on */
	struct buf held;	   /* taken from the client, not yet by filter or watch */
	char status[12];	   /* HTTP: the first bytes of the site */
	size_t status_len;
	struct buf last_words; /* for the guest, when the site has ended */
	struct dns_lookup *lookup;
	uint32_t addresses[PROXY_ADDRESSES_MAX];
	size_t n_addresses, next_address;
	struct loop_timer *timer;
	int64_t active_ms;		/* of the last byte */
	struct proxy_conn *prev, *next; /* of the client's */
};

/* Takes over fd. */
void proxy_conn_new(struct proxy *proxy, struct proxy_client *client, int fd, uint32_t dialled,
		    uint16_t port);
void proxy_conn_free(struct proxy_conn *conn);
/* Whether the client's rules, as they are now, allow this name at the connection's port. */
bool proxy_conn_allowed(const struct proxy_conn *conn, const char *name);

/* Reports the denial of what the connection wants. name: NULL where there is none. */
void proxy_report(struct proxy_conn *conn, const char *name, const char *reason, bool no_rule);
/* What the client is told, in its own protocol. */
void proxy_refusal_write(const struct proxy_conn *conn, const char *name, const char *reason,
			 enum tls_alert alert, int status, struct buf *out);
