-- What happened to an account's sandboxes, to be followed. An account's events are numbered without
-- holes from 1 on; the numbers are what followers go on from, and are never used again.

-- last_id: of its newest event; pruned_id: up to that one, none is kept any more.
create table event_sequences (
	account_id text primary key references accounts (id),
	last_id bigint not null,
	pruned_id bigint not null
);

-- sandbox_id: '' of what is about none. data: a JSON object, by type. No reference to the sandbox:
-- its events outlive its tombstone or go before it.
create table events (
	account_id text not null references accounts (id),
	id bigint not null,
	sandbox_id text not null,
	type text not null,
	at_unix_ms bigint not null,
	data text not null,
	primary key (account_id, id)
);
create index events_sandbox on events (account_id, sandbox_id, id);
