/*
 * The name server's sockets. A datagram's request is on the list of its client until it is replied
 * to. A connection handles one question after the other: it is read again only when the reply has
 * left, so that a client that does not read costs a socket and nothing more.
 */
#include "net/dns_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "net/addr_table.h"
#include "net/dns_request.h"
#include "net/listener.h"

#define DATAGRAMS_PER_ROUND 64 /* then the loop's other work has its turn */
#define DATAGRAM_MAX	    4096
#define RECEIVE_BUFFER	    (4 * 1024 * 1024) /* bytes: a flood of one must not push out the others */

struct server_client {
	struct addr_entry entry; /* first */
	struct rate queries, denials;
	struct datagram *datagrams;
	struct connection *connections;
	size_t n_datagrams, n_connections;
};

struct datagram {
	struct dns_server *server;
	struct server_client *client;
	struct sockaddr_in from;
	struct dns_request *request;
	struct datagram *prev, *next;
};

struct connection {
	struct dns_server *server;
	struct server_client *client;
	int fd;
	struct loop_io *io;
	struct loop_timer *idle;
	struct buf in, out;
	struct dns_request *request;
	struct connection *prev, *next;
};

struct dns_server {
	struct loop *loop;
	struct dns_context context;
	int udp_fd;
	struct loop_io *udp_io;
	struct listener *listener;
	struct addr_table clients;
	size_t n_connections;
};

/* The state of a client that exists; NULL for any other, who has none and gets none. */
static struct server_client *client_of(struct dns_server *server, uint32_t address)
{
	const struct net_clients *clients = server->context.clients;
	struct addr_entry *entry = addr_table_find(&server->clients, address);
	struct server_client *client = (struct server_client *)entry;
	_cleanup_ruleset_ struct ruleset *rules = NULL;

	if (client)
		return client;
	rules = clients->rules(clients->arg, address);
	if (!rules)
		return NULL;
	client = xcalloc(1, sizeof(*client));
	client->entry.address = address;
	addr_table_add(&server->clients, &client->entry);
	return client;
}

static void datagram_free(struct datagram *datagram)
{
	struct server_client *client = datagram->client;

	dns_request_cancel(datagram->request);
	if (datagram->prev)
		datagram->prev->next = datagram->next;
	else
		client->datagrams = datagram->next;
	if (datagram->next)
		datagram->next->prev = datagram->prev;
	client->n_datagrams--;
	free(datagram);
}

static void on_datagram_reply(void *arg, const struct buf *reply)
{
	struct datagram *datagram = arg;

	datagram->request = NULL;
	if (reply)
		sendto(datagram->server->udp_fd, reply->data, reply->len, MSG_DONTWAIT,
		       (const struct sockaddr *)&datagram->from, sizeof(datagram->from));
	datagram_free(datagram);
}

static void take_datagram(struct dns_server *server, const struct sockaddr_in *from,
			  const uint8_t *data, size_t len)
{
	struct server_client *client = client_of(server, ntohl(from->sin_addr.s_addr));
	struct dns_request *request;
	struct datagram *datagram;

	if (!client || !rate_take(&client->queries, DNS_QUERIES_PER_S, clock_boottime_ms()) ||
	    client->n_datagrams == DNS_UDP_PENDING_MAX)
		return;
	datagram = xcalloc(1, sizeof(*datagram));
	*datagram = (struct datagram){
		.server = server,
		.client = client,
		.from = *from,
		.next = client->datagrams,
	};
	if (datagram->next)
		datagram->next->prev = datagram;
	client->datagrams = datagram;
	client->n_datagrams++;
	request = dns_request_start(&server->context, client->entry.address, &client->denials, data,
				    len, true, on_datagram_reply, datagram);
	if (request) /* else it was replied to and the datagram is gone */
		datagram->request = request;
}

static void on_udp(void *arg, uint32_t events)
{
	struct dns_server *server = arg;
	uint8_t data[DATAGRAM_MAX];

	for (int i = 0; i < DATAGRAMS_PER_ROUND; i++) {
		struct sockaddr_in from = { 0 };
		socklen_t from_len = sizeof(from);
		ssize_t n = recvfrom(server->udp_fd, data, sizeof(data), MSG_TRUNC,
				     (struct sockaddr *)&from, &from_len);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n >= 0 && (size_t)n <= sizeof(data) && from_len == sizeof(from))
			take_datagram(server, &from, data, (size_t)n);
	}
}

static void connection_free(struct connection *connection)
{
	struct server_client *client = connection->client;

	dns_request_cancel(connection->request);
	loop_io_remove(connection->io);
	loop_timer_remove(connection->idle);
	close(connection->fd);
	buf_clear(&connection->in);
	buf_clear(&connection->out);
	if (connection->prev)
		connection->prev->next = connection->next;
	else
		client->connections = connection->next;
	if (connection->next)
		connection->next->prev = connection->prev;
	client->n_connections--;
	connection->server->n_connections--;
	free(connection);
}

static void on_idle(void *arg)
{
	connection_free(arg);
}

/* What the connection waits for now. */
static void watch(struct connection *connection)
{
	if (connection->out.len > 0)
		loop_io_set(connection->io, EPOLLOUT);
	else
		loop_io_set(connection->io, connection->request ? 0 : EPOLLIN);
}

static void on_connection_reply(void *arg, const struct buf *reply)
{
	struct connection *connection = arg;

	connection->request = NULL;
	if (reply) {
		buf_append_char(&connection->out, (char)(reply->len >> 8));
		buf_append_char(&connection->out, (char)reply->len);
		buf_append(&connection->out, reply->data, reply->len);
	}
	watch(connection);
}

/* Starts on the question at the front of what has come, if it is complete. False: the connection is
 * of no use any more. */
static bool take_question(struct connection *connection)
{
	struct server_client *client = connection->client;
	const uint8_t *in = (const uint8_t *)connection->in.data;
	size_t len;

	if (connection->in.len < 2)
		return true;
	len = (size_t)in[0] << 8 | in[1];
	if (len > DNS_TCP_QUERY_MAX)
		return false;
	if (connection->in.len < 2 + len)
		return true;
	if (!rate_take(&client->queries, DNS_QUERIES_PER_S, clock_boottime_ms()))
		return false;
	connection->request = dns_request_start(&connection->server->context, client->entry.address,
						&client->denials, in + 2, len, false,
						on_connection_reply, connection);
	buf_drop_front(&connection->in, 2 + len);
	return true;
}

static bool is_passing(int error)
{
	return error == EAGAIN || error == EINTR;
}

static bool send_reply(struct connection *connection)
{
	ssize_t n = send(connection->fd, connection->out.data, connection->out.len, MSG_NOSIGNAL);

	if (n < 0)
		return is_passing(errno);
	buf_drop_front(&connection->out, (size_t)n);
	return connection->out.len > 0 || take_question(connection);
}

static bool receive(struct connection *connection)
{
	uint8_t data[2 + DNS_TCP_QUERY_MAX];
	ssize_t n = recv(connection->fd, data, sizeof(data), 0);

	if (n < 0)
		return is_passing(errno);
	if (n == 0)
		return false;
	buf_append(&connection->in, data, (size_t)n);
	return take_question(connection);
}

static void on_connection(void *arg, uint32_t events)
{
	struct connection *connection = arg;
	bool alive = connection->out.len > 0 ? send_reply(connection) : receive(connection);

	if (!alive) {
		connection_free(connection);
		return;
	}
	loop_timer_set(connection->idle, clock_boottime_ms() + DNS_TCP_IDLE_MS);
	watch(connection);
}

static void on_accept(void *arg, int fd, const struct sockaddr_in *from)
{
	struct dns_server *server = arg;
	struct server_client *client = client_of(server, ntohl(from->sin_addr.s_addr));
	struct connection *connection;

	if (!client || client->n_connections == DNS_TCP_PER_CLIENT ||
	    server->n_connections == DNS_TCP_TOTAL) {
		close(fd);
		return;
	}
	connection = xcalloc(1, sizeof(*connection));
	*connection = (struct connection){
		.server = server,
		.client = client,
		.fd = fd,
		.next = client->connections,
	};
	if (connection->next)
		connection->next->prev = connection;
	client->connections = connection;
	client->n_connections++;
	server->n_connections++;
	connection->idle = loop_timer_add(server->loop, clock_boottime_ms() + DNS_TCP_IDLE_MS,
					  on_idle, connection);
	connection->io = loop_io_add(server->loop, fd, EPOLLIN, on_connection, connection);
	if (!connection->io)
		connection_free(connection);
}

/* *ret_fd is written on success only. */
static int bind_socket(const struct dns_server_config *config, int type, int *ret_fd,
		       struct err *err)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(config->port),
		.sin_addr.s_addr = htonl(config->address),
	};
	_cleanup_close_ int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	const int one = 1, buffer = RECEIVE_BUFFER;
	char text[INET_ADDRSTRLEN];
	int r;

	if (fd >= 0 && type == SOCK_STREAM)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	else if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer));
	if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
	    (type == SOCK_DGRAM || listen(fd, DNS_TCP_TOTAL) == 0)) {
		*ret_fd = STEAL_FD(fd);
		return 0;
	}
	r = -errno;
	inet_ntop(AF_INET, &address.sin_addr, text, sizeof(text));
	return err_set(err, r, "cannot listen for guests' questions on %s:%u (%s): %s", text,
		       (unsigned)config->port, type == SOCK_DGRAM ? "UDP" : "TCP",
		       strerrordesc_np(-r));
}

static int open_sockets(struct dns_server *server, const struct dns_server_config *config,
			struct err *err)
{
	int tcp_fd, r;

	r = bind_socket(config, SOCK_DGRAM, &server->udp_fd, err);
	if (r < 0)
		return r;
	r = bind_socket(config, SOCK_STREAM, &tcp_fd, err);
	if (r < 0)
		return r;
	server->listener = listener_new(server->loop, tcp_fd, on_accept, server);
	if (server->listener)
		server->udp_io = loop_io_add(server->loop, server->udp_fd, EPOLLIN, on_udp, server);
	if (server->udp_io)
		return 0;
	r = -errno;
	return err_set(err, r, "cannot watch the name server's sockets: %s", strerrordesc_np(-r));
}

int dns_server_new(struct loop *loop, const struct dns_server_config *config,
		   struct dns_server **ret, struct err *err)
{
	struct dns_server *server = xcalloc(1, sizeof(*server));
	int r;

	server->loop = loop;
	server->context = (struct dns_context){ config->clients, config->resolver };
	server->udp_fd = -1;
	r = open_sockets(server, config, err);
	if (r < 0) {
		dns_server_free(server);
		return r;
	}
	*ret = server;
	return 0;
}

static void client_free(struct server_client *client)
{
	while (client->datagrams)
		datagram_free(client->datagrams);
	while (client->connections)
		connection_free(client->connections);
	free(client);
}

void dns_server_forget(struct dns_server *server, uint32_t address)
{
	struct addr_entry *entry = addr_table_remove(&server->clients, address);

	if (entry)
		client_free((struct server_client *)entry);
	dns_resolver_forget(server->context.resolver, address);
}

void dns_server_free(struct dns_server *server)
{
	struct addr_entry *entry;

	if (!server)
		return;
	while ((entry = addr_table_take(&server->clients)))
		client_free((struct server_client *)entry);
	listener_free(server->listener);
	loop_io_remove(server->udp_io);
	cleanup_closep(&server->udp_fd);
	free(server);
}
