/** What a server does every hour: forgets what nobody needs any more, and writes the head of the audit log down. */
import type { ServerSettings } from './server-settings/server-settings.ts';
import type { OpenServices } from './services.ts';

type Settings = Pick<ServerSettings, 'retention' | 'idempotencyHours'>;

/** Who did not come from an address for so long counts as a stranger there. */
const loginAddressDays = 90;
const hourMs = 3_600_000;
const name = 'housekeeping';

/**
 * Once an hour, and at once where the last time is longer ago: a process that lives for a minute forgets what is old, too.
 * Keeps no process alive, and holds up no end of one.
 */
export function keepHouse(services: OpenServices, settings: Settings): { stop(): void } {
  const { store, clock, log } = services;
  const stop = new AbortController();
  const { signal } = stop;
  const tidy = async (now: Date): Promise<void> => {
    await forgetTheOld(services, settings, { now, signal });
    if (!signal.aborted) await store.counters.noteDone(name, now, hourMs);
  };
  let before = Promise.resolve();
  // Where there is much to forget it takes longer than an hour: two at once would do the same work.
  const tidyInTurn = (now: Date): Promise<void> => {
    const done = before.then(() => tidy(now));
    before = done.catch(() => undefined);
    return done;
  };
  const tidyWhereDue = async (now: Date): Promise<void> => {
    if (await store.counters.isDue(name, now, hourMs)) await tidyInTurn(now);
  };
  const told = (work: Promise<void>): void => {
    work.catch((error: unknown) => {
      if (!signal.aborted) log.error({ err: error }, 'when the old was deleted last is not known');
    });
  };
  const timer = setInterval(() => {
    told(tidyInTurn(clock.now()));
    void services.anchorAuditLog();
  }, hourMs);
  timer.unref();
  told(tidyWhereDue(clock.now()));
  return {
    stop() {
      clearInterval(timer);
      stop.abort();
    },
  };
}

interface Pass {
  readonly now: Date;
  /** Aborts when the process ends: the next one goes on. */
  readonly signal: AbortSignal;
}

/** Each part for itself: what cannot be forgotten now does not keep the rest. */
export async function forgetTheOld(
  services: OpenServices,
  settings: Settings,
  { now, signal }: Pass = { now: services.clock.now(), signal: new AbortController().signal },
): Promise<void> {
  const { store, skillBook, log } = services;
  const hoursAgo = (hours: number) => new Date(now.getTime() - hours * hourMs);
  const daysAgo = (days: number) => hoursAgo(days * 24);
  const { eventsDays, loginsDays, jobRunsDays, usageDays, auditDays } = settings.retention;
  const parts: Readonly<Record<string, () => Promise<number>>> = {
    events_of_runs: () => store.runs.pruneEvents(daysAgo(eventsDays)),
    unsearched_sessions: () => store.searches.catchUp(),
    logins: () => store.logins.prune(daysAgo(loginsDays)),
    invitations: () => store.invitations.prune(daysAgo(loginsDays)),
    login_addresses: () => store.loginAddresses.prune(daysAgo(loginAddressDays)),
    unfinished_logins: () => store.oidc.prune(now),
    device_logins: () => store.deviceLogins.prune(now),
    password_links: () => store.passwords.prune(now),
    counts: () => store.counters.prune(now),
    calls_of_dead_processes: () => store.meteredCalls.prune(now),
    answers: () => store.keptRequests.prune(hoursAgo(settings.idempotencyHours)),
    ingestion_jobs: () => store.ingestionJobs.prune(daysAgo(eventsDays)),
    job_runs: () => store.jobRuns.prune(daysAgo(jobRunsDays)),
    memories: () => store.memories.prune(now),
    folders_of_workspaces: () => removeFolders(services, signal),
    folders_of_skills: () => skillBook.sweep(now),
    files: () => store.files.expire(now),
    extracted_texts: () => store.extractedTexts.prune(daysAgo(1)),
    staged_passages: () => store.chunks.sweep(daysAgo(1)),
    uploads: () => store.fileUploads.prune(now),
    bytes_of_files: () => store.files.sweep(now),
    usage: () => store.usage.prune(daysAgo(usageDays)),
    ...(auditDays > 0 && { audit_entries: () => store.auditLogs.prune(daysAgo(auditDays)) }),
  };
  const forgotten: Record<string, number> = {};
  for (const [what, prune] of Object.entries(parts)) {
    if (signal.aborted) break;
    try {
      const count = await prune();
      if (count > 0) forgotten[what] = count;
    } catch (error) {
      if (signal.aborted) break;
      log.error({ err: error, what }, 'what is old could not be deleted; the next hour tries again');
    }
  }
  if (Object.keys(forgotten).length > 0) log.info({ forgotten }, 'what was kept long enough was deleted');
}

/** Those of deleted workspaces, past those that stay. Answers with how many are gone. */
async function removeFolders(
  { store, workspaceFolders, log }: OpenServices,
  signal: AbortSignal,
): Promise<number> {
  let removed = 0;
  let ids = await store.deletedWorkspaces.list();
  while (ids.length > 0) {
    for (const id of ids) {
      if (signal.aborted) return removed;
      try {
        await workspaceFolders.remove(id);
        removed += 1;
      } catch (error) {
        // One that stays does not keep the others.
        log.error({ err: error }, 'the files of a deleted workspace could not be removed');
      }
    }
    ids = await store.deletedWorkspaces.list(ids.at(-1));
  }
  // Those that nobody remembers any more: a server ended between making one and finding its workspace gone.
  await workspaceFolders.removeLeft();
  return removed;
}
