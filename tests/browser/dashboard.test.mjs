// The dashboard as a person uses it: in Chromium, against a daemon with real sandboxes, behind whose host is a
// small internet (tests/api/lib/world.mjs).

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { startDaemon, repository } from '../api/lib/daemon.mjs';
import { inside, makeWorld, runInside } from '../api/lib/world.mjs';
import { startBrowser } from './lib/browser.mjs';


let world, daemon, browser, page, agentKey;

async function good(method, route, body, headers) {
	const answer = await daemon.request(method, route, body, headers);

	assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
	return answer.json;
}

async function until(what, condition, seconds = 90) {
	for (const end = Date.now() + seconds * 1000; !(await condition()); await sleep(100))
		assert.ok(Date.now() < end, `${what} did not come about within ${seconds} s`);
}

const named = async (name) => (await good('GET', '/v1/sandboxes?status=all&limit=200')).items.find((one) => one.name === name);

if (!inside)
	runInside(import.meta.url);
else
	describe('the dashboard', { timeout: 15 * 60_000 }, () => {
		before(async () => {
			world = await makeWorld();
			daemon = await startDaemon({ config: world.config });
			await daemon.ensureImage('base');
			browser = await startBrowser();
			page = await browser.open(daemon);
		});
		after(async () => {
			await browser?.close();
			await daemon?.stop();
			world?.close();
		});

		const row = (name) => page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) });
		const status = (name) => row(name).locator('.status');
		const keyRow = (label) => page.getByRole('row').filter({ hasText: label });
		const dialog = () => page.getByRole('dialog');
		const toList = () => page.link('Sandboxes').first().click();
		const pick = async (name, action) => {
			await row(name).getByRole('button', { name: `Actions for ${name}` }).click();
			await page.getByRole('menuitem', { name: action }).click();
		};

		test('a wrong key is refused, and the words say what to do', async () => {
			page.expectRefusal(401);
			await page.goto(daemon.url);
			await page.getByLabel('Key').fill('sk_0000000000000000000000000000000000000000');
			await page.keyboard.press('Enter');
			await page.getByRole('alert').filter({ hasText: 'not valid' }).waitFor();
			assert.equal(await page.evaluate(() => document.cookie), '');
			page.check();
		});

		test('with a key one is in, and the browser keeps none', async () => {
			await page.getByLabel('Key').fill(daemon.key);
			await page.button('Sign in').click();
			await page.getByRole('heading', { name: 'No sandboxes yet' }).waitFor();
			await page.getByText('Live', { exact: true }).waitFor();
			const kept = await page.evaluate(() => JSON.stringify([localStorage, sessionStorage, document.cookie]));

			assert.ok(!kept.includes('sk_') && !kept.includes('ses_'), kept);
			page.check();
		});

		test('a sandbox is made by keyboard alone', async () => {
			await page.keyboard.press('c');
			await dialog().waitFor();
			await page.keyboard.type('first');
			await dialog().getByLabel('Only what you list').focus();
			await page.keyboard.press('Space');
			await dialog().getByLabel('Rules').focus();
			await page.keyboard.type('a.example:80');
			await dialog().getByLabel('Name').focus();
			await page.keyboard.press('Enter');
			await page.getByRole('heading', { level: 1, name: 'first' }).waitFor();
			assert.deepEqual((await named('first')).egress, ['a.example:80']);
			page.check();
		});

		test('a terminal opens, and takes what is typed', async () => {
			const screen = page.locator('.xterm-rows');

			await page.getByText('Control-Shift-Escape leaves').waitFor();
			await page.keyboard.type('echo "$((6 * 7)) from a terminal"\n');
			await screen.filter({ hasText: '42 from a terminal' }).waitFor();
			await page.keyboard.press('Control+Shift+Escape');
			assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Terminal');
			page.check();
		});

		test('which is still there after a reload, with what it showed', async () => {
			await page.reload();
			await page.locator('.xterm-rows').filter({ hasText: '42 from a terminal' }).waitFor();
			assert.equal((await good('GET', `/v1/sandboxes/${(await named('first')).id}/terminals`)).items.length, 1);
			page.check();
		});

		test('commands are run, listed and read', async () => {
			await page.link('Commands').click();
			await page.getByLabel('Command', { exact: true }).fill('echo out; echo bad >&2; false');
			await page.keyboard.press('Enter');
			const item = page.locator('.item').filter({ hasText: 'echo out' });

			await item.getByText('exit 1').waitFor();
			await item.locator('.stdout').filter({ hasText: 'out' }).waitFor();
			await item.locator('.stderr').filter({ hasText: 'bad' }).waitFor();
			await page.reload();
			await item.getByText('exit 1').waitFor();
			await item.locator('summary').click();
			await item.locator('.stdout').filter({ hasText: 'out' }).waitFor();
			page.check();
		});

		test('and one that runs is seen and stopped', async () => {
			const { id } = await named('first');

			await good('POST', `/v1/sandboxes/${id}/exec`, { command: 'sleep 1000', background: true, timeout_ms: 30 * 60_000 });
			const item = page.locator('.item').filter({ hasText: 'sleep 1000' });

			await item.getByText('running').waitFor();
			await item.locator('summary').click();
			await item.getByRole('button', { name: 'Stop' }).click();
			await item.getByText('ended by SIGTERM').waitFor();
			page.check();
		});

		test('a denial shows as it happens, and becomes a rule', async () => {
			const { id } = await named('first');
			const fetch = { command: 'curl -sS --max-time 20 http://c.example/' };

			await page.link('Network', { exact: true }).click();
			await page.getByText('Nothing was denied').waitFor();
			assert.notEqual((await good('POST', `/v1/sandboxes/${id}/exec`, fetch)).exit_code, 0);
			await page.getByRole('button', { name: 'Allow this: c.example' }).first().click();
			await page.getByRole('button', { name: /^Remove rule c\.example/ }).waitFor();
			const { rules } = await good('GET', `/v1/sandboxes/${id}/egress`);

			assert.ok(rules.includes('a.example:80') && rules.some((one) => one.startsWith('c.example')), JSON.stringify(rules));
			await until('the rule', async () => (await good('POST', `/v1/sandboxes/${id}/exec`, fetch)).stdout.startsWith('c.example'));
			page.check();
		});

		test('a malformed rule is refused in the server\'s words, and nothing changes', async () => {
			const { id } = await named('first');
			const before = (await good('GET', `/v1/sandboxes/${id}/egress`)).rules;

			page.expectRefusal(400);
			await page.getByLabel('New rule').fill('http://x.example/');
			await page.button('Add rule').click();
			await page.getByRole('alert').filter({ hasText: 'x.example' }).waitFor();
			assert.deepEqual((await good('GET', `/v1/sandboxes/${id}/egress`)).rules, before);
			page.check();
		});

		test('what it may reach is closed, and opened again', async () => {
			const { id } = await named('first');
			const rulesAre = (rules) => until(JSON.stringify(rules), async () =>
				JSON.stringify((await good('GET', `/v1/sandboxes/${id}/egress`)).rules) === JSON.stringify(rules));

			await page.getByLabel('Nothing').check();
			await rulesAre([]);
			await page.getByLabel('The internet').check();
			await rulesAre(null);
			page.check();
		});

		test('files go in, are seen, and come out', async () => {
			const { id } = await named('first');

			await page.link('Files').click();
			await page.getByRole('navigation', { name: 'Folder' }).waitFor();
			await page.getByLabel('Files to upload').setInputFiles({ name: 'note.txt', mimeType: 'text/plain', buffer: Buffer.from('<b>from a browser</b>\n') });
			await row('note.txt').waitFor();
			const { stdout } = await good('POST', `/v1/sandboxes/${id}/exec`, { command: 'cat note.txt' });

			assert.equal(stdout, '<b>from a browser</b>\n');
			await pick('note.txt', 'Read');
			await dialog().getByText('<b>from a browser</b>').waitFor();
			await dialog().getByRole('button', { name: 'Close' }).click();
			const [download] = await Promise.all([page.waitForEvent('download'), page.link('note.txt').click()]);

			assert.equal(fs.readFileSync(await download.path(), 'utf8'), '<b>from a browser</b>\n');
			await pick('note.txt', 'Rename…');
			await dialog().getByLabel('New name').fill('kept.txt');
			await page.keyboard.press('Enter');
			await row('kept.txt').waitFor();
			await page.button('New folder').click();
			await dialog().getByLabel('Name').fill('sub');
			await page.keyboard.press('Enter');
			await page.button('sub/').click();
			await page.getByRole('heading', { name: 'Empty folder' }).waitFor();
			page.check();
		});

		test('a fork is made, and drawn', async () => {
			await page.link('Forks').click();
			await toList();
			await pick('first', 'Fork…');
			await dialog().getByLabel('Children').fill('2');
			await dialog().getByLabel('Name').fill('child');
			await page.keyboard.press('Enter');
			await row('child-1').waitFor();
			await row('child-2').waitFor();
			await page.link('Forks').click();
			const tree = page.getByRole('group', { name: 'Fork tree' });

			await tree.getByRole('link', { name: 'child-2 running' }).waitFor();
			assert.equal(await tree.locator('.edge').count(), 2);
			await tree.getByRole('link', { name: 'child-1 running' }).focus();
			await page.keyboard.press('Enter');
			await page.getByRole('heading', { level: 1, name: 'child-1' }).waitFor();
			page.check();
		});

		test('it is paused and resumed', async () => {
			await toList();
			await page.button('Pause child-1').click();
			await status('child-1').getByText('paused').waitFor();
			assert.equal((await named('child-1')).status, 'paused');
			await page.button('Resume child-1').click();
			await status('child-1').getByText('running').waitFor();
			page.check();
		});

		test('it is given more time', async () => {
			const before = Date.parse((await named('child-1')).expires_at);

			await pick('child-1', 'Extend…');
			await dialog().getByLabel('Minutes to add').fill('30');
			await page.keyboard.press('Enter');
			await dialog().waitFor({ state: 'detached' });
			assert.equal(Date.parse((await named('child-1')).expires_at), before + 30 * 60_000);
			page.check();
		});

		test('a limit is said in the dialog, with what was entered still there', async () => {
			page.expectRefusal(422);
			await pick('child-1', 'Extend…');
			await dialog().getByLabel('Minutes to add').fill('1440');
			await page.keyboard.press('Enter');
			await dialog().getByRole('alert').waitFor();
			assert.equal(await dialog().getByLabel('Minutes to add').inputValue(), '1440');
			await page.keyboard.press('Escape');
			await dialog().waitFor({ state: 'detached' });
			page.check();
		});

		test('a network is made and joined', async () => {
			await page.link('Networks').click();
			await page.button('New network').first().click();
			await dialog().getByLabel('Name').fill('lab');
			await page.keyboard.press('Enter');
			await page.button('Add a sandbox to lab').click();
			await dialog().getByLabel('Sandbox').selectOption({ label: 'child-1' });
			await dialog().getByRole('button', { name: 'Add' }).click();
			await page.getByText('child-1.lab.internal').waitFor();
			assert.deepEqual((await named('child-1')).networks, ['lab']);
			page.check();
		});

		test('what others do shows without asking', async () => {
			await toList();
			await row('child-2').waitFor();
			await good('DELETE', `/v1/sandboxes/${(await named('child-2')).id}`);
			await row('child-2').waitFor({ state: 'detached' });
			page.check();
		});

		test('it is destroyed, but not by a slip', async () => {
			await pick('child-1', 'Destroy…');
			await dialog().getByRole('button', { name: 'Cancel' }).click();
			assert.equal((await named('child-1')).status, 'running');
			await pick('child-1', 'Destroy…');
			await dialog().getByRole('button', { name: 'Destroy' }).click();
			await row('child-1').waitFor({ state: 'detached' });
			await page.getByLabel('Show ended').check();
			await status('child-1').getByText('destroyed').waitFor();
			page.check();
		});

		test('a key is made for an agent, and shown once', async () => {
			await page.link('Keys').click();
			await page.button('New key').click();
			await dialog().getByLabel('What it is for').fill('reviewer');
			await dialog().getByLabel('It may', { exact: true }).selectOption({ label: 'Run commands in sandboxes, and nothing else' });
			await dialog().getByText('Narrow it further').click();
			await dialog().getByLabel('Be root in a sandbox').uncheck();
			await dialog().getByRole('button', { name: 'Make key' }).click();
			agentKey = await dialog().getByLabel('The key').inputValue();
			assert.match(agentKey, /^sk_\w{40}$/);
			await dialog().getByRole('button', { name: 'Copy', exact: true }).click();
			await dialog().getByRole('button', { name: 'Copied', exact: true }).waitFor();
			assert.equal(await page.evaluate(() => navigator.clipboard.readText()), agentKey);
			await dialog().getByRole('button', { name: 'I have copied it' }).click();
			await keyRow('reviewer').getByText('no root').waitFor();
			assert.ok(!(await page.content()).includes(agentKey));
			await page.reload();
			await keyRow('reviewer').getByText(agentKey.slice(0, 9)).waitFor();
			assert.ok(!(await page.content()).includes(agentKey));
			page.check();
		});

		test('which may what was said, and no more', async () => {
			const { id } = await named('first');
			const headers = { Authorization: `Bearer ${agentKey}` };

			assert.equal((await good('POST', `/v1/sandboxes/${id}/exec`, { command: 'echo hello' }, headers)).stdout, 'hello\n');
			const refused = await daemon.request('POST', '/v1/sandboxes', {}, headers);

			assert.equal(refused.status, 403);
			assert.equal(refused.json.code, 'scope_denied');
		});

		test('it signs in too, sees what it may, and is cut off when it is revoked', async () => {
			const other = await browser.open(daemon);

			other.expectRefusal(403);
			other.expectRefusal(401);
			await other.goto(daemon.url);
			await other.getByLabel('Key').fill(agentKey);
			await other.keyboard.press('Enter');
			await other.getByRole('alert').filter({ hasText: 'scope' }).first().waitFor();
			await keyRow('reviewer').getByRole('button', { name: 'Actions for reviewer' }).click();
			await page.getByRole('menuitem', { name: 'Revoke…' }).click();
			await dialog().getByRole('button', { name: 'Revoke' }).click();
			await keyRow('reviewer').waitFor({ state: 'detached' });
			assert.equal((await daemon.request('GET', '/v1/session', undefined, { Authorization: `Bearer ${agentKey}` })).status, 401);
			await other.link('Networks').click();
			await other.getByText('Your session has ended').waitFor();
			other.check();
			await other.context().close();
			page.check();
		});

		test('usage says what was spent, on what', async () => {
			await page.link('Usage').click();
			await page.getByText('not limited').waitFor();
			await page.locator('.plot canvas').waitFor();
			await page.getByRole('row').filter({ hasText: 'child-1' }).waitFor();
			const { by_sandbox: sums } = await good('GET', '/v1/usage');

			assert.ok(sums.some((one) => one.name === 'child-1' && one.microcredits > 0), JSON.stringify(sums));
			page.check();
		});

		test('the audit is searched, and goes on by itself', async () => {
			const { id } = await named('first');
			const records = page.locator('.item');

			await page.link('Audit').click();
			await records.first().waitFor();
			await page.getByLabel('Search the audit').fill('c.example');
			await records.filter({ hasText: 'curl -sS' }).first().waitFor();
			await page.getByLabel('Operation').selectOption('exec');
			await until('a record of each fetch', async () => (await records.filter({ hasText: 'curl' }).count()) >= 2);
			assert.equal(await records.filter({ hasText: 'curl' }).count(), await records.count());
			await page.getByLabel('Search the audit').fill(id);
			await records.filter({ hasText: 'cat note.txt' }).waitFor();
			await good('POST', `/v1/sandboxes/${id}/exec`, { command: 'echo as it happens' });
			const fresh = records.filter({ hasText: 'echo as it happens' });

			await fresh.waitFor();
			await fresh.locator('summary').click();
			await fresh.getByText('"exit_code": 0').waitFor();
			page.check();
		});

		test('signing out ends the session, here and for whoever kept the cookie', async () => {
			const [cookie] = await page.context().cookies();
			const withCookie = () => fetch(`${daemon.url}/v1/session`, { headers: { Cookie: `${cookie.name}=${cookie.value}` } });

			assert.equal(cookie.httpOnly, true);
			assert.equal(cookie.sameSite, 'Strict');
			assert.equal((await withCookie()).status, 200);
			await page.button('Sign out').click();
			await page.locator('main.door').getByLabel('Key').waitFor();
			assert.equal((await withCookie()).status, 401);
			assert.deepEqual(await page.context().cookies(), []);
			page.check();
		});
	});
