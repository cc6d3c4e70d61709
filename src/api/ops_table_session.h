/* The part of the operations table on sessions of browsers. Included by ops_table.c alone. */
#pragma once

#include "api/ops_table_words.h"

static const struct op_result_field session_results[] = {
	{ "account_id", STRING, "", false, false },
	{ "key_id", STRING, "The key that it is worth", false, false },
	{ "admin", BOOLEAN, "", false, false },
	{ "expires_at", TIME, "", true, false },
};

static const struct op_result_field close_session_results[] = {
	{ "key_id", STRING, "", false, false },
};
