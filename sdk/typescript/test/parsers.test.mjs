// What is parsed: event streams and WebSocket frames, cut at every place; output kept within bounds.

import assert from 'node:assert/strict';
import fs from 'node:fs';
import { describe, test } from 'node:test';

import { concat, fromBase64, toBase64, wholePrefix, wholeSuffix } from '../dist/bytes.js';
import { FrameParser, OPCODE, closeCode, encodeFrame } from '../dist/frames.js';
import { Collector } from '../dist/output.js';
import { backOffMs, retryAfterMs } from '../dist/retry.js';
import { EventParser } from '../dist/sse.js';

describe('event streams', () => {
	const text = ': comment\n\nevent: a\ndata: 1\nid: 7\n\ndata: two\r\ndata:lines\r\n\r\nevent: nothing\n\nunknown: x\ndata\n\nevent: c\ndata: tail';
	const events = [
		{ event: 'a', data: '1', id: '7' },
		{ event: 'message', data: 'two\nlines', id: '7' },
		{ event: 'message', data: '', id: '7' },
	];

	test('wherever they are cut', () => {
		for (let at = 0; at <= text.length; at++) {
			const parser = new EventParser();

			assert.deepEqual([...parser.push(text.slice(0, at)), ...parser.push(text.slice(at))], events, `at ${at}`);
		}
		const parser = new EventParser();

		assert.deepEqual([...text].flatMap((character) => parser.push(character)), events);
	});

	test('without a bound are refused', () => {
		const parser = new EventParser();

		assert.throws(() => {
			for (let i = 0; i < 70; i++)
				parser.push(`data: ${'x'.repeat(1 << 20)}\n`);
		}, { name: 'ProtocolError' });
	});
});

describe('frames', () => {
	const mask = Uint8Array.of(1, 2, 3, 4);
	// What a server sends has no mask.
	const frame = (opcode, payload, final = true) => {
		const length = payload.length;
		const head = length < 126 ? [length] : length < 65536 ? [126, length >> 8, length & 255] :
			[127, 0, 0, 0, 0, length >>> 24, (length >> 16) & 255, (length >> 8) & 255, length & 255];

		return Uint8Array.from([(final ? 0x80 : 0) | opcode, ...head, ...payload]);
	};
	const text = (string) => new TextEncoder().encode(string);

	test('ours are masked, of every length', () => {
		for (const length of [0, 1, 125, 126, 65535, 65536]) {
			const payload = new Uint8Array(length).map((_, i) => i * 7);
			const bytes = encodeFrame(OPCODE.binary, payload, mask);
			const at = bytes.length - length;

			assert.equal(bytes[0], 0x82);
			assert.equal(bytes[1] & 0x80, 0x80);
			assert.deepEqual(bytes.subarray(at - 4, at), mask);
			assert.ok(bytes.subarray(at).every((byte, i) => (byte ^ mask[i % 4]) === payload[i]));
		}
	});

	test('theirs, wherever they are cut, with a ping between the pieces of a message', () => {
		const big = new Uint8Array(70_000).fill(5);
		const stream = concat([frame(1, text('hello')), frame(2, text('pie'), false), frame(9, text('?')), frame(0, text('ces')), frame(8, [0x0f, 0xa1]), frame(2, new Uint8Array(300))]);
		const expected = [[1, 'hello'], [9, '?'], [2, 'pieces'], [8, '\x0f\ufffd'], [2, '\0'.repeat(300)]];
		const plain = (messages) => messages.map(({ opcode, payload }) => [opcode, new TextDecoder().decode(payload)]);

		for (let at = 0; at <= stream.length; at++) {
			const parser = new FrameParser();

			assert.deepEqual(plain([...parser.push(stream.slice(0, at)), ...parser.push(stream.slice(at))]), expected, `at ${at}`);
		}
		assert.deepEqual(new FrameParser().push(frame(2, big))[0].payload, big);
		assert.equal(closeCode(Uint8Array.of(0x0f, 0xa1)), 4001);
		assert.equal(closeCode(new Uint8Array(0)), 1005);
	});

	for (const [what, bytes] of [
		['a mask', encodeFrame(1, text('a'), mask)], ['reserved bits', Uint8Array.of(0xc1, 0)],
		['a piece of nothing', frame(0, text('a'))], ['two beginnings', concat([frame(1, text('a'), false), frame(1, text('b'))])],
		['a ping in pieces', frame(9, text('a'), false)], ['a long ping', frame(9, new Uint8Array(126))],
		['a length without a bound', Uint8Array.of(0x82, 127, 0, 0, 0xff, 0, 0, 0, 0, 0)],
	])
		test(`${what} is refused`, () => assert.throws(() => new FrameParser().push(bytes), { name: 'ProtocolError' }));
});

describe('output', () => {
	test('is kept whole up to the bound, then by both ends, whatever its pieces', () => {
		const whole = Uint8Array.from({ length: 200 }, (_, i) => i);

		for (const size of [1, 3, 7, 50, 200])
			for (const max of [0, 1, 10, 199, 200, 300]) {
				const kept = new Collector(max);

				for (let at = 0; at < whole.length; at += size)
					kept.add(whole.slice(at, at + size));
				const head = Math.min(200, Math.ceil(max / 2)), tail = Math.min(200 - head, max - Math.ceil(max / 2));

				assert.deepEqual([...kept.raw], [...whole.slice(0, head), ...whole.slice(200 - tail)], `${size} ${max}`);
				assert.equal(kept.leftOut, 200 - head - tail);
			}
	});

	test('what came before a gap is not the end', () => {
		const kept = new Collector(4);

		kept.add(new TextEncoder().encode('abcdef'));
		kept.skip(10);
		kept.add(new TextEncoder().encode('xyz'));
		assert.equal(kept.text, 'ab\n… 15 bytes were left out …\nyz');
	});

	test('characters are not cut', () => {
		const bytes = new TextEncoder().encode('aé€😀');

		for (let at = 0; at <= bytes.length; at++) {
			assert.doesNotThrow(() => new TextDecoder('utf-8', { fatal: true }).decode(wholePrefix(bytes.slice(0, at))), `${at}`);
			assert.doesNotThrow(() => new TextDecoder('utf-8', { fatal: true }).decode(wholeSuffix(bytes.slice(at))), `${at}`);
		}
	});
});

test('base64, of more bytes than a call has arguments', () => {
	const bytes = Uint8Array.from({ length: 200_001 }, (_, i) => (i * 31) & 255);

	assert.equal(toBase64(bytes), Buffer.from(bytes).toString('base64'));
	assert.deepEqual(fromBase64(toBase64(bytes)), bytes);
});

test('back-off grows, has a bound and some chance; Retry-After has a bound', () => {
	assert.deepEqual([0, 1, 2, 9].map((n) => backOffMs(n, () => 0)), [100, 200, 400, 2500]);
	assert.deepEqual([0, 1, 2, 9].map((n) => backOffMs(n, () => 1)), [200, 400, 800, 5000]);
	assert.deepEqual(['2', '99999', 'soon', '-1', null].map(retryAfterMs), [2000, 30_000, undefined, undefined, undefined]);
});

test('the README shows an example that runs', () => {
	const read = (name) => fs.readFileSync(new URL(`../${name}`, import.meta.url), 'utf8');

	assert.ok(read('README.md').includes(`\`\`\`ts\n${read('examples/quick.ts')}\`\`\``));
});
