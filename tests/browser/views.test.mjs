// Every view of the dashboard in both themes, in a window and on a phone: the rules of axe-core, nothing wider than
// the window, nothing on the console. With SKERRY_SCREENSHOTS=keep the pictures of docs/screenshots are made anew.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { startDaemon, repository } from '../api/lib/daemon.mjs';
import { inside, makeWorld, runInside } from '../api/lib/world.mjs';
import { startBrowser } from './lib/browser.mjs';

const shots = path.join(repository, 'docs/screenshots');
const pictures = {
	'light desktop': ['sandboxes', 'network', 'usage'],
	'dark desktop': ['terminal', 'forks'],
	'light phone': ['sandboxes'],
	'dark phone': ['network'],
};

let world, daemon, browser, first;

async function good(method, route, body) {
	const answer = await daemon.request(method, route, body);

	assert.ok(answer.status < 300, `${method} ${route}: ${answer.status} ${answer.text}`);
	return answer.json;
}

const run = (id, command, more = {}) => good('POST', `/v1/sandboxes/${id}/exec`, { command, ...more });

// Something of everything that can be seen.
async function furnish() {
	const base = { timeout_minutes: 45 };

	await good('POST', '/v1/networks', { name: 'backend' });
	first = await good('POST', '/v1/sandboxes', { ...base, name: 'fix-login', labels: { team: 'web' }, egress: ['a.example:80', '*.debian.org'], networks: ['backend'] });
	await run(first.id, 'mkdir -p project && cd project && git init -q . && echo "# Login" >README.md && ls -la');
	await run(first.id, 'curl -sS --max-time 20 http://c.example/; curl -sS --max-time 20 http://10.1.2.3/');
	await run(first.id, 'sleep 2000', { background: true, timeout_ms: 30 * 60_000 });
	const { sandboxes } = await good('POST', `/v1/sandboxes/${first.id}/fork`, { count: 2, name: 'attempt' });

	await good('POST', `/v1/sandboxes/${sandboxes[0].id}/fork`, { name: 'attempt-again' });
	await good('POST', `/v1/sandboxes/${sandboxes[1].id}/pause`);
	await good('POST', '/v1/keys', { label: 'reviewer on ci', scopes: { operations: ['exec'], root: false }, ttl_minutes: 10080 });
}

if (!inside)
	runInside(import.meta.url);
else
	describe('every view', { timeout: 15 * 60_000 }, () => {
		before(async () => {
			world = await makeWorld();
			daemon = await startDaemon({ config: world.config });
			await daemon.ensureImage('base');
			await furnish();
			browser = await startBrowser();
		});
		after(async () => {
			await browser?.close();
			await daemon?.stop();
			world?.close();
		});

		const item = (page) => page.locator('.item').first();
		// name: [where, what says that it is complete]
		const views = () => ({
			sandboxes: [['sandboxes'], (page) => page.locator('.spark .line[points*=","]').first().waitFor({ state: 'attached' })],
			terminal: [['sandboxes', first.id, 'terminal'], async (page) => {
				await page.locator('.xterm-rows').filter({ hasText: '$' }).waitFor();
				await page.locator('.xterm-helper-textarea').focus();
				await page.keyboard.type('clear; ls -la project; uname -sr\n');
				await page.locator('.xterm-rows').filter({ hasText: 'Linux' }).waitFor();
			}],
			commands: [['sandboxes', first.id, 'commands'], async (page) => {
				await item(page).getByText('running').waitFor();
				await page.locator('.item').last().locator('summary').click();
				await page.locator('.stdout').filter({ hasText: 'README.md' }).waitFor();
			}],
			files: [['sandboxes', first.id, 'files'], (page) => page.getByRole('button', { name: 'project/' }).waitFor()],
			network: [['sandboxes', first.id, 'network'], async (page) => {
				await page.getByRole('button', { name: /^Allow this/ }).first().waitFor();
				await page.getByText('fix-login.backend.internal').waitFor();
			}],
			details: [['sandboxes', first.id, 'details'], (page) => page.getByText('team=web').waitFor()],
			forks: [['forks'], (page) => page.getByRole('link', { name: 'attempt-2 paused' }).waitFor()],
			networks: [['networks'], (page) => page.getByText('fix-login.backend.internal').waitFor()],
			keys: [['keys'], (page) => page.getByText('reviewer on ci').waitFor()],
			usage: [['usage'], (page) => page.getByText('sandboxes run').waitFor()],
			audit: [['audit'], async (page) => {
				await item(page).waitFor();
				await item(page).locator('summary').click();
				await page.getByLabel('The record').waitFor();
			}],
			nowhere: [['sandboxes', 'sbx_00000000'], (page) => page.getByText('There is no sandbox').waitFor()],
		});

		const shoot = async (page, name, kind) => {
			if (process.env.SKERRY_SCREENSHOTS !== 'keep' || !pictures[kind].includes(name))
				return;
			fs.mkdirSync(shots, { recursive: true });
			await page.screenshot({ path: path.join(shots, `${name}-${kind.replace(' ', '-')}.png`) });
		};

		let state;

		test('the door', async () => {
			for (const theme of ['light', 'dark']) {
				const page = await browser.open(daemon, { theme, size: 'phone' });

				page.expectRefusal(401);
				await page.goto(daemon.url);
				await page.getByLabel('Key').waitFor();
				await page.checkView(`the door, ${theme}`);
				page.check();
				await page.context().close();
			}
			const page = await browser.open(daemon);

			await page.signIn();
			state = await page.context().storageState();
			page.check();
			await page.context().close();
		});

		for (const theme of ['light', 'dark']) {
			for (const size of ['desktop', 'phone']) {
				test(`${theme}, ${size}`, async () => {
					const page = await browser.open(daemon, { theme, size, storageState: state });

					page.expectRefusal(404); // the view of what is nowhere
					for (const [name, [where, complete]] of Object.entries(views())) {
						await page.at(...where);
						await complete(page);
						await page.checkView(`${name}, ${theme}, ${size}`);
						await shoot(page, name, `${theme} ${size}`);
					}
					page.check();
					await page.context().close();
				});

				test(`dialogs and menus, ${theme}, ${size}`, async () => {
					const page = await browser.open(daemon, { theme, size, storageState: state });

					await page.at('sandboxes');
					await page.getByRole('button', { name: 'Actions for fix-login' }).click();
					await page.getByRole('menuitem', { name: 'Fork…' }).waitFor();
					await page.checkView('the menu');
					await page.keyboard.press('Escape');
					await page.button('New sandbox').click();
					await page.getByRole('dialog').waitFor();
					await page.checkView('the dialog of a new sandbox');
					await page.keyboard.press('Escape');
					await page.at('keys');
					await page.button('New key').click();
					await page.getByText('Narrow it further').click();
					await page.checkView('the dialog of a new key');
					page.check();
					await page.context().close();
				});
			}
		}

		test('on a phone the ways are behind a button', async () => {
			const page = await browser.open(daemon, { size: 'phone', storageState: state });

			await page.at('sandboxes');
			await page.link('fix-login', { exact: true }).waitFor();
			assert.equal(await page.link('Audit').isVisible(), false);
			await page.button('Menu').click();
			await page.link('Audit').click();
			await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
			await page.link('Usage').waitFor({ state: 'hidden' });
			page.check();
			await page.context().close();
		});

		test('the whole way by keyboard: from the skip link to the files of a sandbox and back', async () => {
			const page = await browser.open(daemon, { storageState: state });
			const focused = () => page.evaluate(() => (document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent).trim());
			const tabTo = async (text) => {
				for (let i = 0; i < 60; i++) {
					await page.keyboard.press('Tab');
					if ((await focused()) === text)
						return;
				}
				assert.fail(`Tab does not come to "${text}"; it is at "${await focused()}"`);
			};

			await page.at('sandboxes');
			await page.link('fix-login', { exact: true }).waitFor();
			await page.keyboard.press('Tab');
			assert.equal(await focused(), 'Skip to content');
			await page.keyboard.press('Enter');
			await page.keyboard.press('/');
			assert.equal(await focused(), 'Search sandboxes');
			await page.keyboard.type('fix');
			await page.getByText('1 sandbox', { exact: true }).waitFor();
			await tabTo('fix-login');
			await page.keyboard.press('Enter');
			await page.getByRole('heading', { level: 1, name: 'fix-login' }).waitFor();
			await page.locator('.xterm-rows').filter({ hasText: '$' }).waitFor();
			await page.keyboard.press('Control+Shift+Escape');
			assert.equal(await focused(), 'Terminal');
			await tabTo('Files');
			await page.keyboard.press('Enter');
			await page.getByRole('button', { name: 'project/' }).waitFor();
			await tabTo('project/');
			await page.keyboard.press('Enter');
			await page.button('Actions for README.md').waitFor();
			await tabTo('Actions for README.md');
			await page.keyboard.press('ArrowDown');
			await page.keyboard.press('End');
			assert.equal(await focused(), 'Remove…');
			await page.keyboard.press('Escape');
			assert.equal(await focused(), 'Actions for README.md');
			await page.keyboard.press('Enter');
			await page.keyboard.press('Enter');
			await page.getByRole('dialog').getByText('# Login').waitFor();
			await page.keyboard.press('Enter');
			await page.getByRole('dialog').waitFor({ state: 'detached' });
			page.check();
			await page.context().close();
		});
	});
