-- Metering and credit. Amounts are micro-credits, rates are micro-credits a second; both are integers.

-- What an account was granted and charged in all: its balance is the difference. unlimited: it may go
-- below zero. last_entry: of its newest entry in the ledger.
create table wallets (
	account_id text primary key references accounts (id),
	unlimited integer not null,
	granted bigint not null,
	charged bigint not null,
	last_entry bigint not null
);
-- Who was there before there were credits is not limited by them.
insert into wallets (account_id, unlimited, granted, charged, last_entry)
	select id, 1, 0, 0, 0 from accounts;

-- The ledger: each entry takes an amount from one side (debit) and gives it to the other (credit). A
-- grant goes from 'grants' to the account, a charge from the account to 'usage'. Entries are only ever
-- added, and an account's are numbered without holes. No reference to the sandbox: what was charged for
-- it outlives its tombstone.
--
-- A charge is for a part of one run (a generation) of a sandbox, from_unix_ms to to_unix_ms; the run
-- began at run_unix_ms. reference and note are a grant's.
create table ledger_entries (
	account_id text not null references accounts (id),
	id bigint not null,
	at_unix_ms bigint not null,
	debit text not null,
	credit text not null,
	amount bigint not null check (amount >= 0),
	reference text,
	note text,
	sandbox_id text,
	generation bigint,
	key_id text,
	rate bigint,
	run_unix_ms bigint,
	from_unix_ms bigint,
	to_unix_ms bigint check (to_unix_ms > from_unix_ms),
	primary key (account_id, id)
);
create unique index ledger_charges on ledger_entries (sandbox_id, generation, from_unix_ms)
	where sandbox_id is not null;
create unique index ledger_references on ledger_entries (account_id, reference)
	where reference is not null;

-- Sums of the charges, written with each of them. kind and name: 'day' and a date in UTC, 'key' and a
-- key's id, 'sandbox' and a sandbox's. at_unix_ms: until when the newest charge in it is.
create table usage_totals (
	account_id text not null references accounts (id),
	kind text not null,
	name text not null,
	amount bigint not null,
	running_ms bigint not null,
	at_unix_ms bigint not null,
	primary key (account_id, kind, name)
);
create index usage_totals_newest on usage_totals (account_id, kind, at_unix_ms);

-- One row for each sandbox that runs or is about to. From its reservation on hold is kept aside for it;
-- run_unix_ms is null until the run has begun. run_boottime_ms: the same moment by the clock that is
-- never set; the run is of that boot. Up to charged_unix_ms the run is in the ledger, with the sum
-- charged.
create table meters (
	sandbox_id text primary key,
	account_id text not null references accounts (id),
	key_id text not null,
	generation bigint not null,
	rate bigint not null,
	hold bigint not null,
	run_unix_ms bigint,
	run_boottime_ms bigint,
	charged_unix_ms bigint,
	charged bigint not null
);
create index meters_account on meters (account_id);
