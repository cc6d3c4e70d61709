/* The parser of what a guest says. See message.h. */
#include "agent/message.h"

#include <errno.h>
#include <string.h>

#include "agent/agent.h"

#define TEXT_MAX 4096u /* a message or a name; longer ones are no mistake but an attack */

static int get_stream(struct frame_reader *r)
{
	int stream = frame_get_u8(r);

	if (stream != PROTO_STDOUT && stream != PROTO_STDERR)
		r->bad = true;
	return stream;
}

static bool get_bool(struct frame_reader *r)
{
	uint8_t v = frame_get_u8(r);

	if (v > 1)
		r->bad = true;
	return v == 1;
}

/* Offsets, totals and times: what a signed number cannot hold is no count of anything. */
static uint64_t get_count(struct frame_reader *r)
{
	uint64_t v = frame_get_u64(r);

	if (v > INT64_MAX)
		r->bad = true;
	return v;
}

static void parse_hello_ack(struct frame_reader *r, struct agent_message *m)
{
	m->hello_ack.version = frame_get_u32(r);
	m->hello_ack.epoch = frame_get_u64(r);
	m->hello_ack.guest_boottime_ms = frame_get_u64(r);
	m->hello_ack.applied = frame_get_u32(r);
	m->hello_ack.mem_total_kib = frame_get_u64(r);
	m->hello_ack.agent_version = frame_get_string(r, TEXT_MAX);
	m->hello_ack.kernel_release = frame_get_string(r, TEXT_MAX);
	m->hello_ack.os_name = frame_get_string(r, TEXT_MAX);
}

static void parse_exit(struct frame_reader *r, struct agent_message *m)
{
	m->exit.exit_code = (int32_t)frame_get_u32(r);
	m->exit.signal = frame_get_u32(r);
	m->exit.bits = frame_get_u32(r);
	m->exit.duration_ms = get_count(r);
	m->exit.stdout_total = get_count(r);
	m->exit.stderr_total = get_count(r);
	if (m->exit.exit_code < -1 || m->exit.exit_code > 255 || m->exit.signal > 127)
		r->bad = true;
}

void agent_message_exec(struct frame_reader *r, struct agent_exec_info *ret)
{
	struct agent_message m = { 0 };
	struct frame_slice id, command;

	*ret = (struct agent_exec_info){ 0 };
	id = frame_get_string(r, PROTO_EXEC_ID_MAX);
	command = frame_get_string(r, PROTO_COMMAND_SHOWN_MAX);
	memcpy(ret->exec_id, id.data, id.len);
	memcpy(ret->command, command.data, command.len);
	if (strlen(ret->exec_id) != id.len || strlen(ret->command) != command.len)
		r->bad = true;
	ret->command_whole = get_bool(r);
	ret->running = get_bool(r);
	ret->age_ms = get_count(r);
	parse_exit(r, &m);
	ret->exit = (struct agent_exit){
		.exit_code = m.exit.exit_code,
		.signal = (int)m.exit.signal,
		.timed_out = m.exit.bits & PROTO_EXIT_TIMED_OUT,
		.out_of_memory = m.exit.bits & PROTO_EXIT_OOM,
		.duration_ms = m.exit.duration_ms,
		.stdout_bytes = m.exit.stdout_total,
		.stderr_bytes = m.exit.stderr_total,
	};
}

static void parse_execs(struct frame_reader *r, struct agent_message *m)
{
	struct agent_exec_info one;
	struct frame_reader entries;

	m->execs.token = frame_get_u64(r);
	m->execs.n = frame_get_u32(r);
	m->execs.entries = frame_get_rest(r);
	entries = (struct frame_reader){ .data = (const uint8_t *)m->execs.entries.data,
					 .left = m->execs.entries.len };
	if (m->execs.n > PROTO_EXECS_MAX)
		r->bad = true;
	for (uint32_t i = 0; i < m->execs.n && !r->bad && !entries.bad; i++)
		agent_message_exec(&entries, &one);
	if (!frame_done(&entries))
		r->bad = true;
}

static void parse_data(struct frame_reader *r, struct agent_message *m)
{
	m->data.stream = get_stream(r);
	m->data.offset = get_count(r);
	m->data.bytes = frame_get_rest(r);
	if (m->data.bytes.len == 0 || m->data.bytes.len > PROTO_DATA_MAX)
		r->bad = true;
}

static void parse_state(struct frame_reader *r, struct agent_message *m)
{
	m->state.running = get_bool(r);
	m->state.stdout_total = get_count(r);
	m->state.stderr_total = get_count(r);
	m->state.input_offset = get_count(r);
	m->state.duration_ms = get_count(r);
}

void agent_message_terminal(struct frame_reader *r, struct agent_terminal *ret)
{
	struct frame_slice id = frame_get_string(r, PROTO_EXEC_ID_MAX);

	*ret = (struct agent_terminal){ 0 };
	memcpy(ret->exec_id, id.data, id.len);
	if (strlen(ret->exec_id) != id.len)
		r->bad = true;
	ret->age_ms = get_count(r);
	ret->output_bytes = get_count(r);
	ret->cols = frame_get_u32(r);
	ret->rows = frame_get_u32(r);
	if (ret->cols > PROTO_TTY_SIZE_MAX || ret->rows > PROTO_TTY_SIZE_MAX)
		r->bad = true;
	ret->busy = get_bool(r);
}

static void parse_terminals(struct frame_reader *r, struct agent_message *m)
{
	struct agent_terminal one;
	struct frame_reader entries;

	m->terminals.token = frame_get_u64(r);
	m->terminals.n = frame_get_u32(r);
	m->terminals.entries = frame_get_rest(r);
	entries = (struct frame_reader){ .data = (const uint8_t *)m->terminals.entries.data,
					 .left = m->terminals.entries.len };
	if (m->terminals.n > PROTO_TERMINALS_MAX)
		r->bad = true;
	for (uint32_t i = 0; i < m->terminals.n && !r->bad && !entries.bad; i++)
		agent_message_terminal(&entries, &one);
	if (!frame_done(&entries))
		r->bad = true;
}

static void parse_payload(struct frame_reader *r, struct agent_message *m)
{
	switch (m->type) {
	case PROTO_HELLO_ACK:
		parse_hello_ack(r, m);
		break;
	case PROTO_PONG:
		m->pong_token = frame_get_u64(r);
		break;
	case PROTO_FREEZER:
		m->freezer.token = frame_get_u64(r);
		m->freezer.frozen = get_bool(r);
		m->freezer.synced = get_bool(r);
		break;
	case PROTO_ACTIVITY:
		m->activity.token = frame_get_u64(r);
		m->activity.running = frame_get_u32(r);
		m->activity.quiet_ms = frame_get_u64(r);
		break;
	case PROTO_TERMINALS:
		parse_terminals(r, m);
		break;
	case PROTO_EXECS:
		parse_execs(r, m);
		break;
	case PROTO_STARTED:
		m->started_pid = frame_get_u32(r);
		break;
	case PROTO_FAILED:
		m->failed.reason = frame_get_u32(r);
		m->failed.message = frame_get_string(r, TEXT_MAX);
		break;
	case PROTO_STATE:
		parse_state(r, m);
		break;
	case PROTO_DATA:
		parse_data(r, m);
		break;
	case PROTO_GAP:
		m->gap.stream = get_stream(r);
		m->gap.from = get_count(r);
		m->gap.to = get_count(r);
		if (m->gap.from >= m->gap.to)
			r->bad = true;
		break;
	case PROTO_EOF:
	case PROTO_FOLLOWING:
		m->position.stream = get_stream(r);
		m->position.offset = get_count(r);
		break;
	case PROTO_EXIT:
		parse_exit(r, m);
		break;
	case PROTO_INPUT_WINDOW_FRAME:
		m->input_window = get_count(r);
		break;
	case PROTO_LOST:
		break;
	default:
		r->bad = true;
	}
}

int agent_message_parse(const struct proto_header *header, struct frame_reader payload,
			struct agent_message *ret)
{
	struct agent_message m = { .type = header->type, .handle = header->handle };

	parse_payload(&payload, &m);
	if (!frame_done(&payload))
		return -EBADMSG;
	*ret = m;
	return 0;
}
