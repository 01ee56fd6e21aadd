/** Answers the same question, asked by many at once, with one query. */
import { outsideHeld } from './held-transaction.ts';

/** How long more of those gather who ask while a query is under way: one alone never waits. */
const gatherMs = 3;

/**
 * A query begins after the last of those whom it answers has asked, so that whatever was changed before is seen: nothing
 * is remembered between queries. It is asked in the words of the last; `keyOf` says which questions are the same.
 */
export function joined<Question, Rest extends unknown[], Answer>(
  keyOf: (question: Question) => string,
  ask: (question: Question, ...rest: Rest) => Promise<Answer>,
): (question: Question, ...rest: Rest) => Promise<Answer> {
  const under = new Map<string, Promise<unknown>>();
  const next = new Map<string, { asked: [Question, ...Rest]; readonly answer: Promise<Answer> }>();

  function begin(key: string, asked: [Question, ...Rest]): Promise<Answer> {
    const answer = outsideHeld(() => ask(...asked));
    const over = answer
      .catch(() => undefined)
      .then(() => {
        if (under.get(key) === over) under.delete(key);
      });
    under.set(key, over);
    return answer;
  }

  return (...asked) => {
    const key = keyOf(asked[0]);
    const present = under.get(key);
    if (!present) return begin(key, asked);
    const waiting = next.get(key);
    if (waiting) {
      waiting.asked = asked;
      return waiting.answer;
    }
    const query: { asked: [Question, ...Rest]; readonly answer: Promise<Answer> } = {
      asked,
      answer: present.then(gathered).then(() => {
        next.delete(key);
        return begin(key, query.asked);
      }),
    };
    next.set(key, query);
    return query.answer;
  };
}

function gathered(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, gatherMs));
}
