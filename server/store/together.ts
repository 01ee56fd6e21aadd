/** Does in one transaction what many ask for at once: where one connection writes for all, each would wait for those before it. */

/** How long more of it gathers at most, where there was more than one: nobody notices it. */
const gatherMs = 20;
const mostTogether = 200;

interface Waiting<Work, Result> {
  readonly work: Work;
  readonly done: (result: Result) => void;
  readonly failed: (error: unknown) => void;
}

export interface Together<Work, Result> {
  /** Settles once it is stored, or could not be. */
  add(work: Work): Promise<Result>;
  waiting(): number;
}

/**
 * `doAll` is all or nothing. Where it fails, each is done alone: what cannot be done of one is no matter of the others.
 * Nobody waits for more to come while `moreMayCome` says that there will be none.
 */
export function together<Work, Result>(
  doAll: (all: readonly Work[]) => Promise<readonly Result[]>,
  moreMayCome: () => boolean,
): Together<Work, Result> {
  const waiting: Waiting<Work, Result>[] = [];
  let busy = false;
  let gathered: (() => void) | null = null;

  const gather = (): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(() => gathered?.(), gatherMs);
      gathered = () => {
        clearTimeout(timer);
        gathered = null;
        resolve();
      };
    });

  const doWaiting = async (): Promise<void> => {
    busy = true;
    while (waiting.length > 0) {
      const all = waiting.splice(0, mostTogether);
      await settle(all);
      // One alone is not held up; where there are several, each transaction serves as many as it can.
      if (all.length > 1) await gather();
    }
    busy = false;
  };

  /** Never rejects: each is told how it went. */
  const settle = async (all: readonly Waiting<Work, Result>[]): Promise<void> => {
    try {
      const results = await doAll(all.map(({ work }) => work));
      for (const [index, { done }] of all.entries()) done(results[index] as Result); // as many as there was work
    } catch (error) {
      if (all.length === 1) all[0]?.failed(error);
      else for (const one of all) await settle([one]);
    }
  };

  return {
    add(work) {
      const { promise, resolve: done, reject: failed } = Promise.withResolvers<Result>();
      waiting.push({ work, done, failed });
      if (!busy) void doWaiting();
      else if (!moreMayCome()) gathered?.();
      return promise;
    },
    waiting: () => waiting.length,
  };
}
