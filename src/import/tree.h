/* What a sandbox needs of an image's tree, and what the configuration says of it. */
#pragma once

#include "base/err.h"
#include "import/oci.h"

/* Makes the directories that are mounted on, and WORKDIR; looks whether USER is there. What cannot
 * be as the image wants it is replaced by what can, with a warning. */
int tree_finish(int tree_fd, struct oci_image *image, struct err *err);
