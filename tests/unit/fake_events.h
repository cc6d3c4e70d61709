/*
 * Events of the fake core: FAKE_EVENTS of them, of exec_started and exec_ended in turn, of which
 * the first FAKE_EVENTS_GONE are not kept any more. Followers get them on the loop's thread.
 */
#pragma once

#include "core/core.h"
#include "loop/loop.h"

#define FAKE_EVENTS	 200000
#define FAKE_EVENTS_GONE 10

void fake_events_init(struct loop *loop);
int fake_events_sent(struct core *core);   /* to followers, so far */
int fake_events_closed(struct core *core); /* followers */
