/*
 * What libmicrohttpd does by itself: the same threads and options as the daemon's server, and an
 * answer that is ready. Baseline of requests a second.
 *
 *   http_hello BODY_BYTES
 *
 * Writes its port on 127.0.0.1 to stdout and serves until stdin ends.
 */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENT_THREADS 2
#define BODY_MAX      65536

static char body[BODY_MAX];
static size_t body_len;

static enum MHD_Result answer(void *arg, struct MHD_Connection *connection, const char *url,
			      const char *method, const char *version, const char *data,
			      size_t *data_size, void **state)
{
	static int begun;
	struct MHD_Response *response;
	enum MHD_Result result;

	if (!*state) { /* the head alone */
		*state = &begun;
		return MHD_YES;
	}
	response = MHD_create_response_from_buffer(body_len, body, MHD_RESPMEM_PERSISTENT);
	MHD_add_response_header(response, "Content-Type", "application/json");
	result = MHD_queue_response(connection, 200, response);
	MHD_destroy_response(response);
	return result;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	const union MHD_DaemonInfo *info;
	struct MHD_Daemon *daemon;
	char rest[64];

	if (argc != 2) {
		fprintf(stderr, "usage: http_hello BODY_BYTES\n");
		return 2;
	}
	body_len = strtoul(argv[1], NULL, 10);
	if (body_len > BODY_MAX)
		return 2;
	memset(body, 'x', body_len);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	daemon = MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD, 0, NULL, NULL, answer, NULL,
				  MHD_OPTION_SOCK_ADDR, &address, MHD_OPTION_THREAD_POOL_SIZE,
				  (unsigned int)EVENT_THREADS, MHD_OPTION_END);
	info = daemon ? MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
	if (!info) {
		fprintf(stderr, "http_hello: the server cannot be started\n");
		return 1;
	}
	printf("%u\n", info->port);
	fflush(stdout);
	while (read(STDIN_FILENO, rest, sizeof(rest)) > 0)
		;
	MHD_stop_daemon(daemon);
	return 0;
}
