/*
 * The files of the dashboard, put into the program when it is built: the page and its modules, and
 * what it has from others (xterm.js, uPlot). api/dashboard.c serves them. Data alone; made by
 * ./embed.
 */
#pragma once

#include <stddef.h>

struct dashboard_file {
	const char *path; /* "/" is the page; all else below /dashboard/VERSION/ */
	const char *type;
	const char *etag, *gzip_etag;
	const void *plain;
	size_t plain_len;
	const void *gzip;
	size_t gzip_len;
};

extern const struct dashboard_file dashboard_files[];
extern const size_t n_dashboard_files;
