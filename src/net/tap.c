/* /dev/net/tun. TUNSETIFF makes the device when there is none of that name: hence the look before
 * it, in both directions. */
#include "net/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"

static int attach(const char *name)
{
	_cleanup_close_ int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };

	if (fd < 0)
		return -errno;
	str_copy(request.ifr_name, sizeof(request.ifr_name), name);
	if (ioctl(fd, TUNSETIFF, &request) < 0)
		return -errno;
	return STEAL_FD(fd);
}

int tap_make(const char *name, uint32_t *ret_ifindex)
{
	_cleanup_close_ int fd = -1;
	uint32_t ifindex;

	if (if_nametoindex(name) != 0)
		return -EEXIST;
	fd = attach(name);
	if (fd < 0)
		return fd;
	ifindex = if_nametoindex(name);
	if (ifindex == 0)
		return -errno;
	*ret_ifindex = ifindex;
	return STEAL_FD(fd);
}

int tap_keep(int fd)
{
	return ioctl(fd, TUNSETPERSIST, 1) < 0 ? -errno : 0;
}

int tap_open(const char *name)
{
	if (if_nametoindex(name) == 0)
		return -ENODEV;
	return attach(name);
}
