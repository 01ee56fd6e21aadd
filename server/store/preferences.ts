/** How a person wants things: their own row, which is there once they have chosen something. */
import type { Knex } from 'knex';
import type { Preferences, PreferencesUpdate } from '../contract/api.ts';
import { etagOf, requireMatch } from './etag.ts';
import type { StoreParts } from './parts.ts';
import { type Reach, requireWholeReach } from './reach.ts';
import { remembered } from './remembered.ts';
import { nullableTimestamp } from './timestamps.ts';

export interface TaggedPreferences {
  readonly preferences: Preferences;
  readonly etag: string;
}

/** The caller's own. */
export interface PreferenceStore {
  find(reach: Reach): Promise<TaggedPreferences>;
  /** The model that a person's queries mean which name none; null where they have chosen none. */
  preferredModel(userId: string): Promise<string | null>;
  /** A merge patch. Throws `role_required` or `precondition_failed`. */
  update(reach: Reach, patch: PreferencesUpdate, ifMatch?: string | undefined): Promise<TaggedPreferences>;
}

interface PreferencesRow {
  user_id: string;
  locale: string | null;
  timezone: string | null;
  theme: Preferences['theme'];
  default_model: string | null;
  notifications: string;
  memories: boolean;
  revision: number;
  updated_at: number | null;
}

const notifyOfAll: Preferences['notifications'] = {
  run_finished: true,
  question_asked: true,
  security: true,
};

export function preferenceRepository({ database, clock }: StoreParts): PreferenceStore {
  // Asked for each query: no transaction of its own names for whom.
  const chosen = remembered(
    database,
    (userId) => userId,
    (userId: string) => database.read('installation', (sql) => read(sql, userId)),
  );
  return {
    preferredModel: async (userId) => (await chosen(userId)).default_model,
    find: (reach) => database.read(reach, async (sql) => tagged(await read(sql, reach.userId))),
    update: (reach, patch, ifMatch) =>
      database.write(reach, async (sql) => {
        requireWholeReach(reach);
        // The row of the person, since there may be none here to lock.
        await sql('users').where({ id: reach.userId }).forUpdate().first('id');
        const row = await read(sql, reach.userId);
        requireMatch(ifMatch, row);
        const changed = {
          ...patched(row, patch),
          revision: row.revision + 1,
          updated_at: clock.now().getTime(),
        };
        await sql('user_preferences').insert(changed).onConflict('user_id').merge();
        return tagged(changed);
      }),
  };
}

async function read(sql: Knex, userId: string): Promise<PreferencesRow> {
  const row = await sql<PreferencesRow>('user_preferences').where({ user_id: userId }).first();
  const nothing = { locale: null, timezone: null, theme: 'auto' as const, default_model: null };
  return (
    row ?? {
      user_id: userId,
      ...nothing,
      notifications: JSON.stringify(notifyOfAll),
      memories: true,
      revision: 0,
      updated_at: null,
    }
  );
}

function patched(row: PreferencesRow, patch: PreferencesUpdate): PreferencesRow {
  const { locale, timezone, theme, default_model, notifications, memories } = patch;
  return {
    ...row,
    ...(locale !== undefined && { locale }),
    ...(timezone !== undefined && { timezone }),
    ...(theme !== undefined && { theme: theme ?? 'auto' }),
    ...(default_model !== undefined && { default_model }),
    ...(memories !== undefined && { memories: memories ?? true }),
    notifications: JSON.stringify({ ...JSON.parse(row.notifications), ...notifications }),
  };
}

function shown({ locale, timezone, theme, default_model, notifications, memories }: PreferencesRow) {
  const parsed: Preferences['notifications'] = JSON.parse(notifications);
  // SQLite has numbers for what is true.
  return { locale, timezone, theme, default_model, notifications: parsed, memories: Boolean(memories) };
}

function tagged(row: PreferencesRow): TaggedPreferences {
  return { preferences: { ...shown(row), updated_at: nullableTimestamp(row.updated_at) }, etag: etagOf(row) };
}
