/* The name in a TLS hello: read from what real clients send, and refused wherever it could mean
 * another one. */
#include "unit.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <string.h>

#include "base/str.h"
#include "net/proxy_tls.h"

/* A hello that each case changes a little. */
struct hello {
	struct buf extensions;
	unsigned version;
	bool no_extensions;
};

static void put_uint(struct buf *b, unsigned value, int bytes)
{
	while (bytes-- > 0)
		buf_append_char(b, (char)(value >> (8 * bytes)));
}

static void put_extension(struct buf *b, unsigned type, const void *data, size_t len)
{
	put_uint(b, type, 2);
	put_uint(b, (unsigned)len, 2);
	buf_append(b, data, len);
}

static void put_name(struct buf *b, const void *name, size_t len)
{
	struct buf body = BUF_INIT;

	put_uint(&body, (unsigned)len + 3, 2);
	put_uint(&body, 0, 1);
	put_uint(&body, (unsigned)len, 2);
	buf_append(&body, name, len);
	put_extension(b, 0, body.data, body.len);
	buf_clear(&body);
}

/* The handshake message, without records. Takes over the extensions. */
static struct buf message_of(struct hello *hello)
{
	static const uint8_t random[32];
	struct buf body = BUF_INIT, message = BUF_INIT;

	put_uint(&body, hello->version ? hello->version : 0x0303, 2);
	buf_append(&body, random, sizeof(random));
	put_uint(&body, 0, 1);
	put_uint(&body, 2, 2);
	put_uint(&body, 0x1301, 2);
	put_uint(&body, 0x0100, 2);
	if (!hello->no_extensions) {
		put_uint(&body, (unsigned)hello->extensions.len, 2);
		buf_append(&body, buf_str(&hello->extensions), hello->extensions.len);
	}
	put_uint(&message, 1, 1);
	put_uint(&message, (unsigned)body.len, 3);
	buf_append(&message, body.data, body.len);
	buf_clear(&body);
	buf_clear(&hello->extensions);
	return message;
}

/* Cuts it into records of so many bytes. Takes over the message. */
static struct buf records_of(struct buf message, size_t record)
{
	struct buf out = BUF_INIT;

	for (size_t at = 0; at < message.len; at += record) {
		size_t n = message.len - at < record ? message.len - at : record;

		put_uint(&out, 0x160301, 3);
		put_uint(&out, (unsigned)n, 2);
		buf_append(&out, message.data + at, n);
	}
	buf_clear(&message);
	return out;
}

static struct buf hello_for(const void *name, size_t len)
{
	struct hello hello = { 0 };

	put_extension(&hello.extensions, 43, "\x02\x03\x04", 3);
	put_name(&hello.extensions, name, len);
	return records_of(message_of(&hello), 16384);
}

static int read_name(const struct buf *b, char name[HOSTNAME_MAX + 1], enum tls_fault *fault)
{
	return tls_hello_name((const uint8_t *)b->data, b->len, name, NULL, fault);
}

static void assert_fault(struct buf data, enum tls_fault wanted)
{
	char name[HOSTNAME_MAX + 1];
	enum tls_fault fault;
	int r = read_name(&data, name, &fault);

	buf_clear(&data);
	if (r != -EACCES || fault != wanted)
		fail_msg("%d, %s instead of %s", r, tls_fault_text(fault), tls_fault_text(wanted));
}

static void test_name(void **state)
{
	struct buf data = hello_for("WWW.Example.com", 15);
	char name[HOSTNAME_MAX + 1];
	enum tls_fault fault;

	assert_int_equal(read_name(&data, name, &fault), 0);
	assert_string_equal(name, "www.example.com");
	buf_append_str(&data, "and what the client sends next");
	assert_int_equal(read_name(&data, name, &fault), 0);
	buf_clear(&data);
}

/* OpenSSL's own, as curl and Python send it, byte by byte. */
static void test_real_client(void **state)
{
	SSL_CTX *context = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(context);
	BIO *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());
	char name[HOSTNAME_MAX + 1] = "";
	enum tls_fault fault;
	char *sent = NULL;
	long len;

	SSL_set_bio(ssl, in, out);
	SSL_set_tlsext_host_name(ssl, "example.com");
	assert_int_equal(SSL_connect(ssl), -1);
	len = BIO_get_mem_data(out, &sent);
	assert_true(len > 100);
	for (long n = 0; n < len; n++)
		assert_int_equal(
			tls_hello_name((const uint8_t *)sent, (size_t)n, name, NULL, &fault),
			-EAGAIN);
	assert_int_equal(tls_hello_name((const uint8_t *)sent, (size_t)len, name, NULL, &fault), 0);
	assert_string_equal(name, "example.com");
	SSL_free(ssl);
	SSL_CTX_free(context);
}

static void test_split_over_records(void **state)
{
	static const size_t sizes[] = { 3, 4, 5, 16, 63 };
	char name[HOSTNAME_MAX + 1];
	enum tls_fault fault;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct hello hello = { 0 };
		struct buf data;

		put_name(&hello.extensions, "example.com", 11);
		data = records_of(message_of(&hello), sizes[i]);
		assert_int_equal(read_name(&data, name, &fault), 0);
		assert_string_equal(name, "example.com");
		for (size_t n = 0; n < data.len; n++)
			assert_int_equal(
				tls_hello_name((const uint8_t *)data.data, n, name, NULL, &fault),
				-EAGAIN);
		buf_clear(&data);
	}
}

static void test_too_many_records_and_too_long(void **state)
{
	static const uint8_t padding[20000];
	struct hello hello = { 0 };
	struct buf message;

	put_name(&hello.extensions, "example.com", 11);
	assert_fault(records_of(message_of(&hello), 1), TLS_TOO_LONG);
	put_name(&hello.extensions, "example.com", 11);
	put_extension(&hello.extensions, 21, padding, sizeof(padding));
	message = message_of(&hello);
	assert_fault(records_of(message, 8000), TLS_TOO_LONG);
}

static void test_names_that_are_none(void **state)
{
	static const struct {
		const char *name;
		size_t len;
	} cases[] = {
		{ "", 0 },
		{ "example.com.", 12 },
		{ ".", 1 },
		{ "example.com\0.evil.test", 22 },
		{ "evil.test\0.example.com", 22 },
		{ "192.0.2.1", 9 },
		{ "2001:db8::1", 11 },
		{ "[2001:db8::1]", 13 },
		{ "0x7f.1", 6 },
		{ "exa mple.com", 12 },
		{ "b\xc3\xbc"
		  "cher.example",
		  14 },
		{ "*.example.com", 13 },
		{ "example.com:443", 15 },
		{ "example..com", 12 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_fault(hello_for(cases[i].name, cases[i].len), TLS_BAD_NAME);
}

static void test_no_name(void **state)
{
	struct hello bare = { .no_extensions = true }, empty = { 0 }, other = { 0 };

	assert_fault(records_of(message_of(&bare), 16384), TLS_NO_NAME);
	assert_fault(records_of(message_of(&empty), 16384), TLS_NO_NAME);
	put_extension(&other.extensions, 43, "\x02\x03\x04", 3);
	assert_fault(records_of(message_of(&other), 16384), TLS_NO_NAME);
}

/* Real, or the empty kind that keeps the real one from standing out: nobody can tell. */
static void test_encrypted_hello(void **state)
{
	static const unsigned types[] = { 0xfe0d, 0xffce };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		struct hello before = { 0 }, after = { 0 };

		put_extension(&before.extensions, types[i], "\x01", 1);
		put_name(&before.extensions, "example.com", 11);
		assert_fault(records_of(message_of(&before), 16384), TLS_ENCRYPTED);
		put_name(&after.extensions, "example.com", 11);
		put_extension(&after.extensions, types[i], "\x01", 1);
		assert_fault(records_of(message_of(&after), 16384), TLS_ENCRYPTED);
	}
}

static void test_two_names(void **state)
{
	struct hello twice = { 0 }, list = { 0 }, other_type = { 0 };

	put_name(&twice.extensions, "example.com", 11);
	put_name(&twice.extensions, "evil.test", 9);
	assert_fault(records_of(message_of(&twice), 16384), TLS_MALFORMED);
	put_extension(&list.extensions, 0,
		      "\x00\x0c\x00\x00\x03"
		      "a.b\x00\x00\x03"
		      "c.d",
		      14);
	assert_fault(records_of(message_of(&list), 16384), TLS_MALFORMED);
	put_extension(&other_type.extensions, 0,
		      "\x00\x06\x01\x00\x03"
		      "a.b",
		      8);
	assert_fault(records_of(message_of(&other_type), 16384), TLS_MALFORMED);
}

static void test_what_is_no_hello(void **state)
{
	static const struct {
		const char *data;
		size_t len;
	} cases[] = {
		{ "GET / HTTP/1.1\r\n", 16 },
		{ "SSH-2.0-x\r\n", 11 },
		{ "\x80\x2e\x01\x03\x01", 5 },			    /* SSL 2 */
		{ "\x16\x02", 2 },				    /* no version of TLS */
		{ "\x16\x03\x01\x00\x00", 5 },			    /* an empty record */
		{ "\x16\x03\x01\xff\xff", 5 },			    /* a record too long */
		{ "\x16\x03\x01\x00\x04\x02\x00\x00\x00", 9 },	    /* another message */
		{ "\x16\x03\x01\x00\x04\x01\x00\x00\x00", 9 },	    /* an empty hello */
		{ "\x16\x03\x01\x00\x05\x01\x00\x00\x00\x00", 10 }, /* and something behind */
		{ "\x15\x03\x01\x00\x02\x01\x00", 7 },		    /* an alert */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf data = BUF_INIT;

		buf_append(&data, cases[i].data, cases[i].len);
		assert_fault(data, TLS_MALFORMED);
	}
}

/* Every length in it, made longer and shorter than what follows. */
static void test_lengths_that_lie(void **state)
{
	struct buf whole = hello_for("example.com", 11);
	static const size_t at[] = { 4, 8, 43, 45, 48, 51, 55, 62, 64, 67 };
	char name[HOSTNAME_MAX + 1];
	enum tls_fault fault;

	for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
		for (int by = -1; by <= 1; by += 2) {
			whole.data[at[i]] = (char)(whole.data[at[i]] + by);
			assert_int_not_equal(read_name(&whole, name, &fault), 0);
			whole.data[at[i]] = (char)(whole.data[at[i]] - by);
		}
	}
	assert_int_equal(read_name(&whole, name, &fault), 0);
	buf_clear(&whole);
}

static void test_versions(void **state)
{
	struct hello ssl3 = { .version = 0x0300 }, future = { .version = 0x0304 },
		     tls1 = { .version = 0x0301 };
	char name[HOSTNAME_MAX + 1];
	enum tls_fault fault;
	struct buf data;

	put_name(&ssl3.extensions, "example.com", 11);
	assert_fault(records_of(message_of(&ssl3), 16384), TLS_MALFORMED);
	put_name(&future.extensions, "example.com", 11);
	assert_fault(records_of(message_of(&future), 16384), TLS_MALFORMED);
	put_name(&tls1.extensions, "example.com", 11);
	data = records_of(message_of(&tls1), 16384);
	assert_int_equal(read_name(&data, name, &fault), 0);
	buf_clear(&data);
}

static const uint8_t retry[32] = { 0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c,
				   0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb,
				   0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c };
static const uint8_t chance[32] = { 0xcf, 0x21, 0xad };

/* The start of a server's hello, in records of so many bytes. */
static struct buf server_hello(const uint8_t random[32], size_t record)
{
	struct buf message = BUF_INIT;

	put_uint(&message, 2, 1);
	put_uint(&message, 40, 3);
	put_uint(&message, 0x0303, 2);
	buf_append(&message, random, 32);
	put_uint(&message, 0, 3);
	put_uint(&message, 0x1301, 2);
	put_uint(&message, 0, 1);
	return records_of(message, record);
}

/* Feeds both sides in pieces of so many bytes; returns the fault, and what passed in out. Takes
 * over the buffers. */
static enum tls_fault watch(struct buf server, struct buf client, size_t piece, struct buf *out)
{
	struct tls_watch w;
	enum tls_fault fault;
	size_t used = 1;

	tls_watch_init(&w, "example.com");
	assert_int_equal(tls_watch_client(&w, (const uint8_t *)client.data, client.len, &used, out),
			 0);
	assert_int_equal(used, 0); /* the server has the word */
	for (size_t at = 0; at < server.len; at += piece)
		tls_watch_server(&w, (const uint8_t *)server.data + at,
				 server.len - at < piece ? server.len - at : piece);
	for (size_t at = 0; at < client.len; at += used) {
		size_t n = client.len - at < piece ? client.len - at : piece;

		if (tls_watch_client(&w, (const uint8_t *)client.data + at, n, &used, out) < 0)
			break;
		assert_int_equal(used, n);
	}
	fault = w.fault;
	tls_watch_clear(&w);
	buf_clear(&server);
	buf_clear(&client);
	return fault;
}

/* Early data that the server will not read, and an empty change of ciphers; then a hello. */
static struct buf second_flight(const char *name, size_t record)
{
	struct hello hello = { 0 };
	struct buf out = BUF_INIT, records;

	put_name(&hello.extensions, name, strlen(name));
	records = records_of(message_of(&hello), record);
	buf_append(&out, "\x17\x03\x03\0\5early\x14\x03\x03\0\1\1", 16);
	buf_append(&out, records.data, records.len);
	buf_clear(&records);
	return out;
}

static void test_second_hello(void **state)
{
	static const size_t pieces[] = { 1, 7, 100000 };

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		struct buf wanted = second_flight("Example.com", 20), out = BUF_INIT;

		assert_int_equal(watch(server_hello(retry, 16384), second_flight("Example.com", 20),
				       pieces[i], &out),
				 TLS_OK);
		assert_int_equal(out.len, wanted.len);
		assert_memory_equal(out.data, wanted.data, wanted.len);
		buf_reset(&out);
		assert_int_equal(watch(server_hello(retry, 16384), second_flight("evil.test", 20),
				       pieces[i], &out),
				 TLS_NAME_CHANGED);
		assert_int_equal(out.len, 16); /* none of the hello */
		buf_reset(&out);
		/* Records too small to see the request in. */
		assert_int_equal(watch(server_hello(retry, 8), second_flight("evil.test", 1000),
				       pieces[i], &out),
				 TLS_NAME_CHANGED);
		buf_clear(&out);
		buf_clear(&wanted);
	}
}

static void test_second_hello_behind_an_alert(void **state)
{
	struct buf server = BUF_INIT, hello = server_hello(retry, 16384), out = BUF_INIT;

	buf_append(&server, "\x15\x03\x03\0\2\1\x70", 7);
	buf_append(&server, hello.data, hello.len);
	buf_clear(&hello);
	assert_int_equal(watch(server, second_flight("evil.test", 1000), 9, &out),
			 TLS_NAME_CHANGED);
	buf_clear(&out);
}

static void test_encrypted_second_hello(void **state)
{
	struct hello hello = { 0 };
	struct buf out = BUF_INIT;

	put_name(&hello.extensions, "example.com", 11);
	put_extension(&hello.extensions, 0xfe0d, "\x01", 1);
	assert_int_equal(
		watch(server_hello(retry, 16384), records_of(message_of(&hello), 16384), 7, &out),
		TLS_ENCRYPTED);
	assert_int_equal(out.len, 0);
	buf_clear(&out);
}

/* What the server did not ask for is its own to refuse; and it is no hello but, say, TLS 1.2's. */
static void test_no_second_hello(void **state)
{
	struct buf wanted = second_flight("evil.test", 1000), out = BUF_INIT, keys = BUF_INIT;

	assert_int_equal(
		watch(server_hello(chance, 16384), second_flight("evil.test", 1000), 3, &out),
		TLS_OK);
	assert_int_equal(out.len, wanted.len);
	buf_reset(&out);
	buf_append(&keys, "\x16\x03\x03\0\4\x10\0\0\0and anything behind", 28);
	assert_int_equal(watch(server_hello(chance, 8), keys, 5, &out), TLS_OK);
	assert_int_equal(out.len, 28);
	buf_clear(&out);
	buf_clear(&wanted);
}

static void test_alert(void **state)
{
	uint8_t alert[TLS_ALERT_SIZE];

	tls_alert_make(tls_fault_alert(TLS_ENCRYPTED), alert);
	assert_memory_equal(alert, "\x15\x03\x03\x00\x02\x02\x31", TLS_ALERT_SIZE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_name),
		cmocka_unit_test(test_real_client),
		cmocka_unit_test(test_split_over_records),
		cmocka_unit_test(test_too_many_records_and_too_long),
		cmocka_unit_test(test_names_that_are_none),
		cmocka_unit_test(test_no_name),
		cmocka_unit_test(test_encrypted_hello),
		cmocka_unit_test(test_two_names),
		cmocka_unit_test(test_what_is_no_hello),
		cmocka_unit_test(test_lengths_that_lie),
		cmocka_unit_test(test_versions),
		cmocka_unit_test(test_second_hello),
		cmocka_unit_test(test_second_hello_behind_an_alert),
		cmocka_unit_test(test_encrypted_second_hello),
		cmocka_unit_test(test_no_second_hello),
		cmocka_unit_test(test_alert),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
