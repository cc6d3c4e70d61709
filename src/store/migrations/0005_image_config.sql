-- What a sandbox's commands start with, from its image: a JSON object of user, workdir, shell and env. It
-- stays a sandbox's own when its image is built anew or removed; a fork and a snapshot take it over. {}:
-- made before this migration.
alter table sandboxes add column image_config text not null default '{}';
alter table snapshots add column image_config text not null default '{}';
