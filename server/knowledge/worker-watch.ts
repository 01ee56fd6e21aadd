/** Processes that take documents in watch each other: one shows that it is alive, and frees what dead ones have left. */
import type { Log } from '../log.ts';
import type { IngestedItem, IngestionRecords, SeenWorker } from './ingestion-ports.ts';

interface Watched extends SeenWorker {
  readonly since: number;
}

interface WatchOptions {
  readonly records: Pick<IngestionRecords<IngestedItem>, 'renew' | 'workers' | 'bury'>;
  /** Names this process among all that share the database. */
  readonly owner: string;
  /** Whether a process has surely died. */
  readonly hasDied: (owner: string) => boolean;
  readonly lease: { readonly leaseMs: number; readonly renewMs: number };
  readonly log: Log;
  readonly elapsedMs?: () => number;
}

interface WatchCallbacks {
  readonly busy: () => boolean;
  readonly giveUp: (reason: Error) => void;
  readonly freed: () => void;
}

/** Shows that this process is alive, and frees what others leave that show it no more, by time that passes here. */
export function watchWorkers(options: WatchOptions, { busy, giveUp, freed }: WatchCallbacks) {
  const { records, owner, lease, log, hasDied, elapsedMs = () => performance.now() } = options;
  let watched: ReadonlyMap<string, Watched> = new Map();
  let renewedAt = elapsedMs();
  let turn: Promise<void> | null = null;

  /** Others may have freed what this process has: nobody here can know. */
  const giveUpOutdated = (): void => {
    if (elapsedMs() - renewedAt >= lease.leaseMs) giveUp(lost());
  };
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
      giveUpOutdated();
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
    // A store that has gone without a word lets a renewal hang, for longer than the lease is good.
    if (turn && busy()) giveUpOutdated();
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
  return leaseLost('Others took this process for dead.');
}

/** What is stored for such an item no more. */
export function leaseLost(message: string): Error {
  return Object.assign(new Error(message), { name: 'LeaseLost' });
}
