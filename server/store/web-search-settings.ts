/** How the web is searched in this installation, as the operator has set it. */
import type { Knex } from 'knex';
import type { WebSearchSettings as Shown, WebSearchChanged, WebSearchEngineName } from '../contract/api.ts';
import { recordAudit } from './audit.ts';
import type { Database } from './database.ts';
import { etagOfContent, requireTag } from './etag.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';
import { remembered } from './remembered.ts';
import { timestamp } from './timestamps.ts';
import { tellEach } from './workspace-events.ts';

type Rules = Pick<Shown, 'max_results' | 'safe_search' | 'allow_domains' | 'deny_domains'>;

/** What a change can set. */
export interface KeptWebSearch extends Rules {
  readonly engine: WebSearchEngineName | null;
  readonly base_url: string | null;
  readonly sealed_api_key: string | null;
}

/** Null where nothing was ever set. */
export interface StoredWebSearch extends KeptWebSearch {
  readonly updated_at: string | null;
}

export interface TaggedWebSearch {
  readonly kept: StoredWebSearch;
  readonly etag: string;
}

export interface WebSearchChange {
  readonly ifMatch: string;
  /** What the settings say besides what is kept: with another one the tag is another. */
  readonly mark: string | null;
  /** What is to be kept. May throw. */
  merge(before: KeptWebSearch): KeptWebSearch;
}

/** For the operator alone, which the access table has checked; `current` is for whoever searches. */
export interface WebSearchSettings {
  current(): Promise<StoredWebSearch>;
  read(mark: string | null): Promise<TaggedWebSearch>;
  /** Throws `precondition_failed`, or what `merge` throws. */
  change(operator: Reach, change: WebSearchChange): Promise<TaggedWebSearch>;
}

interface SettingsRow extends Omit<KeptWebSearch, 'allow_domains' | 'deny_domains'> {
  readonly id: 1;
  readonly allow_domains: string;
  readonly deny_domains: string;
  readonly revision: number;
  readonly updated_at: number;
}

/** What a sealed key is bound to. */
export const webSearchKeyRow = 'web_search_settings/1';

const nothingSet: StoredWebSearch = {
  ...{ engine: null, base_url: null, sealed_api_key: null },
  ...{ max_results: 10, safe_search: 'moderate', allow_domains: [], deny_domains: [], updated_at: null },
};

export function webSearchSettings({ database, clock }: StoreParts): WebSearchSettings {
  // Asked at each step of a run.
  const current = remembered(
    database,
    () => '',
    async () => toKept(await rowIn(database)),
  );
  return {
    current: () => current(null),
    read: async (mark) => tagged(await rowIn(database), mark),
    change: (operator, { ifMatch, mark, merge }) =>
      database.write('installation', async (sql) => {
        // There is one row at most, and none to hold before the first change: that of the installation is held instead.
        await sql('installation').where({ id: 1 }).forUpdate().first('id');
        const before = await settingsRow(sql);
        requireTag(ifMatch, tagged(before, mark).etag);
        const next = merge(toKept(before));
        const row = toRow(next, (before?.revision ?? 0) + 1, clock.now().getTime());
        await sql('web_search_settings').insert(row).onConflict('id').merge();
        recordAudit(sql, operator, {
          action: 'web_search.update',
          target: { type: 'installation', id: null },
          organizationId: null,
          before: told(toKept(before)),
          after: told(next),
        });
        const event: WebSearchChanged = { type: 'web_search_changed', engine: next.engine };
        tellEach(sql, sql('workspaces'), { type: event.type, event }, row.updated_at);
        return tagged(row, mark);
      }),
  };
}

function rowIn(database: Database): Promise<SettingsRow | undefined> {
  return database.read('installation', settingsRow);
}

async function settingsRow(sql: Knex): Promise<SettingsRow | undefined> {
  return await sql<SettingsRow>('web_search_settings').where({ id: 1 }).first();
}

function tagged(row: SettingsRow | undefined, mark: string | null): TaggedWebSearch {
  return { kept: toKept(row), etag: etagOfContent([row?.revision ?? 0, mark]) };
}

/** That the key is another one is told, and not which. */
function told({ sealed_api_key, ...kept }: KeptWebSearch) {
  const { engine, base_url, max_results, safe_search, allow_domains, deny_domains } = kept;
  return { engine, base_url, max_results, safe_search, allow_domains, deny_domains, api_key: sealed_api_key };
}

function toRow(kept: KeptWebSearch, revision: number, updated_at: number): SettingsRow {
  const { engine, base_url, sealed_api_key, max_results, safe_search } = kept;
  return {
    ...{ id: 1, engine, base_url, sealed_api_key, max_results, safe_search, revision, updated_at },
    allow_domains: JSON.stringify(kept.allow_domains),
    deny_domains: JSON.stringify(kept.deny_domains),
  };
}

function toKept(row: SettingsRow | undefined): StoredWebSearch {
  if (!row) return nothingSet;
  const { engine, base_url, sealed_api_key, max_results, safe_search } = row;
  return {
    ...{ engine, base_url, sealed_api_key, max_results, safe_search },
    allow_domains: JSON.parse(row.allow_domains),
    deny_domains: JSON.parse(row.deny_domains),
    updated_at: timestamp(row.updated_at),
  };
}
