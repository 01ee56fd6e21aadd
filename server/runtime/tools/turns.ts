// Whose turn it is where many workspaces want what there are only a few of.

export interface TurnsOptions {
  /** At work at once. */
  readonly most: number;
  /** How many may wait; one more is refused. */
  readonly mostWaiting: number;
  /** What whoever is refused is told. */
  readonly refusal: () => Error;
}

export interface Turns {
  /** Resolves when it is the turn of one more of this workspace, which then has to leave. */
  take(workspace: string, signal: AbortSignal): Promise<void>;
  leave(workspace: string): void;
  counts(): { readonly atWork: number; readonly waiting: number };
}

type Line = (() => void)[];

/**
 * Workspaces take turns, each in the order in which it asked. No one of them has more than half, at work or in the line: what
 * hangs cannot be told from what works until its time is up, and others must not wait for that.
 */
export function createTurns({ most, mostWaiting, refusal }: TurnsOptions): Turns {
  const [mostOfOne, mostWaitingOfOne] = [halfOf(most), halfOf(mostWaiting)];
  const atWork = new Map<string, number>();
  /** The first is next: whoever has had a turn goes to the end. */
  const lines = new Map<string, Line>();
  const allAtWork = () => sum(atWork.values());
  const allWaiting = () => sum([...lines.values()].map((line) => line.length));
  const hasRoom = (workspace: string) => (atWork.get(workspace) ?? 0) < mostOfOne;
  const count = (workspace: string, change: 1 | -1) => {
    const now = (atWork.get(workspace) ?? 0) + change;
    if (now === 0) atWork.delete(workspace);
    else atWork.set(workspace, now);
  };
  return {
    async take(workspace, signal) {
      signal.throwIfAborted();
      // Whoever waits has no room while there is any: nobody is overtaken.
      if (allAtWork() < most && hasRoom(workspace)) return count(workspace, 1);
      const line = lines.get(workspace) ?? [];
      if (line.length >= mostWaitingOfOne || allWaiting() >= mostWaiting) throw refusal();
      lines.set(workspace, line);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const onAbort = () => {
        const at = line.indexOf(resolve);
        if (at >= 0) line.splice(at, 1);
        if (line.length === 0) lines.delete(workspace);
        reject(signal.reason);
      };
      line.push(resolve);
      signal.addEventListener('abort', onAbort, { once: true });
      // Its turn is counted by whoever gives it.
      await promise.finally(() => signal.removeEventListener('abort', onAbort));
    },
    leave(workspace) {
      count(workspace, -1);
      const next = [...lines].find(([one]) => hasRoom(one));
      if (!next) return;
      const [one, line] = next;
      const begin = line.shift();
      lines.delete(one);
      if (line.length > 0) lines.set(one, line);
      count(one, 1);
      begin?.();
    },
    counts: () => ({ atWork: allAtWork(), waiting: allWaiting() }),
  };
}

function halfOf(number: number): number {
  return Math.max(1, Math.floor(number / 2));
}

function sum(numbers: Iterable<number>): number {
  let all = 0;
  for (const number of numbers) all += number;
  return all;
}
