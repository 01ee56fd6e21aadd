/** Takes documents in: a few at a time in this process, those of dead processes besides, until it is stopped. */
import type { Log } from '../log.ts';
import { type IngestDocumentOptions, ingestDocument } from './ingest-document.ts';
import type { IngestedItem, IngestionRecords, SeenWorker } from './ingestion-ports.ts';
import { PassingFailure } from './ingestion-source.ts';
import { ParseFailure } from './parsing/parse-failure.ts';

export interface Ingestion {
  /** Looks for work now, as somebody has just added some. */
  wake(): void;
  /** How many documents are at work here. */
  atWork(): number;
  /** Gives back what is at work, for others or for the next start. */
  stop(): Promise<void>;
}

export interface IngestionOptions<Item extends IngestedItem> extends IngestDocumentOptions<Item> {
  readonly records: IngestionRecords<Item>;
  /** Names this process among all that share the database. */
  readonly owner: string;
  /** Whether a process has surely died. */
  readonly hasDied: (owner: string) => boolean;
  /** How many documents are taken in at a time. */
  readonly lanes: number;
  readonly lease: { readonly leaseMs: number; readonly renewMs: number };
  readonly now: () => Date;
  readonly log: Log;
  readonly elapsedMs?: () => number;
}

/** How often work is looked for that nobody has told of: added on another node, or to be tried again. */
const pollMs = 1000;
/** A failure that may pass is tried again after so long. */
const againMs = [5000, 30_000];

export function startIngestion<Item extends IngestedItem>(options: IngestionOptions<Item>): Ingestion {
  const { log } = options;
  const stopping = new AbortController();
  const atWork = new Map<Item, AbortController>();
  const lanes = new Set<Promise<void>>();
  let looking: Promise<void> | null = null;
  let again = false;

  const look = async (): Promise<void> => {
    while (!stopping.signal.aborted && atWork.size < options.lanes) {
      const item = await options.records.claim(options.owner);
      if (!item) return;
      begin(item);
    }
  };
  const wake = (): void => {
    if (stopping.signal.aborted) return;
    again = true;
    looking ??= (async () => {
      while (again) {
        again = false;
        await look().catch((error: unknown) => {
          log.error({ err: error }, 'no document to take in could be looked for; it is tried again');
        });
      }
      looking = null;
    })();
  };
  const begin = (item: Item): void => {
    const controller = new AbortController();
    const lane = takeIn(item, options, controller.signal).finally(() => {
      atWork.delete(item);
      lanes.delete(lane);
      wake();
    });
    atWork.set(item, controller);
    lanes.add(lane);
  };
  const giveUp = (reason: Error): void => {
    for (const controller of atWork.values()) controller.abort(reason);
  };
  const watch = watchWorkers(options, { busy: () => atWork.size > 0, giveUp, freed: wake });
  const polling = setInterval(wake, pollMs);
  polling.unref();
  wake();
  return {
    wake,
    atWork: () => atWork.size,
    async stop() {
      clearInterval(polling);
      stopping.abort();
      await looking;
      giveUp(stopped());
      await Promise.all(lanes);
      await watch.stop();
    },
  };
}

async function takeIn<Item extends IngestedItem>(
  item: Item,
  options: IngestionOptions<Item>,
  signal: AbortSignal,
): Promise<void> {
  try {
    await ingestDocument(item, options, signal);
  } catch (error) {
    await settle(item, error, options, signal).catch((failure: unknown) => {
      if (!isLost(failure))
        options.log.error({ err: failure, ...about(item) }, 'it is not stored what became of a document');
    });
  }
}

async function settle<Item extends IngestedItem>(
  item: Item,
  error: unknown,
  { records, log, now }: IngestionOptions<Item>,
  signal: AbortSignal,
): Promise<void> {
  if (isLost(error) || isLost(signal.reason)) return;
  if (signal.aborted) return records.giveBack(item);
  const isKnown = error instanceof ParseFailure;
  if (!isKnown) log.error({ err: error, ...about(item) }, 'a document could not be taken in');
  else if (error.cause) log.info({ err: error.cause, ...about(item) }, 'a document could not be taken in');
  const wait = !isKnown || error instanceof PassingFailure ? againMs[item.attempts - 1] : undefined;
  await records.fail(
    item,
    isKnown ? { code: error.code, message: error.message } : internal,
    wait === undefined ? null : new Date(now().getTime() + wait),
  );
}

const internal = {
  code: 'internal',
  message: 'An internal error; the log of the server has it. Retry the job, or tell the operator.',
} as const;

function about({ jobId, documentId }: IngestedItem) {
  return { ingestion_id: jobId, document_id: documentId };
}

function isLost(error: unknown): boolean {
  return error instanceof Error && error.name === 'LeaseLost';
}

function stopped(): Error {
  return new Error('The server stops.');
}

interface Watched extends SeenWorker {
  readonly since: number;
}

interface WatchCallbacks {
  readonly busy: () => boolean;
  readonly giveUp: (reason: Error) => void;
  readonly freed: () => void;
}

/** Shows that this process is alive, and frees what others leave that show it no more, by time that passes here. */
function watchWorkers<Item extends IngestedItem>(
  options: IngestionOptions<Item>,
  { busy, giveUp, freed }: WatchCallbacks,
) {
  const { records, owner, lease, log, hasDied, elapsedMs = () => performance.now() } = options;
  let watched: ReadonlyMap<string, Watched> = new Map();
  let renewedAt = elapsedMs();
  let turn: Promise<void> | null = null;

  const renew = async (): Promise<void> => {
    if (!busy()) {
      renewedAt = elapsedMs();
      return;
    }
    const asked = elapsedMs();
    try {
      if (await records.renew(owner)) renewedAt = asked;
      else giveUp(lost());
    } catch (error) {
      // Others may have freed it: nobody here can know.
      if (elapsedMs() - renewedAt >= lease.leaseMs) giveUp(lost());
      throw error;
    }
  };
  const free = async (): Promise<void> => {
    const now = elapsedMs();
    const seen = (await records.workers()).filter((worker) => worker.owner !== owner || !busy());
    watched = new Map(
      seen.map((worker) => {
        const known = watched.get(worker.owner);
        return [worker.owner, { ...worker, since: known?.renewals === worker.renewals ? known.since : now }];
      }),
    );
    for (const worker of watched.values()) {
      if (now - worker.since < lease.leaseMs && !hasDied(worker.owner)) continue;
      const count = await records.bury(worker);
      if (count > 0) log.warn({ documents: count }, 'documents whose process had died are taken in here');
      freed();
    }
  };
  const look = (): void => {
    turn ??= renew()
      .then(free)
      .catch((error: unknown) => log.error({ err: error }, 'leases of documents could not be kept'))
      .finally(() => {
        turn = null;
      });
  };
  const timer = setInterval(look, lease.renewMs);
  timer.unref();
  look();
  return {
    async stop() {
      clearInterval(timer);
      await turn;
    },
  };
}

function lost(): Error {
  return Object.assign(new Error('Others took this process for dead.'), { name: 'LeaseLost' });
}
