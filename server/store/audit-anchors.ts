/** Heads of the audit log, written down outside the database: what is cut off there is missed here. */
import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Anchor } from './audit-chain.ts';

/** The file beside the database, one line an anchor. */
export function anchorFile(dataDirectory: string): string {
  return join(dataDirectory, 'audit-anchors.jsonl');
}

/** Adds the head, unless it stands there already as the last one. */
export async function writeAnchor(file: string, { sequence, hash }: Anchor, at: Date): Promise<void> {
  const before = await textOf(file);
  if (sequence === 0 || anchorsIn(before).at(-1)?.sequence === sequence) return;
  const line = JSON.stringify({ written_at: at.toISOString(), sequence, hash });
  // A line before it that a crash has cut off must not swallow this one.
  const separator = before === '' || before.endsWith('\n') ? '' : '\n';
  await appendFile(file, `${separator}${line}\n`, { mode: 0o600 });
}

/** The oldest first; none where there is no such file. A line that was cut off by a crash is left out. */
export async function readAnchors(file: string): Promise<Anchor[]> {
  return anchorsIn(await textOf(file));
}

function anchorsIn(text: string): Anchor[] {
  return text.split('\n').flatMap((line) => {
    const found = /"sequence":(\d{1,15}),"hash":"([0-9a-f]{64})"\}$/.exec(line);
    return found ? [{ sequence: Number(found[1]), hash: String(found[2]) }] : [];
  });
}

async function textOf(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
}
