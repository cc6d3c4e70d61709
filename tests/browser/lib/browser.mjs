// Chromium on the dashboard. Whatever a page complains of (a message on the console, an error nobody caught, a
// violation of its policy) is collected, and check() fails with it.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';

import { chromium } from 'playwright-core';

const axe = fs.readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

export const sizes = { desktop: { width: 1280, height: 800 }, phone: { width: 390, height: 844 } };

// What the browser itself says of an answer that a test wanted to be a refusal.
const refusal = (status) => new RegExp(`^Failed to load resource: the server responded with a status of ${status} `);

// Root runs it here, and it is shown nothing but the tests' own daemon: hence no sandbox of its own.
export async function startBrowser() {
	const browser = await chromium.launch({
		executablePath: process.env.SKERRY_CHROMIUM ?? '/usr/bin/chromium',
		args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--font-render-hinting=none'],
	});

	return {
		open: (daemon, options) => openPage(browser, daemon, options),
		close: () => browser.close(),
	};
}

async function openPage(browser, daemon, { theme = 'light', size = 'desktop', storageState } = {}) {
	const context = await browser.newContext({
		viewport: sizes[size], colorScheme: theme, storageState, reducedMotion: 'reduce', locale: 'en-GB', timezoneId: 'UTC',
		acceptDownloads: true, permissions: ['clipboard-read', 'clipboard-write'],
	});
	const page = await context.newPage();
	const complaints = [];
	const expected = [];

	context.setDefaultTimeout(90_000); // of a machine that does much else
	page.on('console', (message) => {
		if (['error', 'warning'].includes(message.type()) && !expected.some((one) => one.test(message.text())))
			complaints.push(`${message.type()}: ${message.text()} (${message.location().url})`);
	});
	page.on('pageerror', (error) => complaints.push(`not caught: ${error.stack}`));
	await page.exposeBinding('skerryTestViolation', (source, text) => complaints.push(`policy: ${text}`));
	await page.addInitScript(() => addEventListener('securitypolicyviolation', (event) =>
		window.skerryTestViolation(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`)));

	return Object.assign(page, {
		complaints,
		// The browser says on the console that an answer was a refusal, whatever the page makes of it.
		expectRefusal: (status) => expected.push(refusal(status)),
		expectMessage: (pattern) => expected.push(pattern),
		at: (...parts) => page.goto(`${daemon.url}/#/${parts.join('/')}`),
		button: (name, options) => page.getByRole('button', { name, ...options }),
		link: (name, options) => page.getByRole('link', { name, ...options }),
		async signIn(key = daemon.key) {
			page.expectRefusal(401); // who is asking? nobody
			await page.goto(`${daemon.url}/`);
			await page.getByLabel('Key').fill(key);
			await page.keyboard.press('Enter');
			await page.getByRole('heading', { level: 1, name: 'Sandboxes' }).waitFor();
		},
		check() {
			assert.deepEqual(complaints, []);
		},
		// The rules of axe-core, and nothing to be scrolled sideways.
		async checkView(name) {
			await page.evaluate(axe);
			const { violations } = await page.evaluate((tags) => window.axe.run(document, { runOnly: { type: 'tag', values: tags } }), rules);
			const found = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html.slice(0, 200)).join(' | ')}`);

			assert.deepEqual(found, [], name);
			const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);

			assert.ok(wide <= 0, `${name} is ${wide} pixels wider than the window`);
		},
	});
}
