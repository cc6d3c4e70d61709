/* DNS: names, questions, answers, replies, the decision about a question, the cache and
 * resolv.conf. */
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "dns_build.h"
#include "net/dns_cache.h"
#include "net/dns_decide.h"
#include "net/dns_resolv_conf.h"

static struct dns_name name_of(const char *host)
{
	struct dns_name name;

	dns_name_of_host(host, &name);
	return name;
}

static void test_names(void **state)
{
	static const struct {
		const char *wire;
		size_t len;
		const char *host; /* NULL: none */
	} cases[] = {
		{ "\7Example\3COM\0", 13, "example.com" },
		{ "\1a\0", 3, "a" },
		{ "\0", 1, NULL },
		{ "\13example.com\0", 13, NULL },    /* a dot in a label */
		{ "\10exam\0ple\3com\0", 14, NULL }, /* a NUL in a label */
		{ "\5a b c\3com\0", 11, NULL },
		{ "\3a\\b\3com\0", 9, NULL },
		{ "\1*\7example\0", 11, NULL },
		{ "\1\xff\3com\0", 7, NULL },
		{ "\003"
		  "127\0010\0010\0011\0",
		  11, NULL },
		{ "\4_tcp\3com\0", 10, "_tcp.com" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dns_name name, again;
		char host[HOSTNAME_MAX + 1];
		int r;

		assert_int_equal(
			dns_name_of_wire((const uint8_t *)cases[i].wire, cases[i].len, &name), 0);
		r = dns_name_to_host(&name, host);
		assert_int_equal(r, cases[i].host ? 0 : -EINVAL);
		if (r < 0)
			continue;
		assert_string_equal(host, cases[i].host);
		dns_name_of_host(host, &again);
		assert_true(dns_name_equal(&name, &again));
	}
}

static void test_wire_that_is_no_name(void **state)
{
	static const struct {
		const char *wire;
		size_t len;
	} cases[] = {
		{ "", 0 },	 { "\1a", 2 },	   { "\2a\0", 3 }, { "\1a\0\0", 4 },
		{ "\300\1", 2 }, { "\100a\0", 3 }, { "\0\0", 2 },
	};
	uint8_t longest[DNS_NAME_MAX + 2] = { 0 };
	struct dns_name name;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(
			dns_name_of_wire((const uint8_t *)cases[i].wire, cases[i].len, &name),
			-EINVAL);
	for (size_t i = 0; i < DNS_NAME_MAX + 1; i += 2)
		longest[i] = 1;
	longest[DNS_NAME_MAX - 1] = 0;
	assert_int_equal(dns_name_of_wire(longest, DNS_NAME_MAX, &name), 0);
	longest[DNS_NAME_MAX - 1] = 1;
	assert_int_equal(dns_name_of_wire(longest, DNS_NAME_MAX + 2, &name), -EINVAL);
}

static int parse_question(struct buf *b, struct dns_question *ret)
{
	int r = dns_question_parse((const uint8_t *)b->data, b->len, ret);

	buf_clear(b);
	return r;
}

static struct buf question_of(const char *name, unsigned type)
{
	struct buf b = BUF_INIT;

	dns_put_header(&b, 0x1234, 0x0100, 1, 0);
	dns_put_question(&b, name, type);
	return b;
}

static void test_question(void **state)
{
	struct buf b = question_of("Example.com", DNS_A);
	const struct dns_name name = name_of("example.com");
	struct dns_question question;

	assert_int_equal(parse_question(&b, &question), 0);
	assert_int_equal(question.id, 0x1234);
	assert_int_equal(question.type, DNS_A);
	assert_true(question.recursion);
	assert_false(question.edns);
	assert_int_equal(question.udp_max, 512);
	assert_true(dns_name_equal(&question.name, &name));
	assert_int_equal(question.name.wire[1], 'E'); /* the client's case comes back to it */
}

static void test_question_with_edns(void **state)
{
	static const struct {
		unsigned said, kept;
	} sizes[] = { { 0, 512 }, { 512, 512 }, { 1000, 1000 }, { 1232, 1232 }, { 65535, 1232 } };

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct buf b = question_of("example.com", DNS_A);
		struct dns_question question;

		b.data[11] = 1;
		buf_append_char(&b, 0);
		dns_put16(&b, 41);
		dns_put16(&b, sizes[i].said);
		dns_put32(&b, 0x8000);
		dns_put16(&b, 0);
		assert_int_equal(parse_question(&b, &question), 0);
		assert_true(question.edns);
		assert_int_equal(question.udp_max, sizes[i].kept);
	}
}

static void test_questions_that_are_refused(void **state)
{
	struct dns_question question;
	struct buf b = question_of("example.com", DNS_A);

	for (size_t len = 0; len < b.len; len++)
		assert_int_equal(dns_question_parse((const uint8_t *)b.data, len, &question),
				 len < 12 ? -EBADMSG : DNS_FORMERR);
	b.data[2] = (char)0x81; /* an answer is answered by nothing: no two of us talk for ever */
	assert_int_equal(parse_question(&b, &question), -EBADMSG);
	b = question_of("example.com", DNS_A);
	b.data[2] = 0x28; /* an update */
	assert_int_equal(parse_question(&b, &question), DNS_NOTIMP);
	b = question_of("example.com", DNS_A);
	b.data[5] = 2;
	dns_put_question(&b, "example.org", DNS_A);
	assert_int_equal(parse_question(&b, &question), DNS_FORMERR);
	b = question_of("example.com", DNS_A);
	b.data[5] = 0;
	assert_int_equal(parse_question(&b, &question), DNS_FORMERR);
	b = question_of("example.com", DNS_A);
	b.data[7] = 1;
	dns_put_a(&b, "example.com", 60, 1);
	assert_int_equal(parse_question(&b, &question), DNS_FORMERR);
	b = question_of("example.com", DNS_A);
	b.data[b.len - 1] = 3; /* class CHAOS */
	assert_int_equal(parse_question(&b, &question), DNS_REFUSED);
	buf_reset(&b);
	dns_put_header(&b, 1, 0x0100, 1, 0);
	buf_append(&b, "\300\14\0\1\0\1", 6); /* a name that points at itself */
	assert_int_equal(parse_question(&b, &question), DNS_FORMERR);
}

static struct dns_answer *answer_of(struct buf *b, const char *name, uint16_t type)
{
	const struct dns_name asked = name_of(name);
	struct dns_answer *answer = NULL;

	assert_int_equal(
		dns_answer_parse((const uint8_t *)b->data, b->len, 7, &asked, type, &answer), 0);
	buf_clear(b);
	return answer;
}

static void begin_answer(struct buf *b, const char *name, unsigned type, unsigned records)
{
	*b = BUF_INIT;
	dns_put_header(b, 7, 0x8180, 1, records);
	dns_put_question(b, name, type);
}

static void test_chain(void **state)
{
	uint32_t addresses[4];
	struct dns_answer *answer;
	struct buf b;

	begin_answer(&b, "www.example.com", DNS_A, 6);
	dns_put_a(&b, "c.cdn.test", 50, 0x01020304);
	dns_put_cname(&b, "B.example.com", 20, "c.cdn.test");
	dns_put_a(&b, "www.example.com.evil.test", 60, 0x05050505);
	dns_put_cname(&b, "www.example.com", 30, "b.Example.com");
	dns_put_a(&b, "C.cdn.test", 40, 0x01020305);
	dns_put_a(&b, "unrelated.test", 1, 0x06060606);
	answer = answer_of(&b, "www.example.com", DNS_A);
	assert_int_equal(dns_answer_addresses(answer, addresses, 4), 2);
	assert_int_equal(addresses[0], 0x01020304);
	assert_int_equal(addresses[1], 0x01020305);
	assert_int_equal(dns_answer_addresses(answer, addresses, 1), 1);
	assert_int_equal(dns_answer_ttl_s(answer), 20);
	assert_true(dns_answer_positive(answer));
	dns_answer_unref(answer);
}

static void test_chain_without_end(void **state)
{
	struct dns_answer *answer;
	uint32_t address;
	struct buf b;

	begin_answer(&b, "a.test", DNS_A, 3);
	dns_put_cname(&b, "a.test", 1, "b.test");
	dns_put_cname(&b, "b.test", 1, "a.test");
	dns_put_a(&b, "c.test", 1, 1);
	answer = answer_of(&b, "a.test", DNS_A);
	assert_int_equal(dns_answer_addresses(answer, &address, 1), 0);
	assert_false(dns_answer_positive(answer));
	dns_answer_unref(answer);
}

static void test_ttl(void **state)
{
	static const struct {
		uint32_t said, meant;
	} cases[] = { { 0, 0 }, { 1, 1 }, { INT32_MAX, INT32_MAX }, { UINT32_MAX, 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dns_answer *answer;
		struct buf b;

		begin_answer(&b, "a.test", DNS_A, 1);
		dns_put_a(&b, "a.test", cases[i].said, 1);
		answer = answer_of(&b, "a.test", DNS_A);
		assert_int_equal(dns_answer_ttl_s(answer), cases[i].meant);
		dns_answer_unref(answer);
	}
}

/* Whoever is not the server asked, or answers something else, is not heard. */
static void test_answers_that_are_none(void **state)
{
	const struct dns_name name = name_of("a.test"), other = name_of("b.test");
	struct dns_answer *answer = NULL;
	const uint8_t *data;
	struct buf b;

	begin_answer(&b, "A.test", DNS_A, 1);
	dns_put_a(&b, "a.test", 1, 1);
	data = (const uint8_t *)b.data;
	assert_int_equal(dns_answer_parse(data, b.len, 8, &name, DNS_A, &answer), -EBADMSG);
	assert_int_equal(dns_answer_parse(data, b.len, 7, &other, DNS_A, &answer), -EBADMSG);
	assert_int_equal(dns_answer_parse(data, b.len, 7, &name, DNS_AAAA, &answer), -EBADMSG);
	assert_int_equal(dns_answer_parse(data, 11, 7, &name, DNS_A, &answer), -EBADMSG);
	assert_int_equal(dns_answer_parse(data, b.len - 1, 7, &name, DNS_A, &answer), -EPROTO);
	b.data[2] = 0x01; /* a question */
	assert_int_equal(dns_answer_parse(data, b.len, 7, &name, DNS_A, &answer), -EBADMSG);
	b.data[2] = (char)0x83; /* truncated */
	assert_int_equal(dns_answer_parse(data, b.len, 7, &name, DNS_A, &answer), -EMSGSIZE);
	assert_int_equal(dns_answer_parse(data, b.len - 1, 7, &name, DNS_A, &answer), -EMSGSIZE);
	b.data[2] = (char)0x81;
	b.data[5] = 0; /* no question in it */
	assert_true(dns_answer_parse(data, b.len, 7, &name, DNS_A, &answer) < 0);
	assert_null(answer);
	buf_clear(&b);
}

static void test_address_of_a_wrong_size(void **state)
{
	const struct dns_name name = name_of("a.test");
	struct dns_answer *answer = NULL;
	uint32_t address;
	struct buf b;

	begin_answer(&b, "a.test", DNS_A, 1);
	dns_put_record(&b, "a.test", DNS_A, 1, "\1\2", 2);
	if (dns_answer_parse((const uint8_t *)b.data, b.len, 7, &name, DNS_A, &answer) == 0)
		assert_int_equal(dns_answer_addresses(answer, &address, 1), 0);
	dns_answer_unref(answer);
	buf_clear(&b);
}

/* The reply, read as an answer. */
static void test_reply(void **state)
{
	static const uint32_t kept[] = { 0x01020305 };
	struct dns_reply reply = { .addresses = kept, .n_addresses = 1, .ttl_s = 9 };
	struct dns_answer *answer, *read;
	struct dns_question question;
	uint32_t addresses[4];
	struct buf b, out = BUF_INIT;

	begin_answer(&b, "a.test", DNS_A, 3);
	dns_put_cname(&b, "a.test", 30, "b.test");
	dns_put_a(&b, "b.test", 50, 0x01020304);
	dns_put_a(&b, "b.test", 50, 0x01020305);
	answer = answer_of(&b, "a.test", DNS_A);
	reply.answer = answer;
	b = question_of("A.test", DNS_A);
	b.data[0] = 0;
	b.data[1] = 7;
	assert_int_equal(parse_question(&b, &question), 0);
	dns_reply_write(&question, &reply, 512, &out);
	assert_int_equal(out.data[13], 'A');
	read = answer_of(&out, "a.test", DNS_A);
	assert_int_equal(dns_answer_addresses(read, addresses, 4), 1);
	assert_int_equal(addresses[0], 0x01020305);
	assert_int_equal(dns_answer_ttl_s(read), 9);
	dns_answer_unref(read);
	dns_answer_unref(answer);
}

static void test_reply_that_does_not_fit(void **state)
{
	uint32_t addresses[DNS_ADDRESSES_MAX];
	const struct dns_reply reply = { .addresses = addresses, .n_addresses = DNS_ADDRESSES_MAX };
	const struct dns_name name = name_of("a.test");
	struct dns_answer *answer = NULL;
	struct dns_question question;
	struct buf b = question_of("a.test", DNS_A), out = BUF_INIT;

	for (uint32_t i = 0; i < DNS_ADDRESSES_MAX; i++)
		addresses[i] = i;
	assert_int_equal(parse_question(&b, &question), 0);
	dns_reply_write(&question, &reply, question.udp_max, &out);
	assert_true(out.len <= 512);
	assert_int_equal(
		dns_answer_parse((const uint8_t *)out.data, out.len, 0x1234, &name, DNS_A, &answer),
		-EMSGSIZE);
	buf_reset(&out);
	dns_reply_write(&question, &reply, DNS_MESSAGE_MAX, &out);
	assert_int_equal(
		dns_answer_parse((const uint8_t *)out.data, out.len, 0x1234, &name, DNS_A, &answer),
		0);
	assert_int_equal(dns_answer_addresses(answer, addresses, DNS_ADDRESSES_MAX),
			 DNS_ADDRESSES_MAX);
	dns_answer_unref(answer);
	buf_clear(&out);
}

static void test_explanation_for_clients_with_edns(void **state)
{
	const struct dns_reply reply = { .rcode = DNS_NXDOMAIN, .explanation = "because" };
	struct dns_question question;
	struct buf b = question_of("a.test", DNS_A), out = BUF_INIT;

	assert_int_equal(parse_question(&b, &question), 0);
	dns_reply_write(&question, &reply, 512, &out);
	assert_null(memmem(out.data, out.len, "because", 7));
	buf_reset(&out);
	question.edns = true;
	dns_reply_write(&question, &reply, 512, &out);
	assert_non_null(memmem(out.data, out.len, "\0\17\0\11\0\17because", 13));
	assert_int_equal(out.data[3] & 0x0f, DNS_NXDOMAIN);
	buf_clear(&out);
}

static void test_other_types_pass_with_their_data(void **state)
{
	struct dns_reply reply = { .ttl_s = 5 };
	struct dns_question question;
	struct dns_answer *answer;
	struct buf b, out = BUF_INIT;

	begin_answer(&b, "a.test", DNS_TXT, 2);
	dns_put_record(&b, "a.test", DNS_TXT, 50, "\5hello", 6);
	dns_put_a(&b, "a.test", 50, 0x7f000001); /* not asked for */
	answer = answer_of(&b, "a.test", DNS_TXT);
	reply.answer = answer;
	b = question_of("a.test", DNS_TXT);
	assert_int_equal(parse_question(&b, &question), 0);
	dns_reply_write(&question, &reply, 512, &out);
	assert_non_null(memmem(out.data, out.len, "\5hello", 6));
	assert_null(memmem(out.data, out.len, "\x7f\0\0\1", 4));
	dns_answer_unref(answer);
	buf_clear(&out);
}

static struct ruleset *list_of(const char *rule)
{
	const struct rule_text text = { rule, strlen(rule) };
	struct ruleset *set = NULL;

	assert_int_equal(ruleset_parse(&text, 1, 1, &set, NULL), 0);
	return set;
}

static void test_decide(void **state)
{
	_cleanup_ruleset_ struct ruleset *open = ruleset_new(POLICY_OPEN);
	_cleanup_ruleset_ struct ruleset *nothing = ruleset_new(POLICY_NOTHING);
	_cleanup_ruleset_ struct ruleset *list = list_of("*.example.com:443");
	static const struct {
		const char *name;
		unsigned type;
		enum dns_action open, nothing, list;
	} cases[] = {
		{ "a.example.com", DNS_A, DNS_FORWARD, DNS_NOT_ALLOWED, DNS_FORWARD },
		{ "A.EXAMPLE.COM", DNS_A, DNS_FORWARD, DNS_NOT_ALLOWED, DNS_FORWARD },
		{ "example.com", DNS_A, DNS_FORWARD, DNS_NOT_ALLOWED, DNS_NOT_ALLOWED },
		{ "example.com.evil.test", DNS_A, DNS_FORWARD, DNS_NOT_ALLOWED, DNS_NOT_ALLOWED },
		{ "xexample.com", DNS_A, DNS_FORWARD, DNS_NOT_ALLOWED, DNS_NOT_ALLOWED },
		{ "a.example.com", DNS_AAAA, DNS_EMPTY, DNS_NOT_ALLOWED, DNS_EMPTY },
		{ "a.example.com", DNS_HTTPS, DNS_FORWARD, DNS_NOT_ALLOWED, DNS_EMPTY },
		{ "a.example.com", DNS_TXT, DNS_FORWARD, DNS_NOT_ALLOWED, DNS_FORWARD },
		{ "a.example.com", 255, DNS_REFUSED_TYPE, DNS_REFUSED_TYPE, DNS_REFUSED_TYPE },
		{ "a.example.com", 252, DNS_REFUSED_TYPE, DNS_REFUSED_TYPE, DNS_REFUSED_TYPE },
		{ "a.example.com", 10, DNS_REFUSED_TYPE, DNS_REFUSED_TYPE, DNS_REFUSED_TYPE },
		{ "a.example.com", 65280, DNS_REFUSED_TYPE, DNS_REFUSED_TYPE, DNS_REFUSED_TYPE },
		{ "db.team.internal", DNS_A, DNS_NETWORK, DNS_NETWORK, DNS_NETWORK },
		{ "metadata.google.internal", DNS_TXT, DNS_NETWORK, DNS_NETWORK, DNS_NETWORK },
		{ "4.3.2.1.in-addr.arpa", DNS_PTR, DNS_FORWARD, DNS_NOT_THERE, DNS_NOT_THERE },
		{ "a b.example.com", DNS_A, DNS_FORWARD, DNS_NOT_ALLOWED, DNS_NOT_ALLOWED },
		{ "", DNS_NS, DNS_FORWARD, DNS_NOT_ALLOWED, DNS_NOT_ALLOWED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct buf b = question_of(cases[i].name, cases[i].type);
		struct dns_question question;
		char host[HOSTNAME_MAX + 1];

		assert_int_equal(parse_question(&b, &question), 0);
		if (dns_decide(&question, open, host) != cases[i].open ||
		    dns_decide(&question, nothing, host) != cases[i].nothing ||
		    dns_decide(&question, list, host) != cases[i].list)
			fail_msg("'%s' type %u", cases[i].name, cases[i].type);
	}
}

/* A label "evil.test\0" or one with a dot inside is no way past a suffix. */
static void test_decide_on_labels_that_pretend(void **state)
{
	_cleanup_ruleset_ struct ruleset *list = list_of("*.example.com");
	static const struct {
		const char *wire;
		size_t len;
	} cases[] = {
		{ "\12evil.test\0\7example\3com\0", 24 },
		{ "\15x.example.com\4evil\0", 20 },
		{ "\1a\13example.com\0", 15 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dns_question question = { .type = DNS_A, .has_name = true };
		char host[HOSTNAME_MAX + 1];

		assert_int_equal(dns_name_of_wire((const uint8_t *)cases[i].wire, cases[i].len,
						  &question.name),
				 0);
		assert_int_equal(dns_decide(&question, list, host), DNS_NOT_ALLOWED);
		assert_string_equal(host, "");
	}
}

static struct dns_answer *simple_answer(const char *name, uint32_t ttl_s)
{
	struct buf b;

	begin_answer(&b, name, DNS_A, 1);
	dns_put_a(&b, name, ttl_s, 1);
	return answer_of(&b, name, DNS_A);
}

static uint32_t put(struct dns_cache *cache, const char *name, uint32_t ttl_s, int64_t now_ms)
{
	struct dns_answer *answer = simple_answer(name, ttl_s);
	const struct dns_name key = name_of(name);
	uint32_t life_s = dns_cache_put(cache, &key, DNS_A, answer, now_ms);

	dns_answer_unref(answer);
	return life_s;
}

static bool has(struct dns_cache *cache, const char *name, int64_t now_ms, uint32_t left_s)
{
	const struct dns_name key = name_of(name);
	uint32_t left = UINT32_MAX;
	struct dns_answer *answer = dns_cache_get(cache, &key, DNS_A, now_ms, &left);

	if (answer)
		assert_int_equal(left, left_s);
	dns_answer_unref(answer);
	return answer != NULL;
}

static void test_cache_keeps_for_as_long_as_it_lives(void **state)
{
	struct dns_cache cache = { 0 };

	assert_int_equal(put(&cache, "a.test", 10, 1000), 10);
	assert_true(has(&cache, "a.test", 1000, 10));
	assert_true(has(&cache, "a.test", 10999, 0));
	assert_false(has(&cache, "a.test", 11000, 0));
	assert_false(has(&cache, "a.test", 1000, 0)); /* it was let go */
	assert_int_equal(put(&cache, "a.test", 0, 1000), 0);
	assert_false(has(&cache, "a.test", 1000, 0));
	assert_int_equal(put(&cache, "a.test", 999999, 1000), DNS_CACHE_TTL_MAX_S);
	assert_true(has(&cache, "a.test", 1000, DNS_CACHE_TTL_MAX_S));
	assert_false(has(&cache, "b.test", 1000, 0));
	dns_cache_clear(&cache);
}

static void test_cache_is_bounded(void **state)
{
	struct dns_cache cache = { 0 };
	char name[32];

	for (int i = 0; i < DNS_CACHE_ENTRIES; i++) {
		snprintf(name, sizeof(name), "n%d.test", i);
		put(&cache, name, 60, 0);
	}
	assert_true(has(&cache, "n0.test", 0, 60)); /* used again: n1 is the oldest now */
	put(&cache, "one.more.test", 60, 0);
	assert_true(has(&cache, "n0.test", 0, 60));
	assert_false(has(&cache, "n1.test", 0, 60));
	assert_true(has(&cache, "n2.test", 0, 60));
	assert_true(has(&cache, "one.more.test", 0, 60));
	dns_cache_clear(&cache);
}

static void test_cache_of_failures(void **state)
{
	static const struct {
		unsigned flags;
		uint32_t life_s;
	} cases[] = { { 0x8183, DNS_CACHE_NEGATIVE_S },
		      { 0x8180, DNS_CACHE_NEGATIVE_S },
		      { 0x8182, 0 },
		      { 0x8185, 0 } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct dns_name name = name_of("a.test");
		struct dns_cache cache = { 0 };
		struct dns_answer *answer;
		struct buf b = BUF_INIT;

		dns_put_header(&b, 7, cases[i].flags, 1, 0);
		dns_put_question(&b, "a.test", DNS_A);
		answer = answer_of(&b, "a.test", DNS_A);
		assert_int_equal(dns_cache_put(&cache, &name, DNS_A, answer, 0), cases[i].life_s);
		dns_answer_unref(answer);
		dns_cache_clear(&cache);
	}
}

static void assert_servers(const char *text, const char *wanted)
{
	struct dns_servers servers;
	struct buf all = BUF_INIT;

	dns_resolv_conf_parse(text, strlen(text), &servers);
	for (size_t i = 0; i < servers.n; i++) {
		const union dns_server_address *a = &servers.list[i];
		bool v6 = a->any.sa_family == AF_INET6;
		char one[INET6_ADDRSTRLEN];

		inet_ntop(a->any.sa_family, v6 ? (const void *)&a->v6.sin6_addr : &a->v4.sin_addr,
			  one, sizeof(one));
		assert_int_equal(ntohs(v6 ? a->v6.sin6_port : a->v4.sin_port), 53);
		buf_printf(&all, "%s ", one);
	}
	assert_string_equal(buf_str(&all), wanted);
	buf_clear(&all);
}

static void test_resolv_conf(void **state)
{
	assert_servers("nameserver 192.0.2.1\n", "192.0.2.1 ");
	assert_servers("# nameserver 192.0.2.9\nsearch a.test\nnameserver\t 192.0.2.1 # x\r\n"
		       "nameserver 2001:db8::1\noptions ndots:5\nnameserver 192.0.2.2",
		       "192.0.2.1 2001:db8::1 192.0.2.2 ");
	assert_servers("nameserver 1.1.1.1\nnameserver 2.2.2.2\nnameserver 3.3.3.3\n"
		       "nameserver 4.4.4.4\nnameserver 5.5.5.5\n",
		       "1.1.1.1 2.2.2.2 3.3.3.3 4.4.4.4 ");
	assert_servers("", "127.0.0.1 ");
	assert_servers(
		"nameserver\nnameserver \nnameservers 1.1.1.1\nnameserver x\n nameserver 1.1.1.1\n"
		"nameserver 1.2.3.4.5\nnameserver fe80::1%nosuchdevice\n",
		"127.0.0.1 ");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_wire_that_is_no_name),
		cmocka_unit_test(test_question),
		cmocka_unit_test(test_question_with_edns),
		cmocka_unit_test(test_questions_that_are_refused),
		cmocka_unit_test(test_chain),
		cmocka_unit_test(test_chain_without_end),
		cmocka_unit_test(test_ttl),
		cmocka_unit_test(test_answers_that_are_none),
		cmocka_unit_test(test_address_of_a_wrong_size),
		cmocka_unit_test(test_reply),
		cmocka_unit_test(test_reply_that_does_not_fit),
		cmocka_unit_test(test_explanation_for_clients_with_edns),
		cmocka_unit_test(test_other_types_pass_with_their_data),
		cmocka_unit_test(test_decide),
		cmocka_unit_test(test_decide_on_labels_that_pretend),
		cmocka_unit_test(test_cache_keeps_for_as_long_as_it_lives),
		cmocka_unit_test(test_cache_is_bounded),
		cmocka_unit_test(test_cache_of_failures),
		cmocka_unit_test(test_resolv_conf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
