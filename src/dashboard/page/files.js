// Files of a sandbox: look around, upload (also by dropping), download, read, rename, remove.

import { all, download, post, remove, upload, url } from './api.js';
import { el } from './dom.js';
import { confirmDialog, formDialog, infoDialog } from './dialog.js';
import { field, input } from './form.js';
import { bytes, shortTime } from './format.js';
import { dots, menuButton } from './menu.js';
import { isOver } from './sandbox_store.js';
import { emptyState, errorState, loading } from './states.js';
import { toast, toastError } from './toast.js';

const HOME = '/home/sandbox';
const READ_MAX = 256 * 1024;

const join = (folder, name) => `${folder.replace(/\/$/, '')}/${name}`;

const kinds = { directory: 'Folder', symlink: 'Link', file: 'File' };

export function mount(root, sandbox, signal) {
	const route = (...rest) => url('/v1/sandboxes', sandbox.id, 'files', ...rest);
	const crumbs = el('nav', { class: 'path', 'aria-label': 'Folder' });
	const picker = el('input', { type: 'file', multiple: true, class: 'hidden', tabindex: '-1', 'aria-label': 'Files to upload' });
	const tools = el('div', { class: 'buttons start' },
		el('button', { type: 'button', class: 'primary', on: { click: () => picker.click() } }, 'Upload'),
		el('button', { type: 'button', on: { click: newFolder } }, 'New folder'), picker);
	const place = el('div', { class: 'drop' });
	let folder = HOME;

	if (isOver(sandbox)) {
		root.append(emptyState('It has ended', 'Its files went with its disk.'));
		return {};
	}
	root.append(el('div', { class: 'tools' }, crumbs, tools), place);
	picker.addEventListener('change', () => send([...picker.files]).then(() => (picker.value = '')));
	place.addEventListener('dragover', (event) => {
		event.preventDefault();
		place.classList.add('over');
	});
	place.addEventListener('dragleave', () => place.classList.remove('over'));
	place.addEventListener('drop', (event) => {
		event.preventDefault();
		place.classList.remove('over');
		send([...event.dataTransfer.files]);
	});

	function go(to) {
		folder = to;
		show();
	}

	function drawCrumbs() {
		const names = folder.split('/').filter(Boolean);
		const step = (text, to, here) => (here ? el('span', { 'aria-current': 'true' }, text)
			: el('button', { type: 'button', class: 'link', on: { click: () => go(to) } }, text));

		crumbs.replaceChildren(step('/', '/', names.length === 0),
			...names.flatMap((name, i) => [step(name, `/${names.slice(0, i + 1).join('/')}`, i === names.length - 1),
				i < names.length - 1 ? el('span', { class: 'muted' }, '/') : '']));
	}

	async function send(files) {
		for (const file of files) {
			try {
				await upload(route()({ path: join(folder, file.name) }), file, { signal });
				toast(`${file.name} is uploaded`);
			} catch (error) {
				toastError(error);
			}
		}
		await show();
	}

	async function newFolder() {
		const name = input({ required: true, maxlength: 255 });

		if (await formDialog({
			title: 'New folder', fields: [field('Name', name)], action: 'Make folder',
			submit: () => post(route('mkdir')(), { path: join(folder, name.value) }),
		}))
			show();
	}

	async function rename(entry) {
		const name = input({ required: true, value: entry.name });

		if (await formDialog({
			title: `Rename ${entry.name}`, fields: [field('New name', name)], action: 'Rename',
			submit: () => post(route('move')(), { from: join(folder, entry.name), to: join(folder, name.value) }),
		}))
			show();
	}

	async function drop(entry) {
		const isFolder = entry.type === 'directory';

		if (await confirmDialog({
			title: `Remove ${entry.name}?`, action: 'Remove',
			text: isFolder ? 'The folder goes with all that is in it.' : 'The file is gone for good.',
			submit: () => remove(route()({ path: join(folder, entry.name), recursive: isFolder || undefined })),
		}))
			show();
	}

	const fileAddress = (entry) => route()({ path: join(folder, entry.name) });

	async function read(entry) {
		try {
			const text = await (await download(fileAddress(entry), { signal })).text();

			await infoDialog({ title: entry.name, wide: true, content: el('pre', { class: 'output', tabindex: '0' }, text) });
		} catch (error) {
			toastError(error);
		}
	}

	function row(entry) {
		const isFolder = entry.type === 'directory';
		const name = isFolder || entry.type === 'symlink'
			? el('button', { type: 'button', class: 'link name', on: { click: () => go(join(folder, entry.name)) } }, isFolder ? `${entry.name}/` : entry.name)
			: el('a', { class: 'name', href: fileAddress(entry), download: entry.name }, entry.name);

		return el('tr', {},
			el('td', { class: 'main' }, name, entry.target && el('span', { class: 'muted small' }, `→ ${entry.target}`)),
			el('td', { 'data-label': 'Kind' }, kinds[entry.type] ?? entry.type),
			el('td', { class: 'figure', 'data-label': 'Size' }, isFolder ? '–' : bytes(entry.size)),
			el('td', { 'data-label': 'Owner' }, `${entry.user ?? entry.uid} `, el('code', { class: 'muted' }, entry.mode)),
			el('td', { 'data-label': 'Changed' }, entry.modified_at ? shortTime(entry.modified_at) : '–'),
			el('td', { class: 'actions' }, menuButton(dots(), () => [
				entry.type === 'file' && entry.size <= READ_MAX && { text: 'Read', do: () => read(entry) },
				{ text: 'Rename…', do: () => rename(entry) },
				{ text: 'Remove…', danger: true, do: () => drop(entry) },
			], { class: 'quiet icon', 'aria-label': `Actions for ${entry.name}` })));
	}

	async function show() {
		drawCrumbs();
		place.setAttribute('aria-busy', 'true');
		try {
			const items = await all(route('list')(), { path: folder, limit: 1000 }, { signal });
			const folders = items.filter((one) => one.type === 'directory');
			const others = items.filter((one) => one.type !== 'directory');

			place.replaceChildren(items.length === 0
				? emptyState('Empty folder', 'Upload files, or drop them here.')
				: el('table', { class: 'cards' }, el('caption', { class: 'hidden' }, `Files in ${folder}`),
					el('thead', {}, el('tr', {}, ['Name', 'Kind', 'Size', 'Owner', 'Changed'].map((text) => el('th', { scope: 'col' }, text)),
						el('th', { scope: 'col' }, el('span', { class: 'hidden' }, 'Actions')))),
					el('tbody', {}, [...folders, ...others].map(row))));
		} catch (error) {
			if (!signal.aborted)
				place.replaceChildren(errorState(error, show));
		} finally {
			place.removeAttribute('aria-busy');
		}
	}

	if (sandbox.status === 'paused') {
		place.append(emptyState('Paused', 'To look at its files the sandbox is resumed.', { text: 'Resume and look', do: show }));
	} else {
		place.append(loading());
		show();
	}
	return {};
}
