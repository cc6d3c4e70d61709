// Text, bytes and base64, as Node.js and browsers both have them.

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export type Bytes = Uint8Array<ArrayBuffer>;

export const toBytes = (text: string): Bytes => encoder.encode(text);
/** Bytes that are no UTF-8 become U+FFFD. */
export const toText = (bytes: Uint8Array): string => decoder.decode(bytes);

export function concat(chunks: readonly Uint8Array[]): Bytes {
	const whole = new Uint8Array(chunks.reduce((sum, chunk) => sum + chunk.length, 0));
	let at = 0;

	for (const chunk of chunks) {
		whole.set(chunk, at);
		at += chunk.length;
	}
	return whole;
}

/** Throws where the text is no base64. */
export function fromBase64(text: string): Bytes {
	const binary = atob(text);
	const bytes = new Uint8Array(binary.length);

	for (let i = 0; i < binary.length; i++)
		bytes[i] = binary.charCodeAt(i);
	return bytes;
}

const PIECE = 0x8000; // as many as a call takes for its arguments

export function toBase64(bytes: Uint8Array): string {
	let binary = '';

	for (let at = 0; at < bytes.length; at += PIECE)
		binary += String.fromCharCode(...bytes.subarray(at, at + PIECE));
	return btoa(binary);
}

const isContinuation = (byte: number | undefined) => byte !== undefined && (byte & 0xc0) === 0x80;

/** Without the beginning of a character whose end is not there. */
export function wholePrefix(bytes: Uint8Array): Uint8Array {
	let start = bytes.length - 1;

	while (start > 0 && start > bytes.length - 4 && isContinuation(bytes[start]))
		start--;
	const first = bytes[start] ?? 0;
	const wanted = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;

	return bytes.length - start < wanted ? bytes.subarray(0, start) : bytes;
}

/** Without the end of a character whose beginning is not there. */
export function wholeSuffix(bytes: Uint8Array): Uint8Array {
	let start = 0;

	while (start < 3 && isContinuation(bytes[start]))
		start++;
	return bytes.subarray(start);
}

export function randomId(): string {
	const bytes = new Uint8Array(16);

	// Node.js 18 has no global crypto; an id has to be unique, not secret.
	if (globalThis.crypto)
		globalThis.crypto.getRandomValues(bytes);
	else
		bytes.forEach((_, i) => (bytes[i] = Math.floor(Math.random() * 256)));
	return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
