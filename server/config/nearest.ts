/** Finds the word that was probably meant. */

/** The known word nearest to the given one, or null where none is near enough to be meant. */
export function nearest(word: string, known: readonly string[]): string | null {
  const plain = fold(word);
  const ranked = known
    .map((candidate) => ({ candidate, distance: distance(plain, fold(candidate)) }))
    .sort((one, other) => one.distance - other.distance);
  const [best] = ranked;
  return best && best.distance <= Math.max(1, Math.floor(plain.length / 3)) ? best.candidate : null;
}

/** maxTokens, max-tokens and max_tokens are one word. Long words are cut: comparing costs the square of the length. */
function fold(word: string): string {
  return word
    .slice(0, 64)
    .toLowerCase()
    .replaceAll(/[_\s-]/g, '');
}

/** How many letters must be added, removed, changed or swapped with their neighbour. */
function distance(one: string, other: string): number {
  const rows = Array.from({ length: one.length + 1 }, (_, i) => [i]);
  const at = (i: number, j: number) => rows[i]?.[j] ?? (i < 0 || j < 0 ? Number.POSITIVE_INFINITY : j);
  for (let i = 0; i <= one.length; i++) {
    for (let j = 1; j <= other.length; j++) {
      if (i === 0) rows[0]?.push(j);
      else rows[i]?.push(cheapest(one, other, i, j, at));
    }
  }
  return at(one.length, other.length);
}

function cheapest(
  one: string,
  other: string,
  i: number,
  j: number,
  at: (i: number, j: number) => number,
): number {
  const same = one[i - 1] === other[j - 1];
  const swapped = one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
  return Math.min(
    at(i - 1, j) + 1,
    at(i, j - 1) + 1,
    at(i - 1, j - 1) + (same ? 0 : 1),
    swapped && i > 1 && j > 1 ? at(i - 2, j - 2) + 1 : Number.POSITIVE_INFINITY,
  );
}
