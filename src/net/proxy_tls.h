/*
 * The name in a TLS ClientHello, read without taking part in the handshake. Pure.
 *
 * Everything that leaves room for two readings is refused rather than guessed at: a hello that a
 * server might understand as being for another name than the one read here must not pass.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "net/hostname.h"

/* A hello and its record headers. Hellos with post-quantum key shares have some 2 KiB. */
#define TLS_HELLO_MAX	      16384
#define TLS_HELLO_RECORDS_MAX 64

enum tls_fault {
	TLS_OK,
	TLS_MALFORMED,	  /* no ClientHello of TLS 1.0 to 1.3, or one that contradicts itself */
	TLS_TOO_LONG,	  /* more than TLS_HELLO_MAX bytes or TLS_HELLO_RECORDS_MAX records */
	TLS_NO_NAME,	  /* no server name */
	TLS_BAD_NAME,	  /* a server name that is no host name: NUL, address, trailing dot … */
	TLS_NAME_CHANGED, /* a second hello is for another server than the first */
	TLS_ENCRYPTED, /* Encrypted Client Hello (also the empty kind that browsers send): the name
			  that counts may be the encrypted one */
};

/* data is all that the client has sent. 0, the canonical name, and how many bytes the hello's
 * records are (ret_len may be NULL); -EAGAIN: the hello is not complete yet; -EACCES with
 * *ret_fault. */
int tls_hello_name(const uint8_t *data, size_t len, char name[HOSTNAME_MAX + 1], size_t *ret_len,
		   enum tls_fault *ret_fault);

/* A short reason, lower case, no full stop. */
const char *tls_fault_text(enum tls_fault value);

/* The fatal alert that says so to the client. */
#define TLS_ALERT_SIZE 7
enum tls_alert {
	TLS_ALERT_ACCESS_DENIED = 49,
	TLS_ALERT_DECODE_ERROR = 50,
	TLS_ALERT_INTERNAL_ERROR = 80,
	TLS_ALERT_MISSING_EXTENSION = 109
};
enum tls_alert tls_fault_alert(enum tls_fault value);
void tls_alert_make(enum tls_alert alert, uint8_t out[TLS_ALERT_SIZE]);

/*
 * A server may ask for a second hello (HelloRetryRequest), and most take the name from that one. So
 * what the client sends behind its first hello waits until the server's first words are there, and
 * a second hello must have the name of the first. From then on everything passes.
 */
enum tls_watch_state { TLS_WAITS_FOR_SERVER, TLS_EXPECTS_HELLO, TLS_PASSES };

/* As far as the random of a ServerHello: record header, message header, version, random. */
#define TLS_SERVER_PREFIX 43

struct tls_watch {
	enum tls_watch_state state;
	enum tls_fault fault;
	char name[HOSTNAME_MAX + 1];
	uint8_t server[TLS_SERVER_PREFIX];
	size_t server_len;
	struct buf record; /* of the client, so far */
	struct buf hello;  /* the second one's records, so far */
};

void tls_watch_init(struct tls_watch *watch, const char *name);
void tls_watch_clear(struct tls_watch *watch);
/* The server's bytes, which pass in any case. */
void tls_watch_server(struct tls_watch *watch, const uint8_t *data, size_t len);
/* The client's, behind the first hello: appends to out what may pass; *ret_used is 0 while the
 * server has to speak first. 0, or -EACCES with watch->fault set, once and for all. */
int tls_watch_client(struct tls_watch *watch, const uint8_t *data, size_t len, size_t *ret_used,
		     struct buf *out);
