/* The named schemas of the OpenAPI document. */
#pragma once

#include "api/ops.h"

/* What an operation answers: a reference to a named schema, or the schema. Owned. */
json_t *openapi_result_schema(const struct op *op);
/* Adds all named schemas to components/schemas. */
void openapi_put_schemas(json_t *schemas);
