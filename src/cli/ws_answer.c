/* Answers to a handshake. See ws_answer.h. */
#include "cli/ws_answer.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "base/ws.h"

static bool parse_status(const char *line, struct ws_answer *answer)
{
	if (!str_starts(line, "HTTP/1.1 ") || strspn(line + 9, "0123456789") != 3 ||
	    (line[12] != ' ' && line[12] != '\0'))
		return false;
	answer->status =
		(unsigned int)((line[9] - '0') * 100 + (line[10] - '0') * 10 + line[11] - '0');
	return answer->status >= 100;
}

struct seen {
	bool upgrade, connection;
};

static bool take_header(char *line, struct ws_answer *answer, struct seen *seen)
{
	char *colon = strchr(line, ':'), *value;
	size_t len;

	if (!colon || colon == line || strcspn(line, " \t") < (size_t)(colon - line))
		return false;
	*colon = '\0';
	value = colon + 1 + strspn(colon + 1, " \t");
	len = strlen(value);
	while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t'))
		value[--len] = '\0';
	if (strcasecmp(line, "Upgrade") == 0)
		seen->upgrade |= ws_list_has(value, "websocket");
	else if (strcasecmp(line, "Connection") == 0)
		seen->connection |= ws_list_has(value, "upgrade");
	else if (strcasecmp(line, "Sec-WebSocket-Accept") == 0)
		return str_copy(answer->accept, sizeof(answer->accept), value);
	else if (strcasecmp(line, "Content-Type") == 0)
		str_copy(answer->content_type, sizeof(answer->content_type), value);
	else if (strcasecmp(line, "Content-Length") == 0)
		return str_to_i64(value, &answer->content_length) == 0 &&
		       answer->content_length >= 0;
	return true;
}

ssize_t ws_answer_parse(const char *data, size_t len, struct ws_answer *ret)
{
	const char *end = memmem(data, len, "\r\n\r\n", 4);
	struct ws_answer answer = { .content_length = -1 };
	struct seen seen = { 0 };
	_cleanup_free_ char *head = NULL;
	char *next;

	if (!end || (size_t)(end - data) > WS_ANSWER_HEAD_MAX)
		return len > WS_ANSWER_HEAD_MAX ? -EBADMSG : 0;
	if (memchr(data, '\0', (size_t)(end - data)))
		return -EBADMSG;
	head = xstrndup(data, (size_t)(end - data));
	for (char *line = head; line; line = next) {
		next = strstr(line, "\r\n");
		if (next) {
			*next = '\0';
			next += 2;
		}
		if (line == head ? !parse_status(line, &answer)
				 : !take_header(line, &answer, &seen))
			return -EBADMSG;
	}
	answer.upgrades = answer.status == 101 && seen.upgrade && seen.connection;
	*ret = answer;
	return end + 4 - data;
}
