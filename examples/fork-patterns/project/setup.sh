#!/bin/sh
# What a checkout of this project needs before its tests can run: a history, compiled modules, a database.
set -e
git init --quiet --initial-branch=main
git config user.name 'Fork patterns'
git config user.email 'fork-patterns@example.com'
git add .
git commit --quiet --message 'The shop, with a bug in split()'
python3 -m compileall -q shop tests
python3 -m shop.fill
