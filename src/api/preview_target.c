/* Addresses of previews, taken apart and put together. */
#include "api/preview_target.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/str.h"

#define ID_PREFIX    "sbx_"
#define ID_HEX_MAX   16
#define LABEL_SIZE   64
#define LOWER_DIGITS "0123456789abcdefghijklmnopqrstuvwxyz-"

/* ---- the configured domain ---- */

/* Labels of letters, digits and hyphens, with single dots between. */
static bool is_domain(const char *name)
{
	const char *at = name;

	if (strlen(name) >= PREVIEW_NAME_SIZE)
		return false;
	for (;;) {
		size_t len = strspn(at, LOWER_DIGITS);

		if (len < 1 || len > 63 || at[0] == '-' || at[len - 1] == '-')
			return false;
		if (!at[len])
			return true;
		if (at[len] != '.')
			return false;
		at += len + 1;
	}
}

static void lower(char *text)
{
	for (; *text; text++) {
		if (*text >= 'A' && *text <= 'Z')
			*text = (char)(*text - 'A' + 'a');
	}
}

int preview_domain_parse(const char *text, struct preview_domain *ret, struct err *err)
{
	static const char *const schemes[] = { "http", "https" };
	struct preview_domain domain = { 0 };
	const char *rest = text;
	char *colon;
	int64_t port = 1;

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		size_t len = strlen(schemes[i]);

		if (strncasecmp(text, schemes[i], len) == 0 && strncmp(text + len, "://", 3) == 0) {
			str_copy(domain.scheme, sizeof(domain.scheme), schemes[i]);
			rest = text + len + 3;
		}
	}
	if (!str_copy(domain.name, sizeof(domain.name), rest))
		return err_set(err, -EINVAL, "the name is longer than %d bytes",
			       PREVIEW_NAME_SIZE - 1);
	colon = strchr(domain.name, ':');
	if (colon) {
		*colon = '\0';
		if (!str_copy(domain.port, sizeof(domain.port), colon + 1) ||
		    str_to_i64(domain.port, &port) < 0)
			port = 0;
	}
	lower(domain.name);
	if (port < 1 || port > 65535 || !is_domain(domain.name))
		return err_set(err, -EINVAL,
			       "'%s' is not a domain name, with an optional http:// or https:// "
			       "before and :PORT behind",
			       text);
	*ret = domain;
	return 0;
}

/* ---- finding ---- */

static int parse_port(const char *text, size_t len, uint16_t *ret)
{
	uint32_t port = 0;

	if (len < 1 || len > 5 || text[0] == '0')
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		port = port * 10 + (uint32_t)(text[i] - '0');
	}
	if (port > UINT16_MAX)
		return -EINVAL;
	*ret = (uint16_t)port;
	return 0;
}

/* Whether it exists is the core's to say; here it is only made sure that it could. */
static int parse_id(const char *text, size_t len, char ret[PREVIEW_ID_SIZE])
{
	const size_t prefix = strlen(ID_PREFIX);

	if (len <= prefix || len > prefix + ID_HEX_MAX || memcmp(text, ID_PREFIX, prefix) != 0 ||
	    strspn(text + prefix, "0123456789abcdef") < len - prefix)
		return -EINVAL;
	memcpy(ret, text, len);
	ret[len] = '\0';
	return 0;
}

static int find_by_path(const char *path, struct preview_target *target)
{
	const char *id = path + strlen(PREVIEW_PATH);
	size_t id_len = strcspn(id, "/");
	const char *port = id + id_len + (id[id_len] == '/');
	size_t port_len = strcspn(port, "/");

	if (parse_id(id, id_len, target->id) < 0 || parse_port(port, port_len, &target->port) < 0)
		return -EINVAL;
	target->rest = port + port_len;
	snprintf(target->prefix, sizeof(target->prefix), PREVIEW_PATH "%s/%u", target->id,
		 target->port);
	return 0;
}

/* The part of host before ".<domain>", lower case; false when host is not below the domain. */
static bool label_below(const char *host, const char *domain, char label[LABEL_SIZE])
{
	size_t len = strcspn(host, ":"), domain_len = strlen(domain), label_len;

	if (domain_len == 0 || len <= domain_len + 1)
		return false;
	label_len = len - domain_len - 1;
	if (host[label_len] != '.' || strncasecmp(host + label_len + 1, domain, domain_len) != 0)
		return false;
	/* One too long to be a preview's is still below the domain: not the API's. */
	if (label_len >= LABEL_SIZE)
		label_len = 0;
	memcpy(label, host, label_len);
	label[label_len] = '\0';
	lower(label);
	return true;
}

/* "<port>-<id>"; in the id, "sbx-" stands for "sbx_" where an underscore is not allowed. */
static int parse_label(char *label, struct preview_target *target)
{
	size_t port_len = strcspn(label, "-");
	char *id = label + port_len + (label[port_len] == '-');

	if (str_starts(id, "sbx-"))
		id[3] = '_';
	if (parse_port(label, port_len, &target->port) < 0 ||
	    parse_id(id, strlen(id), target->id) < 0)
		return -EINVAL;
	return 0;
}

int preview_target_find(const char *host, const char *path, const struct preview_domain *domain,
			bool loopback, struct preview_target *ret)
{
	struct preview_target target = { 0 };
	char label[LABEL_SIZE];

	bool configured = host && domain && label_below(host, domain->name, label);

	if (configured || (host && loopback && label_below(host, "localhost", label))) {
		if (parse_label(label, &target) < 0 || path[0] != '/')
			return -EINVAL;
		target.by_host = true;
		target.scheme = configured && domain->scheme[0] ? domain->scheme : NULL;
		target.rest = path;
	} else if (!str_starts(path, PREVIEW_PATH)) {
		return -ENOENT;
	} else if (find_by_path(path, &target) < 0) {
		return -EINVAL;
	}
	*ret = target;
	return 0;
}

/* ---- URLs ---- */

void preview_own_origin(const struct preview_domain *domain, const char *origin, const char *id,
			uint16_t port, struct buf *out)
{
	size_t scheme_len = strcspn(origin, ":");
	const char *bracket = strrchr(origin, ']');
	const char *own_port = strrchr(bracket ? bracket : origin + scheme_len + 1, ':');

	if (domain->scheme[0])
		buf_append_str(out, domain->scheme);
	else
		buf_append(out, origin, scheme_len);
	buf_printf(out, "://%u-%s.%s", port, id, domain->name);
	if (domain->port[0])
		buf_printf(out, ":%s", domain->port);
	else if (!domain->scheme[0] && own_port)
		buf_append_str(out, own_port);
}

void preview_url(const struct preview_domain *domain, const char *origin, const char *id,
		 uint16_t port, const char *token, struct buf *out)
{
	if (!domain || !domain->name[0]) {
		buf_printf(out, "%s" PREVIEW_PATH "%s/%u/", origin, id, port);
	} else {
		preview_own_origin(domain, origin, id, port, out);
		buf_append_char(out, '/');
	}
	buf_printf(out, "?" PREVIEW_QUERY "=%s", token);
}

bool preview_query_split(const char *query, struct buf *rest, struct buf *token)
{
	static const char name[] = PREVIEW_QUERY "=";
	const size_t name_len = sizeof(name) - 1;
	bool found = false, first = true;

	while (query && *query) {
		size_t len = strcspn(query, "&");

		if (len >= name_len && memcmp(query, name, name_len) == 0) {
			if (!found)
				buf_append(token, query + name_len, len - name_len);
			found = true;
		} else {
			if (!first)
				buf_append_char(rest, '&');
			buf_append(rest, query, len);
			first = false;
		}
		query += len + (query[len] == '&');
	}
	return found;
}
