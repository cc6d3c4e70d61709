/*
 * Previews of the core without machines: the ports of its sandbox "sbx_aa" are the host's own
 * loopback ports. Tokens are the real ones, with a key of zeros.
 */
#pragma once

#include "core/preview.h"

/* Loop's thread. Ends every open connection, as when the sandbox is paused. */
void fake_previews_end(void);
int fake_previews_open(void); /* connections under way */
