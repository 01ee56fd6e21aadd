/** While one thing is prepared, the same question is asked of the database once: where changes cannot be told, nothing else is remembered. */
import { AsyncLocalStorage } from 'node:async_hooks';

/** How old an answer may be: whoever prepares may wait for a model, and what is revoked meanwhile is to be seen. */
const freshMs = 1000;

interface Asked {
  readonly answer: Promise<unknown>;
  readonly at: number;
}

interface Preparing {
  /** By who asks, and the key of the question. */
  readonly asked: Map<object, Map<string, Asked>>;
  over: boolean;
}

const current = new AsyncLocalStorage<Preparing>();

/**
 * Prepares something: the start of a run, or its next step. What goes on behind it once it is over asks for itself again.
 * Nothing that is remembered may be changed in there.
 */
export async function preparing<T>(work: () => Promise<T>): Promise<T> {
  if (current.getStore()?.over === false) return await work();
  const begun: Preparing = { asked: new Map(), over: false };
  try {
    return await current.run(begun, work);
  } finally {
    begun.over = true;
    begun.asked.clear();
  }
}

/** The answer that whoever prepares has been given a moment ago. What failed, or is not there, is asked for each time. */
export function askedOnce<Answer>(asker: object, key: string, ask: () => Promise<Answer>): Promise<Answer> {
  const asking = current.getStore();
  if (!asking || asking.over) return ask();
  const answers = asking.asked.get(asker) ?? new Map<string, Asked>();
  asking.asked.set(asker, answers);
  const known = answers.get(key);
  // Whoever asks with the same key wants the same answer.
  if (known && performance.now() - known.at < freshMs) return known.answer as Promise<Answer>;
  const asked = { answer: ask(), at: performance.now() };
  answers.set(key, asked);
  const drop = () => {
    if (answers.get(key) === asked) answers.delete(key);
  };
  asked.answer.then((answer) => answer ?? drop(), drop);
  return asked.answer;
}
