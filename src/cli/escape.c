/* The escape of `skerry shell`. See escape.h. */
#include "cli/escape.h"

#define CTRL_Z '\x1a'

static enum escape_action after_tilde(struct escape *escape, char c, struct buf *out)
{
	escape->tilde = false;
	switch (c) {
	case '.':
		return ESCAPE_LEAVE;
	case CTRL_Z:
		return ESCAPE_SUSPEND;
	case '?':
		return ESCAPE_HELP;
	case '~':
		break;
	default:
		buf_append_char(out, '~');
	}
	buf_append_char(out, c);
	escape->in_line = c != '\r' && c != '\n';
	return ESCAPE_NONE;
}

enum escape_action escape_filter(struct escape *escape, const char *data, size_t len,
				 size_t *ret_used, struct buf *out)
{
	for (size_t i = 0; i < len; i++) {
		enum escape_action action = ESCAPE_NONE;

		if (escape->tilde) {
			action = after_tilde(escape, data[i], out);
		} else if (data[i] == '~' && !escape->in_line) {
			escape->tilde = true;
		} else {
			buf_append_char(out, data[i]);
			escape->in_line = data[i] != '\r' && data[i] != '\n';
		}
		if (action != ESCAPE_NONE) {
			*ret_used = i + 1;
			return action;
		}
	}
	*ret_used = len;
	return ESCAPE_NONE;
}
