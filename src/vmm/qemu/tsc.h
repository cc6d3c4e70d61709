/*
 * The frequency of the host's time stamp counter, which is the guest's under TCG. Measured once and
 * kept in cache_dir: a saved guest has it built in, so the number must not change with each
 * measurement's error. Measured anew only when the kept one is off by more than a thousandth
 * (another host).
 */
#pragma once

#include "base/err.h"

int tsc_frequency_khz(const char *cache_dir, unsigned int *ret_khz, struct err *err);
