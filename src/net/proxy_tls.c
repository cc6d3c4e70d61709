/*
 * Reading a ClientHello (RFC 8446, section 4.1.2; RFC 6066, section 3). First the records are put
 * together, which is cheap to try again whenever more bytes have come; the message is read once,
 * when it is complete.
 */
#include "net/proxy_tls.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cleanup.h"

enum {
	RECORD_HANDSHAKE = 22,
	RECORD_HEADER = 5,
	RECORD_MAX = 16384,
	HANDSHAKE_CLIENT_HELLO = 1,
	HANDSHAKE_HEADER = 4,
	EXTENSION_SERVER_NAME = 0,
	EXTENSION_ECH = 0xfe0d,
	EXTENSION_ESNI = 0xffce, /* its draft's predecessor */
	NAME_TYPE_HOST = 0,
};

static int fault(enum tls_fault *ret, enum tls_fault value)
{
	*ret = value;
	return -EACCES;
}

/* A cursor that remembers having been asked for more than there is. */
struct reader {
	const uint8_t *at;
	size_t left;
	bool short_read;
};

static const uint8_t *read_bytes(struct reader *r, size_t n)
{
	const uint8_t *at = r->at;

	if (n > r->left) {
		r->short_read = true;
		r->left = 0;
		return NULL;
	}
	r->at += n;
	r->left -= n;
	return at;
}

static unsigned read_uint(struct reader *r, size_t bytes)
{
	const uint8_t *p = read_bytes(r, bytes);
	unsigned value = 0;

	for (size_t i = 0; p && i < bytes; i++)
		value = value << 8 | p[i];
	return value;
}

/* A vector with a length of so many bytes in front. */
static struct reader read_vector(struct reader *r, size_t length_bytes)
{
	size_t n = read_uint(r, length_bytes);
	const uint8_t *p = read_bytes(r, n);

	return (struct reader){ .at = p, .left = p ? n : 0 };
}

/* Joins the records' fragments in out. 0 when the handshake message is complete, with its length;
 * else as tls_hello_name. */
static int join_records(const uint8_t *data, size_t len, uint8_t out[TLS_HELLO_MAX],
			size_t *ret_len, size_t *ret_taken, enum tls_fault *ret)
{
	struct reader r = { .at = data, .left = len };
	size_t have = 0, want = HANDSHAKE_HEADER;

	for (int records = 0; have < want; records++) {
		const uint8_t *head = r.at;
		size_t n;

		if (r.left > 0 && head[0] != RECORD_HANDSHAKE)
			return fault(ret, TLS_MALFORMED);
		if (r.left > 1 && head[1] != 3)
			return fault(ret, TLS_MALFORMED);
		if (records == TLS_HELLO_RECORDS_MAX)
			return fault(ret, TLS_TOO_LONG);
		if (r.left < RECORD_HEADER)
			return -EAGAIN;
		n = (size_t)head[3] << 8 | head[4];
		if (n == 0 || n > RECORD_MAX)
			return fault(ret, TLS_MALFORMED);
		if (have + n > TLS_HELLO_MAX)
			return fault(ret, TLS_TOO_LONG);
		read_bytes(&r, RECORD_HEADER);
		if (n > r.left)
			return -EAGAIN;
		memcpy(out + have, read_bytes(&r, n), n);
		have += n;
		if (out[0] != HANDSHAKE_CLIENT_HELLO)
			return fault(ret, TLS_MALFORMED);
		if (have >= HANDSHAKE_HEADER) {
			want = HANDSHAKE_HEADER +
			       ((size_t)out[1] << 16 | (size_t)out[2] << 8 | out[3]);
			if (want > TLS_HELLO_MAX)
				return fault(ret, TLS_TOO_LONG);
		}
	}
	if (have != want) /* a message behind the hello, in its record */
		return fault(ret, TLS_MALFORMED);
	*ret_len = want;
	*ret_taken = len - r.left;
	return 0;
}

/* server_name: a list, which for all that anyone has ever defined has one entry. */
static int read_server_name(struct reader extension, char name[HOSTNAME_MAX + 1],
			    enum tls_fault *ret)
{
	struct reader list = read_vector(&extension, 2);
	unsigned type = read_uint(&list, 1);
	struct reader text = read_vector(&list, 2);

	if (extension.short_read || extension.left || list.short_read || list.left ||
	    type != NAME_TYPE_HOST)
		return fault(ret, TLS_MALFORMED);
	if (text.left == 0 || text.at[text.left - 1] == '.')
		return fault(ret, TLS_BAD_NAME);
	if (hostname_canon((const char *)text.at, text.left, name, NULL) < 0)
		return fault(ret, TLS_BAD_NAME);
	return 0;
}

static int read_extensions(struct reader list, char name[HOSTNAME_MAX + 1], enum tls_fault *ret)
{
	bool named = false;

	while (list.left > 0) {
		unsigned type = read_uint(&list, 2);
		struct reader body = read_vector(&list, 2);

		if (list.short_read)
			return fault(ret, TLS_MALFORMED);
		if (type == EXTENSION_ECH || type == EXTENSION_ESNI)
			return fault(ret, TLS_ENCRYPTED);
		if (type != EXTENSION_SERVER_NAME)
			continue;
		if (named)
			return fault(ret, TLS_MALFORMED);
		named = true;
		if (read_server_name(body, name, ret) < 0)
			return -EACCES;
	}
	return named ? 0 : fault(ret, TLS_NO_NAME);
}

static int read_hello(const uint8_t *message, size_t len, char name[HOSTNAME_MAX + 1],
		      enum tls_fault *ret)
{
	struct reader r = { .at = message + HANDSHAKE_HEADER, .left = len - HANDSHAKE_HEADER };
	struct reader session, ciphers, compressions, extensions;
	unsigned version = read_uint(&r, 2);

	read_bytes(&r, 32); /* random */
	session = read_vector(&r, 1);
	ciphers = read_vector(&r, 2);
	compressions = read_vector(&r, 1);
	if (r.short_read || version < 0x0301 || version > 0x0303 || session.left > 32 ||
	    ciphers.left < 2 || ciphers.left % 2 || compressions.left == 0)
		return fault(ret, TLS_MALFORMED);
	if (r.left == 0)
		return fault(ret, TLS_NO_NAME);
	extensions = read_vector(&r, 2);
	if (r.short_read || r.left)
		return fault(ret, TLS_MALFORMED);
	return read_extensions(extensions, name, ret);
}

int tls_hello_name(const uint8_t *data, size_t len, char name[HOSTNAME_MAX + 1], size_t *ret_len,
		   enum tls_fault *ret_fault)
{
	_cleanup_free_ uint8_t *message = xmalloc(TLS_HELLO_MAX);
	char read[HOSTNAME_MAX + 1];
	size_t message_len, taken;
	int r;

	*ret_fault = TLS_OK;
	r = join_records(data, len, message, &message_len, &taken, ret_fault);
	if (r < 0)
		return r;
	r = read_hello(message, message_len, read, ret_fault);
	if (r < 0)
		return r;
	memcpy(name, read, strlen(read) + 1);
	if (ret_len)
		*ret_len = taken;
	return 0;
}

const char *tls_fault_text(enum tls_fault value)
{
	static const char *const texts[] = {
		[TLS_OK] = "no fault",
		[TLS_MALFORMED] = "what was sent is no TLS hello",
		[TLS_TOO_LONG] = "the TLS hello is too long",
		[TLS_NO_NAME] = "the TLS hello names no server (SNI)",
		[TLS_BAD_NAME] = "the TLS hello names a server by something that is no host name",
		[TLS_NAME_CHANGED] = "a second TLS hello names another server than the first",
		[TLS_ENCRYPTED] = "the TLS hello is encrypted (ECH), which hides the true name",
	};

	return texts[value];
}

enum tls_alert tls_fault_alert(enum tls_fault value)
{
	if (value == TLS_MALFORMED || value == TLS_TOO_LONG)
		return TLS_ALERT_DECODE_ERROR;
	return value == TLS_NO_NAME ? TLS_ALERT_MISSING_EXTENSION : TLS_ALERT_ACCESS_DENIED;
}

void tls_alert_make(enum tls_alert alert, uint8_t out[TLS_ALERT_SIZE])
{
	const uint8_t record[TLS_ALERT_SIZE] = { 21, 3, 3, 0, 2, 2, (uint8_t)alert };

	memcpy(out, record, sizeof(record));
}
