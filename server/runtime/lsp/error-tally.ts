/** How often each error stands in a file, by its message: lines move with each edit. */

/** Null is for errors beyond those that are held. */
export type Tally = ReadonlyMap<string | null, number>;

/** Of a file it publishes some errors and answers with others, and what was found of them before may come back. */
const mostTallies = 4;
/** Of a server whose messages are others each time, the earliest are forgotten. */
const mostMessages = 2000;
const noErrors: Tally = new Map();

/** Of the messages that are held, of so many in all. */
export function tallyOf(messages: readonly string[], total: number): Tally {
  if (total === 0) return noErrors;
  const tally = new Map<string | null, number>();
  for (const message of messages) tally.set(message, (tally.get(message) ?? 0) + 1);
  if (total > messages.length) tally.set(null, total - messages.length);
  return tally;
}

/** How often it stands in the one of them that has it most often. */
export function countIn(tallies: readonly Tally[], message: string | null): number {
  let most = 0;
  for (const tally of tallies) most = Math.max(most, tally.get(message) ?? 0);
  return most;
}

/** Whether all of it stands in the others. Mostly it is one of them, and nothing has to be compared. */
export function isWithin(tally: Tally, others: readonly Tally[]): boolean {
  if (others.includes(tally)) return true;
  for (const [message, count] of tally)
    if (!others.some((other) => (other.get(message) ?? 0) >= count)) return false;
  return true;
}

/** What stands in either, each as often as in the one that has it more often: what is within one is within this. */
export function merged(one: Tally, other: Tally): Tally {
  const both = new Map(one);
  for (const [message, count] of other) both.set(message, Math.max(count, one.get(message) ?? 0));
  return both.size > mostMessages ? new Map([...both].slice(-mostMessages)) : both;
}

/** With one more, where it is not in them; what is in it goes, and of too many the earliest become one. */
export function withTally(tallies: readonly Tally[], tally: Tally): readonly Tally[] {
  if (tallies.includes(tally)) return tallies;
  const others = tallies.filter((other) => !isWithin(other, [tally]));
  if (isWithin(tally, others)) return others;
  const [first, second, ...rest] = [...others, tally];
  return first && second && rest.length + 2 > mostTallies
    ? [merged(first, second), ...rest]
    : [...others, tally];
}

/** What of it stands in the others. */
export function common(tally: Tally, others: readonly Tally[]): Tally {
  if (isWithin(tally, others)) return tally;
  const counts = [...tally].map(
    ([message, count]) => [message, Math.min(count, countIn(others, message))] as const,
  );
  return new Map(counts.filter(([, count]) => count > 0));
}
