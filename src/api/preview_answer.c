/*
 * What of an answer is passed on. Where the guest shares a host with the API, what would speak for
 * the whole host is dropped, and cookies and redirections are confined to the preview's path.
 */
#include "api/preview_answer.h"

#include <string.h>

#include "api/preview_cookie.h"
#include "base/str.h"

/* What a browser keeps for a whole origin or host, and what widens a service worker's reach. */
static bool speaks_for_host(const struct preview_header *header)
{
	static const char *const names[] = {
		"Alt-Svc",
		"Clear-Site-Data",
		"NEL",
		"Public-Key-Pins",
		"Public-Key-Pins-Report-Only",
		"Report-To",
		"Reporting-Endpoints",
		"Service-Worker-Allowed",
		"Strict-Transport-Security",
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (preview_header_is(header, names[i]))
			return true;
	}
	return false;
}

static bool is_named_by_connection(const struct preview_head *head,
				   const struct preview_header *header)
{
	for (size_t i = 0; i < head->n_headers; i++) {
		const struct preview_header *other = &head->headers[i];

		if (preview_header_is(other, "Connection") &&
		    preview_list_has(other->value, other->value_len, header->name,
				     header->name_len))
			return true;
	}
	return false;
}

static bool is_dropped(const struct preview_head *head, const struct preview_target *target,
		       const struct preview_header *header)
{
	return preview_is_hop_by_hop(header->name, header->name_len) ||
	       preview_header_is(header, "Content-Length") || header->value_len == 0 ||
	       (!target->by_host && speaks_for_host(header)) ||
	       is_named_by_connection(head, header);
}

/* Both end with a NUL in text; the pointers are made when it does not move any more. */
static void add(struct preview_answer *answer, size_t name_at, size_t value_at)
{
	answer->name_at[answer->n] = name_at;
	answer->value_at[answer->n] = value_at;
	answer->n++;
}

static void add_header(struct preview_answer *answer, const struct preview_header *header,
		       const struct preview_target *target, const char *host)
{
	struct buf *text = &answer->text;
	size_t name_at = text->len, value_at;

	buf_append(text, header->name, header->name_len);
	buf_append_char(text, '\0');
	value_at = text->len;
	if (preview_header_is(header, "Set-Cookie")) {
		if (!preview_set_cookie_confine(header->value, header->value_len, target->prefix,
						text)) {
			text->len = name_at;
			return;
		}
	} else if (preview_header_is(header, "Location") ||
		   preview_header_is(header, "Content-Location")) {
		preview_location_confine(header->value, header->value_len, target->prefix, host,
					 text);
	} else {
		buf_append(text, header->value, header->value_len);
	}
	buf_append_char(text, '\0');
	add(answer, name_at, value_at);
}

static void add_pair(struct preview_answer *answer, const char *name, const char *value)
{
	struct buf *text = &answer->text;
	size_t name_at = text->len, value_at;

	buf_append(text, name, strlen(name) + 1);
	value_at = text->len;
	buf_append(text, value, strlen(value) + 1);
	add(answer, name_at, value_at);
}

void preview_answer_make(const struct preview_head *head, const struct preview_target *target,
			 const char *host, const char *upgrade, struct preview_answer *ret)
{
	*ret = (struct preview_answer){ 0 };
	if (*upgrade) {
		add_pair(ret, "Connection", "Upgrade");
		add_pair(ret, "Upgrade", upgrade);
	}
	for (size_t i = 0; i < head->n_headers; i++) {
		if (!is_dropped(head, target, &head->headers[i]))
			add_header(ret, &head->headers[i], target, host);
	}
	for (size_t i = 0; i < ret->n; i++) {
		ret->headers[i].name = ret->text.data + ret->name_at[i];
		ret->headers[i].value = ret->text.data + ret->value_at[i];
	}
}

void preview_answer_clear(struct preview_answer *answer)
{
	buf_clear(&answer->text);
}
