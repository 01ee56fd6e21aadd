/** What each session has last seen of files, kept so that an agent need not read them again after a restart. */
import type { Knex } from 'knex';
import type { SessionRow } from './session-rows.ts';

/** A file as a session saw it last. */
export interface SeenFile {
  /** Real path. */
  readonly path: string;
  /** Null: not to be remembered any more. */
  readonly version: { readonly sha256: string; readonly mtimeMs: number } | null;
}

interface SeenFileRow {
  organization_id: string;
  session_id: string;
  path: string;
  sha256: string;
  modified_at: number;
}

/** The most files that are given back; an agent that has read more reads the others again. */
const mostFiles = 5000;

export async function rememberFiles(
  sql: Knex.Transaction,
  { id: session_id, organization_id }: Pick<SessionRow, 'id' | 'organization_id'>,
  files: readonly SeenFile[],
): Promise<void> {
  if (files.length === 0) return;
  const forgotten = files.filter(({ version }) => version === null).map(({ path }) => path);
  await sql<SeenFileRow>('seen_files').where({ session_id }).whereIn('path', forgotten).delete();
  const rows = files.flatMap(({ path, version }) =>
    version
      ? [{ organization_id, session_id, path, sha256: version.sha256, modified_at: version.mtimeMs }]
      : [],
  );
  if (rows.length > 0)
    await sql<SeenFileRow>('seen_files').insert(rows).onConflict(['session_id', 'path']).merge();
}

export async function readSeenFiles(sql: Knex, sessionId: string): Promise<SeenFile[]> {
  const rows = await sql<SeenFileRow>('seen_files')
    .where({ session_id: sessionId })
    .orderBy('path')
    .limit(mostFiles);
  return rows.map(({ path, sha256, modified_at }) => ({ path, version: { sha256, mtimeMs: modified_at } }));
}
