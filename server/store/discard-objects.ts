/** Takes objects out of the storage that nothing needs, and their rows after them. */
import type { Knex } from 'knex';
import type { Log } from '../log.ts';
import type { StoreParts } from './parts.ts';
import type { Storage, Storages } from './storage/storage.ts';
import type { ObjectRow } from './stored-objects.ts';

export interface FileParts extends StoreParts {
  readonly storages: Storages;
  readonly log: Log;
}

/** What became of an object that was to go: `unknown` where the database or the storage did not answer. */
export type Discarded = 'gone' | 'needed' | 'without row' | 'unknown';

/** Deletes an object unless something needs it; true where it has gone. What fails here is done by the next sweep. */
export async function discard(parts: FileParts, key: string): Promise<boolean> {
  return (await tryDiscard(parts, key)) === 'gone';
}

/** Of a process that was held up for so long that its upload was given up, the row is gone: its bytes go all the same. */
export async function discardOwn(parts: FileParts, key: string, storage: Storage): Promise<void> {
  // Where nobody can tell whether it is needed, the row tells the next sweep.
  if ((await tryDiscard(parts, key)) !== 'without row') return;
  await storage.delete(key).catch((error: unknown) => {
    parts.log.error({ err: error, key }, 'bytes of an upload that was given up could not be deleted');
  });
}

/** As `discard`, for who goes on by what became of it. */
export async function tryDiscard({ database, storages, log }: FileParts, key: string): Promise<Discarded> {
  try {
    const found = await database.write('installation', (sql) => markLeaving(sql, key));
    if (typeof found === 'string') return found;
    await (await storages.of(found)).delete(key);
    await database.write('installation', (sql) => sql<ObjectRow>('stored_objects').where({ key }).delete());
    return 'gone';
  } catch (error) {
    log.error(
      { err: error, key },
      'bytes that nobody needs could not be deleted; the next sweep tries again',
    );
    return 'unknown';
  }
}

/** An upload that is discarded is kept by nobody any more, however late it comes. */
async function markLeaving(sql: Knex.Transaction, key: string): Promise<ObjectRow | Discarded> {
  // Held first, so that whoever is about to need it comes before this or after it.
  const row = await sql<ObjectRow>('stored_objects').where({ key }).forUpdate().first();
  if (!row) return 'without row';
  if (row.state === 'kept' || (await sql('file_upload_parts').where({ object_key: key }).first('upload_id')))
    return 'needed';
  await sql<ObjectRow>('stored_objects').where({ key }).update({ state: 'leaving' });
  return row;
}
