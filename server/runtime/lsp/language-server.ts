/** One language server of one project: started at its first use, started anew after a crash, ended when nobody uses it. */
import type { Log } from '../../log.ts';
import type { ExpandSetting, ExtensionState } from '../extension.ts';
import type { Sandbox, SandboxUnavailable } from '../processes/sandbox.ts';
import { LanguageServerFailure, reasonOf } from './failure.ts';
import { KnownErrors } from './known-errors.ts';
import { connectTo, type LanguageClient } from './language-client.ts';
import type { ServerDefinition } from './server-choice.ts';
import { startServerProcess } from './server-process.ts';

/** How long things may take; tests make them short. */
export interface LspTimes {
  /** After a failed start. */
  readonly retryMs: number;
  /** Within this time only so many crashes are forgiven. */
  readonly crashWindowMs: number;
  /** Without use. */
  readonly idleMs: number;
  /** How long an edit waits for a server that starts. */
  readonly startWaitMs: number;
  /** How long an edit waits for what the server says of it. */
  readonly judgeMs: number;
  /** When nothing more has come for so long, the server has said what it had to say. */
  readonly quietMs: number;
  /** How long a tool waits for an answer. */
  readonly requestMs: number;
}

export const usualTimes: LspTimes = {
  retryMs: 30_000,
  crashWindowMs: 5 * 60_000,
  idleMs: 10 * 60_000,
  startWaitMs: 5000,
  judgeMs: 3000,
  quietMs: 300,
  requestMs: 30_000,
};

const mostCrashes = 3;
/** How long a server may take to end when it is asked to. */
const politelyMs = 1000;

/** What every server is started with. */
export interface ServerParts {
  readonly expand: ExpandSetting;
  readonly sandbox: () => Sandbox | SandboxUnavailable | null;
  readonly traced: () => boolean;
  readonly times: LspTimes;
  readonly log: Log;
}

export interface LanguageServer {
  readonly definition: ServerDefinition;
  readonly workspacePath: string;
  readonly root: string;
  /** When it was last used, by `performance.now()`. */
  readonly lastUsed: number;
  /** Whether somebody waits for it. */
  readonly busy: boolean;
  /** Starts it if need be. Rejects with LanguageServerFailure. */
  use(): Promise<LanguageClient>;
  /** What the model was told of the server since it was last ready: once is enough. */
  readonly told: Set<string>;
  /** Which errors that it finds are no news. */
  readonly knownErrors: KnownErrors;
  state(): ExtensionState;
  /** Ends it for good. */
  stop(politely: boolean): Promise<void>;
}

/** A server for one project of a workspace; nothing is started yet. */
export function createLanguageServer(
  definition: ServerDefinition,
  place: { readonly workspacePath: string; readonly root: string },
  parts: ServerParts,
): LanguageServer {
  const { times } = parts;
  const log = parts.log.child({ lsp: definition.name });
  const stopping = new AbortController();
  const told = new Set<string>();
  let lastUsed = performance.now();
  let client: LanguageClient | null = null;
  let starting: Promise<LanguageClient> | null = null;
  let failure: { readonly detail: string; readonly until: number } | null = null;
  let crashes: number[] = [];
  let idle: NodeJS.Timeout | undefined;

  const start = async (): Promise<LanguageClient> => {
    const { entry, name } = definition;
    const expanded = entry && (await parts.expand(entry, pointerTo(name), stopping.signal));
    const server = await startServerProcess(definition, expanded, { ...place, sandbox: parts.sandbox() });
    return await connectTo(server, {
      definition,
      root: place.root,
      signal: stopping.signal,
      hangMs: times.requestMs / 2,
      traced: parts.traced,
      log: parts.log,
    });
  };

  const lost = (which: LanguageClient, complaint: string) => {
    if (client !== which) return;
    client = null;
    const now = performance.now();
    crashes = [...crashes.filter((at) => at > now - times.crashWindowMs), now];
    const said = complaint ? `: ${complaint.split('\n').at(-1)}` : '';
    log.warn(`the language server ended by itself${said}`);
    if (crashes.length < mostCrashes) return;
    const until = (crashes[0] ?? now) + times.crashWindowMs;
    failure = { detail: `it has ended ${crashes.length} times by itself${said}`, until };
    crashes = [];
  };

  const rest = () => {
    clearTimeout(idle);
    idle = setTimeout(() => {
      const unused = client;
      client = null;
      unused?.close(politelyMs).catch((error) => log.error({ err: error }, 'a language server did not end'));
    }, times.idleMs);
    idle.unref();
  };

  const startOnce = () => {
    starting ??= start().then(
      (connected) => {
        [client, starting, failure] = [connected, null, null];
        told.clear();
        log.info({ root: place.root }, 'a language server is ready');
        rest();
        void connected.ended.then((complaint) => lost(connected, complaint));
        return connected;
      },
      (error: unknown) => {
        const detail = reasonOf(error);
        failure = { detail, until: performance.now() + times.retryMs };
        starting = null;
        if (!stopping.signal.aborted) log.warn(`the language server cannot be used: ${detail}`);
        throw new LanguageServerFailure(detail, { cause: error });
      },
    );
    return starting;
  };

  return {
    definition,
    ...place,
    told,
    knownErrors: new KnownErrors(),
    get lastUsed() {
      return lastUsed;
    },
    get busy() {
      return starting !== null || (client?.busy ?? false);
    },
    async use() {
      lastUsed = performance.now();
      if (stopping.signal.aborted) throw new LanguageServerFailure('it was stopped');
      if (client) {
        rest();
        return client;
      }
      if (failure && failure.until > performance.now()) throw new LanguageServerFailure(failure.detail);
      return await startOnce();
    },
    state() {
      const { name } = definition;
      if (client) return { name, state: 'ready', detail: null };
      if (starting !== null) return { name, state: 'starting', detail: null };
      if (failure) return { name, state: 'failed', detail: failure.detail };
      return { name, state: 'idle', detail: null };
    },
    async stop(politely) {
      stopping.abort();
      clearTimeout(idle);
      const running = client ?? (await starting?.catch(() => null)); // one that cannot start needs no end
      client = null;
      await running?.close(politely ? politelyMs : 1);
    },
  };
}

function pointerTo(name: string): string {
  return `/lsp/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}
