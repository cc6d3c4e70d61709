-- The network: what sandboxes may reach, their slots in the host's kernel, private networks.

-- egress: what it may reach, as JSON: null (open), [] (nothing) or a list of rules. What was made
-- before this migration has no network: nothing. egress_next: what it is being changed to, null
-- while no change is under way. guest_address: the address that it has inside, empty for a machine
-- without a network device. slot: the index of its slot, null where it has none. The counters are of
-- its earlier runs; those of the run under way are the slot's.
alter table sandboxes add column egress text not null default '[]';
alter table sandboxes add column egress_next text;
alter table sandboxes add column guest_address text not null default '';
alter table sandboxes add column slot integer;
alter table sandboxes add column out_packets bigint not null default 0;
alter table sandboxes add column out_bytes bigint not null default 0;
alter table sandboxes add column in_packets bigint not null default 0;
alter table sandboxes add column in_bytes bigint not null default 0;
alter table sandboxes add column denied_packets bigint not null default 0;
alter table snapshots add column egress text not null default '[]';
alter table snapshots add column guest_address text not null default '';

-- number is what the kernel knows a network by.
create table networks (
	number bigint primary key,
	account_id text not null references accounts (id),
	name text not null,
	created_unix_ms bigint not null
);
create unique index networks_name on networks (account_id, name);

create table network_members (
	network bigint not null references networks (number),
	sandbox_id text not null references sandboxes (id) on delete cascade,
	name text not null,
	primary key (network, sandbox_id)
);
create unique index network_members_name on network_members (network, name);
create index network_members_sandbox on network_members (sandbox_id);
