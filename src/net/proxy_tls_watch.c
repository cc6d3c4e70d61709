/*
 * Watching for a second hello (RFC 8446, section 4.1.2). A request for one is a ServerHello with a
 * certain value in place of a random one. Behind it the client may still be sending early data,
 * which the server throws away, and an empty change of ciphers; then comes the hello.
 */
#include "net/proxy_tls.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

enum {
	RECORD_HEADER = 5,
	RECORD_MAX = 16384 + 256, /* early data is encrypted, and a little longer for it */
	RECORD_HANDSHAKE = 22,
	SERVER_HELLO = 2,
	SERVER_RANDOM_AT = 11,
};

/* SHA-256 of "HelloRetryRequest". */
static const uint8_t retry_request[32] = {
	0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c,
	0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb,
	0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
};

void tls_watch_init(struct tls_watch *watch, const char *name)
{
	*watch = (struct tls_watch){ 0 };
	str_copy(watch->name, sizeof(watch->name), name);
}

void tls_watch_clear(struct tls_watch *watch)
{
	buf_clear(&watch->record);
	buf_clear(&watch->hello);
}

/* An alert may come before a hello, and a hello in tiny records cannot be read here: then a second
 * one of the client is expected, which costs nothing when none comes. */
static bool is_unclear(const struct tls_watch *watch)
{
	size_t len = (size_t)watch->server[3] << 8 | watch->server[4];

	return watch->server[0] != RECORD_HANDSHAKE ||
	       (watch->server_len >= RECORD_HEADER && len < TLS_SERVER_PREFIX - RECORD_HEADER);
}

void tls_watch_server(struct tls_watch *watch, const uint8_t *data, size_t len)
{
	size_t n = sizeof(watch->server) - watch->server_len;

	if (watch->state != TLS_WAITS_FOR_SERVER || len == 0)
		return;
	n = n < len ? n : len;
	memcpy(watch->server + watch->server_len, data, n);
	watch->server_len += n;
	if (is_unclear(watch))
		watch->state = TLS_EXPECTS_HELLO;
	else if (watch->server_len > RECORD_HEADER && watch->server[RECORD_HEADER] != SERVER_HELLO)
		watch->state = TLS_PASSES;
	else if (watch->server_len == sizeof(watch->server))
		watch->state = memcmp(watch->server + SERVER_RANDOM_AT, retry_request,
				      sizeof(retry_request)) == 0
				       ? TLS_EXPECTS_HELLO
				       : TLS_PASSES;
}

static int fail(struct tls_watch *watch, enum tls_fault fault)
{
	watch->fault = fault;
	return -EACCES;
}

/* A whole record of the client has come. Records that are no handshake pass, but not in the midst
 * of a hello. A handshake message that is none of a hello is of TLS 1.2, which has no second one.
 */
static int take_record(struct tls_watch *watch, struct buf *out)
{
	const uint8_t *record = (const uint8_t *)watch->record.data;
	char name[HOSTNAME_MAX + 1];
	enum tls_fault fault;
	int r;

	if (watch->hello.len == 0 &&
	    (record[0] != RECORD_HANDSHAKE || record[RECORD_HEADER] != 1)) {
		if (record[0] == RECORD_HANDSHAKE)
			watch->state = TLS_PASSES;
		buf_append(out, record, watch->record.len);
		buf_reset(&watch->record);
		return 0;
	}
	buf_append(&watch->hello, record, watch->record.len);
	buf_reset(&watch->record);
	r = tls_hello_name((const uint8_t *)watch->hello.data, watch->hello.len, name, NULL,
			   &fault);
	if (r == -EAGAIN)
		return 0;
	if (r < 0)
		return fail(watch, fault);
	if (!str_eq(name, watch->name))
		return fail(watch, TLS_NAME_CHANGED);
	buf_append(out, watch->hello.data, watch->hello.len);
	buf_clear(&watch->hello);
	watch->state = TLS_PASSES;
	return 0;
}

/* How many bytes the record lacks, as far as is known; 0: it is complete. */
static size_t record_lacks(const struct tls_watch *watch)
{
	const uint8_t *record = (const uint8_t *)watch->record.data;
	size_t have = watch->record.len;

	if (have < RECORD_HEADER)
		return RECORD_HEADER - have;
	return RECORD_HEADER + ((size_t)record[3] << 8 | record[4]) - have;
}

/* Moves bytes into the record until it is complete. */
static int collect(struct tls_watch *watch, const uint8_t *data, size_t len, size_t *used,
		   struct buf *out)
{
	size_t lacks = record_lacks(watch), n = lacks < len ? lacks : len;

	buf_append(&watch->record, data, n);
	*used += n;
	if (watch->record.len < RECORD_HEADER)
		return 0;
	lacks = record_lacks(watch);
	if (watch->record.len == RECORD_HEADER && (lacks == 0 || lacks > RECORD_MAX))
		return fail(watch, TLS_MALFORMED);
	return lacks == 0 ? take_record(watch, out) : 0;
}

int tls_watch_client(struct tls_watch *watch, const uint8_t *data, size_t len, size_t *ret_used,
		     struct buf *out)
{
	size_t used = 0;
	int r = watch->fault == TLS_OK ? 0 : -EACCES;

	while (r == 0 && used < len && watch->state == TLS_EXPECTS_HELLO)
		r = collect(watch, data + used, len - used, &used, out);
	if (r == 0 && watch->state == TLS_PASSES) {
		buf_append(out, data + used, len - used);
		used = len;
	}
	*ret_used = used;
	return r;
}
