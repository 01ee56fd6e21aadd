/** Processes that begin runs watch each other: one shows that it is alive, and frees what dead ones were about to begin. */
import type { Log } from '../log.ts';
import type { ClaimedJobRun, SchedulerRecords, SeenClaim } from './ports.ts';

interface WatchOptions {
  readonly records: Pick<SchedulerRecords<ClaimedJobRun>, 'renew' | 'claims' | 'bury'>;
  /** Names this process among all that share the database. */
  readonly owner: string;
  /** Whether a process has surely died. */
  readonly hasDied: (owner: string) => boolean;
  readonly lease: { readonly leaseMs: number; readonly renewMs: number };
  /** What this process is about to begin. */
  readonly starting: () => readonly string[];
  readonly freed: () => void;
  readonly log: Log;
  /** Time that only moves forward, whatever is done to the clock of the machine. */
  readonly elapsedMs?: (() => number) | undefined;
}

interface Watched extends SeenClaim {
  readonly since: number;
}

export function watchClaims(options: WatchOptions) {
  const { records, owner, lease, log, hasDied, elapsedMs = () => performance.now() } = options;
  let watched: ReadonlyMap<string, Watched> = new Map();
  let turn: Promise<void> | null = null;

  const look = async (): Promise<void> => {
    const mine = options.starting();
    if (mine.length > 0) await records.renew(owner, mine);
    const now = elapsedMs();
    const claims = await records.claims();
    // Asked for after they were read: what was begun meanwhile is among them.
    const starting = new Set(options.starting());
    const others = claims.filter(({ id, worker }) => worker !== owner || !starting.has(id));
    watched = new Map(
      others.map((claim) => {
        const known = watched.get(claim.id);
        return [claim.id, { ...claim, since: known && isSame(known, claim) ? known.since : now }];
      }),
    );
    for (const claim of watched.values()) {
      if (now - claim.since < lease.leaseMs && !hasDied(claim.worker)) continue;
      if (!(await records.bury(claim))) continue;
      log.warn({ job_run_id: claim.id }, 'a run of a job whose process had died is begun by another');
      options.freed();
    }
  };
  const start = (): void => {
    turn ??= look()
      .catch((error: unknown) => log.error({ err: error }, 'leases of job runs could not be kept'))
      .finally(() => {
        turn = null;
      });
  };
  const timer = setInterval(start, lease.renewMs);
  timer.unref();
  start();
  return {
    async stop() {
      clearInterval(timer);
      await turn;
    },
  };
}

function isSame(a: SeenClaim, b: SeenClaim): boolean {
  return a.worker === b.worker && a.claims === b.claims && a.renewals === b.renewals;
}
