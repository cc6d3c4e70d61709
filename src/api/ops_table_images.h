/* The part of the operations table on images: arguments and results. Included by ops_table.c alone.
 */
#pragma once

#include "api/ops_table_words.h"
#include "image/source.h"

static const struct op_result_field image_results[] = {
	{ "name", STRING, "", false, false },
	{ "digest", STRING, "Of its content", false, false },
	{ "size_bytes", INTEGER, "", false, false },
	{ "allocated_bytes", INTEGER, "On the server's disk", false, false },
	{ "created_at", TIME, "", false, false },
	{ "user", STRING, "Commands run as this user", false, false },
	{ "workdir", STRING, "", false, false },
	{ "source", STRING_OR_NULL, "Where it was imported from; null: built here", false, false },
	{ "source_digest", STRING_OR_NULL, "Of the manifest that the source had", false, false },
	{ "imported_at", TIME_OR_NULL, "", false, false },
	{ "warnings", "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}",
	  "What is not as the imported image wants it", false, false },
};

static const struct op_arg image_build_args[] = {
	{ .name = "name",
	  .type = ARG_STRING,
	  .flags = ARG_REQUIRED,
	  .min = 1,
	  .max = IMAGE_NAME_MAX,
	  .pattern = "^[a-z0-9][a-z0-9._-]*$",
	  .matches = ops_is_image_name,
	  .description = "Of a recipe: base, dev …" },
	{ .name = "rebuild",
	  .type = ARG_BOOLEAN,
	  .default_json = "false",
	  .description = "Also when it is already built from the same recipe" },
};

static const struct op_arg image_import_args[] = {
	{ .name = "source",
	  .type = ARG_STRING,
	  .flags = ARG_REQUIRED,
	  .min = 1,
	  .max = IMAGE_SOURCE_MAX,
	  .description =
		  "docker-archive:PATH, oci-archive:PATH, oci:DIRECTORY (of the server, each "
		  "with :TAG) or docker://[HOST/]NAME[:TAG]" },
	{ .name = "name",
	  .type = ARG_STRING,
	  .min = 1,
	  .max = IMAGE_NAME_MAX,
	  .pattern = "^[a-z0-9][a-z0-9._-]*$",
	  .matches = ops_is_image_name,
	  .description = "Default: the last part of the source" },
	{ .name = "replace",
	  .type = ARG_BOOLEAN,
	  .default_json = "false",
	  .description = "An image of that name" },
	{ .name = "tls_verify",
	  .type = ARG_BOOLEAN,
	  .default_json = "true",
	  .description = "false: a registry without TLS, or with any certificate" },
};

static const struct op_arg image_name_args[] = {
	{ .name = "name",
	  .type = ARG_STRING,
	  .flags = ARG_REQUIRED | ARG_IN_PATH,
	  .min = 1,
	  .max = IMAGE_NAME_MAX,
	  .description = "Image" },
};

static const struct op_result_field image_remove_results[] = {
	{ "name", STRING, "", false, false },
};
