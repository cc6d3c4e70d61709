-- Sessions of browsers at the dashboard. The cookie is stored as the hash of its text; a session is worth
-- what its key is worth at that moment.
create table sessions (
	hash text primary key,
	key_id text not null references keys (id) on delete cascade,
	created_unix_ms bigint not null,
	expires_unix_ms bigint not null
);
create index sessions_key on sessions (key_id);
