/** What the providers of stored settings list themselves: the last list that came, and the last look. */
import type { Knex } from 'knex';
import { etagOfContent } from './etag.ts';
import type { StoreParts } from './parts.ts';

/** What is known of the models of a setting by its provider. */
export interface DiscoveredModels {
  /** Where they were found. */
  readonly place: string;
  /** As JSON; null where it is more than can have been written here. */
  readonly models: string | null;
  readonly discoveredAt: number | null;
  readonly checkedAt: number | null;
  /** Why the last look brought nothing. */
  readonly fault: string | null;
  /** Whether some node looks now. */
  readonly refreshing: boolean;
}

/** That the setting is within reach has been checked. */
export interface ProviderModels {
  find(settingId: string): Promise<DiscoveredModels | null>;
  /** True for the one who may look, until then. What was found at another place is forgotten. */
  claim(settingId: string, place: string, until: number): Promise<boolean>;
  /** Keeps what a look has brought, unless the setting points elsewhere by now. */
  found(settingId: string, place: string, models: readonly object[]): Promise<void>;
  /** What was found before stays. */
  failed(settingId: string, place: string, fault: string): Promise<void>;
}

interface DiscoveredRow {
  setting_id: string;
  place: string;
  models: string;
  mark: string;
  discovered_at: number | null;
  checked_at: number | null;
  fault: string | null;
  refreshing_until: number | null;
}

interface ReadRow extends Omit<DiscoveredRow, 'setting_id' | 'mark' | 'models'> {
  models: string | null;
}

/** In characters. Nothing longer is read, however it came there: it is read for model calls. */
const longestList = 2_000_000;

export function providerModelsRepository({ database, clock }: StoreParts): ProviderModels {
  const now = (): number => clock.now().getTime();
  return {
    find: (settingId) =>
      database.read('installation', async (sql) => {
        const readable = sql.raw('case when length(models) <= ? then models end as models', [longestList]);
        const row: ReadRow | undefined = await sql('provider_models')
          .where({ setting_id: settingId })
          .first('place', 'discovered_at', 'checked_at', 'fault', 'refreshing_until', readable);
        return row ? toDiscovered(row, now()) : null;
      }),
    claim: (settingId, place, until) =>
      database.write('installation', async (sql) => {
        const nothing = { ...contentOf([]), discovered_at: null, checked_at: null, fault: null };
        const row: DiscoveredRow = { setting_id: settingId, place, ...nothing, refreshing_until: null };
        await sql('provider_models').insert(row).onConflict('setting_id').ignore();
        await rows(sql).where({ setting_id: settingId }).whereNot({ place }).update(row);
        const free = rows(sql)
          .where({ setting_id: settingId })
          .where((claim) => claim.whereNull('refreshing_until').orWhere('refreshing_until', '<=', now()));
        return (await free.update({ refreshing_until: until })) === 1;
      }),
    found: (settingId, place, models) =>
      database.write('installation', async (sql) => {
        const looked = { discovered_at: now(), checked_at: now(), fault: null, refreshing_until: null };
        await rows(sql)
          .where({ setting_id: settingId, place })
          .update({ ...contentOf(models), ...looked });
      }),
    failed: (settingId, place, fault) =>
      database.write('installation', async (sql) => {
        await rows(sql)
          .where({ setting_id: settingId, place })
          .update({ fault, checked_at: now(), refreshing_until: null });
      }),
  };
}

function rows(sql: Knex) {
  return sql<DiscoveredRow>('provider_models');
}

function contentOf(models: readonly object[]) {
  const text = JSON.stringify(models);
  return { models: text, mark: etagOfContent(text) };
}

function toDiscovered(row: ReadRow, now: number): DiscoveredModels {
  const { place, models, discovered_at, checked_at, fault, refreshing_until } = row;
  return {
    ...{ place, models, fault },
    discoveredAt: discovered_at,
    checkedAt: checked_at,
    refreshing: refreshing_until !== null && refreshing_until > now,
  };
}
