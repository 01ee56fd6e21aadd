/** How many tokens a text has for an embedder, told without its vocabulary: rather too many than too few. */

/**
 * Letters of Latin script stand together, and so do digits; of any other script each letter is a token of its own, as
 * it is for a vocabulary of English. Blanks count only where there are very many: else a passage could be of any length.
 */
const words = /[\p{Script=Latin}\p{M}]+|\p{N}+|\s{64}|[^\s]/gu;

/** The vocabulary has most English words of up to so many letters whole; longer ones are cut about as often. */
const lettersPerToken = 6;
const digitsPerToken = 2;

/** Where each token of a text begins; one more says where the last one ends. */
export function tokenStarts(text: string): Uint32Array {
  const starts: number[] = [];
  let end = 0;
  for (const { 0: word, index } of text.matchAll(words)) {
    end = index + word.length;
    const step = stepOf(word);
    // A letter may be two units long: it is never cut in the middle.
    const isPlain = word.length <= step || !/[\ud800-\udfff]/.test(word);
    for (let at = index; at < end; at += isPlain ? step : unitsOf(text, at, step)) starts.push(at);
  }
  starts.push(end);
  return Uint32Array.from(starts);
}

function stepOf(word: string): number {
  if (/^\s/.test(word)) return word.length;
  return /^\p{N}/u.test(word) ? digitsPerToken : lettersPerToken;
}

function unitsOf(text: string, at: number, letters: number): number {
  let units = 0;
  for (let letter = 0; letter < letters; letter += 1)
    units += (text.codePointAt(at + units) ?? 0) > 0xffff ? 2 : 1;
  return units;
}

/** The first position in a sorted list that is not below the value. */
export function firstNotBelow(sorted: Uint32Array, value: number): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? 0) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function countTokens(text: string): number {
  return tokenStarts(text).length - 1;
}
