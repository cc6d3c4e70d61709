/* Lists of pairs, separated by semicolons, that are copied but for some of their parts. */
#include "api/preview_cookie.h"

#include <string.h>
#include <strings.h>

#include "base/str.h"

struct span {
	const char *text;
	size_t len;
};

static struct span trimmed(const char *text, size_t len)
{
	while (len > 0 && (*text == ' ' || *text == '\t')) {
		text++;
		len--;
	}
	while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
		len--;
	return (struct span){ text, len };
}

/* The part between semicolons at *at; false at the end. */
static bool next_part(const char *list, size_t len, size_t *at, struct span *ret)
{
	const char *end;
	size_t part;

	if (*at >= len)
		return false;
	end = memchr(list + *at, ';', len - *at);
	part = end ? (size_t)(end - list) - *at : len - *at;
	*ret = trimmed(list + *at, part);
	*at += part + 1;
	return true;
}

/* What is before the first '='; without one, nothing. */
static struct span name_of(struct span pair)
{
	const char *equals = memchr(pair.text, '=', pair.len);

	return equals ? trimmed(pair.text, (size_t)(equals - pair.text))
		      : (struct span){ pair.text, 0 };
}

static struct span value_of(struct span pair)
{
	const char *equals = memchr(pair.text, '=', pair.len);

	if (!equals)
		return (struct span){ pair.text, 0 };
	return trimmed(equals + 1, pair.len - (size_t)(equals - pair.text) - 1);
}

static bool span_is(struct span span, const char *text)
{
	return span.len == strlen(text) && strncasecmp(span.text, text, span.len) == 0;
}

static bool span_starts(struct span span, const char *text)
{
	return span.len >= strlen(text) && strncasecmp(span.text, text, strlen(text)) == 0;
}

static bool is_ours(struct span name)
{
	static const char *const prefixes[] = { "__Host-", "__Secure-" };

	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++) {
		if (span_starts(name, prefixes[i])) {
			name.text += strlen(prefixes[i]);
			name.len -= strlen(prefixes[i]);
			break;
		}
	}
	return span_starts(name, "skerry_");
}

bool preview_cookie_next(const char *header, size_t len, size_t *at, const char **ret_value,
			 size_t *ret_len)
{
	struct span pair;

	while (next_part(header, len, at, &pair)) {
		struct span name = name_of(pair), value = value_of(pair);

		if (name.len != strlen(PREVIEW_COOKIE) ||
		    memcmp(name.text, PREVIEW_COOKIE, name.len) != 0)
			continue;
		*ret_value = value.text;
		*ret_len = value.len;
		return true;
	}
	return false;
}

void preview_cookie_strip(const char *header, size_t len, struct buf *out)
{
	const size_t before = out->len;
	struct span pair;
	size_t at = 0;

	while (next_part(header, len, &at, &pair)) {
		if (pair.len == 0 || is_ours(name_of(pair)))
			continue;
		if (out->len > before)
			buf_append_str(out, "; ");
		buf_append(out, pair.text, pair.len);
	}
}

/* ---- what a guest sets ---- */

static bool is_below(struct span path, const char *prefix)
{
	size_t len = strlen(prefix);

	return path.len >= len && memcmp(path.text, prefix, len) == 0 &&
	       (path.len == len || path.text[len] == '/' || path.text[len] == '?' ||
		path.text[len] == '#');
}

static void append_path(struct buf *out, struct span path, const char *prefix)
{
	if (path.len == 0 || path.text[0] != '/')
		path = (struct span){ "/", 1 };
	buf_append_str(out, "; Path=");
	if (!is_below(path, prefix))
		buf_append_str(out, prefix);
	buf_append(out, path.text, path.len);
}

bool preview_set_cookie_confine(const char *value, size_t len, const char *prefix, struct buf *out)
{
	struct span part, name;
	size_t at = 0;

	if (!next_part(value, len, &at, &part))
		return false;
	/* One without a name would come back as the name of whatever its value looks like. */
	name = name_of(part);
	if (name.len == 0 || is_ours(name))
		return false;
	buf_append(out, part.text, part.len);
	while (next_part(value, len, &at, &part)) {
		name = memchr(part.text, '=', part.len) ? name_of(part) : part;
		if (part.len == 0 || span_is(name, "Domain"))
			continue;
		if (*prefix && span_is(name, "Path")) {
			append_path(out, value_of(part), prefix);
			continue;
		}
		buf_append_str(out, "; ");
		buf_append(out, part.text, part.len);
	}
	return true;
}

/* What follows scheme and host in an absolute URL on this host; false: it is elsewhere. */
static bool strip_own_host(struct span *url, const char *host)
{
	static const char *const schemes[] = { "http://", "https://" };
	struct span rest;

	for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
		if (!span_starts(*url, schemes[i]))
			continue;
		rest.text = url->text + strlen(schemes[i]);
		rest.len = url->len - strlen(schemes[i]);
		if (!span_starts(rest, host))
			return false;
		rest.text += strlen(host);
		rest.len -= strlen(host);
		if (rest.len > 0 && !strchr("/?#", rest.text[0]))
			return false;
		*url = rest;
		return true;
	}
	return false;
}

void preview_location_confine(const char *value, size_t len, const char *prefix, const char *host,
			      struct buf *out)
{
	struct span url = { value, len };
	bool stripped = *prefix && strip_own_host(&url, host);
	bool rooted = url.len > 0 && url.text[0] == '/';

	/* "//other.example/" is on another host. */
	if (!*prefix || (!stripped && (!rooted || (url.len > 1 && url.text[1] == '/')))) {
		buf_append(out, value, len);
		return;
	}
	if (!is_below(url, prefix)) {
		buf_append_str(out, prefix);
		if (!rooted)
			buf_append_char(out, '/');
	}
	buf_append(out, url.text, url.len);
}
