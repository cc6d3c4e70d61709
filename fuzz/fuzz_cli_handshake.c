/* What a server can answer to the command line's WebSocket handshake, whole and cut short. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "cli/ws_answer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ws_answer answer;
	ssize_t n = ws_answer_parse((const char *)data, size, &answer);

	if (n <= 0)
		return 0;
	assert((size_t)n <= size && memcmp(data + n - 4, "\r\n\r\n", 4) == 0);
	assert(answer.status >= 100 && answer.status <= 999 && answer.content_length >= -1);
	assert(strlen(answer.accept) < sizeof(answer.accept));
	for (ssize_t cut = 0; cut < n; cut++)
		assert(ws_answer_parse((const char *)data, (size_t)cut, &answer) == 0);
	return 0;
}
