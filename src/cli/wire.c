/* A connection as a stream of bytes. See wire.h. */
#include "cli/wire.h"

#include <errno.h>
#include <string.h>
#include <curl/curl.h>

#include "base/alloc.h"
#include "base/str.h"
#include "cli/client.h"

struct wire {
	CURL *easy;
	int fd;
	char *host;   /* with its port, where the URL has one */
	char *prefix; /* "" or "/…", without a slash at its end */
};

static void take_apart(struct wire *wire, const char *url)
{
	CURLU *parsed = curl_url();
	char *host = NULL, *port = NULL, *path = NULL;
	size_t len;

	if (parsed && curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK) {
		curl_url_get(parsed, CURLUPART_HOST, &host, 0);
		curl_url_get(parsed, CURLUPART_PORT, &port, 0);
		curl_url_get(parsed, CURLUPART_PATH, &path, 0);
	}
	wire->host = xasprintf("%s%s%s", host ? host : "", port ? ":" : "", port ? port : "");
	wire->prefix = xstrdup(path ? path : "");
	len = strlen(wire->prefix);
	if (len > 0 && wire->prefix[len - 1] == '/')
		wire->prefix[len - 1] = '\0';
	curl_free(host);
	curl_free(port);
	curl_free(path);
	curl_url_cleanup(parsed);
}

static void set_options(CURL *easy, const char *url, const char *ca_file)
{
	client_set_up(easy, url, ca_file);
	curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(easy, CURLOPT_SSL_ENABLE_ALPN, 0L);
	curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
}

int wire_open(const char *url, const char *ca_file, struct wire **ret, struct err *err)
{
	struct wire *wire = xcalloc(1, sizeof(*wire));
	curl_socket_t fd = CURL_SOCKET_BAD;
	CURLcode code;

	wire->easy = curl_easy_init();
	if (!wire->easy) {
		wire_close(wire);
		return err_set(err, -ENOMEM, "libcurl has no memory for a connection");
	}
	take_apart(wire, url);
	set_options(wire->easy, url, ca_file);
	code = curl_easy_perform(wire->easy);
	if (code == CURLE_OK)
		curl_easy_getinfo(wire->easy, CURLINFO_ACTIVESOCKET, &fd);
	if (fd == CURL_SOCKET_BAD) {
		wire_close(wire);
		return client_explain(url, code == CURLE_OK ? CURLE_RECV_ERROR : (int)code, err);
	}
	wire->fd = fd;
	*ret = wire;
	return 0;
}

void wire_close(struct wire *wire)
{
	if (!wire)
		return;
	curl_easy_cleanup(wire->easy);
	free(wire->host);
	free(wire->prefix);
	free(wire);
}

int wire_fd(const struct wire *wire)
{
	return wire->fd;
}

const char *wire_host(const struct wire *wire)
{
	return wire->host;
}

const char *wire_prefix(const struct wire *wire)
{
	return wire->prefix;
}

static ssize_t result(CURLcode code, size_t n)
{
	return code == CURLE_OK ? (ssize_t)n : code == CURLE_AGAIN ? -EAGAIN : -ECONNRESET;
}

ssize_t wire_read(struct wire *wire, void *out, size_t len)
{
	size_t n = 0;
	CURLcode code = curl_easy_recv(wire->easy, out, len, &n);

	return result(code, n);
}

ssize_t wire_write(struct wire *wire, const void *data, size_t len)
{
	size_t n = 0;
	CURLcode code = curl_easy_send(wire->easy, data, len, &n);

	return result(code, n);
}
