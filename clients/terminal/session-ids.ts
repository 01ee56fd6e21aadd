/** Sessions by their id, or by enough of its end: the begin of an id is a time, and many sessions share it. */
import type { ServiceClient } from '@service/client';
import type { Session } from '@service/client/api';
import { paginate } from '@service/client/pagination';
import { CommandFailure } from './failures.ts';
import { printable } from './output.ts';

const wholeId = /^ses_[0-9a-hjkmnp-tv-z]{26}$/;
const shortest = 6;

/** The one session that is meant. */
export async function findSession(
  client: ServiceClient,
  given: string,
  signal: AbortSignal | null = null,
): Promise<Session> {
  const end = given.trim().toLowerCase();
  if (wholeId.test(end)) {
    const params = { path: { session_id: end } };
    return (await client.GET('/api/v1/sessions/{session_id}', { params, signal })).data;
  }
  const found = (await allSessions(client, signal)).filter(({ id }) => end !== '' && id.endsWith(end));
  const [only] = found;
  if (only && found.length === 1) return only;
  throw found.length === 0 ? noSuchSession(given) : new CommandFailure(ambiguous(given, found));
}

/** The session of this project that was used last, where the service is that of the project; null where there is none. */
export async function latestSession(client: ServiceClient, signal: AbortSignal): Promise<Session | null> {
  const query = { sort: '-updated_at', limit: 1 } as const;
  const { data } = await client.GET('/api/v1/sessions', { params: { query }, signal });
  return data.data[0] ?? null;
}

/** How much of the end of each id tells it from the others. */
export function shortIds(ids: readonly string[]): (id: string) => string {
  let length = shortest;
  while (length < 30 && new Set(ids.map((id) => id.slice(-length))).size < new Set(ids).size) length += 1;
  return (id) => id.slice(-length);
}

async function allSessions(client: ServiceClient, signal: AbortSignal | null): Promise<readonly Session[]> {
  const lists = [false, true].map((archived) =>
    Array.fromAsync(
      paginate((page) =>
        client.GET('/api/v1/sessions', { params: { query: { ...page, archived, limit: 100 } }, signal }),
      ),
    ),
  );
  return (await Promise.all(lists)).flat();
}

/** Says how to find one that there is. */
export function noSuchSession(given: string): CommandFailure {
  return new CommandFailure(
    `There is no session whose id is or ends with ${JSON.stringify(given)}. service sessions list shows those that are there.`,
  );
}

function ambiguous(given: string, found: readonly Session[]): string {
  const lines = found.slice(0, 10).map(({ id, title }) => `  ${id}  ${printable(title)}`);
  const more = found.length > lines.length ? [`  and ${found.length - lines.length} more`] : [];
  return [
    `${found.length} sessions end with ${JSON.stringify(given)}. Name more of the id:`,
    ...lines,
    ...more,
  ].join('\n');
}
