/** Takes documents in: a few at a time in this process, those of dead processes besides, until it is stopped. */
import type { Log } from '../log.ts';
import { type IngestDocumentOptions, ingestDocument } from './ingest-document.ts';
import type { IngestedItem, IngestionRecords } from './ingestion-ports.ts';
import { PassingFailure } from './ingestion-source.ts';
import { ParseFailure } from './parsing/parse-failure.ts';
import { leaseLost, watchWorkers } from './worker-watch.ts';

export interface Ingestion {
  /** Looks for work now, as somebody has just added some. */
  wake(): void;
  /** Looks now whether what is at work is still to be done, as somebody has just cancelled or deleted some. */
  dropLost(): void;
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
  readonly elapsedMs?: () => number;
  /** How often is looked for what nobody has told of: added or cancelled on another node, or to be tried again. */
  readonly pollMs?: number;
}

const defaultPollMs = 1000;
/** A failure that may pass is tried again after so long. */
const againMs = [5000, 30_000];

export function startIngestion<Item extends IngestedItem>(options: IngestionOptions<Item>): Ingestion {
  const { log, pollMs = defaultPollMs } = options;
  const stopping = new AbortController();
  const atWork = new Map<Item, AbortController>();
  const lanes = new Set<Promise<void>>();
  let looking: Promise<void> | null = null;
  let again = false;
  /** Whether the records may hold something for this process that it is not at: nobody else would free it. */
  let unsure = false;

  const look = async (): Promise<void> => {
    if (unsure) await free();
    while (!stopping.signal.aborted && atWork.size < options.lanes) {
      const item = await claim();
      if (!item) return;
      begin(item);
    }
  };
  const free = async (): Promise<void> => {
    unsure = false;
    try {
      await options.records.free(options.owner, [...atWork.keys()]);
    } catch (error) {
      unsure = true;
      throw error;
    }
  };
  const claim = async (): Promise<Item | null> => {
    try {
      return await options.records.claim(options.owner);
    } catch (error) {
      // It may have been stored all the same.
      unsure = true;
      throw error;
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
    const lane = takeIn(item, options, controller.signal).then((isStored) => {
      unsure ||= !isStored;
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
  const dropLost = (): void => {
    if (atWork.size === 0) return;
    options.records
      .lost([...atWork.keys()])
      .then((items) => {
        for (const item of items)
          atWork.get(item)?.abort(leaseLost('It was cancelled, deleted, or taken over.'));
      })
      .catch((error: unknown) =>
        log.error({ err: error }, 'it is not known whose documents these still are'),
      );
  };
  const watch = watchWorkers(options, { busy: () => atWork.size > 0, giveUp, freed: wake });
  const polling = setInterval(() => {
    wake();
    dropLost();
  }, pollMs);
  polling.unref();
  wake();
  return {
    wake,
    dropLost,
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

/** Whether it is stored what became of the item. */
async function takeIn<Item extends IngestedItem>(
  item: Item,
  options: IngestionOptions<Item>,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await ingestDocument(item, options, signal);
    return true;
  } catch (error) {
    if (isLost(error) || isLost(signal.reason)) return false;
    try {
      await settle(item, error, options, signal);
      return true;
    } catch (failure) {
      // Of what was deleted or cancelled meanwhile nobody wants to hear, whatever stopped it.
      if (isLost(failure)) return false;
      options.log.error({ err: failure, ...about(item) }, 'it is not stored what became of a document');
      tell(item, error, options.log);
      return false;
    }
  }
}

async function settle<Item extends IngestedItem>(
  item: Item,
  error: unknown,
  { records, log, now }: IngestionOptions<Item>,
  signal: AbortSignal,
): Promise<void> {
  if (signal.aborted) return records.giveBack(item);
  const isKnown = error instanceof ParseFailure;
  const wait = !isKnown || error instanceof PassingFailure ? againMs[item.attempts - 1] : undefined;
  await records.fail(
    item,
    isKnown ? { code: error.code, message: error.message } : internal,
    wait === undefined ? null : new Date(now().getTime() + wait),
  );
  tell(item, error, log);
}

function tell(item: IngestedItem, error: unknown, log: Log): void {
  const message = 'a document could not be taken in';
  if (!(error instanceof ParseFailure)) log.error({ err: error, ...about(item) }, message);
  else if (error.cause) log.info({ err: error.cause, ...about(item) }, message);
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
