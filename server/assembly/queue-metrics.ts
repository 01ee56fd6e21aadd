/** The gauges of the queues in /metrics. */
import type { Runtime } from '../runtime/runtime.ts';
import type { Store } from '../store/store.ts';
import type { ServicesInput } from './input.ts';

/** Every queue has a bound, and both are to be seen: beyond it requests are refused. */
export function showQueues({ metrics, settings }: ServicesInput, runtime: Runtime, store: Store): void {
  const { limits, runCounts } = runtime;
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
    'service_waiting_searches',
    'Searches of files that wait for a thread in this process.',
    () => runtime.waitingSearches().waiting,
  );
  metrics.show(
    'service_waiting_searches_limit',
    'More are refused, which the model is told.',
    () => runtime.waitingSearches().limit,
  );
  metrics.show('service_open_streams_limit', 'More are refused with 503.', () => settings.streamsTotal);
}
