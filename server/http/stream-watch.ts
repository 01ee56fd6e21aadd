/** Ends open streams before their time: when their credential is revoked, and when the server stops. */
import { Problem } from '../problem.ts';
import type { Caller, Ports } from './ports.ts';

/** Revocation has to act on open streams within five seconds. */
const checkMs = 2_500;

interface Watched {
  readonly caller: Caller;
  /** Whether a stream that ends early can be read on from the last id. */
  readonly resumable: boolean;
  readonly end: AbortController;
}

export interface StreamWatch {
  /** Watches a stream from now on: `end` aborts when it has to end, with the reason. */
  watch(caller: Caller, resumable: boolean): { readonly end: AbortSignal; readonly forget: () => void };
  /** The server stops: what is still open is told so, and ends. */
  endAll(): void;
}

export function createStreamWatch(ports: Ports): StreamWatch {
  const watched = new Set<Watched>();
  const check = createCheck(watched, ports);
  setInterval(check, checkMs).unref();
  let ending = false;
  return {
    watch(caller, resumable) {
      const entry = { caller, resumable, end: new AbortController() };
      watched.add(entry);
      // What was still thinking when the others were told is told as it begins.
      if (ending) entry.end.abort(stopping(resumable));
      return { end: entry.end.signal, forget: () => watched.delete(entry) };
    },
    endAll() {
      ending = true;
      for (const { end, resumable } of watched) end.abort(stopping(resumable));
    },
  };
}

function stopping(resumable: boolean): Problem {
  const then = resumable ? 'connect again, and continue after the last id' : 'try again later';
  return new Problem('draining', `The server is stopping; ${then}.`);
}

/** A slow database must not pile up questions. */
function createCheck(watched: ReadonlySet<Watched>, ports: Ports): () => void {
  let busy = false;
  return () => {
    if (busy || watched.size === 0) return;
    busy = true;
    void endRevoked(watched, ports).finally(() => {
      busy = false;
    });
  };
}

/** A thousand credentials one after the other would take longer than a revocation may; more at once are too many for the pool. */
const askedAtOnce = 4;

/** Asks once a credential, however many streams it has open. */
async function endRevoked(watched: ReadonlySet<Watched>, ports: Ports): Promise<void> {
  const groups = Map.groupBy(watched, ({ caller }) => caller.credentialId).values();
  const askEach = async () => {
    for (const group of groups) await endRevokedOf(group, ports);
  };
  await Promise.all(Array.from({ length: askedAtOnce }, askEach));
}

/** Of one credential. */
async function endRevokedOf(group: readonly Watched[], ports: Ports): Promise<void> {
  const valid = await stillValid(
    group.map(({ caller }) => caller),
    ports,
  );
  const reason = new Problem(
    'credential_invalid',
    'The credential was revoked, or has lost a right; log in again, or use another key.',
  );
  for (const [index, { end }] of group.entries()) if (valid[index] === false) end.abort(reason);
}

/** While the database is away nobody can tell; streams that need it fail by themselves. */
async function stillValid(callers: readonly Caller[], ports: Ports): Promise<readonly boolean[]> {
  try {
    return await ports.identity.stillValid(callers);
  } catch (error) {
    ports.log.warn({ err: error }, 'could not check the credential of a stream');
    return callers.map(() => true);
  }
}
