/** Keeps the leases of this process's runs, hears of interrupts from other nodes, and takes over the runs of processes that died or stopped. */
import type { InterruptReason } from '../../contract/api.ts';
import type { Log } from '../../log.ts';
import { hasDied } from '../../process-name.ts';
import type { SeenLease, TakenRun, Transcript } from '../transcript.ts';

/** How long a lease is good without renewal, and how often it is renewed. */
export interface LeaseTimes {
  readonly leaseMs: number;
  readonly renewMs: number;
}

export interface LeaseKeeperOptions extends LeaseTimes {
  /** Names this process among all that share the database. */
  readonly owner: string;
  readonly transcript: Transcript;
  readonly log: Log;
  /** The runs at work here. */
  readonly activeRuns: () => readonly string[];
  /** Those that are being stored: the store may show one before this process has heard that it is there. */
  readonly startingRuns: () => readonly string[];
  /** How many more runs this process may work on. */
  readonly room: () => number;
  readonly interrupt: (runId: string, reason: InterruptReason) => void;
  /** Goes on with a run that was taken over; returns at once. */
  readonly resume: (run: TakenRun) => void;
  /** Time that only moves forward, as fast as seconds pass; whatever is done to the clock of the machine. */
  readonly elapsedMs?: () => number;
}

export interface LeaseKeeper {
  stop(): Promise<void>;
}

export function startLeaseKeeper(options: LeaseKeeperOptions): LeaseKeeper {
  const failed = (error: unknown) => options.log.error({ err: error }, 'leases could not be kept');
  const keeper = createKeeper(options);
  // A process may leave many runs behind: while they are taken over one after the other, the leases of those at work
  // here are renewed all the same.
  const taking = oneAtATime(() => keeper.takeOver().catch(failed));
  const renewing = oneAtATime(() => keeper.renew().then(taking.start).catch(failed));
  const timer = setInterval(() => {
    // A store that has gone without a word lets a renewal hang, for longer than the leases are good.
    if (renewing.busy()) keeper.stopOutdated(options.activeRuns());
    renewing.start();
  }, options.renewMs);
  timer.unref();
  renewing.start();
  return {
    async stop() {
      clearInterval(timer);
      await renewing.settled();
      await taking.settled();
    },
  };
}

/** A store that is slow is not asked again before it has answered. */
function oneAtATime(work: () => Promise<void>) {
  let turn: Promise<void> | null = null;
  return {
    start: () => {
      turn ??= work().finally(() => {
        turn = null;
      });
    },
    busy: () => turn !== null,
    settled: async () => turn,
  };
}

/** A lease of another process, and since when it has not been renewed. */
interface Watched extends SeenLease {
  readonly since: number;
}

/**
 * A lease has run out when it was seen unchanged for as long as it is good, by time that passes here. Comparing clocks
 * would be wrong twice: one that is ahead takes runs from the living, one that is behind leaves those of the dead.
 */
function createKeeper(options: LeaseKeeperOptions) {
  const { owner, leaseMs, transcript, elapsedMs = () => performance.now() } = options;
  let watched: ReadonlyMap<string, Watched> = new Map();
  let renewedAt = elapsedMs();

  const isAbandoned = (lease: Watched, died: (owner: string) => boolean): boolean => {
    if (lease.owner === null) return true;
    // This process gave it up, as when the database was away: it had it in hand when it looked before.
    if (lease.owner === owner) return lease.since < renewedAt;
    return elapsedMs() - lease.since >= leaseMs || died(lease.owner);
  };

  /** Others may have taken them over: nobody here can know, so that work which others would do too has to stop. */
  const stopOutdated = (runs: readonly string[]): void => {
    if (elapsedMs() - renewedAt < leaseMs) return;
    for (const runId of runs) options.interrupt(runId, 'lease_lost');
  };

  return {
    stopOutdated,
    async renew(): Promise<void> {
      const active = options.activeRuns();
      const asked = elapsedMs();
      try {
        const kept = active.length > 0 ? await transcript.renewLeases(owner, active) : [];
        const held = new Set(kept.map(({ runId }) => runId));
        for (const { runId, interrupt } of kept) if (interrupt) options.interrupt(runId, interrupt);
        // A lease that is gone belongs to another process by now: this one must stop touching the run.
        for (const runId of active) if (!held.has(runId)) options.interrupt(runId, 'lease_lost');
        renewedAt = asked;
      } catch (error) {
        stopOutdated(active);
        throw error;
      }
    },
    /** To be called just after the leases were renewed, so that none of those taken is at work here. */
    async takeOver(): Promise<void> {
      watched = await look(options, watched, elapsedMs());
      const died = memory(hasDied);
      for (const lease of watched.values()) {
        if (options.room() <= 0) return;
        if (isAbandoned(lease, died)) await take(options, lease);
      }
    },
  };
}

async function look(
  { transcript, activeRuns, startingRuns }: LeaseKeeperOptions,
  before: ReadonlyMap<string, Watched>,
  now: number,
): Promise<ReadonlyMap<string, Watched>> {
  const leases = await transcript.readLeases();
  // Asked for after they were read: a run that was begun meanwhile is among them.
  const mine = new Set([...activeRuns(), ...startingRuns()]);
  return new Map(
    leases
      .filter(({ runId }) => !mine.has(runId))
      .map((lease) => {
        const known = before.get(lease.runId);
        const same = known?.owner === lease.owner && known.renewals === lease.renewals;
        return [lease.runId, { ...lease, since: same ? known.since : now }];
      }),
  );
}

/** One run that cannot be taken over must not keep the others from it; it is tried again. */
async function take({ transcript, owner, log, resume }: LeaseKeeperOptions, lease: SeenLease): Promise<void> {
  try {
    const run = await transcript.takeRun(lease, owner);
    if (!run) return;
    const about = { run_id: run.runId, status: run.status };
    if (run.handedOver) log.info(about, 'a run whose process had stopped was taken over');
    else log.warn(about, 'a run whose process had died was taken over');
    resume(run);
  } catch (error) {
    log.error({ err: error, run_id: lease.runId }, 'a run that nobody works on could not be taken over');
  }
}

function memory<Key, Value>(compute: (key: Key) => Value): (key: Key) => Value {
  const known = new Map<Key, Value>();
  return (key) => {
    const value = known.get(key) ?? compute(key);
    known.set(key, value);
    return value;
  };
}
