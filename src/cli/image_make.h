/* What building and importing images have in common on this side: a long call with progress, and
 * what is said of the image at its end. */
#pragma once

#include "cli/session.h"

/* Posts the body, which it takes over; what: "building". Returns the exit code. */
int image_make(struct cli *cli, const char *path, json_t *body, const char *what);

/* ---- cmd_image_import.c ---- */

/* Whether the operand of `image build` is a directory and no recipe: it has a slash, or is a dot.
 */
bool image_is_directory(const char *operand);
int image_build_directory(struct cli *cli, const struct cli_args *args);
