/** The last events of the runs at work here, after they were stored: whoever keeps up with a run need not ask the store. */
import type { NumberedEvent } from '../transcript.ts';

/** Of each run; a reader that falls behind reads from the store again. */
const mostEvents = 32;
const mostCharacters = 32 * 1024;

export interface RecentEvents {
  add(runId: string, events: readonly NumberedEvent[]): void;
  /** All that came behind that number; null where that is not known, or nothing is. */
  after(runId: string, seq: number): readonly NumberedEvent[] | null;
  forget(runId: string): void;
}

interface Recent {
  readonly event: NumberedEvent;
  readonly characters: number;
}

export function createRecentEvents(): RecentEvents {
  const runs = new Map<string, Recent[]>();
  return {
    add(runId, events) {
      // The store may have given the last events other numbers than they were given here.
      if (events.some(({ name }) => name === 'done' || name === 'error')) return void runs.delete(runId);
      const known = runs.get(runId) ?? [];
      // Others may have worked on the run in between: what is given out has no gap.
      const recent = known.at(-1)?.event.seq === (events[0]?.seq ?? 0) - 1 ? known : [];
      for (const event of events) recent.push({ event, characters: charactersIn(event.data) });
      runs.set(runId, newest(recent));
    },
    after(runId, seq) {
      const recent = runs.get(runId) ?? [];
      const at = recent.findIndex(({ event }) => event.seq === seq + 1);
      return at < 0 ? null : recent.slice(at).map(({ event }) => event);
    },
    forget: (runId) => void runs.delete(runId),
  };
}

function newest(recent: readonly Recent[]): Recent[] {
  let characters = 0;
  const tooMuch = recent.findLastIndex((one) => {
    characters += one.characters;
    return characters > mostCharacters;
  });
  return recent.slice(Math.max(tooMuch + 1, recent.length - mostEvents));
}

/** About as many as its JSON would have. */
function charactersIn(value: unknown): number {
  if (typeof value === 'string') return value.length;
  if (typeof value !== 'object' || value === null) return 8;
  return Object.entries(value).reduce((sum, [key, member]) => sum + key.length + charactersIn(member), 8);
}
