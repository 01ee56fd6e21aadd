/** The files that a session's runs have changed: recorded one by one, read as what they come to together. */
import type { Knex } from 'knex';
import { keepContent, packContent, readContent } from './file-contents.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';
import type { RunRow } from './runs.ts';
import { requireSession } from './session-rows.ts';

/** A content of a file; without `bytes` where it is too large to keep. */
export interface FileContent {
  readonly sha256: string;
  readonly size: number;
  readonly bytes: Uint8Array | null;
}

/** A change that a tool is about to make; null where there is no file. */
export interface NewFileChange {
  readonly runId: string;
  readonly sessionId: string;
  readonly toolCallId: string;
  /** Relative to the workspace inside it, absolute outside. */
  readonly path: string;
  readonly before: FileContent | null;
  /** The permission bits of the file before. */
  readonly mode: number | null;
  readonly after: FileContent | null;
}

/** Which content a file had at one time. */
export interface FileState {
  readonly sha256: string;
  readonly size: number;
}

/** What the changes of one file come to. */
export interface ChangedFile {
  readonly path: string;
  /** Before the first change; null where there was no file. */
  readonly before: FileState | null;
  /** The permission bits of the file before the first change. */
  readonly mode: number | null;
  /** Before the last change. */
  readonly beforeLast: FileState | null;
  /** After the last change. */
  readonly after: FileState | null;
}

export interface FileChanges {
  /** By path, up to `limit`. Throws `not_found` for a session out of reach. */
  list(
    reach: Reach,
    sessionId: string,
    filter: { readonly runId?: string | undefined; readonly limit: number },
  ): Promise<ChangedFile[]>;
  /** A content that the session has kept; null where it has not. */
  content(reach: Reach, sessionId: string, sha256: string): Promise<Uint8Array | null>;
}

interface FileChangeRow {
  id: number;
  organization_id: string;
  session_id: string;
  run_id: string;
  run_number: number;
  tool_call_id: string;
  path: string;
  before_sha256: string | null;
  before_size: number | null;
  before_mode: number | null;
  after_sha256: string | null;
  after_size: number | null;
  reverted: boolean;
  created_at: number;
}

export function fileChangeRepository({ database }: StoreParts): FileChanges {
  return {
    list: (reach, sessionId, { runId, limit }) =>
      database.read(reach, async (sql) => {
        await requireSession(sql, reach, sessionId);
        return changedFiles(sql, sessionId, { ...(runId !== undefined && { run_id: runId }) }, limit);
      }),
    content: (reach, sessionId, sha256) =>
      database.read(reach, async (sql) => {
        await requireSession(sql, reach, sessionId);
        return readContent(sql, sessionId, sha256);
      }),
  };
}

/** What may be done before the transaction: compresses what is to be kept. */
export async function packChange({ before, after }: NewFileChange) {
  const contents = [before, after].flatMap((content) =>
    content?.bytes ? [{ sha256: content.sha256, bytes: content.bytes }] : [],
  );
  return Promise.all(contents.map(({ sha256, bytes }) => packContent(sha256, bytes)));
}

/** Stores a change of a run whose session is locked. */
export async function insertChange(
  sql: Knex.Transaction,
  run: RunRow,
  change: NewFileChange,
  packed: Awaited<ReturnType<typeof packChange>>,
  now: number,
): Promise<void> {
  const { organization_id, session_id, id: run_id, run_number } = run;
  for (const content of packed) await keepContent(sql, { organization_id, session_id }, content);
  const row: Omit<FileChangeRow, 'id'> = {
    ...{ organization_id, session_id, run_id, run_number },
    tool_call_id: change.toolCallId,
    path: change.path,
    before_sha256: change.before?.sha256 ?? null,
    before_size: change.before?.size ?? null,
    before_mode: change.mode,
    after_sha256: change.after?.sha256 ?? null,
    after_size: change.after?.size ?? null,
    reverted: false,
    created_at: now,
  };
  await sql('file_changes').insert(row);
}

/** Which of the contents the session needs to show its changes, or to go back on them. */
export async function changedContents(
  sql: Knex,
  sessionId: string,
  hashes: readonly string[],
): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  for (const column of ['before_sha256', 'after_sha256'] as const)
    for (let start = 0; start < hashes.length; start += atOnce) {
      const some = hashes.slice(start, start + atOnce);
      const named: string[] = await sql('file_changes')
        .where({ session_id: sessionId })
        .whereIn(column, some)
        .distinct(column)
        .pluck(column);
      for (const sha256 of named) found.add(sha256);
    }
  return found;
}

/** Databases bound how many values one statement may carry. */
const atOnce = 500;

/** What the changes come to, file by file; only those since a run, where its number is given. */
export async function changedFiles(
  sql: Knex,
  sessionId: string,
  filter: { readonly run_id?: string; readonly fromRunNumber?: number },
  limit?: number,
): Promise<ChangedFile[]> {
  const { fromRunNumber, ...equal } = filter;
  const ends = sql('file_changes')
    .where({ session_id: sessionId, reverted: false, ...equal })
    .groupBy('path')
    .select('path')
    .min({ first_id: 'id' })
    .max({ last_id: 'id' });
  if (fromRunNumber !== undefined) ends.where('run_number', '>=', fromRunNumber);
  const whole = sql
    .from(ends.as('ends'))
    .join({ first: 'file_changes' }, 'first.id', 'ends.first_id')
    .join({ last: 'file_changes' }, 'last.id', 'ends.last_id')
    // What came back to where it began is no change.
    .whereRaw('first.before_sha256 is distinct from last.after_sha256')
    .orderBy('ends.path')
    .select(
      'ends.path',
      'first.before_sha256',
      'first.before_size',
      'first.before_mode',
      { last_before_sha256: 'last.before_sha256', last_before_size: 'last.before_size' },
      'last.after_sha256',
      'last.after_size',
    );
  if (limit !== undefined) whole.limit(limit);
  const rows: EndsRow[] = await whole;
  return rows.map(toChangedFile);
}

/**
 * The paths where somebody else's work lies between two changes since a run: the later one began with what no earlier
 * one had found or left. What was recorded and then not made leads to the next one's beginning all the same.
 */
export async function pathsChangedBetween(
  sql: Knex,
  sessionId: string,
  fromRunNumber: number,
): Promise<ReadonlySet<string>> {
  const rows: Pick<FileChangeRow, 'path' | 'before_sha256' | 'after_sha256'>[] = await sql('file_changes')
    .where({ session_id: sessionId, reverted: false })
    .where('run_number', '>=', fromRunNumber)
    .orderBy(['path', 'id'])
    .select('path', 'before_sha256', 'after_sha256');
  const found = new Set<string>();
  let path: string | null = null;
  let held = new Set<string | null>();
  for (const row of rows) {
    if (row.path !== path) [path, held] = [row.path, new Set([row.before_sha256])];
    if (!held.has(row.before_sha256)) found.add(row.path);
    held.add(row.before_sha256).add(row.after_sha256);
  }
  return found;
}

/** Where the folder of the workspace was for the runs that changed files, as their rows name it. */
export async function placesOfChanges(
  sql: Knex,
  sessionId: string,
  fromRunNumber: number,
): Promise<(string | null)[]> {
  return sql<RunRow>('runs')
    .whereIn(
      'id',
      sql('file_changes')
        .where({ session_id: sessionId, reverted: false })
        .where('run_number', '>=', fromRunNumber)
        .select('run_id'),
    )
    .distinct('workspace_place')
    .pluck('workspace_place');
}

type EndsRow = Pick<
  FileChangeRow,
  'path' | 'before_sha256' | 'before_size' | 'before_mode' | 'after_sha256' | 'after_size'
> & { readonly last_before_sha256: string | null; readonly last_before_size: number | null };

function toChangedFile(row: EndsRow): ChangedFile {
  return {
    path: row.path,
    before: stateOf(row.before_sha256, row.before_size),
    mode: row.before_mode,
    beforeLast: stateOf(row.last_before_sha256, row.last_before_size),
    after: stateOf(row.after_sha256, row.after_size),
  };
}

function stateOf(sha256: string | null, size: number | null): FileState | null {
  return sha256 === null ? null : { sha256, size: Number(size) };
}
