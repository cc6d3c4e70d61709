/* The events of one running command, turned into bytes. */
#include "cli/exec_output.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"

void exec_output_clear(struct exec_output *output)
{
	json_decref(output->result);
	json_decref(output->problem);
	output->result = output->problem = NULL;
}

bool exec_id_valid(const char *id)
{
	size_t len = strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

	return len > 0 && len <= EXEC_ID_MAX && id[len] == '\0';
}

static int on_started(struct exec_output *output, const json_t *event)
{
	const char *id = json_get_str(event, "exec_id", "");

	if (!exec_id_valid(id))
		return -EBADMSG;
	str_copy(output->exec_id, sizeof(output->exec_id), id);
	return 0;
}

/* The bytes at offset: those before next were written already, those between next and offset are
 * missing. */
static int place(struct exec_output *output, enum exec_stream stream, uint64_t offset,
		 const char *data, size_t len)
{
	uint64_t *next = &output->next[stream];
	int r;

	if (offset > *next) {
		output->gap(output->arg, stream, offset - *next);
		*next = offset;
	}
	if (len <= *next - offset)
		return 0;
	data += *next - offset;
	len -= (size_t)(*next - offset);
	r = output->write(output->arg, stream, data, len);
	if (r == 0)
		*next += len;
	return r;
}

static int on_data(struct exec_output *output, enum exec_stream stream, const json_t *event)
{
	int64_t offset = json_get_int(event, "offset", -1);
	const json_t *text = json_object_get(event, "data");
	const json_t *encoded = json_object_get(event, "data_base64");
	_cleanup_buf_ struct buf bytes = BUF_INIT;

	if (offset < 0)
		return -EBADMSG;
	if (json_is_string(text))
		return place(output, stream, (uint64_t)offset, json_string_value(text),
			     json_string_length(text));
	if (!json_is_string(encoded) ||
	    base64_decode(json_string_value(encoded), json_string_length(encoded), &bytes) < 0)
		return -EBADMSG;
	return place(output, stream, (uint64_t)offset, buf_str(&bytes), bytes.len);
}

/* Bytes that nobody has any more, whether or not others follow. */
static int on_gap_event(struct exec_output *output, const json_t *event)
{
	bool is_stderr = str_eq(json_get_str(event, "stream", ""), "stderr");
	uint64_t *next = &output->next[is_stderr ? EXEC_STDERR : EXEC_STDOUT];
	int64_t to = json_get_int(event, "to", -1);

	if (to < 0)
		return -EBADMSG;
	if ((uint64_t)to > *next) {
		output->gap(output->arg, is_stderr ? EXEC_STDERR : EXEC_STDOUT,
			    (uint64_t)to - *next);
		*next = (uint64_t)to;
	}
	return 0;
}

int exec_output_event(struct exec_output *output, const char *name, const char *data, size_t len)
{
	_cleanup_json_ json_t *event = NULL;

	if (json_parse(data, len, &event, NULL) < 0 || !json_is_object(event))
		return -EBADMSG;
	if (str_eq(name, "started"))
		return on_started(output, event);
	if (str_eq(name, "stdout"))
		return on_data(output, EXEC_STDOUT, event);
	if (str_eq(name, "stderr"))
		return on_data(output, EXEC_STDERR, event);
	if (str_eq(name, "gap"))
		return on_gap_event(output, event);
	if (str_eq(name, "exit")) {
		json_decref(output->result);
		output->result = json_incref(event);
	} else if (str_eq(name, "error")) {
		json_decref(output->problem);
		output->problem = json_incref(event);
	}
	return 0; /* events of later versions are not ours to judge */
}
