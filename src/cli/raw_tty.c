/* Our own terminal. See raw_tty.h. */
#include "cli/raw_tty.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/str.h"

/* For the signal handler, which has nothing else to go by. */
static struct termios before;
static volatile sig_atomic_t is_on;

static void put_back(void)
{
	if (is_on)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
	is_on = 0;
}

/* What follows is what the signal does anyway: its disposition was reset when it was caught. */
static void on_fatal(int number)
{
	put_back();
	raise(number);
}

int raw_tty_enter(void)
{
	static const int fatal[] = { SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP };
	const struct sigaction action = { .sa_handler = on_fatal,
					  .sa_flags = (int)SA_RESETHAND | SA_NODEFER };
	struct termios raw;

	if (is_on)
		return 0;
	if (tcgetattr(STDIN_FILENO, &before) < 0)
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(fatal); i++)
		sigaction(fatal[i], &action, NULL);
	raw = before;
	cfmakeraw(&raw);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	is_on = 1; /* before, so that no signal finds it raw and not known to be */
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0) {
		is_on = 0;
		return -errno;
	}
	return 0;
}

void raw_tty_leave(void)
{
	put_back();
}

bool raw_tty_is_on(void)
{
	return is_on;
}

bool tty_size(uint32_t *ret_cols, uint32_t *ret_rows)
{
	struct winsize size;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0 || size.ws_row == 0)
		return false;
	*ret_cols = size.ws_col;
	*ret_rows = size.ws_row;
	return true;
}
