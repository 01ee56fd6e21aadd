/** Cuts text into the words that searches go by: the same for both databases, and for what is stored and what is asked. */

/** A word with the place where it stands in the text. */
export interface FoundWord {
  readonly word: string;
  readonly start: number;
  readonly end: number;
}

/** Longer ones are no words but data: their beginning is enough to find them. */
const longestWord = 64;
/** More of one text is not searched. */
const longestText = 50_000;

/** Scripts that write no spaces: each two neighbours are a word. */
const unspaced =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u;
const runs = new RegExp(
  `(?:${unspaced.source}\\p{M}*)+|(?:(?!${unspaced.source})[\\p{L}\\p{N}]\\p{M}*)+`,
  'gu',
);
/** Where a name like parseConfig or HTTPServer has a new word within. */
const humps = /(?<=[\p{Ll}\p{N}])(?=\p{Lu})|(?<=\p{Lu})(?=\p{Lu}\p{Ll})/u;

const capital = /\p{Lu}/u;

/** The words of a text in their order, names like `parseConfig` whole and in parts. */
export function* wordsIn(text: string): Generator<FoundWord> {
  for (const { 0: run, index } of text.slice(0, longestText).matchAll(runs)) {
    if (unspaced.test(run)) yield* pairs(run, index);
    else yield* names(run, index);
  }
}

/** A word to look for. */
export interface SearchTerm {
  readonly word: string;
  /** Whether it may be the beginning of a longer word. */
  readonly prefix: boolean;
}

/** What is asked for: each word may be the beginning of a longer one, except where every two neighbours are a word. */
export function searchTerms(query: string): SearchTerm[] {
  const terms = new Map<string, SearchTerm>();
  for (const [run] of query.matchAll(runs)) {
    for (const term of unspaced.test(run) ? pairTerms(run) : [nameTerm(run)])
      if (term.word !== '') terms.set(term.word, term);
    if (terms.size >= mostTerms) break;
  }
  return [...terms.values()].slice(0, mostTerms);
}

/** Nobody means more; each costs a look into the index. */
const mostTerms = 16;
/** Shorter ones begin too many words to tell anything apart. */
const shortestPrefix = 3;

function nameTerm(run: string): SearchTerm {
  const word = folded(run);
  return { word, prefix: word.length >= shortestPrefix };
}

function pairTerms(run: string): SearchTerm[] {
  const all = [...pairs(run, 0)];
  const paired = all.filter(({ single }) => !single);
  return (paired.length > 0 ? paired : all).map(({ word }) => ({ word, prefix: false }));
}

function* pairs(run: string, index: number): Generator<FoundWord & { readonly single: boolean }> {
  const signs = [...run.matchAll(/.\p{M}*/gsu)];
  for (const [place, { 0: sign, index: at }] of signs.entries()) {
    const start = index + at;
    yield { word: folded(sign), start, end: start + sign.length, single: true };
    const next = signs[place + 1];
    if (!next) return;
    const end = start + sign.length + next[0].length;
    yield { word: folded(sign + next[0]), start, end, single: false };
  }
}

function* names(run: string, index: number): Generator<FoundWord> {
  yield { word: folded(run), start: index, end: index + run.length };
  if (!capital.test(run)) return;
  const parts = run.split(humps);
  if (parts.length === 1) return;
  let start = index;
  for (const part of parts) {
    yield { word: folded(part), start, end: start + part.length };
    start += part.length;
  }
}

/** Without capitals, accents and other spellings of the same sign. */
function folded(word: string): string {
  // Most words: the rest takes several times as long, and changes nothing of them.
  if (plainWord.test(word)) return word.slice(0, longestWord).toLowerCase();
  // Marks are put in order one by one: of a word of thousands, that takes a second.
  const plain = word
    .slice(0, 4 * longestWord)
    .normalize('NFKD')
    .toLowerCase()
    .replaceAll(/\p{Mn}/gu, '')
    .normalize('NFC');
  // Unfolding a sign can give what is no letter.
  return [...plain.replaceAll(/[^\p{L}\p{N}\p{M}]/gu, '')].slice(0, longestWord).join('');
}

const plainWord = /^[\da-z]+$/i;
