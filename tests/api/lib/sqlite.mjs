// Statements on a database of a daemon that does not run, as somebody with its files could.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';

const program = `
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
rows = []
for sql in json.loads(sys.argv[2]):
    rows = db.execute(sql).fetchall()
db.commit()
db.close()
print(json.dumps(rows))
`;

export function sqlite(file, ...statements) {
	const { status, stdout, stderr } = spawnSync('python3', ['-c', program, file, JSON.stringify(statements)], { encoding: 'utf8' });

	assert.equal(status, 0, stderr);
	return JSON.parse(stdout);
}
