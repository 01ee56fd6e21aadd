/** Codes of vectors by cells of near ones, on SQLite: PostgreSQL has its own index. */
import type { Knex } from 'knex';
import { placeInCells } from '../chunk-cells.ts';

export const chunkCells = {
  name: 'chunk-cells',
  async up(sql: Knex.Transaction): Promise<void> {
    if (sql.client.config.client !== 'sqlite3') return;
    await sql.schema.dropTableIfExists('chunk_codes');
    await createCells(sql);
    await createCodes(sql);
    await placeAll(sql);
  },
};

async function createCells(sql: Knex.Transaction): Promise<void> {
  await sql.schema.createTable('chunk_cells', (table) => {
    table.increments('number');
    table.integer('corpus_number').notNullable().references('searched_corpora.number').onDelete('cascade');
    table.integer('space').notNullable();
    // How many codes are in it: kept by triggers, since most codes go with their chunk.
    table.integer('codes').notNullable();
    // A direction: of length 1.
    table.binary('centre').notNullable();
    table.index(['corpus_number', 'space']);
  });
}

async function createCodes(sql: Knex.Transaction): Promise<void> {
  // One bit for each dimension; those of a cell side by side.
  await sql.raw(
    `create table chunk_codes (
       cell integer not null references chunk_cells (number) on delete cascade,
       number integer not null references chunks (number) on delete cascade,
       space integer not null, code blob not null, primary key (cell, number)
     ) without rowid`,
  );
  await sql.raw('create index chunk_codes_number on chunk_codes (number, space)');
  await sql.raw(
    `create trigger chunk_codes_inserted after insert on chunk_codes
     begin update chunk_cells set codes = codes + 1 where number = new.cell; end`,
  );
  await sql.raw(
    `create trigger chunk_codes_deleted after delete on chunk_codes
     begin update chunk_cells set codes = codes - 1 where number = old.cell; end`,
  );
}

/** So many at a time. */
const batch = 500;

async function placeAll(sql: Knex.Transaction): Promise<void> {
  for (let after = 0; ; ) {
    const rows: StoredVector[] = await sql('chunk_vectors')
      .where('id', '>', after)
      .orderBy('id')
      .limit(batch);
    const places = Map.groupBy(rows, ({ corpus_number, space }) => `${corpus_number} ${space}`);
    for (const together of places.values()) await placeRows(sql, together);
    const last = rows.at(-1);
    if (!last || rows.length < batch) return;
    after = last.id;
  }
}

async function placeRows(sql: Knex.Transaction, rows: readonly StoredVector[]): Promise<void> {
  const [first] = rows;
  if (!first) return;
  const { corpus_number, space } = first;
  const vectors = rows.map(({ number, vector }) => ({
    ...{ number, vector: new Float32Array(Uint8Array.from(vector).buffer) },
  }));
  await placeInCells(sql, { corpus_number, space }, vectors);
}

interface StoredVector {
  readonly id: number;
  readonly corpus_number: number;
  readonly space: number;
  readonly number: number;
  readonly vector: Buffer;
}
