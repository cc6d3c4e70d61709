/* Headers of requests for files that ask for less than the whole. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/file.h"

#define HTTP_DATE_SIZE 32

/* The value of Range, or NULL. One range of bytes; whatever else it says is as if it were not there
 * (RFC 9110, 14.2). */
struct file_range range_parse(const char *value);
/* Whether a value of If-None-Match names this ETag. */
bool etag_matches(const char *value, const char *etag);
/* "Sun, 06 Nov 1994 08:49:37 GMT". */
void http_date(int64_t unix_s, char out[HTTP_DATE_SIZE]);
