/** Corpora whose passages another embedder has to embed: taken by one process at a time, in parts, and switched over at once. */
import type { Knex } from 'knex';
import { type Clock, steadyClock } from '../clock.ts';
import { recordAudit } from './audit.ts';
import { keepsVectors, writeVectors } from './chunk-vectors.ts';
import { type CorpusRow, lockCorpus, type TaggedCorpus, taggedCorpus } from './corpus-rows.ts';
import type { Spender } from './meter.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';

/** A corpus that a process is at. */
export interface Reindexing {
  readonly corpusId: string;
  /** What is to make its vectors. */
  readonly identity: string;
  readonly worker: string;
  /** Whose corpus it is, who pays for it. */
  readonly spender: Spender;
}

/** A passage that the embedder has not embedded yet. */
export interface BarePassage {
  readonly number: number;
  readonly headings: readonly string[];
  readonly text: string;
}

export interface EmbeddedPassage {
  readonly number: number;
  /** Null where the embedder refuses the passage. */
  readonly vector: Float32Array | null;
}

export interface Reindexings {
  /** Asks for every corpus with passages whose vectors are not of this embedder; answers with how many wait. */
  queue(identity: string): Promise<number>;
  /** Asks for one corpus, if anything in it is not of this embedder. Throws `not_found` or `role_required`. */
  ask(reach: Reach, corpusId: string, identity: string): Promise<TaggedCorpus>;
  /** These corpora by what has made their vectors; those that nobody has embedded yet, if they hold anything, by null. */
  embeddersOf(corpusIds: readonly string[]): Promise<ReadonlyMap<string | null, readonly string[]>>;
  /** One that nobody is at and that may be tried, for none of these embedders; null where there is none. */
  take(worker: string, except?: readonly string[]): Promise<Reindexing | null>;
  /** Says that the worker is alive; false where the corpus is not its own any more. */
  renew(taken: Reindexing): Promise<boolean>;
  /** Those behind a number, in the order of their numbers. */
  bare(taken: Reindexing, after: number, limit: number): Promise<BarePassage[]>;
  /** False where the corpus is not its own any more: nothing was written then. */
  write(taken: Reindexing, passages: readonly EmbeddedPassage[]): Promise<boolean>;
  /** Lets searches use the new vectors, in one transaction; false where some passages have none yet. */
  finish(taken: Reindexing): Promise<boolean>;
  /** Leaves it to whoever comes next; people are told why. */
  release(taken: Reindexing, why?: string): Promise<void>;
  /** Puts it off, with what people are told of it, by how often it has failed since something of it was written. */
  fail(taken: Reindexing, error: string, pauseMs: (failures: number) => number): Promise<void>;
  /** Deletes vectors of embedders that no corpus has any more; answers with how many there were. */
  sweep(): Promise<number>;
}

interface ReindexingRow {
  corpus_id: string;
  organization_id: string;
  identity: string;
  worker: string | null;
  leased_until: number;
  failures: number;
  not_before: number;
  error: string | null;
  created_at: number;
}

/** A worker that has said nothing for so long is dead. */
const reindexLeaseMs = 15_000;

export function reindexingRepository({
  database,
  clock,
}: Pick<StoreParts, 'database' | 'clock'>): Reindexings {
  const now = () => clock.now().getTime();
  const dead = deadWorkers(steadyClock(clock));
  const own = (sql: Knex, { corpusId, identity, worker }: Reindexing) =>
    sql<ReindexingRow>('reindexings').where({ corpus_id: corpusId, identity, worker });
  return {
    queue: (identity) =>
      database.write('installation', async (sql) => {
        await queueReindexings(sql, identity, now());
        return countStale(sql, identity, 'any');
      }),
    ask: (reach, id, identity) =>
      database.write(reach, (sql) => ask(sql, reach, { id, identity, now: now() })),
    embeddersOf: (corpusIds) => database.read('installation', (sql) => embeddersOf(sql, corpusIds)),
    take: (worker, except = []) =>
      database.write('installation', (sql) => take(sql, { worker, except }, now(), dead)),
    renew: (taken) =>
      database.write('installation', async (sql) => {
        const renewed = await own(sql, taken).update({ leased_until: now() + reindexLeaseMs });
        return renewed > 0;
      }),
    bare: (taken, after, limit) => database.read('installation', (sql) => bare(sql, taken, after, limit)),
    write: (taken, passages) =>
      database.write('installation', async (sql) => {
        const leased_until = now() + reindexLeaseMs;
        const held = await own(sql, taken).update({ leased_until, failures: 0, error: null });
        if (held === 0) return false;
        await writeStill(sql, taken, passages);
        return true;
      }),
    finish: (taken) =>
      database.write('installation', async (sql) => {
        await sql('corpora').where({ id: taken.corpusId }).forUpdate().first('id');
        if ((await bare(sql, taken, 0, 1)).length > 0) return false;
        if ((await own(sql, taken).delete()) === 0) return false;
        await sql('corpora').where({ id: taken.corpusId }).update({ embedder_identity: taken.identity });
        return true;
      }),
    release: (taken, why) =>
      database.write('installation', async (sql) => {
        await own(sql, taken).update({ worker: null, leased_until: 0, ...(why && { error: why }) });
      }),
    fail: (taken, error, pauseMs) =>
      database.write('installation', async (sql) => {
        const row = await own(sql, taken).first('failures');
        if (!row) return;
        const put = { failures: row.failures + 1, not_before: now() + pauseMs(row.failures), error };
        await own(sql, taken).update({ ...put, worker: null, leased_until: 0 });
      }),
    sweep: async () => {
      const most = 1000;
      for (let count = 0; ; ) {
        const found = await database.write('installation', (sql) => sweepVectors(sql, most));
        count += found;
        if (found < most) return count;
      }
    },
  };
}

async function embeddersOf(sql: Knex, corpusIds: readonly string[]) {
  const rows: Pick<CorpusRow, 'id' | 'embedder_identity'>[] = await sql('corpora')
    .join('searched_corpora', 'searched_corpora.corpus_id', 'corpora.id')
    .where('searched_corpora.chunks', '>', 0)
    .whereIn('corpora.id', corpusIds)
    .orderBy(['corpora.embedder_identity', 'corpora.id'])
    .select('corpora.id', 'corpora.embedder_identity');
  const byEmbedder = Map.groupBy(rows, (row) => row.embedder_identity);
  return new Map([...byEmbedder].map(([identity, those]) => [identity, those.map(({ id }) => id)]));
}

/** Corpora that hold something, and whose vectors another embedder has made, or nobody. */
function staleCorpora(sql: Knex, identity: string, which: 'any' | 'embedded'): Knex.QueryBuilder {
  const corpora = sql('corpora')
    .join('searched_corpora', 'searched_corpora.corpus_id', 'corpora.id')
    .where('searched_corpora.chunks', '>', 0);
  if (which === 'embedded') return corpora.whereNot('corpora.embedder_identity', identity);
  return corpora.where((one) =>
    one.whereNull('corpora.embedder_identity').orWhereNot('corpora.embedder_identity', identity),
  );
}

/** Of those that were `embedded` once vectors are there that would be of no use. */
export async function countStale(sql: Knex, identity: string, which: 'any' | 'embedded'): Promise<number> {
  const [row] = await staleCorpora(sql, identity, which).count({ count: '*' });
  return Number(row?.count ?? 0);
}

/** What waits for another embedder waits for this one from now on. Nothing does where vectors are not kept. */
export async function queueReindexings(sql: Knex.Transaction, identity: string, now: number): Promise<void> {
  if (!(await keepsVectors(sql))) return;
  await sql<ReindexingRow>('reindexings').whereNot({ identity }).delete();
  // One statement: it is asked each minute, and there may be thousands. `where` keeps SQLite from reading `on` as a join's.
  const stale = staleCorpora(sql, identity, 'any').select('corpora.id', 'corpora.organization_id');
  await sql.raw(
    `insert into reindexings
       (corpus_id, organization_id, identity, created_at, leased_until, failures, not_before)
     select id, organization_id, cast(? as text), cast(? as bigint), 0, 0, 0 from ? as stale
     where true on conflict (corpus_id) do nothing`,
    [identity, now, stale],
  );
}

interface QueuedCorpus {
  readonly corpusId: string;
  readonly organizationId: string;
  readonly identity: string;
  readonly now: number;
}

/** Where it waits already, it goes on waiting for what it waits for. */
export async function queueCorpus(
  sql: Knex.Transaction,
  { corpusId: corpus_id, organizationId: organization_id, identity, now: created_at }: QueuedCorpus,
): Promise<void> {
  await sql<ReindexingRow>('reindexings')
    .insert({
      ...{ corpus_id, organization_id, identity, worker: null, leased_until: 0 },
      ...{ failures: 0, not_before: 0, error: null, created_at },
    })
    .onConflict('corpus_id')
    .ignore();
}

async function ask(
  sql: Knex.Transaction,
  reach: Reach,
  { id, identity, now }: { readonly id: string; readonly identity: string; readonly now: number },
): Promise<TaggedCorpus> {
  const row = await lockCorpus(sql, reach, id);
  const tagged = taggedCorpus(row);
  const isBare = (await bare(sql, { corpusId: id, identity }, 0, 1)).length > 0;
  if (!isBare) return tagged;
  const { organization_id: organizationId } = row;
  await sql<ReindexingRow>('reindexings').where({ corpus_id: id }).whereNot({ identity }).delete();
  await queueCorpus(sql, { corpusId: id, organizationId, identity, now });
  // Whoever asks again wants it now, and not when the pause after a failure is over.
  await sql<ReindexingRow>('reindexings').where({ corpus_id: id }).update({ not_before: 0 });
  recordAudit(sql, reach, { action: 'corpus.reindex', target: { type: 'corpus', id }, organizationId });
  return { ...tagged, corpus: { ...tagged.corpus, stale: true } };
}

type Dead = (held: readonly ReindexingRow[]) => ReindexingRow | undefined;

/**
 * Finds one whose worker says nothing any more, by time that passes here: the clock of another node may be wrong, and
 * `leased_until` only tells that it was renewed.
 */
function deadWorkers(clock: Clock): Dead {
  let watched: ReadonlyMap<string, { readonly lease: string; readonly since: number }> = new Map();
  return (held) => {
    const now = clock.now().getTime();
    watched = new Map(
      held.map(({ corpus_id, worker, leased_until }) => {
        const lease = `${worker} ${leased_until}`;
        const known = watched.get(corpus_id);
        return [corpus_id, { lease, since: known?.lease === lease ? known.since : now }];
      }),
    );
    return held.find(({ corpus_id }) => now - (watched.get(corpus_id)?.since ?? now) >= reindexLeaseMs);
  };
}

async function take(
  sql: Knex.Transaction,
  { worker, except }: { readonly worker: string; readonly except: readonly string[] },
  now: number,
  dead: Dead,
): Promise<Reindexing | null> {
  if (!(await keepsVectors(sql))) return null;
  const first = (which: Partial<ReindexingRow>) => {
    const found = sql<ReindexingRow>('reindexings')
      .where(which)
      .where('not_before', '<=', now)
      .whereNotIn('identity', except)
      .orderBy(['not_before', 'created_at', 'corpus_id'])
      .forUpdate();
    if (sql.client.config.client === 'pg') found.skipLocked();
    return found.first();
  };
  const held = dead(await sql<ReindexingRow>('reindexings').whereNotNull('worker'));
  const left = held && { corpus_id: held.corpus_id, worker: held.worker, leased_until: held.leased_until };
  const row = (left && (await first(left))) ?? (await first({ worker: null }));
  if (!row) return null;
  const { corpus_id, identity } = row;
  await sql<ReindexingRow>('reindexings')
    .where({ corpus_id })
    .update({ worker, leased_until: now + reindexLeaseMs });
  const corpus = await sql('corpora')
    .where({ id: corpus_id })
    .first('organization_id', 'workspace_id', 'user_id');
  const spender = {
    organizationId: corpus.organization_id,
    workspaceId: corpus.workspace_id,
    userId: corpus.user_id,
    apiKeyId: null,
  };
  return { corpusId: corpus_id, identity, worker, spender };
}

async function bare(
  sql: Knex,
  { corpusId, identity }: Pick<Reindexing, 'corpusId' | 'identity'>,
  after: number,
  limit: number,
): Promise<BarePassage[]> {
  if (!(await keepsVectors(sql))) return [];
  const space = await sql('embedding_spaces').where({ identity }).first('number');
  const rows: { number: number; headings: string; text: string }[] = await sql('chunks')
    .join('searched_corpora', 'searched_corpora.number', 'chunks.corpus_number')
    .where('searched_corpora.corpus_id', corpusId)
    .where('chunks.number', '>', after)
    .whereNotExists(
      sql('refused_passages')
        .whereRaw('refused_passages.number = chunks.number')
        .where({ identity })
        .select(sql.raw('1')),
    )
    .whereNotExists(
      sql('chunk_vectors')
        .whereRaw('chunk_vectors.number = chunks.number')
        .where({ space: space?.number ?? 0 })
        .select(sql.raw('1')),
    )
    .orderBy('chunks.number')
    .limit(limit)
    .select('chunks.number', 'chunks.headings', 'chunks.text');
  return rows.map(({ number, headings, text }) => ({ number, text, headings: JSON.parse(headings) }));
}

/** Those that are still there: a document may have been taken in anew while its passages were embedded. */
async function writeStill(
  sql: Knex.Transaction,
  { corpusId, identity }: Reindexing,
  passages: readonly EmbeddedPassage[],
): Promise<void> {
  const corpus = await sql('searched_corpora')
    .where({ corpus_id: corpusId })
    .first('number', 'organization_id');
  if (!corpus) return;
  const numbers = passages.map(({ number }) => number);
  const still = new Set(await sql('chunks').whereIn('number', numbers).forUpdate().pluck('number'));
  await writeVectors(
    sql,
    corpus,
    identity,
    passages.filter(({ number }) => still.has(number)),
  );
}

/** Vectors by which no search looks any more: not of the embedder of their corpus, and not of the one it waits for. */
async function sweepVectors(sql: Knex.Transaction, most: number): Promise<number> {
  if (!(await keepsVectors(sql))) return 0;
  const useless: { number: number; space: number }[] = await sql('chunk_vectors')
    .join('embedding_spaces', 'embedding_spaces.number', 'chunk_vectors.space')
    .join('searched_corpora', 'searched_corpora.number', 'chunk_vectors.corpus_number')
    .join('corpora', 'corpora.id', 'searched_corpora.corpus_id')
    .whereNotNull('corpora.embedder_identity')
    .whereRaw('embedding_spaces.identity <> corpora.embedder_identity')
    .whereNotExists(sql('reindexings').whereRaw('reindexings.corpus_id = corpora.id').select(sql.raw('1')))
    .limit(most)
    .select('chunk_vectors.number', 'chunk_vectors.space');
  for (const [space, rows] of Map.groupBy(useless, (row) => row.space)) {
    const numbers = rows.map(({ number }) => number);
    for (const table of sql.client.config.client === 'pg'
      ? ['chunk_vectors']
      : ['chunk_vectors', 'chunk_codes'])
      await sql(table).where({ space }).whereIn('number', numbers).delete();
  }
  return useless.length;
}
