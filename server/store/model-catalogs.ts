/** Catalogues of models: the operator's own, the one that the environment names, and which URL is due to be asked. */
import type { Knex } from 'knex';
import type { Catalog, CatalogModel, CatalogSummary } from '../contract/api.ts';
import { newId } from '../ids.ts';
import { Problem } from '../problem.ts';
import { recordAudit } from './audit.ts';
import { isDuplicate } from './database-errors.ts';
import { etagOf, etagOfContent, requireMatch } from './etag.ts';
import { type Page, type PageQuery, readPage } from './page.ts';
import type { StoreParts } from './parts.ts';
import { notFound, type Reach } from './reach.ts';
import { timestamp } from './timestamps.ts';

export interface TaggedCatalog {
  readonly catalog: Catalog;
  /** Of what the operator has written: what a URL brings changes without it. */
  readonly etag: string;
}

/** What the operator writes; `url` where the models came from one, and the version that it gave them. */
export interface NewCatalog {
  readonly name: string;
  readonly url: string | null;
  readonly models: readonly CatalogModel[];
  readonly version: string | null;
  /** When the URL may be asked again. */
  readonly nextCheckAt: number | null;
}

/** A URL that is to be asked, by the one who was given it. */
export interface DueCatalog {
  readonly id: string;
  readonly source: CatalogSummary['source'];
  readonly url: string;
  readonly version: string | null;
  /** How often it gave nothing since it last gave something. */
  readonly failures: number;
}

/** What a look at a URL has brought: what is new, that nothing is, or why nothing came. */
export type CatalogLook =
  | { readonly models: readonly CatalogModel[]; readonly version: string | null }
  | { readonly unchanged: true }
  | { readonly fault: string };

/** A catalogue as nodes compare it with what they have. */
export interface CatalogMark {
  readonly id: string;
  readonly source: CatalogSummary['source'];
  readonly mark: string;
}

/** For the operator alone, which the access table has checked; and for the server itself. */
export interface ModelCatalogs {
  list(operator: Reach, query: PageQuery): Promise<Page<CatalogSummary>>;
  create(operator: Reach, input: NewCatalog): Promise<TaggedCatalog>;
  find(id: string): Promise<TaggedCatalog | null>;
  /** Throws `not_found`, `set_by_environment` or `precondition_failed`, as `replace` and `delete` would. */
  requireWritable(id: string, ifMatch: string | undefined): Promise<void>;
  replace(
    operator: Reach,
    id: string,
    input: NewCatalog,
    ifMatch: string | undefined,
  ): Promise<TaggedCatalog>;
  delete(operator: Reach, id: string, ifMatch: string | undefined): Promise<void>;
  /** Makes the catalogue that the environment names the only one of its kind; null where it names none. */
  setEnvironment(url: string | null): Promise<void>;
  /** All of them, that which counts most last. */
  marks(): Promise<CatalogMark[]>;
  modelsOf(id: string): Promise<readonly CatalogModel[]>;
  /** Gives a URL that is due to one node alone, until then; null where none is. */
  claimDue(until: number): Promise<DueCatalog | null>;
  /** Keeps what a look has brought, unless the catalogue has another URL by now. */
  looked(due: DueCatalog, look: CatalogLook, nextCheckAt: number): Promise<void>;
}

interface CatalogRow {
  id: string;
  source: CatalogSummary['source'];
  name: string;
  url: string | null;
  models: string;
  model_count: number;
  mark: string;
  version: string | null;
  fetched_at: number | null;
  checked_at: number | null;
  next_check_at: number | null;
  failures: number;
  fault: string | null;
  revision: number;
  created_at: number;
  updated_at: number;
}

type SummaryRow = Omit<CatalogRow, 'models'>;

/** Of a list: all but the models, which may be megabytes. */
const summary: readonly (keyof SummaryRow)[] = [
  ...(['id', 'source', 'name', 'url', 'model_count', 'mark', 'fetched_at', 'checked_at'] as const),
  ...(['fault', 'revision', 'created_at', 'updated_at'] as const),
];

// The rows belong to the installation: the operator alone is let through to them.
export function modelCatalogRepository({ database, clock, cursors }: StoreParts): ModelCatalogs {
  const now = (): number => clock.now().getTime();
  const writable = async (sql: Knex, id: string, ifMatch: string | undefined): Promise<CatalogRow> => {
    const row = await sql<CatalogRow>('model_catalogs').where({ id }).forUpdate().first();
    if (!row) throw notFound('catalogue of models');
    if (row.source === 'environment') throw ofEnvironment();
    requireMatch(ifMatch, row);
    return row;
  };
  return {
    list: (operator, query) =>
      database.read('installation', async (sql) => {
        const listing = {
          name: 'model catalogs',
          reach: operator,
          filters: {},
          columns: ['created_at', 'id'],
          direction: 'asc',
          parts: [sql('model_catalogs').select([...summary])],
        } as const;
        const { data, next_cursor } = await readPage<SummaryRow>(sql, cursors, listing, query);
        return { data: data.map(toSummary), next_cursor };
      }),
    create: (operator, input) =>
      database.write('installation', async (sql) => {
        const times = { created_at: now(), updated_at: now() };
        const fixed = { id: newId('catalog'), source: 'setting', revision: 1, ...times } as const;
        const row: CatalogRow = { ...fixed, ...columnsOf(input, now()) };
        await sql('model_catalogs').insert(row);
        recordAudit(sql, operator, { ...changeOf(row, 'create'), after: told(row) });
        return tagged(row);
      }),
    find: (id) =>
      database.read('installation', async (sql) => {
        const row = await sql<CatalogRow>('model_catalogs').where({ id }).first();
        return row ? tagged(row) : null;
      }),
    requireWritable: (id, ifMatch) =>
      database.read('installation', async (sql) => {
        const row = await sql<CatalogRow>('model_catalogs').where({ id }).first('source', 'revision');
        if (!row) throw notFound('catalogue of models');
        if (row.source === 'environment') throw ofEnvironment();
        requireMatch(ifMatch, row);
      }),
    replace: (operator, id, input, ifMatch) =>
      database.write('installation', async (sql) => {
        const before = await writable(sql, id, ifMatch);
        const changes = { ...columnsOf(input, now()), revision: before.revision + 1, updated_at: now() };
        await sql<CatalogRow>('model_catalogs').where({ id }).update(changes);
        const row = { ...before, ...changes };
        recordAudit(sql, operator, { ...changeOf(row, 'replace'), before: told(before), after: told(row) });
        return tagged(row);
      }),
    delete: (operator, id, ifMatch) =>
      database.write('installation', async (sql) => {
        const row = await writable(sql, id, ifMatch);
        await sql('model_catalogs').where({ id }).delete();
        recordAudit(sql, operator, { ...changeOf(row, 'delete'), before: told(row) });
      }),
    async setEnvironment(url) {
      const known = await database.read('installation', environmentUrl);
      if (known === url) return;
      const setting = database.write('installation', (sql) => setEnvironment(sql, url, now()));
      // Another node that starts at the same time has made it.
      await setting.catch((error: unknown) => {
        if (!isDuplicate(error)) throw error;
      });
    },
    marks: () =>
      database.read('installation', (sql) =>
        sql<CatalogRow>('model_catalogs')
          .orderByRaw(`case source when 'environment' then 0 else 1 end, created_at, id`)
          .select('id', 'source', 'mark'),
      ),
    modelsOf: (id) =>
      database.read('installation', async (sql) => {
        const row = await sql<CatalogRow>('model_catalogs').where({ id }).first('models');
        return row ? JSON.parse(row.models) : [];
      }),
    async claimDue(until) {
      // Most looks find nothing: no lock is taken for them.
      const due = await database.read('installation', (sql) => firstDue(sql, now()));
      return due && database.write('installation', (sql) => claim(sql, due, until));
    },
    looked: ({ id, url }, look, nextCheckAt) =>
      database.write('installation', async (sql) => {
        await sql<CatalogRow>('model_catalogs')
          .where({ id, url })
          .update({
            ...('fault' in look
              ? { fault: look.fault, failures: sql.raw('failures + 1') }
              : { fault: null, failures: 0 }),
            ...('models' in look && { ...contentOf(look), fetched_at: now() }),
            checked_at: now(),
            next_check_at: nextCheckAt,
          });
      }),
  };
}

type DueRow = Pick<CatalogRow, 'id' | 'source' | 'url' | 'version' | 'failures' | 'next_check_at'>;

async function firstDue(sql: Knex, now: number): Promise<DueRow | null> {
  const row = await sql<CatalogRow>('model_catalogs')
    .where('next_check_at', '<=', now)
    .orderBy('next_check_at')
    .first('id', 'source', 'url', 'version', 'failures', 'next_check_at');
  return row ?? null;
}

/** Null where another node was faster. */
async function claim(
  sql: Knex,
  { next_check_at, ...due }: DueRow,
  until: number,
): Promise<DueCatalog | null> {
  const { id, url } = due;
  const claimed = await sql<CatalogRow>('model_catalogs')
    .where({ id, url, next_check_at })
    .update({ next_check_at: until });
  return claimed === 1 && url !== null ? { ...due, url } : null;
}

async function environmentUrl(sql: Knex): Promise<string | null> {
  const row = await sql<CatalogRow>('model_catalogs').where({ source: 'environment' }).first('url');
  return row?.url ?? null;
}

async function setEnvironment(sql: Knex, url: string | null, now: number): Promise<void> {
  await sql('model_catalogs').where({ source: 'environment' }).delete();
  if (url === null) return;
  const nothing = columnsOf(
    { name: 'SERVICE_CATALOG_URL', url, models: [], version: null, nextCheckAt: now },
    now,
  );
  const times = { fetched_at: null, checked_at: null, created_at: now, updated_at: now };
  await sql('model_catalogs').insert({
    ...nothing,
    ...times,
    id: newId('catalog'),
    source: 'environment',
    revision: 1,
  });
}

function columnsOf({ name, url, models, version, nextCheckAt }: NewCatalog, now: number) {
  const asked = url === null ? null : now;
  const times = { fetched_at: asked, checked_at: asked, next_check_at: nextCheckAt };
  return { name, url, ...contentOf({ models, version }), ...times, failures: 0, fault: null };
}

function contentOf({ models, version }: Pick<NewCatalog, 'models' | 'version'>) {
  const text = JSON.stringify(models);
  return { models: text, model_count: models.length, mark: etagOfContent(text), version };
}

function ofEnvironment(): Problem {
  return new Problem(
    'set_by_environment',
    'SERVICE_CATALOG_URL names this catalogue; change the variable, and start the server anew.',
  );
}

function changeOf<Verb extends string>({ id }: Pick<CatalogRow, 'id'>, verb: Verb) {
  return { action: `catalog.${verb}`, target: { type: 'catalog', id }, organizationId: null } as const;
}

/** What the audit log says of a catalogue. */
function told({ name, url, model_count, mark }: CatalogRow) {
  return { name, url, model_count, content: mark };
}

/** The part of the ETag that follows what a URL brings stands behind that of the row. */
function tagged(row: CatalogRow): TaggedCatalog {
  return { catalog: { ...toSummary(row), models: JSON.parse(row.models) }, etag: etagOf(row) };
}

function toSummary(row: SummaryRow): CatalogSummary {
  return {
    id: row.id,
    name: row.name,
    source: row.source,
    url: row.url,
    model_count: row.model_count,
    fetched_at: row.fetched_at === null ? null : timestamp(row.fetched_at),
    checked_at: row.checked_at === null ? null : timestamp(row.checked_at),
    fault: row.fault,
    created_at: timestamp(row.created_at),
    updated_at: timestamp(row.updated_at),
  };
}
