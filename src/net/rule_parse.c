/*
 * One rule: text to struct and back. The text is cut from both ends, protocol in front and port
 * behind, and what is between decides by its shape: a bracket or two colons make it IPv6, a number
 * at its end or a slash IPv4, anything else a name.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/str.h"
#include "net/rules.h"

static int bad(struct rule_fault *fault, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static int bad(struct rule_fault *fault, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(fault->text, sizeof(fault->text), fmt, ap);
	va_end(ap);
	return -EINVAL;
}

struct span {
	const char *at;
	size_t len;
};

static bool span_starts(struct span s, const char *prefix)
{
	size_t n = strlen(prefix);

	return s.len >= n && strncasecmp(s.at, prefix, n) == 0;
}

static struct span span_from(struct span s, size_t n)
{
	return (struct span){ s.at + n, s.len - n };
}

/* Blanks are named before all else: they are invisible in the text that the message quotes. */
static int check_characters(struct span s, struct rule_fault *fault)
{
	if (s.len == 0)
		return bad(fault, "is empty");
	if (s.len > RULE_TEXT_MAX)
		return bad(fault, "has more than %d bytes", RULE_TEXT_MAX);
	for (size_t i = 0; i < s.len; i++) {
		unsigned char c = (unsigned char)s.at[i];

		if (c == '\0')
			return bad(fault, "has a NUL byte at position %zu", i);
		if (c <= ' ' || c == 0x7f)
			return bad(fault, "has a blank or control character at position %zu", i);
	}
	return 0;
}

static int take_proto(struct span *s, enum policy_protocol *ret, struct rule_fault *fault)
{
	*ret = POLICY_ANY;
	if (span_starts(*s, "tcp://"))
		*ret = POLICY_TCP;
	else if (span_starts(*s, "udp://"))
		*ret = POLICY_UDP;
	else if (memmem(s->at, s->len, "://", 3))
		return bad(fault,
			   "is a URL; write host:port, with 'tcp://' or 'udp://' in front at most");
	if (*ret != POLICY_ANY)
		*s = span_from(*s, 6);
	if (s->len == 0)
		return bad(fault, "has nothing behind its protocol");
	return 0;
}

static int parse_port(struct span s, uint16_t *ret, struct rule_fault *fault)
{
	uint32_t value = 0;

	if (s.len == 0)
		return bad(fault, "has no port behind its ':'");
	for (size_t i = 0; i < s.len; i++) {
		if (s.at[i] < '0' || s.at[i] > '9')
			return bad(fault, "has a port that is not a number");
		if (value <= UINT16_MAX)
			value = value * 10 + (uint32_t)(s.at[i] - '0');
	}
	if (value == 0 || value > UINT16_MAX)
		return bad(fault, "has a port that is not 1 to 65535");
	if (s.at[0] == '0')
		return bad(fault, "has a port with a leading zero");
	*ret = (uint16_t)value;
	return 0;
}

/* "[v6]", "[v6/bits]" or either with ":port". Leaves the inside of the brackets in s. */
static int take_bracketed(struct span *s, uint16_t *port, struct rule_fault *fault)
{
	const char *end = memchr(s->at, ']', s->len);
	struct span inside, behind;

	if (!end)
		return bad(fault, "has a '[' without a ']'");
	inside = (struct span){ s->at + 1, (size_t)(end - s->at) - 1 };
	behind = span_from(*s, inside.len + 2);
	if (!memchr(inside.at, ':', inside.len))
		return bad(fault, "has something other than an IPv6 address in its brackets");
	*s = inside;
	if (behind.len == 0)
		return 0;
	if (behind.at[0] != ':')
		return bad(fault, "has something other than a ':' and a port behind its ']' (a "
				  "prefix length goes inside the brackets)");
	return parse_port(span_from(behind, 1), port, fault);
}

static int take_port(struct span *s, uint16_t *port, struct rule_fault *fault)
{
	const char *colon;

	*port = 0;
	if (s->at[0] == '[')
		return take_bracketed(s, port, fault);
	colon = memchr(s->at, ':', s->len);
	if (!colon || memchr(colon + 1, ':', s->len - (size_t)(colon + 1 - s->at)))
		return 0; /* none, or an IPv6 address without brackets and so without a port */
	if (colon == s->at)
		return bad(fault, "has nothing before its port");
	if (parse_port((struct span){ colon + 1, s->len - (size_t)(colon + 1 - s->at) }, port,
		       fault) < 0)
		return -EINVAL;
	s->len = (size_t)(colon - s->at);
	return 0;
}

/* "10.1.2.3/8" is answered with what was meant, or what would be exact. */
static int bad_host_bits(struct span s, struct rule_fault *fault)
{
	struct net_prefix prefix;
	char address[PREFIX_TEXT_SIZE], network[PREFIX_TEXT_SIZE];
	const char *slash = memchr(s.at, '/', s.len);
	int bits = 0;

	if (prefix_parse(s.at, (size_t)(slash - s.at), &prefix, NULL) < 0)
		return -EINVAL;
	prefix_print(&prefix, address);
	for (const char *p = slash + 1; p < s.at + s.len; p++)
		bits = bits * 10 + (*p - '0');
	prefix.bits = (uint8_t)bits;
	prefix_mask(&prefix);
	return bad(fault,
		   "has bits set behind its prefix length; write '%s' for the network or '%s' for "
		   "the address",
		   prefix_print(&prefix, network), address);
}

static int parse_prefix(struct span s, struct rule *rule, struct rule_fault *fault)
{
	const char *text;

	if (prefix_parse(s.at, s.len, &rule->prefix, &text) == 0)
		return 0;
	if (strstr(text, "bits set"))
		return bad_host_bits(s, fault);
	return bad(fault, "has an address that %s", text);
}

static int parse_name(struct span s, struct rule *rule, struct rule_fault *fault)
{
	char name[HOSTNAME_MAX + 1];
	const char *text;

	if (s.len == 1 && s.at[0] == '*')
		return bad(fault, "is '*': there is no rule for every host; null in place of the "
				  "list opens everything");
	if (rule->kind == RULE_SUBDOMAINS)
		s = span_from(s, 2);
	if (hostname_canon_idna(s.at, s.len, name, &text) < 0)
		return bad(fault, "has a host name that %s", text);
	rule->host = xstrdup(name);
	return 0;
}

/* What is between protocol and port. */
static int parse_target(struct span s, struct rule *rule, struct rule_fault *fault)
{
	const char *slash = memchr(s.at, '/', s.len);
	size_t head = slash ? (size_t)(slash - s.at) : s.len;

	if (memchr(s.at, ':', s.len) || hostname_ends_in_number(s.at, head)) {
		rule->kind = RULE_PREFIX;
		return parse_prefix(s, rule, fault);
	}
	if (slash)
		return bad(fault, "has a '/', which only an address with a prefix length has: a "
				  "rule is for a host, not for a path");
	rule->kind = span_starts(s, "*.") ? RULE_SUBDOMAINS : RULE_HOST;
	return parse_name(s, rule, fault);
}

int rule_parse(const char *text, size_t len, struct rule *ret, struct rule_fault *fault)
{
	struct span s = { text, len };
	struct rule rule = { 0 };

	if (check_characters(s, fault) < 0 || take_proto(&s, &rule.proto, fault) < 0 ||
	    take_port(&s, &rule.port, fault) < 0 || parse_target(s, &rule, fault) < 0)
		return -EINVAL;
	*ret = rule;
	return 0;
}

void rule_clear(struct rule *rule)
{
	free(rule->host);
	*rule = (struct rule){ 0 };
}

const char *rule_print(const struct rule *rule, char out[RULE_PRINT_SIZE])
{
	static const char *const protos[] = {
		[POLICY_ANY] = "",
		[POLICY_TCP] = "tcp://",
		[POLICY_UDP] = "udp://",
	};
	bool brackets = rule->kind == RULE_PREFIX && rule->prefix.family == 6 && rule->port;
	char address[PREFIX_TEXT_SIZE], port[8] = "";

	if (rule->port)
		snprintf(port, sizeof(port), ":%u", (unsigned)rule->port);
	snprintf(out, RULE_PRINT_SIZE, "%s%s%s%s%s%s", protos[rule->proto], brackets ? "[" : "",
		 rule->kind == RULE_SUBDOMAINS ? "*." : "",
		 rule->kind == RULE_PREFIX ? prefix_print(&rule->prefix, address) : rule->host,
		 brackets ? "]" : "", port);
	return out;
}
