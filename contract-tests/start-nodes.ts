/** One server on SQLite, or two processes that share a PostgreSQL database and its operator. */
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newDatabase } from './new-database.ts';
import { type Server, type ServerOptions, startServer } from './start-server.ts';

export type Nodes = readonly [Server, ...Server[]];

export interface StartedNodes {
  readonly nodes: Nodes;
  stop(): Promise<void>;
}

/** What tests play for a server listens on this machine. */
const nearBy = { SERVICE_OUTBOUND_ALLOW: '127.0.0.1' };

/** `postgres` is a server on which a database may be made; SQLite, and one process, without one. */
export async function startNodes(
  postgres: string | null,
  options: Pick<ServerOptions, 'upstreamUrl'>,
): Promise<StartedNodes> {
  const running: { stop(): Promise<unknown> }[] = [];
  const stop = async () => {
    for (const one of running.toReversed()) await one.stop();
  };
  const start = async (more: ServerOptions) => {
    const server = await startServer({ ...options, ...more });
    running.push(server);
    return server;
  };
  try {
    if (postgres === null) return { nodes: [await start({ variables: nearBy })], stop };
    const shared = await shareDatabase(postgres);
    running.push({ stop: shared.remove });
    const first = await start(shared);
    return { nodes: [first, await start({ ...shared, firstStart: false })], stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** With the database, the nodes of one installation share the key of its secrets and the folders of its workspaces. */
async function shareDatabase(postgres: string) {
  const folder = await mkdtemp(join(tmpdir(), 'service-nodes-'));
  const database = await newDatabase(postgres);
  const key = join(folder, 'master.key');
  await writeFile(key, randomBytes(32).toString('base64'), { mode: 0o600 });
  await mkdir(join(folder, 'workspaces'));
  return {
    databaseUrl: database.url,
    variables: {
      ...{ SERVICE_MASTER_KEY_FILE: key, SERVICE_WORKSPACES_DIR: join(folder, 'workspaces') },
      ...nearBy,
    },
    async remove() {
      await database.remove();
      await rm(folder, { recursive: true });
    },
  };
}
