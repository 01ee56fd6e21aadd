/** What parsers have read: the text of some bytes once in an organization, compressed, with what it is cut along. */
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import type { Knex } from 'knex';
import { newId } from '../ids.ts';
import type { StoreParts } from './parts.ts';
import { sweep } from './sweeps.ts';

/** Bytes, and the parser that reads them. */
export interface ReadBytes {
  readonly organizationId: string;
  readonly sha256: string;
  /** Its name and version. */
  readonly parser: string;
}

/** `Content` is JSON of whoever keeps it. */
export interface ExtractedTexts {
  /** The id of what is kept of them. */
  find(bytes: ReadBytes): Promise<string | null>;
  read<Content>(id: string): Promise<Content | null>;
  /** Answers with the id of what is kept, which may be what another has kept in the meantime. */
  keep(bytes: ReadBytes, content: object, characters: number): Promise<string>;
  /** Forgets what no document was made from and nobody has asked for since. */
  prune(before: Date): Promise<number>;
}

interface TextRow {
  id: string;
  organization_id: string;
  sha256: string;
  parser: string;
  content: Buffer;
  characters: number;
  used_at: number;
}

const compress = promisify(gzip);
const decompress = promisify(gunzip);

/** How exactly it is known when a text was asked for last. */
const usedWithinMs = 3_600_000;

/** A text may have megabytes, and each page of it is read before it is free. */
export const extractedTextLimits = { sweptAtOnce: 50 };

export function extractedTexts({ database, clock }: Pick<StoreParts, 'database' | 'clock'>): ExtractedTexts {
  const now = (): number => clock.now().getTime();
  return {
    async find({ organizationId: organization_id, sha256, parser }) {
      const row = await database.read('installation', (sql) =>
        sql<TextRow>('extracted_texts').where({ organization_id, sha256, parser }).first('id', 'used_at'),
      );
      if (!row) return null;
      if (now() - Number(row.used_at) > usedWithinMs)
        await database.write('installation', (sql) =>
          sql<TextRow>('extracted_texts').where({ id: row.id }).update({ used_at: now() }),
        );
      return row.id;
    },
    async read(id) {
      const row = await database.read('installation', (sql) =>
        sql<TextRow>('extracted_texts').where({ id }).first('content'),
      );
      return row ? JSON.parse((await decompress(row.content)).toString()) : null;
    },
    async keep({ organizationId: organization_id, sha256, parser }, content, characters) {
      const packed = await compress(Buffer.from(JSON.stringify(content)));
      return database.write('installation', async (sql) => {
        const row = { organization_id, sha256, parser, content: packed, characters, used_at: now() };
        await sql<TextRow>('extracted_texts')
          .insert({ ...row, id: newId('extractedText') })
          .onConflict(['organization_id', 'sha256', 'parser'])
          .merge({ used_at: row.used_at });
        const kept = await sql<TextRow>('extracted_texts')
          .where({ organization_id, sha256, parser })
          .first('id');
        if (!kept) throw new Error('The text that was just kept is not there.');
        return kept.id;
      });
    },
    prune: (before) =>
      sweep(database, (sql, most) => pruneSome(sql, before.getTime(), most), extractedTextLimits.sweptAtOnce),
  };
}

async function pruneSome(sql: Knex.Transaction, before: number, most: number): Promise<number> {
  const unused = () =>
    sql<TextRow>('extracted_texts')
      .where('used_at', '<', before)
      .whereNotExists(sql('documents').whereRaw('documents.text_id = extracted_texts.id'));
  const ids = await unused().orderBy('used_at').limit(most).forUpdate().pluck('id');
  // Whoever held one until now has made a document from it, or asked for it.
  await unused().whereIn('id', ids).delete();
  return ids.length;
}
