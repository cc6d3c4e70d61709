/*
 * The name server against real sockets: guests in a namespace of their own, upstream servers that
 * answer from a table. Each attack on host rules that goes by way of names is a test.
 */
#include "names_rig.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../unit/dns_build.h"
#include "../unit/unit.h"
#include "base/clock.h"
#include "base/str.h"
#include "net/dns_request.h"
#include "net/dns_server.h"
#include "upstream.h"

#define UPSTREAM_ONE 0x7f000002U
#define UPSTREAM_TWO 0x7f000003U
#define WAIT_MS	     30000 /* for what must come */
#define RETRY_MS     5000
#define QUIET_MS     300 /* for what must not */

static const struct upstream_name names[] = {
	{ .name = "one.test", .ttl_s = 300, .first = SITE_ONE, .n = 1 },
	{ .name = "two.test", .ttl_s = 300, .first = SITE_ONE, .n = 1 }, /* a neighbour */
	{ .name = "www.one.test",
	  .alias = "edge.cdn.test",
	  .ttl_s = 60,
	  .first = SITE_TWO,
	  .n = 2 },
	{ .name = "rebind.test", .ttl_s = 60, .first = 0x0a000001, .n = 1 },
	{ .name = "loop.test", .ttl_s = 60, .first = 0x7f000001, .n = 1 },
	{ .name = "metadata.test", .ttl_s = 60, .first = 0xa9fea9fe, .n = 1 },
	{ .name = "cgnat.test", .ttl_s = 60, .first = GATEWAY, .n = 1 },
	{ .name = "half.test", .ttl_s = 60, .first = 0x0affffff, .n = 2 }, /* and 11.0.0.0 */
	{ .name = "alias.test",
	  .alias = "x.private.test",
	  .ttl_s = 60,
	  .first = 0xc0a80101,
	  .n = 1 },
	{ .name = "zero.test", .ttl_s = 0, .first = SITE_ONE, .n = 1 },
	{ .name = "brief.test", .ttl_s = 1, .first = SITE_ONE, .n = 1 },
	{ .name = "hundred.test", .ttl_s = 60, .first = 0xc6336464, .n = 100 },
	{ .name = "slow.test",
	  .ttl_s = 60,
	  .first = SITE_ONE,
	  .n = 1,
	  .conduct = UPSTREAM_IS_SLOW },
	{ .name = "long.test",
	  .ttl_s = 60,
	  .first = SITE_ONE,
	  .n = 1,
	  .conduct = UPSTREAM_TRUNCATES },
	{ .name = "forged.test",
	  .ttl_s = 60,
	  .first = SITE_ONE,
	  .n = 1,
	  .conduct = UPSTREAM_IS_FORGED },
	{ .name = "fails.test", .ttl_s = 60, .first = SITE_ONE, .n = 1, .conduct = UPSTREAM_FAILS },
	{ .name = "silent.test",
	  .ttl_s = 60,
	  .first = SITE_ONE,
	  .n = 1,
	  .conduct = UPSTREAM_IS_SILENT },
	{ .name = "xn--bcher-kva.test", .ttl_s = 60, .first = SITE_ONE, .n = 1 },
	{ 0 },
};

/* What the second server knows better. */
static const struct upstream_name second_names[] = {
	{ .name = "fails.test", .ttl_s = 60, .first = SITE_TWO, .n = 1 },
	{ .name = "silent.test", .ttl_s = 60, .first = SITE_TWO, .n = 1 },
	{ 0 },
};

static struct rig *rig;
static struct upstream *upstream, *second;
static struct dns_resolver *resolver;
static struct dns_server *server;
static char scratch[SCRATCH_SIZE], resolv_conf[SCRATCH_SIZE + 16];

static void start_server(void *arg)
{
	const struct dns_server_config config = {
		.address = GATEWAY,
		.port = DNS_PORT,
		.clients = &rig->clients,
	};
	struct dns_server_config whole = config;
	struct err err = ERR_INIT;

	if (dns_resolver_new(rig->loop, resolv_conf, &resolver, &err) < 0)
		fail_msg("%s", err.message);
	whole.resolver = resolver;
	if (dns_server_new(rig->loop, &whole, &server, &err) < 0)
		fail_msg("%s", err.message);
}

static void stop_server(void *arg)
{
	dns_server_free(server);
	dns_resolver_free(resolver);
}

static void write_resolv_conf(const char *text)
{
	assert_int_equal(file_write_durable(resolv_conf, text, strlen(text), 0644), 0);
}

static int set_up(void **state)
{
	scratch_make(scratch);
	snprintf(resolv_conf, sizeof(resolv_conf), "%s/resolv.conf", scratch);
	write_resolv_conf("nameserver 127.0.0.2\nnameserver 127.0.0.3\n");
	upstream = upstream_new(UPSTREAM_ONE, names);
	second = upstream_new(UPSTREAM_TWO, second_names);
	rig = rig_new();
	loop_call(rig->loop, start_server, NULL);
	return 0;
}

static int tear_down(void **state)
{
	loop_call(rig->loop, stop_server, NULL);
	rig_free(rig);
	upstream_free(upstream);
	upstream_free(second);
	scratch_remove(scratch);
	return 0;
}

/* A reply, taken apart as far as the tests look. */
struct reply {
	bool came;
	int rcode;
	bool truncated;
	unsigned records;
	uint32_t addresses[128];
	uint32_t ttl_s;
	size_t n;
	char raw[4096];
	size_t raw_len;
};

static size_t skip_name(const uint8_t *data, size_t at)
{
	while (data[at] && (data[at] & 0xc0) == 0)
		at += (size_t)data[at] + 1;
	return at + (data[at] ? 2 : 1);
}

static void read_reply(const uint8_t *data, size_t len, struct reply *ret)
{
	size_t at = 12;

	*ret = (struct reply){ .came = true };
	assert_true(len >= 12 && len <= sizeof(ret->raw));
	memcpy(ret->raw, data, len);
	ret->raw_len = len;
	ret->rcode = data[3] & 0x0f;
	ret->truncated = data[2] & 0x02;
	ret->records = (unsigned)(data[6] << 8 | data[7]);
	if (data[5])
		at = skip_name(data, at) + 4;
	for (unsigned i = 0; i < ret->records; i++) {
		unsigned type, rdlen;

		at = skip_name(data, at);
		type = (unsigned)(data[at] << 8 | data[at + 1]);
		ret->ttl_s = (uint32_t)(data[at + 4] << 24 | data[at + 5] << 16 |
					data[at + 6] << 8 | data[at + 7]);
		rdlen = (unsigned)(data[at + 8] << 8 | data[at + 9]);
		at += 10;
		if (type == 1 && rdlen == 4 && ret->n < 128)
			ret->addresses[ret->n++] = (uint32_t)data[at] << 24 |
						   (uint32_t)data[at + 1] << 16 |
						   (uint32_t)data[at + 2] << 8 | data[at + 3];
		at += rdlen;
	}
	assert_true(at <= len);
}

static bool wait_for(int fd, int ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, ms) > 0;
}

static void send_to_server(int fd, const struct buf *message)
{
	const struct sockaddr_in to = rig_address(GATEWAY, DNS_PORT);

	assert_int_equal(sendto(fd, buf_str(message), message->len, 0, (const struct sockaddr *)&to,
				sizeof(to)),
			 message->len);
}

static struct reply exchange(uint32_t guest, const struct buf *message, int wait_ms)
{
	int fd = rig_guest_socket(guest, SOCK_DGRAM);
	struct reply reply = { 0 };
	uint8_t data[4096];

	send_to_server(fd, message);
	if (wait_for(fd, wait_ms)) {
		ssize_t n = recv(fd, data, sizeof(data), 0);

		assert_true(n > 0);
		read_reply(data, (size_t)n, &reply);
	}
	close(fd);
	return reply;
}

static struct buf question(const char *name, unsigned type)
{
	struct buf message = BUF_INIT;

	dns_put_header(&message, 77, 0x0100, 1, 0);
	dns_put_question(&message, name, type);
	return message;
}

static struct reply ask(uint32_t guest, const char *name, unsigned type)
{
	struct buf message = question(name, type);
	struct reply reply = { 0 };

	/* Datagrams get lost, above all in a flood: again, as resolvers do. */
	for (int i = 0; i < WAIT_MS / RETRY_MS && !reply.came; i++)
		reply = exchange(guest, &message, RETRY_MS);
	buf_clear(&message);
	assert_true(reply.came);
	return reply;
}

/* By TCP: several messages at once, that many replies back. */
static struct reply ask_tcp(uint32_t guest, const char *name, unsigned type, unsigned times)
{
	int fd = rig_guest_connect(guest, GATEWAY, DNS_PORT);
	struct buf out = BUF_INIT, one = question(name, type);
	struct reply reply = { 0 };

	assert_true(fd >= 0);
	for (unsigned i = 0; i < times; i++) {
		dns_put16(&out, (unsigned)one.len);
		buf_append(&out, one.data, one.len);
	}
	assert_int_equal(fd_write_all(fd, out.data, out.len), 0);
	for (unsigned i = 0; i < times; i++) {
		uint8_t head[2], data[4096];
		size_t len;

		assert_int_equal(fd_read_full(fd, head, 2), 2);
		len = (size_t)head[0] << 8 | head[1];
		assert_int_equal(fd_read_full(fd, data, len), len);
		read_reply(data, len, &reply);
	}
	close(fd);
	buf_clear(&out);
	buf_clear(&one);
	return reply;
}

static void test_allowed_name_is_answered_and_opened(void **state)
{
	int64_t before_ms = clock_boottime_ms();
	struct reply reply;

	rig_set_rules(rig, GUEST_A, "[\"one.test:443\"]");
	reply = ask(GUEST_A, "One.TEST", DNS_A);
	assert_int_equal(reply.rcode, DNS_NOERROR);
	assert_int_equal(reply.n, 1);
	assert_int_equal(reply.addresses[0], SITE_ONE);
	assert_int_equal(reply.ttl_s, 300);
	assert_memory_equal(reply.raw + 13, "One", 3);
	assert_true(rig_was_opened(rig, GUEST_A, "one.test", SITE_ONE));
	assert_true(rig->opened[0].expires_ms >= before_ms + 300 * 1000);
	assert_true(rig->opened[0].expires_ms <= clock_boottime_ms() + 300 * 1000);
	assert_int_equal(rig->n_denials, 0);
}

static void test_other_name_is_denied_and_goes_nowhere(void **state)
{
	struct rig_denial denial;
	struct reply reply;

	rig_set_rules(rig, GUEST_A, "[\"one.test\"]");
	reply = ask(GUEST_A, "secret-data.two.test", DNS_A);
	assert_int_equal(reply.rcode, DNS_NXDOMAIN);
	assert_int_equal(reply.records, 0);
	assert_int_equal(upstream_questions(upstream) + upstream_questions(second), 0);
	denial = rig_last_denial(rig, GUEST_A);
	assert_int_equal(denial.source, NET_DENIED_DNS);
	assert_string_equal(denial.name, "secret-data.two.test");
	assert_string_equal(denial.rule, "secret-data.two.test");
	assert_int_equal(rig_count_opened(rig, GUEST_A), 0);
}

/* What is not a name in every way that was tried on others. */
static void test_names_that_pretend(void **state)
{
	static const struct {
		const char *wire;
		size_t len;
	} cases[] = {
		{ "\12evil.test\0\3one\4test\0", 21 },
		{ "\10one.test\4evil\0", 15 },
		{ "\10one.test\0", 10 },
		{ "\3one\4test\4evil\4test\0", 20 },
		{ "\4xone\4test\0", 11 },
		{ "\1*\3one\4test\0", 12 },
		{ "\7one\xc2\xb7xx\4test\0", 14 },
		{ "\4test\0", 6 },
		{ "\0", 1 },
	};

	rig_set_rules(rig, GUEST_A, "[\"one.test\",\"*.one.test\"]");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf message = BUF_INIT;
		struct reply reply;

		dns_put_header(&message, 1, 0x0100, 1, 0);
		buf_append(&message, cases[i].wire, cases[i].len);
		dns_put16(&message, DNS_A);
		dns_put16(&message, 1);
		reply = exchange(GUEST_A, &message, WAIT_MS);
		buf_clear(&message);
		assert_true(reply.came);
		assert_int_equal(reply.rcode, DNS_NXDOMAIN);
	}
	assert_int_equal(upstream_questions(upstream), 0);
	assert_int_equal(rig_count_opened(rig, GUEST_A), 0);
}

static void test_international_name(void **state)
{
	struct reply reply;

	rig_set_rules(rig, GUEST_A,
		      "[\"b\xc3\xbc"
		      "cher.test\"]");
	reply = ask(GUEST_A, "XN--BCHER-KVA.test", DNS_A);
	assert_int_equal(reply.n, 1);
	assert_true(rig_was_opened(rig, GUEST_A, "xn--bcher-kva.test", SITE_ONE));
}

static void test_three_states(void **state)
{
	struct reply reply;

	rig_set_rules(rig, GUEST_A, "[]");
	assert_int_equal(ask(GUEST_A, "one.test", DNS_A).rcode, DNS_NXDOMAIN);
	assert_int_equal(upstream_questions(upstream), 0);
	rig_set_rules(rig, GUEST_A, "null");
	reply = ask(GUEST_A, "one.test", DNS_A);
	assert_int_equal(reply.n, 1);
	assert_int_equal(rig_count_opened(rig, GUEST_A), 0); /* all is open: nothing to open */
	assert_int_equal(ask(GUEST_A, "nowhere.test", DNS_A).rcode, DNS_NXDOMAIN);
	rig_set_rules(rig, GUEST_A, "[]");
	assert_int_equal(ask(GUEST_A, "one.test", DNS_A).rcode, DNS_NXDOMAIN); /* cached or not */
}

/* The rules that count are those of the moment of the answer. */
static void test_rules_that_change_meanwhile(void **state)
{
	int fd = rig_guest_socket(GUEST_A, SOCK_DGRAM);
	struct buf message = question("slow.test", DNS_A);
	struct reply reply;
	uint8_t data[4096];
	ssize_t n;

	rig_set_rules(rig, GUEST_A, "[\"slow.test\"]");
	send_to_server(fd, &message);
	while (upstream_questions(upstream) == 0)
		usleep(1000);
	rig_set_rules(rig, GUEST_A, "[\"one.test\"]");
	assert_true(wait_for(fd, WAIT_MS));
	n = recv(fd, data, sizeof(data), 0);
	read_reply(data, (size_t)n, &reply);
	assert_int_equal(reply.rcode, DNS_NXDOMAIN);
	assert_int_equal(rig_count_opened(rig, GUEST_A), 0);
	buf_clear(&message);
	close(fd);
}

static void test_rebinding(void **state)
{
	static const char *const private[] = { "rebind.test", "loop.test", "metadata.test",
					       "cgnat.test", "alias.test" };
	static const char *const rules[] = { "[\"*.test\"]", "null" };

	for (size_t k = 0; k < ARRAY_SIZE(rules); k++) {
		rig_set_rules(rig, GUEST_A, rules[k]);
		for (size_t i = 0; i < ARRAY_SIZE(private); i++) {
			struct rig_denial denial;
			struct reply reply = ask(GUEST_A, private[i], DNS_A);

			assert_int_equal(reply.rcode, DNS_NOERROR);
			assert_int_equal(reply.n, 0);
			denial = rig_last_denial(rig, GUEST_A);
			assert_string_equal(denial.name, private[i]);
			assert_non_null(strstr(denial.reason, "always denied"));
			assert_string_equal(denial.rule, ""); /* no rule would help */
		}
	}
	assert_int_equal(rig_count_opened(rig, GUEST_A), 0);
}

static void test_answer_that_is_half_private(void **state)
{
	struct reply reply;

	rig_set_rules(rig, GUEST_A, "[\"half.test\"]");
	reply = ask(GUEST_A, "half.test", DNS_A);
	assert_int_equal(reply.n, 1);
	assert_int_equal(reply.addresses[0], 0x0b000000);
	assert_int_equal(rig_count_opened(rig, GUEST_A), 1);
	assert_true(rig_was_opened(rig, GUEST_A, "half.test", 0x0b000000));
}

/* The alias needs no rule, and gets none: what is opened is opened for the name that was asked. */
static void test_alias(void **state)
{
	struct reply reply;

	rig_set_rules(rig, GUEST_A, "[\"www.one.test\"]");
	reply = ask(GUEST_A, "www.one.test", DNS_A);
	assert_int_equal(reply.n, 2);
	assert_int_equal(reply.records, 3);
	assert_true(rig_was_opened(rig, GUEST_A, "www.one.test", SITE_TWO));
	assert_true(rig_was_opened(rig, GUEST_A, "www.one.test", SITE_THREE));
	assert_int_equal(ask(GUEST_A, "edge.cdn.test", DNS_A).rcode, DNS_NXDOMAIN);
}

static void test_life_of_0_s(void **state)
{
	int64_t before_ms = clock_boottime_ms();
	struct reply reply;

	rig_set_rules(rig, GUEST_A, "[\"zero.test\"]");
	for (size_t i = 1; i <= 3; i++) {
		reply = ask(GUEST_A, "zero.test", DNS_A);
		assert_int_equal(reply.n, 1);
		assert_int_equal(reply.ttl_s, 0);
		assert_int_equal(upstream_questions(upstream), i); /* never kept */
	}
	assert_true(rig->opened[0].expires_ms >= before_ms + DNS_OPEN_MIN_S * 1000);
	assert_true(rig->opened[0].expires_ms <= clock_boottime_ms() + DNS_OPEN_MIN_S * 1000);
}

static void test_kept_until_it_expires(void **state)
{
	rig_set_rules(rig, GUEST_A, "[\"brief.test\",\"one.test\"]");
	assert_int_equal(ask(GUEST_A, "one.test", DNS_A).n, 1);
	assert_int_equal(ask(GUEST_A, "ONE.test", DNS_A).n, 1);
	assert_int_equal(upstream_questions(upstream), 1);
	assert_int_equal(rig_count_opened(rig, GUEST_A), 2); /* opened again with each answer */
	assert_int_equal(ask(GUEST_A, "brief.test", DNS_A).n, 1);
	poll(NULL, 0, 1100);
	assert_int_equal(ask(GUEST_A, "brief.test", DNS_A).n, 1);
	assert_int_equal(upstream_questions(upstream), 3);
}

static void test_a_hundred_addresses(void **state)
{
	struct reply reply;

	rig_set_rules(rig, GUEST_A, "[\"hundred.test\"]");
	reply = ask(GUEST_A, "hundred.test", DNS_A);
	assert_true(reply.truncated); /* 512 bytes are not enough for them */
	assert_int_equal(reply.n, 0);
	rig_clear_logs(rig);
	reply = ask_tcp(GUEST_A, "hundred.test", DNS_A, 1);
	assert_false(reply.truncated);
	assert_int_equal(reply.n, DNS_ADDRESSES_MAX);
	assert_int_equal(rig_count_opened(rig, GUEST_A), DNS_ADDRESSES_MAX);
	for (size_t i = 0; i < reply.n; i++)
		assert_true(rig_was_opened(rig, GUEST_A, "hundred.test", reply.addresses[i]));
}

static void test_types(void **state)
{
	rig_set_rules(rig, GUEST_A, "[\"one.test\"]");
	assert_int_equal(ask(GUEST_A, "one.test", DNS_AAAA).rcode, DNS_NOERROR);
	assert_int_equal(ask(GUEST_A, "one.test", DNS_HTTPS).rcode, DNS_NOERROR);
	assert_int_equal(upstream_questions(upstream), 0);
	assert_int_equal(ask(GUEST_A, "one.test", 255).rcode, DNS_REFUSED);
	assert_int_equal(ask(GUEST_A, "one.test", 252).rcode, DNS_REFUSED);
	assert_int_equal(ask(GUEST_A, "one.test", DNS_TXT).rcode, DNS_NOERROR);
	assert_int_equal(upstream_questions(upstream), 1);
	assert_int_equal(rig->n_denials, 0);
}

static void test_names_of_private_networks(void **state)
{
	struct reply reply;

	rig_set_rules(rig, GUEST_B, "null");
	reply = ask(GUEST_A, "DB.team.internal", DNS_A); /* whatever the rules are */
	assert_int_equal(reply.n, 1);
	assert_int_equal(reply.addresses[0], 0x64400107);
	assert_int_equal(reply.ttl_s, DNS_NETWORK_TTL_S);
	assert_int_equal(ask(GUEST_A, "db.team.internal", DNS_AAAA).rcode, DNS_NOERROR);
	assert_int_equal(ask(GUEST_A, "other.team.internal", DNS_A).rcode, DNS_NXDOMAIN);
	assert_int_equal(ask(GUEST_B, "db.team.internal", DNS_A).rcode, DNS_NXDOMAIN);
	assert_int_equal(ask(GUEST_B, "metadata.google.internal", DNS_A).rcode, DNS_NXDOMAIN);
	assert_int_equal(upstream_questions(upstream), 0);
	assert_int_equal(rig->n_denials, 0);
}

static void test_tcp(void **state)
{
	static const uint8_t too_long[] = { 0xff, 0xff, 1, 2, 3 };
	struct reply reply;
	char byte;
	int fd;

	rig_set_rules(rig, GUEST_A, "[\"one.test\"]");
	reply = ask_tcp(GUEST_A, "one.test", DNS_A, 5);
	assert_int_equal(reply.n, 1);
	assert_int_equal(ask_tcp(GUEST_A, "two.test", DNS_A, 1).rcode, DNS_NXDOMAIN);
	assert_string_equal(rig_last_denial(rig, GUEST_A).name, "two.test");
	fd = rig_guest_connect(GUEST_A, GATEWAY, DNS_PORT);
	assert_int_equal(fd_write_all(fd, too_long, sizeof(too_long)), 0);
	assert_true(wait_for(fd, WAIT_MS));
	assert_true(read(fd, &byte, 1) <= 0);
	close(fd);
}

static void test_connections_that_say_nothing_are_closed(void **state)
{
	int fd = rig_guest_connect(GUEST_A, GATEWAY, DNS_PORT);
	char byte;

	assert_int_equal(fd_write_all(fd, "\0", 1), 0);
	assert_true(wait_for(fd, WAIT_MS));
	assert_true(read(fd, &byte, 1) <= 0);
	close(fd);
}

static void test_connections_are_bounded(void **state)
{
	int fds[DNS_TCP_PER_CLIENT + 1];
	char byte;

	rig_set_rules(rig, GUEST_B, "[\"one.test\"]");
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = rig_guest_connect(GUEST_A, GATEWAY, DNS_PORT);
	assert_true(wait_for(fds[DNS_TCP_PER_CLIENT], WAIT_MS)); /* one too many: closed */
	assert_true(read(fds[DNS_TCP_PER_CLIENT], &byte, 1) <= 0);
	assert_int_equal(ask_tcp(GUEST_B, "one.test", DNS_A, 1).n, 1);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
}

static void test_strangers_hear_nothing(void **state)
{
	struct buf message = question("one.test", DNS_A);
	char byte;
	int fd;

	assert_false(exchange(STRANGER, &message, QUIET_MS).came);
	fd = rig_guest_connect(STRANGER, GATEWAY, DNS_PORT);
	assert_true(wait_for(fd, WAIT_MS));
	assert_true(read(fd, &byte, 1) <= 0);
	close(fd);
	buf_clear(&message);
	assert_int_equal(upstream_questions(upstream), 0);
}

static void test_malformed(void **state)
{
	struct buf message = question("one.test", DNS_A);
	struct reply reply;

	rig_set_rules(rig, GUEST_A, "null");
	message.len -= 3;
	reply = exchange(GUEST_A, &message, WAIT_MS);
	assert_int_equal(reply.rcode, DNS_FORMERR);
	message.data[2] = (char)0x81; /* an answer */
	assert_false(exchange(GUEST_A, &message, QUIET_MS).came);
	message.len = 11;
	message.data[2] = 1;
	assert_false(exchange(GUEST_A, &message, QUIET_MS).came);
	message.len = 0;
	assert_false(exchange(GUEST_A, &message, QUIET_MS).came);
	buf_clear(&message);
	assert_int_equal(ask(GUEST_A, "one.test", DNS_A).n, 1);
}

static void test_upstream_that_misbehaves(void **state)
{
	struct reply reply;

	rig_set_rules(rig, GUEST_A, "[\"*.test\"]");
	reply = ask(GUEST_A, "long.test", DNS_A); /* truncated: by TCP */
	assert_int_equal(reply.addresses[0], SITE_ONE);
	reply = ask(GUEST_A, "forged.test", DNS_A); /* the first answers are not heard */
	assert_int_equal(reply.n, 1);
	assert_int_equal(reply.addresses[0], SITE_ONE);
	reply = ask(GUEST_A, "fails.test", DNS_A); /* the second server knows */
	assert_int_equal(reply.n, 1);
	assert_int_equal(reply.addresses[0], SITE_TWO);
	reply = ask(GUEST_A, "silent.test", DNS_A);
	assert_int_equal(reply.addresses[0], SITE_TWO);
	assert_false(rig_was_opened(rig, GUEST_A, "forged.test", NOBODY));
}

static void test_no_upstream_at_all(void **state)
{
	loop_call(rig->loop, stop_server, NULL);
	write_resolv_conf("nameserver 127.0.0.4\nnameserver 127.0.0.5\n");
	loop_call(rig->loop, start_server, NULL);
	rig_set_rules(rig, GUEST_A, "null");
	assert_int_equal(ask(GUEST_A, "one.test", DNS_A).rcode, DNS_SERVFAIL);
}

static void test_new_resolvers_are_noticed(void **state)
{
	rig_set_rules(rig, GUEST_A, "null");
	assert_int_equal(ask(GUEST_A, "one.test", DNS_A).n, 1);
	write_resolv_conf("nameserver 127.0.0.3\n");
	poll(NULL, 0, DNS_RELOAD_MS + 100);
	assert_int_equal(ask(GUEST_A, "fails.test", DNS_A).addresses[0], SITE_TWO);
	assert_int_equal(upstream_questions(upstream), 1);
}

/* What one learned, the other is not told: not by the answer, and not by the time it takes. */
static void test_clients_are_apart(void **state)
{
	rig_set_rules(rig, GUEST_A, "[\"one.test\"]");
	rig_set_rules(rig, GUEST_B, "[\"one.test\"]");
	assert_int_equal(ask(GUEST_A, "one.test", DNS_A).n, 1);
	assert_int_equal(rig_count_opened(rig, GUEST_B), 0);
	assert_int_equal(ask(GUEST_B, "one.test", DNS_A).n, 1);
	assert_int_equal(upstream_questions(upstream), 2);
}

/* One client's flood of questions that nobody answers leaves the other's answered. */
static void test_flood(void **state)
{
	int fd = rig_guest_socket(GUEST_A, SOCK_DGRAM);
	struct buf message = question("silent.test", DNS_A);

	rig_set_rules(rig, GUEST_A, "[\"silent.test\"]");
	rig_set_rules(rig, GUEST_B, "[\"one.test\"]");
	for (int i = 0; i < 5000; i++)
		send_to_server(fd, &message);
	assert_int_equal(ask(GUEST_B, "one.test", DNS_A).n, 1);
	assert_true(upstream_questions(upstream) <= DNS_UDP_PENDING_MAX + 1);
	buf_clear(&message);
	close(fd);
}

static void forget_a(void *arg)
{
	dns_server_forget(server, GUEST_A);
}

static void test_client_that_goes(void **state)
{
	int fd = rig_guest_socket(GUEST_A, SOCK_DGRAM);
	int connection = rig_guest_connect(GUEST_A, GATEWAY, DNS_PORT);
	struct buf message = question("slow.test", DNS_A);
	char byte;

	rig_set_rules(rig, GUEST_A, "[\"slow.test\"]");
	send_to_server(fd, &message);
	while (upstream_questions(upstream) == 0)
		usleep(1000);
	loop_call(rig->loop, forget_a, NULL);
	assert_false(wait_for(fd, 2 * QUIET_MS));
	assert_true(wait_for(connection, WAIT_MS));
	assert_true(read(connection, &byte, 1) <= 0);
	assert_int_equal(rig_count_opened(rig, GUEST_A), 0);
	buf_clear(&message);
	close(connection);
	close(fd);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_allowed_name_is_answered_and_opened),
		TEST(test_other_name_is_denied_and_goes_nowhere),
		TEST(test_names_that_pretend),
		TEST(test_international_name),
		TEST(test_three_states),
		TEST(test_rules_that_change_meanwhile),
		TEST(test_rebinding),
		TEST(test_answer_that_is_half_private),
		TEST(test_alias),
		TEST(test_life_of_0_s),
		TEST(test_kept_until_it_expires),
		TEST(test_a_hundred_addresses),
		TEST(test_types),
		TEST(test_names_of_private_networks),
		TEST(test_tcp),
		TEST(test_connections_that_say_nothing_are_closed),
		TEST(test_connections_are_bounded),
		TEST(test_strangers_hear_nothing),
		TEST(test_malformed),
		TEST(test_upstream_that_misbehaves),
		TEST(test_no_upstream_at_all),
		TEST(test_new_resolvers_are_noticed),
		TEST(test_clients_are_apart),
		TEST(test_flood),
		TEST(test_client_that_goes),
	};

	rig_make_world();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
