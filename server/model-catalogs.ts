/** Catalogues of models at work: what counts now, what the operator writes, and the URLs that are asked from time to time. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from './clock.ts';
import { type Catalog, CatalogError, emptyCatalog, fetchCatalog, joinCatalogs } from './config/config.ts';
import type { CatalogModel, CatalogSummary, CatalogWrite } from './contract/api.ts';
import type { Log } from './log.ts';
import type { OutboundFetch } from './outbound/outbound.ts';
import { Problem } from './problem.ts';
import type {
  CatalogLook,
  CatalogMark,
  DueCatalog,
  NewCatalog,
  Reach,
  Store,
  TaggedCatalog,
} from './store/store.ts';

export interface ModelCatalogs {
  /** What counts now; another node's changes within seconds. The same object as long as nothing changes. */
  current(terms: CatalogTerms): Promise<Catalog>;
  /** Throws `invalid_request` where the URL gives no catalogue; nothing is changed then. */
  create(operator: Reach, body: CatalogWrite): Promise<TaggedCatalog>;
  /** Throws that too, and what the store does. */
  replace(
    operator: Reach,
    id: string,
    body: CatalogWrite,
    ifMatch: string | undefined,
  ): Promise<TaggedCatalog>;
  delete(operator: Reach, id: string, ifMatch: string | undefined): Promise<void>;
  /** Asks each URL that is due and that no other node asks already. */
  refresh(): Promise<void>;
  /** Does so from now on, until the signal aborts. */
  keepFresh(signal: AbortSignal): Promise<void>;
}

export interface CatalogTerms {
  /** Whether the list of models stays as it was shipped. */
  readonly asShipped: boolean;
}

export interface ModelCatalogsOptions {
  readonly store: Pick<Store, 'modelCatalogs' | 'keptRequests'>;
  /** By who gave the URL. */
  readonly fetches: Readonly<Record<CatalogSummary['source'], OutboundFetch>>;
  readonly refreshHours: number;
  readonly terms: () => Promise<CatalogTerms>;
  readonly clock: Clock;
  readonly log: Log;
}

/** How old what is known of other nodes' changes may be. */
const staleMs = 3000;
/** How long a node has for one look; after that another may. */
const claimMs = 60_000;
/** How often a node looks whether a URL is due. */
const lookEveryMs = 30_000;
const hourMs = 3_600_000;
const firstRetryMs = 60_000;

interface Known {
  readonly marks: readonly CatalogMark[];
  readonly models: ReadonlyMap<string, readonly CatalogModel[]>;
  readonly whole: Catalog;
  readonly asShipped: Catalog;
}

const nothingKnown: Known = { marks: [], models: new Map(), whole: emptyCatalog, asShipped: emptyCatalog };

export function createModelCatalogs(options: ModelCatalogsOptions): ModelCatalogs {
  const { store, clock, log, fetches } = options;
  const catalogs = store.modelCatalogs;
  let known: Promise<Known> = Promise.resolve(nothingKnown);
  let lookedAt = Number.NEGATIVE_INFINITY;
  /** What the last look that is over has found, and when it began. */
  let found = { known: nothingKnown, lookedAt };

  const reload = (): Promise<Known> => {
    const now = performance.now();
    lookedAt = now;
    const before = known;
    known = before
      .then(async (last) => {
        found = { known: await readKnown(last, catalogs), lookedAt: now };
        return found.known;
      })
      .catch(async (error: unknown) => {
        log.error({ err: error }, 'the catalogues of models could not be read; what was known still counts');
        return await before;
      });
    return known;
  };
  /** Whoever holds a connection looks for itself where others are at it. */
  const lookAlone = (fresh: boolean): Known | Promise<Known> =>
    fresh && found.lookedAt === lookedAt ? found.known : readKnown(found.known, catalogs);
  const changed = <Made>(made: Made): Made => {
    store.keptRequests.whenCommitted(() => {
      lookedAt = Number.NEGATIVE_INFINITY;
    });
    return made;
  };
  const nextCheck = (failures: number): number =>
    clock.now().getTime() + pause(options.refreshHours, failures);
  const asked = async (body: CatalogWrite): Promise<NewCatalog> => {
    const { name, url = null, models = [] } = body;
    if (url === null) return { name, url, models, version: null, nextCheckAt: null };
    const fetched = await fetchCatalog(url, fetches.setting).catch(refuseUrl);
    return { name, url, models: [], version: null, ...fetched, nextCheckAt: nextCheck(0) };
  };
  const ask = async (due: DueCatalog, signal?: AbortSignal): Promise<void> => {
    const look = await lookAt(due, fetches[due.source], signal);
    if (signal?.aborted) return;
    const failures = 'fault' in look ? due.failures + 1 : 0;
    if ('fault' in look)
      log.warn(
        { catalog: due.id, url: due.url, fault: look.fault },
        'a catalogue of models gave nothing new',
      );
    await catalogs.looked(due, look, nextCheck(failures));
    if ('models' in look) changed(null);
  };
  const refreshNow = async (signal?: AbortSignal): Promise<void> => {
    if ((await options.terms()).asShipped) return;
    for (;;) {
      const due = signal?.aborted ? null : await catalogs.claimDue(clock.now().getTime() + claimMs);
      if (!due) return;
      await ask(due, signal);
    }
  };
  let last: Promise<void> = Promise.resolve();
  /** One after the other: what another call here is about to ask is not due, and would not be known yet. */
  const refresh = (signal?: AbortSignal): Promise<void> => {
    const refreshed = last.then(() => refreshNow(signal));
    last = refreshed.catch(() => undefined);
    return refreshed;
  };
  return {
    async current({ asShipped }) {
      const fresh = performance.now() - lookedAt < staleMs;
      const counting = store.keptRequests.holds() ? lookAlone(fresh) : fresh ? known : reload();
      const { whole, asShipped: own } = await counting;
      return asShipped ? own : whole;
    },
    create: async (operator, body) => changed(await catalogs.create(operator, await asked(body))),
    async replace(operator, id, body, ifMatch) {
      // Nobody's URL is asked for a change that is refused anyway.
      await catalogs.requireWritable(id, ifMatch);
      return changed(await catalogs.replace(operator, id, await asked(body), ifMatch));
    },
    delete: async (operator, id, ifMatch) => changed(await catalogs.delete(operator, id, ifMatch)),
    refresh: () => refresh(),
    async keepFresh(signal) {
      while (!signal.aborted) {
        await refresh(signal).catch((error: unknown) =>
          log.error({ err: error }, 'the catalogues of models could not be refreshed; a moment later again'),
        );
        await sleep(lookEveryMs, undefined, { signal, ref: false }).catch(() => undefined);
      }
    },
  };
}

async function lookAt(
  { url, version }: DueCatalog,
  fetch: OutboundFetch,
  signal: AbortSignal | undefined,
): Promise<CatalogLook> {
  try {
    return (await fetchCatalog(url, fetch, { version, ...(signal && { signal }) })) ?? { unchanged: true };
  } catch (error) {
    if (error instanceof CatalogError) return { fault: error.message };
    throw error;
  }
}

/** What nodes that started together ask for is asked at different times; what fails, sooner again, then ever later. */
function pause(hours: number, failures: number): number {
  const whole = hours * hourMs;
  const ms = failures === 0 ? whole : Math.min(firstRetryMs * 2 ** (failures - 1), whole);
  return Math.round(ms * (0.9 + 0.2 * Math.random()));
}

async function readKnown(last: Known, catalogs: Store['modelCatalogs']): Promise<Known> {
  const marks = await catalogs.marks();
  if (sameMarks(marks, last.marks)) return last;
  const models = new Map<string, readonly CatalogModel[]>();
  for (const { id, mark } of marks) models.set(id, last.models.get(mark) ?? (await catalogs.modelsOf(id)));
  const listOf = (which: readonly CatalogMark[]) => joinCatalogs(which.map(({ id }) => models.get(id) ?? []));
  const own = marks.filter(({ source }) => source === 'setting');
  return {
    marks,
    models: new Map(marks.map(({ id, mark }) => [mark, models.get(id) ?? []])),
    whole: listOf(marks),
    asShipped: listOf(own),
  };
}

function sameMarks(some: readonly CatalogMark[], others: readonly CatalogMark[]): boolean {
  const text = (marks: readonly CatalogMark[]) => marks.map(({ id, mark }) => `${id} ${mark}`).join();
  return text(some) === text(others);
}

function refuseUrl(error: unknown): never {
  if (!(error instanceof CatalogError)) throw error;
  throw new Problem(
    'invalid_request',
    `The URL gives no catalogue of models, so nothing was changed: ${error.message}`,
    {
      cause: error,
      errors: [{ in: 'body', pointer: '/url', message: error.message, code: 'catalog' }],
    },
  );
}
