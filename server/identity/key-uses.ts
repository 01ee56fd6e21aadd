/** Notes how often and from where API keys are used, behind the answers and once a minute for each. */
import type { Clock } from '../clock.ts';
import type { Log } from '../log.ts';
import type { ApiKeyOwner, PrincipalRecords } from './records.ts';

export interface KeyUses {
  /** The caller does not wait for it, and a failure costs only the note. */
  note(key: Pick<ApiKeyOwner['apiKey'], 'id' | 'lastUsedAt'>, address: string | null): void;
  /** Writes what is not written yet. */
  settled(): Promise<void>;
}

/** The last use is noted once in this time: exact enough to find keys that nobody needs. */
const noteUseEveryMs = 60_000;

interface Uncounted {
  requests: number;
  address: string | null;
  readonly timer: NodeJS.Timeout;
}

export function createKeyUses(principals: PrincipalRecords, clock: Clock, log: Log): KeyUses {
  const notes = new Set<Promise<void>>();
  const uncounted = new Map<string, Uncounted>();

  function write(id: string, requests: number, address: string | null): void {
    const note = principals
      .touchApiKey(id, { at: clock.now(), address, requests })
      .catch((error: unknown) =>
        log.error({ err: error, api_key_id: id }, 'the last use of an API key is not noted'),
      )
      .finally(() => notes.delete(note));
    notes.add(note);
  }

  function flush(id: string): void {
    const counted = uncounted.get(id);
    if (!counted) return;
    clearTimeout(counted.timer);
    uncounted.delete(id);
    if (counted.requests > 0) write(id, counted.requests, counted.address);
  }

  return {
    note({ id, lastUsedAt }, address) {
      const counted = uncounted.get(id);
      const stale = !lastUsedAt || clock.now().getTime() - lastUsedAt.getTime() >= noteUseEveryMs;
      // The first of many at once is written; the others are counted behind it.
      if (!counted && stale) write(id, 1, address);
      if (!counted) {
        const timer = setTimeout(() => flush(id), noteUseEveryMs).unref();
        uncounted.set(id, { requests: stale ? 0 : 1, address, timer });
        return;
      }
      counted.requests += 1;
      counted.address = address;
    },
    async settled() {
      for (const id of uncounted.keys()) flush(id);
      while (notes.size > 0) await Promise.all(notes);
    },
  };
}
