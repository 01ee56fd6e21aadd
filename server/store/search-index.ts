/** The index for searches: what was said in titles, messages and tool calls, written in the transaction that says it. */
import type { Knex } from 'knex';
import type { MessagePart } from '../contract/api.ts';
import { insertRows } from './insert-rows.ts';
import { type Reach, wholeOrganizations, within } from './reach.ts';
import { type SearchTerm, wordsIn } from './search-words.ts';

export type SearchKind = 'title' | 'message' | 'tool';

export interface TitledSession {
  readonly id: string;
  readonly organization_id: string;
  readonly workspace_id: string;
  readonly title: string;
}

export interface SearchedMessage {
  readonly id: string;
  readonly organization_id: string;
  readonly workspace_id: string;
  readonly session_id: string;
  readonly parts: readonly MessagePart[];
}

/** Where a search looks; ownership is the first of its words. */
export interface SearchScope {
  readonly reach: Reach;
  readonly kinds: readonly SearchKind[];
  readonly sessionId?: string | undefined;
}

interface SearchDocument {
  readonly organization_id: string;
  readonly workspace_id: string;
  readonly session_id: string;
  readonly message_id: string | null;
  readonly kind: SearchKind;
}

function isSqlite(sql: Knex): boolean {
  return sql.client.config.client === 'sqlite3';
}

/** Writes the title of a session where searches look, in place of an earlier one. */
export async function indexTitle(sql: Knex.Transaction, session: TitledSession): Promise<void> {
  await sql('search_documents').where({ session_id: session.id, kind: 'title' }).delete();
  await indexNewTitle(sql, session);
}

/** The same of a session that had none. */
export async function indexNewTitle(
  sql: Knex.Transaction,
  { id: session_id, organization_id, workspace_id, title }: TitledSession,
): Promise<void> {
  const document = { organization_id, workspace_id, session_id, message_id: null, kind: 'title' as const };
  const words = wordsOf(document, title);
  if (words.length > 0) await insertDocuments(sql, [{ document, words }]);
}

/** So many documents are written at once, and no more once so many characters have come together. */
const documentsAtOnce = 100;
const charactersAtOnce = 1_000_000;

/** Writes messages where searches look: what was said, and what their tool calls asked and gave. */
export async function indexMessages(
  sql: Knex.Transaction,
  messages: readonly SearchedMessage[],
): Promise<void> {
  let batch: IndexedDocument[] = [];
  let characters = 0;
  for (const message of messages) {
    const documents = documentsOf(message);
    batch.push(...documents);
    characters += charactersIn(documents);
    if (batch.length < documentsAtOnce && characters < charactersAtOnce) continue;
    await insertDocuments(sql, batch);
    [batch, characters] = [[], 0];
  }
  await insertDocuments(sql, batch);
}

/** What a message is found by: nothing, where it has no words. */
export function documentsOf(message: SearchedMessage): readonly IndexedDocument[] {
  const { id: message_id, organization_id, workspace_id, session_id, parts } = message;
  return (['message', 'tool'] as const).flatMap((kind) => {
    const document = { organization_id, workspace_id, session_id, message_id, kind };
    const words = wordsOf(document, searchedText(parts, kind));
    return words.length === 0 ? [] : [{ document, words }];
  });
}

export function charactersIn(documents: readonly IndexedDocument[]): number {
  let sum = 0;
  for (const { words } of documents) for (const { length } of words) sum += length;
  return sum;
}

/**
 * Takes messages out of the index. In one statement: SQLite tidies its index up after each, which took a minute for the
 * messages of one session.
 */
export async function forgetMessages(sql: Knex.Transaction, ids: readonly string[]): Promise<void> {
  if (ids.length === 0) return;
  const found = isSqlite(sql)
    ? sql.raw('message_id in (select value from json_each(?))', [JSON.stringify(ids)])
    : sql.raw('message_id = any(?)', [[...ids]]);
  await sql('search_documents').where(found).delete();
}

/** The text of a message that a search of this kind looks into. What a model only thought is not what was said. */
export function searchedText(parts: readonly MessagePart[], kind: 'message' | 'tool'): string {
  const texts = parts.flatMap((part) => {
    if (part.type === 'text') return kind === 'message' ? [part.text] : [];
    if (kind !== 'tool') return [];
    if (part.type === 'tool_use') return [`${part.name} ${textsIn(part.input).join(' ')}`];
    return part.type === 'tool_result' ? [part.content] : [];
  });
  return texts.join('\n');
}

/**
 * The documents that hold every term, as a query of rows `{session_id, message_id, kind}` and their place.
 */
export function findDocuments(sql: Knex, scope: SearchScope, terms: readonly SearchTerm[]): FoundDocuments {
  const columns = ['session_id', 'message_id', 'kind'].map((name) => `search_documents.${name}`);
  if (isSqlite(sql)) {
    const matching = sql('search_words')
      .join('search_documents', 'search_documents.id', 'search_words.rowid')
      .whereRaw('search_words match ?', [expression(scope, terms, ftsWord)]);
    const query = within(matching, scope.reach, 'search_documents').select('search_words.rowid', ...columns);
    return { query, place: 'search_words.rowid', sessionId: 'search_documents.session_id' };
  }
  const matching = sql.from(
    sql.raw('search_documents_with(?::tsquery, null) as search_documents', [
      expression(scope, terms, tsWord),
    ]),
  );
  const found = within(matching, scope.reach).select('id', ...columns);
  // Found in full before it is ordered: else the planner may walk the whole table in its order and look at each row.
  return {
    query: sql('found').withMaterialized('found', found).select('found.*'),
    place: 'found.id',
    sessionId: 'found.session_id',
  };
}

/** A query, and the names of its columns, which differ so that the index's own order serves. */
export interface FoundDocuments {
  readonly query: Knex.QueryBuilder;
  /** Rises with the time of writing. */
  readonly place: string;
  readonly sessionId: string;
}

/** Both engines know words in quotes, brackets and signs for `and` and `or`; our words hold none of these. */
function expression(
  { reach, kinds, sessionId }: SearchScope,
  terms: readonly SearchTerm[],
  { quote, and, or, prefix }: Spelling,
): string {
  const anyOf = (marks: readonly string[]) => `(${marks.map(quote).join(or)})`;
  return [
    anyOf([...wholeOrganizations(reach), ...reach.workspaces.map(({ id }) => id)].map(ownerMark)),
    anyOf(kinds.map(kindMark)),
    ...(sessionId === undefined ? [] : [quote(sessionMark(sessionId))]),
    ...terms.map((term) => quote(term.word) + (term.prefix ? prefix : '')),
  ].join(and);
}

interface Spelling {
  readonly quote: (word: string) => string;
  readonly and: string;
  readonly or: string;
  readonly prefix: string;
}

const ftsWord: Spelling = { quote: (word) => `"${word}"`, and: ' AND ', or: ' OR ', prefix: ' *' };
const tsWord: Spelling = { quote: (word) => `'${word}'`, and: ' & ', or: ' | ', prefix: ':*' };

// No word begins like this, so that no query can spell one.
/** Of an organization or a workspace. */
const ownerMark = (id: string) => `@${id}`;
const sessionMark = (sessionId: string) => `@${sessionId}`;
const kindMark = (kind: SearchKind) => `@${kind}`;

export interface IndexedDocument {
  readonly document: SearchDocument;
  readonly words: readonly string[];
}

/** Of one text; PostgreSQL has room for a mebibyte, marks included. */
const mostWordBytes = 900_000;

/** Each once, with the marks of the document; none where there is nothing to find. */
function wordsOf(document: SearchDocument, text: string): readonly string[] {
  const words = new Set<string>();
  let bytes = 0;
  for (const { word } of wordsIn(text)) {
    if (word === '' || words.has(word)) continue;
    bytes += Buffer.byteLength(word);
    if (bytes > mostWordBytes) break;
    words.add(word);
  }
  if (words.size === 0) return [];
  const { organization_id, workspace_id, session_id, kind } = document;
  return [
    ...words,
    ownerMark(organization_id),
    ownerMark(workspace_id),
    sessionMark(session_id),
    kindMark(kind),
  ];
}

export async function insertDocuments(
  sql: Knex.Transaction,
  batch: readonly IndexedDocument[],
): Promise<void> {
  if (batch.length === 0) return;
  if (isSqlite(sql)) {
    const ids = new Map<string, number>();
    for (let start = 0; start < batch.length; start += documentsAtOnce) {
      const rows: (SearchDocument & { readonly id: number })[] = await sql('search_documents')
        .insert(batch.slice(start, start + documentsAtOnce).map(({ document }) => document))
        .returning(['id', 'message_id', 'kind']);
      // In which order they come back is not said.
      for (const row of rows) ids.set(placeIn(row), row.id);
    }
    const values = batch.flatMap(({ document, words }) => [
      ids.get(placeIn(document)) ?? null,
      words.join(' '),
    ]);
    const marks = batch.map(() => '(?, ?)').join(', ');
    await sql.raw(`insert into search_words (rowid, words) values ${marks}`, values);
    return;
  }
  const rows = batch.map(({ document, words }) => {
    const vector = words.map(tsWord.quote).join(' ');
    return { ...document, words: sql.raw('?::tsvector', [vector]) };
  });
  await insertRows(sql, 'search_documents', rows);
}

/** Tells apart what is written at once. */
function placeIn({ message_id, kind }: Pick<SearchDocument, 'message_id' | 'kind'>): string {
  return `${kind} ${message_id ?? ''}`;
}

/** A model may nest what it writes as deep as it likes. */
const deepest = 20;

/** Every string in a tool's input, and the names that it gave them. */
function textsIn(value: unknown, depth = 0): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value === 'number') return [String(value)];
  if (typeof value !== 'object' || value === null || depth > deepest) return [];
  return Object.entries(value).flatMap(([name, member]) =>
    Array.isArray(value) ? textsIn(member, depth + 1) : [name, ...textsIn(member, depth + 1)],
  );
}
