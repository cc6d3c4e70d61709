/*
 * Lookups. A lookup is answered from the client's cache, by way of a timer that is due at once (so
 * that callers meet one kind of answer), or goes from server to server until one gives an answer
 * that means something. The server that answered last is asked first the next time.
 */
#include "net/dns_resolver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "net/addr_table.h"
#include "net/dns_cache.h"
#include "net/dns_exchange.h"
#include "net/dns_resolv_conf.h"

struct resolver_client {
	struct addr_entry entry; /* first */
	struct dns_cache cache;
	size_t pending;
	bool forgotten; /* not in the table any more; freed with its last lookup */
};

struct dns_lookup {
	struct dns_resolver *resolver;
	struct resolver_client *client;
	struct dns_name name;
	uint16_t type;
	size_t tries, first_server;
	struct dns_exchange *exchange;
	struct loop_timer *timer;  /* due at once, when there is nothing to wait for */
	struct dns_answer *answer; /* the best so far */
	uint32_t left_s;
	dns_lookup_fn fn;
	void *arg;
	struct dns_lookup *prev, *next;
};

struct dns_resolver {
	struct loop *loop;
	char *path;
	struct dns_servers servers;
	size_t first_server;
	struct stat read; /* of the file that was read */
	int64_t looked_ms;
	struct addr_table clients;
	struct dns_lookup *lookups;
	size_t pending;
};

static int read_servers(struct dns_resolver *resolver)
{
	_cleanup_buf_ struct buf text = BUF_INIT;
	int r = file_read(resolver->path, DNS_RESOLV_CONF_MAX, &text);

	if (r < 0)
		return r;
	dns_resolv_conf_parse(buf_str(&text), text.len, &resolver->servers);
	resolver->first_server = 0;
	return 0;
}

/* The time alone would not do: its grain is some milliseconds. */
static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* A file that is being replaced, or broken for a while, leaves the servers as they were. */
static void look_for_changes(struct dns_resolver *resolver)
{
	int64_t now_ms = clock_boottime_ms();
	struct stat st;

	if (now_ms - resolver->looked_ms < DNS_RELOAD_MS)
		return;
	resolver->looked_ms = now_ms;
	if (stat(resolver->path, &st) < 0 || is_same_file(&st, &resolver->read))
		return;
	if (read_servers(resolver) == 0)
		resolver->read = st;
}

int dns_resolver_new(struct loop *loop, const char *resolv_conf, struct dns_resolver **ret,
		     struct err *err)
{
	struct dns_resolver *resolver = xcalloc(1, sizeof(*resolver));
	int r;

	resolver->loop = loop;
	resolver->path = xstrdup(resolv_conf ? resolv_conf : DNS_RESOLV_CONF);
	resolver->looked_ms = clock_boottime_ms();
	if (stat(resolver->path, &resolver->read) < 0)
		resolver->read = (struct stat){ 0 };
	r = read_servers(resolver);
	if (r < 0 && r != -ENOENT) {
		err_set(err, r, "cannot read the resolvers of this host from '%s': %s",
			resolver->path, strerrordesc_np(-r));
		dns_resolver_free(resolver);
		return r;
	}
	if (r == -ENOENT)
		dns_resolv_conf_parse("", 0, &resolver->servers);
	*ret = resolver;
	return 0;
}

static struct resolver_client *client_of(struct dns_resolver *resolver, uint32_t address)
{
	struct addr_entry *entry = addr_table_find(&resolver->clients, address);
	struct resolver_client *client = (struct resolver_client *)entry;

	if (!client) {
		client = xcalloc(1, sizeof(*client));
		client->entry.address = address;
		addr_table_add(&resolver->clients, &client->entry);
	}
	return client;
}

static void client_free(struct resolver_client *client)
{
	dns_cache_clear(&client->cache);
	free(client);
}

void dns_lookup_cancel(struct dns_lookup *lookup)
{
	struct dns_resolver *resolver;

	if (!lookup)
		return;
	resolver = lookup->resolver;
	dns_exchange_cancel(lookup->exchange);
	loop_timer_remove(lookup->timer);
	dns_answer_unref(lookup->answer);
	resolver->pending--;
	if (--lookup->client->pending == 0 && lookup->client->forgotten)
		client_free(lookup->client);
	if (lookup->prev)
		lookup->prev->next = lookup->next;
	else
		resolver->lookups = lookup->next;
	if (lookup->next)
		lookup->next->prev = lookup->prev;
	free(lookup);
}

void dns_resolver_forget(struct dns_resolver *resolver, uint32_t address)
{
	struct resolver_client *client =
		(struct resolver_client *)addr_table_remove(&resolver->clients, address);

	if (!client)
		return;
	client->forgotten = true;
	if (client->pending == 0)
		client_free(client);
}

void dns_resolver_free(struct dns_resolver *resolver)
{
	struct addr_entry *entry;

	if (!resolver)
		return;
	while (resolver->lookups)
		dns_lookup_cancel(resolver->lookups);
	while ((entry = addr_table_take(&resolver->clients)))
		client_free((struct resolver_client *)entry);
	free(resolver->path);
	free(resolver);
}

static void finish(void *arg)
{
	struct dns_lookup *lookup = arg;
	struct dns_answer *answer = STEAL(lookup->answer);
	dns_lookup_fn fn = lookup->fn;
	uint32_t left_s = lookup->left_s;
	void *fn_arg = lookup->arg;

	dns_lookup_cancel(lookup);
	fn(fn_arg, answer, left_s);
	dns_answer_unref(answer);
}

static void try_next_server(struct dns_lookup *lookup);

/* "Failed" and "refused" are of this server's condition: another may know better. */
static bool means_something(const struct dns_answer *answer)
{
	int rcode = dns_answer_rcode(answer);

	return rcode == DNS_NOERROR || rcode == DNS_NXDOMAIN;
}

static void on_exchange(void *arg, struct dns_answer *answer)
{
	struct dns_lookup *lookup = arg;
	struct dns_resolver *resolver = lookup->resolver;

	lookup->exchange = NULL;
	if (answer) {
		dns_answer_unref(lookup->answer);
		lookup->answer = dns_answer_ref(answer);
	}
	if (!answer || !means_something(answer)) {
		try_next_server(lookup);
		return;
	}
	resolver->first_server = (lookup->first_server + lookup->tries - 1) % resolver->servers.n;
	lookup->left_s = dns_cache_put(&lookup->client->cache, &lookup->name, lookup->type, answer,
				       clock_boottime_ms());
	finish(lookup);
}

static void finish_soon(struct dns_lookup *lookup)
{
	lookup->timer = loop_timer_add(lookup->resolver->loop, clock_boottime_ms(), finish, lookup);
}

static void try_next_server(struct dns_lookup *lookup)
{
	const struct dns_servers *servers = &lookup->resolver->servers;

	while (!lookup->exchange && lookup->tries < DNS_ROUNDS * servers->n) {
		size_t i = (lookup->first_server + lookup->tries++) % servers->n;

		lookup->exchange = dns_exchange_start(
			lookup->resolver->loop, &servers->list[i], &lookup->name, lookup->type,
			clock_boottime_ms() + DNS_TRY_MS, on_exchange, lookup);
	}
	if (!lookup->exchange)
		finish_soon(lookup);
}

struct dns_lookup *dns_resolver_ask(struct dns_resolver *resolver, uint32_t address,
				    const struct dns_name *name, uint16_t type, dns_lookup_fn fn,
				    void *arg)
{
	struct resolver_client *client = client_of(resolver, address);
	struct dns_lookup *lookup;

	if (client->pending == DNS_PENDING_MAX || resolver->pending == DNS_PENDING_TOTAL_MAX)
		return NULL;
	look_for_changes(resolver);
	lookup = xcalloc(1, sizeof(*lookup));
	*lookup = (struct dns_lookup){
		.resolver = resolver,
		.client = client,
		.name = *name,
		.type = type,
		.first_server = resolver->first_server,
		.fn = fn,
		.arg = arg,
		.next = resolver->lookups,
	};
	if (lookup->next)
		lookup->next->prev = lookup;
	resolver->lookups = lookup;
	client->pending++;
	resolver->pending++;
	lookup->answer =
		dns_cache_get(&client->cache, name, type, clock_boottime_ms(), &lookup->left_s);
	if (lookup->answer)
		finish_soon(lookup);
	else
		try_next_server(lookup);
	return lookup;
}
