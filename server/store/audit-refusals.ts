/** Records what was refused, as much of it as a flood cannot fill a disk with; the rest is counted. */
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import { type AuditActor, type AuditRecord, homeOf, recordAudit } from './audit.ts';
import type { Database } from './database.ts';

/** A request that was refused. */
export interface Refusal {
  readonly actor: AuditActor;
  readonly action: 'access.refuse' | 'login.refuse';
  readonly target: AuditRecord['target'];
  /** The code of the problem. */
  readonly reason: string;
  /** The operation that was asked for. */
  readonly operation: string;
}

export interface AuditRefusals {
  /** Returns at once: nobody waits for it, and the answer is the same whether or not it is recorded. */
  note(refusal: Refusal): void;
  /** Waits for what is under way, and records what was counted alone. */
  settled(): Promise<void>;
}

/** Of one kind of caller, known or unknown, and of one source of it, within one window. */
export const refusalLimits = { windowMs: 600_000, ofKind: 200, ofSource: 20 };

/** Sources that are told by name, and that are told apart at all. */
const named = 10;
const toldApart = 2000;
const underWayAtMost = 50;

interface Window {
  readonly since: number;
  readonly kinds: Record<'known' | 'unknown', number>;
  readonly recorded: Map<string, number>;
  readonly counted: Map<string, number>;
}

interface Parts {
  readonly database: Database;
  readonly clock: Clock;
  readonly log: Log;
}

export function auditRefusals({ database, clock, log }: Parts): AuditRefusals {
  let window = newWindow(clock);
  let timer: NodeJS.Timeout | undefined;
  // Neither kind of caller takes the places of the other.
  const underWay = { known: new Set<Promise<void>>(), unknown: new Set<Promise<void>>() };

  function write(actor: AuditActor, record: Omit<AuditRecord, 'organizationId' | 'outcome'>): void {
    const written = database
      .write('installation', async (sql) => {
        const person = actor.userId ?? (record.target.type === 'user' ? record.target.id : null);
        const organizationId = person === null ? null : await homeOf(sql, person);
        recordAudit(sql, actor, { ...record, outcome: 'refused', organizationId });
      })
      .catch((error: unknown) => log.error({ err: error }, 'what was refused could not be recorded'))
      .finally(() => underWay[kindOf(actor)].delete(written));
    underWay[kindOf(actor)].add(written);
  }

  function close(): void {
    clearTimeout(timer);
    timer = undefined;
    const { counted, since } = window;
    window = newWindow(clock);
    if (counted.size === 0) return;
    const most = [...counted].sort(([, one], [, other]) => other - one).slice(0, named);
    const total = [...counted.values()].reduce((sum, count) => sum + count, 0);
    write(
      { userId: null },
      {
        action: 'access.refuse',
        target: { type: 'installation', id: null },
        after: {
          not_recorded: total,
          since: new Date(since).toISOString(),
          sources: most.map(([source, count]) => `${source}: ${count}`),
        },
      },
    );
  }

  return {
    note({ actor, action, target, reason, operation }) {
      if (clock.now().getTime() - window.since >= refusalLimits.windowMs) close();
      if (mayRecord(window, actor, underWay[kindOf(actor)].size)) {
        write(actor, { action, target, reason, after: { operation } });
        return;
      }
      const source = sourceOf(actor);
      const known = window.counted.has(source) || window.counted.size < toldApart;
      raise(window.counted, known ? source : 'others');
      timer ??= setTimeout(close, refusalLimits.windowMs).unref();
    },
    async settled() {
      close();
      await Promise.all([...underWay.known, ...underWay.unknown]);
    },
  };
}

/** Who is known has a measure of their own: whoever comes without a credential cannot use it up. */
function mayRecord(window: Window, actor: AuditActor, underWay: number): boolean {
  const kind = kindOf(actor);
  const source = sourceOf(actor);
  if (window.kinds[kind] >= refusalLimits.ofKind || underWay >= underWayAtMost) return false;
  if ((window.recorded.get(source) ?? 0) >= refusalLimits.ofSource) return false;
  window.kinds[kind] += 1;
  raise(window.recorded, source);
  return true;
}

function kindOf({ userId }: AuditActor): 'known' | 'unknown' {
  return userId === null ? 'unknown' : 'known';
}

function raise(counts: Map<string, number>, name: string): void {
  counts.set(name, (counts.get(name) ?? 0) + 1);
}

function sourceOf({ userId, origin }: AuditActor): string {
  return userId ?? origin?.address ?? 'unknown';
}

function newWindow(clock: Clock): Window {
  const kinds = { known: 0, unknown: 0 };
  return { since: clock.now().getTime(), kinds, recorded: new Map(), counted: new Map() };
}
