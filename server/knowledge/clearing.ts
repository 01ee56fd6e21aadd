/** Clears away what deleted corpora have left, part by part in the background: nobody who deletes one waits for it. */
import type { Log } from '../log.ts';

export type ClearingOptions = {
  /** Deletes a part of it; 0 where nothing is left. */
  readonly chunks: { clear(): Promise<number> };
  readonly log: Log;
  /** How often somebody looks whether there is something. */
  readonly pollMs?: number;
};

export type Clearing = {
  /** Ends after the part that it is at; the next start goes on. */
  close(): Promise<void>;
};

export function startClearing({ chunks, log, pollMs = 5000 }: ClearingOptions): Clearing {
  let closing = false;
  let working: Promise<void> | null = null;

  const clearAll = async (): Promise<void> => {
    while (!closing && (await chunks.clear()) > 0);
  };
  const look = (): void => {
    working ??= clearAll()
      .catch((error: unknown) =>
        log.error({ err: error }, 'what deleted corpora have left could not be deleted; it is tried again'),
      )
      .finally(() => {
        working = null;
      });
  };

  const timer = setInterval(look, pollMs).unref();
  look();
  return {
    async close() {
      clearInterval(timer);
      closing = true;
      await working;
    },
  };
}
