/* Entropy, clock, hostname, machine-id, generation. See identity.h. */
#include "guest/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/random.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

/* The kernel's generator is seeded and its current keys are thrown away: two forks of one snapshot
 * give different numbers from the next byte on. */
static int add_entropy(int random_fd, const uint8_t entropy[PROTO_ENTROPY_LEN])
{
	/* struct rand_pool_info: entropy in bits, size in bytes, data. */
	uint32_t pool[2 + PROTO_ENTROPY_LEN / 4] = { PROTO_ENTROPY_LEN * 8, PROTO_ENTROPY_LEN };
	int r = 0;

	memcpy(&pool[2], entropy, PROTO_ENTROPY_LEN);
	if (ioctl(random_fd, RNDADDENTROPY, pool) < 0 || ioctl(random_fd, RNDRESEEDCRNG) < 0)
		r = -errno;
	explicit_bzero(pool, sizeof(pool));
	return r;
}

int identity_set_clock(uint64_t unix_us)
{
	const struct timespec ts = {
		.tv_sec = (time_t)(unix_us / 1000000),
		.tv_nsec = (long)(unix_us % 1000000) * 1000,
	};

	return clock_settime(CLOCK_REALTIME, &ts) < 0 ? -errno : 0;
}

static int set_hostname(struct identity_files *files, const char *hostname)
{
	size_t len = strlen(hostname);

	if (len == 0 || strspn(hostname, "abcdefghijklmnopqrstuvwxyz0123456789-") != len)
		return -EINVAL;
	if (sethostname(hostname, len) < 0)
		return -errno;
	return identity_files_hostname(files, hostname);
}

static int set_machine_id(struct identity_files *files, const char *machine_id)
{
	if (strlen(machine_id) != IDENTITY_MACHINE_ID_LEN ||
	    strspn(machine_id, "0123456789abcdef") != IDENTITY_MACHINE_ID_LEN)
		return -EINVAL;
	return identity_files_machine_id(files, machine_id);
}

static uint32_t applied(int r, uint32_t bit, const char *what)
{
	if (r == 0)
		return bit;
	log_error("cannot take a part of the identity", "part=%s errno=%d", what, -r);
	return 0;
}

int identity_open_random(void)
{
	int fd = open("/dev/urandom", O_RDWR | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

uint32_t identity_apply(const struct identity *id, int random_fd, struct identity_files *files)
{
	uint32_t bits =
		applied(add_entropy(random_fd, id->entropy), PROTO_APPLIED_ENTROPY, "entropy");

	bits |= applied(identity_set_clock(id->unix_us), PROTO_APPLIED_CLOCK, "clock");
	bits |= applied(set_hostname(files, id->hostname), PROTO_APPLIED_HOSTNAME, "hostname");
	bits |= applied(set_machine_id(files, id->machine_id), PROTO_APPLIED_MACHINE_ID,
			"machine-id");
	bits |= applied(identity_files_generation(files, id->epoch), PROTO_APPLIED_GENERATION,
			"generation");
	/* From here on the guest has a user. */
	files->untouched = false;
	return bits;
}
