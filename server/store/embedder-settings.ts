/** Which embedder counts in this installation: what the operator has chosen, and what was chosen before. */
import type { Knex } from 'knex';
import type { EmbedderSettings as Shown } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { etagOfContent, requireTag } from './etag.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';
import { countStale, queueReindexings } from './reindexings.ts';
import { timestamp } from './timestamps.ts';

/** A model of a provider, as the operator has chosen it. */
export interface ChosenEmbedder {
  readonly identity: string;
  readonly providerSettingId: string | null;
  readonly provider: string | null;
  readonly model: string;
  readonly dimensions: number;
  /** Whether somebody wanted that length, so that the model is asked for it each time; else it is the model's own. */
  readonly asksDimensions: boolean;
}

export interface TaggedChoice {
  /** Null where the model of the machine embeds. */
  readonly chosen: ChosenEmbedder | null;
  readonly batchSize: number;
  readonly corpora: Shown['corpora'];
  readonly updatedAt: string | null;
  readonly etag: string;
}

export interface EmbedderChange {
  readonly chosen: ChosenEmbedder | null;
  readonly batchSize: number;
  /** What embeds from now on, whoever it is. */
  readonly identity: string;
  readonly ifMatch: string;
  readonly reindex: boolean;
}

/** What embeds, and the most texts of one request to it. */
export interface Choice {
  readonly chosen: ChosenEmbedder | null;
  readonly batchSize: number;
}

/** For the operator alone, which the access table has checked. */
export interface EmbedderSettings {
  /** What embeds now, and the most texts of one request to it. */
  chosen(): Promise<Choice>;
  /** What was chosen once, by what it is called; null where nothing was. */
  known(identity: string): Promise<Choice>;
  /** The same as `chosen`, with how far corpora are from it. `identity` is what embeds now, whoever it is. */
  read(identity: string): Promise<TaggedChoice>;
  /** Throws `precondition_failed` or `corpora_stale`. Answers with how many corpora are to be re-indexed. */
  change(operator: Reach, change: EmbedderChange): Promise<TaggedChoice>;
}

interface EmbedderRow {
  identity: string;
  provider_setting_id: string | null;
  provider: string | null;
  model: string;
  dimensions: number;
  /** 0 and 1 in SQLite. */
  asks_dimensions: boolean | number;
}

interface SettingsRow {
  id: number;
  identity: string | null;
  batch_size: number;
  revision: number;
  updated_at: number;
}

export function embedderSettings({ database, clock }: StoreParts): EmbedderSettings {
  const now = () => clock.now().getTime();
  return {
    chosen: () => database.read('installation', current),
    known: (identity) =>
      database.read('installation', async (sql) => {
        const { batchSize } = await current(sql);
        return { chosen: await named(sql, identity), batchSize };
      }),
    read: (identity) => database.read('installation', (sql) => tagged(sql, identity)),
    change: (operator, change) =>
      database.write('installation', async (sql) => {
        // There is one row at most, and none to hold before the first change: that of the installation is held instead.
        await sql('installation').where({ id: 1 }).forUpdate().first('id');
        const before = await tagged(sql, change.identity);
        requireTag(change.ifMatch, before.etag);
        // Those that no embedder has embedded so far lose nothing.
        const stale = await countStale(sql, change.identity, 'embedded');
        if (stale > 0 && !change.reindex) throw corporaStale(stale);
        await store(sql, change, now());
        await queueReindexings(sql, change.identity, now());
        const after = await tagged(sql, change.identity);
        recordAudit(sql, operator, {
          action: 'embedder.update',
          target: { type: 'installation', id: null },
          organizationId: null,
          before: told(before),
          after: told(after),
        });
        return after;
      }),
  };
}

async function store(
  sql: Knex.Transaction,
  { chosen, batchSize }: EmbedderChange,
  now: number,
): Promise<void> {
  if (chosen) await sql<EmbedderRow>('embedders').insert(rowOf(chosen)).onConflict('identity').merge();
  const row = await sql<SettingsRow>('embedder_settings').where({ id: 1 }).first();
  const next = {
    ...{ id: 1, identity: chosen?.identity ?? null, batch_size: batchSize },
    ...{ revision: (row?.revision ?? 0) + 1, updated_at: now },
  };
  await sql<SettingsRow>('embedder_settings').insert(next).onConflict('id').merge();
}

interface Current extends Choice {
  readonly row: SettingsRow | undefined;
}

/** Where nobody has said another: some seconds of a provider. */
const usualBatch = 64;

async function current(sql: Knex): Promise<Current> {
  const row = await sql<SettingsRow>('embedder_settings').where({ id: 1 }).first();
  const chosen = row?.identity ? await named(sql, row.identity) : null;
  return { row, chosen, batchSize: row?.batch_size ?? usualBatch };
}

async function named(sql: Knex, identity: string): Promise<ChosenEmbedder | null> {
  const row = await sql<EmbedderRow>('embedders').where({ identity }).first();
  return row ? toChosen(row) : null;
}

async function tagged(sql: Knex, identity: string): Promise<TaggedChoice> {
  const { row, chosen, batchSize } = await current(sql);
  const stale = await countStale(sql, identity, 'any');
  const failed = await sql('reindexings').whereNotNull('error').orderBy('corpus_id').first('error');
  return {
    chosen,
    batchSize,
    corpora: { stale, error: failed?.error ?? null },
    updatedAt: row ? timestamp(row.updated_at) : null,
    etag: etagOfContent([chosen, row?.revision ?? 0]),
  };
}

function corporaStale(count: number): Problem {
  const corpora = count === 1 ? 'One corpus has' : `${count} corpora have`;
  return new Problem(
    'corpora_stale',
    `${corpora} vectors of another embedder. Repeat the change with reindex=true: they are embedded anew in the background, and searches go on with the old vectors meanwhile.`,
  );
}

function told({ chosen, batchSize: batch_size }: Choice) {
  if (!chosen) return { embedder: 'embedded', batch_size };
  const { providerSettingId: provider_setting_id, asksDimensions: _, ...rest } = chosen;
  return { ...rest, provider_setting_id, batch_size };
}

function rowOf({ providerSettingId, asksDimensions, ...rest }: ChosenEmbedder): EmbedderRow {
  return { ...rest, provider_setting_id: providerSettingId, asks_dimensions: asksDimensions };
}

function toChosen({ provider_setting_id, asks_dimensions, ...rest }: EmbedderRow): ChosenEmbedder {
  return { ...rest, providerSettingId: provider_setting_id, asksDimensions: Boolean(asks_dimensions) };
}
