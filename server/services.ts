/** What a handler is given; built once in main. */
import type { Clock } from './clock.ts';
import type { ServerSettings } from './config/config.ts';
import type { Identity } from './identity/identity.ts';
import type { Log } from './log.ts';
import type { Runtime } from './runtime/runtime.ts';
import type { Store } from './store/store.ts';

export type { Principal } from './identity/identity.ts';
export type { Generation, StartedRun } from './runtime/runtime.ts';

/** The parts of the server, as handlers use them. */
export interface Services {
  readonly settings: ServerSettings;
  readonly store: Store;
  readonly identity: Identity;
  readonly runtime: Runtime;
  readonly clock: Clock;
  readonly log: Log;
  /** What this server can and cannot do here, for /ready and the start summary. */
  readonly capabilities: Capabilities;
  readonly metrics: Metrics;
  /** Whether the server is stopping: no new runs, readiness 503. */
  readonly draining: () => boolean;
}

/** What this server can do on this machine, and what is off. */
export interface Capabilities {
  readonly mode: 'single' | 'multi';
  readonly database: 'sqlite' | 'postgresql';
  /** Null where commands run in a sandbox; else why they do not. */
  readonly sandboxUnavailable: string | null;
  /** The ids of the model providers found. */
  readonly providers: readonly string[];
  /** What is off, and why: one sentence each. */
  readonly off: readonly string[];
}

/** Counters of this process, in the text format of Prometheus and by name. */
export interface Metrics {
  /** The text of /metrics. */
  render(): Promise<string>;
  /** How many streams a user has open on this node. */
  openStreams(userId: string): number;
}
