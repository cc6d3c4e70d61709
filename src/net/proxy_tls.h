/*
 * The name in a TLS ClientHello, read without taking part in the handshake. Pure.
 *
 * Everything that leaves room for two readings is refused rather than guessed at: a hello that a
 * server might understand as being for another name than the one read here must not pass.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "net/hostname.h"

/* A hello and its record headers. Hellos with post-quantum key shares have some 2 KiB. */
#define TLS_HELLO_MAX	      16384
#define TLS_HELLO_RECORDS_MAX 64

enum tls_fault {
	TLS_OK,
	TLS_MALFORMED, /* no ClientHello of TLS 1.0 to 1.3, or one that contradicts itself */
	TLS_TOO_LONG,  /* more than TLS_HELLO_MAX bytes or TLS_HELLO_RECORDS_MAX records */
	TLS_NO_NAME,   /* no server name */
	TLS_BAD_NAME,  /* a server name that is no host name: NUL, address, trailing dot … */
	TLS_ENCRYPTED, /* Encrypted Client Hello (also the empty kind that browsers send): the name
			  that counts may be the encrypted one */
};

/* data is all that the client has sent. 0 and the canonical name; -EAGAIN: the hello is not
 * complete yet; -EACCES with *ret_fault. */
int tls_hello_name(const uint8_t *data, size_t len, char name[HOSTNAME_MAX + 1],
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
