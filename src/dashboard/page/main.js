// The dashboard: from the door to the views and back.

import { onSignedOut } from './api.js';
import { mount as audit } from './audit.js';
import { startEvents } from './events.js';
import { mount as keys } from './keys.js';
import { mount as networks } from './networks.js';
import { startRouter } from './router.js';
import { forget } from './sandbox_store.js';
import { mount as sandbox } from './sandbox.js';
import { mount as sandboxes } from './sandboxes.js';
import { forgetServer, session } from './server.js';
import { shell } from './shell.js';
import { startShortcuts } from './shortcuts.js';
import { signIn } from './sign_in.js';
import { errorState } from './states.js';
import { startTheme } from './theme.js';
import { mount as forks } from './tree.js';
import { mount as usage } from './usage.js';

const ways = [
	['sandboxes', 'Sandboxes', (root, rest, signal) => (rest.length > 0 ? sandbox : sandboxes)(root, rest, signal)],
	['forks', 'Forks', forks],
	['networks', 'Networks', networks],
	['keys', 'Keys', keys],
	['usage', 'Usage', usage],
	['audit', 'Audit', audit],
];

const root = document.body;

// Shows the views until the session has ended; resolves with why, or nothing where somebody signed out.
function serve(who) {
	return new Promise((resolve) => {
		const leave = new AbortController();
		let stop;
		const end = (why) => {
			if (leave.signal.aborted)
				return;
			leave.abort();
			stop?.();
			forget();
			forgetServer();
			document.querySelectorAll('dialog').forEach((dialog) => dialog.close());
			resolve(why);
		};
		const frame = shell(root, ways, who, () => end());

		onSignedOut(end);
		startEvents();
		startShortcuts(leave.signal);
		stop = startRouter(frame.main, Object.fromEntries(ways.map(([name, , mount]) => [name, mount])), 'sandboxes', frame.shown);
	});
}

async function current() {
	try {
		return await session();
	} catch (error) {
		if (error.status === 401)
			return null;
		throw error;
	}
}

async function run() {
	let who = await current(), why;

	for (;;) {
		who ??= await signIn(root, why);
		why = await serve(who);
		who = null;
		document.title = 'Skerry';
	}
}

startTheme();
run().catch((error) => root.replaceChildren(errorState(error, () => location.reload())));
