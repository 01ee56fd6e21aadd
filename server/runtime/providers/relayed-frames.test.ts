/** The frames of a relayed answer, however the network cuts them and whatever its server writes. */
import { expect, test } from 'vitest';
import { FrameReader } from './relayed-frames.ts';

const delta = (text: string) =>
  frame({ type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text } });
const start = frame({ type: 'message_start', message: { model: 'theirs', usage: { input_tokens: 7 } } });
const counted = frame({ type: 'message_delta', delta: {}, usage: { output_tokens: 3 } });
const stop = frame({ type: 'message_stop' });
const answer = [start, delta('Grüße, 世界 😀'), frame({ type: 'ping' }), counted, stop].join('');

function frame(event: { readonly type: string } & Record<string, unknown>): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** What goes on of these chunks, with what was learnt from them. */
function read(chunks: readonly (string | Uint8Array)[]) {
  const reader = new FrameReader('ours');
  const reads = chunks.map((chunk) => reader.read(typeof chunk === 'string' ? Buffer.from(chunk) : chunk));
  const pieces = reads.flatMap(({ piece }) => (piece ? [piece] : []));
  return {
    text: Buffer.concat(pieces.map(({ written }) => written)).toString(),
    usage: Object.assign({}, ...pieces.map(({ usage }) => usage)),
    heard: pieces.reduce((sum, piece) => sum + piece.heard, 0),
    counted: pieces.some((piece) => piece.counted),
    last: pieces.at(-1)?.last ?? false,
    failures: reads.flatMap(({ failure }) => (failure ? [failure] : [])),
  };
}

test('what goes on is what came, but for the name of the model, wherever it was cut', () => {
  const expected = answer.replace('theirs', 'ours');
  const bytes = Buffer.from(answer);
  const whole = read([bytes]);
  expect(whole).toMatchObject({ text: expected, counted: true, last: true, failures: [] });
  expect(whole.usage).toEqual({ input_tokens: 7, output_tokens: 3 });
  for (let at = 1; at < bytes.length; at += 1)
    expect(read([bytes.subarray(0, at), bytes.subarray(at)])).toEqual(whole);
  expect(read([...bytes].map((byte) => Uint8Array.of(byte)))).toEqual(whole);
});

test('a count that is null at the end of the answer stays as it was said at its beginning', () => {
  const nothing = { input_tokens: null, cache_read_input_tokens: null, output_tokens: 5 };
  const end = frame({ type: 'message_delta', delta: {}, usage: nothing });
  for (const chunks of [[start + end + stop], [start, end, stop]])
    expect(read(chunks).usage).toEqual({ input_tokens: 7, output_tokens: 5 });
});

test('the words that were heard are counted, not what they come in', () => {
  expect(read([delta('x'.repeat(4000))]).heard).toBeLessThan(4020);
  expect(read([delta('x'.repeat(4000))]).heard).toBeGreaterThanOrEqual(4000);
  expect(read([start, stop]).heard).toBe(0);
});

test('line breaks of the other kind, and frames without names, become those that clients know', () => {
  const other = Buffer.from(answer.replaceAll('\n', '\r\n'));
  const expected = answer.replace('theirs', 'ours');
  for (let at = 1; at < other.length; at += 1)
    expect(read([other.subarray(0, at), other.subarray(at)]).text).toBe(expected);
  expect(read([answer.replaceAll(/^event: .*\n/gm, '')]).text).toBe(expected);
});

test('comments and what is no event do not go on; nothing goes on behind the last frame', () => {
  const { text, last } = read([
    `: hello\n\ndata: 3\n\nevent: odd\ndata: {"odd":true}\n\n${delta('a')}${stop}`,
    '',
  ]);
  expect(text).toBe(delta('a') + stop);
  expect(last).toBe(true);
  expect(read([`${delta('a')}${stop}${delta('b')}`]).text).toBe(delta('a') + stop);
});

test.each([
  ['broken JSON', 'event: message_start\ndata: {"broken"\n\n', SyntaxError],
  ['a piece that does not end as one', 'event: content_block_delta\ndata: {"type": \n\n', SyntaxError],
  [
    'an event that says so',
    frame({ type: 'error', error: { type: 'overloaded_error' } }),
    /ended its answer/,
  ],
])('%s is a failure, behind what came before it', (_, broken, reason) => {
  const { text, failures } = read([delta('a') + broken + delta('b')]);
  expect(text).toBe(delta('a'));
  expect(failures).toEqual([
    reason instanceof RegExp
      ? expect.objectContaining({ message: expect.stringMatching(reason), statusCode: 529 })
      : expect.any(reason),
  ]);
});

test('a frame without an end is a failure, and costs no more than it is long', () => {
  const begun = read([delta('a'), ...Array.from({ length: 40 }, () => Buffer.alloc(2 ** 20, 'x\n'))]);
  expect(begun.text).toBe(delta('a'));
  expect(begun.failures[0]).toMatchObject({ message: 'A frame has no end' });
});

test('a frame that holds more values than any answer is a failure', () => {
  const more = Array.from({ length: 600_000 }, () => ({}));
  const { text, failures } = read([delta('a') + frame({ type: 'message_delta', delta: {}, more })]);
  expect(text).toBe(delta('a'));
  expect(failures[0]).toMatchObject({ message: 'it holds more values than can be held' });
});
