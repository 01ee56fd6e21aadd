/** Starts the process: settings in, a listening port out. Importing it does nothing. */
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { createApp, createHttpServer, createMetrics, type HttpServer } from './app.ts';
import { type LocalProject, openServices, type ServicesInput } from './assembly/assembly.ts';
import type { Clock } from './clock.ts';
import { isLoopback, SettingsError } from './config/config.ts';
import { keepHouse } from './housekeeping.ts';
import { createLog, type Log, takeOverConsole } from './log.ts';
import {
  readServerSettings,
  type ServerSettings,
  ServerSettingsError,
  type TraceSettings,
} from './server-settings/server-settings.ts';
import type { FirstCredential, OpenServices } from './services.ts';
import { startSummary } from './start-summary.ts';
import { noTracing, type Tracing } from './tracing.ts';

// For the command, which sees no more of the server than this file.
export { createFileLog, takeOverConsole } from './log.ts';
export { detectSandbox, whyProcessesMayOutlive } from './services.ts';

/** A server that listens. */
export interface RunningServer {
  readonly url: string;
  readonly services: OpenServices;
  /** Shown once: what the first start made for the operator. */
  readonly firstCredential: FirstCredential | null;
  /** For the command that has this server inside: acts for the operator until the process ends. Else null. */
  readonly processKey: string | null;
  /** Takes no new run, gives those at work some time, tells every stream, and closes all that is open. */
  stop(): Promise<void>;
}

export interface StartOptions {
  readonly environment?: Readonly<Record<string, string | undefined>>;
  readonly log?: Log;
  readonly clock?: Clock;
  /** How the names of what is asked outside become addresses; the system's way if absent. */
  readonly resolver?: ServicesInput['resolver'];
  /** The folder that the command which starts this server works in. */
  readonly project?: LocalProject;
  /**
   * Tells people of the server, before anybody is answered. The operator's key is good once this has settled: a start
   * that ends before has made no operator, and the next one makes another key.
   */
  readonly announce?: (server: BegunServer) => Promise<void>;
}

/** A server that listens, and answers before long. */
export type BegunServer = Pick<RunningServer, 'url' | 'services' | 'firstCredential'>;

/** How long open answers may take to end once every run has. */
const closingMs = 5000;

/** Opens everything and listens. Rejects with all that is wrong before anything is half open. */
export async function startServer(
  settings: ServerSettings,
  options: StartOptions = {},
): Promise<RunningServer> {
  let tracing = noTracing;
  const context = settings.traces ? () => tracing.ids() : undefined;
  const log = options.log ?? createLog(settings.debug ? 'debug' : 'info', context);
  if (settings.traces) tracing = await openTracing(settings.traces, log);
  const state = { draining: false, url: '' };
  const services = await openServices({
    settings,
    environment: options.environment ?? process.env,
    metrics: createMetrics(),
    log,
    tracing,
    ...(options.clock && { clock: options.clock }),
    ...(options.resolver && { resolver: options.resolver }),
    ...(options.project && { project: options.project }),
    draining: () => state.draining,
    listensAt: () => state.url,
  });
  const opened = Promise.withResolvers<void>();
  const http = createHttpServer(createApp(services), undefined, opened.promise);
  try {
    // The port first: a start that fails for want of it must not use up a credential that is shown once. The operator
    // next, before anybody is answered: it is made by its start, and by nobody who is faster.
    const url = await listen(http, settings);
    // Listening everywhere is no address that one could go to; where it matters SERVICE_PUBLIC_URL says one.
    state.url = url.replace(/\/\/(0\.0\.0\.0|\[::\]):/, '//localhost:');
    const announce = async (firstCredential: FirstCredential | null) =>
      options.announce?.({ url, services, firstCredential });
    const start = {
      ...settings,
      loopback: isLoopback(settings.host),
      inProcess: options.project !== undefined,
    };
    const firstCredential = await services.identity.bootstrap(start, announce);
    if (firstCredential === null) await announce(null);
    const processKey = options.project ? await services.identity.issueProcessKey() : null;
    opened.resolve();
    // A command that has the server inside ends before long; whoever serves for long writes the head down every hour.
    if (!options.project) await services.anchorAuditLog();
    const housekeeping = keepHouse(services, settings);
    const closing = new AbortController();
    const refreshed = services.modelCatalogs.keepFresh(closing.signal);
    return {
      url,
      services,
      firstCredential,
      processKey,
      async stop() {
        state.draining = true;
        housekeeping.stop();
        closing.abort();
        await refreshed;
        await idle(services, settings.drainSeconds * 1000);
        await services.runtime.close();
        // Open streams still read their last events from the store: it closes after them.
        await http.drain(closingMs);
        await services.close();
        await tracing.close();
      },
    };
  } catch (error) {
    await http.drain(0);
    await services.close();
    await tracing.close();
    throw error;
  }
}

/** The library takes long to load, and most servers send no traces. */
async function openTracing(settings: TraceSettings, log: Log): Promise<Tracing> {
  const { startTracing } = await import('./open-telemetry.ts');
  return startTracing(settings, version(), log);
}

function listen({ server }: HttpServer, { host, port }: ServerSettings): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  server.once('error', reject);
  server.listen(port, host, () => {
    // A server that listens on a port has an address of this kind.
    const address = server.address() as AddressInfo;
    const name = address.family === 'IPv6' ? `[${address.address}]` : address.address;
    resolve(`http://${name}:${address.port}`);
  });
  return promise;
}

/** Waits for the runs at work; those that are left when the time is over are interrupted by whoever closes. */
async function idle({ runtime }: OpenServices, limitMs: number): Promise<void> {
  const until = performance.now() + limitMs;
  while (runtime.activeRuns() > 0 && performance.now() < until) await sleep(50);
}

/** Reads flags and environment, serves until it is told to stop. */
export async function serve(argv: readonly string[]): Promise<void> {
  const { settings, helpWanted, help } = readServerSettings(argv, process.env);
  if (helpWanted) {
    process.stdout.write(help);
    return;
  }
  // With hundreds of streams V8 lets the room for what is new grow until it is most of the memory. By now some of it is
  // there: it stays as it is.
  setFlagsFromString('--max-semi-space-size=4');
  setFlagsFromString('--semi-space-growth-factor=1');
  const starting = startServer(settings, {
    async announce(server) {
      takeOverConsole(server.services.log);
      // Whoever reads the summary may send a signal at once.
      stopOnSignals(starting, server.services.log);
      await print(startSummary(settings, server, version()));
    },
  });
  await starting;
}

/** Settles once the text has left the process. */
function print(text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(error) : resolve()));
  });
}

/** The first signal drains, the second ends at once. */
function stopOnSignals(starting: Promise<RunningServer>, log: Log): void {
  let stopping = false;
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.on(signal, () => {
      if (stopping) process.exit(1);
      stopping = true;
      starting
        .then((server) => server.stop())
        .then(
          () => process.exit(0),
          (error: unknown) => {
            log.error({ err: error }, 'the server did not stop cleanly');
            process.exit(1);
          },
        );
    });
  }
}

function version(): string {
  const manifest = JSON.parse(readFileSync(join(import.meta.dirname, 'package.json'), 'utf8')) as {
    version: string;
  };
  return manifest.version;
}

/** Faults of the settings are for people; a stack would only hide them. */
function explain(error: unknown): string {
  if (error instanceof ServerSettingsError || error instanceof SettingsError) return error.message;
  const { code, message, stack } = error as NodeJS.ErrnoException; // whatever is thrown in this process is an Error
  if (code === 'EADDRINUSE') return `The port is taken: ${message}. Choose another with --port.`;
  return message && !process.env.SERVICE_DEBUG ? message : (stack ?? String(error));
}

/** The server as a program of its own, which says why where it cannot serve. */
export async function run(argv: readonly string[]): Promise<void> {
  try {
    await serve(argv);
  } catch (error) {
    process.stderr.write(`${explain(error)}\n`);
    process.exit(1);
  }
}

if (import.meta.main) await run(process.argv.slice(2));
