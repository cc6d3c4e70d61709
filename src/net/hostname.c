/* Host names in one spelling. */
#include "net/hostname.h"

#include <errno.h>
#include <idn2.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"

DEFINE_CLEANUP(uint8_t *, cleanup_idn2p, idn2_free);

static int bad(const char **ret_why, const char *why)
{
	if (ret_why)
		*ret_why = why;
	return -EINVAL;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* The underscore is in no host name by the book, and in many that resolve. */
static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_';
}

static const char *label_fault(const char *label, size_t len)
{
	if (len == 0)
		return "has an empty label";
	if (len > HOSTNAME_LABEL_MAX)
		return "has a label of more than 63 bytes";
	if (label[0] == '-' || label[len - 1] == '-')
		return "has a label that begins or ends with '-'";
	return NULL;
}

static const char *char_fault(char c)
{
	if (c == '\0')
		return "has a NUL byte in it";
	if (c == '*')
		return "has a '*' that is not the whole first label";
	if ((unsigned char)c >= 0x80)
		return "has a byte that is not ASCII";
	return "has a character other than letters, digits, '-', '_' and '.'";
}

bool hostname_ends_in_number(const char *text, size_t len)
{
	size_t end = len, start;
	bool hex;

	if (end > 0 && text[end - 1] == '.')
		end--;
	for (start = end; start > 0 && text[start - 1] != '.'; start--)
		;
	if (end == start)
		return false;
	hex = end - start >= 2 && text[start] == '0' && lower(text[start + 1]) == 'x';
	for (size_t i = hex ? start + 2 : start; i < end; i++) {
		char c = lower(text[i]);

		if (!is_digit(c) && !(hex && c >= 'a' && c <= 'f'))
			return false;
	}
	return true;
}

int hostname_canon(const char *text, size_t len, char out[HOSTNAME_MAX + 1], const char **ret_why)
{
	char name[HOSTNAME_MAX + 1];
	size_t label = 0;

	if (len > 0 && text[len - 1] == '.')
		len--;
	if (len == 0)
		return bad(ret_why, "is empty");
	if (len > HOSTNAME_MAX)
		return bad(ret_why, "has more than 253 bytes");
	for (size_t i = 0; i <= len; i++) {
		const char *fault = NULL;

		name[i] = i < len ? lower(text[i]) : '\0';
		if (i == len || name[i] == '.') {
			fault = label_fault(name + label, i - label);
			label = i + 1;
		} else if (!is_name_char(name[i])) {
			fault = char_fault(name[i]);
		}
		if (fault)
			return bad(ret_why, fault);
	}
	if (hostname_ends_in_number(name, len))
		return bad(ret_why, "ends in a number, so that it would be taken for an address");
	memcpy(out, name, len + 1);
	return 0;
}

int hostname_canon_idna(const char *text, size_t len, char out[HOSTNAME_MAX + 1],
			const char **ret_why)
{
	_cleanup_(cleanup_idn2p) uint8_t *ascii = NULL;
	char unicode[4 * HOSTNAME_MAX + 1];
	size_t plain = 0;

	while (plain < len && (unsigned char)text[plain] < 0x80 && text[plain] != '\0')
		plain++;
	if (plain == len || text[plain] == '\0')
		return hostname_canon(text, len, out, ret_why);
	if (len >= sizeof(unicode))
		return bad(ret_why, "is too long");
	if (memchr(text, '\0', len))
		return bad(ret_why, "has a NUL byte in it");
	if (!utf8_valid(text, len))
		return bad(ret_why, "is not valid UTF-8");
	memcpy(unicode, text, len);
	unicode[len] = '\0';
	if (idn2_lookup_u8((const uint8_t *)unicode, &ascii,
			   IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL) != IDN2_OK)
		return bad(ret_why, "is not a valid international name (IDNA2008)");
	return hostname_canon((const char *)ascii, strlen((const char *)ascii), out, ret_why);
}

bool hostname_below(const char *name, const char *domain)
{
	size_t name_len = strlen(name), domain_len = strlen(domain);

	return name_len > domain_len + 1 && name[name_len - domain_len - 1] == '.' &&
	       memcmp(name + name_len - domain_len, domain, domain_len) == 0;
}
