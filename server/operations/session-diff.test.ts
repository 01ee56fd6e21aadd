/** What a diff of many files shows within its bounds, and what it says of the rest. */
import { createHash, randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { diffOf } from './session-diff.ts';

/** What `diffOf` says of files that held the first text and now hold the second. */
async function notesOf(...changes: readonly (readonly [before: string | null, after: string])[]) {
  const contents = new Map<string, Buffer>();
  const stateOf = (text: string | null) => {
    if (text === null) return null;
    const bytes = Buffer.from(text);
    const sha256 = createHash('sha256').update(bytes).digest('hex');
    contents.set(sha256, bytes);
    return { sha256, size: bytes.length };
  };
  const files = changes.map(([before, after], index) => ({
    path: `${index}.txt`,
    before: stateOf(before),
    after: stateOf(after),
  }));
  const diff = await diffOf('ses_x', files, async (sha256) => contents.get(sha256) ?? null);
  return diff.files.map(({ note, patch }) => (patch === null ? note : 'shown'));
}

test('a patch is too large by the content of its file or by its own length', async () => {
  const line = `${'x'.repeat(99)}\n`;
  expect(
    await notesOf([null, line.repeat(900)], [null, line.repeat(1100)], [null, line.repeat(11_000)]),
  ).toEqual(['shown', 'too_large', 'too_large']);
});

test('what an answer that is full leaves out is told apart from what is too large', async () => {
  const added = Array.from({ length: 42 }, (_, index) => [null, `${index} ${'x'.repeat(99_000)}\n`] as const);
  const notes = await notesOf(...added, [null, 'short\n'], [null, 'x'.repeat(2_000_000)]);
  expect(notes.slice(0, 40)).toEqual(Array.from({ length: 40 }, () => 'shown'));
  expect(notes.slice(40)).toEqual(['left_out', 'left_out', 'shown', 'too_large']);
});

test('what an answer has no time left for is left out, however short', async () => {
  // Each takes all the time that one file may have.
  const unlike = () => randomBytes(200_000).toString('hex').replaceAll(/.{10}/g, '$&\n');
  const slow = Array.from({ length: 7 }, () => [unlike(), unlike()] as const);
  const notes = await notesOf(...slow, [null, 'short\n']);
  expect(notes[0]).toBe('too_large');
  expect(notes.slice(-2)).toEqual(['left_out', 'left_out']);
});
