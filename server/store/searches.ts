/** Searches over what the caller's sessions hold: found by the index alone, told with the text around. */
import type { Knex } from 'knex';
import type { SearchHit, SessionSearch } from '../contract/api.ts';
import { type MessageRow, toMessage } from './messages.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import type { Reach } from './reach.ts';
import { type IndexingParts, indexAllNoted } from './search-backlog.ts';
import { findDocuments, type SearchKind, searchedText } from './search-index.ts';
import { type SearchTerm, searchTerms, wordsIn } from './search-words.ts';
import type { SessionRow } from './session-rows.ts';
import { timestamp } from './timestamps.ts';

/** The search of the contract; titles and messages are looked into unless it says otherwise. */
export type SearchQuery = Omit<SessionSearch, 'in'> & Partial<Pick<SessionSearch, 'in'>>;

export interface Searches {
  /** What was written last comes first. */
  find(reach: Reach, search: SearchQuery, page: PageQuery): Promise<Page<SearchHit>>;
  /** Lets searches find what processes that died have imported or forked. Answers with the number of sessions that are whole now. */
  catchUp(): Promise<number>;
}

interface FoundDocument {
  readonly session_id: string;
  readonly message_id: string | null;
  readonly kind: SearchKind;
}

export function searchRepository({ database, cursors, log }: StoreParts & IndexingParts): Searches {
  return {
    catchUp: () => indexAllNoted({ database, log }),
    find: (reach, search, page) =>
      // Ownership is the first of its words: the policies of PostgreSQL would keep a search from its index.
      database.read('installation', async (sql) => {
        const terms = searchTerms(search.query);
        // A query without a word asks for nothing.
        if (terms.length === 0 || reach.memberships.length === 0) return { data: [], next_cursor: null };
        const { query, place } = findIn(sql, reach, search, terms);
        const listing = {
          name: 'searches',
          reach,
          filters: search,
          columns: [place],
          direction: 'desc',
          parts: [query],
        } as const;
        const { data, next_cursor } = await readPage<FoundDocument>(sql, cursors, listing, page);
        return { data: await hitsOf(sql, data, terms), next_cursor };
      }),
  };
}

function findIn(
  sql: Knex,
  reach: Reach,
  { in: kinds = ['title', 'message'], workspace_id, session_id }: SearchQuery,
  terms: readonly SearchTerm[],
) {
  const found = findDocuments(sql, { reach, kinds, sessionId: session_id }, terms);
  if (workspace_id === undefined) return found;
  const { query, sessionId } = found;
  // Looked up for each that was found: as a join it would tempt the planner to begin with the workspace.
  query.whereRaw('(select workspace_id from sessions where sessions.id = ??) = ?', [sessionId, workspace_id]);
  return found;
}

async function hitsOf(
  sql: Knex,
  found: readonly FoundDocument[],
  terms: readonly SearchTerm[],
): Promise<SearchHit[]> {
  const sessions = await rowsById<SessionRow>(
    sql,
    'sessions',
    found.map(({ session_id }) => session_id),
  );
  const messages = await rowsById<MessageRow>(
    sql,
    'messages',
    found.map(({ message_id }) => message_id),
  );
  return found.flatMap(({ session_id, message_id, kind }) => {
    const session = sessions.get(session_id);
    const message = messages.get(message_id ?? '');
    if (!session || (message_id !== null && !message)) return [];
    const text = message && kind !== 'title' ? searchedText(toMessage(message).parts, kind) : session.title;
    const created_at = timestamp((message ?? session).created_at);
    return [{ kind, session_id, session_title: session.title, message_id, ...fit(text, terms), created_at }];
  });
}

async function rowsById<Row extends { readonly id: string }>(
  sql: Knex,
  table: string,
  ids: readonly (string | null)[],
): Promise<ReadonlyMap<string, Row>> {
  const wanted = [...new Set(ids)].filter((id) => id !== null);
  if (wanted.length === 0) return new Map();
  // The table is the one whose rows are of this type.
  const rows = (await sql(table).whereIn('id', wanted)) as Row[];
  return new Map(rows.map((row) => [row.id, row]));
}

const charactersBefore = 60;
const charactersInAll = 240;

/** The text around the first word found, and how many words stand there whole. */
function fit(text: string, terms: readonly SearchTerm[]): Pick<SearchHit, 'snippet' | 'score'> {
  const missing = new Set(terms.map(({ word }) => word));
  let first: number | null = null;
  for (const { word, start } of wordsIn(text)) {
    const begun = terms.some((term) => word === term.word || (term.prefix && word.startsWith(term.word)));
    if (begun) first ??= start;
    missing.delete(word);
    if (missing.size === 0) break;
  }
  // A word that only begins another counts half.
  return { snippet: cut(text, first ?? 0), score: 1 - missing.size / terms.length / 2 };
}

function cut(text: string, at: number): string {
  const start = at <= charactersBefore ? 0 : at - charactersBefore;
  const end = Math.min(text.length, start + charactersInAll);
  const part = text.slice(start, end).toWellFormed().replaceAll(/\s+/g, ' ').trim();
  return `${start > 0 ? '…' : ''}${part}${end < text.length ? '…' : ''}`;
}
