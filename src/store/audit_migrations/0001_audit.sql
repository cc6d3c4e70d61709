-- The audit, in a database of its own: it is written while others wait for theirs, grows at its own pace,
-- and is not put back to an older state with a copy of the other.

-- The chain. body is the record as it was hashed (base/chain.h); the columns before it say the same once
-- more, to search by, and are checked against it.
create table audit (
	seq bigint primary key,
	at_unix_ms bigint not null,
	account_id text not null,
	key_id text not null,
	sandbox_id text not null,
	operation text not null,
	request_id text not null,
	result text not null,
	body text not null,
	hash text not null
);
create index audit_account on audit (account_id, seq);
create index audit_key on audit (key_id, seq);
create index audit_sandbox on audit (sandbox_id, seq);
create index audit_request on audit (request_id);

-- One row. last: the newest record. pruned: the newest of those that are not kept any more.
create table audit_state (
	one integer primary key,
	last_seq bigint not null,
	last_hash text not null,
	pruned_seq bigint not null,
	pruned_hash text not null
);
insert into audit_state (one, last_seq, last_hash, pruned_seq, pruned_hash)
	values (1, 0, '0000000000000000000000000000000000000000000000000000000000000000',
		0, '0000000000000000000000000000000000000000000000000000000000000000');

-- What is under way: begun, and without a record yet, because nobody knows how it ends. body: what of the
-- record is known already.
create table audit_open (
	id bigint primary key,
	body text not null
);
