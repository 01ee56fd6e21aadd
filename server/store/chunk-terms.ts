/** What of a passage ranking by words counts: its words without their endings, and how often each comes. */
import { stemmer } from 'stemmer';
import { wordsIn } from './search-words.ts';

/** Words with their counts, in the order of their first coming. */
export type TermCounts = ReadonlyMap<string, number>;

/** The words of a passage or of a question: the same for both, and on both engines. */
export function termsIn(text: string): TermCounts {
  const counts = new Map<string, number>();
  for (const { word } of wordsIn(text)) {
    if (word === '' || unsaying.has(word)) continue;
    const term = stemOf(word);
    counts.set(term, (counts.get(term) ?? 0) + 1);
  }
  return counts;
}

/** As they are stored: ` word:2 other:1 `. */
export function storedTerms(counts: TermCounts): string {
  return ` ${[...counts].map(([term, count]) => `${term}:${count}`).join(' ')} `;
}

/** How often a word comes in stored terms. */
export function countIn(stored: string, term: string): number {
  const at = stored.indexOf(` ${term}:`);
  if (at < 0) return 0;
  const start = at + term.length + 2;
  return Number(stored.slice(start, stored.indexOf(' ', start)));
}

export function storedWords(stored: string): string[] {
  return stored
    .split(' ')
    .filter((entry) => entry !== '')
    .map((entry) => entry.slice(0, entry.lastIndexOf(':')));
}

/** The stemmer is for English: other scripts stay as they are, and so does what is no word but a number or a name. */
const english = /^[a-z]{3,}$/;
const stems = new Map<string, string>();
const mostStems = 20_000;

/** Stemming is most of the work of reading, and a few words are most of a text. */
function stemOf(word: string): string {
  if (!english.test(word)) return word;
  const known = stems.get(word);
  if (known !== undefined) return known;
  const stem = stemmer(word);
  if (stems.size >= mostStems) stems.clear();
  stems.set(word, stem);
  return stem;
}

/**
 * Words of grammar, which stand in every English passage and say of none what it is about. A ranking gives them little
 * weight anyway; leaving them out spares the longest lists of the index, and keeps small corpora from ranking by them.
 */
const unsaying: ReadonlySet<string> = new Set(
  `a about above after again all also am an and any are as at be because been before being below between both but by
  can cannot could did do does doing down during each few for from further had has have having he her here hers herself
  him himself his how i if in into is it its itself just me more most my myself no nor not now of off on once only or
  other our ours ourselves out over own same she should so some such than that the their theirs them themselves then
  there these they this those through to too under until up very was we were what when where which while who whom why
  will with would you your yours yourself yourselves`.split(/\s+/),
);
