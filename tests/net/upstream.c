/* The tests' DNS server: one thread, one question after the other. */
#include "upstream.h"

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../unit/dns_build.h"
#include "base/alloc.h"
#include "names_rig.h"

struct upstream {
	int udp, tcp, end[2];
	const struct upstream_name *table;
	pthread_t thread;
	atomic_size_t questions;
};

struct asked {
	uint16_t id, type;
	char name[256];
};

static bool read_question(const uint8_t *data, size_t len, struct asked *ret)
{
	size_t at = 12, n = 0;

	if (len < 17)
		return false;
	ret->id = (uint16_t)(data[0] << 8 | data[1]);
	while (at < len && data[at] && n + data[at] + 1 < sizeof(ret->name)) {
		if (n > 0)
			ret->name[n++] = '.';
		memcpy(ret->name + n, data + at + 1, data[at]);
		n += data[at];
		at += (size_t)data[at] + 1;
	}
	ret->name[n] = '\0';
	ret->type = (uint16_t)(data[at + 1] << 8 | data[at + 2]);
	return true;
}

static const struct upstream_name *find(const struct upstream *upstream, const char *name)
{
	for (const struct upstream_name *n = upstream->table; n->name; n++) {
		if (strcasecmp(n->name, name) == 0)
			return n;
	}
	return NULL;
}

static void answer(const struct asked *asked, const struct upstream_name *name, struct buf *out)
{
	bool has = name && name->n > 0;
	bool records = has && asked->type == 1;
	unsigned n = records ? (unsigned)name->n + (name->alias ? 1 : 0) : 0;

	dns_put_header(out, asked->id, has ? 0x8180 : 0x8183, 1, n);
	dns_put_question(out, asked->name, asked->type);
	if (!records)
		return;
	if (name->alias)
		dns_put_cname(out, asked->name, name->ttl_s, name->alias);
	for (uint32_t i = 0; i < name->n; i++)
		dns_put_a(out, name->alias ? name->alias : asked->name, name->ttl_s,
			  name->first + i);
}

static void send_forged(const struct upstream *upstream, const struct asked *asked,
			const struct sockaddr_in *to)
{
	struct upstream_name evil = { .name = asked->name, .ttl_s = 60, .first = NOBODY, .n = 1 };
	struct asked wrong = *asked;
	struct buf out = BUF_INIT;

	wrong.id = (uint16_t)(wrong.id + 1);
	answer(&wrong, &evil, &out);
	sendto(upstream->udp, out.data, out.len, 0, (const struct sockaddr *)to, sizeof(*to));
	buf_reset(&out);
	wrong = *asked;
	wrong.name[0] = wrong.name[0] == 'x' ? 'y' : 'x';
	answer(&wrong, &evil, &out);
	sendto(upstream->udp, out.data, out.len, 0, (const struct sockaddr *)to, sizeof(*to));
	buf_clear(&out);
}

static void serve_udp(struct upstream *upstream)
{
	const struct upstream_name *name;
	struct sockaddr_in from;
	socklen_t from_len = sizeof(from);
	struct buf out = BUF_INIT;
	struct asked asked;
	uint8_t data[4096];
	ssize_t n =
		recvfrom(upstream->udp, data, sizeof(data), 0, (struct sockaddr *)&from, &from_len);

	if (n < 0 || !read_question(data, (size_t)n, &asked))
		return;
	upstream->questions++;
	name = find(upstream, asked.name);
	if (name && name->conduct == UPSTREAM_IS_SILENT)
		return;
	if (name && name->conduct == UPSTREAM_IS_FORGED)
		send_forged(upstream, &asked, &from);
	if (name && name->conduct == UPSTREAM_IS_SLOW)
		usleep(300000);
	if (name && (name->conduct == UPSTREAM_FAILS || name->conduct == UPSTREAM_TRUNCATES)) {
		dns_put_header(&out, asked.id, name->conduct == UPSTREAM_FAILS ? 0x8182 : 0x8380, 1,
			       0);
		dns_put_question(&out, asked.name, asked.type);
	} else {
		answer(&asked, name, &out);
	}
	sendto(upstream->udp, out.data, out.len, 0, (struct sockaddr *)&from, from_len);
	buf_clear(&out);
}

static void serve_tcp(struct upstream *upstream)
{
	int fd = accept(upstream->tcp, NULL, NULL);
	struct buf out = BUF_INIT, message = BUF_INIT;
	struct asked asked;
	uint8_t data[4096];
	size_t len = 0;
	ssize_t n = 1;

	while (n > 0 && (len < 2 || len < 2 + ((size_t)data[0] << 8 | data[1]))) {
		n = read(fd, data + len, sizeof(data) - len);
		len += n > 0 ? (size_t)n : 0;
	}
	if (n > 0 && read_question(data + 2, len - 2, &asked)) {
		upstream->questions++;
		answer(&asked, find(upstream, asked.name), &message);
		dns_put16(&out, (unsigned)message.len);
		buf_append(&out, message.data, message.len);
		if (write(fd, out.data, out.len) < 0)
			perror("upstream");
	}
	close(fd);
	buf_clear(&out);
	buf_clear(&message);
}

static void *serve(void *arg)
{
	struct upstream *upstream = arg;
	struct pollfd fds[] = { { .fd = upstream->udp, .events = POLLIN },
				{ .fd = upstream->tcp, .events = POLLIN },
				{ .fd = upstream->end[0], .events = POLLIN } };

	while (poll(fds, 3, -1) >= 0 && !fds[2].revents) {
		if (fds[0].revents)
			serve_udp(upstream);
		if (fds[1].revents)
			serve_tcp(upstream);
	}
	return NULL;
}

struct upstream *upstream_new(uint32_t address, const struct upstream_name *table)
{
	struct upstream *upstream = xcalloc(1, sizeof(*upstream));
	const struct sockaddr_in at = rig_address(address, 53);
	const int one = 1;

	upstream->table = table;
	upstream->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	upstream->tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(upstream->tcp, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(upstream->udp, (const struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(bind(upstream->tcp, (const struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(upstream->tcp, 16), 0);
	assert_int_equal(pipe(upstream->end), 0);
	assert_int_equal(pthread_create(&upstream->thread, NULL, serve, upstream), 0);
	return upstream;
}

void upstream_free(struct upstream *upstream)
{
	close(upstream->end[1]);
	pthread_join(upstream->thread, NULL);
	close(upstream->end[0]);
	close(upstream->udp);
	close(upstream->tcp);
	free(upstream);
}

size_t upstream_questions(struct upstream *upstream)
{
	return atomic_load(&upstream->questions);
}
