/* The part of the operations table on files: arguments and results. Included by ops_table.c alone.
 */
#pragma once

#include "api/ops_table_words.h"
#include "proto/file.h"

#define PATH_ARG(arg_name, text)                                                                   \
	{                                                                                          \
		.name = arg_name, .type = ARG_STRING, .flags = ARG_REQUIRED, .min = 1,             \
		.max = FILE_PATH_MAX, .description = text                                          \
	}
#define FILE_PATH_ARG PATH_ARG("path", "Relative ones begin in the user's home")
#define FILE_USER_ARG                                                                              \
	{                                                                                          \
		.name = "user", .type = ARG_STRING, .min = 1, .max = 32,                           \
		.description = "Who does it in the sandbox; default: sandbox"                      \
	}
#define FILE_FLAG_ARG(arg_name, initial, text)                                                     \
	{                                                                                          \
		.name = arg_name, .type = ARG_BOOLEAN, .default_json = initial,                    \
		.description = text                                                                \
	}
#define FILE_MODE_ARG(text)                                                                        \
	{                                                                                          \
		.name = "mode", .type = ARG_STRING, .min = 3, .max = 4, .pattern = "^[0-7]{3,4}$", \
		.matches = ops_is_file_mode, .description = text                                   \
	}
#define FILE_PARENTS_ARG FILE_FLAG_ARG("parents", "false", "Make directories that are missing")

static const struct op_arg file_args[] = { SANDBOX_ID_ARG, FILE_PATH_ARG, FILE_USER_ARG };

static const struct op_arg write_file_args[] = {
	SANDBOX_ID_ARG,	  FILE_PATH_ARG,
	FILE_USER_ARG,	  FILE_MODE_ARG("Octal; default: the replaced file's, or 0644"),
	FILE_PARENTS_ARG, FILE_FLAG_ARG("overwrite", "true", "false: refused where something is"),
};

static const struct op_arg remove_file_args[] = {
	SANDBOX_ID_ARG,
	FILE_PATH_ARG,
	FILE_USER_ARG,
	FILE_FLAG_ARG("recursive", "false", "A directory with all that is in it"),
};

static const struct op_arg list_files_args[] = {
	SANDBOX_ID_ARG,
	FILE_PATH_ARG,
	FILE_USER_ARG,
	{ .name = "cursor",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = 400,
	  .description = "From next_cursor" },
	{ .name = "limit",
	  .type = ARG_INTEGER,
	  .min = 1,
	  .max = FILE_LIST_MAX,
	  .default_json = "200",
	  .description = "Items in one answer" },
};

static const struct op_arg make_directory_args[] = {
	SANDBOX_ID_ARG,
	FILE_PATH_ARG,
	FILE_USER_ARG,
	FILE_MODE_ARG("Octal; default: 0755"),
	FILE_FLAG_ARG("parents", "false",
		      "Make directories above that are missing; one that exists is fine"),
};

static const struct op_arg move_file_args[] = {
	SANDBOX_ID_ARG,
	PATH_ARG("from", "Relative ones begin in the user's home"),
	PATH_ARG("to", "Its new path, not the directory to put it in"),
	FILE_USER_ARG,
	FILE_PARENTS_ARG,
	FILE_FLAG_ARG("overwrite", "false", "Replace what is there"),
};

static const struct op_arg write_tree_args[] = {
	SANDBOX_ID_ARG,
	PATH_ARG("path", "The directory that it is unpacked in"),
	FILE_USER_ARG,
	FILE_FLAG_ARG("parents", "false", "Make the directory, and those above, if missing"),
	FILE_FLAG_ARG("owners", "false", "As the archive has them, which takes user=root"),
};

static const struct op_result_field write_tree_results[] = {
	{ "path", STRING, "", false, false },
	{ "entries", INTEGER, "Files, directories and links that were unpacked", false, false },
	{ "bytes", INTEGER, "Of files", false, false },
};

static const struct op_result_field entry_results[] = {
	{ "path", STRING, "", false, false },
	{ "type", STRING, "file, directory, symlink, fifo, socket, …", false, false },
	{ "size", INTEGER_OR_NULL, "Bytes", false, false },
	{ "mode", STRING, "Octal", false, false },
	{ "user", STRING_OR_NULL, "", false, false },
	{ "uid", INTEGER, "", false, false },
	{ "group", STRING_OR_NULL, "", false, false },
	{ "gid", INTEGER, "", false, false },
	{ "modified_at", TIME_OR_NULL, "", false, false },
	{ "target", STRING, "Of a symbolic link", true, false },
};

static const struct op_result_field list_files_results[] = {
	{ "items", "{\"type\":\"array\",\"items\":{\"type\":\"object\"}}",
	  "By name; as of stat_file, with name instead of path, and name_base64 where that is no "
	  "UTF-8",
	  false, false },
	{ "next_cursor", STRING_OR_NULL, "Where the next answer goes on; null at the end", false,
	  false },
};

static const struct op_result_field path_results[] = {
	{ "path", STRING, "", false, false },
};
