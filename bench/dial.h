/* A connection to a server of this host, for the benchmarks' clients. */
#pragma once

#include <stdint.h>

/* To 127.0.0.1, without Nagle's delay. The caller closes; -1 with errno. */
int dial(uint16_t port);
