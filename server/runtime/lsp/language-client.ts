/** Speaks with one language server that runs: initialize, requests with a time limit, documents, diagnostics. */
import { basename } from 'node:path';
import {
  CancellationTokenSource,
  createMessageConnection,
  type MessageConnection,
  StreamMessageWriter,
} from 'vscode-jsonrpc/node';
import type { ClientCapabilities, InitializeParams } from 'vscode-languageserver-protocol';
import type { Log } from '../../log.ts';
import { boundedWriter } from './bounded-writer.ts';
import { Reports, uriOf } from './diagnostics.ts';
import { watchDisk } from './disk-changes.ts';
import { createDocuments, type Documents } from './documents.ts';
import { LanguageServerFailure, LanguageServerRefusal, LanguageServerSilence, reasonOf } from './failure.ts';
import { BoundedMessageReader } from './message-reader.ts';
import type { ServerDefinition } from './server-choice.ts';
import type { ServerProcess } from './server-process.ts';
import { answerServer, memberOf } from './server-requests.ts';
import { createTrace, tracedWriter } from './trace.ts';

/** A language server that has been initialized. */
export interface LanguageClient {
  readonly name: string;
  readonly root: string;
  readonly documents: Documents;
  readonly reports: Reports;
  /** Whether it said at its start, or later, that it answers the method. */
  supports(method: string): boolean;
  /** The options that it named together with the method. */
  optionsOf(method: string): unknown;
  /** Asks; rejects with LanguageServerFailure when the answer is an error or does not come in time. */
  request(method: string, params: object, limits: RequestLimits): Promise<unknown>;
  /** Whether an answer of it is waited for. */
  readonly busy: boolean;
  /** Tells it what has changed on disk since it was last asked. */
  refresh(): Promise<void>;
  /** Commands that it carries out. */
  readonly commands: readonly string[];
  /** Throws LanguageServerFailure once it has ended. */
  assertAlive(): void;
  /** Resolves with what it last complained of, once it has ended for whatever reason. */
  readonly ended: Promise<string>;
  /** Asks it to end, for at most so long, and then ends it. */
  close(politelyMs: number): Promise<void>;
}

export interface RequestLimits {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

export interface ClientOptions {
  readonly definition: ServerDefinition;
  readonly root: string;
  readonly signal: AbortSignal;
  /** Without an answer for so long, several times in a row, it hangs. */
  readonly hangMs: number;
  /** Whether the protocol is to be written to the log. */
  readonly traced: () => boolean;
  readonly log: Log;
}

/** So many requests in a row without an answer: it hangs. */
const mostUnanswered = 3;

/** Initializes the server; rejects with LanguageServerFailure, and the server has ended by then. */
export async function connectTo(server: ServerProcess, options: ClientOptions): Promise<LanguageClient> {
  const { definition, root, log } = options;
  const trace = createTrace(definition.name, options.traced, log);
  let unsent: string | null = null;
  const reader = new BoundedMessageReader(server.output, trace.received);
  const writer = boundedWriter(tracedWriter(new StreamMessageWriter(server.input), trace), () => {
    unsent ??= 'it does not read what it is sent';
    void server.end();
  });
  const connection = createMessageConnection(reader, writer, quiet, {
    // What is not written yet counts: of a server that asks and does not read, no more is read.
    maxParallelism: 32,
    messageStrategy: {
      handleMessage(message, next) {
        reader.handled(message);
        return next(message);
      },
    },
  });
  let fault: string | null = null;
  reader.onError((error) => {
    fault ??= reasonOf(error);
    void server.end();
  });
  // A program that lives on behind a closed output answers nobody any more.
  reader.onClose(() => void server.end());
  writer.onError(([error]) => {
    unsent ??= reasonOf(error);
    void server.end();
  });
  let last: string | null = null;
  const waiting = new Set<(failure: LanguageServerFailure) => void>();
  const ended = server.ended.then((complaint) => {
    // That it takes no messages any more is what follows from why it has ended.
    last = fault ?? (complaint || (unsent ?? ''));
    // Before the connection tells them that it was disposed of.
    for (const fail of waiting) fail(endedWith(last));
    connection.dispose();
    return last;
  });
  const reports = new Reports();
  const about = { settings: server.settings, rootUri: uriOf(root), rootName: basename(root) };
  const registrations = answerServer(connection, about, log.child({ lsp: definition.name }));
  connection.onNotification('textDocument/publishDiagnostics', (params: unknown) => reports.publish(params));
  connection.listen();

  let unanswered = 0;
  const request = async (method: string, params: object, { timeoutMs, signal }: RequestLimits) => {
    if (last !== null) throw endedWith(last);
    // Not raced against `ended` itself: a promise holds what it was raced against for as long as it is open.
    const lost = Promise.withResolvers<never>();
    waiting.add(lost.reject);
    try {
      const asked = ask(connection, method, params, { timeoutMs, signal });
      const answer = await Promise.race([asked, lost.promise]);
      unanswered = 0;
      return answer;
    } catch (error) {
      // One that is only busy may well miss the short time that an edit waits.
      if (error instanceof LanguageServerSilence) {
        if (timeoutMs >= options.hangMs) unanswered += 1;
        if (unanswered >= mostUnanswered) void server.end();
      } else if (!signal.aborted) unanswered = 0;
      throw error;
    } finally {
      waiting.delete(lost.reject);
    }
  };
  const send = async (method: string, params: object) => await connection.sendNotification(method, params);
  const notify = (method: string, params: object) => {
    // One that has ended is found out by whoever asks it something: here it may fail at once, or later.
    send(method, params).catch(() => undefined);
  };

  const close = async (politelyMs: number) => {
    const signal = AbortSignal.timeout(politelyMs);
    await request('shutdown', {}, { timeoutMs: politelyMs, signal }).then(
      () => notify('exit', {}),
      () => undefined, // it is ended in any case
    );
    await Promise.race([server.ended, timeOver(signal)]);
    await server.end();
  };

  try {
    const { timeoutMs } = definition;
    const params = initializeParams(root, server);
    const result = await request('initialize', params, { timeoutMs, signal: options.signal });
    const capabilities = memberOf(result, 'capabilities');
    notify('initialized', {});
    notify('workspace/didChangeConfiguration', { settings: server.settings });
    const look = watchDisk(root, definition.filetypes, definition.rootMarkers);
    await look();
    if (!server.isThere()) throw endedWith(await ended);
    const documents = createDocuments(notify, savesOf(capabilities), reports);
    return {
      name: definition.name,
      root,
      documents,
      reports,
      supports: (method) => registrations.has(method) || supported(capabilities, method),
      optionsOf: (method) => registrations.optionsOf(method) ?? providerOf(capabilities, method),
      request,
      get busy() {
        return waiting.size > 0;
      },
      async refresh() {
        const changes = await look();
        for (const { path, type } of changes) if (type === 3) reports.delete(path);
        documents.syncAll();
        if (changes.length > 0)
          notify('workspace/didChangeWatchedFiles', {
            changes: changes.map(({ path, type }) => ({ uri: uriOf(path), type })),
          });
      },
      commands: listOfText(memberOf(memberOf(capabilities, 'executeCommandProvider'), 'commands')),
      assertAlive() {
        if (last !== null) throw endedWith(last);
      },
      ended,
      close,
    };
  } catch (error) {
    await server.end();
    const complaint = await ended;
    if (options.signal.aborted) throw new LanguageServerFailure('it was stopped while it started');
    const said =
      complaint && !reasonOf(error).includes(lastLine(complaint)) ? ` (${lastLine(complaint)})` : '';
    throw new LanguageServerFailure(`${reasonOf(error)}${said}`, { cause: error });
  }
}

async function ask(
  connection: MessageConnection,
  method: string,
  params: object,
  { timeoutMs, signal }: RequestLimits,
): Promise<unknown> {
  if (signal.aborted) throw new LanguageServerFailure('interrupted');
  const cancel = new CancellationTokenSource();
  const stopped = Promise.withResolvers<never>();
  const seconds = Math.round(timeoutMs / 100) / 10;
  const timer = setTimeout(
    () => stopped.reject(new LanguageServerSilence(`it did not answer ${method} within ${seconds} s`)),
    Math.min(timeoutMs, 2 ** 31 - 1), // timers know no longer time
  );
  const onAbort = () => stopped.reject(new LanguageServerFailure('interrupted'));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([connection.sendRequest(method, params, cancel.token), stopped.promise]);
  } catch (error) {
    cancel.cancel();
    if (error instanceof LanguageServerFailure) throw error;
    throw new LanguageServerRefusal(method, error);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', onAbort);
    cancel.dispose();
  }
}

function timeOver(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
}

function initializeParams(root: string, server: ServerProcess): InitializeParams {
  return {
    // In the sandbox there is no such process, and a server that looks for it would end at once.
    processId: server.seesUs ? process.pid : null,
    clientInfo: { name: 'service' },
    rootPath: root,
    rootUri: uriOf(root),
    workspaceFolders: [{ uri: uriOf(root), name: basename(root) }],
    initializationOptions: server.initOptions,
    capabilities,
  };
}

/** What we understand. A server that watches the disk itself may go on doing so: nothing of it is registered with us. */
const capabilities: ClientCapabilities = {
  general: { positionEncodings: ['utf-16'] },
  workspace: {
    configuration: true,
    workspaceFolders: true,
    didChangeConfiguration: { dynamicRegistration: false },
    didChangeWatchedFiles: { dynamicRegistration: false },
    symbol: { dynamicRegistration: false },
    diagnostics: { refreshSupport: true },
  },
  textDocument: {
    synchronization: { dynamicRegistration: false, didSave: true },
    publishDiagnostics: { versionSupport: true, relatedInformation: false, tagSupport: { valueSet: [1, 2] } },
    diagnostic: { dynamicRegistration: true, relatedDocumentSupport: true },
    references: { dynamicRegistration: false },
    definition: { dynamicRegistration: false, linkSupport: true },
    documentSymbol: { dynamicRegistration: false, hierarchicalDocumentSymbolSupport: true },
  },
  window: { workDoneProgress: true, showMessage: {} },
};

const providers: Readonly<Record<string, string>> = {
  'textDocument/diagnostic': 'diagnosticProvider',
  'textDocument/references': 'referencesProvider',
  'textDocument/definition': 'definitionProvider',
  'textDocument/documentSymbol': 'documentSymbolProvider',
  'workspace/symbol': 'workspaceSymbolProvider',
};

function providerOf(capabilities: unknown, method: string): unknown {
  return memberOf(capabilities, providers[method] ?? '');
}

function supported(capabilities: unknown, method: string): boolean {
  const provider = providerOf(capabilities, method);
  return provider !== undefined && provider !== null && provider !== false;
}

function savesOf(capabilities: unknown) {
  const save = memberOf(memberOf(capabilities, 'textDocumentSync'), 'save');
  return { wanted: Boolean(save), withText: memberOf(save, 'includeText') === true };
}

function listOfText(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

function endedWith(complaint: string): LanguageServerFailure {
  return new LanguageServerFailure(`it has ended${complaint ? `: ${lastLine(complaint)}` : ''}`);
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.slice(0, 300) ?? '';
}

/** What is wrong is told by the errors themselves; the library would print it. */
const quiet = {
  error: () => undefined,
  warn: () => undefined,
  info: () => undefined,
  log: () => undefined,
};
