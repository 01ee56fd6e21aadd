/** What a server does every hour: forgets what nobody needs any more, and writes the head of the audit log down. */
import type { ServerSettings } from './server-settings/server-settings.ts';
import type { OpenServices } from './services.ts';

type Settings = Pick<ServerSettings, 'retention' | 'idempotencyHours'>;

/** Who did not come from an address for so long counts as a stranger there. */
const loginAddressDays = 90;
const hourMs = 3_600_000;

/** Begins an hour from now, and does not keep the process alive. */
export function keepHouse(services: OpenServices, settings: Settings): { stop(): void } {
  const timer = setInterval(() => {
    void forgetTheOld(services, settings);
    void services.anchorAuditLog();
  }, hourMs);
  timer.unref();
  return { stop: () => clearInterval(timer) };
}

/** Each part for itself: what cannot be forgotten now does not keep the rest. */
export async function forgetTheOld(
  { store, skillBook, clock, log }: OpenServices,
  settings: Settings,
): Promise<void> {
  const now = clock.now();
  const hoursAgo = (hours: number) => new Date(now.getTime() - hours * hourMs);
  const daysAgo = (days: number) => hoursAgo(days * 24);
  const { eventsDays, loginsDays, jobRunsDays, usageDays, auditDays } = settings.retention;
  const parts: Readonly<Record<string, () => Promise<number>>> = {
    events_of_runs: () => store.runs.pruneEvents(daysAgo(eventsDays)),
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
  for (const [name, prune] of Object.entries(parts)) {
    try {
      const count = await prune();
      if (count > 0) forgotten[name] = count;
    } catch (error) {
      log.error({ err: error, what: name }, 'what is old could not be deleted; the next hour tries again');
    }
  }
  if (Object.keys(forgotten).length > 0) log.info({ forgotten }, 'what was kept long enough was deleted');
}
