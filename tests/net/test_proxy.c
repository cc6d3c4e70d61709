/*
 * The transparent proxy against real sockets: guests whose connections to 443 and 80 are steered to
 * it (here by nftables, in service by the egress program), sites behind another wire, and each
 * attack on host rules that goes by way of connections.
 */
#include "names_rig.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../unit/unit.h"
#include "base/alloc.h"
#include "base/str.h"
#include "net/proxy.h"
#include "net/proxy_tls.h"
#include "site.h"
#include "upstream.h"

#define UPSTREAM 0x7f000002U
#define WAIT_MS	 30000
#define QUIET_MS 300
#define BULK	 (32u * 1024 * 1024)

static const struct upstream_name names[] = {
	{ .name = "one.test", .ttl_s = 300, .first = SITE_ONE, .n = 1 },
	{ .name = "neighbour.test", .ttl_s = 300, .first = SITE_ONE, .n = 1 },
	{ .name = "two.test", .ttl_s = 300, .first = SITE_TWO, .n = 1 },
	{ .name = "cdn.test",
	  .alias = "edge.elsewhere.test",
	  .ttl_s = 60,
	  .first = SITE_TWO,
	  .n = 1 },
	{ .name = "both.test",
	  .ttl_s = 60,
	  .first = SITE_TWO,
	  .n = 2 }, /* 443 is open at the second */
	{ .name = "rebind.test", .ttl_s = 60, .first = 0x0a000001, .n = 1 },
	{ .name = "metadata.test", .ttl_s = 60, .first = 0xa9fea9fe, .n = 1 },
	{ .name = "alias.test",
	  .alias = "x.private.test",
	  .ttl_s = 60,
	  .first = 0xc0a80101,
	  .n = 1 },
	{ .name = "own.test", .ttl_s = 60, .first = HOST_PUBLIC, .n = 1 },
	{ .name = "three.test", .ttl_s = 60, .first = SITE_THREE, .n = 1 },
	{ .name = "closed.test", .ttl_s = 60, .first = SITE_TWO, .n = 1 },
	{ 0 },
};

static struct rig *rig;
static struct upstream *upstream;
static struct dns_resolver *resolver;
static struct proxy *proxy;
static struct site *tls_one, *tls_three, *http_one, *http_two, *http_three;
static char scratch[SCRATCH_SIZE], resolv_conf[SCRATCH_SIZE + 16];

static void start_proxy(void *arg)
{
	struct proxy_config config = { .address = GATEWAY, .clients = &rig->clients };
	struct err err = ERR_INIT;

	if (dns_resolver_new(rig->loop, resolv_conf, &resolver, &err) < 0)
		fail_msg("%s", err.message);
	config.resolver = resolver;
	if (proxy_new(rig->loop, &config, &proxy, &err) < 0)
		fail_msg("%s", err.message);
}

static void stop_proxy(void *arg)
{
	proxy_free(proxy);
	dns_resolver_free(resolver);
}

static void steer(uint16_t port)
{
	_cleanup_free_ char *command =
		xasprintf("nft -f - <<END\n"
			  "table ip test {\n"
			  "}\n"
			  "delete table ip test\n"
			  "table ip test {\n"
			  "  chain steer {\n"
			  "    type filter hook prerouting priority mangle\n"
			  "    iifname v0 ip daddr != 100.64.0.1 tcp dport { 80, 443 } "
			  "tproxy to 100.64.0.1:%u meta mark set 1 accept\n"
			  "  }\n"
			  "}\n"
			  "END\n",
			  (unsigned)port);

	rig_run(command);
}

static int set_up(void **state)
{
	static const char servers[] = "nameserver 127.0.0.2\n";

	scratch_make(scratch);
	snprintf(resolv_conf, sizeof(resolv_conf), "%s/resolv.conf", scratch);
	assert_int_equal(file_write_durable(resolv_conf, servers, sizeof(servers) - 1, 0644), 0);
	upstream = upstream_new(UPSTREAM, names);
	tls_one = site_new(SITE_ONE, 443, site_tls);
	tls_three = site_new(SITE_THREE, 443, site_echo);
	http_one = site_new(SITE_ONE, 80, site_http);
	http_two = site_new(SITE_TWO, 80, site_upgrades);
	http_three = site_new(SITE_THREE, 80, site_answers_at_end);
	rig = rig_new();
	loop_call(rig->loop, start_proxy, NULL);
	steer(proxy_port(proxy));
	return 0;
}

static int tear_down(void **state)
{
	loop_call(rig->loop, stop_proxy, NULL);
	rig_free(rig);
	site_free(tls_one);
	site_free(tls_three);
	site_free(http_one);
	site_free(http_two);
	site_free(http_three);
	upstream_free(upstream);
	scratch_remove(scratch);
	return 0;
}

static bool wait_for(int fd, int ms)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, ms) > 0;
}

/* Everything until the other side ends or resets; NULs and all. */
static struct buf read_all(int fd)
{
	struct buf all = BUF_INIT;
	char data[4096];
	ssize_t n;

	while (wait_for(fd, WAIT_MS) && (n = recv(fd, data, sizeof(data), 0)) > 0)
		buf_append(&all, data, (size_t)n);
	return all;
}

/* Reads until the text has come. */
static void expect(int fd, const char *text)
{
	_cleanup_buf_ struct buf all = BUF_INIT;
	char c = 0;

	while (!strstr(buf_str(&all), text)) {
		if (!wait_for(fd, WAIT_MS) || recv(fd, &c, 1, 0) <= 0)
			fail_msg("'%s' did not come, but: %s", text, buf_str(&all));
		buf_append_char(&all, c);
	}
}

static void send_text(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static int dial(uint32_t guest, uint32_t address, uint16_t port)
{
	int fd = rig_guest_connect(guest, address, port);

	assert_true(fd >= 0);
	return fd;
}

/* A handshake with OpenSSL; NULL when it fails. */
struct tls {
	SSL_CTX *context;
	SSL *ssl;
	int fd;
};

static bool tls_open(struct tls *tls, uint32_t guest, uint32_t address, const char *name)
{
	tls->context = SSL_CTX_new(TLS_client_method());
	tls->ssl = SSL_new(tls->context);
	tls->fd = dial(guest, address, 443);
	SSL_set_fd(tls->ssl, tls->fd);
	if (name)
		SSL_set_tlsext_host_name(tls->ssl, name);
	return SSL_connect(tls->ssl) == 1;
}

static void tls_close(struct tls *tls)
{
	SSL_free(tls->ssl);
	SSL_CTX_free(tls->context);
	close(tls->fd);
}

static void tls_expect(struct tls *tls, const char *text)
{
	_cleanup_buf_ struct buf all = BUF_INIT;
	char c = 0;

	while (!strstr(buf_str(&all), text)) {
		if (SSL_read(tls->ssl, &c, 1) != 1)
			fail_msg("'%s' did not come, but: %s", text, buf_str(&all));
		buf_append_char(&all, c);
	}
}

/* A hello as OpenSSL writes it for this name. */
static struct buf hello_for(const char *name)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(context);
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	struct buf hello = BUF_INIT;
	char *data = NULL;
	long len;

	SSL_set_bio(ssl, in, out);
	if (name)
		SSL_set_tlsext_host_name(ssl, name);
	SSL_connect(ssl);
	len = BIO_get_mem_data(out, &data);
	buf_append(&hello, data, (size_t)len);
	SSL_free(ssl);
	SSL_CTX_free(context);
	return hello;
}

/* Sends bytes to a port 443 that the guest chose, and expects this alert and the end. */
static void assert_alert(const void *data, size_t len, enum tls_alert alert)
{
	uint8_t wanted[TLS_ALERT_SIZE];
	int fd = dial(GUEST_A, NOBODY, 443);
	struct buf answer;

	assert_int_equal(send(fd, data, len, MSG_NOSIGNAL), len);
	answer = read_all(fd);
	tls_alert_make(alert, wanted);
	assert_int_equal(answer.len, TLS_ALERT_SIZE);
	assert_memory_equal(answer.data, wanted, TLS_ALERT_SIZE);
	buf_clear(&answer);
	close(fd);
}

static size_t all_connections(void)
{
	return site_connections(tls_one) + site_connections(tls_three) +
	       site_connections(http_one) + site_connections(http_two) +
	       site_connections(http_three);
}

static void test_tls_goes_to_the_site_and_back(void **state)
{
	struct tls tls;

	rig_set_rules(rig, GUEST_A, "[\"One.test:443\"]");
	assert_true(tls_open(&tls, GUEST_A, SITE_ONE, "one.test"));
	tls_expect(&tls, "site 1 as one.test\n");
	assert_int_equal(SSL_write(tls.ssl, "hello", 5), 5);
	tls_expect(&tls, "hello");
	tls_close(&tls);
	assert_int_equal(rig->n_denials, 0);
}

/* A guest whose /etc/hosts says that the name is elsewhere: it is not asked. */
static void test_the_guest_does_not_choose_the_address(void **state)
{
	struct tls tls;

	rig_set_rules(rig, GUEST_A, "[\"one.test:443\"]");
	assert_true(tls_open(&tls, GUEST_A, SITE_THREE, "one.test"));
	tls_expect(&tls, "site 1 as one.test\n");
	tls_close(&tls);
	assert_true(tls_open(&tls, GUEST_A, NOBODY, "one.test"));
	tls_expect(&tls, "site 1 as one.test\n");
	tls_close(&tls);
	assert_int_equal(site_connections(tls_three), 0);
}

static void test_neighbour_on_the_same_address(void **state)
{
	struct rig_denial denial;
	struct tls tls;

	rig_set_rules(rig, GUEST_A, "[\"one.test\"]");
	assert_false(tls_open(&tls, GUEST_A, SITE_ONE, "neighbour.test"));
	tls_close(&tls);
	denial = rig_last_denial(rig, GUEST_A);
	assert_int_equal(denial.source, NET_DENIED_TLS);
	assert_string_equal(denial.name, "neighbour.test");
	assert_int_equal(denial.port, 443);
	assert_int_equal(denial.address, SITE_ONE);
	assert_string_equal(denial.rule, "neighbour.test:443");
	rig_set_rules(rig, GUEST_A, "[\"one.test\", \"neighbour.test:443\"]"); /* as it says */
	assert_true(tls_open(&tls, GUEST_A, SITE_ONE, "neighbour.test"));
	tls_close(&tls);
	assert_int_equal(site_connections(tls_one), 1);
}

static void test_ports_of_rules(void **state)
{
	struct tls tls;

	rig_set_rules(rig, GUEST_A, "[\"one.test:80\", \"udp://one.test:443\", \"*.one.test\"]");
	assert_false(tls_open(&tls, GUEST_A, SITE_ONE, "one.test"));
	tls_close(&tls);
	assert_int_equal(site_connections(tls_one), 0);
}

static void test_hellos_that_name_nobody(void **state)
{
	static const struct {
		const char *from, *to; /* what is changed in the name, byte by byte */
		size_t len;
	} names_inside[] = {
		{ "aaaa.one.test", "evil\0one.test", 13 }, { "aaaa.one.test", "aaa.one.test.", 13 },
		{ "aaaa.one.test", "198.51.100.12", 13 },  { "aaaa.one.test", "aaaa one.test", 13 },
		{ "aaaa.one.test", "aaaa..ne.test", 13 },
	};
	struct buf hello;

	rig_set_rules(rig, GUEST_A, "[\"one.test\", \"*.one.test\", \"*.test\"]");
	for (size_t i = 0; i < ARRAY_SIZE(names_inside); i++) {
		char *at;

		hello = hello_for(names_inside[i].from);
		at = memmem(hello.data, hello.len, names_inside[i].from, names_inside[i].len);
		assert_non_null(at);
		memcpy(at, names_inside[i].to, names_inside[i].len);
		assert_alert(hello.data, hello.len, TLS_ALERT_ACCESS_DENIED);
		buf_clear(&hello);
	}
	hello = hello_for(NULL);
	assert_alert(hello.data, hello.len, TLS_ALERT_MISSING_EXTENSION);
	assert_non_null(strstr(rig_last_denial(rig, GUEST_A).reason, "no server"));
	buf_clear(&hello);
	assert_int_equal(all_connections(), 0);
}

/* An extension of the hello (the first after the name: ec_point_formats) becomes ECH's. */
static void test_encrypted_hello(void **state)
{
	struct buf hello = hello_for("one.test");
	char *at = memmem(hello.data, hello.len, "\0\13\0\4\3\0\1\2", 8);

	assert_non_null(at);
	at[0] = (char)0xfe;
	at[1] = 0x0d;
	rig_set_rules(rig, GUEST_A, "[\"one.test\"]");
	assert_alert(hello.data, hello.len, TLS_ALERT_ACCESS_DENIED);
	assert_non_null(strstr(rig_last_denial(rig, GUEST_A).reason, "ECH"));
	assert_int_equal(all_connections(), 0);
	buf_clear(&hello);
}

/* The server asks for a second hello, and the client takes the chance to name another site. */
static void test_second_hello(void **state)
{
	static const char *const seconds[] = { "two.test", "neighbour.test" };
	struct site *site = site_new(SITE_TWO, 443, site_asks_again);
	struct buf first = hello_for("two.test");

	rig_set_rules(rig, GUEST_A, "[\"two.test\", \"neighbour.test\"]");
	for (size_t i = 0; i < ARRAY_SIZE(seconds); i++) {
		struct buf second = hello_for(seconds[i]), answer;
		int fd = dial(GUEST_A, NOBODY, 443);
		uint8_t request[49];

		assert_int_equal(fd_write_all(fd, first.data, first.len), 0);
		assert_int_equal(fd_read_full(fd, request, sizeof(request)), sizeof(request));
		assert_int_equal(fd_write_all(fd, second.data, second.len), 0);
		if (i == 0)
			shutdown(fd, SHUT_WR);
		answer = read_all(fd);
		assert_int_equal(answer.len, i == 0 ? second.len : TLS_ALERT_SIZE);
		assert_int_equal(answer.data[0], i == 0 ? 22 : 21);
		buf_clear(&answer);
		buf_clear(&second);
		close(fd);
	}
	assert_non_null(strstr(rig_last_denial(rig, GUEST_A).reason, "second TLS hello"));
	site_free(site);
	buf_clear(&first);
}

static void test_what_is_no_tls(void **state)
{
	rig_set_rules(rig, GUEST_A, "[\"one.test\"]");
	assert_alert("GET / HTTP/1.1\r\nHost: one.test\r\n\r\n", 35, TLS_ALERT_DECODE_ERROR);
	assert_alert("SSH-2.0-OpenSSH_9\r\n", 19, TLS_ALERT_DECODE_ERROR);
	assert_int_equal(all_connections(), 0);
}

static void test_hello_in_pieces(void **state)
{
	struct buf hello = hello_for("one.test"), answer;
	int fd = dial(GUEST_A, SITE_ONE, 443);

	rig_set_rules(rig, GUEST_A, "[\"one.test\"]");
	for (size_t i = 0; i < hello.len; i++) {
		assert_int_equal(send(fd, hello.data + i, 1, MSG_NOSIGNAL), 1);
		if (i % 50 == 0)
			usleep(1000);
	}
	shutdown(fd, SHUT_WR);
	answer = read_all(fd); /* the site's hello: the site has understood ours */
	assert_true(answer.len > 6);
	assert_int_equal(answer.data[0], 22);
	assert_int_equal(answer.data[5], 2);
	buf_clear(&answer);
	buf_clear(&hello);
	close(fd);
}

static void test_addresses_that_are_always_denied(void **state)
{
	static const char *const private[] = { "rebind.test", "metadata.test", "alias.test" };
	struct tls tls;

	rig_set_rules(rig, GUEST_A, "[\"*.test\"]");
	for (size_t i = 0; i < ARRAY_SIZE(private); i++) {
		assert_false(tls_open(&tls, GUEST_A, SITE_ONE, private[i]));
		tls_close(&tls);
		assert_string_equal(rig_last_denial(rig, GUEST_A).name, private[i]);
		assert_string_equal(rig_last_denial(rig, GUEST_A).rule, "");
	}
	assert_int_equal(all_connections(), 0);
}

/* A name of the host's own public address would be a way to its other services. */
static void test_the_host_itself(void **state)
{
	struct site *own = site_new(HOST_PUBLIC, 443, site_tls);
	struct tls tls;

	rig_set_rules(rig, GUEST_A, "[\"own.test\"]");
	assert_false(tls_open(&tls, GUEST_A, SITE_ONE, "own.test"));
	tls_close(&tls);
	assert_non_null(strstr(rig_last_denial(rig, GUEST_A).reason, "always denied"));
	assert_int_equal(site_connections(own), 0);
	site_free(own);
}

static void test_alias_and_second_address(void **state)
{
	struct buf hello = hello_for("both.test"), answer;
	int fd = dial(GUEST_A, NOBODY, 443);

	rig_set_rules(rig, GUEST_A, "[\"both.test\", \"cdn.test\"]");
	assert_int_equal(send(fd, hello.data, hello.len, MSG_NOSIGNAL), hello.len);
	shutdown(fd, SHUT_WR);
	answer = read_all(fd); /* the first address refuses; the second, an echo, has it all */
	assert_int_equal(answer.len, hello.len);
	assert_memory_equal(answer.data, hello.data, hello.len);
	close(fd);
	fd = dial(GUEST_A, NOBODY, 80);
	send_text(fd, "GET / HTTP/1.1\r\nHost: cdn.test\r\nUpgrade: websocket\r\n\r\n");
	expect(fd, "101 Switching");
	close(fd);
	buf_clear(&answer);
	buf_clear(&hello);
}

static void test_site_that_does_not_answer(void **state)
{
	uint8_t wanted[TLS_ALERT_SIZE];
	struct buf hello = hello_for("closed.test"), answer;
	int fd = dial(GUEST_A, SITE_TWO, 443);

	rig_set_rules(rig, GUEST_A, "[\"*.test\"]");
	send(fd, hello.data, hello.len, MSG_NOSIGNAL);
	answer = read_all(fd);
	tls_alert_make(TLS_ALERT_INTERNAL_ERROR, wanted);
	assert_memory_equal(answer.data, wanted, TLS_ALERT_SIZE);
	close(fd);
	buf_clear(&answer);
	fd = dial(GUEST_A, SITE_TWO, 80);
	send_text(fd, "GET / HTTP/1.1\r\nHost: nowhere.test\r\n\r\n");
	expect(fd, "HTTP/1.1 502 ");
	expect(fd, "has no address");
	assert_int_equal(rig->n_denials, 0); /* a fault, not a denial */
	close(fd);
	buf_clear(&hello);
}

static void test_http(void **state)
{
	int fd = dial(GUEST_A, NOBODY, 80);

	rig_set_rules(rig, GUEST_A, "[\"one.test:80\"]");
	send_text(fd, "GET /a HTTP/1.1\r\nHOST: One.Test.\r\nX: y\r\n\r\n");
	expect(fd, "site 1: GET /a HTTP/1.1\r\nHost: one.test\r\nX: y\r\n\r\n");
	send_text(fd, "GET http://one.test/b HTTP/1.1\r\nHost: one.test:80\r\n\r\n");
	expect(fd, "site 1: GET http://one.test/b HTTP/1.1\r\nHost: one.test:80\r\n\r\n");
	close(fd);
	assert_int_equal(rig->n_denials, 0);
}

static void test_http_denied(void **state)
{
	int fd = dial(GUEST_A, SITE_ONE, 80);
	struct rig_denial denial;

	rig_set_rules(rig, GUEST_A, "[\"one.test\"]");
	send_text(fd, "GET / HTTP/1.1\r\nHost: neighbour.test\r\n\r\n");
	expect(fd, "HTTP/1.1 403 Forbidden\r\n");
	expect(fd, "would allow it: neighbour.test:80\n");
	assert_int_equal(recv(fd, &(char){ 0 }, 1, 0), 0);
	close(fd);
	denial = rig_last_denial(rig, GUEST_A);
	assert_int_equal(denial.source, NET_DENIED_HTTP);
	assert_string_equal(denial.rule, "neighbour.test:80");
	assert_int_equal(all_connections(), 0);
}

static void test_http_that_is_refused(void **state)
{
	static const char *const cases[] = {
		"GET / HTTP/1.1\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: one.test\r\nHost: neighbour.test\r\n\r\n",
		"GET http://neighbour.test/ HTTP/1.1\r\nHost: one.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: 198.51.100.1\r\n\r\n",
		"CONNECT one.test:443 HTTP/1.1\r\nHost: one.test\r\n\r\n",
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET / HTTP/1.1\nHost: one.test\n\r\n\r\n",
		"\x16\x03\x01\x02\x00\x01\x00",
	};

	rig_set_rules(rig, GUEST_A, "[\"one.test\"]");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		int fd = dial(GUEST_A, SITE_ONE, 80);

		send_text(fd, cases[i]);
		expect(fd, "HTTP/1.1 4");
		close(fd);
	}
	assert_int_equal(all_connections(), 0);
}

/* The neighbour's request rides on a connection that is allowed. */
static void test_second_request_for_the_neighbour(void **state)
{
	static const char *const first[] = {
		"GET /1 HTTP/1.1\r\nHost: one.test\r\n\r\n",
		"POST /1 HTTP/1.1\r\nHost: one.test\r\nContent-Length: 0\r\n\r\n",
	};
	static const char second[] = "GET /2 HTTP/1.1\r\nHost: neighbour.test\r\n\r\n";

	rig_set_rules(rig, GUEST_A, "[\"one.test\", \"neighbour.test\"]");
	for (size_t i = 0; i < 2 * ARRAY_SIZE(first); i++) {
		int fd = dial(GUEST_A, SITE_ONE, 80);
		struct buf answer;

		if (i % 2) { /* in one piece */
			_cleanup_free_ char *both = xasprintf("%s%s", first[i / 2], second);

			send_text(fd, both);
		} else {
			send_text(fd, first[i / 2]);
			expect(fd, "site 1: ");
			send_text(fd, second);
		}
		answer = read_all(fd);
		assert_non_null(strstr(buf_str(&answer), "HTTP/1.1 403 Forbidden"));
		assert_null(strstr(buf_str(&answer), "/2"));
		assert_non_null(strstr(rig_last_denial(rig, GUEST_A).reason, "another Host"));
		buf_clear(&answer);
		close(fd);
	}
}

static void test_websocket(void **state)
{
	int fd = dial(GUEST_A, NOBODY, 80);

	rig_set_rules(rig, GUEST_A, "[\"two.test\"]");
	send_text(fd, "GET /s HTTP/1.1\r\nHost: two.test\r\nConnection: Upgrade\r\n"
		      "Upgrade: websocket\r\n\r\nearly frame;");
	expect(fd, "101 Switching Protocols");
	expect(fd, "early frame;");
	send_text(fd, "\x81\x02 GET / HTTP/1.1\r\nHost: neighbour.test\r\n\r\n;");
	expect(fd, "Host: neighbour.test\r\n\r\n;"); /* bytes of the WebSocket, to its own site */
	close(fd);
}

/* A guest that calls it a WebSocket, to a site that does not. */
static void test_websocket_that_is_none(void **state)
{
	int fd = dial(GUEST_A, SITE_ONE, 80);
	struct buf answer;

	rig_set_rules(rig, GUEST_A, "[\"one.test\"]");
	send_text(fd, "GET /1 HTTP/1.1\r\nHost: one.test\r\nConnection: Upgrade\r\n"
		      "Upgrade: websocket\r\n\r\nGET /2 HTTP/1.1\r\nHost: neighbour.test\r\n\r\n");
	answer = read_all(fd);
	assert_non_null(strstr(buf_str(&answer), "site 1: GET /1"));
	assert_null(strstr(buf_str(&answer), "/2"));
	buf_clear(&answer);
	close(fd);
}

/* The client ends first; what it sent and what it is told arrive all the same. */
static void test_half_close(void **state)
{
	struct buf answer;
	int fd = dial(GUEST_A, NOBODY, 80);

	rig_set_rules(rig, GUEST_A, "[\"three.test\"]");
	send_text(fd, "POST / HTTP/1.1\r\nHost: three.test\r\nContent-Length: 5\r\n\r\nabcde");
	shutdown(fd, SHUT_WR);
	answer = read_all(fd);
	assert_string_equal(buf_str(&answer), "61 bytes");
	buf_clear(&answer);
	close(fd);
}

/* More than all buffers on the way hold, to a site that reads slowly or not at all. */
static void *send_bulk(void *arg)
{
	static const uint8_t zeros[65536];
	int fd = *(int *)arg;

	for (size_t sent = 0; sent < BULK; sent += sizeof(zeros)) {
		if (fd_write_all(fd, zeros, sizeof(zeros)) < 0)
			break;
	}
	shutdown(fd, SHUT_WR);
	return NULL;
}

static void test_bulk_both_ways(void **state)
{
	struct buf hello = hello_for("both.test");
	int fd = dial(GUEST_A, NOBODY, 443);
	uint8_t *data = xmalloc(65536);
	size_t total = 0;
	pthread_t thread;
	ssize_t n;

	rig_set_rules(rig, GUEST_A, "[\"both.test\"]");
	assert_int_equal(send(fd, hello.data, hello.len, MSG_NOSIGNAL), hello.len);
	assert_int_equal(pthread_create(&thread, NULL, send_bulk, &fd), 0);
	usleep(500000); /* nobody reads the echo: everything comes to rest on the way */
	while (wait_for(fd, WAIT_MS) && (n = recv(fd, data, 65536, 0)) > 0)
		total += (size_t)n;
	pthread_join(thread, NULL);
	assert_int_equal(total, BULK + hello.len);
	free(data);
	close(fd);
	buf_clear(&hello);
}

static void recheck_a(void *arg)
{
	proxy_recheck(proxy, GUEST_A);
}

static void forget_a(void *arg)
{
	proxy_forget(proxy, GUEST_A);
}

static void test_tightening_cuts(void **state)
{
	struct tls one, other;
	char byte;

	rig_set_rules(rig, GUEST_A, "[\"one.test\", \"neighbour.test\"]");
	assert_true(tls_open(&one, GUEST_A, SITE_ONE, "one.test"));
	assert_true(tls_open(&other, GUEST_A, SITE_ONE, "neighbour.test"));
	tls_expect(&one, "site 1 as one.test\n");
	tls_expect(&other, "site 1 as neighbour.test\n");
	rig_set_rules(rig, GUEST_A, "[\"neighbour.test\"]");
	loop_call(rig->loop, recheck_a, NULL);
	assert_true(SSL_read(one.ssl, &byte, 1) <= 0);
	assert_int_equal(SSL_write(other.ssl, "still here", 10), 10);
	tls_expect(&other, "still here");
	loop_call(rig->loop, forget_a, NULL);
	assert_true(SSL_read(other.ssl, &byte, 1) <= 0);
	tls_close(&one);
	tls_close(&other);
}

static void test_states_without_rules(void **state)
{
	struct tls tls;

	rig_set_rules(rig, GUEST_A, "[]");
	assert_false(tls_open(&tls, GUEST_A, SITE_ONE, "one.test"));
	tls_close(&tls);
	rig_set_rules(rig, GUEST_A, "null");
	assert_true(tls_open(&tls, GUEST_A, SITE_ONE, "one.test"));
	tls_close(&tls);
}

static void test_connections_are_bounded(void **state)
{
	int fds[PROXY_PER_CLIENT + 1];
	struct tls tls;
	char byte;

	rig_set_rules(rig, GUEST_A, "[\"one.test\"]");
	rig_set_rules(rig, GUEST_B, "[\"one.test\"]");
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		fds[i] = dial(GUEST_A, SITE_ONE, 443);
	assert_true(wait_for(fds[PROXY_PER_CLIENT], WAIT_MS));
	assert_true(recv(fds[PROXY_PER_CLIENT], &byte, 1, 0) <= 0);
	assert_non_null(strstr(rig_last_denial(rig, GUEST_A).reason, "too many connections"));
	assert_true(tls_open(&tls, GUEST_B, SITE_ONE, "one.test"));
	tls_close(&tls);
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
}

/* One says nothing, one says a byte now and then: neither keeps its place. */
static void test_names_are_not_waited_for_long(void **state)
{
	int silent = dial(GUEST_A, SITE_ONE, 443), slow = dial(GUEST_A, SITE_ONE, 80);
	bool cut = false;

	for (int i = 0; i < WAIT_MS / 500 && !cut; i++) {
		send(slow, "G", 1, MSG_NOSIGNAL);
		cut = wait_for(slow, 500) && recv(slow, &(char){ 0 }, 1, 0) <= 0;
	}
	assert_true(cut);
	assert_true(wait_for(silent, WAIT_MS));
	assert_true(recv(silent, &(char){ 0 }, 1, 0) <= 0);
	close(silent);
	close(slow);
}

static void test_strangers_and_the_proxy_itself(void **state)
{
	char byte;
	int fd = dial(STRANGER, SITE_ONE, 443);

	assert_true(wait_for(fd, WAIT_MS));
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
	fd = dial(GUEST_A, GATEWAY, proxy_port(proxy));
	assert_true(wait_for(fd, WAIT_MS));
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_tls_goes_to_the_site_and_back),
		TEST(test_the_guest_does_not_choose_the_address),
		TEST(test_neighbour_on_the_same_address),
		TEST(test_ports_of_rules),
		TEST(test_hellos_that_name_nobody),
		TEST(test_encrypted_hello),
		TEST(test_second_hello),
		TEST(test_what_is_no_tls),
		TEST(test_hello_in_pieces),
		TEST(test_addresses_that_are_always_denied),
		TEST(test_the_host_itself),
		TEST(test_alias_and_second_address),
		TEST(test_site_that_does_not_answer),
		TEST(test_http),
		TEST(test_http_denied),
		TEST(test_http_that_is_refused),
		TEST(test_second_request_for_the_neighbour),
		TEST(test_websocket),
		TEST(test_websocket_that_is_none),
		TEST(test_half_close),
		TEST(test_bulk_both_ways),
		TEST(test_tightening_cuts),
		TEST(test_states_without_rules),
		TEST(test_connections_are_bounded),
		TEST(test_names_are_not_waited_for_long),
		TEST(test_strangers_and_the_proxy_itself),
	};

	signal(SIGPIPE, SIG_IGN);
	rig_make_world();
	rig_run("ip rule add fwmark 1 lookup 100\n"
		"ip route add local default dev lo table 100\n");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
