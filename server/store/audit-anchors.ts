/** Heads of the audit log, written down outside the database: what is cut off there is missed here. */
import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { syncToDisk } from '../sync-to-disk.ts';
import type { Anchor } from './audit-chain.ts';

/** A head as a line of the file has it. */
export interface WrittenAnchor extends Anchor {
  /** The entry with which a restore says that the log goes back: where the log has it, what stands before it is over. */
  readonly restored?: true;
}

/** The file beside the database, one line an anchor. */
export function anchorFile(dataDirectory: string): string {
  return join(dataDirectory, 'audit-anchors.jsonl');
}

/** Adds the head, unless it stands there already as the last one. */
export async function writeAnchor(file: string, { sequence, hash }: Anchor, at: Date): Promise<void> {
  const before = await textOf(file);
  const last = anchorsIn(before).findLast(({ restored }) => !restored);
  if (sequence === 0 || last?.sequence === sequence) return;
  await addLine(file, before, { written_at: at.toISOString(), sequence, hash });
}

/**
 * Adds the entry of a restore, before the log has it: a restore that is killed then leaves a line that counts for nothing.
 * Programs that know no such lines pass it over.
 */
export async function writeRestored(file: string, { sequence, hash }: Anchor, at: Date): Promise<void> {
  const line = { written_at: at.toISOString(), restored: `${sequence}:${hash}` };
  await addLine(file, await textOf(file), line);
  await syncToDisk(file);
}

async function addLine(file: string, before: string, line: object): Promise<void> {
  // A line before it that a crash has cut off must not swallow this one.
  const separator = before === '' || before.endsWith('\n') ? '' : '\n';
  await appendFile(file, `${separator}${JSON.stringify(line)}\n`, { mode: 0o600 });
}

/** The oldest first; none where there is no such file. A line that was cut off by a crash is left out. */
export async function readAnchors(file: string): Promise<WrittenAnchor[]> {
  return anchorsIn(await textOf(file));
}

function anchorsIn(text: string): WrittenAnchor[] {
  return text.split('\n').flatMap((line) => {
    const [, sequence, hash] = /"sequence":(\d{1,15}),"hash":"([0-9a-f]{64})"\}$/.exec(line) ?? [];
    if (sequence && hash) return [{ sequence: Number(sequence), hash }];
    const [, number, restored] = /"restored":"(\d{1,15}):([0-9a-f]{64})"\}$/.exec(line) ?? [];
    return number && restored ? [{ sequence: Number(number), hash: restored, restored: true as const }] : [];
  });
}

async function textOf(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
}
