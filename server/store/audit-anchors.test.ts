/** Heads that are written down outside the database. */
import { appendFile, mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { anchorFile, readAnchors, writeAnchor, writeRestored } from './audit-anchors.ts';

const at = new Date('2026-11-21T08:00:00.000Z');
const head = (sequence: number) => ({ sequence, hash: String(sequence % 10).repeat(64) });

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'service-anchors-'));
});
afterEach(() => rm(folder, { recursive: true }));

test('are read as they were written, each once, from a file that its owner alone reads', async () => {
  const file = anchorFile(folder);
  expect(await readAnchors(file)).toEqual([]);
  for (const sequence of [0, 3, 3, 8]) await writeAnchor(file, head(sequence), at);
  expect(await readAnchors(file)).toEqual([head(3), head(8)]);
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect(await readFile(file, 'utf8')).toContain('"written_at":"2026-11-21T08:00:00.000Z"');
});

test('that a crash has cut off are left out, and the next one stands on a line of its own', async () => {
  const file = anchorFile(folder);
  await writeAnchor(file, head(3), at);
  await appendFile(file, '{"written_at":"2026-11-21T08:00:00.000Z","sequ');
  await writeAnchor(file, head(8), at);
  expect(await readAnchors(file)).toEqual([head(3), head(8)]);
});

test('are told apart from the entry of a restore, which an older program takes for none', async () => {
  const file = anchorFile(folder);
  await writeAnchor(file, head(8), at);
  await writeRestored(file, head(4), at);
  await writeAnchor(file, head(8), at);
  await writeAnchor(file, head(5), at);
  expect(await readAnchors(file)).toEqual([head(8), { ...head(4), restored: true }, head(5)]);
  const lines = (await readFile(file, 'utf8')).split('\n');
  expect(lines.filter((line) => /"sequence":(\d{1,15}),"hash":"([0-9a-f]{64})"\}$/.test(line))).toHaveLength(
    2,
  );
});
