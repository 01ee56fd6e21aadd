/** A connection to one MCP server: the transport that its entry asks for, the handshake, and the end of both. */
import { basename } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  type AuthProvider,
  Client,
  type ClientOptions,
  type ElicitRequestFormParams,
  type ElicitResult,
  ProtocolError,
  SSEClientTransport,
  type SSEClientTransportOptions,
  SseError,
  type Transport,
} from '@modelcontextprotocol/client';
import type { Log } from '../../log.ts';
import { fetchFrom, type Outbound } from '../../outbound/outbound.ts';
import { childEnvironment } from '../processes/child-environment.ts';
import type { Sandbox, SandboxUnavailable } from '../processes/sandbox.ts';
import { boundedFetch } from './bounded-fetch.ts';
import type { Target } from './entry.ts';
import { eventStream } from './event-stream.ts';
import { loggable, McpFailure } from './failure.ts';
import { HttpTransport, isBrokenOff } from './http-transport.ts';
import { type LoginKeeper, loginTo } from './login.ts';
import { type StdioCommand, StdioTransport } from './stdio-transport.ts';

/** What a connection needs besides its target. */
export interface LinkParts {
  readonly workspacePath: string;
  /** Where a process has to run; null where it runs as its person's own. */
  readonly sandbox: Sandbox | SandboxUnavailable | null;
  readonly outbound: Outbound;
  /** Who gave the address of a remote server. */
  readonly giver: 'operator' | 'account';
  readonly logins: LoginKeeper;
  readonly log: Log;
  /** How long the handshake may take. */
  readonly timeoutMs: number;
  /** Is told the end of what a process wrote to standard error. */
  readonly hear: (lastWords: string) => void;
  /** A list of the server has changed. */
  readonly onListChanged: () => void;
  /** The server knows the connection no more, or tells it no more: what has begun on it may end, nothing else begins. */
  readonly onSessionGone: () => void;
  /** The connection is no more. */
  readonly onLost: (error: Error) => void;
  /** The server has a question for a person. */
  readonly onElicit: (asked: ElicitRequestFormParams, withdrawn: AbortSignal) => Promise<ElicitResult>;
}

/** An open connection. */
export interface Link {
  readonly client: Client;
  /** The process; null for a remote server. */
  readonly pid: number | null;
  /** Does what asks something of the server: a connection that is left waits for it. */
  during<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Closes it once nobody waits for an answer any more. */
  leave(): Promise<void>;
  close(): Promise<void>;
}

const clientInfo = { name: 'service', version: '1' };
const goodbyeMs = 1000;

/** Connects. Rejects with what went wrong, and leaves nothing behind then. */
export async function openLink(target: Target, parts: LinkParts, signal: AbortSignal): Promise<Link> {
  try {
    return await open(target, parts, signal, 'legacy');
  } catch (error) {
    // A definite no to the usual handshake: a server that speaks only the newer protocol says so.
    if (!(error instanceof ProtocolError) || isBrokenOff(error)) throw error;
    return await open(target, parts, signal, 'auto');
  }
}

async function open(
  target: Target,
  parts: LinkParts,
  signal: AbortSignal,
  mode: 'legacy' | 'auto',
): Promise<Link> {
  const transport = await transportTo(target, parts);
  const client = newClient(target, parts, mode);
  const link = linkOf(client, transport);
  const stop = () => void link.close();
  signal.addEventListener('abort', stop, { once: true });
  try {
    signal.throwIfAborted();
    await Promise.race([
      client.connect(transport, { signal, timeout: parts.timeoutMs }),
      // Not every transport heeds the signal while it opens.
      new Promise<never>((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason), { once: true });
      }),
    ]);
    watch(client, transport, parts);
    return link;
  } catch (error) {
    await link.close();
    throw (transport instanceof StdioTransport ? transport.fault : null) ?? error;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

function newClient(target: Target, parts: LinkParts, mode: 'legacy' | 'auto'): Client {
  // Another machine has no use for the names of our folders.
  const local = target.type === 'stdio';
  const changed = { autoRefresh: false, debounceMs: 100, onChanged: parts.onListChanged } as const;
  const options: ClientOptions = {
    capabilities: { elicitation: { form: {} }, ...(local && { roots: {} }) },
    listChanged: { tools: changed, prompts: changed, resources: changed },
    versionNegotiation: { mode },
    // What a tool says goes to the model as text: a schema of the server's need not be compiled here.
    jsonSchemaValidator: {
      getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
    }, // whatever it is, it is passed on
  };
  const client = new Client(clientInfo, options);
  const uri = pathToFileURL(parts.workspacePath).href;
  if (local)
    client.setRequestHandler('roots/list', () => ({ roots: [{ uri, name: basename(parts.workspacePath) }] }));
  client.setRequestHandler('elicitation/create', async ({ params }, { mcpReq: { signal } }) =>
    params.mode === 'url' ? { action: 'decline' } : await parts.onElicit(params, signal),
  );
  return client;
}

/** After the handshake: an end that nobody asked for is told. */
function watch(client: Client, transport: Transport, { onLost, onSessionGone, log }: LinkParts): void {
  // By the newer protocol changes are told on a stream of their own, which the library does not open a second time.
  void client.autoOpenedSubscription?.closed.then((by) => by !== 'local' && onSessionGone());
  client.onclose = () => onLost(faultOf(transport) ?? new McpFailure('the connection was closed'));
  client.onerror = (error) => {
    log.debug(loggable(error), 'a connection to an MCP server had a fault');
    // This transport would open another session by itself, which the server knows nothing of.
    if (transport instanceof SSEClientTransport && error instanceof SseError)
      onLost(new McpFailure('the connection was cut'));
    const fault = faultOf(transport);
    if (fault) onLost(fault);
  };
}

function faultOf(transport: Transport): McpFailure | null {
  return transport instanceof StdioTransport ? transport.fault : null;
}

function linkOf(client: Client, transport: Transport): Link {
  let closing: Promise<void> | undefined;
  let atWork = 0;
  let onFree = (): void => undefined;
  const end = async () => {
    // An end that was asked for is no loss.
    client.onclose = () => undefined;
    client.onerror = () => undefined;
    if (transport instanceof HttpTransport && transport.sessionId)
      await Promise.race([
        transport.terminateSession().catch(() => undefined),
        new Promise((resolve) => setTimeout(resolve, goodbyeMs).unref()),
      ]);
    // A client that never connected does not know its transport.
    await Promise.allSettled([client.close(), transport.close()]);
  };
  const close = () => {
    closing ??= end();
    return closing;
  };
  return {
    client,
    get pid() {
      return transport instanceof StdioTransport ? transport.pid : null;
    },
    async during(work) {
      atWork += 1;
      try {
        return await work();
      } finally {
        atWork -= 1;
        if (atWork === 0) onFree();
      }
    },
    async leave() {
      if (atWork > 0)
        await new Promise<void>((resolve) => {
          onFree = resolve;
        });
      await close();
    },
    close,
  };
}

async function transportTo(target: Target, parts: LinkParts): Promise<Transport> {
  if (target.type === 'stdio')
    return new StdioTransport(await commandOf(target, parts), parts.log, parts.hear);
  const { url, headers, oauth } = target;
  const login = loginTo(url, oauth, headers, parts.logins);
  // One stream of events may carry all that a server ever says: what is held of it at once is bounded.
  const limits = { maxBytes: Number.POSITIVE_INFINITY };
  const fetch = boundedFetch(fetchFrom(url, parts.outbound, parts.giver, limits));
  const options = {
    fetch: login?.watching(fetch) ?? fetch,
    requestInit: { headers: { ...headers } },
    ...(login && { authProvider: login.provider }),
  };
  if (target.type === 'sse') return sseTransport(url, options, login?.provider);
  const { onListChanged, onSessionGone } = parts;
  const stream = eventStream(options.fetch, { onReopened: onListChanged, onSessionGone });
  return new HttpTransport(url, { ...options, ...stream });
}

/** A login may be renewed once nobody is connected any more: the library would then open a stream that nobody closes. */
function sseTransport(
  url: URL,
  options: SSEClientTransportOptions,
  provider: AuthProvider | undefined,
): SSEClientTransport {
  let closed = false;
  const transport = new SSEClientTransport(url, {
    ...options,
    ...(provider && {
      authProvider: {
        token: () => provider.token(),
        onUnauthorized: async (context: Parameters<NonNullable<AuthProvider['onUnauthorized']>>[0]) => {
          await provider.onUnauthorized?.(context);
          if (closed) throw new McpFailure('it was stopped');
        },
      },
    }),
  });
  const close = transport.close.bind(transport);
  transport.close = async () => {
    closed = true;
    await close();
  };
  return transport;
}

async function commandOf(
  { command, args, env }: Extract<Target, { type: 'stdio' }>,
  { workspacePath, sandbox }: LinkParts,
): Promise<StdioCommand> {
  if (!sandbox) {
    const direct = { wrapped: false, sealedEnvironment: null, release: () => undefined };
    return { file: command, args, cwd: workspacePath, env: childEnvironment(env), ...direct };
  }
  if ('unavailable' in sandbox)
    throw new McpFailure(`stdio servers run here only in a sandbox, and ${sandbox.unavailable}`);
  const options = { workspacePath, network: false, sealedEnvironment: true };
  const wrapped = await sandbox.wrap([command, ...args], options).catch((error: unknown) => {
    // Its own sentences say what to do; those of the system hold no more than a path.
    if (!(error instanceof Error) || 'code' in error) throw error;
    throw new McpFailure(`the sandbox cannot start it: ${error.message}`);
  });
  // The arguments of a process can be read by every user of the machine; a pipe only by its reader.
  const sealedEnvironment = Object.entries(env)
    .flatMap(([name, value]) => ['--setenv', name, value])
    .map((word) => `${word}\0`)
    .join('');
  return { ...wrapped, cwd: '/', env: {}, wrapped: true, sealedEnvironment };
}
