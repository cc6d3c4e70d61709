/* The proxy's socket and its clients. */
#include "net/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "net/listener.h"
#include "net/proxy_internal.h"

#define BACKLOG 1024

static struct proxy_client *client_of(struct proxy *proxy, uint32_t address)
{
	struct addr_entry *entry = addr_table_find(&proxy->table, address);
	struct proxy_client *client = (struct proxy_client *)entry;
	_cleanup_ruleset_ struct ruleset *rules = NULL;

	if (client)
		return client;
	rules = proxy->clients->rules(proxy->clients->arg, address);
	if (!rules)
		return NULL;
	client = xcalloc(1, sizeof(*client));
	client->entry.address = address;
	addr_table_add(&proxy->table, &client->entry);
	return client;
}

static void report_too_many(struct proxy *proxy, struct proxy_client *client, uint32_t dialled,
			    uint16_t port)
{
	const struct net_denial denial = {
		.source = port == 80 ? NET_DENIED_HTTP : NET_DENIED_TLS,
		.address = dialled,
		.port = port,
		.protocol = POLICY_TCP,
		.reason = "the sandbox has too many connections through the proxy",
	};

	net_report(proxy->clients, client->entry.address, &client->denials, &denial, true);
}

static void on_accept(void *arg, int fd, const struct sockaddr_in *from)
{
	struct proxy *proxy = arg;
	struct proxy_client *client = client_of(proxy, ntohl(from->sin_addr.s_addr));
	struct sockaddr_in dialled = { 0 };
	socklen_t len = sizeof(dialled);
	uint16_t port;

	if (!client || getsockname(fd, (struct sockaddr *)&dialled, &len) < 0) {
		close(fd);
		return;
	}
	port = ntohs(dialled.sin_port);
	if (port != 443 && port != 80) { /* somebody has dialled the proxy itself */
		close(fd);
	} else if (client->n_conns == PROXY_PER_CLIENT || proxy->n_conns == PROXY_TOTAL) {
		report_too_many(proxy, client, ntohl(dialled.sin_addr.s_addr), port);
		close(fd);
	} else {
		proxy_conn_new(proxy, client, fd, ntohl(dialled.sin_addr.s_addr), port);
	}
}

/* *ret_fd is written on success only. */
static int open_socket(const struct proxy_config *config, int *ret_fd, uint16_t *ret_port)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(config->port),
				       .sin_addr.s_addr = htonl(config->address) };
	_cleanup_close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(address);
	const int one = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0 ||
	    setsockopt(fd, IPPROTO_IP, IP_TRANSPARENT, &one, sizeof(one)) < 0 ||
	    bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(fd, BACKLOG) < 0 || getsockname(fd, (struct sockaddr *)&address, &len) < 0)
		return -errno;
	*ret_port = ntohs(address.sin_port);
	*ret_fd = STEAL_FD(fd);
	return 0;
}

int proxy_new(struct loop *loop, const struct proxy_config *config, struct proxy **ret,
	      struct err *err)
{
	struct proxy *proxy = xcalloc(1, sizeof(*proxy));
	int fd = -1, r = open_socket(config, &fd, &proxy->port);

	proxy->loop = loop;
	proxy->clients = config->clients;
	proxy->resolver = config->resolver;
	if (r == 0) {
		proxy->listener = listener_new(loop, fd, on_accept, proxy);
		r = proxy->listener ? 0 : -errno;
	}
	if (r < 0) {
		proxy_free(proxy);
		return err_set(err, r, "cannot listen for the transparent proxy: %s",
			       strerrordesc_np(-r));
	}
	*ret = proxy;
	return 0;
}

static void client_free(struct proxy_client *client)
{
	while (client->conns)
		proxy_conn_free(client->conns);
	free(client);
}

void proxy_free(struct proxy *proxy)
{
	struct addr_entry *entry;

	if (!proxy)
		return;
	while ((entry = addr_table_take(&proxy->table)))
		client_free((struct proxy_client *)entry);
	listener_free(proxy->listener);
	free(proxy);
}

uint16_t proxy_port(const struct proxy *proxy)
{
	return proxy->port;
}

void proxy_recheck(struct proxy *proxy, uint32_t address)
{
	struct addr_entry *entry = addr_table_find(&proxy->table, address);
	struct proxy_client *client = (struct proxy_client *)entry;

	for (struct proxy_conn *conn = client ? client->conns : NULL, *next; conn; conn = next) {
		next = conn->next;
		if (conn->name[0] && conn->state != PROXY_REFUSES &&
		    !proxy_conn_allowed(conn, conn->name))
			proxy_conn_free(conn);
	}
}

void proxy_forget(struct proxy *proxy, uint32_t address)
{
	struct addr_entry *entry = addr_table_remove(&proxy->table, address);

	if (entry)
		client_free((struct proxy_client *)entry);
}
