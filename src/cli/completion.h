/* Completion scripts for bash, zsh and fish, made from the table of commands. Pure. */
#pragma once

#include "base/buf.h"

/* shell: "bash", "zsh" or "fish"; -EINVAL for another. */
int completion_script(const char *shell, struct buf *out);
