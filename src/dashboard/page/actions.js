// What can be done to a sandbox, with the questions that it needs: the same from the list, from its page and
// from the tree.

import { post, remove, url } from './api.js';
import { el } from './dom.js';
import { field, input } from './form.js';
import { copyButton } from './copy.js';
import { confirmDialog, formDialog, infoDialog } from './dialog.js';
import { fullTime, nameOf, plural } from './format.js';
import { limits } from './server.js';
import { isOver, keep, refresh } from './sandbox_store.js';
import { toast, toastError } from './toast.js';

const route = (sandbox, ...rest) => url('/v1/sandboxes', sandbox.id, ...rest)();

// Says at once that it has begun: the server's event follows.
async function change(sandbox, during, action, done) {
	keep({ ...sandbox, status: during });
	try {
		keep(await post(route(sandbox, action)));
		toast(done);
	} catch (error) {
		await refresh(sandbox.id).catch(() => {});
		toastError(error);
	}
}

export const pause = (sandbox) => change(sandbox, 'pausing', 'pause', `${nameOf(sandbox)} is paused`);
export const resume = (sandbox) => change(sandbox, 'resuming', 'resume', `${nameOf(sandbox)} runs again`);

export async function extend(sandbox) {
	const { timeout_minutes_max: most } = await limits();
	const minutes = input({ type: 'number', min: 1, max: most, value: 15, required: true, inputmode: 'numeric' });

	return formDialog({
		title: `Extend ${nameOf(sandbox)}`,
		fields: [field('Minutes to add', minutes, most && `A sandbox lives ${plural(most, 'minute')} at most, all extensions included.`)],
		action: 'Extend',
		async submit() {
			await post(route(sandbox, 'extend'), { additional_minutes: Number(minutes.value) });
			await refresh(sandbox.id);
			toast(`${nameOf(sandbox)} has ${plural(Number(minutes.value), 'minute')} more`);
		},
	});
}

export function fork(sandbox) {
	const count = input({ type: 'number', min: 1, max: 16, value: 1, required: true, inputmode: 'numeric' });
	const name = input({ pattern: '[a-z0-9]([a-z0-9\\-]*[a-z0-9])?', maxlength: 60, placeholder: 'none' });

	return formDialog({
		title: `Fork ${nameOf(sandbox)}`,
		text: 'Each child is a copy of its memory, processes and disk at this moment, and independent from then on.',
		fields: [
			field('Children', count, '1 to 16. Each counts against your quota.'),
			field('Name', name, 'Optional. Children are called NAME-1, NAME-2 and so on.'),
		],
		action: 'Fork',
		async submit() {
			const body = { count: Number(count.value) };

			if (name.value.trim())
				body.name = name.value.trim();
			const { sandboxes } = await post(route(sandbox, 'fork'), body);

			sandboxes.forEach(keep);
			toast(`${nameOf(sandbox)} has ${plural(sandboxes.length, 'new child', 'new children')}`);
			return sandboxes;
		},
	});
}

export function snapshot(sandbox) {
	const name = input({ required: true, pattern: '[a-z0-9]([a-z0-9\\-]*[a-z0-9])?', maxlength: 63 });

	return formDialog({
		title: `Snapshot of ${nameOf(sandbox)}`,
		text: 'A named copy of its whole state, which new sandboxes can start from.',
		fields: [field('Name', name, 'Lower-case letters, digits and hyphens.')],
		action: 'Keep snapshot',
		async submit() {
			await post(route(sandbox, 'snapshots'), { name: name.value.trim() });
			toast(`Snapshot ${name.value.trim()} is kept`);
		},
	});
}

export function destroy(sandbox) {
	return confirmDialog({
		title: `Destroy ${nameOf(sandbox)}?`,
		text: 'Its memory, disk and files are gone for good. Forks and snapshots of it stay.',
		action: 'Destroy',
		async submit() {
			await remove(route(sandbox));
			await refresh(sandbox.id).catch(() => {});
			toast(`${nameOf(sandbox)} is destroyed`);
		},
	});
}

export async function expose(sandbox) {
	const port = input({ type: 'number', min: 1, max: 65535, required: true, inputmode: 'numeric' });
	const made = await formDialog({
		title: `Expose a port of ${nameOf(sandbox)}`,
		text: 'Makes a link to a web server in the sandbox. Whoever has the link reaches it, for an hour.',
		fields: [field('Port', port, 'The server must listen on 0.0.0.0, not on localhost alone.')],
		action: 'Make link',
		submit: () => post(route(sandbox, 'expose'), { port: Number(port.value) }),
	});

	if (made)
		await infoDialog({
			title: `Port ${port.value} of ${nameOf(sandbox)}`,
			content: [
				el('p', {}, el('a', { href: made.url, target: '_blank', rel: 'noreferrer' }, made.url)),
				el('p', { class: 'muted' }, 'It works until ', fullTime(made.expires_at), '. ', copyButton(made.url)),
			],
		});
}

// For a menu: what makes sense now.
export function choices(sandbox) {
	if (isOver(sandbox))
		return [];
	const running = sandbox.status === 'running', paused = sandbox.status === 'paused';

	return [
		running && { text: 'Pause', do: () => pause(sandbox) },
		paused && { text: 'Resume', do: () => resume(sandbox) },
		running && { text: 'Extend…', do: () => extend(sandbox).catch(toastError) },
		(running || paused) && { text: 'Fork…', do: () => fork(sandbox) },
		running && { text: 'Expose a port…', do: () => expose(sandbox) },
		(running || paused) && { text: 'Snapshot…', do: () => snapshot(sandbox) },
		{ text: 'Destroy…', danger: true, do: () => destroy(sandbox) },
	].filter(Boolean);
}
