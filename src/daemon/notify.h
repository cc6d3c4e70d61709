/* Telling the service manager how far the daemon is (sd_notify's protocol, without its library). */
#pragma once

/* "READY=1", "STOPPING=1"; nothing happens when NOTIFY_SOCKET is not set. */
void notify_manager(const char *state);
