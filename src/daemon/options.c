/* Command line and configuration file. Every key and option is in one of two tables. */
#include "daemon/options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <ini.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/str.h"
#include "net/prefix.h"

#define CONFIG_MAX_BYTES (256u * 1024)

const char options_help[] =
	"usage: skerryd [options]\n"
	"\n"
	"Serves Linux microVMs to agents over MCP, REST and the skerry command line.\n"
	"\n"
	"  --state-dir DIR      database, disks and keys (default /var/lib/skerry)\n"
	"  --listen ADDR:PORT   default 127.0.0.1:7171; port 0 takes any free one\n"
	"  --config FILE        see skerryd.conf(5)\n"
	"  --tls-cert FILE      certificate chain, PEM\n"
	"  --tls-key FILE       its private key, PEM\n"
	"  --insecure-listen    serve other than loopback addresses without TLS\n"
	"  --image-dir DIR      images (default: images in the state directory)\n"
	"  --network MODE       of sandboxes: auto (default: where the host can filter it), on, "
	"off\n"
	"  --end-sandboxes      end all that run (paused ones stay), for uninstalling, and end\n"
	"  --remove-network     remove what the kernel has of it, for uninstalling, and end\n"
	"  --log-level LEVEL    debug, info (default), warn or error\n"
	"  --version            print the version\n"
	"  --help               print this\n"
	"\n"
	"The first start writes an administrator's key to admin.key in the state directory.\n"
	"SIGTERM ends the daemon; sandboxes go on and are taken over at the next start.\n";

/* ---- values ---- */

static void set_text(char **at, const char *value)
{
	free(*at);
	*at = xstrdup(value);
}

static int parse_bool(const char *value, bool *ret, struct err *err)
{
	bool yes = str_eq(value, "yes") || str_eq(value, "true");

	if (!yes && !str_eq(value, "no") && !str_eq(value, "false"))
		return err_set(err, -EINVAL, "'%s' is neither yes nor no", value);
	*ret = yes;
	return 0;
}

static int parse_level(const char *value, enum log_level *ret, struct err *err)
{
	if (log_level_parse(value, ret) < 0)
		return err_set(err, -EINVAL, "'%s' is none of debug, info, warn, error", value);
	return 0;
}

int options_parse_listen(const char *text, char **ret_address, uint16_t *ret_port, struct err *err)
{
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	int64_t port;

	if (len == 0 || str_to_i64(colon + 1, &port) < 0 || port < 0 || port > 65535)
		return err_set(err, -EINVAL,
			       "'%s' is not of the form ADDRESS:PORT with a port from 0 to 65535",
			       text);
	if (text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	} else if (memchr(text, ':', len)) {
		return err_set(err, -EINVAL, "'%s': an IPv6 address goes in brackets: [::1]:7171",
			       text);
	}
	free(*ret_address);
	*ret_address = xstrndup(text, len);
	*ret_port = (uint16_t)port;
	return 0;
}

static int parse_hosts(const char *value, struct options *options, struct err *err)
{
	size_t n = 0;

	for (size_t i = 0; options->allowed_hosts[i]; i++)
		free(STEAL(options->allowed_hosts[i]));
	while (*value) {
		size_t len;

		value += strspn(value, ", \t");
		len = strcspn(value, ", \t");
		if (len == 0)
			break;
		if (n == OPTIONS_HOSTS_MAX)
			return err_set(err, -EINVAL, "more than %d names", OPTIONS_HOSTS_MAX);
		options->allowed_hosts[n++] = xstrndup(value, len);
		value += len;
	}
	return 0;
}

static int parse_mode(const char *value, enum core_network_mode *ret, struct err *err)
{
	if (str_eq(value, "auto"))
		*ret = CORE_NETWORK_AUTO;
	else if (str_eq(value, "on"))
		*ret = CORE_NETWORK_ON;
	else if (str_eq(value, "off"))
		*ret = CORE_NETWORK_OFF;
	else
		return err_set(err, -EINVAL, "'%s' is none of auto, on, off", value);
	return 0;
}

static int parse_cidr(const char *text, size_t len, struct slot_cidr *ret, struct err *err)
{
	struct net_prefix prefix;
	const char *why;

	if (prefix_parse(text, len, &prefix, &why) < 0)
		return err_set(err, -EINVAL, "'%.*s': the address %s", (int)len, text, why);
	if (prefix.family != 4)
		return err_set(err, -EINVAL, "'%.*s' is not an IPv4 range", (int)len, text);
	*ret = (struct slot_cidr){
		.address = (uint32_t)prefix.bytes[0] << 24 | (uint32_t)prefix.bytes[1] << 16 |
			   (uint32_t)prefix.bytes[2] << 8 | prefix.bytes[3],
		.prefix = prefix.bits,
	};
	return 0;
}

static int parse_range(const char *value, struct options *options, struct err *err)
{
	struct slot_cidr cidr;
	int rc = parse_cidr(value, strlen(value), &cidr, err);

	if (rc < 0)
		return rc;
	options->network_range = cidr.address;
	options->network_range_prefix = cidr.prefix;
	return 0;
}

static int parse_allow(const char *value, struct options *options, struct err *err)
{
	size_t n = 0;

	while (*value) {
		size_t len;
		int rc;

		value += strspn(value, ", \t");
		len = strcspn(value, ", \t");
		if (len == 0)
			break;
		if (n == OPTIONS_ALLOW_MAX)
			return err_set(err, -EINVAL, "more than %d ranges", OPTIONS_ALLOW_MAX);
		rc = parse_cidr(value, len, &options->network_allow[n], err);
		if (rc < 0)
			return rc;
		n++;
		value += len;
	}
	options->n_network_allow = n;
	return 0;
}

/* ---- the configuration file ---- */

static const struct {
	const char *section, *name;
	size_t offset;
} text_keys[] = {
	{ "server", "state_dir", offsetof(struct options, state_dir) },
	{ "server", "tls_cert", offsetof(struct options, tls_cert) },
	{ "server", "tls_key", offsetof(struct options, tls_key) },
	{ "vm", "warden", offsetof(struct options, warden) },
	{ "vm", "qemu", offsetof(struct options, qemu) },
	{ "vm", "qemu_kvm", offsetof(struct options, qemu_kvm) },
	{ "vm", "kernel", offsetof(struct options, kernel) },
	{ "vm", "initramfs", offsetof(struct options, initramfs) },
	{ "vm", "lib_dir", offsetof(struct options, lib_dir) },
	{ "vm", "accel", offsetof(struct options, accel) },
	{ "vm", "cgroup", offsetof(struct options, cgroup) },
	{ "network", "uplink", offsetof(struct options, uplink) },
	{ "network", "resolv_conf", offsetof(struct options, resolv_conf) },
	{ "network", "pin_dir", offsetof(struct options, pin_dir) },
	{ "images", "dir", offsetof(struct options, image_dir) },
	{ "images", "recipes", offsetof(struct options, recipe_dir) },
	{ "images", "importer", offsetof(struct options, importer) },
	{ "images", "auth", offsetof(struct options, image_auth) },
};

static int set_server_key(struct options *options, const char *name, const char *value,
			  struct err *err)
{
	if (str_eq(name, "listen"))
		return options_parse_listen(value, &options->address, &options->port, err);
	if (str_eq(name, "insecure_listen"))
		return parse_bool(value, &options->insecure_listen, err);
	if (str_eq(name, "metrics_open"))
		return parse_bool(value, &options->metrics_open, err);
	if (str_eq(name, "allowed_hosts"))
		return parse_hosts(value, options, err);
	if (str_eq(name, "preview_domain"))
		return preview_domain_parse(value, &options->preview_domain, err);
	if (str_eq(name, "log_level"))
		return parse_level(value, &options->log_level, err);
	return -ENOENT;
}

static int set_network_key(struct options *options, const char *name, const char *value,
			   struct err *err)
{
	if (str_eq(name, "mode"))
		return parse_mode(value, &options->network_mode, err);
	if (str_eq(name, "range"))
		return parse_range(value, options, err);
	if (str_eq(name, "allow"))
		return parse_allow(value, options, err);
	return -ENOENT;
}

static void unknown_key(const char *section, const char *name, struct err *err)
{
	_cleanup_buf_ struct buf known = BUF_INIT;

	if (str_eq(section, "server"))
		buf_append_str(&known, "listen, insecure_listen, metrics_open, allowed_hosts, "
				       "preview_domain, log_level");
	if (str_eq(section, "network"))
		buf_append_str(&known, "mode, range, allow");
	for (size_t i = 0; i < ARRAY_SIZE(text_keys); i++) {
		if (str_eq(text_keys[i].section, section))
			buf_printf(&known, "%s%s", known.len ? ", " : "", text_keys[i].name);
	}
	if (str_eq(section, "limits"))
		buf_append_str(&known, "the names that GET /v1/limits shows");
	if (str_eq(section, "prices"))
		buf_append_str(&known, "vcpu, memory_gb, disk_gb, size.NAME");
	if (known.len)
		err_set(err, -EINVAL, "unknown key '%s' in section [%s]; it has %s", name, section,
			buf_str(&known));
	else
		err_set(err, -EINVAL,
			"unknown section [%s]; there are [server], [limits], [prices], [vm], "
			"[network], [images]",
			section);
}

static int set_key(struct options *options, const char *section, const char *name,
		   const char *value, struct err *err)
{
	int rc = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(text_keys); i++) {
		if (!str_eq(text_keys[i].section, section) || !str_eq(text_keys[i].name, name))
			continue;
		if (!*value)
			return err_set(err, -EINVAL, "'%s' has no value", name);
		set_text((char **)(void *)((char *)options + text_keys[i].offset), value);
		return 0;
	}
	if (str_eq(section, "server"))
		rc = set_server_key(options, name, value, err);
	else if (str_eq(section, "network"))
		rc = set_network_key(options, name, value, err);
	else if (str_eq(section, "limits"))
		rc = core_limits_set(&options->limits, name, value, err);
	else if (str_eq(section, "prices"))
		rc = core_prices_set(&options->limits.prices, name, value, err);
	if (rc == -ENOENT)
		unknown_key(section, name, err);
	return rc < 0 ? -EINVAL : 0;
}

struct config_reader {
	struct options *options;
	struct err *err;
	bool failed; /* err is that of the first bad line, which inih numbers for us */
};

static int take_key(void *arg, const char *section, const char *name, const char *value)
{
	struct config_reader *reader = arg;

	if (reader->failed)
		return 0;
	if (set_key(reader->options, section, name, value, reader->err) < 0) {
		reader->failed = true;
		return 0;
	}
	return 1;
}

int options_parse_config(const char *text, const char *name, struct options *options,
			 struct err *err)
{
	struct config_reader reader = { .options = options, .err = err };
	int line = ini_parse_string(text, take_key, &reader);

	if (line == 0)
		return core_limits_check(&options->limits, err) < 0
			       ? err_wrap(err, -EINVAL, "configuration '%s'", name)
			       : 0;
	if (!reader.failed)
		err_set(err, -EINVAL, "neither a [section], nor key = value, nor a comment");
	return err_wrap(err, -EINVAL, "configuration '%s' line %d", name, line);
}

static int read_config(struct options *options, struct err *err)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	int rc = file_read(options->config_path, CONFIG_MAX_BYTES, &text);

	if (rc < 0)
		return err_set(err, rc, "configuration '%s': %s", options->config_path,
			       strerror(-rc));
	if (strlen(buf_str(&text)) != text.len)
		return err_set(err, -EINVAL, "configuration '%s' has NUL bytes: is it a text file?",
			       options->config_path);
	return options_parse_config(buf_str(&text), options->config_path, options, err);
}

/* ---- the command line ---- */

enum {
	OPT_STATE_DIR = 256,
	OPT_LISTEN,
	OPT_CONFIG,
	OPT_TLS_CERT,
	OPT_TLS_KEY,
	OPT_INSECURE,
	OPT_IMAGE_DIR,
	OPT_NETWORK,
	OPT_END_SANDBOXES,
	OPT_REMOVE_NETWORK,
	OPT_LOG_LEVEL,
	OPT_VERSION,
	OPT_HELP
};

static const struct option long_options[] = {
	{ "state-dir", required_argument, NULL, OPT_STATE_DIR },
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "config", required_argument, NULL, OPT_CONFIG },
	{ "tls-cert", required_argument, NULL, OPT_TLS_CERT },
	{ "tls-key", required_argument, NULL, OPT_TLS_KEY },
	{ "insecure-listen", no_argument, NULL, OPT_INSECURE },
	{ "image-dir", required_argument, NULL, OPT_IMAGE_DIR },
	{ "network", required_argument, NULL, OPT_NETWORK },
	{ "end-sandboxes", no_argument, NULL, OPT_END_SANDBOXES },
	{ "remove-network", no_argument, NULL, OPT_REMOVE_NETWORK },
	{ "log-level", required_argument, NULL, OPT_LOG_LEVEL },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

static int apply_option(struct options *options, int option, const char *value, struct err *err)
{
	switch (option) {
	case OPT_STATE_DIR:
		set_text(&options->state_dir, value);
		return 0;
	case OPT_LISTEN:
		return options_parse_listen(value, &options->address, &options->port, err);
	case OPT_TLS_CERT:
		set_text(&options->tls_cert, value);
		return 0;
	case OPT_TLS_KEY:
		set_text(&options->tls_key, value);
		return 0;
	case OPT_NETWORK:
		return parse_mode(value, &options->network_mode, err);
	case OPT_END_SANDBOXES:
		options->end_sandboxes = true;
		return 0;
	case OPT_REMOVE_NETWORK:
		options->remove_network = true;
		return 0;
	case OPT_INSECURE:
		options->insecure_listen = true;
		return 0;
	case OPT_IMAGE_DIR:
		set_text(&options->image_dir, value);
		return 0;
	case OPT_LOG_LEVEL:
		return parse_level(value, &options->log_level, err);
	case OPT_VERSION:
		options->show_version = true;
		return 0;
	case OPT_HELP:
		options->show_help = true;
		return 0;
	default:
		return 0; /* --config, in the pass before */
	}
}

/* One pass over the command line: first only --config (and what is not understood), then the rest.
 */
static int read_arguments(int argc, char **argv, struct options *options, bool config_only,
			  struct err *err)
{
	int option, index = 0;

	optind = 0; /* start again */
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", long_options, &index)) != -1) {
		int rc = 0;

		if (option == ':' || option == '?')
			return err_set(err, -EINVAL, "%s '%s'",
				       option == ':' ? "no value for option" : "unknown option",
				       argv[optind - 1]);
		if (config_only && option == OPT_CONFIG)
			set_text(&options->config_path, optarg);
		else if (!config_only)
			rc = apply_option(options, option, optarg, err);
		if (rc < 0)
			return err_wrap(err, rc, "option --%s", long_options[index].name);
	}
	if (optind < argc)
		return err_set(err, -EINVAL, "unexpected argument '%s'", argv[optind]);
	return 0;
}

static bool is_loopback(const char *address)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (str_eq(address, "localhost"))
		return true;
	if (inet_pton(AF_INET, address, &v4) == 1)
		return ntohl(v4.s_addr) >> 24 == 127;
	return inet_pton(AF_INET6, address, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static int check(const struct options *options, struct err *err)
{
	if (!options->tls_cert != !options->tls_key)
		return err_set(err, -EINVAL,
			       "a TLS certificate and its key go together: %s is missing",
			       options->tls_cert ? "--tls-key" : "--tls-cert");
	if (!options->tls_cert && !options->insecure_listen && !is_loopback(options->address)) {
		err_set(err, -EINVAL,
			"%s is not a loopback address, and without TLS keys would travel in "
			"the clear",
			options->address);
		err_hint(err, "give --tls-cert and --tls-key, listen on 127.0.0.1, or insist with "
			      "--insecure-listen");
		return -EINVAL;
	}
	return 0;
}

int options_read(int argc, char **argv, struct options *ret, struct err *err)
{
	int rc;

	*ret = (struct options){
		.state_dir = xstrdup("/var/lib/skerry"),
		.address = xstrdup("127.0.0.1"),
		.port = 7171,
		.log_level = LOG_LVL_INFO,
		.network_mode = CORE_NETWORK_AUTO,
	};
	core_limits_init(&ret->limits);
	rc = read_arguments(argc, argv, ret, true, err);
	if (rc == 0 && ret->config_path)
		rc = read_config(ret, err);
	if (rc == 0)
		rc = read_arguments(argc, argv, ret, false, err);
	if (rc == 0 && !ret->show_help && !ret->show_version)
		rc = check(ret, err);
	return rc;
}

void options_clear(struct options *options)
{
	free(options->config_path);
	free(options->state_dir);
	free(options->address);
	for (size_t i = 0; i < ARRAY_SIZE(text_keys); i++) {
		char **at = (char **)(void *)((char *)options + text_keys[i].offset);

		if (at != &options->state_dir)
			free(*at);
	}
	for (size_t i = 0; options->allowed_hosts[i]; i++)
		free(options->allowed_hosts[i]);
	*options = (struct options){ 0 };
}
