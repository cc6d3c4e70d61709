// Figures and times as people read them.

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function bytes(n) {
	if (n === null || n === undefined)
		return '–';
	let i = 0;

	while (n >= 1024 && i < units.length - 1) {
		n /= 1024;
		i++;
	}
	return `${i > 0 && n < 10 && n % 1 >= 0.05 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

// 42 s, 5 min, 2 h 5 min, 3 d 4 h
export function duration(ms) {
	const s = Math.max(0, Math.round(ms / 1000));

	if (s < 60)
		return `${s} s`;
	if (s < 3600)
		return `${Math.floor(s / 60)} min`;
	if (s < 86400)
		return `${Math.floor(s / 3600)} h${s % 3600 >= 60 ? ` ${Math.floor((s % 3600) / 60)} min` : ''}`;
	return `${Math.floor(s / 86400)} d${s % 86400 >= 3600 ? ` ${Math.floor((s % 86400) / 3600)} h` : ''}`;
}

// Of a command: 182 ms, 4.2 s, and then as above.
export const exactDuration = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms));

const timeOfDay = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit' });
const dayAndTime = new Intl.DateTimeFormat(undefined, {
	day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit',
});
const full = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });
const dayOnly = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric' });

export const fullTime = (at) => full.format(new Date(at));
export const day = (at) => dayOnly.format(new Date(at));

// Today's times have no date.
export function shortTime(at) {
	const date = new Date(at);

	return (date.toDateString() === new Date().toDateString() ? timeOfDay : dayAndTime).format(date);
}

export const number = (n) => new Intl.NumberFormat().format(n);

export const plural = (n, one, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

// "1 vCPU · 1 GiB · 10 GiB disk"
export const shape = (s) => `${s.vcpus} vCPU · ${bytes(s.memory_mb * 1024 * 1024)} · ${s.disk_gb} GiB disk`;

// How a sandbox is called: its name, or its id.
export const nameOf = (sandbox) => sandbox.name || sandbox.id;
