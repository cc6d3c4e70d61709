/* The sites' threads and their conduct. */
#include "site.h"

#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "names_rig.h"

#define CONNECTIONS_MAX 512
#define HEAD_MAX	65536

struct site_connection {
	struct site *site;
	int fd;
	pthread_t thread;
};

struct site {
	uint32_t address;
	int fd;
	site_fn fn;
	pthread_t thread;
	struct site_connection connections[CONNECTIONS_MAX];
	atomic_size_t n;
};

static void *serve_connection(void *arg)
{
	struct site_connection *connection = arg;

	connection->site->fn(connection->site, connection->fd);
	shutdown(connection->fd,
		 SHUT_RDWR); /* closed in site_free, so that no number is used twice */
	return NULL;
}

static void *serve(void *arg)
{
	struct site *site = arg;
	int fd;

	while ((fd = accept(site->fd, NULL, NULL)) >= 0) {
		struct site_connection *connection = &site->connections[site->n];

		*connection = (struct site_connection){ .site = site, .fd = fd };
		pthread_create(&connection->thread, NULL, serve_connection, connection);
		if (++site->n == CONNECTIONS_MAX)
			break;
	}
	return NULL;
}

struct site *site_new(uint32_t address, uint16_t port, site_fn fn)
{
	struct site *site = xcalloc(1, sizeof(*site));

	site->address = address;
	site->fn = fn;
	site->fd = rig_site_listen(address, port);
	assert_int_equal(pthread_create(&site->thread, NULL, serve, site), 0);
	return site;
}

void site_free(struct site *site)
{
	shutdown(site->fd, SHUT_RDWR);
	pthread_join(site->thread, NULL);
	for (size_t i = 0; i < site->n; i++) {
		shutdown(site->connections[i].fd, SHUT_RDWR);
		pthread_join(site->connections[i].thread, NULL);
		close(site->connections[i].fd);
	}
	close(site->fd);
	free(site);
}

size_t site_connections(struct site *site)
{
	return atomic_load(&site->n);
}

uint32_t site_address(const struct site *site)
{
	return site->address;
}

void site_echo(struct site *site, int fd)
{
	char data[65536];
	ssize_t n;

	while ((n = read(fd, data, sizeof(data))) > 0) {
		if (fd_write_all(fd, data, (size_t)n) < 0)
			return;
	}
}

/* One head, without what follows it; false at the end. */
static bool read_head(int fd, struct buf *head)
{
	char c;

	buf_reset(head);
	while (head->len < HEAD_MAX && read(fd, &c, 1) == 1) {
		buf_append_char(head, c);
		if (head->len >= 4 && memcmp(head->data + head->len - 4, "\r\n\r\n", 4) == 0)
			return true;
	}
	return false;
}

void site_http(struct site *site, int fd)
{
	_cleanup_buf_ struct buf head = BUF_INIT;
	_cleanup_buf_ struct buf out = BUF_INIT;

	while (read_head(fd, &head)) {
		_cleanup_free_ char *body =
			xasprintf("site %u: %s", site->address & 0xff, head.data);

		buf_reset(&out);
		buf_printf(&out, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(body),
			   body);
		if (fd_write_all(fd, out.data, out.len) < 0)
			return;
	}
}

void site_upgrades(struct site *site, int fd)
{
	static const char answer[] =
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";
	_cleanup_buf_ struct buf head = BUF_INIT;

	if (read_head(fd, &head) && fd_write_all(fd, answer, sizeof(answer) - 1) == 0)
		site_echo(site, fd);
}

void site_asks_again(struct site *site, int fd)
{
	static const uint8_t request[] =
		"\x16\x03\x03\0\x2c\2\0\0\x28\3\3"
		"\xcf\x21\xad\x74\xe5\x9a\x61\x11\xbe\x1d\x8c\x02\x1e\x65\xb8\x91"
		"\xc2\xa2\x11\x16\x7a\xbb\x8c\x5e\x07\x9e\x09\xe2\xc8\xa8\x33\x9c"
		"\0\x13\x01\0\0\0";
	uint8_t head[5], body[65536];

	if (fd_read_full(fd, head, 5) == 5 &&
	    fd_read_full(fd, body, (size_t)head[3] << 8 | head[4]) > 0 &&
	    fd_write_all(fd, request, sizeof(request) - 1) == 0)
		site_echo(site, fd);
}

void site_answers_at_end(struct site *site, int fd)
{
	static char data[65536];
	size_t total = 0;
	char text[64];
	ssize_t n;
	int len;

	while ((n = read(fd, data, sizeof(data))) > 0)
		total += (size_t)n;
	len = snprintf(text, sizeof(text), "%zu bytes", total);
	fd_write_all(fd, text, (size_t)len);
}

/* A key and a certificate for anybody. */
static SSL_CTX *server_context(void)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	EVP_PKEY *key = EVP_EC_gen("P-256");
	X509 *certificate = X509_new();

	X509_set_version(certificate, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
	X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
	X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	X509_set_pubkey(certificate, key);
	X509_sign(certificate, key, EVP_sha256());
	SSL_CTX_use_certificate(context, certificate);
	SSL_CTX_use_PrivateKey(context, key);
	X509_free(certificate);
	EVP_PKEY_free(key);
	return context;
}

void site_tls(struct site *site, int fd)
{
	SSL_CTX *context = server_context();
	SSL *ssl = SSL_new(context);
	char data[4096];
	int n;

	SSL_set_fd(ssl, fd);
	if (SSL_accept(ssl) == 1) {
		const char *name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
		int len = snprintf(data, sizeof(data), "site %u as %s\n", site->address & 0xff,
				   name ? name : "nobody");

		SSL_write(ssl, data, len);
		while ((n = SSL_read(ssl, data, sizeof(data))) > 0)
			SSL_write(ssl, data, n);
		SSL_shutdown(ssl);
	}
	SSL_free(ssl);
	SSL_CTX_free(context);
}
