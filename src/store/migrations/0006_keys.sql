-- Scopes, rotation and accounts that administer.

-- admin: the account may act on others; what a key of it may do is still its own admin and scope.
alter table accounts add column admin integer not null default 0;
update accounts set admin = 1 where id in (select account_id from keys where admin = 1);
create unique index accounts_name on accounts (name);

-- scope: what the key may do less than its account, a JSON object; null: nothing less. created_by: the
-- key that it was made with, '' for the first. rotated_unix_ms: when its text was last made anew.
alter table keys add column scope text;
alter table keys add column created_by text not null default '';
alter table keys add column rotated_unix_ms bigint;

-- Earlier texts of keys, each good until its own time.
create table old_key_hashes (
	hash text primary key,
	key_id text not null references keys (id),
	expires_unix_ms bigint not null
);
create index old_key_hashes_key on old_key_hashes (key_id);
create index old_key_hashes_expires on old_key_hashes (expires_unix_ms);
