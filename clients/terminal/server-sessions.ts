/** Which session of a server this project went on in last: those that can be reached there are of many people and projects. */
import { createHash } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ServiceClient } from '@service/client';
import type { Session } from '@service/client/api';
import { ServiceError } from '@service/client/errors';
import { CommandFailure } from './failures.ts';
import { serverOrigin } from './logins/server-address.ts';
import { nextCommand } from './next-command.ts';
import { currentPlaces } from './places.ts';

/** From now on it is the latest one of this project there. */
export async function keepLatest(server: string, sessionId: string): Promise<void> {
  try {
    const file = await fileFor(server);
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    const { replaceFile } = await import('../../server/config/config.ts');
    await replaceFile(file, Buffer.from(`${sessionId}\n`), { mode: 0o600 });
  } catch {
    // No run fails for want of it, as where a home cannot be written to: the session can still be named.
  }
}

/** The session of this project that was used last there, by whoever works here. */
export async function latestThere(
  client: ServiceClient,
  server: string,
  signal: AbortSignal,
): Promise<Session> {
  const id = (await readFile(await fileFor(server), 'utf8').catch(() => '')).trim();
  if (id === '') throw noneToGoOnIn(server, 'No session was begun from this project');
  const params = { path: { session_id: id } };
  try {
    return (await client.GET('/api/v1/sessions/{session_id}', { params, signal })).data;
  } catch (error) {
    if (!(error instanceof ServiceError) || error.status !== 404) throw error;
    throw noneToGoOnIn(server, `The latest session of this project, ${id}, is not there any more`);
  }
}

async function fileFor(server: string): Promise<string> {
  const { dataHome, projectRoot } = await currentPlaces();
  const name = createHash('sha256')
    .update(`${serverOrigin(server)}\n${projectRoot}`)
    .digest('hex');
  return join(dataHome, 'server-sessions', name.slice(0, 20));
}

function noneToGoOnIn(server: string, why: string): CommandFailure {
  const list = nextCommand('sessions list', server, '').trimEnd();
  return new CommandFailure(
    `${why} on ${serverOrigin(server)}. Leave out --continue to begin one, or name one with --session: ${list}`,
  );
}
