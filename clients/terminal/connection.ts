/** The service that a command speaks to: inside this process for the folder it works in, or a remote one. */
import { existsSync } from 'node:fs';
import { type ClientOptions, createServiceClient, type ServiceClient } from '@service/client';
import { ConnectionError, serviceErrorOf } from '@service/client/errors';
import type { Diagnostic } from '../../server/config/config.ts';
import { CommandFailure } from './failures.ts';
import { closeAtEnd } from './interrupts.ts';
import { logFileIn } from './log/log-file.ts';
import type { Credentials } from './logins/credentials.ts';
import { openMcpLogins } from './logins/mcp-logins.ts';
import { openProject, type Project } from './project.ts';
import { failureOf } from './service-failures.ts';
import { isUnwritable, unwritableHome } from './unwritable.ts';

type Retries = NonNullable<ClientOptions['retries']>;

/** A service that answers; both kinds are spoken to by HTTP, through the same contract. */
export interface Connection {
  readonly client: ServiceClient;
  /** Whether it is the login that nothing is heard for. */
  readonly awaitsLogin: () => boolean;
  close(): Promise<void>;
}

/** The service inside this process, which has looked for providers. */
export interface LocalConnection extends Connection {
  /** What is odd about the settings and their providers. */
  readonly diagnostics: readonly Diagnostic[];
  /** Whether it is the built-in demonstration that answers, for want of any provider. */
  readonly isDemonstration: boolean;
}

/**
 * Does something with the sessions of the service that `--server` names, or with those of this folder. Where nothing
 * was ever kept here, nothing is made for the sake of looking.
 */
export async function withSessions<Result>(
  server: string | undefined,
  work: (client: ServiceClient) => Promise<Result>,
  whereNothingIs: () => Result,
): Promise<Result> {
  if (server !== undefined) return await use(await connectTo(server), work);
  const project = await openProject();
  try {
    const { knownDataFolder } = await import('../../server/config/config.ts');
    const folder = await knownDataFolder(project.loaded);
    if (folder === null || !existsSync(folder)) return whereNothingIs();
    return await use(await connectHere(project), work);
  } finally {
    project.settings.close();
  }
}

/**
 * Does something with the service that `--server` names, or with that of this folder, which is made if need be.
 *
 * @param retries - How calls are repeated; what is not given is as the client has it.
 */
export async function withService<Result>(
  server: string | undefined,
  work: (client: ServiceClient) => Promise<Result>,
  retries: Retries = {},
): Promise<Result> {
  if (server !== undefined) return await use(await connectTo(server, { retries }), work);
  const project = await openProject();
  try {
    return await use(await connectHere(project, retries), work);
  } finally {
    project.settings.close();
  }
}

async function use<Result>(
  connection: Connection,
  work: (client: ServiceClient) => Promise<Result>,
): Promise<Result> {
  return await closeAtEnd(
    () =>
      work(connection.client).catch((error: unknown) => {
        throw failureOf(error);
      }),
    () => connection.close(),
  );
}

/** Starts the server inside this process. */
export async function connectHere(
  { loaded, settings }: Project,
  retries: Retries = {},
): Promise<LocalConnection> {
  const { createFileLog, startServer, takeOverConsole } = await import('../../server/main.ts');
  const { dataDirectory, makeDataFolder } = await import('../../server/config/config.ts');
  const { localServerSettings } = await import('../../server/server-settings/server-settings.ts');
  const { workingDirectory, dataHome } = loaded.places;
  passByProxies(process.env);
  try {
    const folder = await makeDataFolder(loaded);
    const { options } = loaded.config;
    const log = createFileLog(logFileIn(folder), options?.debug ? 'debug' : 'info');
    takeOverConsole(log);
    const server = await startServer(localServerSettings(folder, process.env), {
      project: {
        folder: workingDirectory,
        settings,
        keyDirectory: dataHome,
        mcpLogins: openMcpLogins(dataHome),
      },
      log,
    });
    const client = createServiceClient({ baseUrl: server.url, token: server.processKey ?? '', retries });
    const { diagnostics, providerOrigins } = server.services;
    return {
      client,
      awaitsLogin: () => false,
      diagnostics,
      isDemonstration: providerOrigins.size === 0,
      close: () => server.stop(),
    };
  } catch (error) {
    throw unwritable(error, dataDirectory(loaded), dataHome) ?? error;
  }
}

/** A server that the person is logged in to, or that SERVICE_API_KEY is for. */
export async function connectTo(
  address: string,
  { environment = process.env, retries = {} }: { environment?: NodeJS.ProcessEnv; retries?: Retries } = {},
): Promise<Connection> {
  const { credentialsFor } = await import('./logins/credentials.ts');
  const credentials = await credentialsFor(address, environment);
  const { origin, token, awaitsLogin } = credentials;
  return {
    client: createServiceClient({
      baseUrl: origin,
      token,
      fetch: (request) => send(request, credentials),
      retries,
    }),
    awaitsLogin,
    close: async () => undefined,
  };
}

/**
 * Renews a login once that the server calls expired: its clock counts, and not the one here. That no redirect is followed,
 * which would take the token elsewhere, stands in the request.
 */
async function send(request: Request, { tokenInsteadOf }: Credentials): Promise<Response> {
  const { signal } = request;
  // The clone is none that Node would hear the signal of.
  const once = (one: Request) => fetch(one, { signal });
  const again = isSmall(request) ? request.clone() : null;
  const response = await once(request);
  if (again === null || !(await isExpired(again, response))) return response;
  const [, expired = ''] = /^Bearer (.*)$/.exec(again.headers.get('Authorization') ?? '') ?? [];
  const renewed = await tokenInsteadOf(expired).catch(async (cause: unknown) => {
    await response.body?.cancel();
    throw notRenewed(cause);
  });
  // Where there is no other one, what the server said says what to do.
  if (renewed === null) return response;
  await response.body?.cancel();
  again.headers.set('Authorization', `Bearer ${renewed}`);
  return await once(again);
}

/** The next attempt may find it well: whoever follows a run goes on. */
function notRenewed(cause: unknown): ConnectionError {
  if (cause instanceof ConnectionError) return cause;
  const why = cause instanceof Error ? cause.message : String(cause);
  return new ConnectionError(`The login could not be renewed: ${why}`, cause);
}

/** Files are not held for a second time, and a stream comes but once. */
function isSmall({ body, headers }: Request): boolean {
  return body === null || /^[^;]*[/+]json\s*(;|$)/i.test(headers.get('Content-Type') ?? '');
}

async function isExpired(request: Request, response: Response): Promise<boolean> {
  if (response.status !== 401) return false;
  return (await serviceErrorOf(request, response.clone())).code === 'credential_expired';
}

/** A proxy cannot reach the server inside this process, and must not see what is sent to it, nor its key. */
function passByProxies(environment: NodeJS.ProcessEnv): void {
  const name = environment.no_proxy === undefined ? 'NO_PROXY' : 'no_proxy';
  const { [name]: exempt } = environment;
  if (exempt !== '*') environment[name] = exempt ? `${exempt},127.0.0.1` : '127.0.0.1';
}

function unwritable(error: unknown, folder: string, dataHome: string): CommandFailure | null {
  const { code, message, path = folder } = error as NodeJS.ErrnoException; // whatever is thrown here is an Error
  const isOfDatabase = code === 'SQLITE_READONLY' || code === 'SQLITE_CANTOPEN';
  if (!isOfDatabase && !isUnwritable(error)) return null;
  if ((isWithin(path, dataHome) || isWithin(dataHome, path)) && !isWithin(folder, path))
    return unwritableHome(dataHome, message);
  return new CommandFailure(
    `The data of this project cannot be kept in ${folder}: ${message}.\n` +
      'Name another folder: service config set --global options.data_directory <folder>.',
  );
}

function isWithin(path: string, folder: string): boolean {
  return path === folder || path.startsWith(`${folder}/`);
}
