/* The world of the network tests. */
#include "names_rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "loop/spawn.h"

#define SKIPPED	   77
#define COMMAND_MS 20000

static int host_ns = -1, guest_ns = -1, internet_ns = -1;

static void enter(int ns)
{
	if (setns(ns, CLONE_NEWNET) < 0) {
		perror("setns");
		abort();
	}
}

static void run(int ns, const char *command)
{
	const char *argv[] = { "/bin/sh", "-ec", command, NULL };
	struct spawn_spec spec = SPAWN_SPEC_INIT;
	struct err err = ERR_INIT;
	int r;

	spec.argv = argv;
	spec.keep_fds = (const int[]){ host_ns, guest_ns, internet_ns };
	spec.n_keep_fds = 3;
	enter(ns);
	r = spawn_run(&spec, clock_boottime_ms() + COMMAND_MS, NULL, 0, NULL, NULL, &err);
	enter(host_ns);
	if (r < 0) {
		fprintf(stderr, "%s: %s\n", command, err.message);
		abort();
	}
}

void rig_run(const char *command)
{
	run(host_ns, command);
}

void rig_run_guest(const char *command)
{
	run(guest_ns, command);
}

static int new_namespace(void)
{
	if (unshare(CLONE_NEWNET) < 0) {
		printf("no network namespaces here: %s\n", strerrordesc_np(errno));
		exit(SKIPPED);
	}
	return open("/proc/thread-self/ns/net", O_RDONLY);
}

void rig_make_world(void)
{
	_cleanup_free_ char *wire = NULL;

	if (geteuid() != 0) {
		printf("network namespaces need root\n");
		exit(SKIPPED);
	}
	guest_ns = new_namespace();
	internet_ns = new_namespace();
	host_ns = new_namespace();
	wire = xasprintf("ip link set lo up\n"
			 "ip link add v0 type veth peer name g0\n"
			 "ip link set g0 netns /proc/self/fd/%d\n"
			 "ip address add 100.64.0.1/10 dev v0\n"
			 "ip link set v0 up\n"
			 "ip link add v1 type veth peer name i0\n"
			 "ip link set i0 netns /proc/self/fd/%d\n"
			 "ip address add 203.0.113.1/24 dev v1\n"
			 "ip link set v1 up\n"
			 "ip route add 198.51.100.0/24 via 203.0.113.2\n",
			 guest_ns, internet_ns);
	rig_run(wire);
	rig_run_guest("ip link set lo up\n"
		      "ip link set g0 up\n"
		      "ip address add 100.64.1.2/10 dev g0\n"
		      "ip address add 100.64.1.3/10 dev g0\n"
		      "ip address add 100.64.1.9/10 dev g0\n"
		      "ip route add default via 100.64.0.1\n");
	run(internet_ns, "ip link set lo up\n"
			 "ip link set i0 up\n"
			 "ip address add 203.0.113.2/24 dev i0\n"
			 "ip address add 198.51.100.1/32 dev lo\n"
			 "ip address add 198.51.100.2/32 dev lo\n"
			 "ip address add 198.51.100.3/32 dev lo\n"
			 "ip route add default via 203.0.113.1\n");
}

struct sockaddr_in rig_address(uint32_t address, uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(address),
	};
}

/* A socket belongs to the namespace of the thread that made it. */
static int socket_in(int ns, int type)
{
	int fd;

	enter(ns);
	fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
	enter(host_ns);
	assert_true(fd >= 0);
	return fd;
}

int rig_site_listen(uint32_t site, uint16_t port)
{
	const struct sockaddr_in address = rig_address(site, port);
	int fd = socket_in(site == HOST_PUBLIC ? host_ns : internet_ns, SOCK_STREAM);
	const int one = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 64), 0);
	return fd;
}

int rig_guest_socket(uint32_t guest, int type)
{
	const struct sockaddr_in address = rig_address(guest, 0);
	int fd = socket_in(guest_ns, type);

	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

int rig_guest_connect(uint32_t guest, uint32_t to, uint16_t port)
{
	const struct sockaddr_in address = rig_address(to, port);
	int fd = rig_guest_socket(guest, SOCK_STREAM);

	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	close(fd);
	return -errno;
}

static struct ruleset *rules_of(void *arg, uint32_t client)
{
	struct rig *rig = arg;
	struct ruleset *rules = NULL;

	pthread_mutex_lock(&rig->lock);
	if (client == GUEST_A)
		rules = ruleset_ref(rig->rules_a);
	else if (client == GUEST_B)
		rules = ruleset_ref(rig->rules_b);
	pthread_mutex_unlock(&rig->lock);
	return rules;
}

/* Guest A is in the network "team", as "a.team.internal", together with a database. */
static int network_name(void *arg, uint32_t client, const char *name, uint32_t *ret_address)
{
	if (client != GUEST_A)
		return -ENOENT;
	if (str_eq(name, "a.team.internal"))
		*ret_address = GUEST_A;
	else if (str_eq(name, "db.team.internal"))
		*ret_address = 0x64400107;
	else
		return -ENOENT;
	return 0;
}

static bool denied_range(void *arg, uint32_t address)
{
	return address >> 24 == 10 || address >> 24 == 127 || address >> 16 == 0xa9fe ||
	       address >> 16 == 0xc0a8 || address >> 20 == 0xac1 || address >> 22 == 0x191 ||
	       address >> 28 >= 14 || address == 0;
}

static int allow(void *arg, uint32_t client, const char *name, uint32_t address, int64_t expires_ms)
{
	struct rig *rig = arg;

	if (denied_range(arg, address))
		return -EACCES;
	pthread_mutex_lock(&rig->lock);
	if (rig->n_opened < RIG_LOG_MAX) {
		struct rig_opened *opened = &rig->opened[rig->n_opened++];

		*opened = (struct rig_opened){ client, address, expires_ms, "" };
		str_copy(opened->name, sizeof(opened->name), name);
	}
	pthread_mutex_unlock(&rig->lock);
	return 0;
}

static void denied(void *arg, uint32_t client, const struct net_denial *denial)
{
	struct rig *rig = arg;

	pthread_mutex_lock(&rig->lock);
	if (rig->n_denials < RIG_LOG_MAX) {
		struct rig_denial *log = &rig->denials[rig->n_denials++];

		*log = (struct rig_denial){ .client = client,
					    .address = denial->address,
					    .port = denial->port,
					    .source = denial->source };
		str_copy(log->name, sizeof(log->name), denial->name ? denial->name : "");
		str_copy(log->reason, sizeof(log->reason), denial->reason);
		str_copy(log->rule, sizeof(log->rule), denial->rule ? denial->rule : "");
	}
	pthread_mutex_unlock(&rig->lock);
}

struct rig *rig_new(void)
{
	struct rig *rig = xcalloc(1, sizeof(*rig));
	struct err err = ERR_INIT;

	pthread_mutex_init(&rig->lock, NULL);
	rig->clients = (struct net_clients){
		.arg = rig,
		.rules = rules_of,
		.network_name = network_name,
		.allow = allow,
		.denied_range = denied_range,
		.denied = denied,
	};
	rig->rules_a = ruleset_new(POLICY_NOTHING);
	rig->rules_b = ruleset_new(POLICY_NOTHING);
	assert_int_equal(loop_new(&rig->loop, &err), 0);
	assert_int_equal(loop_start(rig->loop, "test-net", &err), 0);
	return rig;
}

void rig_free(struct rig *rig)
{
	loop_free(rig->loop);
	ruleset_unref(rig->rules_a);
	ruleset_unref(rig->rules_b);
	pthread_mutex_destroy(&rig->lock);
	free(rig);
}

void rig_set_rules(struct rig *rig, uint32_t guest, const char *json)
{
	_cleanup_json_ json_t *value = json_loads(json, JSON_DECODE_ANY, NULL);
	struct ruleset **place = guest == GUEST_A ? &rig->rules_a : &rig->rules_b;
	struct ruleset *rules = NULL, *old;
	struct err err = ERR_INIT;

	if (ruleset_from_json(value, RULES_MAX_DEFAULT, &rules, &err) < 0)
		fail_msg("%s", err.message);
	pthread_mutex_lock(&rig->lock);
	old = *place;
	*place = rules;
	pthread_mutex_unlock(&rig->lock);
	ruleset_unref(old);
}

void rig_clear_logs(struct rig *rig)
{
	pthread_mutex_lock(&rig->lock);
	rig->n_opened = rig->n_denials = 0;
	pthread_mutex_unlock(&rig->lock);
}

bool rig_was_opened(struct rig *rig, uint32_t client, const char *name, uint32_t address)
{
	bool was = false;

	pthread_mutex_lock(&rig->lock);
	for (size_t i = 0; i < rig->n_opened; i++) {
		const struct rig_opened *opened = &rig->opened[i];

		was = was || (opened->client == client && opened->address == address &&
			      str_eq(opened->name, name));
	}
	pthread_mutex_unlock(&rig->lock);
	return was;
}

size_t rig_count_opened(struct rig *rig, uint32_t client)
{
	size_t n = 0;

	pthread_mutex_lock(&rig->lock);
	for (size_t i = 0; i < rig->n_opened; i++)
		n += rig->opened[i].client == client;
	pthread_mutex_unlock(&rig->lock);
	return n;
}

struct rig_denial rig_last_denial(struct rig *rig, uint32_t client)
{
	struct rig_denial last = { 0 };

	pthread_mutex_lock(&rig->lock);
	for (size_t i = 0; i < rig->n_denials; i++) {
		if (rig->denials[i].client == client)
			last = rig->denials[i];
	}
	pthread_mutex_unlock(&rig->lock);
	return last;
}
