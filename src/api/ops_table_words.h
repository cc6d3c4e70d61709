/* Types and arguments that the operations table says often. For the files of the table alone. */
#pragma once

#include "api/ops_internal.h"

#include "net/rules.h"

#define STRING		"{\"type\":\"string\"}"
#define INTEGER		"{\"type\":\"integer\"}"
#define NUMBER		"{\"type\":\"number\"}"
#define BOOLEAN		"{\"type\":\"boolean\"}"
#define OBJECT		"{\"type\":\"object\"}"
#define STRING_OR_NULL	"{\"type\":[\"string\",\"null\"]}"
#define INTEGER_OR_NULL "{\"type\":[\"integer\",\"null\"]}"
#define STRINGS		"{\"type\":\"array\",\"items\":{\"type\":\"string\"}}"
#define RULES		"{\"type\":[\"array\",\"null\"],\"items\":{\"type\":\"string\"}}"
#define TIME		"{\"type\":\"string\",\"format\":\"date-time\"}"
#define TIME_OR_NULL	"{\"type\":[\"string\",\"null\"],\"format\":\"date-time\"}"

/* Long enough for every id; whether it names anything is the core's to say. */
#define SANDBOX_ID_ARG                                                                             \
	{                                                                                          \
		.name = "id", .mcp_name = "sandbox_id", .type = ARG_STRING,                        \
		.flags = ARG_REQUIRED | ARG_IN_PATH | ARG_SANDBOX, .min = 1, .max = 64,            \
		.description = "Sandbox id"                                                        \
	}
#define EXEC_ID_ARG                                                                                \
	{                                                                                          \
		.name = "exec_id", .type = ARG_STRING, .flags = ARG_REQUIRED | ARG_IN_PATH,        \
		.min = 1, .max = 64, .description = "From exec"                                    \
	}
