/** The index of memories: the words of each, beside marks of whose it is, which every look into it names first. */
import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import { termsIn } from './chunk-terms.ts';
import type { MemoryOwner } from './memory-owners.ts';
import { type MemoryRow, unexpired } from './memory-rows.ts';
import { type Reach, wholeOrganizations } from './reach.ts';
import { type SearchTerm, wordsIn } from './search-words.ts';

/** What a memory is found by. */
type IndexedMemory = Pick<
  MemoryRow,
  'id' | 'organization_id' | 'private_to' | 'workspace_id' | 'owner_key' | 'content' | 'tags'
>;

function isSqlite(sql: Knex): boolean {
  return sql.client.config.client === 'sqlite3';
}

/** Writes a memory where searches look, in place of what it said before. */
export async function indexMemory(sql: Knex.Transaction, row: IndexedMemory): Promise<void> {
  const { id: memory_id, organization_id } = row;
  await sql('memory_documents').where({ memory_id }).delete();
  const text = searchedText(row);
  // As they are written for who looks for beginnings, and without their endings for who asks a question.
  const words = new Set([...[...wordsIn(text)].map(({ word }) => word), ...termsIn(text).keys()]);
  words.delete('');
  for (const mark of marksOf(row)) words.add(mark);
  if (isSqlite(sql)) {
    const [id] = await sql('memory_documents').insert({ memory_id, organization_id });
    await sql.raw('insert into memory_words (rowid, words) values (?, ?)', [
      id ?? null,
      [...words].join(' '),
    ]);
    return;
  }
  const vector = [...words].map(quoted).join(' ');
  await sql('memory_documents').insert({
    memory_id,
    organization_id,
    words: sql.raw('?::tsvector', [vector]),
  });
}

/** All that a memory is found by. */
export function searchedText({ content, tags }: Pick<MemoryRow, 'content' | 'tags'>): string {
  return [content, ...(JSON.parse(tags) as string[])].join('\n'); // an array of strings is all that is stored
}

/** What a caller reaches, as the index knows it. */
export function marksOfReach(reach: Reach): string[] {
  const own =
    reach.workspaceId === undefined ? reach.organizationIds.map((id) => personMark(id, reach.userId)) : [];
  return [...own, ...wholeOrganizations(reach).map(mark), ...reach.workspaces.map(({ id }) => mark(id))];
}

/** What one owner has. */
export function markOfOwner({ owner_key }: Pick<MemoryOwner, 'owner_key'>): string {
  // Slugs have signs that part words.
  return `@${createHash('sha256').update(owner_key).digest('hex').slice(0, 32)}`;
}

/**
 * The memories that hold any term, or all of them, the newest first, as a query of their rows. `marks` says whose; there
 * are some.
 */
export function findMemories(
  sql: Knex,
  marks: readonly string[],
  terms: readonly SearchTerm[],
  wanted: { readonly all: boolean; readonly now: number },
): Knex.QueryBuilder<MemoryRow, MemoryRow[]> {
  if (isSqlite(sql)) {
    const matching = sql('memory_words')
      .join('memory_documents', 'memory_documents.id', 'memory_words.rowid')
      .join('memories', 'memories.id', 'memory_documents.memory_id')
      .whereRaw('memory_words match ?', [expression(marks, terms, wanted.all, fts)]);
    return unexpired(matching, wanted.now)
      .select<MemoryRow[]>('memories.*')
      .orderBy('memory_words.rowid', 'desc');
  }
  const matching = sql
    .from(sql.raw('memory_documents_with(?::tsquery, null)', [expression(marks, terms, wanted.all, tsquery)]))
    .select('id as place', 'memory_id');
  // Found in full before it is joined: else the planner may walk every memory and look at each.
  const joined = sql('found')
    .withMaterialized('found', matching)
    .join('memories', 'memories.id', 'found.memory_id');
  return unexpired(joined, wanted.now).select<MemoryRow[]>('memories.*').orderBy('found.place', 'desc');
}

// No word begins like this, so that no query can spell one.
const mark = (id: string) => `@${id}`;
const personMark = (organizationId: string, userId: string) => `@${organizationId}_${userId}`;

/** Whoever reaches the organization or the workspace finds what is shared there, and nobody else what is one person's. */
function marksOf(row: IndexedMemory): string[] {
  const { organization_id, private_to, workspace_id } = row;
  const owner = markOfOwner(row);
  if (private_to !== null) return [owner, personMark(organization_id, private_to)];
  return [owner, mark(organization_id), ...(workspace_id === null ? [] : [mark(workspace_id)])];
}

interface Spelling {
  readonly quote: (word: string) => string;
  readonly and: string;
  readonly or: string;
  readonly prefix: string;
}

const quoted = (word: string) => `'${word}'`;
const fts: Spelling = { quote: (word) => `"${word}"`, and: ' AND ', or: ' OR ', prefix: ' *' };
const tsquery: Spelling = { quote: quoted, and: ' & ', or: ' | ', prefix: ':*' };

/** Both engines know words in quotes, brackets and signs for `and` and `or`; our words hold none of these. */
function expression(
  marks: readonly string[],
  terms: readonly SearchTerm[],
  all: boolean,
  { quote, and, or, prefix }: Spelling,
): string {
  const words = terms.map((term) => quote(term.word) + (term.prefix ? prefix : ''));
  return `(${marks.map(quote).join(or)})${and}(${words.join(all ? and : or)})`;
}
