/** The gauges of the queues in /metrics. */
import { passwordQueues } from '../identity/identity.ts';
import type { Services } from '../services.ts';
import type { ServicesInput } from './input.ts';

type WithQueues = Pick<Services, 'runtime' | 'store' | 'embedders' | 'fileTexts'>;

/** Every queue has a bound, and both are to be seen: beyond it requests are refused. */
export function showQueues(
  { metrics, settings, log }: ServicesInput,
  { runtime, store, embedders, fileTexts }: WithQueues,
): void {
  const { limits, runCounts, threadQueues } = runtime;
  metrics.show('service_active_runs', 'Runs at work or waiting in this process.', () => runCounts().active);
  metrics.show('service_active_runs_limit', 'More are refused with 503.', () => limits.inProcess);
  metrics.show(
    'service_queued_runs',
    'Runs that wait for their turn in this process.',
    () => runCounts().waiting,
  );
  metrics.show(
    'service_longest_session_queue',
    'Runs that wait in the session where most do.',
    () => runCounts().waitingInOneSession,
  );
  metrics.show(
    'service_session_queue_limit',
    'More in one session are refused with 429.',
    () => limits.queuedInSession,
  );
  metrics.show(
    'service_longest_job_queue',
    'Runs that wait of the job of which most do, in the whole installation, when this was asked for before.',
    lastKnown(store.jobRuns.mostWaiting, log),
  );
  metrics.show('service_job_queue_limit', 'More of one job are skipped.', () => store.jobRuns.waitingLimit);
  metrics.show(
    'service_longest_ingestion_queue',
    'Documents that wait or are being taken in, of the organization of which most do, when this was asked for before.',
    lastKnown(store.ingestionJobs.mostWaiting, log),
  );
  metrics.show(
    'service_ingestion_queue_limit',
    'More of one organization are refused with 429.',
    () => store.ingestionJobs.waitingLimit,
  );
  metrics.show(
    'service_database_writes',
    'Transactions that are under way or wait in this process.',
    () => store.load().writes,
  );
  metrics.show(
    'service_database_writes_limit',
    'More are refused with 503; what a run at work stores is not.',
    () => store.loadLimits.writes,
  );
  metrics.show(
    'service_database_reads',
    'Reads that are under way or wait in this process.',
    () => store.load().reads,
  );
  metrics.show('service_database_reads_limit', 'More are refused with 503.', () => store.loadLimits.reads);
  metrics.show(
    'service_waiting_event_writes',
    'Runs whose events wait in this process to be stored together.',
    () => store.gathered().events,
  );
  metrics.show(
    'service_waiting_event_writes_limit',
    'As many as there may be runs: each waits with what it has, and goes on when that is stored.',
    () => limits.inProcess,
  );
  metrics.show(
    'service_waiting_call_counts',
    'Model calls without a session that wait in this process to be counted together.',
    () => store.gathered().modelCalls,
  );
  metrics.show(
    'service_waiting_call_counts_limit',
    'More are refused with 503.',
    () => store.loadLimits.writes,
  );
  metrics.show('service_open_streams_limit', 'More are refused with 503.', () => settings.streamsTotal);
  for (const [name, help, refused, queue] of [
    [
      'waiting_searches',
      'Searches of files that wait for a thread in this process.',
      'More are refused, which the model is told.',
      threadQueues.searches,
    ],
    [
      'waiting_conversions',
      'Fetched pages that wait for a thread in this process.',
      'More are refused, which the model is told.',
      threadQueues.pages,
    ],
    [
      'waiting_embeddings',
      'Calls that the embedding model of this process has not answered.',
      'More are refused: searches then find by words, documents are tried again.',
      embedders.queue,
    ],
    [
      'waiting_file_texts',
      'Files that are being read for their text, or wait for it, in this process.',
      'More are refused with 503.',
      fileTexts.queue,
    ],
    [
      'waiting_password_settings',
      'New passwords that wait for a thread in this process.',
      'More are refused with 503.',
      passwordQueues.settings,
    ],
    [
      'waiting_password_checks',
      'Passwords that wait for a thread in this process to be checked.',
      'More are refused with 503.',
      passwordQueues.checks,
    ],
  ] as const) {
    metrics.show(`service_${name}`, help, () => queue().waiting);
    metrics.show(`service_${name}_limit`, refused, () => queue().limit);
  }
}

/** As it was found at the time before: /metrics answers also where the database does not. */
function lastKnown(look: () => Promise<number>, log: ServicesInput['log']): () => number {
  let known = 0;
  let looking = false;
  return () => {
    if (looking) return known;
    looking = true;
    look()
      .then(
        (found) => {
          known = found;
        },
        (error: unknown) => log.warn({ err: error }, 'a number for /metrics could not be counted'),
      )
      .finally(() => {
        looking = false;
      });
    return known;
  };
}
