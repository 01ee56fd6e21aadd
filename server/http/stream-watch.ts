/** Ends open streams before their time: when their credential is revoked, and when the server stops. */
import { Problem } from '../problem.ts';
import type { Caller, Ports } from './ports.ts';

/** Revocation has to act on open streams within five seconds. */
const checkMs = 2_500;
/** How long streams may go on once the server drains; the runs of this process end theirs before. */
const drainMs = 10_000;

interface Watched {
  readonly caller: Caller;
  readonly end: AbortController;
}

/** Watches a stream from now on: `end` aborts when it has to end, with the reason. */
export type WatchStream = (caller: Caller) => { readonly end: AbortSignal; readonly forget: () => void };

export function watchStreams(ports: Ports): WatchStream {
  const watched = new Set<Watched>();
  const check = createCheck(watched, ports);
  setInterval(check, checkMs).unref();
  return (caller) => {
    const entry = { caller, end: new AbortController() };
    watched.add(entry);
    return { end: entry.end.signal, forget: () => watched.delete(entry) };
  };
}

function createCheck(watched: ReadonlySet<Watched>, ports: Ports): () => void {
  let drainingSince: number | null = null;
  let busy = false;
  return () => {
    if (ports.draining()) drainingSince ??= Date.now();
    if (drainingSince !== null && Date.now() - drainingSince >= drainMs) return endForGood(watched);
    if (busy || watched.size === 0) return;
    busy = true;
    void endRevoked(watched, ports).finally(() => {
      busy = false;
    });
  };
}

function endForGood(watched: ReadonlySet<Watched>): void {
  const reason = new Problem(
    'draining',
    'The server is stopping; connect again and continue after the last id.',
  );
  for (const { end } of watched) end.abort(reason);
}

/** Asks once a credential, however many streams it has open. */
async function endRevoked(watched: ReadonlySet<Watched>, ports: Ports): Promise<void> {
  const groups = Map.groupBy(watched, ({ caller }) => caller.credentialId);
  for (const group of groups.values()) {
    const [first] = group;
    if (first === undefined || (await stillValid(first.caller, ports))) continue;
    const reason = new Problem(
      'credential_invalid',
      'The credential was revoked; log in again, or use another key.',
    );
    for (const { end } of group) end.abort(reason);
  }
}

/** While the database is away nobody can tell; streams that need it fail by themselves. */
async function stillValid(caller: Caller, ports: Ports): Promise<boolean> {
  try {
    return await ports.identity.stillValid(caller);
  } catch (error) {
    ports.log.warn({ err: error }, 'could not check the credential of a stream');
    return true;
  }
}
