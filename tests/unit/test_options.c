/* The daemon's command line and configuration file: what is taken, and how refusals are worded. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "daemon/options.h"

static int read_line(struct options *options, struct err *err, const char *const *words)
{
	char *argv[16] = { (char *)(uintptr_t) "skerryd" };
	int argc = 1;

	for (size_t i = 0; words[i]; i++)
		argv[argc++] = (char *)(uintptr_t)words[i];
	*err = ERR_INIT;
	return options_read(argc, argv, options, err);
}

#define READ(options, err, ...) read_line(options, err, (const char *const[]){ __VA_ARGS__, NULL })

static void test_defaults(void **state)
{
	struct options options;
	struct err err;

	assert_int_equal(READ(&options, &err, NULL), 0);
	assert_string_equal(options.address, "127.0.0.1");
	assert_int_equal(options.port, 7171);
	assert_string_equal(options.state_dir, "/var/lib/skerry");
	assert_int_equal(options.limits.sandboxes_per_account, 20);
	options_clear(&options);
}

static void test_command_line(void **state)
{
	struct options options;
	struct err err;

	assert_int_equal(READ(&options, &err, "--state-dir", "/tmp/x", "--listen=[::1]:0",
			      "--log-level", "debug"),
			 0);
	assert_string_equal(options.address, "::1");
	assert_int_equal(options.port, 0);
	assert_int_equal(options.log_level, LOG_LVL_DEBUG);
	options_clear(&options);
}

static void test_refusals(void **state)
{
	static const struct {
		const char *words[5];
		const char *part;
	} rows[] = {
		{ { "--nonsense" }, "unknown option '--nonsense'" },
		{ { "--listen" }, "no value for option '--listen'" },
		{ { "extra" }, "unexpected argument 'extra'" },
		{ { "--listen", "127.0.0.1" }, "ADDRESS:PORT" },
		{ { "--listen", "127.0.0.1:65536" }, "0 to 65535" },
		{ { "--listen", "127.0.0.1:-1" }, "0 to 65535" },
		{ { "--listen", "::1:80" }, "brackets" },
		{ { "--log-level", "loud" }, "debug, info, warn, error" },
		{ { "--tls-cert", "/x" }, "--tls-key is missing" },
		{ { "--tls-key", "/x" }, "--tls-cert is missing" },
		{ { "--listen", "0.0.0.0:80" }, "not a loopback address" },
		{ { "--listen", "[::]:80" }, "not a loopback address" },
		{ { "--listen", "192.0.2.1:80" }, "not a loopback address" },
		{ { "--network", "maybe" }, "auto, on, off" },
		{ { "--config", "/nonexistent" }, "'/nonexistent'" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct options options;
		struct err err;

		if (read_line(&options, &err, rows[i].words) == 0 ||
		    !strstr(err.message, rows[i].part))
			fail_msg("%s: %s", rows[i].words[0], err.message);
		options_clear(&options);
	}
}

static void test_insecure_is_insisted_on(void **state)
{
	struct options options;
	struct err err;

	assert_int_equal(READ(&options, &err, "--listen", "0.0.0.0:80", "--insecure-listen"), 0);
	options_clear(&options);
	assert_int_equal(
		READ(&options, &err, "--listen", "0.0.0.0:80", "--tls-cert", "a", "--tls-key", "b"),
		0);
	options_clear(&options);
	assert_int_equal(READ(&options, &err, "--listen", "127.3.2.1:80"), 0);
	options_clear(&options);
}

static int parse(const char *text, struct options *options, struct err *err)
{
	*options = (struct options){ 0 };
	*err = ERR_INIT;
	core_limits_init(&options->limits);
	return options_parse_config(text, "skerryd.conf", options, err);
}

static void test_config(void **state)
{
	struct options options;
	struct err err;

	assert_int_equal(parse("; a comment\n[server]\nlisten = localhost:0\nallowed_hosts = "
			       "a.example, b.example\n"
			       "preview_domain = Https://P.example:8443\n"
			       "insecure_listen = yes\n[limits]\nsandboxes_per_account = 3\n"
			       "[vm]\naccel = tcg\n[images]\ndir = /srv/images\n",
			       &options, &err),
			 0);
	assert_string_equal(options.address, "localhost");
	assert_string_equal(options.allowed_hosts[0], "a.example");
	assert_string_equal(options.allowed_hosts[1], "b.example");
	assert_null(options.allowed_hosts[2]);
	assert_string_equal(options.preview_domain.name, "p.example");
	assert_string_equal(options.preview_domain.scheme, "https");
	assert_string_equal(options.preview_domain.port, "8443");
	assert_true(options.insecure_listen);
	assert_int_equal(options.limits.sandboxes_per_account, 3);
	assert_string_equal(options.accel, "tcg");
	assert_string_equal(options.image_dir, "/srv/images");
	options_clear(&options);
}

static void test_network(void **state)
{
	struct options options;
	struct err err;

	assert_int_equal(READ(&options, &err, "--listen", "localhost:0"), 0);
	assert_int_equal(options.network_mode, CORE_NETWORK_AUTO);
	options_clear(&options);
	assert_int_equal(READ(&options, &err, "--network", "off"), 0);
	assert_int_equal(options.network_mode, CORE_NETWORK_OFF);
	options_clear(&options);
	assert_int_equal(parse("[network]\nmode = on\nuplink = eth0\nrange = 10.96.0.0/16\n"
			       "allow = 10.1.0.0/16, 192.168.7.7\nresolv_conf = /etc/x\n",
			       &options, &err),
			 0);
	assert_int_equal(options.network_mode, CORE_NETWORK_ON);
	assert_string_equal(options.uplink, "eth0");
	assert_string_equal(options.resolv_conf, "/etc/x");
	assert_int_equal(options.network_range, 0x0a600000);
	assert_int_equal(options.network_range_prefix, 16);
	assert_int_equal(options.n_network_allow, 2);
	assert_int_equal(options.network_allow[0].address, 0x0a010000);
	assert_int_equal(options.network_allow[0].prefix, 16);
	assert_int_equal(options.network_allow[1].address, 0xc0a80707);
	assert_int_equal(options.network_allow[1].prefix, 32);
	options_clear(&options);
}

static void test_config_refusals(void **state)
{
	static const struct {
		const char *text, *line, *part;
	} rows[] = {
		{ "[server]\nlisten = 127.0.0.1:1\nlissen = x\n", "line 3",
		  "unknown key 'lissen'" },
		{ "[server]\n\nnonsense\n", "line 3", "neither" },
		{ "[srever]\na = b\n", "line 2", "unknown section [srever]" },
		{ "a = b\n", "line 1", "unknown section []" },
		{ "[limits]\nsandboxes_per_account = many\n", "line 2", "sandboxes_per_account" },
		{ "[limits]\nsandboxes_per_account = -1\n", "line 2", "sandboxes_per_account" },
		{ "[limits]\nno_such_limit = 1\n", "line 2", "no_such_limit" },
		{ "[server]\ninsecure_listen = maybe\n", "line 2", "neither yes nor no" },
		{ "[vm]\nkernel =\n", "line 2", "has no value" },
		{ "[network]\nmode = yes\n", "line 2", "auto, on, off" },
		{ "[network]\nrange = 100.64.0.1/10\n", "line 2", "'100.64.0.1/10'" },
		{ "[network]\nallow = 10.0.0.0/8, fd00::/8\n", "line 2", "'fd00::/8'" },
		{ "[network]\nname = x\n", "line 2", "it has mode, range, allow, uplink" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct options options;
		struct err err;

		if (parse(rows[i].text, &options, &err) != -EINVAL ||
		    !strstr(err.message, rows[i].line) || !strstr(err.message, rows[i].part) ||
		    !strstr(err.message, "skerryd.conf"))
			fail_msg("%s: %s", rows[i].text, err.message);
		options_clear(&options);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_defaults), cmocka_unit_test(test_command_line),
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_insecure_is_insisted_on),
		cmocka_unit_test(test_config),	 cmocka_unit_test(test_config_refusals),
		cmocka_unit_test(test_network),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
