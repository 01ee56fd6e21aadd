/** Tells as a unified diff what the changes of files come to, within bounds of size and time. */
import { createTwoFilesPatch, FILE_HEADERS_ONLY } from 'diff';
import type { FileDiff, SessionDiff } from '../contract/api.ts';

/** Which content a file had; null where there was no file. */
type State = { readonly sha256: string; readonly size: number } | null;

/** A file, and the two contents to compare. */
export interface FileComparison {
  readonly path: string;
  readonly before: State;
  readonly after: State;
}

/** The most files that one answer tells of. */
export const mostFiles = 300;

/** A longer text is nothing that a person reads as a diff. */
const largestBytes = 1024 * 1024;
const longestPatch = 100_000;
const longestOfAll = 4_000_000;
/** Two big unlike texts take quadratic time, in which nobody else is served. */
const fileMs = 100;
const allMs = 500;

/** Reads the contents one after the other, so that never more than two are in memory. */
export async function diffOf(
  sessionId: string,
  files: readonly FileComparison[],
  read: (sha256: string) => Promise<Uint8Array | null>,
): Promise<SessionDiff> {
  const left = { ms: allMs, characters: longestOfAll };
  const shown: FileDiff[] = [];
  for (const file of files.slice(0, mostFiles)) shown.push(await fileDiff(file, read, left));
  return {
    session_id: sessionId,
    files: shown,
    additions: shown.reduce((sum, { additions }) => sum + (additions ?? 0), 0),
    deletions: shown.reduce((sum, { deletions }) => sum + (deletions ?? 0), 0),
    truncated: files.length > mostFiles,
  };
}

interface Budget {
  ms: number;
  characters: number;
}

async function fileDiff(
  { path, before, after }: FileComparison,
  read: (sha256: string) => Promise<Uint8Array | null>,
  left: Budget,
): Promise<FileDiff> {
  const status = before === null ? 'added' : after === null ? 'deleted' : 'modified';
  const without = (note: FileDiff['note']): FileDiff => ({
    ...{ path, status, additions: null, deletions: null, patch: null },
    note,
  });
  if (Math.max(before?.size ?? 0, after?.size ?? 0) > largestBytes) return without('too_large');
  if (left.ms <= 0) return without('left_out');
  const texts = await Promise.all([textOf(before, read), textOf(after, read)]);
  const [from, to] = texts;
  if (from === 'not_kept' || to === 'not_kept') return without('not_kept');
  if (from === 'binary' || to === 'binary') return without('binary');
  const made = patchOf(path, from, to, left);
  if (typeof made === 'string') return without(made);
  const { patch } = made;
  return { path, status, ...countLines(patch), patch, note: null };
}

type Text = { readonly text: string | null };

async function textOf(
  state: State,
  read: (sha256: string) => Promise<Uint8Array | null>,
): Promise<Text | 'binary' | 'not_kept'> {
  if (state === null) return { text: null };
  const bytes = await read(state.sha256);
  if (!bytes) return 'not_kept';
  if (bytes.includes(0)) return 'binary';
  try {
    return { text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    // What is not UTF-8 is shown as little as any other bytes.
    return 'binary';
  }
}

function patchOf(
  path: string,
  from: Text,
  to: Text,
  left: Budget,
): { readonly patch: string } | 'too_large' | 'left_out' {
  const begun = performance.now();
  const timeout = Math.min(fileMs, left.ms);
  const patch = createTwoFilesPatch(
    from.text === null ? '/dev/null' : `a/${path}`,
    to.text === null ? '/dev/null' : `b/${path}`,
    from.text ?? '',
    to.text ?? '',
    undefined,
    undefined,
    { context: 3, timeout, headerOptions: FILE_HEADERS_ONLY },
  );
  left.ms -= performance.now() - begun;
  // With less time than others had, nobody knows whether it is too large.
  if (patch === undefined) return timeout < fileMs ? 'left_out' : 'too_large';
  if (patch.length > longestPatch) return 'too_large';
  if (patch.length > left.characters) return 'left_out';
  left.characters -= patch.length;
  return { patch };
}

/** The lines of a patch behind its two headers. */
function countLines(patch: string): { additions: number; deletions: number } {
  const lines = patch.split('\n').slice(2);
  return {
    additions: lines.filter((line) => line.startsWith('+')).length,
    deletions: lines.filter((line) => line.startsWith('-')).length,
  };
}
