/** What the assembly of the server is given. */
import type { Clock } from '../clock.ts';
import type { ResolvedSettings } from '../config/config.ts';
import type { Log } from '../log.ts';
import type { Resolver } from '../outbound/outbound.ts';
import type { LoginKeeper } from '../runtime/runtime.ts';
import type { ServerSettings } from '../server-settings/server-settings.ts';
import type { Metrics } from '../services.ts';
import type { Tracing } from '../tracing.ts';

/** What `startServer` hands in besides the settings. */
export interface ServicesInput {
  readonly settings: ServerSettings;
  /** The process environment: provider keys, and the values of variables in the settings file. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly metrics: Metrics;
  readonly log: Log;
  /** Nobody is told of anything if absent. */
  readonly tracing?: Tracing;
  readonly clock?: Clock;
  /** How the names of what is asked outside become addresses; the system's way if absent. */
  readonly resolver?: Resolver;
  readonly draining: () => boolean;
  /** Where this process listens, once it does. */
  readonly listensAt: () => string;
  readonly project?: LocalProject;
}

/** The settings as their files stand, before providers are looked for; `LiveSettings` fits. */
export interface FollowedSettings {
  readonly current: () => Promise<Pick<ResolvedSettings, 'config' | 'diagnostics'>>;
  /** Is told soon after a file has changed, whether or not somebody asks. */
  onChange(listener: () => void): void;
  close(): void;
}

/** The folder that a command was started in, whose process has the server inside. */
export interface LocalProject {
  /** The folder of every workspace of this process; the real path. */
  readonly folder: string;
  /** The settings that count in it. */
  readonly settings: FollowedSettings;
  /** The folder of the master key, which belongs to the person and to no project. */
  readonly keyDirectory: string;
  /** Where this person's logins to MCP servers are kept. */
  readonly mcpLogins?: LoginKeeper;
}
