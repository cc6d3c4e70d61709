-- Pausing, forks, snapshots.

-- template_key: the template whose memory file the sandbox's memory is a difference to ('' of one
-- that was made before this migration: it cannot be saved). remaining_ms and paused_unix_ms are null
-- unless it is paused, or being resumed.
alter table sandboxes add column parent_id text not null default '';
alter table sandboxes add column on_timeout text not null default 'destroy';
alter table sandboxes add column idle_pause_minutes integer not null default 0;
alter table sandboxes add column machine_id text not null default '';
alter table sandboxes add column template_key text not null default '';
alter table sandboxes add column remaining_ms bigint;
alter table sandboxes add column paused_unix_ms bigint;
create index sandboxes_template on sandboxes (template_key);

-- When a sandbox ran, one row a run, from the wardens' records: what it is billed for.
create table intervals (
	sandbox_id text not null references sandboxes (id) on delete cascade,
	generation bigint not null,
	started_unix_ms bigint not null,
	ended_unix_ms bigint,
	primary key (sandbox_id, generation)
);
insert into intervals (sandbox_id, generation, started_unix_ms, ended_unix_ms)
	select id, generation, started_unix_ms, ended_unix_ms from sandboxes
	where started_unix_ms is not null;

-- Named snapshots. status: making, ready.
create table snapshots (
	id text primary key,
	node_id text not null,
	account_id text not null references accounts (id),
	name text not null,
	status text not null,
	source_id text not null,
	size text not null,
	milli_vcpus integer not null,
	memory_mb integer not null,
	disk_gb integer not null,
	image text not null,
	image_digest text not null,
	template_key text not null,
	labels text not null,
	generation bigint not null,
	bytes bigint not null,
	created_unix_ms bigint not null
);
create unique index snapshots_name on snapshots (account_id, name);
create index snapshots_template on snapshots (template_key);
