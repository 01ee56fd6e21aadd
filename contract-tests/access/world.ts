/** A fresh server on one of the databases, with all that lives on it. */
import { type NewDatabase, newDatabase } from '../new-database.ts';
import { openIdVariables, startOpenId } from '../openid/start-openid.ts';
import { type Server, startServer } from '../start-server.ts';
import { startUpstream } from '../upstream/start-upstream.ts';
import { type Cast, openCast } from './callers.ts';

export interface World {
  readonly server: Server;
  readonly cast: Cast;
  stop(): Promise<void>;
}

/** `postgres` is a server on which a database may be made; SQLite without one. */
export async function openWorld(postgres: string | null): Promise<World> {
  const running: { stop(): Promise<unknown> }[] = [];
  const stop = async () => {
    for (const one of running.reverse()) await one.stop();
  };
  try {
    const database = postgres === null ? null : await newDatabase(postgres);
    if (database) running.push({ stop: () => database.remove() });
    const server = await startAll(running, database);
    return { server, cast: await openCast(server), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startAll(
  running: { stop(): Promise<unknown> }[],
  database: NewDatabase | null,
): Promise<Server> {
  const upstream = await startUpstream();
  running.push(upstream);
  const openid = await startOpenId();
  running.push(openid);
  await openid.person({ sub: 'joan', email: 'joan@corp.example', email_verified: true });
  const server = await startServer({
    upstreamUrl: upstream.url,
    databaseUrl: database?.url,
    // Where a provider is played that gives tokens.
    variables: { ...openIdVariables(openid.url), SERVICE_OUTBOUND_ALLOW: '127.0.0.1' },
  });
  running.push(server);
  return server;
}
