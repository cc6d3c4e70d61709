-- Accounts, keys, sandboxes and idempotency keys. Times are Unix milliseconds; ids are made by us;
-- rows that belong to a host carry its node_id.

create table meta (
	name text primary key,
	value text not null
);

create table accounts (
	id text primary key,
	name text not null,
	created_unix_ms bigint not null
);

-- A key is stored as the hash of its text; prefix is what lists show of it.
create table keys (
	id text primary key,
	account_id text not null references accounts (id),
	hash text not null unique,
	prefix text not null,
	label text not null,
	admin integer not null,
	created_unix_ms bigint not null,
	expires_unix_ms bigint,
	revoked_unix_ms bigint
);
create index keys_account on keys (account_id);

-- ended_unix_ms is null while the sandbox may still have a process; uid is null once it has none.
-- started_unix_ms … ended_unix_ms is what it is billed for.
create table sandboxes (
	id text primary key,
	node_id text not null,
	account_id text not null references accounts (id),
	key_id text not null,
	name text not null,
	status text not null,
	size text not null,
	milli_vcpus integer not null,
	memory_mb integer not null,
	disk_gb integer not null,
	image text not null,
	image_digest text not null,
	isolation text not null,
	labels text not null,
	generation bigint not null,
	uid bigint,
	created_unix_ms bigint not null,
	expires_unix_ms bigint not null,
	started_unix_ms bigint,
	ended_unix_ms bigint,
	reason text not null,
	reason_text text not null
);
create index sandboxes_account on sandboxes (account_id, created_unix_ms, id);
create index sandboxes_ended on sandboxes (ended_unix_ms);
create unique index sandboxes_uid on sandboxes (node_id, uid);

-- The labels of sandboxes.labels once more, to search by.
create table sandbox_labels (
	sandbox_id text not null references sandboxes (id) on delete cascade,
	name text not null,
	value text not null,
	primary key (sandbox_id, name)
);
create index sandbox_labels_name on sandbox_labels (name, value);

create table idempotency_keys (
	account_id text not null references accounts (id),
	name text not null,
	request_hash text not null,
	sandbox_id text not null references sandboxes (id) on delete cascade,
	expires_unix_ms bigint not null,
	primary key (account_id, name)
);
create index idempotency_keys_expires on idempotency_keys (expires_unix_ms);
create index idempotency_keys_sandbox on idempotency_keys (sandbox_id);
