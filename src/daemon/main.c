/*
 * skerryd: everything is made here, in this order, and unmade in the reverse:
 *
 *	options, log, signals, descriptors' limit, listening socket, loop, pool, VM driver, images,
 *	core (takes the state directory's lock, then makes the network), recovery, MCP, REST, HTTP
 *	server, ready
 *
 * The socket is opened first, so that a taken port is found out before anything was touched;
 * clients wait in its backlog until recovery is done. The end leaves sandboxes running: the next
 * start takes them over.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/http.h"
#include "api/mcp.h"
#include "api/ops.h"
#include "api/rest.h"
#include "base/alloc.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "base/version.h"
#include "core/core.h"
#include "daemon/notify.h"
#include "daemon/options.h"
#include "daemon/paths.h"
#include "host/check.h"
#include "image/image.h"
#include "loop/loop.h"
#include "loop/pool.h"
#include "vmm/vmm.h"

#define EVENT_THREADS	   2
#define IDLE_TIMEOUT_MS	   180000
#define HTTP_GRACE_MS	   5000
#define CORE_GRACE_MS	   10000
#define TLS_FILE_MAX_BYTES (1u << 20)

struct daemon {
	struct options options;
	sigset_t end_signals;
	int listen_fd;
	char *url;
	char *listen_path; /* of the file that holds the URL */
	struct loop *loop;
	struct pool *pool;
	struct vmm_driver *driver;
	struct image_store *images;
	struct core *core;
	struct mcp *mcp;
	struct rest *rest;
	struct http_server *http;
	struct watchdog *watchdog;
};

/* ---- the process ---- */

/* Every thread inherits the mask: only main takes these signals, by waiting for them. */
static void set_up_signals(struct daemon *d)
{
	sigemptyset(&d->end_signals);
	sigaddset(&d->end_signals, SIGTERM);
	sigaddset(&d->end_signals, SIGINT);
	sigaddset(&d->end_signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &d->end_signals, NULL);
	signal(SIGPIPE, SIG_IGN);
}

/* One descriptor a connection and several a sandbox. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit, wanted = { HOST_DESCRIPTORS_WANTED, HOST_DESCRIPTORS_WANTED };

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	if (limit.rlim_max >= HOST_DESCRIPTORS_WANTED)
		wanted.rlim_max = limit.rlim_max;
	if (limit.rlim_cur >= HOST_DESCRIPTORS_WANTED || setrlimit(RLIMIT_NOFILE, &wanted) == 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	log_warn("few descriptors are allowed", "limit=%llu wanted=%d",
		 (unsigned long long)limit.rlim_cur, HOST_DESCRIPTORS_WANTED);
}

static int make_state_dir(struct daemon *d, struct err *err)
{
	char *absolute;
	int rc = dir_make(d->options.state_dir, 0700);

	if (rc < 0)
		return err_set(err, rc, "make state directory '%s': %s", d->options.state_dir,
			       strerror(-rc));
	absolute = realpath(d->options.state_dir, NULL);
	if (!absolute)
		return err_set(err, -errno, "resolve state directory '%s': %s",
			       d->options.state_dir, strerror(errno));
	free(d->options.state_dir);
	d->options.state_dir = absolute;
	return 0;
}

/* ---- what is made ---- */

static int make_loop_and_pool(struct daemon *d, struct err *err)
{
	const struct core_limits *limits = &d->options.limits;
	int rc = loop_new(&d->loop, err);

	if (rc == 0)
		rc = loop_start(d->loop, "loop", err);
	if (rc == 0)
		rc = pool_new((size_t)limits->workers, (size_t)limits->worker_queue_max, &d->pool,
			      err);
	return rc;
}

static int make_driver(struct daemon *d, struct err *err)
{
	const struct options *options = &d->options;
	_cleanup_free_ char *cache_dir = xasprintf("%s/cache", options->state_dir);
	const struct vmm_config config = {
		.warden_path = options->warden,
		.qemu_path = options->qemu,
		.qemu_kvm_path = options->qemu_kvm,
		.kernel_path = options->kernel,
		.initramfs_path = options->initramfs,
		.lib_dir = options->lib_dir,
		.cache_dir = cache_dir,
		.accel = options->accel,
		.cgroup_name = options->cgroup,
	};
	int rc = dir_make(cache_dir, 0700);

	if (rc < 0)
		return err_set(err, rc, "make '%s': %s", cache_dir, strerror(-rc));
	rc = vmm_qemu_new(&config, &d->driver, err);
	if (rc == 0)
		log_info("vm driver ready", "isolation=%s reason=\"%s\"",
			 vmm_isolation_name(vmm_driver_isolation(d->driver)),
			 vmm_driver_isolation_reason(d->driver));
	return rc;
}

static int open_core(struct daemon *d, struct err *err)
{
	const struct core_network_config network = {
		.mode = d->options.network_mode,
		.uplink = d->options.uplink,
		.resolv_conf = d->options.resolv_conf,
		.pin_dir = d->options.pin_dir,
		.range = d->options.network_range,
		.range_prefix = d->options.network_range_prefix,
		.allowed = d->options.network_allow,
		.n_allowed = d->options.n_network_allow,
		.ready = (uint32_t)d->options.limits.network_slots_ready,
	};
	const struct core_config config = {
		.state_dir = d->options.state_dir,
		.limits = d->options.limits,
		.driver = d->driver,
		.images = d->images,
		.loop = d->loop,
		.pool = d->pool,
		.network = &network,
		.operation_scope = ops_scope_of,
	};

	return core_new(&config, &d->core, err);
}

static int make_core(struct daemon *d, struct err *err)
{
	int rc = make_driver(d, err);

	if (rc == 0)
		rc = image_store_new(d->options.image_dir, d->options.recipe_dir, &d->images, err);
	if (rc == 0) {
		image_store_use_importer(d->images, d->options.importer, d->options.image_auth);
		image_clean(d->images);
	}
	if (rc == 0)
		rc = open_core(d, err);
	if (rc == 0)
		rc = core_recover(d->core, err);
	return rc;
}

static void handle_mcp(void *arg, struct http_request *req)
{
	mcp_handle(arg, req);
}

static int read_pem(const char *path, struct buf *out, struct err *err)
{
	int rc = path ? file_read(path, TLS_FILE_MAX_BYTES, out) : 0;

	return rc < 0 ? err_set(err, rc, "read '%s': %s", path, strerror(-rc)) : 0;
}

static int make_http(struct daemon *d, struct err *err)
{
	const struct options *options = &d->options;
	_cleanup_buf_ struct buf cert = BUF_INIT, key = BUF_INIT;
	struct rest_config rest = {
		.loop = d->loop,
		.pool = d->pool,
		.core = d->core,
		.preview_domain = &options->preview_domain,
		.allowed_hosts = (const char *const *)options->allowed_hosts,
		.metrics_open = options->metrics_open,
		.mcp = handle_mcp,
	};
	struct http_config http = {
		.address = options->address,
		.port = options->port,
		.listen_fd = STEAL_FD(d->listen_fd),
		.body_max_bytes = (uint64_t)options->limits.request_body_bytes,
		.connections_max = (unsigned int)options->limits.http_connections_max,
		.header_timeout_ms = options->limits.http_header_timeout_ms,
		.idle_timeout_ms = IDLE_TIMEOUT_MS,
		.event_threads = EVENT_THREADS,
		.loop = d->loop,
		.pool = d->pool,
		.handler = rest_handle,
		.passes = rest_passes,
		.is_quick = rest_is_quick,
	};
	int rc = read_pem(options->tls_cert, &cert, err);

	if (rc == 0)
		rc = read_pem(options->tls_key, &key, err);
	if (rc < 0) {
		close(http.listen_fd);
		return rc;
	}
	if (options->tls_cert) {
		http.tls_cert_pem = buf_str(&cert);
		http.tls_key_pem = buf_str(&key);
	}
	d->mcp = mcp_new(d->core, d->loop, d->pool, &options->preview_domain);
	rest.mcp_arg = d->mcp;
	d->rest = rest_new(&rest);
	http.arg = d->rest;
	rc = http_server_new(&http, &d->http, err);
	if (key.data)
		explicit_bzero(key.data, key.len);
	return rc;
}

/* ---- life ---- */

static void start_watchdog(void *arg)
{
	struct daemon *d = arg;

	d->watchdog = watchdog_new(d->loop);
}

static void stop_watchdog(void *arg)
{
	struct daemon *d = arg;

	watchdog_free(STEAL(d->watchdog));
}

/* For people on standard output, for programs in STATE/listen, for the service manager. */
static int announce(struct daemon *d, struct err *err)
{
	const struct options *options = &d->options;
	const bool v6 = strchr(options->address, ':') != NULL;
	_cleanup_free_ char *line = NULL, *state = NULL;
	int rc;

	d->url = xasprintf("%s://%s%s%s:%u", options->tls_cert ? "https" : "http", v6 ? "[" : "",
			   options->address, v6 ? "]" : "", http_server_port(d->http));
	line = xasprintf("%s\n", d->url);
	d->listen_path = xasprintf("%s/listen", options->state_dir);
	rc = file_write_durable(d->listen_path, line, strlen(line), 0644);
	if (rc < 0)
		return err_set(err, rc, "write '%s': %s", d->listen_path, strerror(-rc));
	printf("skerryd: listening on %s\n", d->url);
	fflush(stdout);
	state = xasprintf("READY=1\nSTATUS=Serving %s", d->url);
	notify_manager(state);
	loop_call(d->loop, start_watchdog, d);
	return 0;
}

static int end_sandboxes(struct daemon *d, struct err *err)
{
	size_t n = 0;
	int rc = paths_complete(&d->options, err);

	if (rc == 0)
		rc = make_core(d, err);
	if (rc == 0)
		rc = core_end_running(d->core, &n, err);
	printf("skerryd: %zu sandboxes ended\n", n);
	return rc;
}

/* What --end-sandboxes and --remove-network ask for. The core's lock shows that no daemon is there;
 * to remove the network, a core that recovers nothing is enough. */
static int uninstall(struct daemon *d, struct err *err)
{
	const struct options *options = &d->options;
	int rc = make_state_dir(d, err);

	d->options.limits.network_slots_ready = 0;
	d->options.limits.standby_per_template = 0;
	if (rc == 0)
		rc = make_loop_and_pool(d, err);
	if (rc == 0)
		rc = options->end_sandboxes ? end_sandboxes(d, err) : open_core(d, err);
	if (rc == 0 && options->remove_network)
		rc = core_network_uninstall(d->core, err);
	return rc;
}

static int start(struct daemon *d, struct err *err)
{
	int rc = paths_complete(&d->options, err);

	if (rc == 0)
		rc = http_listen(d->options.address, d->options.port, &d->listen_fd, err);
	if (rc == 0)
		rc = make_state_dir(d, err);
	if (rc == 0)
		rc = make_loop_and_pool(d, err);
	if (rc == 0)
		rc = make_core(d, err);
	if (rc == 0)
		rc = make_http(d, err);
	if (rc == 0)
		rc = announce(d, err);
	return rc;
}

static void wait_for_end(struct daemon *d)
{
	int number = 0;

	while (sigwait(&d->end_signals, &number) != 0)
		;
	log_info("ending, sandboxes go on", "signal=%s", sigabbrev_np(number));
	notify_manager("STOPPING=1\nSTATUS=Ending; sandboxes go on");
}

static void stop(struct daemon *d)
{
	if (d->url) /* never that of a daemon that lives */
		unlink(d->listen_path);
	if (d->watchdog)
		loop_call(d->loop, stop_watchdog, d);
	http_server_free(d->http, HTTP_GRACE_MS);
	core_free(d->core, CORE_GRACE_MS);
	pool_free(d->pool);
	rest_free(d->rest);
	mcp_free(d->mcp);
	image_store_free(d->images);
	vmm_driver_free(d->driver);
	loop_free(d->loop);
	cleanup_closep(&d->listen_fd);
	free(d->url);
	free(d->listen_path);
	options_clear(&d->options);
}

static void report(const struct err *err)
{
	fprintf(stderr, "skerryd: %s\n", err->message);
	if (err->hint[0])
		fprintf(stderr, "skerryd: hint: %s\n", err->hint);
}

int main(int argc, char **argv)
{
	struct daemon d = { .listen_fd = -1 };
	struct err err = ERR_INIT;
	int rc = options_read(argc, argv, &d.options, &err);
	const bool serves = !d.options.end_sandboxes && !d.options.remove_network;

	if (rc < 0) {
		report(&err);
		fprintf(stderr, "skerryd: see skerryd --help\n");
		options_clear(&d.options);
		return 2;
	}
	if (d.options.show_help || d.options.show_version) {
		if (d.options.show_help)
			fputs(options_help, stdout);
		else
			printf("skerryd %s\n", SKERRY_VERSION);
		options_clear(&d.options);
		return 0;
	}
	umask(077);
	log_init(d.options.log_level);
	set_up_signals(&d);
	raise_descriptor_limit();
	rc = serves ? start(&d, &err) : uninstall(&d, &err);
	if (rc < 0)
		report(&err);
	else if (serves)
		wait_for_end(&d);
	stop(&d);
	return rc == 0 ? 0 : 1;
}
