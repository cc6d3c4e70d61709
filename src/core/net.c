/*
 * The host's part of the network: slots, the name server, the proxy. Made when the core opens, and
 * ended with it; what the kernel has of it outlives both, and sandboxes keep exactly the network
 * that they had.
 *
 * A host on which the program cannot be loaded gets no network for its sandboxes: never one without
 * the filter. In mode AUTO that is said in the log and by the doctor, in mode ON it ends the start.
 */
#include "core/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/str.h"
#include "core/internal.h"
#include "net/clients.h"
#include "net/dns_server.h"
#include "net/proxy.h"

#define PIN_DIR_DEFAULT "/sys/fs/bpf/skerry"
#define REFILL_RETRY_MS 5000

/* ---- slots ---- */

/* "node_12ab…" in the letters that an instance may have. */
static void instance_of(const struct core *core, char out[33])
{
	str_copy(out, 33, core->node_id);
	for (char *p = out; *p; p++)
		*p = *p == '_' ? '-' : *p;
}

static int open_slots(struct core_net *net, const struct core_network_config *config,
		      struct err *err)
{
	char instance[33];
	const struct slots_config slots = {
		.instance = instance,
		.uplink = config->uplink,
		.pin_dir = config->pin_dir ? config->pin_dir : PIN_DIR_DEFAULT,
		.range = config->range ? config->range : SLOT_DEFAULT_RANGE,
		.range_prefix = config->range ? config->range_prefix : SLOT_DEFAULT_PREFIX,
		.ready = config->ready,
		.exceptions = config->allowed,
		.n_exceptions = config->n_allowed,
	};

	instance_of(net->core, instance);
	return slots_new(&slots, net->core->loop, net_on_denied, net, &net->slots, err);
}

/* ---- what answers guests: on the loop's thread ---- */

struct opening {
	struct core_net *net;
	const struct core_network_config *config;
	struct err *err;
	int result;
};

static int open_names(struct core_net *net, const struct core_network_config *config,
		      struct err *err)
{
	struct dns_server_config dns = {
		.address = slots_gateway(net->slots),
		.port = DNS_PORT,
		.clients = &net->clients,
	};
	struct proxy_config proxy = {
		.address = slots_gateway(net->slots),
		.clients = &net->clients,
	};
	int r = dns_resolver_new(net->core->loop, config->resolv_conf, &net->resolver, err);

	if (r < 0)
		return r;
	dns.resolver = proxy.resolver = net->resolver;
	r = dns_server_new(net->core->loop, &dns, &net->dns, err);
	if (r == 0)
		r = proxy_new(net->core->loop, &proxy, &net->proxy, err);
	return r < 0 ? r : slots_set_proxy(net->slots, proxy_port(net->proxy));
}

static void open_on_loop(void *arg)
{
	struct opening *opening = arg;

	opening->result = open_names(opening->net, opening->config, opening->err);
}

static void close_names(struct core_net *net)
{
	/* What would go to the proxy is denied from here on, and says why. */
	if (net->proxy)
		slots_set_proxy(net->slots, 0);
	proxy_free(STEAL(net->proxy));
	dns_server_free(STEAL(net->dns));
	dns_resolver_free(STEAL(net->resolver));
}

static void close_on_loop(void *arg)
{
	struct core_net *net = arg;

	close_names(net);
	slots_free(STEAL(net->slots)); /* here, because it ends the watch on denials */
}

static int open_all(struct core_net *net, const struct core_network_config *config, struct err *err)
{
	struct opening opening = { .net = net, .config = config, .err = err };
	int r = open_slots(net, config, err);

	if (r < 0)
		return r;
	net_clients_of(net, &net->clients);
	loop_call(net->core->loop, open_on_loop, &opening);
	return opening.result;
}

static void say_missing(struct core *core, const struct err *why)
{
	str_copy(core->net_missing, sizeof(core->net_missing), why->message);
	str_copy(core->net_fix, sizeof(core->net_fix), why->hint);
	log_warn("SANDBOXES HAVE NO NETWORK: this host cannot filter what they send",
		 "error=\"%s\" hint=\"%s\"", why->message, why->hint);
}

int core_net_open(struct core *core, const struct core_network_config *config, struct err *err)
{
	struct core_net *net;
	struct err own = ERR_INIT;
	int r;

	if (!config || config->mode == CORE_NETWORK_OFF) {
		str_copy(core->net_missing, sizeof(core->net_missing),
			 "it is switched off by the configuration");
		str_copy(core->net_fix, sizeof(core->net_fix),
			 "set mode = auto in section [network] of skerryd.conf");
		return 0;
	}
	net = xcalloc(1, sizeof(*net));
	net->core = core;
	r = open_all(net, config, &own);
	if (r == 0) {
		core->net = net;
		core->net_missing[0] = '\0';
		core_net_refill(core);
		return 0;
	}
	loop_call(core->loop, close_on_loop, net);
	free(net);
	if (config->mode == CORE_NETWORK_AUTO) {
		say_missing(core, &own);
		return 0;
	}
	if (err)
		*err = own;
	return err_wrap(err, r, "make the network of sandboxes");
}

void core_net_close(struct core *core)
{
	struct core_net *net = STEAL(core->net);

	if (!net)
		return;
	loop_call(core->loop, close_on_loop, net);
	free(net);
}

static void destroy_on_loop(void *arg)
{
	struct core_net *net = arg;

	close_names(net);
	slots_destroy(STEAL(net->slots));
}

int core_network_uninstall(struct core *core, struct err *err)
{
	struct sandbox_row *rows = NULL;
	size_t n = 0, running = 0;
	int r = core_net_require(core, err);

	if (r == 0) {
		_cleanup_txn_ struct db_txn txn = DB_TXN_INIT;

		r = db_begin_read(core->db, &txn, err);
		if (r == 0)
			r = sandboxes_unended(&txn, core->node_id, &rows, &n, err);
	}
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		running += rows[i].has_slot;
	sandbox_rows_free(rows, n);
	if (running > 0) {
		err_code(err, -EBUSY, "network_in_use", "%zu sandboxes use the network", running);
		err_hint(err, "start the daemon, destroy or pause them, and try again");
		return -EBUSY;
	}
	core_stop_work(core, 0); /* slots may be being made ahead */
	loop_call(core->loop, destroy_on_loop, core->net);
	free(STEAL(core->net));
	return 0;
}

/* ---- its state ---- */

static void print_address(uint32_t address, char out[NET_ADDRESS_SIZE])
{
	const struct in_addr in = { htonl(address) };

	inet_ntop(AF_INET, &in, out, NET_ADDRESS_SIZE);
}

const char *core_net_missing(const struct core *core)
{
	return core->net ? NULL : core->net_missing;
}

int core_net_require(const struct core *core, struct err *err)
{
	if (core->net)
		return 0;
	err_code(err, -ENOTSUP, "network_unavailable", "sandboxes of this host have no network: %s",
		 core->net_missing);
	err_hint(err, "run skerry doctor on the host");
	return -ENOTSUP;
}

void core_net_check(const struct core *core, bool *ret_ok, char *detail, size_t detail_size,
		    const char **ret_fix)
{
	char gateway[NET_ADDRESS_SIZE];

	*ret_ok = core->net != NULL;
	*ret_fix = core->net_fix[0] ? core->net_fix : "see the error, and the daemon's log";
	if (!core->net) {
		snprintf(detail, detail_size, "sandboxes have no network: %s", core->net_missing);
		return;
	}
	print_address(slots_gateway(core->net->slots), gateway);
	snprintf(detail, detail_size, "filtered by eBPF on each sandbox's tap; names at %s",
		 gateway);
}

void core_net_guest_address(const struct core *core, char out[NET_ADDRESS_SIZE])
{
	out[0] = '\0';
	if (core->net)
		print_address(slots_inner(core->net->slots), out);
}

const struct vmm_network *net_device_of(const struct core *core, const struct slot *slot,
					struct net_device *out)
{
	char inner[NET_ADDRESS_SIZE];

	if (!slot)
		return NULL;
	core_net_guest_address(core, inner);
	snprintf(out->address, sizeof(out->address), "%s/%d", inner, SLOT_INNER_PREFIX);
	print_address(slots_gateway(core->net->slots), out->gateway);
	out->network = (struct vmm_network){
		.tap_fd = slot_tap_fd(slot),
		.mac = SLOT_GUEST_MAC,
		.address = out->address,
		.gateway = out->gateway,
		.gateway_mac = SLOT_GATEWAY_MAC,
	};
	return &out->network;
}

/* ---- slots ahead ---- */

static void refill_job(void *arg)
{
	struct core *core = arg;
	struct core *entered;
	struct err err = ERR_INIT;

	core->net_refilling = false;
	if (slots_refill(core->net->slots, &err) >= 0)
		return;
	log_warn("no network slots can be made ahead", "error=\"%s\"", err.message);
	entered = core_enter(core, NULL);
	if (!entered)
		return;
	if (!atomic_exchange(&core->net_refilling, true))
		core_job(core, refill_job, core, REFILL_RETRY_MS);
	core_leave(entered);
}

void core_net_refill(struct core *core)
{
	if (core->net && !atomic_exchange(&core->net_refilling, true))
		core_job(core, refill_job, core, 0);
}

void core_net_adopted(struct core *core)
{
	struct err err = ERR_INIT;
	int n;

	if (!core->net)
		return;
	n = slots_adopt_done(core->net->slots, &err);
	if (n < 0)
		log_warn("network slots of sandboxes that are gone cannot be released",
			 "error=\"%s\"", err.message);
	else if (n > 0)
		log_info("network slots of sandboxes that are gone released", "count=%d", n);
}
