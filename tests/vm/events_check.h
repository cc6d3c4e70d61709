/*
 * Whether the events of a daemon that died and recovered tell the truth: those of each sandbox are
 * moves that a sandbox can make, and the last of them is what its row says; nothing is missing and
 * nothing was invented. The same for snapshots.
 */
#pragma once

#include "core_rig.h"

void events_check(struct rig *rig);
