/* One transaction of libnftables: the table is dropped and made again, or stays as it was. */
#include "net/nft.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <nftables/libnftables.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "net/bpf/abi.h"

#define CONNECTIONS_MAX 16384 /* a guest, at once */

static void context_freep(struct nft_ctx **ctx)
{
	if (*ctx)
		nft_ctx_free(*ctx);
}

static int run(const char *commands, const char *what, struct err *err)
{
	_cleanup_(context_freep) struct nft_ctx *ctx = nft_ctx_new(NFT_CTX_DEFAULT);

	if (!ctx || nft_ctx_buffer_error(ctx) != 0 || nft_ctx_buffer_output(ctx) != 0)
		return err_set(err, -ENOMEM, "cannot %s: no nftables context", what);
	if (nft_run_cmd_from_buffer(ctx, commands) != 0) {
		const char *reason = nft_ctx_get_error_buffer(ctx);

		err_set(err, -EIO, "cannot %s: nftables: %.400s", what, reason ? reason : "failed");
		err_hint(err,
			 "the kernel needs nf_tables with nat and masquerade (modules nft_nat, "
			 "nft_masq); try 'nft list tables'");
		return -EIO;
	}
	return 0;
}

static const char *dotted(uint32_t address, char out[INET_ADDRSTRLEN])
{
	struct in_addr in = { .s_addr = htonl(address) };

	return inet_ntop(AF_INET, &in, out, INET_ADDRSTRLEN);
}

static void add_chains(struct buf *b, const struct nft_plan *plan)
{
	char gateway[INET_ADDRSTRLEN], range[INET_ADDRSTRLEN];
	_cleanup_buf_ struct buf out = BUF_INIT;

	dotted(plan->gateway, gateway);
	dotted(plan->range, range);
	if (plan->uplink)
		buf_printf(&out, "oifname \"%s\"", plan->uplink);
	else
		buf_printf(&out, "oifname != \"%s*\"", plan->taps);

	buf_printf(b, "chain guard {\n type filter hook prerouting priority raw; policy accept;\n");
	buf_printf(b, " iifname \"%s*\" meta mark & 0x%08x != 0x%08x drop\n", plan->taps,
		   EGRESS_MARK_MASK, EGRESS_MARK_PASSED & EGRESS_MARK_MASK);
	/* What stays between guests and this host needs no connection tracking, and must not meet
	 * the masquerade of an earlier connection with the same ports. */
	buf_printf(b, " iifname \"%s*\" meta mark 0x%08x notrack\n", plan->taps, EGRESS_MARK_PROXY);
	buf_printf(b, " iifname \"%s*\" ip daddr %s/%u notrack\n", plan->taps, range,
		   plan->range_prefix);
	buf_printf(b, " ip daddr %s iifname != \"%s*\" iifname != \"lo\" drop\n}\n", gateway,
		   plan->taps);

	buf_printf(b, "chain own {\n type filter hook output priority raw; policy accept;\n");
	buf_printf(b, " oifname \"%s*\" notrack\n}\n", plan->taps);

	/* Before routes with a smaller packet size the guest cannot know of. */
	buf_printf(b, "chain sizes {\n type filter hook forward priority mangle; policy accept;\n");
	buf_printf(b,
		   " iifname \"%s*\" tcp flags & (syn | rst) == syn tcp option maxseg size set rt "
		   "mtu\n}\n",
		   plan->taps);

	buf_printf(b,
		   "chain hide {\n type nat hook postrouting priority srcnat; policy accept;\n"
		   " ip saddr %s/%u %s masquerade\n}\n",
		   range, plan->range_prefix, buf_str(&out));

	/* One guest must not fill the table of connections that the whole host shares. */
	buf_printf(b, "set connections {\n type ipv4_addr; flags dynamic;\n}\n");
	buf_printf(b, "chain cap {\n type filter hook forward priority filter; policy accept;\n");
	buf_printf(b,
		   " iifname \"%s*\" ct state new add @connections { ip saddr ct count over %d } "
		   "drop\n}\n",
		   plan->taps, CONNECTIONS_MAX);

	if (plan->forward_only_guests)
		buf_printf(b,
			   "chain only_guests {\n type filter hook forward priority filter; policy "
			   "accept;\n"
			   " iifname != \"%s*\" oifname != \"%s*\" drop\n}\n",
			   plan->taps, plan->taps);
}

int nft_install(const struct nft_plan *plan, struct err *err)
{
	_cleanup_buf_ struct buf commands = BUF_INIT;

	buf_printf(&commands, "table ip %s\ndelete table ip %s\ntable ip %s {\n", plan->table,
		   plan->table, plan->table);
	add_chains(&commands, plan);
	buf_append_str(&commands, "}\n");
	return run(buf_str(&commands), "install the masquerade of guests", err);
}

int nft_remove(const char *table, struct err *err)
{
	_cleanup_buf_ struct buf commands = BUF_INIT;

	buf_printf(&commands, "table ip %s\ndelete table ip %s\n", table, table);
	return run(buf_str(&commands), "remove the masquerade of guests", err);
}

bool nft_forwards_only_guests(const char *table)
{
	_cleanup_buf_ struct buf command = BUF_INIT;

	buf_printf(&command, "list chain ip %s only_guests", table);
	return run(buf_str(&command), "look for a chain", NULL) == 0;
}
