/** Starts the real server as a process of its own, on a free port and in a folder of its own. */
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { startProgram } from './child-program.ts';

export interface Server {
  readonly url: string;
  readonly pid: number;
  /** The key that the first start made for the operator. */
  readonly operatorKey: string;
  /** What the server printed and logged, for failures. */
  log(): string;
  /** Whether the process still lives. */
  running(): boolean;
  /** Tells it to stop, and removes its folder. */
  stop(): Promise<number | null>;
}

export interface ServerOptions {
  /** The scripted upstream that plays the providers of `scripted:scripted-1`, the default model, and of `vendor:vendor-1`. */
  readonly upstreamUrl?: string;
  /** An empty PostgreSQL database; SQLite without one. */
  readonly databaseUrl?: string | undefined;
  /** SERVICE_* variables beyond those that every test wants. */
  readonly variables?: Readonly<Record<string, string>>;
  /** The folder of a server that is to be started again; it stays. */
  readonly folder?: string;
  readonly port?: string;
  /** False where another process has made the operator of this database already. */
  readonly firstStart?: boolean;
}

const program = fileURLToPath(new URL('../server/start.mjs', import.meta.url));

/** Where `make embedder` puts the embedding model, which all servers share. */
const modelsDirectory =
  process.env.SERVICE_MODELS_DIR ??
  join(process.env.XDG_DATA_HOME ?? join(homedir(), '.local', 'share'), 'service', 'models');

const listening = /^service \S+ is listening on (?<url>http:\S+)\n/m;
const listeningWithKey = new RegExp(`${listening.source}[\\s\\S]*\\b(?<key>sk-[A-Za-z0-9_-]{43,})`, 'm');

export async function startServer(options: ServerOptions = {}): Promise<Server> {
  const { upstreamUrl, databaseUrl, variables, firstStart = true, port = '0' } = options;
  const folder = options.folder ?? (await mkdtemp(join(tmpdir(), 'service-contract-')));
  await writeSettings(folder, upstreamUrl);
  const database = databaseUrl === undefined ? {} : await databaseVariables(folder, databaseUrl);
  const removeFolder = async () => {
    if (options.folder === undefined) await rm(folder, { recursive: true, force: true });
  };
  const started = await startProgram(
    [process.execPath, program, '--port', port, '--data-dir', join(folder, 'data'), '--strict'],
    {
      // Nothing of the surroundings: a provider's key there would be found and used.
      environment: {
        PATH: process.env.PATH,
        HOME: folder,
        NODE_COMPILE_CACHE: process.env.TEST_CODE_CACHE,
        SERVICE_GLOBAL_CONFIG: join(folder, 'config'),
        SERVICE_STREAMS_PER_USER: '100000',
        SERVICE_STREAMS_TOTAL: '100000',
        SERVICE_DRAIN_SECONDS: '1',
        SERVICE_MODELS_DIR: modelsDirectory,
        ...(upstreamUrl !== undefined && { SERVICE_WEB_SEARCH_URL: upstreamUrl }),
        ...database,
        ...variables,
      },
      ready: firstStart ? listeningWithKey : listening,
    },
  ).catch(async (error: unknown) => {
    await removeFolder();
    throw error;
  });
  return {
    url: started.ready.groups?.url ?? '',
    operatorKey: started.ready.groups?.key ?? '',
    pid: started.pid,
    log: started.output,
    running: () => started.exitCode() === null,
    async stop() {
      const code = await started.stop();
      await removeFolder();
      return code;
    },
  };
}

/** With PostgreSQL the key of stored secrets comes from outside, since several servers have to share it. */
async function databaseVariables(folder: string, url: string): Promise<Record<string, string>> {
  const key = join(folder, 'master.key');
  await writeFile(key, randomBytes(32).toString('base64'), { mode: 0o600 });
  return { DATABASE_URL: url, SERVICE_MASTER_KEY_FILE: key };
}

async function writeSettings(folder: string, upstreamUrl: string | undefined): Promise<void> {
  await mkdir(join(folder, 'config'), { recursive: true });
  if (!upstreamUrl) return;
  const settings = {
    providers: {
      scripted: {
        type: 'openai-compat',
        base_url: `${upstreamUrl}/v1`,
        api_key: 'the-key-of-the-upstream',
        models: [{ id: 'scripted-1' }],
      },
      // Speaks the Messages API itself.
      vendor: {
        type: 'anthropic',
        base_url: `${upstreamUrl}/v1`,
        api_key: 'the-key-of-the-upstream',
        models: [{ id: 'vendor-1' }],
      },
    },
    models: { large: { provider: 'scripted', model: 'scripted-1' } },
    image_generation: { provider: 'scripted', model: 'painter-1' },
    text_to_speech: { provider: 'scripted', model: 'speaker-1', voice: 'nova', format: 'wav' },
    speech_to_text: { provider: 'scripted', model: 'listener-1' },
  };
  await writeFile(join(folder, 'config/service.json'), JSON.stringify(settings));
}
