/** Remembers the answers to questions for as long as nothing in the database has changed. */
import { keepNewest } from '../keep-newest.ts';
import { askedOnce } from './asked-once.ts';
import type { Database } from './database.ts';
import { heldTransaction } from './held-transaction.ts';
import { joined } from './joined.ts';

/** Of one kind of question. */
const most = 2000;

/**
 * Whether anything has changed is asked each time, so that what somebody has revoked is revoked for the next request. Who
 * asks for what is not there is told each time. Where changes cannot be told, it is `joined`, and asked once by whoever is
 * `preparing` something.
 */
export function remembered<Question, Rest extends unknown[], Answer>(
  database: Pick<Database, 'version'>,
  keyOf: (question: Question) => string,
  ask: (question: Question, ...rest: Rest) => Promise<Answer>,
): (question: Question, ...rest: Rest) => Promise<Answer> {
  const asked = joined(keyOf, ask);
  const kept = new Map<string, Answer & {}>();
  let keptAt: number | null = null;

  return async (...given) => {
    // It sees what it has written itself, and has a connection, for which those may wait whom it would wait for.
    if (heldTransaction()?.begun) return await ask(...given);
    const version = database.version();
    if (version === null) return await askedOnce(asked, keyOf(given[0]), () => asked(...given));
    if (version !== keptAt) kept.clear();
    keptAt = version;
    const key = keyOf(given[0]);
    const known = kept.get(key);
    if (known !== undefined) return known;
    const answer = await asked(...given);
    // The query began after the version was asked for; whoever has found another since knows more.
    if (keptAt === version && answer != null) keepNewest(kept, key, answer, most);
    return answer;
  };
}
